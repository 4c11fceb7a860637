"""Precision, recall and F1 of predicted entities, exactly as they are counted in the literature. No torch here.

**Gold is what the file says, as a set.** An entity is its place and its label: start, end, the pieces of a
discontinuous one, and label, in characters of the same text. It is right if all of these are; nothing is half right.
An entity that is listed twice counts once. What no tree can hold (crossing, discontinuous, off the token boundaries,
across sentences) stays in gold: it is missed unless it is predicted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from nestree.data.errors import DataError, shown
from nestree.data.model import Document, Entity, Range
from nestree.data.policies import crossing_pairs, split_label

Place = tuple[int, int, tuple[Range, ...]]
"""Where an entity stands, in characters: start, end, and the pieces of a discontinuous one."""
Key = tuple[Place, str]
"""What makes an entity the same as another: place and label."""

DISCONTINUOUS, OFF_TOKENS, ACROSS_SENTENCES, CROSSING = "discontinuous", "off_tokens", "across_sentences", "crossing"
UNREACHABLE = (DISCONTINUOUS, OFF_TOKENS, ACROSS_SENTENCES, CROSSING)
"""Why a tree cannot hold an entity. The first that applies is the one it is counted under."""


@dataclass(frozen=True)
class Counts:
    """How many there are in gold, how many were predicted, and how many of those are in gold."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.correct + other.correct, self.predicted + other.predicted, self.gold + other.gold)

    @classmethod
    def of(cls, gold: set[Any], predicted: set[Any]) -> Counts:
        """The counts of two sets."""
        return cls(len(gold & predicted), len(predicted), len(gold))

    @property
    def precision(self) -> float:
        """The share of the predicted that is right; 0 if nothing was predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of gold that was found; 0 if gold is empty."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if both sides are empty."""
        both = self.predicted + self.gold
        return 2 * self.correct / both if both else 0.0

    def as_dict(self) -> dict[str, float]:
        """Fractions and counts, for JSON."""
        return {**_fractions(self.precision, self.recall, self.f1), **vars(self)}


@dataclass(frozen=True)
class Scores:
    """What was right in a corpus.

    Attributes:
        labels: the counts of each label that gold or predictions have, sorted by label.
        unlabelled: spans whatever their label; a span counts once however many labels it has.
        documents: how many were compared.
        sentences: how many they have, as far as they are split into sentences.
        duplicates: gold entities that repeat one of the same document; they are not counted again.
        incomplete: documents that say that they are not annotated completely (:attr:`Document.incomplete`).
            Right predictions that nobody annotated count as wrong there.
        unreachable: of gold, how many no tree can hold, by reason (:data:`UNREACHABLE`); each is counted once, so
            that the sum is the least that any tree misses. Of crossing entities, that is the fewest that must go for
            the others to nest.
    """

    labels: dict[str, Counts] = field(default_factory=dict)
    unlabelled: Counts = Counts()
    documents: int = 0
    sentences: int = 0
    duplicates: int = 0
    incomplete: int = 0
    unreachable: dict[str, int] = field(default_factory=lambda: dict.fromkeys(UNREACHABLE, 0))

    @property
    def micro(self) -> Counts:
        """All entities together; the numbers that papers report."""
        return sum(self.labels.values(), Counts())

    @property
    def macro_precision(self) -> float:
        """The unweighted mean of the labels' precision, over the labels that gold or predictions have."""
        return self._mean([counts.precision for counts in self.labels.values()])

    @property
    def macro_recall(self) -> float:
        """The unweighted mean of the labels' recall, over the labels that gold or predictions have."""
        return self._mean([counts.recall for counts in self.labels.values()])

    @property
    def macro_f1(self) -> float:
        """The unweighted mean of the labels' F1 (not the F1 of the means), over the same labels."""
        return self._mean([counts.f1 for counts in self.labels.values()])

    @staticmethod
    def _mean(values: list[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON; fractions are rounded to 6 digits."""
        return {
            "micro": self.micro.as_dict(),
            "macro": _fractions(self.macro_precision, self.macro_recall, self.macro_f1),
            "unlabelled": self.unlabelled.as_dict(),
            "labels": {label: counts.as_dict() for label, counts in self.labels.items()},
            "documents": self.documents,
            "sentences": self.sentences,
            "duplicates": self.duplicates,
            "incomplete": self.incomplete,
            "unreachable": dict(self.unreachable),
        }


def _fractions(precision: float, recall: float, f1: float) -> dict[str, float]:
    return {"precision": round(precision, 6), "recall": round(recall, 6), "f1": round(f1, 6)}


# --- Counting --------------------------------------------------------------------------------------------------------


def score(gold: Iterable[Document], predicted: Iterable[Document]) -> Scores:
    """Compares predictions with gold, document by document in their order.

    Both are taken one at a time, and none is kept. Predictions must have their labels already split, as
    :func:`with_split_labels` does it; they are a set too: what is predicted twice counts once.

    Raises:
        DataError: two documents differ in text, or one side has more documents than the other; says which.
    """
    tally = Tally()
    for one, other in zip_longest(gold, predicted):
        if one is None or other is None:
            raise one_side_ends(one, other, tally.documents)
        tally.add(one, other)
    return tally.scores()


class Tally:
    """Counts pairs of documents as they come; for those who have them one by one. See :func:`score`."""

    def __init__(self) -> None:
        self.documents = 0
        self._sentences = 0
        self._duplicates = 0
        self._incomplete = 0
        self._labels: dict[str, Counts] = {}
        self._unlabelled = Counts()
        self._unreachable: Counter[str] = Counter()

    def add(self, gold: Document, predicted: Document) -> None:
        """Counts a document and its prediction."""
        if gold.text != predicted.text:
            raise other_text(gold, predicted, self.documents + 1)
        wanted, found = keys(gold), keys(predicted)
        for label, counts in _by_label(wanted, found):
            self._labels[label] = self._labels.get(label, Counts()) + counts
        self._unlabelled += Counts.of({place for place, _ in wanted}, {place for place, _ in found})
        split = split_of(gold, predicted)
        self._unreachable.update(unreachable(gold, split))
        self.documents += 1
        self._sentences += len(split.sentences or ())
        self._duplicates += len(gold.entities) - len(wanted)
        self._incomplete += gold.incomplete

    def scores(self) -> Scores:
        """What was counted so far."""
        return Scores(
            labels=dict(sorted(self._labels.items())),
            unlabelled=self._unlabelled,
            documents=self.documents,
            sentences=self._sentences,
            duplicates=self._duplicates,
            incomplete=self._incomplete,
            unreachable={reason: self._unreachable[reason] for reason in UNREACHABLE},
        )


def split_of(gold: Document, predicted: Document) -> Document:
    """The one of the two that has the words and sentences to count in: gold if it has them."""
    return next((one for one in (gold, predicted) if one.tokens is not None and one.sentences is not None), gold)


def keys(document: Document) -> set[Key]:
    """The entities of a document as a set of places and labels."""
    return {((entity.start, entity.end, entity.fragments), entity.label) for entity in document.entities}


def _by_label(gold: set[Key], predicted: set[Key]) -> Iterator[tuple[str, Counts]]:
    correct, found, wanted = (Counter(label for _, label in one) for one in (gold & predicted, predicted, gold))
    for label in found | wanted:
        yield label, Counts(correct[label], found[label], wanted[label])


_SAME = "Gold and predictions must be the same documents in the same order."


def one_side_ends(gold: Document | None, predicted: Document | None, number: int) -> DataError:
    """The error for a document that the other side does not have."""
    left, side = (predicted, "gold documents") if gold is None else (gold, "predictions")
    what = f"document {number + 1} has no counterpart: the {side} end after {number}"
    return DataError(what, path=(left.place if left else "") or None, advice=_SAME)


def other_text(gold: Document, predicted: Document, number: int) -> DataError:
    """The error for two documents that are not the same."""
    pairs = enumerate(zip(gold.text, predicted.text, strict=False))
    shorter = min(len(gold.text), len(predicted.text))
    at = next((at for at, (one, other) in pairs if one != other), shorter)
    texts = f"{shown(gold.text[at : at + 40])} in gold, {shown(predicted.text[at : at + 40])} in the prediction"
    what = f"document {number} has another text in gold than in the prediction; from character {at} on: {texts}"
    return DataError(what, path=gold.place or None, advice=_SAME)


def with_split_labels(document: Document) -> Document:
    """The document with an entity for each label that a joined label (``DNA|protein``) stands for.

    Labels must come from :func:`nestree.data.join_labels`, as a model's do that was trained with the policy
    ``same_span = composite``.
    """
    parts = [split_label(entity.label) for entity in document.entities]
    if all(labels == (entity.label,) for labels, entity in zip(parts, document.entities, strict=True)):
        return document
    entities: list[Entity] = []
    numbers: list[int] = []
    for number, (labels, entity) in enumerate(zip(parts, document.entities, strict=True)):
        entities += [entity._replace(label=label) for label in labels]
        numbers += [number] * len(labels)
    source = document.source
    if source is not None and source.entity_lines:
        source = source._replace(entity_lines=tuple(source.entity_lines[number] for number in numbers))
    return replace(document, entities=tuple(entities), source=source)


# --- What a tree cannot hold -----------------------------------------------------------------------------------------


def unreachable(gold: Document, split: Document) -> Counter[str]:
    """How many different entities of a document no tree can hold, by reason.

    ``split``: the same document with the words and sentences that trees are built on. Without words only pieces and
    crossing are looked at, without sentences all words are one.
    """
    found: Counter[str] = Counter()
    held: Counter[Range] = Counter()
    for (start, end, pieces), _ in keys(gold):
        reason = DISCONTINUOUS if pieces else _misplaced(start, end, split)
        if reason:
            found[reason] += 1
        else:
            held[start, end] += 1
    pairs = crossing_pairs(Entity(start, end, "") for start, end in held)
    involved = {(entity.start, entity.end) for pair in pairs for entity in pair}
    if involved:
        crossing = Counter({span: held[span] for span in involved})
        found[CROSSING] = crossing.total() - most_nested(crossing)
    return found


def _misplaced(start: int, end: int, split: Document) -> str | None:
    if split.tokens is None:
        return None
    words = split.tokens.exactly(start, end)
    if words is None:
        return OFF_TOKENS
    if not split.sentences:
        return None
    sentence = bisect_right(split.sentences, words[0], key=lambda one: one[0]) - 1
    return ACROSS_SENTENCES if words[1] > split.sentences[sentence][1] else None


def most_nested(weights: Counter[Range]) -> int:
    """The largest weight of spans of which no two cross.

    From short to long, the best of each span is its weight and the best row of spans within it that do not overlap.
    Time: quadratic in the number of spans, times a logarithm.
    """
    best: dict[Range, int] = {}
    for start, end in sorted(weights, key=lambda one: one[1] - one[0]):
        within = [(one, value) for one, value in best.items() if start <= one[0] and one[1] <= end]
        best[start, end] = weights[start, end] + _best_row(within)
    return _best_row(list(best.items()))


def _best_row(spans: list[tuple[Range, int]]) -> int:
    """The largest sum of values of spans that do not overlap."""
    ends: list[int] = []
    sums = [0]  # the best of the spans up to each end
    for (start, end), value in sorted(spans, key=lambda one: one[0][1]):
        sums.append(max(sums[-1], value + sums[bisect_right(ends, start)]))
        ends.append(end)
    return sums[-1]
