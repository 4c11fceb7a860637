"""``nestree suggest``: what is worth annotating next, pre-annotated, for any annotation tool."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common, output, predict
from nestree.data import Document, Policies, Report, fit, read, write
from nestree.data.errors import DataError
from nestree.data.formats import detect
from nestree.data.formats.base import Format
from nestree.data.formats.jsonl import as_object
from nestree.data.formats.records import dumped

if TYPE_CHECKING:
    from nestree.model import NestedNER
    from nestree.prediction import Suggestion

BY = ("tree", "entities")
UNITS = ("sentence", "document")
EXAMPLE = """\
examples:
  nestree suggest runs/mine letters.txt -k 100 --to label-studio --output round-1.json
  nestree suggest runs/mine pool.jsonl --exclude train.jsonl round-1.json --to prodigy --output round-2.jsonl
"""


def add_commands(commands: Any) -> None:
    """Adds ``suggest``."""
    parser = commands.add_parser(
        "suggest",
        help="pick what is worth annotating next",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    predict.add_files(parser, "POOL")
    parser.add_argument("-k", type=common.whole_number(1), default=100, metavar="N", help="how many at most (100)")
    parser.add_argument(
        "--by", choices=BY, help="uncertainty per word, of the whole tree (default) or of its entities alone"
    )
    parser.add_argument("--unit", choices=UNITS, default="sentence", help="what is suggested (sentence)")
    parser.add_argument(
        "--exclude", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help="annotated already"
    )
    parser.add_argument(
        "--diversity", type=float, default=0.5, metavar="D", help="0: only uncertain; 1: as unlike as can be (0.5)"
    )
    parser.add_argument(
        "--candidates",
        type=common.whole_number(1),
        default=5,
        metavar="M",
        help="of the M times N most uncertain ones, N are picked that are not alike (5)",
    )
    parser.add_argument(
        "--min-words", type=common.whole_number(1), default=1, metavar="N", help="leave out what is shorter (1)"
    )
    predict.add_settings(parser)
    parser.set_defaults(run=_suggest)


def _suggest(options: argparse.Namespace) -> int:
    inputs: list[Path] = options.inputs or [output.STREAM]
    predict.check_inputs(inputs, options, "suggest")
    form = _target(options, inputs)
    common.check_model(options.model)
    thresholds = predict.thresholds_of(options.threshold)
    report = Report()
    annotated = list(_annotated(options.exclude, report))
    total = predict.counted_documents(inputs, options) if sys.stderr.isatty() else None
    model = common.load_model(options.model, options.device)
    from nestree.prediction import suggest

    pool = common.split(predict.documents_of(inputs, options, report), model.config.splitter, "as the model reads text")
    settings = {name: getattr(options, name) for name in ("by", "unit", "diversity", "candidates", "min_words")}
    settings |= {"threshold": thresholds, "max_words": options.max_words, "budget": options.budget}
    try:
        with predict.memory_of(model):
            found = suggest(model, predict.with_bar(pool, total), options.k, exclude=annotated, **settings)
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None
    common.say_report(report)
    _write(found, form, options, model)
    return 0


def _annotated(paths: list[Path], report: Report) -> Iterator[Document]:
    """What was annotated, or at least suggested, already."""
    for path in paths:
        found = detect(path)
        common.say(f"{path}: read as {found.name}, to be left out")
        first = {"annotation": "first"} if found.name == "label-studio" else {}  # which one does not matter: text does
        yield from read(path, found.name, options={**found.with_guesses, **first}, report=report)


# --- Output ----------------------------------------------------------------------------------------------------------


def _target(options: argparse.Namespace, inputs: list[Path]) -> tuple[Format, dict[str, str]] | None:
    """The format of the output, and its options; None for the screen. Says what is wrong before slow things begin."""
    if options.output is None:
        if options.to not in (None, "jsonl"):
            raise DataError(f"the format {options.to!r} goes to a file", advice="Name one: --output PATH.")
        return None
    form, chosen = output.output_format(options.output, options)
    output.check_output(options.output, options.force, [*inputs, *options.exclude])
    return form, {**form.as_guesses, **chosen}


def _write(
    found: list[Suggestion], form: tuple[Format, dict[str, str]] | None, options: argparse.Namespace, model: NestedNER
) -> None:
    documents = [one.document for one in found]
    if form is None:
        for document in documents:
            sys.stdout.write(dumped(as_object(document)) + "\n")
    else:
        report = Report()
        fitting = fit(documents, form[0], Policies(), model.config.splitter, report)
        write(fitting, options.output, form[0].name, options=form[1], report=report)
        common.say_report(report)
        common.say(f"{options.output}: {len(found)} suggestions written as {form[0].name}")
    if len(found) < options.k:
        common.say(f"note: there are {len(found)} to be suggested, not {options.k}")
