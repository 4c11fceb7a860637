"""``nestree compare``: which of two systems is better, and whether that is more than chance."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common
from nestree.cli.tables import table
from nestree.data import Document, Report
from nestree.data.errors import DataError
from nestree.data.files import written
from nestree.evaluation.alignment import paired
from nestree.evaluation.metrics import with_split_labels

if TYPE_CHECKING:
    from nestree.evaluation.comparison import Comparison

EXAMPLE = """\
examples:
  nestree compare runs/small runs/large --gold test.jsonl
  nestree compare mine.jsonl theirs.conll --gold test.jsonl --show 5 --output differences.html
"""
FEW = 20
"""Fewer units than this make rough intervals."""


def add_commands(commands: Any) -> None:
    """Adds ``compare``."""
    parser = commands.add_parser(
        "compare",
        help="two models or predictions: difference, intervals, significance",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in "ab":
        what = "folder of a saved model, which then predicts, or predictions of any format"
        parser.add_argument(name, metavar=name.upper(), type=Path, help=what)
    parser.add_argument("--gold", metavar="GOLD", type=Path, required=True, help="annotated text of any format")
    parser.add_argument(
        "--show", type=common.whole_number(0), default=0, metavar="N", help="draw N differing sentences"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write a page with all differing sentences (.html)")
    parser.add_argument(
        "--split-labels", action="store_true", help="take joined labels (DNA|protein) of all files apart"
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON instead of the table")
    group = parser.add_argument_group("intervals and test")
    group.add_argument(
        "--unit",
        choices=("auto", "document", "sentence"),
        default="auto",
        help="what is drawn; auto: documents, or sentences if there are fewer than 30 documents",
    )
    group.add_argument("--resamples", type=common.whole_number(100), default=10_000, metavar="N", help="10000")
    group.add_argument("--level", type=_level, default=0.95, metavar="SHARE", help="of the intervals (0.95)")
    group.add_argument("--seed", type=common.whole_number(0), default=0, metavar="N", help="of the draws (0)")
    models = parser.add_argument_group("models")
    common.add_budget(models)
    common.add_device(models)
    common.add_reading(parser)
    for name in "ab":
        common.add_reading(parser, name)
    common.add_splitting(parser)
    parser.set_defaults(run=_compare)


def _level(text: str) -> float:
    found = float(text)
    if not 0 < found < 1:
        raise argparse.ArgumentTypeError("it must be between 0 and 1")
    return found


def _compare(options: argparse.Namespace) -> int:
    from nestree.evaluation.comparison import compare

    if options.output:
        _check_output(options.output)
    for path in (options.a, options.b):
        _check_system(path)
    report = Report()
    raw = list(_read(options.gold, options, report))
    if not raw:
        raise DataError("there are no documents in it", path=options.gold, advice="Name annotated text.")
    names = _names(options.a, options.b)
    sides = [_predictions(getattr(options, name), raw, options, report, name) for name in "ab"]
    gold = list(common.split(raw, common.splitter(options)))
    found = compare(
        gold,
        *sides,
        names=names,
        unit=options.unit,
        resamples=options.resamples,
        level=options.level,
        seed=options.seed,
    )
    if options.json:
        content = {"files": {"a": str(options.a), "b": str(options.b), "gold": str(options.gold)}, **found.as_dict()}
        print(json.dumps(content, indent=2, ensure_ascii=False), flush=True)
    else:
        _print(found, names, options.show)
    common.say_report(report)
    _remarks(found)
    if options.output:
        _write_page(found, names, options)
    return 0


def _names(one: Path, other: Path) -> tuple[str, str]:
    """Short names of the two, if these differ."""
    short = one.resolve().name, other.resolve().name
    return short if short[0] != short[1] else (str(one), str(other)) if one != other else ("A", "B")


def _check_system(path: Path) -> None:
    """Says what is missing before anything slow begins."""
    if not path.exists():
        advice = "Name predictions of any format, or the folder of a saved model."
        raise DataError("there is no such file or folder", path=path, advice=advice)
    if (path / "nestree.json").is_file():
        common.check_model(path)


def _check_output(output: Path) -> None:
    if output.suffix.lower() not in (".html", ".htm"):
        raise DataError("the page is written as HTML", path=output, advice="Use the ending .html.")
    if output.is_dir():
        raise DataError("this is a folder, and a file is to be written", path=output, advice="Name a file.")


def _read(path: Path, options: argparse.Namespace, report: Report, of: str = "") -> Iterable[Document]:
    found = common.documents(path, options, report, of)
    return map(with_split_labels, found) if options.split_labels else found


def _predictions(
    path: Path, gold: list[Document], options: argparse.Namespace, report: Report, of: str
) -> list[Document]:
    """What a system says about gold, document by document: read from its file, or predicted by its model."""
    if not (path / "nestree.json").is_file():
        return _aligned(path, gold, _read(path, options, report, of))
    model = common.load_model(path, options.device)
    import torch

    from nestree.prediction import annotate

    settings = {} if options.budget is None else {"budget": options.budget}
    documents = common.split(gold, model.config.splitter, f"as {path.name} reads text")
    try:
        return list(common.progress(annotate(model, documents, **settings), "documents"))
    except torch.OutOfMemoryError as error:
        advice = "Use a smaller --budget, or --device cpu."
        raise DataError(f"the memory of {model.device} does not suffice", advice=advice) from error


def _aligned(path: Path, gold: list[Document], predicted: Iterable[Document]) -> list[Document]:
    """Predictions on gold's documents, also where a file has other white space or ends documents elsewhere."""
    try:
        pairs = list(paired(gold, predicted))
    except DataError as error:
        what = f"{path} does not go with gold: {error.what}"
        raise DataError(what, path=error.path, line=error.line, advice=error.advice) from None
    if [wanted.text for wanted, _ in pairs] != [document.text for document in gold]:
        what = "there is a document in it that is several in gold, so that the other side has no counterpart"
        raise DataError(what, path=path, advice="Split it as gold is.")
    return [found for _, found in pairs]


# --- What is said ----------------------------------------------------------------------------------------------------


def _print(found: Comparison, names: tuple[str, str], show: int) -> None:
    from nestree.evaluation.comparison import heading, rows, verdict

    print(table(["", *names, "difference"], rows(found), right=True))
    for line in verdict(found, names):
        print(line)
    if show and found.differing:
        from nestree.drawing import draw_spans

        for one in found.differing[:show]:
            print(f"\n{heading(one, names)}")
            for name, side in zip(("gold", *names), (one.gold, *one.found), strict=True):
                print(f"\n{name}:\n{draw_spans(one.words, side)}")


def _remarks(found: Comparison) -> None:
    if not found.scores[0].micro.gold:
        common.say("note: gold has no entities; whatever is predicted is wrong")
    if found.units < FEW:
        common.say(f"note: {found.units} {found.unit}s are few; the intervals are rough")
    if found.scores[0].incomplete:
        common.say(
            f"note: {found.scores[0].incomplete:,} documents are not annotated completely; "
            "right predictions may count as wrong there"
        )


def _write_page(found: Comparison, names: tuple[str, str], options: argparse.Namespace) -> None:
    from nestree.evaluation.comparison import differences_page

    text = differences_page(found, names, options.gold.name)
    with written(options.output) as stream:
        stream.write(text)
    common.say(f"{options.output}: page of {len(found.differing):,} differing sentences written")
