"""Kinds of entities, to see which are found and which are not. No torch here.

A gold entity is of the kind that it is in gold, a predicted one of the kind that it is in the prediction: recall is
over the gold entities of a kind, precision over the predicted ones of that kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nestree.data.errors import DataError
from nestree.data.model import Document, Entity
from nestree.data.statistics import nesting
from nestree.evaluation.matching import Pair
from nestree.evaluation.metrics import Key

BREAKDOWNS = ("label", "depth", "nesting", "length", "sentence", "seen")
"""What entities can be told apart by. ``seen`` needs the training data."""

_LENGTHS = {1: "1", 2: "2", 3: "3-5", 6: "6-10", 11: "11+"}
_SENTENCES = {1: "1-10", 11: "11-20", 21: "21-30", 31: "31-50", 51: "51+"}
_NESTING = ("nested", "flat")
_SEEN = ("seen", "other label", "unseen")
_FIXED: dict[str, tuple[str, ...]] = {
    "nesting": _NESTING,
    "length": tuple(_LENGTHS.values()),
    "sentence": tuple(_SENTENCES.values()),
    "seen": _SEEN,
}


@dataclass(frozen=True)
class Credits:
    """What was right of some kind of entities.

    Attributes:
        gold: how many there are in gold.
        found: what of these was found. A whole number, unless credit is given for parts.
        predicted: how many were predicted.
        right: what of these was right. Of all entities together that is ``found``; of a kind it can be another
            number, since the prediction that found an entity need not be of the same kind.
    """

    gold: int = 0
    found: float = 0
    predicted: int = 0
    right: float = 0

    def __add__(self, other: Credits) -> Credits:
        return Credits(
            self.gold + other.gold,
            self.found + other.found,
            self.predicted + other.predicted,
            self.right + other.right,
        )

    @property
    def precision(self) -> float:
        """The share of the predicted that is right; 0 if nothing was predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of gold that was found; 0 if gold is empty."""
        return self.found / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if both are."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def as_dict(self) -> dict[str, float]:
        """Fractions and counts, for JSON."""
        fractions = {name: round(getattr(self, name), 6) for name in ("precision", "recall", "f1")}
        return {**fractions, **{name: _plain(value) for name, value in vars(self).items()}}


def _plain(value: float) -> float:
    """Whole numbers without a point."""
    return int(value) if value == int(value) else round(value, 6)


class Seen:
    """What the training data has: texts of entities, and their labels. White space is left out of account."""

    def __init__(self, training: Iterable[Document]) -> None:
        self._labels: dict[str, set[str]] = {}
        for document in training:
            for entity in document.entities:
                self._labels.setdefault(_text(document, entity), set()).add(entity.label)

    def kind(self, document: Document, entity: Entity) -> str:
        """``seen``: with this label; ``other label``: with others only; ``unseen``."""
        labels = self._labels.get(_text(document, entity))
        return "unseen" if labels is None else "seen" if entity.label in labels else "other label"


def _text(document: Document, entity: Entity) -> str:
    return "".join(document.text_of(entity).split())


class Tables:
    """Counts of each kind, as pairs of documents come.

    Args:
        by: of :data:`BREAKDOWNS`.
        seen: the training data, without which ``seen`` cannot be told.
    """

    def __init__(self, by: Sequence[str], seen: Seen | None = None) -> None:
        unknown = [one for one in by if one not in BREAKDOWNS]
        if unknown:
            raise ValueError(f"there is no breakdown by {unknown[0]!r}; known are {', '.join(BREAKDOWNS)}.")
        if "seen" in by and seen is None:
            raise ValueError("a breakdown by 'seen' needs the training data.")
        self._by = tuple(dict.fromkeys(by))
        self._seen = seen
        self._counts: dict[str, dict[str, list[float]]] = {one: {} for one in self._by}

    def add(self, gold: Document, predicted: Document, pairs: Iterable[Pair], split: Document) -> None:
        """Counts a document. ``split``: the same text with the words and sentences to count in."""
        if not gold.entities and not predicted.entities:
            return
        if split.tokens is None and ("length" in self._by or "sentence" in self._by):
            what = "the document has no words, and lengths are counted in words"
            raise DataError(
                what, path=gold.place or None, advice="Split its text first, or leave out these breakdowns."
            )
        found: dict[Key, float] = {}
        right: dict[Key, float] = {}
        for one, other, credit in pairs:
            found[one] = right[other] = credit
        for side, (document, credited) in enumerate(((gold, found), (predicted, right))):
            for key, kinds in self._kinds(document, split).items():
                for by, kind in zip(self._by, kinds, strict=True):
                    counts = self._counts[by].setdefault(kind, [0, 0, 0, 0])
                    counts[2 * side] += 1
                    counts[2 * side + 1] += credited.get(key, 0)

    def _kinds(self, document: Document, split: Document) -> dict[Key, tuple[str, ...]]:
        """Of each entity, its kind by each breakdown."""
        entities = {
            ((entity.start, entity.end, entity.fragments), entity.label): entity for entity in document.entities
        }
        nested, depths = nesting(entities.values())
        result = {}
        for (key, entity), inside, depth in zip(entities.items(), nested, depths, strict=True):
            kinds = []
            for by in self._by:
                if by == "label":
                    kinds.append(entity.label)
                elif by == "depth":
                    kinds.append(str(depth))
                elif by == "nesting":
                    kinds.append(_NESTING[not inside])
                elif by == "length":
                    kinds.append(_bin(words_of(entity, split), _LENGTHS))
                elif by == "sentence":
                    kinds.append(_bin(sentence_length(entity, split), _SENTENCES))
                else:
                    assert self._seen is not None
                    kinds.append(self._seen.kind(document, entity))
            result[key] = tuple(kinds)
        return result

    def result(self) -> dict[str, dict[str, Credits]]:
        """The counts of each breakdown by kind; lengths, nesting and seen with all kinds, the others as they occur."""
        tables = {}
        for by, counts in self._counts.items():
            kinds = _FIXED.get(by) or sorted(counts, key=int if by == "depth" else str)
            tables[by] = {
                kind: Credits(int(one[0]), one[1], int(one[2]), one[3])
                for kind in kinds
                for one in [counts.get(kind, [0, 0, 0, 0])]
            }
        return tables


def _bin(value: int, bins: Mapping[int, str]) -> str:
    least = list(bins)
    return bins[least[max(0, bisect_right(least, value) - 1)]]


def words_of(entity: Entity, split: Document) -> int:
    """How many words an entity touches; of a discontinuous one, how many its pieces touch."""
    assert split.tokens is not None
    pieces = entity.fragments or ((entity.start, entity.end),)
    return len({word for piece in pieces for word in range(*split.tokens.touched(*piece))})


def sentence_length(entity: Entity, split: Document) -> int:
    """How many words the sentence has in which an entity begins."""
    assert split.tokens is not None
    if not split.sentences:
        return len(split.tokens)
    word = split.tokens.touched(entity.start, entity.end)[0]
    number = max(0, bisect_right(split.sentences, word, key=lambda one: one[0]) - 1)
    start, end = split.sentences[number]
    return end - start
