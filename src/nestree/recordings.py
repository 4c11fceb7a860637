"""Work for a GPU as CUDA graphs: recorded once for each shape, then started by a single call.

A GPU computes a small encoder faster than Python can ask for its thousand kernels. Sentences of similar length go
together, and widths are rounded up, so that a few dozen shapes cover a corpus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

Input = Tensor | float
Work = Callable[..., Tensor | None]
"""Asks a GPU for something, without looking at a single number that it computes."""

MOST = 64
"""Recordings that are kept. What is rarer is computed kernel by kernel."""


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

    def has(self, key: Hashable) -> bool:
        """Whether there is a recording."""
        return key in self._kept

    def run(self, key: Hashable, work: Work, *inputs: Input, checked: float | None = None) -> Tensor | None:
        """Does some work; what it returns is to be read before the next work is run.

        Args:
            key: tells work apart; the same key means the same work on inputs of the same shapes.
            work: what to do.
            inputs: tensors, anywhere, and numbers, which the work may get as tensors. Later ones may have fewer rows
                than those that were recorded: the rows that are missing are as they were before.
            checked: before a recording is used, its result is compared with what is computed without it, and may
                differ by so much of the largest number. For work that changes nothing.
        """
        if self._works and self._met[key] and key not in self._kept and len(self._kept) < MOST:
            self._record(key, work, inputs)
            if checked is not None and key in self._kept:
                self._check(key, self._at_once(work, inputs), checked, inputs)
        self._met[key] += 1
        if key in self._kept:
            return self._kept[key].run(inputs)
        return self._at_once(work, inputs)

    def _check(self, key: Hashable, expected: Tensor | None, tolerance: float, inputs: tuple[Input, ...]) -> None:
        """Records nothing any more if this recording gives something else."""
        found = self._kept[key].run(inputs)
        assert found is not None
        assert expected is not None
        if not bool((found - expected).abs().max() <= tolerance * expected.abs().max()):
            self._works = False
            self._kept.clear()
            self._cannot("a recording computes something else")

    def _at_once(self, work: Work, inputs: tuple[Input, ...]) -> Tensor | None:
        """Kernel by kernel."""
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
                there = mine if mine.shape == given.shape else mine[: len(given)]
                there.copy_(given, non_blocking=True)
            else:
                mine.fill_(given)
        self.graph.replay()
        return self.result
