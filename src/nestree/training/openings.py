"""What unannotated spans may be where annotation is not complete, as sets of labels with weights.

Suppose that of the entities that are there, a share ρ was annotated, whichever. Then a tree explains what was annotated
with ρ for each entity that was, and 1 − ρ for each that was not; the probability of the annotation is the sum over all
trees of their probability times these factors. That is Masked Inside with weight 1 − ρ for an entity label on an
unannotated span: 0 if annotation is complete, 1 if nobody looked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple

from nestree.crf import Doubts
from nestree.data import Admissible, Document, Report
from nestree.data.model import Range
from nestree.training.incomplete import Ground, Parts, Places, merged, touches
from nestree.training.shares import Shares

Weights = tuple[float, ...]
"""Of each label of a model, and of being no entity."""
Spot = tuple[int, int, str | int]
"""Words ``[start, end)`` and a label, or the number of a set of labels."""


class Opened(NamedTuple):
    """A sentence's entities, some of which have one of several labels, and what else is open."""

    spans: tuple[Spot, ...]
    doubts: Doubts | None = None


class Openings:
    """Turns what documents leave open into sets of labels, and numbers them.

    Args:
        labels: of the model.
        parts: how they are taken apart.
        shares: what was annotated, by ground (:func:`annotated_shares`).
        report: takes notes of what cannot be used.
    """

    def __init__(self, labels: Sequence[str], parts: Parts, shares: Shares, report: Report) -> None:
        self._labels = [frozenset(parts(label)) for label in labels]
        self._names = list(labels)
        self._several = any(len(one) > 1 for one in self._labels)
        self._parts = parts
        self._shares = shares
        self._report = report
        self._numbers: dict[Weights, int] = {}
        self._nothing: Weights = (*[0.0] * len(labels), 1.0)

    @property
    def sets(self) -> tuple[Weights, ...]:
        """All sets so far."""
        return tuple(self._numbers)

    def of_document(
        self, document: Document, sentences: Iterable[tuple[Range, Sequence[tuple[int, int, str]]]]
    ) -> Iterator[Opened]:
        """What is open in each sentence of a document.

        Args:
            document: made learnable by the policies.
            sentences: the words of each, and its entities in its own words, half-open.
        """
        if not document.incomplete:
            yield from (Opened(tuple(spans)) for _, spans in sentences)
            return
        places = Places(document)
        otherwise, unlooked = self._left_open(places.looked), self._left_open(places.unlooked)
        certain, unsure = self._admissible(document)
        regions = merged([*places.words, *unsure])
        for (start, end), spans in sentences:
            here = [(max(a, start) - start, min(b, end) - start) for a, b in regions if a < end and start < b]
            weights = [unlooked if touches(places.words, a + start, b + start) else self._anything() for a, b in here]
            doubts = _Open(otherwise, here, weights)
            observed = [self._annotated(one, doubts, places, start) for one in spans]
            single: list[tuple[int, int, int]] = []
            for (a, b), items in certain.items():
                if start <= a < end:
                    self._add(document, items, (a - start, b - start), observed, single, doubts)
            yield Opened(tuple(observed), self._doubts(doubts, single))

    def _annotated(self, span: tuple[int, int, str], doubts: _Open, places: Places, offset: int) -> Spot:
        """An annotated span; it may have further labels, of those that are joined with its own and open here."""
        start, end, label = span
        if not self._several:
            return span
        own = frozenset(self._parts(label))
        ground = places.unlooked if doubts.at(start, end) is not None else places.looked
        shares = self._shares.get(ground, {})
        weights = [
            prod(1 - shares.get(part, 1.0) for part in parts - own) if own <= parts else 0.0 for parts in self._labels
        ]
        return span if sum(map(bool, weights)) == 1 else (start, end, self._number((*_rounded(weights), 0.0)))

    def _add(
        self,
        document: Document,
        items: list[Admissible],
        words: Range,
        observed: list[Spot],
        single: list[tuple[int, int, int]],
        doubts: _Open,
    ) -> None:
        """What is known of one span, from all that is said of it."""
        start, end = words
        known = next((label for a, b, label in observed if (a, b) == words), None)
        allowed = [frozenset(one.labels) for one in items if not one.excluded]
        denied = {label for one in items if one.excluded for label in one.labels}
        base = doubts.at(start, end) or doubts.otherwise
        if allowed:
            both = frozenset.intersection(*allowed) - denied
            weights = (*(float(parts <= both) for parts in self._labels), float(None in both))
        else:
            weights = (
                *(0.0 if parts & denied else weight for parts, weight in zip(self._labels, base, strict=False)),
                1.0,
            )
        if known is not None:
            own = frozenset(self._parts(known)) if isinstance(known, str) else frozenset()
            if own & denied or (allowed and own and not own <= frozenset.union(*allowed)):
                self._note(document, items[0], "it says something else than the entity that is annotated there")
        elif not any(weights):
            self._note(document, items[0], "what is said of it contradicts itself")
        elif weights[-1]:
            single.append((start, end - 1, self._number(weights)))
        elif any(a < start < b < end or start < a < end < b for a, b, _ in observed):
            self._note(document, items[0], "it crosses an entity")
        else:
            names = [name for name, weight in zip(self._names, weights, strict=False) if weight]
            observed.append((start, end, names[0] if len(names) == 1 else self._number(weights)))

    def _admissible(self, document: Document) -> tuple[dict[Range, list[Admissible]], list[Range]]:
        """By words; and the words of those that are no words of one sentence: of these nothing is known."""
        found: dict[Range, list[Admissible]] = defaultdict(list)
        unsure: list[Range] = []
        tokens, sentences = document.tokens, document.sentences or ()
        ends = [end for _, end in sentences]
        for one in document.admissible:
            words = tokens.exactly(one.start, one.end) if tokens else None
            if words is not None and words[1] <= ends[bisect_left(ends, words[0] + 1)]:
                found[words].append(one)
                continue
            why = "it is not on token boundaries" if words is None else "it reaches over the end of its sentence"
            self._note(document, one, f"{why}; its words are taken as not looked at", "opened")
            if tokens:
                first, last = bisect_left(tokens.ends, one.start + 1), bisect_left(tokens.starts, one.end)
                unsure += [(first, last)] if first < last else []
        return found, unsure

    def _doubts(self, doubts: _Open, single: list[tuple[int, int, int]]) -> Doubts | None:
        regions = [
            (start, end - 1, self._number(weights))
            for (start, end), weights in zip(doubts.regions, doubts.weights, strict=True)
            if weights != doubts.otherwise
        ]
        if doubts.otherwise == self._nothing and not regions and not single:
            return None
        number = -1 if doubts.otherwise == self._nothing else self._number(doubts.otherwise)
        return Doubts(number, tuple(regions), tuple(single))

    def _left_open(self, ground: Ground) -> Weights:
        """Weights of the labels of an unannotated span: of a joined one, none of its parts was annotated."""
        shares = self._shares.get(ground, {})
        weights = (prod(1 - shares.get(part, 1.0) for part in parts) for parts in self._labels)
        return (*_rounded(weights), 1.0)

    def _anything(self) -> Weights:
        return (*[1.0] * len(self._labels), 1.0)

    def _note(self, document: Document, one: Admissible, why: str, action: str = "left out") -> None:
        self._report.note("admissible", document.place, f"{document.text[one.start : one.end]!r}: {why}", action)

    def _number(self, weights: Weights) -> int:
        return self._numbers.setdefault(weights, len(self._numbers))


class _Open(NamedTuple):
    """What is open in a sentence: its unannotated spans, and words that were not looked at, with their weights."""

    otherwise: Weights
    regions: list[Range]
    weights: list[Weights]

    def at(self, start: int, end: int) -> Weights | None:
        """The weights of a span that touches such words."""
        for (first, last), weights in zip(self.regions, self.weights, strict=True):
            if first < end and start < last:
                return weights
        return None


def _rounded(weights: Iterable[float]) -> Iterator[float]:
    return (round(weight, 6) for weight in weights)
