"""``nestree evaluate``: how good a model is on annotated text, or how good any predictions are."""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common
from nestree.cli.scores import MATCHED, breakdown_table, one_sided_labels, remarks, scores_table, unknown_labels
from nestree.cli.tables import table
from nestree.data import Document, Report, Splitter, fit, write
from nestree.data.errors import DataError
from nestree.data.formats import for_writing
from nestree.evaluation import (
    BREAKDOWNS,
    MATCHES,
    Evaluation,
    Evaluator,
    Seen,
    paired,
    with_split_labels,
)

if TYPE_CHECKING:
    from nestree.evaluation.error_report import Errors
    from nestree.model import NestedNER

_SPLITTING = ("words", "sentences", "language")


def add_commands(commands: Any) -> None:
    """Adds ``evaluate``."""
    parser = commands.add_parser(
        "evaluate",
        help="precision, recall and F1 of a model on annotated text, or of any predictions",
        usage="nestree evaluate MODEL TEST [options]\n       nestree evaluate --gold GOLD --predicted FILE [options]",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="folder of a saved model")
    parser.add_argument("test", metavar="TEST", type=Path, nargs="?", help="annotated file or folder of any format")
    parser.add_argument("--gold", type=Path, metavar="GOLD", help="instead of MODEL and TEST: annotated text, ...")
    parser.add_argument("--predicted", type=Path, metavar="FILE", help="... and the same text with predictions")
    parser.add_argument(
        "--split-labels", action="store_true", help="take joined labels (DNA|protein) of all files apart"
    )
    parser.add_argument("--match", choices=MATCHES, default="exact", help="what counts as right; default: exact")
    parser.add_argument(
        "--by",
        type=_breakdowns,
        action="extend",
        default=[],
        metavar="KIND",
        help=f"add tables by kind of entity: {', '.join(BREAKDOWNS)} (needs --train), or all; with commas between them",
    )
    parser.add_argument("--train", type=Path, metavar="FILE", help="training data, to tell seen entities from others")
    parser.add_argument(
        "--intervals", action="store_true", help="95%% intervals of P, R and F1, exact matches, by bootstrap over units"
    )
    parser.add_argument("--json", action="store_true", help="all counts of all kinds as JSON instead of the tables")
    parser.add_argument(
        "--errors",
        type=Path,
        metavar="FOLDER",
        help="write the error table (text, CSV, heat map) and a page of all errors",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the predictions; the ending says the format")
    common.add_budget(parser)
    common.add_device(parser)
    common.add_reading(parser)
    common.add_reading(parser, "predicted")
    common.add_reading(parser, "train")
    common.add_splitting(parser)
    parser.set_defaults(run=_evaluate, **dict.fromkeys(_SPLITTING))


def _breakdowns(text: str) -> list[str]:
    """Names of breakdowns with commas between them."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in (*BREAKDOWNS, "all"):
            raise argparse.ArgumentTypeError(f"there is no kind {name!r}; choose of {', '.join(BREAKDOWNS)}, all")
    return names


def _evaluate(options: argparse.Namespace) -> int:
    of_files = _of_files(options)
    if options.errors and options.errors.is_file():
        raise DataError("this is a file, and --errors names a folder", path=options.errors)
    if "seen" in options.by and options.train is None:
        what = "--by seen tells entities of the training data from others, and there is none"
        raise DataError(what, advice="Name it with --train.")
    return _evaluate_files(options) if of_files else _evaluate_model(options)


def _of_files(options: argparse.Namespace) -> bool:
    """Whether two files are to be compared; an error if that is not clear, or an option is not for it."""
    both = "`nestree evaluate MODEL TEST`, or `nestree evaluate --gold GOLD --predicted FILE`."
    of_model, of_files = (options.model, options.test), (options.gold, options.predicted)
    if any(of_model) and any(of_files):
        raise DataError("a model and a file of predictions cannot be evaluated at once", advice=f"Use {both}")
    if not any((*of_model, *of_files)):
        raise DataError("there is nothing to evaluate", advice=f"Use {both}")
    if not (all(of_model) or all(of_files)):
        named = zip(("MODEL", "TEST", "--gold", "--predicted"), (*of_model, *of_files), strict=True)
        missing = next(name for name, value in list(named)[0 if any(of_model) else 2 :] if value is None)
        raise DataError(f"{missing} is missing", advice=f"Use {both}")
    others = {
        True: {"--output": options.output, "--budget": options.budget, "--device": options.device != "auto"},
        False: {
            "--predicted-format": options.predicted_format,
            "--set-predicted": options.set_predicted,
            "--split-labels": options.split_labels,
            **{f"--{name}": getattr(options, name) for name in _SPLITTING},
        },
    }[all(of_files)]
    given = [name for name, value in others.items() if value]
    if given:
        why = (
            "is for a model, and here are predictions"
            if all(of_files)
            else "is for files of predictions; a model knows how to split text and labels"
        )
        raise DataError(f"{given[0]} {why}", advice="Leave it out.")
    return all(of_files)


def _evaluator(options: argparse.Namespace, report: Report) -> Evaluator:
    """Counts by all kinds that can be told: they come in one pass."""
    if options.train is None:
        if options.train_format or options.set_train:
            raise DataError("there is no --train that --train-format or --set-train could be for")
        return Evaluator(options.match, [by for by in BREAKDOWNS if by != "seen"])
    training = common.documents(options.train, options, report, "train")
    if options.split_labels:
        training = map(with_split_labels, training)
    return Evaluator(options.match, BREAKDOWNS, Seen(common.progress(training, "training documents")))


def _evaluate_files(options: argparse.Namespace) -> int:
    reading = Report()
    default = Splitter()
    for name in _SPLITTING:
        setattr(options, name, getattr(options, name) or getattr(default, name))
    how = common.splitter(options)
    gold = common.documents(options.gold, options, reading)
    predicted = common.documents(options.predicted, options, reading, "predicted")
    evaluator = _evaluator(options, reading)
    if options.split_labels:
        gold, predicted = map(with_split_labels, gold), map(with_split_labels, predicted)
    errors, kept = _errors(options), _Kept(options.intervals)
    # Words and sentences are those of gold, so that they are the same whatever was predicted.
    for wanted, found in common.progress(paired(common.split(gold, how), predicted), "documents"):
        evaluator.add(wanted, found)
        kept.add(wanted, found)
        if errors:
            errors.add(wanted, found)
    evaluation = evaluator.result()
    names = {"gold": str(options.gold), "predicted": str(options.predicted)}
    _show(options, evaluation, names, kept.intervals())
    common.say_report(reading)
    for line in (*remarks(evaluation.scores, []), *one_sided_labels(evaluation.scores)):
        common.say(line)
    _write_errors(options, errors)
    return 0


def _evaluate_model(options: argparse.Namespace) -> int:
    common.check_model(options.model)
    if options.output:
        _check_output(options.output, options.test)
    reading, writing = Report(), Report()
    documents = common.documents(options.test, options, reading)
    evaluator = _evaluator(options, reading)
    model = common.load_model(options.model, options.device)
    errors, kept = _errors(options), _Kept(options.intervals)
    predictions = _predictions(model, documents, evaluator, errors, kept, options.budget)
    if options.output:
        config, target = model.config, for_writing(options.output)
        write(fit(predictions, target, config.policies, config.splitter, writing), options.output, report=writing)
    else:
        deque(predictions, maxlen=0)  # counted as they pass, kept nowhere
    evaluation = evaluator.result()
    unknown = unknown_labels(evaluation.scores, model.config)
    names = {"model": str(options.model), "test": str(options.test)}
    _show(options, evaluation, names, {"unknown_labels": unknown, **kept.intervals()})
    common.say_report(reading)
    for line in remarks(evaluation.scores, unknown):
        common.say(line)
    _write_errors(options, errors)
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
    model: NestedNER,
    documents: Iterator[Document],
    evaluator: Evaluator,
    errors: Errors | None,
    kept: _Kept,
    budget: int | None,
) -> Iterator[Document]:
    """The documents with predicted entities; each is counted against gold on its way."""
    import torch

    from nestree.prediction import annotate, annotate_with_trees

    settings = {} if budget is None else {"budget": budget}
    # Of the two copies of the stream, gold waits only for the documents that are being predicted.
    gold, raw = tee(common.split(documents, model.config.splitter, "as the model reads text"))
    found: Iterator[tuple[Document, Any]]
    if errors and model.config.loss != "local":
        found = annotate_with_trees(model, raw, **settings)
    else:
        found = ((document, None) for document in annotate(model, raw, **settings))
    try:
        for (predicted, latent), wanted in zip(common.progress(found, "documents"), gold, strict=True):
            evaluator.add(wanted, predicted)
            kept.add(wanted, predicted)
            if errors:
                errors.add(wanted, predicted, latent)
            yield predicted
    except torch.OutOfMemoryError as error:
        advice = "Use a smaller --budget, or --device cpu."
        raise DataError(f"the memory of {model.device} does not suffice", advice=advice) from error


class _Kept:
    """Pairs of documents from which intervals are drawn, if they are wanted."""

    def __init__(self, wanted: bool) -> None:
        self._pairs: list[tuple[Document, Document]] | None = [] if wanted else None

    def add(self, gold: Document, predicted: Document) -> None:
        if self._pairs is not None:
            self._pairs.append((gold, predicted))

    def intervals(self) -> dict[str, Any]:
        """For JSON; nothing if they are not wanted."""
        if not self._pairs:
            return {}
        from nestree.evaluation.bootstrap import bootstrap, choose_unit, count_units

        gold, predicted = [one for one, _ in self._pairs], [one for _, one in self._pairs]
        (counts,) = count_units(gold, predicted, unit=choose_unit(gold))
        return {"intervals": {"unit": counts.unit, "units": len(counts), **bootstrap(counts).as_dict()}}


def _intervals_table(found: Mapping[str, Any]) -> str:
    names = {"precision": "P", "recall": "R", "f1": "F1", "macro_f1": "macro F1"}
    rows = [
        [name, *(f"{100 * found[key][column]:.2f}" for column in ("value", "low", "high"))]
        for key, name in names.items()
    ]
    return table([f"95% over {found['units']} {found['unit']}s", "value", "from", "to"], rows, right=True)


def _errors(options: argparse.Namespace) -> Errors | None:
    """What collects errors, if they are asked for."""
    if options.errors is None:
        return None
    from nestree.evaluation.error_report import Errors

    return Errors()


def _write_errors(options: argparse.Namespace, errors: Errors | None) -> None:
    if errors is None:
        return
    paths = errors.write(options.errors)
    common.say(f"errors: {', '.join(map(str, paths))}")
    if not any(path.suffix == ".png" for path in paths):
        common.say("note: there is no heat map without matplotlib: pip install 'nestree[plots]'")


def _show(
    options: argparse.Namespace, evaluation: Evaluation, names: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    """Prints JSON or tables."""
    content = evaluation.as_dict()
    if options.json:
        train = {} if options.train is None else {"train": str(options.train)}
        print(json.dumps({**names, **train, **content, **more}, indent=2, ensure_ascii=False), flush=True)
        return
    print(scores_table(content))
    if "intervals" in more:
        print(f"\n{_intervals_table(more['intervals'])}")
    for by, rows in content["breakdowns"].items():
        if by in options.by or "all" in options.by:
            print(f"\n{breakdown_table(by, rows)}")
    print(end="", flush=True)
    if evaluation.match in MATCHED:
        common.say(f"counted as right ({evaluation.match}): {MATCHED[evaluation.match]}")
