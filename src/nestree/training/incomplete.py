"""Annotation that is not complete: what unannotated spans may be, as sets of labels with weights.

Suppose that of the entities that are there, a share ρ was annotated, whichever. Then a tree explains what was annotated
with ρ for each entity that was, and 1 − ρ for each that was not; the probability of the annotation is the sum over all
trees of their probability times these factors. That is Masked Inside with weight 1 − ρ for an entity label on an
unannotated span: 0 if annotation is complete, 1 if nobody looked. ρ is estimated by comparing how many entities
there are per word where annotation is complete, and where it is not; labels that differ widely have their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from nestree.crf import Doubts
from nestree.data import Admissible, Document, Report, split_label
from nestree.data.errors import DataError
from nestree.data.model import Range
from nestree.data.policies import join_labels

ENOUGH = 10
"""Expected entities of a label from which on it can have a share of its own."""
ALIKE = 2.0
"""Shares of labels that differ by less than this factor are taken to be the same: topics differ as much."""
NEVER_BY_CHANCE = 3.0
"""So many expected entities of which none is there: by chance, that happens once in twenty times."""

Parts = Callable[[str], tuple[str, ...]]
"""The labels that a label of a model stands for: several, if it is a joined one."""
Weights = tuple[float, ...]
"""Of each label of a model, and of being no entity."""


def parts_of(*, joined: bool) -> Parts:
    """How labels are taken apart, if several labels on a span were joined, or if they were not."""
    return split_label if joined else lambda label: (label,)


class Ground(NamedTuple):
    """Words that were annotated alike.

    Attributes:
        complete: the labels that were annotated completely; None: all.
        unknown: whether nobody looked there.
        touched: whether entities were annotated there all the same, somewhere in the document.
    """

    complete: tuple[str, ...] | None = None
    unknown: bool = False
    touched: bool = False

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
    return bool(document.entities) or any(map(_is_entity, document.admissible))


def _is_entity(one: Admissible) -> bool:
    return not one.excluded and None not in one.labels


class Places:
    """Where a document was looked at.

    Args:
        document: with words.
    """

    def __init__(self, document: Document) -> None:
        self._ranges = _merged(document.unknown)
        self._starts = [start for start, _ in self._ranges]
        complete = None if document.complete_labels is None else tuple(sorted(document.complete_labels))
        inside = [self.is_within(one.start, one.end) for one in document.entities]
        self.looked = Ground(complete)
        self.unlooked = Ground(complete, unknown=True, touched=any(inside))
        tokens = document.tokens
        self.words = [] if tokens is None else list(self._words(tokens.starts, tokens.ends))

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


def _merged(ranges: Iterable[Range]) -> list[Range]:
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


# --- How much was annotated ------------------------------------------------------------------------------------------


class Counts:
    """Words and entities by ground. Joined labels count for each of their parts.

    Args:
        parts: how labels are taken apart.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.words: Counter[Ground] = Counter()
        self.entities: dict[Ground, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, documents: Iterable[Document], *, parts: Parts | None = None) -> Counts:
        """Counts documents in; their labels may be of another kind."""
        parts = parts or self._parts
        for document in documents:
            places = Places(document)
            hidden = sum(end - start for start, end in places.words)
            self.words[places.unlooked] += hidden
            self.words[places.looked] += len(document.tokens or ()) - hidden
            listed = {(one.start, one.end, part): 1.0 for one in document.entities for part in parts(one.label)}
            for one in filter(_is_entity, document.admissible):
                for label in one.labels:
                    assert label is not None
                    listed.setdefault((one.start, one.end, label), 1 / len(one.labels))
            for (start, end, part), number in listed.items():
                ground = places.unlooked if places.is_within(start, end) else places.looked
                self.entities[ground][part] += number
        return self

    def rate(self, part: str) -> float | None:
        """Entities of a label per word where it was annotated completely; None if that is nowhere."""
        complete = [ground for ground, words in self.words.items() if words and not ground.leaves_open(part)]
        words = sum(self.words[ground] for ground in complete)
        found = sum(self.entities[ground][part] for ground in complete)
        return found / words if words and found else None

    def rate_anywhere(self, part: str) -> float:
        """The same, or what was annotated per word of all text if it was nowhere annotated completely."""
        found = sum(of_ground[part] for of_ground in self.entities.values())
        return self.rate(part) or found / max(1, sum(self.words.values()))


Shares = dict[Ground, dict[str, float]]
"""Of each ground, and each single label that is open there, the share of its entities that was annotated."""


def annotated_shares(own: Counts, reference: Counts, labels: Sequence[str], given: float, path: str) -> Shares:
    """The share of the entities of each label that was annotated, by ground.

    Args:
        own: of the training data.
        reference: of all data.
        labels: single ones.
        given: a share that the user knows; 0: it is estimated.
        path: of the training data, for errors.

    Raises:
        DataError: nothing was annotated completely, so that there is nothing to compare with.
    """
    rates = {label: reference.rate(label) for label in labels}
    found: Shares = {}
    for ground, words in own.words.items():
        open_ones = [label for label in labels if ground.leaves_open(label)]
        if not words or not open_ones:
            continue
        observed = {label: own.entities[ground][label] for label in open_ones}
        expected = {label: words * (rates[label] or 0.0) for label in open_ones}
        if not any(observed.values()):
            found[ground] = dict.fromkeys(open_ones, 0.0)
        elif given and not ground.unknown:
            found[ground] = dict.fromkeys(open_ones, given)
        elif not any(expected.values()):
            raise DataError(
                f"no document, of training or dev data, is annotated completely for any of {', '.join(open_ones)}: "
                "nothing says what share of the entities is annotated in the others",
                path=path,
                advice="Say it by annotated_share (0.5: every second one), or add complete documents.",
            )
        else:
            found[ground] = _estimated(observed, expected)
    return found


def _estimated(observed: dict[str, float], expected: dict[str, float]) -> dict[str, float]:
    """The share of the expected entities that was observed, of each label."""
    alike = [label for label, number in expected.items() if number and observed[label]]
    if not alike:  # nothing of what is there was to be expected
        return dict.fromkeys(expected, 1.0)
    while True:
        together = sum(observed[label] for label in alike) / sum(expected[label] for label in alike)
        like_all = [label for label in alike if _is_like(observed[label], expected[label], together)]
        if like_all == alike or not like_all:
            break
        alike = like_all  # what differs widely is no measure for the others
    shares = {}
    for label, number in expected.items():
        if not observed[label] and number * together > NEVER_BY_CHANCE:
            shares[label] = 0.0
        else:
            like = _is_like(observed[label], number, together)
            shares[label] = min(1.0, together if like else observed[label] / number)
    return shares


def _is_like(observed: float, expected: float, share: float) -> bool:
    return expected < ENOUGH or share / ALIKE <= observed / expected <= share * ALIKE


# --- What is open in a sentence --------------------------------------------------------------------------------------

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
        regions = _merged([*places.words, *unsure])
        for (start, end), spans in sentences:
            here = [(max(a, start) - start, min(b, end) - start) for a, b in regions if a < end and start < b]
            weights = [unlooked if _touches(places.words, a + start, b + start) else self._anything() for a, b in here]
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


def _touches(ranges: Iterable[Range], start: int, end: int) -> bool:
    return any(a < end and start < b for a, b in ranges)


def _rounded(weights: Iterable[float]) -> Iterator[float]:
    return (round(weight, 6) for weight in weights)


# --- What people, and scores, are told -------------------------------------------------------------------------------


def described(shares: Shares, documents: int) -> Iterator[str]:
    """What to tell people about incomplete annotation."""
    yield f"{documents} training documents are not annotated completely or not for certain: what is open is summed out"
    for ground, of_label in sorted(shares.items(), key=str):
        where = "where nobody looked" if ground.unknown else f"where {_listed(ground.complete)} complete"
        listed = ", ".join(f"{label} {100 * share:.0f}%" for label, share in of_label.items())
        yield f"  {where}, of the entities are taken to be annotated: {listed}"


def _listed(labels: tuple[str, ...] | None) -> str:
    if not labels:
        return "no label is"
    return f"{labels[0]} is" if len(labels) == 1 else f"{', '.join(labels)} are"


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
        unlooked = _touches(gold.unknown, start, end) or (start, end) in doubtful
        return not unlooked and not places.looked.leaves_open(label)

    return replace(predicted, entities=tuple(one for one in predicted.entities if can((one.start, one.end, one.label))))
