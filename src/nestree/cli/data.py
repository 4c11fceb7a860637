"""``nestree data``: stats, check, convert, formats."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nestree.cli.tables import table
from nestree.data import Document, Policies, Report, Splitter, convert, read
from nestree.data.checks import Check
from nestree.data.errors import DataError
from nestree.data.formats import FORMATS, detect, for_writing, get
from nestree.data.splitting import SENTENCES, WORDS, best_words
from nestree.data.statistics import Statistics, count, mean, quantile
from nestree.encoders import PieceCounter

_PICTURES = (".png", ".svg", ".pdf")


def add_commands(commands: Any) -> None:
    """Adds ``data`` and what belongs to it."""
    parser = commands.add_parser("data", help="count, check and convert corpora of any format")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_stats(actions)
    _add_check(actions)
    _add_convert(actions)
    formats = actions.add_parser("formats", help="list the formats and their options")
    formats.set_defaults(run=_formats)


def _add_stats(actions: Any) -> None:
    parser = actions.add_parser("stats", help="sentences, entities, nesting, lengths: a table, JSON or a plot")
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="files or folders, one column each")
    parser.add_argument("--json", action="store_true", help="all counts as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw lengths, depths and labels (.png, .svg, .pdf)")
    _add_reading(parser)
    _add_splitting(parser)
    parser.set_defaults(run=_stats)


def _add_check(actions: Any) -> None:
    parser = actions.add_parser("check", help="everything that could hurt training, with file and line")
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="splits; the first is for training")
    parser.add_argument("--longest", type=int, default=256, metavar="WORDS", help="mention longer sentences (256)")
    parser.add_argument(
        "--encoder", metavar="NAME", help="mention sentences that it cannot read at once: minilm, a folder"
    )
    parser.add_argument("--show", type=_number, default=10, metavar="N", help="so many of each kind (10); 0 for all")
    _add_policies(parser)
    _add_reading(parser)
    _add_splitting(parser)
    parser.set_defaults(run=_check)


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("it must not be less than 0")
    return number


def _add_convert(actions: Any) -> None:
    parser = actions.add_parser("convert", help="from any format to any other")
    parser.add_argument("source", metavar="SRC", type=Path)
    parser.add_argument("target", metavar="DST", type=Path)
    parser.add_argument("--to", metavar="FORMAT", help="format of DST; by its ending if left out")
    parser.add_argument("--set-to", action="append", default=[], metavar="OPTION=VALUE", help="option of DST's format")
    parser.add_argument("--force", action="store_true", help="replace DST if it is a file that is there")
    _add_policies(parser, ("alignment", "discontinuous"))
    _add_reading(parser)
    _add_splitting(parser)
    parser.set_defaults(run=_convert)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--format", metavar="FORMAT", help="instead of the one that is recognised; `nestree data formats`"
    )
    group.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="option of the format")


def _add_splitting(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("splitting text that comes without words")
    group.add_argument("--words", choices=list(WORDS), default="punctuation", help="default: punctuation")
    group.add_argument("--sentences", choices=list(SENTENCES), default="sentencex", help="default: sentencex")
    group.add_argument("--language", default="en", metavar="CODE", help="default: en")


def _add_policies(parser: argparse.ArgumentParser, names: Sequence[str] = tuple(Policies.choices())) -> None:
    group = parser.add_argument_group("policies for entities that do not fit")
    for name in names:
        choices = Policies.choices()[name]
        default = getattr(Policies(), name)
        group.add_argument(f"--{name.replace('_', '-')}", choices=choices, default=default, help=f"default: {default}")


# --- What commands share ---------------------------------------------------------------------------------------------


def _say(message: str) -> None:
    print(message, file=sys.stderr)


def _pairs(items: list[str]) -> dict[str, str]:
    pairs = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise DataError(f"an option is written OPTION=VALUE, found {item!r}")
        pairs[name] = value
    return pairs


def _policies(options: argparse.Namespace) -> Policies:
    return Policies(**{name: getattr(options, name) for name in Policies.choices() if hasattr(options, name)})


def _splitter(options: argparse.Namespace) -> Splitter:
    try:
        return Splitter(options.words, options.language, options.sentences)
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None


def _documents(path: Path, options: argparse.Namespace, report: Report) -> Iterator[Document]:
    """The documents of a path; says as what it is read."""
    found = detect(path) if options.format is None else get(options.format)
    _say(f"{path}: read as {found.name} ({found.summary})")
    return read(path, options.format, options=_pairs(options.set), report=report)


def _split(documents: Iterator[Document], splitter: Splitter) -> Iterator[Document]:
    """Documents with words and sentences; says so once if some had to be split."""
    said = False
    for document in documents:
        if document.tokens is None or document.sentences is None:
            if not said:
                words = "" if document.tokens is not None else f"words by {splitter.words!r}, "
                _say(
                    f"{document.place}: text is split ({words}sentences by {splitter.sentences!r}, {splitter.language})"
                )
                said = True
            document = splitter.split(document)
        yield document


def _say_report(report: Report, show: int = 3) -> None:
    """Says what was noticed: how often, and the first of each kind."""
    for line in report.summary():
        _say(f"note: {line}")
        for note in report.of(line.partition(":")[0])[:show]:
            _say(f"    {note.place}: {note.message}")


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
    splitter, report = _splitter(options), Report()
    if options.plot and options.plot.suffix.lower() not in _PICTURES:
        raise DataError("the picture's ending must be .png, .svg or .pdf", path=options.plot)
    for path in options.paths:
        sample: list[tuple[str, ...]] = []
        name = str(path) if str(path) not in found else f"{path} ({len(found) + 1})"
        found[name] = count(_split(_sampled(_documents(path, options, report), sample), splitter))
        agreements[name] = best_words(sample, options.language) if sample else []
    _say_report(report)
    if options.plot:
        from nestree.data.plots import draw

        draw(found, options.plot)
        _say(f"drawn in {options.plot}")
    if options.json:
        content = {path: one.as_dict() for path, one in found.items()}
        for path, best in agreements.items():
            content[path]["splitting"] = {one.words: round(one.same_words, 4) for one in best}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    print(_table(found))
    for path, best in agreements.items():
        if best:
            _say(f"{path}: its words are best reproduced by splitting at {best[0]}")
    return 0


def _sampled(documents: Iterator[Document], sample: list[tuple[str, ...]], most: int = 2000) -> Iterator[Document]:
    """The documents; keeps the first sentences of a corpus that comes as words."""
    for document in documents:
        if len(sample) < most and document.tokens and document.text == " ".join(document.words):
            sample += [document.words[start:end] for start, end in document.sentences or ()]
        yield document


def _table(found: dict[str, Statistics]) -> str:
    rows: list[list[str]] = []

    def row(name: str, value: Any) -> None:
        rows.append([name, *(_cell(value(one)) for one in found.values())])

    row("documents", lambda one: one.documents)
    row("sentences", lambda one: one.sentences)
    row("  with nested entities", lambda one: one.nested_sentences)
    row("entities", lambda one: one.entities)
    row("  nested", lambda one: one.nested_entities)
    row("words per sentence", lambda one: one.average_length)
    row("  median, 99%, longest", lambda one: _quantiles(one.sentence_lengths))
    row("words per entity", lambda one: mean(one.entity_lengths))
    row("  median, 99%, longest", lambda one: _quantiles(one.entity_lengths))
    row("depth of nesting", lambda one: one.depth)
    for depth in range(1, max((one.depth for one in found.values()), default=0) + 1):
        row(f"  entities at depth {depth}", lambda one, depth=depth: one.depths[depth])
    row("labels", lambda one: len(one.labels))
    for label in dict.fromkeys(label for one in found.values() for label, _ in one.labels.most_common()):
        row(f"  {label}", lambda one, label=label: one.labels[label])
    row("crossing pairs", lambda one: one.crossing_pairs)
    row("spans with several labels", lambda one: one.same_span)
    row("duplicates", lambda one: one.duplicates)
    row("discontinuous", lambda one: one.discontinuous)
    row("off token boundaries", lambda one: one.off_tokens)
    row("across sentences", lambda one: one.across_sentences)
    return table(["", *(Path(path).name for path in found)], rows, right=True)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def _quantiles(counts: Counter[int]) -> str:
    return f"{quantile(counts, 0.5)}, {quantile(counts, 0.99)}, {max(counts, default=0)}"


def _check(options: argparse.Namespace) -> int:
    reading = Report()
    kept = Report(options.show or sys.maxsize)
    pieces = PieceCounter(options.encoder) if options.encoder else None
    check = Check(_policies(options), _splitter(options), options.longest, kept, pieces)
    for path in options.paths:
        check.split(str(path), _documents(path, options, reading))
    _say_report(reading)
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
    _say(f"{options.source}: read as {found.name} ({found.summary})")
    report = Report()
    number = convert(
        options.source,
        target,
        source_format=options.format,
        target_format=written.name,
        source_options=_pairs(options.set),
        target_options=_pairs(options.set_to),
        policies=_policies(options),
        splitter=_splitter(options),
        report=report,
    )
    _say_report(report)
    _say(f"{target}: {number} documents written as {written.name}" + ("" if report.counts else "; everything was kept"))
    return 0
