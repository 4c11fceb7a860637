"""Which sentences a step learns from, and getting them ready while the step before is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from nestree.crf import PartialTrees
from nestree.model import NestedNER
from nestree.model.batching import by_work
from nestree.model.pieces import Batch
from nestree.threads import Ahead
from nestree.training.config import TrainConfig
from nestree.training.data import Sentence
from nestree.training.objective import Objective
from nestree.training.shelf import Shelf

_Item = TypeVar("_Item")

AHEAD = 4
"""Steps that are made ready in advance."""
WORDS = 8
"""On a GPU, the room for words is a multiple of this, so that few shapes occur."""
BUCKET = 16
"""Batches whose sentences are sorted by length together: enough to be alike, few enough to stay mixed."""


@dataclass(frozen=True)
class Part:
    """Sentences that go through the model together."""

    batch: Batch
    observed: PartialTrees
    more: tuple[Tensor, ...] = ()  # what the objective needs besides

    def __len__(self) -> int:
        return len(self.observed)


@dataclass(frozen=True)
class Step:
    """What one step of the optimizer learns from.

    Attributes:
        numbers: the sentences of this process.
        parts: the same, ready, in parts.
        sentences: how many all processes have together.
        budget: what the parts were made for.
    """

    numbers: tuple[int, ...]
    parts: tuple[Part, ...]
    sentences: int
    budget: int


class Loader:
    """Steps of all epochs, the same in every run with the same seed, whatever was computed before.

    Every process plans the same batches and takes its share of each, so that a step learns from the same sentences
    however many processes there are.

    Args:
        model: whose pieces and labels are needed.
        sentences: all that there is to learn from.
        config: batch size, budget, seed, masking.
        process: the number of this process, and how many there are.
        sets: sets of labels that the sentences name.
        for_gpu: whether to put tensors where a GPU can fetch them by itself, and to make few shapes.
        objective: what is to be made small.
    """

    def __init__(
        self,
        model: NestedNER,
        sentences: Sequence[Sentence],
        config: TrainConfig,
        *,
        process: tuple[int, int] = (0, 1),
        sets: Sequence[Sequence[float]] = (),
        for_gpu: bool = False,
        objective: Objective | None = None,
    ) -> None:
        self._model = model
        self._objective = objective or Objective()
        self._sentences = sentences
        self._cuts = [cut for some in _some(sentences, 4096) for cut in model.pieces.cut([one.words for one in some])]
        observed = [
            model.observed(
                [one.spans for one in some],
                [len(one.words) for one in some],
                sets=sets,
                doubts=[one.doubts for one in some],
            )
            for some in _some(sentences, 64)
        ]
        rows = observed[0].sets
        self._shelf = Shelf(model.pieces, self._cuts, observed, None if rows is None else rows.to(model.device))
        self._config = config
        self._process = process
        self._for_gpu = for_gpu
        known = (model.tokenizer.mask_token_id, model.tokenizer.unk_token_id)
        self._hidden: int | None = next((one for one in known if one is not None), None)
        self._special = torch.tensor(model.tokenizer.all_special_ids)
        self.budget = config.budget

    @property
    def steps(self) -> int:
        """Steps in an epoch."""
        return -(-len(self._sentences) // self._config.batch_size)

    @property
    def notes(self) -> list[str]:
        """What people should know before it begins."""
        found = []
        if self._config.mask and self._hidden is None:
            found.append("note: this tokenizer has no piece for what is hidden; mask is without effect")
        windowed = sum(len(cut.windows) > 1 for cut in self._cuts)
        if windowed:
            found.append(
                f"{windowed} sentences are longer than the encoder reads at once; they are read in overlapping windows"
            )
        return found

    def plan(self, epoch: int) -> list[list[int]]:
        """The sentences of each step: shuffled, those of similar length together."""
        random = np.random.default_rng((self._config.seed, epoch))
        size = self._config.batch_size
        order = random.permutation(len(self._sentences)).tolist()
        batches: list[list[int]] = []
        for some in _some(order, size * BUCKET):
            alike = sorted(some, key=lambda at: (self._cuts[at].width, len(self._cuts[at].first)))
            batches += map(list, _some(alike, size))
        random.shuffle(batches)
        return batches

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[Step]:
        """The steps of an epoch in order, made ready in a thread of their own."""
        return Ahead((self._step(numbers, epoch) for numbers in self.plan(epoch)[skip:]), AHEAD, "nestree-loader")

    def _step(self, numbers: list[int], epoch: int) -> Step:
        process, of = self._process
        own = tuple(numbers[process::of])
        budget = self.budget
        return Step(own, tuple(self.parts(own, epoch)), len(numbers), budget)

    def parts(self, numbers: Sequence[int], epoch: int) -> Iterator[Part]:
        """Sentences in parts that fit the budget, some of their pieces hidden."""
        for some in by_work([self._cuts[number] for number in numbers], self.budget):
            chosen = np.array([numbers[at] for at in some])
            n = self._shelf.longest(chosen)
            n += -n % WORDS if self._for_gpu else 0
            batch = self._shelf.batch(chosen, n)
            if self._config.mask and self._hidden is not None:
                pieces = self._masked(batch.pieces, self._shelf.windows(chosen), epoch)
                batch = replace(batch, pieces=pieces)
            part = Part(batch, self._shelf.observed(chosen, n), self._objective.tensors(chosen, n))
            yield _pinned(part) if self._for_gpu else part

    def _masked(self, pieces: Tensor, owners: np.ndarray, epoch: int) -> Tensor:
        """Pieces of windows, some hidden: which depends on seed, epoch, sentence and place, not on the batch."""
        random = shares(self._config.seed, epoch, owners, pieces.shape[1])
        hide = torch.from_numpy(random < self._config.mask) & ~torch.isin(pieces, self._special)
        assert self._hidden is not None
        return pieces.masked_fill(hide, self._hidden)


def shares(seed: int, epoch: int, owners: np.ndarray, width: int) -> np.ndarray:
    """Random numbers in [0, 1) by seed, epoch, owner and place (SplitMix64); the rows of an owner follow each other.

    Shape: ``[row]`` to ``[row, width]``.
    """
    start = np.array([seed * 1_000_003 + epoch], dtype=np.uint64) << np.uint64(40)
    first = np.flatnonzero(np.diff(owners, prepend=-1))  # where the rows of each owner begin
    place = np.arange(len(owners)) - np.repeat(first, np.diff(first, append=len(owners)))
    rows = (owners.astype(np.uint64) << np.uint64(20)) + (place.astype(np.uint64) << np.uint64(12))
    value: np.ndarray = start + rows[:, None] + np.arange(1, width + 1, dtype=np.uint64)
    value = value * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((value ^ (value >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _pinned(part: Part) -> Part:
    observed = part.observed
    pinned = replace(observed, codes=observed.codes.pin_memory(), lengths=observed.lengths.pin_memory())
    return Part(part.batch.pinned(), pinned, tuple(one.pin_memory() for one in part.more))


def _some(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """The items, so many at a time."""
    for first in range(0, len(items), size):
        yield items[first : first + size]
