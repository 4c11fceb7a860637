"""The gradients of a step, on whatever memory there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nestree.crf import PartialTrees
from nestree.model import NestedNER
from nestree.model.pieces import Batch
from nestree.training.attempts import Attempts
from nestree.training.batching import Loader, Part, Step
from nestree.training.config import TrainConfig
from nestree.training.errors import TrainingError
from nestree.training.notes import Notes
from nestree.training.objective import Objective
from nestree.training.recordings import Recordings


class Gradients:
    """Computes loss and gradients of steps, part by part.

    Where memory does not suffice, a step begins again in smaller parts, and later ones are smaller too.

    Args:
        model: whose gradients.
        accelerator: where to compute.
        loader: makes parts.
        config: the seed of everything random, and what stands for a word.
        notes: tells people what is told once.
        recordings: where there are any, the work is recorded and replayed.
        objective: what is to be made small.
    """

    def __init__(
        self,
        model: NestedNER,
        accelerator: Any,
        loader: Loader,
        config: TrainConfig,
        notes: Notes,
        recordings: Recordings | None = None,
        objective: Objective | None = None,
    ) -> None:
        self._objective = objective or Objective()
        self._model = model
        self._accelerator = accelerator
        self._loader = loader
        self._most_pieces_count = config.word == "mean"
        self._notes = notes
        self._recordings = recordings
        self._attempts = Attempts(model, accelerator, config.seed, notes, recordings, too_long)

    def add(self, step: Step, number: int, epoch: int) -> Tensor:
        """Adds the gradients of this process's share of a step to the weights; returns its part of the mean loss.

        Args:
            step: what to learn from.
            number: of the step; what is random in it depends on this alone.
            epoch: of the step; which pieces are hidden depends on it.

        Raises:
            TrainingError: memory does not suffice for one sentence, or the model diverged.
        """
        # A step that was made ready before memory fell short is made again.
        parts = step.parts if step.budget <= self._loader.budget else tuple(self._loader.parts(step.numbers, epoch))

        def compute(parts: tuple[Part, ...]) -> Tensor:
            try:
                return self.of_parts(parts, step.sentences)
            except ValueError as error:
                if "NaN" not in str(error):
                    raise
                raise diverged("not a number", number) from error

        return self._attempts.run(number, parts, compute, lambda parts: self._smaller(step, epoch, parts))

    def of_parts(self, parts: tuple[Part, ...], sentences: int) -> Tensor:
        """Adds the gradients of parts of a step that has so many sentences; returns their part of its loss."""
        device = self._accelerator.device
        total = torch.zeros((), device=device)
        for part in parts:
            share = len(part) / sentences
            if self._recordings is None:
                more = [one.to(device, non_blocking=True) for one in part.more]
                total += self._of(part.batch.to(device), part.observed.to(device, non_blocking=True), share, more)
            else:
                total += self._recorded(self._recordings, part, share)
        return total

    def _of(self, batch: Batch, observed: PartialTrees, share: float | Tensor, more: Sequence[Tensor] = ()) -> Tensor:
        """Adds the gradients of some sentences, and returns their share of the loss."""
        with self._accelerator.autocast():
            loss = self._objective.loss(self._model, batch, observed, *more) * share
        self._accelerator.backward(loss)
        return loss.detach()

    def _recorded(self, recordings: Recordings, part: Part, share: float) -> Tensor:
        """The same, from a recording where there is one."""
        batch, observed, of_batch = part.batch, part.observed, len(part.batch.tensors)

        def work(share: float | Tensor, codes: Tensor, lengths: Tensor, *tensors: Tensor) -> Tensor:
            there = batch.with_tensors(tensors[:of_batch])
            return self._of(there, replace(observed, codes=codes, lengths=lengths), share, tensors[of_batch:])

        most = batch.most if self._most_pieces_count else 0
        key = (batch.pieces.shape, batch.first.shape, most, observed.sets is None)
        loss = recordings.run(key, work, share, observed.codes, observed.lengths, *batch.tensors, *part.more)
        assert loss is not None
        return loss

    def _smaller(self, step: Step, epoch: int, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The same sentences in parts of which all are smaller than the largest was."""
        largest = max(map(len, parts))
        while True:
            self._loader.budget = max(1, self._loader.budget // 2)
            parts = tuple(self._loader.parts(step.numbers, epoch))
            if max(map(len, parts)) < largest:
                break
        budget = self._loader.budget
        self._notes("memory", f"memory does not suffice for a batch: it goes in parts from now on (budget = {budget})")
        return parts


def too_long() -> TrainingError:
    """The error for a sentence that does not fit into memory."""
    return TrainingError(
        "memory does not suffice for one sentence at a time. Split long sentences, or use a smaller encoder or another "
        "precision."
    )


def diverged(value: str, step: int) -> TrainingError:
    """The error for a loss that is no number."""
    return TrainingError(
        f"the loss is {value} at step {step}: the run diverged. Lower encoder_lr and head_lr, or use precision = fp32."
    )
