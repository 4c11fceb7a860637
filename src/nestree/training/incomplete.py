"""Where documents were annotated, and for what; what of a prediction they can judge."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from nestree.data import Admissible, Document, split_label
from nestree.data.model import Range
from nestree.data.policies import join_labels

Parts = Callable[[str], tuple[str, ...]]
"""The labels that a label of a model stands for: several, if it is a joined one."""


def parts_of(*, joined: bool) -> Parts:
    """How labels are taken apart, if several labels on a span were joined, or if they were not."""
    return split_label if joined else lambda label: (label,)


class Ground(NamedTuple):
    """Words that were annotated alike.

    Attributes:
        complete: the labels that were annotated completely; None: all.
        unknown: whether nobody looked there.
        touched: whether entities were annotated there all the same, somewhere in the document.
        whole: whether nobody looked at any word of the document: what is annotated are single answers.
    """

    complete: tuple[str, ...] | None = None
    unknown: bool = False
    touched: bool = False
    whole: bool = False

    def leaves_open(self, part: str) -> bool:
        """Whether more entities with a label may be there than were annotated."""
        return self.unknown or (self.complete is not None and part not in self.complete)


def labels_in_doubt(documents: Iterable[Document], *, joined: bool) -> set[str]:
    """Labels that spans may have, as a model names them."""
    return {
        join_labels([label]) if joined else label
        for document in documents
        for one in document.admissible
        if not one.excluded
        for label in one.labels
        if label is not None
    }


def has_entities(document: Document) -> bool:
    """Whether there is an entity in it for certain."""
    return bool(document.entities) or any(map(is_entity, document.admissible))


def is_entity(one: Admissible) -> bool:
    """Whether the span is an entity, whichever."""
    return not one.excluded and None not in one.labels


class Places:
    """Where a document was looked at.

    Args:
        document: with words.
    """

    def __init__(self, document: Document) -> None:
        self._ranges = merged(document.unknown)
        self._starts = [start for start, _ in self._ranges]
        complete = None if document.complete_labels is None else tuple(sorted(document.complete_labels))
        inside = [self.is_within(one.start, one.end) for one in document.entities]
        tokens = document.tokens
        self.words = [] if tokens is None else list(self._words(tokens.starts, tokens.ends))
        whole = bool(self.words) and sum(end - start for start, end in self.words) == len(tokens or ())
        self.looked = Ground(complete)
        self.unlooked = Ground(complete, unknown=True, touched=any(inside), whole=whole)

    def _words(self, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Range]:
        """Ranges of words that touch what nobody looked at."""
        reached = 0
        for start, end in self._ranges:
            first, last = max(reached, bisect_left(ends, start + 1)), bisect_left(starts, end)
            if first < last:
                yield first, last
                reached = last

    def is_within(self, start: int, end: int) -> bool:
        """Whether nobody looked at any of these characters."""
        at = bisect_left(self._starts, start + 1) - 1
        return at >= 0 and end <= self._ranges[at][1]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in order, those that touch made one."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def touches(ranges: Iterable[Range], start: int, end: int) -> bool:
    """Whether one of these ranges has something in common with another."""
    return any(a < end and start < b for a, b in ranges)


def judged(gold: Document, predicted: Document) -> Document:
    """A prediction without what gold cannot judge: entities that it does not have where it is not complete."""
    if not gold.incomplete:
        return predicted
    places = Places(gold)
    known = {(one.start, one.end, one.label) for one in gold.entities}
    doubtful = [(one.start, one.end) for one in gold.admissible]

    def can(entity: tuple[int, int, str]) -> bool:
        start, end, label = entity
        if entity in known:
            return True
        unlooked = touches(gold.unknown, start, end) or (start, end) in doubtful
        return not unlooked and not places.looked.leaves_open(label)

    return replace(predicted, entities=tuple(one for one in predicted.entities if can((one.start, one.end, one.label))))
