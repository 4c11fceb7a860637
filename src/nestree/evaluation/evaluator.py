"""All there is to say about predictions, counted in one pass: scores, other ways to match, kinds of entities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nestree.data.model import Document
from nestree.evaluation.alignment import paired
from nestree.evaluation.breakdowns import BREAKDOWNS, Credits, Seen, Tables
from nestree.evaluation.matching import MATCHES, Match, pairs
from nestree.evaluation.metrics import Scores, Tally, keys, split_of


@dataclass(frozen=True)
class Evaluation:
    """What was right in a corpus.

    Attributes:
        match: what counted as right in ``labels`` and ``breakdowns`` (:mod:`nestree.evaluation.matching`).
        scores: the exact counts, whatever ``match`` is.
        labels: the credits of each label that gold or predictions have, sorted by label.
        breakdowns: the credits of each kind of entities, by what tells them apart
            (:data:`nestree.evaluation.BREAKDOWNS`).
    """

    match: Match = "exact"
    scores: Scores = field(default_factory=Scores)
    labels: dict[str, Credits] = field(default_factory=dict)
    breakdowns: dict[str, dict[str, Credits]] = field(default_factory=dict)

    @property
    def micro(self) -> Credits:
        """All entities together."""
        return sum(self.labels.values(), Credits())

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON; fractions are rounded to 6 digits."""
        content = {"match": self.match, **self.scores.as_dict()}
        if self.match != "exact":
            content["micro"] = self.micro.as_dict()
            content["macro"] = {
                name: round(sum(getattr(one, name) for one in self.labels.values()) / max(1, len(self.labels)), 6)
                for name in ("precision", "recall", "f1")
            }
            content["labels"] = {label: one.as_dict() for label, one in self.labels.items()}
        tables = self.breakdowns.items()
        content["breakdowns"] = {by: {kind: one.as_dict() for kind, one in rows.items()} for by, rows in tables}
        return content


class Evaluator:
    """Counts pairs of documents as they come; for those who have them one by one. See :func:`evaluate`."""

    def __init__(self, match: Match = "exact", by: Sequence[str] = (), seen: Seen | None = None) -> None:
        if match not in MATCHES:
            raise ValueError(f"match is {match!r}; known are {', '.join(map(repr, MATCHES))}.")
        self.match = match
        self._by = tuple(by)
        self._tally = Tally()
        self._tables = Tables(("label", *by), seen)

    def add(self, gold: Document, predicted: Document) -> None:
        """Counts a document and its prediction, which must have the same text."""
        self._tally.add(gold, predicted)
        found = pairs(keys(gold), keys(predicted), self.match, gold.text)
        self._tables.add(gold, predicted, found, split_of(gold, predicted))

    def result(self) -> Evaluation:
        """What was counted so far."""
        tables = self._tables.result()
        breakdowns = {by: tables[by] for by in BREAKDOWNS if by in self._by}
        return Evaluation(self.match, self._tally.scores(), tables["label"], breakdowns)


def evaluate(
    gold: Iterable[Document],
    predicted: Iterable[Document],
    *,
    match: Match = "exact",
    by: Sequence[str] = ("label", "depth", "nesting"),
    training: Iterable[Document] | None = None,
) -> Evaluation:
    """Compares predictions with gold, whatever files they come from.

    Texts may differ in white space, and documents may be cut in other places (:func:`nestree.evaluation.paired`).

    Args:
        gold: the documents as they should be.
        predicted: the same text with predicted entities; labels must have been split already.
        match: what counts as right (:data:`nestree.evaluation.MATCHES`).
        by: what to tell entities apart by (:data:`nestree.evaluation.BREAKDOWNS`). ``length`` and ``sentence`` count
            words, so that gold must have them; ``seen`` needs the training data.
        training: what the predictions were learned from.

    Raises:
        DataError: the texts differ; says where. Or words are needed and a document has none.
    """
    evaluator = Evaluator(match, by, None if training is None else Seen(training))
    for one, other in paired(gold, predicted):
        evaluator.add(one, other)
    return evaluator.result()
