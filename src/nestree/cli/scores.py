"""Tables of scores, and remarks on what they cannot show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nestree.cli.tables import table
from nestree.data import split_label
from nestree.evaluation import Scores

if TYPE_CHECKING:
    from nestree.model import ModelConfig

_REASONS = {
    "discontinuous": "in several pieces",
    "off_tokens": "not on word boundaries",
    "across_sentences": "across sentences",
    "crossing": "crossing another",
}
MATCHED = {
    "boundary": "the same place, whatever the label",
    "overlap": "the same label and a shared character, one to one",
    "partial": "the same label, by the share of characters in common, one to one",
}
_HEADS = {
    "label": "label",
    "depth": "depth",
    "nesting": "nesting",
    "length": "words",
    "sentence": "words in sentence",
    "seen": "in training",
}
_COLUMNS: tuple[str, ...] = ("gold", "found", "predicted", "right")


def scores_table(scores: Mapping[str, Any]) -> str:
    """The table of what :meth:`Scores.as_dict` or :meth:`Evaluation.as_dict` gives."""
    spans = scores["unlabelled"]
    columns: tuple[str, ...] = ("gold", "predicted", "correct")
    if "correct" not in scores["micro"]:  # what was found need not be of the label it was found as
        columns = _COLUMNS
        spans = {**spans, "found": spans["correct"], "right": spans["correct"]}
    rows = [
        *(_row(label, counts, columns) for label, counts in scores["labels"].items()),
        _row("micro", scores["micro"], columns),
        _row("macro", scores["macro"], columns),
        _row("unlabelled spans", spans, columns),
    ]
    return table(["", "P", "R", "F1", *columns], rows, right=True)


def breakdown_table(by: str, kinds: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of one breakdown; kinds that occur nowhere are left out."""
    rows = [_row(kind, counts, _COLUMNS) for kind, counts in kinds.items() if counts["gold"] or counts["predicted"]]
    return table([_HEADS[by], "P", "R", "F1", *_COLUMNS], rows, right=True)


def _row(name: str, counts: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    fractions = [_percent(counts[one]) for one in ("precision", "recall", "f1")]
    return [name, *fractions, *(_count(counts[one]) if one in counts else "" for one in columns)]


def _count(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f}"


def remarks(scores: Scores, unknown: list[str]) -> Iterator[str]:
    """Lines on what was counted, and on what the numbers cannot show."""
    yield f"{_number(scores.sentences, 'sentence')} in {_number(scores.documents, 'document')}"
    gold = scores.micro.gold
    if not gold:
        yield "note: the test has no entities; whatever is predicted is wrong, and recall means nothing"
    if scores.duplicates:
        entities = _number(scores.duplicates, "gold entity", "gold entities")
        yield f"note: {entities} listed more than once; each is counted once"
    lost = sum(scores.unreachable.values())
    if lost:
        reasons = [f"{number:,} {_REASONS[reason]}" for reason, number in scores.unreachable.items() if number]
        yield (
            f"note: no tree can hold {lost:,} of the {_number(gold, 'gold entity', 'gold entities')} "
            f"({', '.join(reasons)}); they stay in gold, so the recall of a tree is {_percent(1 - lost / gold)} at most"
        )
    if unknown:
        missed = sum(scores.labels[label].gold for label in unknown)
        entities = _number(missed, "gold entity", "gold entities")
        labels = ("label " if len(unknown) == 1 else "labels ") + ", ".join(map(repr, unknown))
        yield f"note: {entities} cannot be found: the model does not know the {labels}"
    if scores.incomplete:
        documents = _number(scores.incomplete, "document")
        yield f"note: {documents} not annotated completely; right predictions may count as wrong there"


def one_sided_labels(scores: Scores) -> Iterator[str]:
    """Says which labels only one side has: two names for one thing look like that."""
    for side, other, name, verb in (
        ("gold", "predicted", "gold", "has"),
        ("predicted", "gold", "the predictions", "have"),
    ):
        labels = [label for label, one in scores.labels.items() if getattr(one, side) and not getattr(one, other)]
        if labels:
            shown = ", ".join(map(repr, labels[:10])) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
            yield f"note: only {name} {verb} the {'label' if len(labels) == 1 else 'labels'} {shown}"


def _number(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def unknown_labels(scores: Scores, config: ModelConfig) -> list[str]:
    """Labels of gold that the model cannot predict."""
    joined = config.policies.same_span == "composite"
    known = {part for label in config.labels for part in (split_label(label) if joined else (label,))}
    return [label for label, counts in scores.labels.items() if counts.gold and label not in known]
