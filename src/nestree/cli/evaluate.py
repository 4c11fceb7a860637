"""``nestree evaluate``: how good a model is on annotated text."""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common
from nestree.cli.tables import table
from nestree.data import Document, Report, fit, split_label, write
from nestree.data.errors import DataError
from nestree.data.formats import for_writing
from nestree.evaluation import Scores, Tally

if TYPE_CHECKING:
    from nestree.model import ModelConfig, NestedNER

_REASONS = {
    "discontinuous": "in several pieces",
    "off_tokens": "not on word boundaries",
    "across_sentences": "across sentences",
    "crossing": "crossing another",
}


def add_commands(commands: Any) -> None:
    """Adds ``evaluate``."""
    parser = commands.add_parser("evaluate", help="precision, recall and F1 of a model on annotated text")
    parser.add_argument("model", metavar="MODEL", type=Path, help="folder of a saved model")
    parser.add_argument("test", metavar="TEST", type=Path, help="annotated file or folder of any format")
    parser.add_argument("--json", action="store_true", help="all counts as JSON instead of the table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the predictions; the ending says the format")
    parser.add_argument(
        "--budget",
        type=common.whole_number(1),
        metavar="N",
        help="most work of one forward pass (16384); less needs less memory",
    )
    common.add_device(parser)
    common.add_reading(parser)
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> int:
    common.check_model(options.model)
    if options.output:
        _check_output(options.output, options.test)
    reading, writing, tally = Report(), Report(), Tally()
    documents = common.documents(options.test, options, reading)
    model = common.load_model(options.model, options.device)
    predictions = _predictions(model, documents, tally, options.budget)
    if options.output:
        config, target = model.config, for_writing(options.output)
        write(fit(predictions, target, config.policies, config.splitter, writing), options.output, report=writing)
    else:
        deque(predictions, maxlen=0)  # counted as they pass, kept nowhere
    scores = tally.scores()
    unknown = _unknown_labels(scores, model.config)
    if options.json:
        content = {"model": str(options.model), "test": str(options.test), **scores.as_dict()}
        print(json.dumps({**content, "unknown_labels": unknown}, indent=2, ensure_ascii=False), flush=True)
    else:
        print(scores_table(scores.as_dict()), flush=True)
    common.say_report(reading)
    for line in _remarks(scores, unknown):
        common.say(line)
    if options.output:
        common.say_report(writing)
        common.say(f"{options.output}: predictions written as {for_writing(options.output).name}")
    return 0


def _check_output(output: Path, test: Path) -> None:
    """Says what is wrong with the place for predictions before anything slow begins."""
    try:
        for_writing(output)
    except DataError as error:
        advice = "Use an ending such as .jsonl; `nestree data formats` lists them."
        raise DataError(error.what, path=output, advice=advice) from None
    if output.is_dir():
        raise DataError("this is a folder, and a file is to be written", path=output, advice="Name a file.")
    if output.exists() and test.exists() and output.samefile(test):
        raise DataError("predictions would replace the test they are for", path=output, advice="Name another file.")


def _predictions(
    model: NestedNER, documents: Iterator[Document], tally: Tally, budget: int | None
) -> Iterator[Document]:
    """The documents with predicted entities; each is counted against gold on its way."""
    import torch

    from nestree.prediction import annotate

    settings = {} if budget is None else {"budget": budget}
    # Of the two copies of the stream, gold waits only for the documents that are being predicted.
    gold, raw = tee(common.split(documents, model.config.splitter, "as the model reads text"))
    try:
        predictions = common.progress(annotate(model, raw, **settings), "documents")
        for predicted, wanted in zip(predictions, gold, strict=True):
            tally.add(wanted, predicted)
            yield predicted
    except torch.OutOfMemoryError as error:
        advice = "Use a smaller --budget, or --device cpu."
        raise DataError(f"the memory of {model.device} does not suffice", advice=advice) from error


# --- What is said ----------------------------------------------------------------------------------------------------


def scores_table(scores: Mapping[str, Any]) -> str:
    """The table of what :meth:`Scores.as_dict` gives."""
    rows = [
        *(_row(label, counts) for label, counts in scores["labels"].items()),
        _row("micro", scores["micro"]),
        _row("macro", scores["macro"]),
        _row("unlabelled spans", scores["unlabelled"]),
    ]
    return table(["", "P", "R", "F1", "gold", "predicted", "correct"], rows, right=True)


def _row(name: str, counts: Mapping[str, Any]) -> list[str]:
    fractions = [_percent(counts[one]) for one in ("precision", "recall", "f1")]
    return [
        name,
        *fractions,
        *(f"{counts[one]:,}" if one in counts else "" for one in ("gold", "predicted", "correct")),
    ]


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f}"


def _remarks(scores: Scores, unknown: list[str]) -> Iterator[str]:
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


def _number(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _unknown_labels(scores: Scores, config: ModelConfig) -> list[str]:
    """Labels of gold that the model cannot predict."""
    joined = config.policies.same_span == "composite"
    known = {part for label in config.labels for part in (split_label(label) if joined else (label,))}
    return [label for label, counts in scores.labels.items() if counts.gold and label not in known]
