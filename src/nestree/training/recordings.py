"""Work for a GPU as CUDA graphs: recorded once for each shape, then started by a single call.

A GPU computes a small encoder faster than Python can ask for its thousand kernels. Sentences of similar length go
together, and widths are rounded up, so that a few dozen shapes cover a corpus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nestree.training.notes import Notes

Input = Tensor | float
Work = Callable[..., Tensor | None]
"""Asks a GPU for something, without looking at a single number that it computes."""

MOST = 64
"""Recordings that are kept. What is rarer is computed kernel by kernel."""


def recordings_for(accelerator: Any, notes: Notes, *, wanted: bool) -> Recordings | None:
    """Recordings, if they are wanted and possible.

    With a scaler, as for fp16, they are not: the factor of the loss is kept elsewhere and changes.
    """
    if accelerator.device.type != "cuda" or accelerator.scaler or not wanted:
        return None

    def cannot(why: str) -> None:
        notes("recording", f"this encoder cannot be recorded for the GPU, so steps take longer ({why})")

    return Recordings(accelerator.device, cannot)


class Recordings:
    """Runs work: kernel by kernel when it is met for the first time, from a recording after that.

    Everything that the work reads and changes beside its inputs must stay where it is in memory, unless :meth:`clear`
    is called: gradients are set to zero, not to None.

    Args:
        device: a CUDA device.
        cannot: is told, once, if something cannot be recorded.
    """

    def __init__(self, device: torch.device, cannot: Callable[[str], object]) -> None:
        self._device = device
        self._cannot = cannot
        self._works = True
        self._stream = torch.cuda.Stream(device)
        self.clear()

    def clear(self) -> None:
        """Forgets everything, and gives its memory back."""
        self._met: Counter[Hashable] = Counter()
        self._kept: dict[Hashable, _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, key: Hashable, work: Work, *inputs: Input) -> Tensor | None:
        """Does some work; what it returns is to be read before the next work is run.

        Args:
            key: tells work apart; the same key means the same work on inputs of the same shapes.
            work: what to do.
            inputs: tensors, anywhere, and numbers, which the work may get as tensors.
        """
        if self._works and self._met[key] and key not in self._kept and len(self._kept) < MOST:
            self._record(key, work, inputs)
        self._met[key] += 1
        if key in self._kept:
            return self._kept[key].run(inputs)
        # On the stream that records: what kernels get ready at their first call, they have to get ready there.
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            there = [one.to(self._device, non_blocking=True) if isinstance(one, Tensor) else one for one in inputs]
            result = work(*there)
        here.wait_stream(self._stream)
        return result

    def _record(self, key: Hashable, work: Work, inputs: tuple[Input, ...]) -> None:
        own = [torch.as_tensor(one).to(self._device, copy=True) for one in inputs]
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self._device)
        try:
            with torch.cuda.stream(self._stream):
                # Only calls of this thread could spoil it: another one gets the next steps ready meanwhile.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    result = work(*own)
                finally:
                    self._end(graph)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self._works = False
            cause = error.__context__ or error  # what came before the recording's end
            self._cannot(str(cause).strip().partition("\n")[0])
            return
        self._kept[key] = _Recording(graph, own, result)

    def _end(self, graph: torch.cuda.CUDAGraph) -> None:
        try:
            graph.capture_end()
        except RuntimeError:
            # torch leaves its random numbers and its memory as they were in the middle of a spoilt recording.
            device = self._device.index or 0
            generator = torch.cuda.default_generators[device]
            generator.graphsafe_set_state(generator.clone_state())
            torch._C._cuda_endAllocateToPool(device, self._pool)
            raise


@dataclass(frozen=True)
class _Recording:
    """A graph, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    own: list[Tensor]
    result: Tensor | None

    def run(self, inputs: tuple[Input, ...]) -> Tensor | None:
        for mine, given in zip(self.own, inputs, strict=True):
            if isinstance(given, Tensor):
                mine.copy_(given, non_blocking=True)
            else:
                mine.fill_(given)
        self.graph.replay()
        return self.result
