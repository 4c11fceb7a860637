"""Steps of an adaptation: made ready ahead, computed on whatever memory there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nestree.adaptation.head import MaskedEncoder
from nestree.adaptation.windows import MEASURING, Guesses, Windows
from nestree.threads import Ahead
from nestree.training.attempts import Attempts
from nestree.training.batching import AHEAD
from nestree.training.errors import TrainingError
from nestree.training.notes import Notes
from nestree.training.recordings import Recordings

SMALLER = "memory does not suffice for a batch: it goes in smaller parts from now on"


@dataclass(frozen=True)
class Step:
    """What one step of the optimizer learns from.

    Attributes:
        numbers: the windows of this process.
        parts: the same, ready.
        epoch: the pass that it belongs to, from 1.
        count: guesses of all processes together.
        budget: what the parts were made for.
    """

    numbers: np.ndarray
    parts: tuple[Guesses, ...]
    epoch: int
    count: int
    budget: int


class Steps:
    """Steps of all passes, the same in every run with the same seed, whatever was computed before.

    Args:
        windows: to learn from.
        batch_size: windows in a step.
        budget: pieces in one forward pass.
        process: the number of this process, and how many there are.
        for_gpu: whether to put tensors where a GPU can fetch them by itself.
    """

    def __init__(
        self, windows: Windows, batch_size: int, budget: int, process: tuple[int, int], *, for_gpu: bool
    ) -> None:
        self._windows = windows
        self._size = batch_size
        self._process = process
        self._for_gpu = for_gpu
        self.budget = budget

    @property
    def in_epoch(self) -> int:
        """Steps of a pass."""
        return -(-len(self._windows) // self._size)

    def __call__(self, first: int, last: int) -> Ahead[Step]:
        """The steps from one to before another, made ready in a thread of their own."""
        return Ahead(self._steps(first, last), AHEAD, "nestree-windows")

    def _steps(self, first: int, last: int) -> Iterator[Step]:
        plan: list[np.ndarray] = []
        known = 0
        for number in range(first, last):
            epoch, at = number // self.in_epoch + 1, number % self.in_epoch
            if epoch != known:
                plan, known = self._windows.plan(epoch, self._size), epoch
            yield self._step(plan[at], epoch)

    def _step(self, numbers: np.ndarray, epoch: int) -> Step:
        process, of = self._process
        own, budget = numbers[process::of], self.budget
        parts = self.parts(own, epoch)
        count = sum(one.count for one in parts) if of == 1 else int(self._windows.hidden(numbers, epoch)[2].sum())
        return Step(own, parts, epoch, max(1, count), budget)

    def parts(self, numbers: np.ndarray, epoch: int) -> tuple[Guesses, ...]:
        """Windows with hidden words in parts that fit the budget."""
        made = (self._windows.batch(some, epoch) for some in self._windows.parts(numbers, self.budget))
        return tuple(one.pinned() if self._for_gpu else one for one in made)


class Learner:
    """Computes loss and gradients of steps, part by part; in smaller parts where memory does not suffice.

    Args:
        model: whose gradients.
        accelerator: where to compute.
        steps: makes parts.
        seed: of everything random.
        notes: tells people what is told once.
        recordings: where there are any, the work is recorded and replayed.
    """

    def __init__(
        self,
        model: MaskedEncoder,
        accelerator: Any,
        steps: Steps,
        seed: int,
        notes: Notes,
        recordings: Recordings | None,
    ) -> None:
        self._model = model
        self._accelerator = accelerator
        self._steps = steps
        self._notes = notes
        self._recordings = recordings
        self._attempts = Attempts(model, accelerator, seed, notes, recordings, too_long)

    def add(self, step: Step, number: int) -> Tensor:
        """Adds this process's gradients of a step; returns its part of the mean cost of a guess. Shape: ``[]``."""
        parts = step.parts if step.budget <= self._steps.budget else self._steps.parts(step.numbers, step.epoch)
        return self._attempts.run(
            number, parts, lambda parts: self._of(parts, 1 / step.count), lambda parts: self._smaller(step, parts)
        )

    def _smaller(self, step: Step, parts: tuple[Guesses, ...]) -> tuple[Guesses, ...]:
        """The same windows in parts of half the size."""
        self._steps.budget = max(1, max(part.pieces.numel() for part in parts) // 2)
        self._notes("memory", SMALLER)
        return self._steps.parts(step.numbers, step.epoch)

    def _of(self, parts: tuple[Guesses, ...], share: float) -> Tensor:
        device = self._accelerator.device
        total = torch.zeros((), device=device)
        for part in parts:
            if self._recordings is None:
                total += self._gradients(part.full, share, *(one.to(device, non_blocking=True) for one in part.tensors))
                continue

            def work(share: float | Tensor, *tensors: Tensor, full: bool = part.full) -> Tensor:
                return self._gradients(full, share, *tensors)

            key = (part.pieces.shape, part.places.shape, part.full)
            loss = self._recordings.run(key, work, share, *part.tensors)
            assert loss is not None
            total += loss
        return total

    def _gradients(self, full: bool, share: float | Tensor, *tensors: Tensor) -> Tensor:
        pieces, attention, places, targets = tensors
        with self._accelerator.autocast():
            loss: Tensor = self._model(pieces, attention, places, targets, full) * share
        self._accelerator.backward(loss)
        return loss.detach()

    @torch.no_grad()
    def cost(self, windows: Windows) -> float:
        """The mean cost of a guess of held-out text, in nats; what is hidden is the same every time."""
        accelerator = self._accelerator
        own = np.arange(accelerator.process_index, len(windows), accelerator.num_processes)

        def parts() -> tuple[np.ndarray, ...]:
            return tuple(windows.parts(own, self._steps.budget)) if len(own) else ()

        def smaller(before: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            self._notes("memory", SMALLER)
            while max(map(len, parts())) >= max(map(len, before)):
                self._steps.budget = max(1, self._steps.budget // 2)
            return parts()

        self._model.eval()
        try:
            sums = self._attempts.run(0, parts(), lambda parts: self._costs(windows, parts), smaller)
        finally:
            self._model.train()
        if accelerator.num_processes > 1:
            sums = accelerator.reduce(sums.to(accelerator.device, torch.float32), reduction="sum")
        return float(sums[0]) / int(sums[1])

    def _costs(self, windows: Windows, parts: tuple[np.ndarray, ...]) -> Tensor:
        """What all guesses cost, and how many there are. Shape: ``[2]``."""
        total, count = 0.0, 0
        for numbers in parts:
            part = windows.batch(numbers, MEASURING)
            with self._accelerator.autocast():
                tensors = [one.to(self._accelerator.device) for one in part.tensors]
                total += float(self._model(*tensors, part.full))
            count += part.count
        return torch.tensor([total, float(count)], dtype=torch.float64)


def too_long() -> TrainingError:
    """The error for a window that does not fit into memory."""
    return TrainingError("memory does not suffice for one window. Use a smaller length, or a smaller encoder.")


def diverged(value: float, step: int) -> TrainingError:
    """The error for a loss that is no number."""
    return TrainingError(
        f"the loss is {value} at step {step}: the adaptation diverged. Lower lr and head_lr, or use precision = fp32."
    )
