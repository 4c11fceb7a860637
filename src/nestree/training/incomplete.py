"""Annotation that is not complete: what unannotated spans may be, as sets of labels with weights.

Suppose that of the entities that are there, a share ρ was annotated, whichever. Then a tree explains what was annotated
with ρ for each entity that was, and 1 − ρ for each that was not; the probability of the annotation is the sum over all
trees of their probability times these factors. That is Masked Inside with weight 1 − ρ for an entity label on an
unannotated span: 0 if annotation is complete, 1 if nobody looked. ρ is estimated by comparing how many entities
there are per word where annotation is complete, and where it is not; labels that differ widely have their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
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


class Ground(NamedTuple):
    """Words that were annotated alike.

    Attributes:
        complete: the labels that were annotated completely; None: all.
        unknown: whether nobody looked there.
    """

    complete: tuple[str, ...] | None = None
    unknown: bool = False

    def leaves_open(self, label: str) -> bool:
        """Whether more entities with a label may be there than were annotated."""
        if self.unknown:
            return True
        return self.complete is not None and not set(split_label(label)) <= set(self.complete)


def labels_in_doubt(documents: Iterable[Document]) -> set[str]:
    """Labels that spans may have."""
    return {
        join_labels([label])
        for document in documents
        for one in document.admissible
        if not one.excluded
        for label in one.labels
        if label is not None
    }


# --- How much was annotated ------------------------------------------------------------------------------------------


class Counts:
    """Words and entities by ground."""

    def __init__(self) -> None:
        self.words: Counter[Ground] = Counter()
        self.entities: dict[Ground, Counter[str]] = defaultdict(Counter)

    def add(self, documents: Iterable[Document]) -> Counts:
        """Counts documents in."""
        for document in documents:
            places = _unknown_words(document)
            hidden = sum(end - start for start, end in places)
            self.words[_ground(document, unknown=True)] += hidden
            self.words[_ground(document, unknown=False)] += len(document.words) - hidden
            for entity in document.entities:
                touched = any(entity.start < end and start < entity.end for start, end in document.unknown)
                self.entities[_ground(document, unknown=touched)][entity.label] += 1
        return self

    def rate(self, label: str) -> float | None:
        """Entities of a label per word where it was annotated completely; None if that is nowhere."""
        complete = [ground for ground, words in self.words.items() if words and not ground.leaves_open(label)]
        words = sum(self.words[ground] for ground in complete)
        found = sum(self.entities[ground][label] for ground in complete)
        return found / words if words and found else None


def annotated_shares(
    train: Sequence[Document], dev: Sequence[Document], labels: Sequence[str], given: float, path: str
) -> dict[Ground, dict[str, float]]:
    """The share of the entities of each label that was annotated, by ground; 1 where annotation is complete.

    Args:
        train: made learnable by the policies.
        dev: as it was found.
        labels: of the model.
        given: a share that the user knows; 0: it is estimated.
        path: of train, for errors.

    Raises:
        DataError: nothing was annotated completely, so that there is nothing to compare with.
    """
    own = Counts().add(train)
    reference = Counts().add(train).add(dev)
    expected_per_word = {label: reference.rate(label) for label in labels}
    found: dict[Ground, dict[str, float]] = {}
    for ground, words in own.words.items():
        open_ones = [label for label in labels if ground.leaves_open(label)]
        if not words or not open_ones:
            continue
        observed = own.entities[ground]
        expected = {label: words * (expected_per_word[label] or 0.0) for label in open_ones}
        if not any(observed[label] for label in open_ones):
            shares = dict.fromkeys(open_ones, 0.0)
        elif given:
            shares = dict.fromkeys(open_ones, given)
        elif not sum(expected.values()):
            raise DataError(
                f"no document, of training or dev data, is annotated completely for any of {', '.join(open_ones)}: "
                "nothing says what share of the entities is annotated in the others",
                path=path,
                advice="Say it by annotated_share (0.5: every second one), or add complete documents.",
            )
        else:
            shares = _estimated(observed, expected)
        found[ground] = {label: shares.get(label, 1.0) for label in labels}
    return found


def _estimated(observed: Counter[str], expected: dict[str, float]) -> dict[str, float]:
    """The share of the expected entities that was observed, of each label."""
    alike = [label for label, number in expected.items() if number]
    while True:
        together = sum(observed[label] for label in alike) / sum(expected[label] for label in alike)
        like_all = [label for label in alike if _is_like(observed[label], expected[label], together)]
        if like_all == alike or not like_all:
            break
        alike = like_all  # what differs widely is no measure for the others
    return {
        label: min(1.0, together if _is_like(observed[label], number, together) else observed[label] / number)
        for label, number in expected.items()
    }


def _is_like(observed: int, expected: float, share: float) -> bool:
    return expected < ENOUGH or share / ALIKE <= observed / expected <= share * ALIKE


def _ground(document: Document, *, unknown: bool) -> Ground:
    complete = None if document.complete_labels is None else tuple(sorted(document.complete_labels))
    return Ground(complete, unknown)


def _unknown_words(document: Document) -> list[Range]:
    """Ranges of words that touch what nobody looked at, in order, none of which overlap."""
    if not document.unknown or not document.tokens:
        return []
    inside = [any(start < b and a < end for a, b in document.unknown) for start, end in document.tokens]
    edges = [
        at for at, (one, before) in enumerate(zip([*inside, False], [False, *inside], strict=True)) if one != before
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


# --- What is open in a sentence --------------------------------------------------------------------------------------


class Openings:
    """Turns what documents leave open into sets of labels, and numbers them.

    Args:
        labels: of the model.
        shares: what was annotated, by ground (:func:`annotated_shares`).
        report: takes notes of what cannot be used.
    """

    def __init__(self, labels: Sequence[str], shares: dict[Ground, dict[str, float]], report: Report) -> None:
        self._labels = labels
        self._shares = shares
        self._report = report
        self._numbers: dict[tuple[float, ...], int] = {}

    @property
    def sets(self) -> tuple[tuple[float, ...], ...]:
        """Weights of the labels, and of being no entity, of all sets so far."""
        return tuple(self._numbers)

    def of_sentence(
        self, document: Document, start: int, end: int, spans: Iterable[tuple[int, int, str]]
    ) -> tuple[list[tuple[int, int, int]], Doubts | None]:
        """Further observed spans of a sentence, each with one label of a set, and what is open in it.

        Args:
            document: it is from.
            start: its first word.
            end: the word after its last one.
            spans: its entities, in its own words, half-open.
        """
        if not document.incomplete:
            return [], None
        ground, unlooked = _ground(document, unknown=False), _ground(document, unknown=True)
        otherwise = self._weights(ground)
        regions = [
            (max(first, start) - start, min(last, end) - start - 1, self._number(self._weights(unlooked)))
            for first, last in _unknown_words(document)
            if first < end and start < last
        ]
        observed: list[tuple[int, int, int]] = []
        single: list[tuple[int, int, int]] = []
        known = list(spans)
        for one, first, last in self._admissible(document, start, end):
            if any(first == a and last == b for a, b, *_ in known):
                continue  # the annotated entity says more
            touched = any(first <= b and a < last for a, b, _ in regions)
            weights = self._weights_of(one, self._weights(unlooked) if touched else otherwise)
            if None in one.labels or one.excluded:
                single.append((first, last - 1, self._number(weights)))
            elif any(a < first < b < last or first < a < last < b for a, b, *_ in known):
                self._note(document, one, "it crosses an entity")
            else:
                observed.append((first, last, self._number(weights)))
                known.append((first, last, ""))
        nothing_else = (*[0.0] * len(self._labels), 1.0)
        number = -1 if otherwise == nothing_else else self._number(otherwise)
        if number < 0 and not regions and not single:
            return observed, None
        return observed, Doubts(number, tuple(regions), tuple(single))

    def _admissible(self, document: Document, start: int, end: int) -> Iterator[tuple[Admissible, int, int]]:
        """Those of a sentence, with their words in it; notes those that are no words of any."""
        for one in document.admissible:
            found = document.tokens.exactly(one.start, one.end) if document.tokens else None
            if found is None:
                if start == 0:
                    self._note(document, one, "it is not on token boundaries")
            elif start <= found[0] < end:
                if found[1] <= end:
                    yield one, found[0] - start, found[1] - start
                else:
                    self._note(document, one, "it reaches over the end of its sentence")

    def _note(self, document: Document, one: Admissible, why: str) -> None:
        self._report.note("admissible", document.place, f"{document.text[one.start : one.end]!r}: {why}", "left out")

    def _weights(self, ground: Ground) -> tuple[float, ...]:
        shares = self._shares.get(ground, {})
        return (*(round(1 - shares.get(label, 1.0), 6) for label in self._labels), 1.0)

    def _weights_of(self, one: Admissible, otherwise: tuple[float, ...]) -> tuple[float, ...]:
        named = [any(part in one.labels for part in split_label(label)) for label in self._labels]
        if one.excluded:
            return (*(0.0 if it else weight for it, weight in zip(named, otherwise, strict=False)), 1.0)
        return (*map(float, named), float(None in one.labels))

    def _number(self, weights: tuple[float, ...]) -> int:
        return self._numbers.setdefault(weights, len(self._numbers))


def described(shares: dict[Ground, dict[str, float]], documents: int) -> Iterator[str]:
    """What to tell people about incomplete annotation."""
    yield f"{documents} training documents are not annotated completely or not for certain: what is open is summed out"
    for ground, of_label in sorted(shares.items(), key=str):
        open_ones = {label: share for label, share in of_label.items() if ground.leaves_open(label)}
        where = "where nobody looked" if ground.unknown else f"where {_listed(ground.complete)} complete"
        listed = ", ".join(f"{label} {100 * share:.0f}%" for label, share in open_ones.items())
        yield f"  {where}, of the entities are taken to be annotated: {listed}"


def _listed(labels: tuple[str, ...] | None) -> str:
    if not labels:
        return "no label is"
    return f"{labels[0]} is" if len(labels) == 1 else f"{', '.join(labels)} are"
