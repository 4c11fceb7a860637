"""What a model finds in a sentence, and how it is asked for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from nestree.model.pieces import Batch

Thresholds = Sequence[float | None] | None
Found = TypeVar("Found")


class Span(NamedTuple):
    """A predicted entity: words ``[start, end)``, label, and the exact marginal probability of both."""

    start: int
    end: int
    label: str
    score: float


class Node(NamedTuple):
    """A node of a predicted tree: words ``[start, end)``, entity label or None if it is latent, and its probability."""

    start: int
    end: int
    label: str | None
    score: float


@dataclass(frozen=True)
class Steps(Generic[Found]):
    """How something is found in a batch, in two steps.

    Attributes:
        ask: gives a device its work, and does not wait for it.
        make: waits, and makes of what was computed what was to be found in each sentence.
    """

    ask: Callable[[Batch], Any]
    make: Callable[[Any], list[list[Found]]]

    def __call__(self, batch: Batch) -> list[list[Found]]:
        """Both, one after the other."""
        return self.make(self.ask(batch))


class Chosen(NamedTuple):
    """Labelled spans that were chosen, scores of all, and what is to be looked at before any of it is believed.

    Shape: ``[batch, n, n, label]`` both
    """

    chosen: Tensor
    scores: Tensor
    checks: list[Callable[[], None]]

    def by_sentence(self, labels: Sequence[Any]) -> list[list[Span]]:
        """What was chosen, outer ones first. This waits for a GPU."""
        for check in self.checks:
            check()
        places = torch.nonzero(self.chosen)
        found: list[list[Span]] = [[] for _ in range(len(self.chosen))]
        rows = zip(places.tolist(), self.scores[tuple(places.T)].tolist(), strict=True)
        for (sentence, start, last, label), score in rows:
            found[sentence].append(Span(start, last + 1, labels[label], score))
        return [sorted(one, key=lambda span: (span.start, -span.end)) for one in found]
