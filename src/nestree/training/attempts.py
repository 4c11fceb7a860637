"""Steps on whatever there is: in smaller parts where memory falls short, less exactly repeatable where need be."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nestree.training import machine
from nestree.training.errors import TrainingError
from nestree.training.notes import Notes
from nestree.training.recordings import Recordings

Part = TypeVar("Part", bound=Sized)


class Attempts:
    """Computes steps; begins a step again, in another way, if that failed.

    Args:
        model: that computes.
        accelerator: where to compute.
        seed: of everything random.
        notes: tells people what is done in another way.
        recordings: of the work, if it is recorded.
        too_large: the error for a single sentence that is too large for memory.
    """

    def __init__(
        self,
        model: nn.Module,
        accelerator: Any,
        seed: int,
        notes: Notes,
        recordings: Recordings | None,
        too_large: Callable[[], TrainingError],
    ) -> None:
        self._model = model
        self._accelerator = accelerator
        self._seed = seed
        self._notes = notes
        self._recordings = recordings
        self._too_large = too_large

    def run(
        self,
        number: int,
        parts: tuple[Part, ...],
        compute: Callable[[tuple[Part, ...]], Tensor],
        smaller: Callable[[tuple[Part, ...]], tuple[Part, ...]],
    ) -> Tensor:
        """Computes a step; returns what ``compute`` does.

        Args:
            number: of the step; what is random in it depends on this alone.
            parts: of the step.
            compute: computes parts; gradients that it left when it failed are taken away.
            smaller: makes smaller parts of the same step, and from now on.

        Raises:
            TrainingError: memory does not suffice for parts that cannot be smaller.
        """
        while True:
            machine.seed_step(self._seed, number, self._accelerator.process_index)
            try:
                return compute(parts)
            except RuntimeError as error:
                lacks_memory = self._lacks_memory(error, parts)
            # Out of the handler, so that nothing holds on to what was computed.
            if self._recordings is not None:
                self._recordings.clear()
            for weight in self._model.parameters():
                weight.grad = None
            if lacks_memory:
                if self._accelerator.device.type == "cuda":
                    torch.cuda.empty_cache()
                parts = smaller(parts)

    def _lacks_memory(self, error: RuntimeError, parts: Sequence[Sized]) -> bool:
        """Whether smaller parts would help (True), or simply trying again (False); raises what cannot be helped."""
        if machine.lacks_determinism(error):
            what = str(error).partition(". ")[0]
            if not self._notes("determinism", f"{what}: runs with the same seed may differ in the last digits"):
                raise error
            machine.allow_what_has_none()
            return False
        if not out_of_memory(error):
            raise error
        if all(len(part) == 1 for part in parts):
            raise self._too_large() from error
        return True


def out_of_memory(error: BaseException) -> bool:
    """Whether memory did not suffice, on whatever device."""
    from accelerate.utils.memory import should_reduce_batch_size

    return isinstance(error, torch.OutOfMemoryError) or bool(should_reduce_batch_size(error))
