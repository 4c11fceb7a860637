"""``nestree data``: stats, check, convert, returned, formats."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nestree.cli import common, returned
from nestree.cli.tables import table
from nestree.data import Document, Report, convert
from nestree.data.checks import Check
from nestree.data.errors import DataError
from nestree.data.formats import FORMATS, detect, for_writing, get
from nestree.data.splitting import best_words
from nestree.data.statistics import Statistics, compared, count
from nestree.encoders import PieceCounter

_PICTURES = (".png", ".svg", ".pdf")


def add_commands(commands: Any) -> None:
    """Adds ``data`` and what belongs to it."""
    parser = commands.add_parser("data", help="count, check and convert corpora of any format")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_stats(actions)
    _add_check(actions)
    _add_convert(actions)
    returned.add_action(actions)
    formats = actions.add_parser("formats", help="list the formats and their options")
    formats.set_defaults(run=_formats)


def _add_stats(actions: Any) -> None:
    parser = actions.add_parser("stats", help="sentences, entities, nesting, lengths: a table, JSON or a plot")
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="files or folders, one column each")
    parser.add_argument("--json", action="store_true", help="all counts as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw lengths, depths and labels (.png, .svg, .pdf)")
    common.add_reading(parser)
    common.add_splitting(parser)
    parser.set_defaults(run=_stats)


def _add_check(actions: Any) -> None:
    parser = actions.add_parser("check", help="everything that could hurt training, with file and line")
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="splits; the first is for training")
    parser.add_argument("--longest", type=int, default=256, metavar="WORDS", help="mention longer sentences (256)")
    parser.add_argument(
        "--encoder", metavar="NAME", help="mention sentences that it cannot read at once: minilm, a folder"
    )
    parser.add_argument(
        "--show", type=common.whole_number(0), default=10, metavar="N", help="so many of each kind (10); 0 for all"
    )
    common.add_policies(parser)
    common.add_reading(parser)
    common.add_splitting(parser)
    parser.set_defaults(run=_check)


def _add_convert(actions: Any) -> None:
    parser = actions.add_parser("convert", help="from any format to any other")
    parser.add_argument("source", metavar="SRC", type=Path)
    parser.add_argument("target", metavar="DST", type=Path)
    parser.add_argument("--to", metavar="FORMAT", help="format of DST; by its ending if left out")
    parser.add_argument("--set-to", action="append", default=[], metavar="OPTION=VALUE", help="option of DST's format")
    parser.add_argument("--force", action="store_true", help="replace DST if it is a file that is there")
    common.add_policies(parser, ("alignment", "discontinuous"))
    common.add_reading(parser)
    common.add_splitting(parser)
    parser.set_defaults(run=_convert)


# --- Commands --------------------------------------------------------------------------------------------------------


def _formats(options: argparse.Namespace) -> int:
    rows = []
    for one in sorted(FORMATS.values(), key=lambda one: one.name):
        rows.append([one.name, "yes" if one.write else "no", one.suffix, one.summary])
        rows += [["", "", "", f"  --set {name}=  {meaning}"] for name, meaning in one.options.items()]
        rows += [["", "", "", f"  --set-to {name}=  {meaning}"] for name, meaning in one.writing.items()]
    print(
        table(["format", "written", "ending", "what it is; options for reading (--set) and writing (--set-to)"], rows)
    )
    return 0


def _stats(options: argparse.Namespace) -> int:
    found: dict[str, Statistics] = {}
    agreements = {}
    splitter, report = common.splitter(options), Report()
    if options.plot and options.plot.suffix.lower() not in _PICTURES:
        raise DataError("the picture's ending must be .png, .svg or .pdf", path=options.plot)
    for path in options.paths:
        sample: list[tuple[str, ...]] = []
        name = str(path) if str(path) not in found else f"{path} ({len(found) + 1})"
        found[name] = count(common.split(_sampled(common.documents(path, options, report), sample), splitter))
        agreements[name] = best_words(sample, options.language) if sample else []
    common.say_report(report)
    if options.plot:
        from nestree.data.plots import draw

        draw(found, options.plot)
        common.say(f"drawn in {options.plot}")
    if options.json:
        content = {path: one.as_dict() for path, one in found.items()}
        for path, best in agreements.items():
            content[path]["splitting"] = {one.words: round(one.same_words, 4) for one in best}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    print(table(["", *(Path(path).name for path in found)], compared(list(found.values())), right=True))
    for path, best in agreements.items():
        if best:
            common.say(f"{path}: its words are best reproduced by splitting at {best[0]}")
    return 0


def _sampled(documents: Iterator[Document], sample: list[tuple[str, ...]], most: int = 2000) -> Iterator[Document]:
    """The documents; keeps the first sentences of a corpus that comes as words."""
    for document in documents:
        if len(sample) < most and document.tokens and document.text == " ".join(document.words):
            sample += [document.words[start:end] for start, end in document.sentences or ()]
        yield document


def _check(options: argparse.Namespace) -> int:
    reading = Report()
    kept = Report(options.show or sys.maxsize)
    pieces = PieceCounter(options.encoder) if options.encoder else None
    check = Check(common.policies(options), common.splitter(options), options.longest, kept, pieces)
    for path in options.paths:
        check.split(str(path), common.documents(path, options, reading))
    common.say_report(reading)
    for kind, number in check.report.counts.items():
        shown = check.report.of(kind)
        for note in shown:
            print(note)
        if number > len(shown):
            print(f"... {kind}: {number - len(shown)} more (--show 0 shows all)")
    if check.report.counts:
        print()
    print(check.reach())
    failed = check.failed
    print(f"failed: {', '.join(failed)}" if failed else "passed: nothing that would stop or mislead training")
    return 1 if failed else 0


def _convert(options: argparse.Namespace) -> int:
    target: Path = options.target
    if not options.source.exists():
        raise DataError("there is no such file or folder", path=options.source)
    if target.is_dir() and any(target.iterdir()):
        raise DataError("there is a folder already, and it is not empty", path=target, advice="Name another one.")
    if target.is_file() and not options.force:
        raise DataError("there is something already", path=target, advice="Name another one, or use --force.")
    if target.exists() and target.resolve() == options.source.resolve():
        raise DataError("source and target are the same", path=target)
    written = get(options.to) if options.to else for_writing(target)
    found = detect(options.source) if options.format is None else get(options.format)
    common.say(f"{options.source}: read as {found.name} ({found.summary})")
    report = Report()
    number = convert(
        options.source,
        target,
        source_format=options.format,
        target_format=written.name,
        source_options=common.pairs(options.set),
        target_options=common.pairs(options.set_to),
        policies=common.policies(options),
        splitter=common.splitter(options),
        report=report,
    )
    common.say_report(report)
    common.say(
        f"{target}: {number} documents written as {written.name}" + ("" if report.counts else "; everything was kept")
    )
    return 0
