"""``nestree data returned``: what annotators send back, made fit for training."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nestree.cli import common
from nestree.data import Document, Report, fit, read, write
from nestree.data.errors import DataError
from nestree.data.formats import FORMATS, detect, for_writing, get
from nestree.data.formats.base import Format
from nestree.data.returns import UNCHANGED, Returns, Unchanged, returned


def add_action(actions: Any) -> None:
    """Adds ``returned``."""
    parser = actions.add_parser("returned", help="what annotators send back, beside what they were sent")
    parser.add_argument("sent", metavar="SENT", type=Path, help="what `nestree suggest` wrote")
    parser.add_argument("back", metavar="BACK", type=Path, help="what came back, in any format")
    parser.add_argument("target", metavar="DST", type=Path, help="where to write what is known now")
    parser.add_argument("--to", metavar="FORMAT", help="format of DST; by its ending if left out")
    parser.add_argument("--set-to", action="append", default=[], metavar="OPTION=VALUE", help="option of DST's format")
    parser.add_argument("--force", action="store_true", help="replace DST if it is a file that is there")
    parser.add_argument(
        "--unchanged",
        choices=UNCHANGED,
        help="documents that come back as they were sent; left out: keep them where the tool says who finished what",
    )
    parser.add_argument("--partial", action="store_true", help="people did not finish: only what they changed counts")
    common.add_reading(parser)
    common.add_splitting(parser)
    common.add_policies(parser, ("alignment", "discontinuous"))
    parser.set_defaults(run=_returned)


def _returned(options: argparse.Namespace) -> int:
    target: Path = options.target
    for path in (options.sent, options.back):
        if not path.exists():
            raise DataError("there is no such file or folder", path=path)
        if target.exists() and target.resolve() == path.resolve():
            raise DataError("this is read, and cannot be written too", path=target, advice="Name another one.")
    if target.exists() and (target.is_dir() or not options.force):
        raise DataError("there is something already", path=target, advice="Name another one, or use --force.")
    written = get(options.to) if options.to else for_writing(target)
    report, returns = Report(), Returns()
    form = detect(options.back) if options.format is None else get(options.format)
    unchanged: Unchanged = options.unchanged or ("keep" if form.as_guesses else "drop")
    documents = returned(
        _sent(options.sent, report),
        common.documents(options.back, options, report, defaults=form.only_finished),
        unchanged=unchanged,
        partial=options.partial,
        report=report,
        returns=returns,
    )
    fitting = fit(documents, written, common.policies(options), common.splitter(options), report)
    write(fitting, target, written.name, options=common.pairs(options.set_to), report=report)
    common.say_report(report)
    common.say(f"{target}: {returns}")
    _advise(form, options, returns)
    return 0


def _sent(path: Path, report: Report) -> Iterator[Document]:
    form = detect(path)
    common.say(f"{path}: read as {form.name}, as it was sent")
    return read(path, form.name, options=form.with_guesses, report=report)


def _advise(form: Format, options: argparse.Namespace, returns: Returns) -> None:
    """Says what was done with documents of which it is not known whether anybody saw them."""
    if returns.unchanged and not (form.as_guesses or options.unchanged or options.partial):
        tools = " and ".join(sorted(name for name, one in FORMATS.items() if one.as_guesses))
        common.say(
            f"note: {form.name} does not say what people finished ({tools} do): documents that came back as they were "
            "sent are left out. If somebody looked at all of them, use --unchanged keep"
        )
