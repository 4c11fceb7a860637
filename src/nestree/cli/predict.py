"""``nestree predict``: entities of new text, from files or a pipe."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import bulk, common
from nestree.cli.output import STREAM, target_of
from nestree.data import Document, Report, files, read
from nestree.data.errors import DataError, UnknownFormatError
from nestree.data.formats import detect
from nestree.data.model import Source
from nestree.data.plain import is_text, stem, text_files
from nestree.threads import Ahead

if TYPE_CHECKING:
    from nestree.model import NestedNER
    from nestree.prediction import Prediction

FLAT = ("outermost", "innermost", "best")
PATIENCE = 0.05
"""Seconds after which lines of a pipe are predicted, if no more come."""
LINES_AHEAD = 4096
"""Lines of a pipe that are held at the most, beside those that are being read."""
COUNTED = 1 << 28
"""Bytes of input that are counted beforehand, so that the time left can be told."""


def add_commands(commands: Any) -> None:
    """Adds ``predict``."""
    parser = commands.add_parser("predict", help="find the entities of new text")
    add_files(parser, "INPUT")
    parser.add_argument("--flat", choices=FLAT, help="without nesting: keep these of entities that share words")
    parser.add_argument("--trees", action="store_true", help="with the tree of each sentence (JSON Lines, under meta)")
    add_settings(parser)
    bulk.add_options(parser)
    parser.set_defaults(run=_predict)


def add_files(parser: argparse.ArgumentParser, inputs: str) -> None:
    """Adds what a command needs that reads texts with a model, and writes documents."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="folder of a saved model")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar=inputs,
        type=Path,
        help="text (.txt), or documents in any format; left out or -: lines of text from the standard input",
    )
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="where to write; left out: JSON Lines to the screen"
    )
    parser.add_argument("--to", metavar="FORMAT", help="format of the output; by its ending if left out")
    parser.add_argument("--set-to", action="append", default=[], metavar="OPTION=VALUE", help="option of that format")
    parser.add_argument("--force", action="store_true", help="replace the output if it is a file that is there")
    parser.add_argument("--text", action="store_true", help="files are plain text, whatever their ending")
    parser.add_argument("--lines", action="store_true", help="every line of plain text is a text of its own")
    parser.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="P|LABEL=P",
        help="least probability of entities, of all or of one label; left out: what the model decides",
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds how texts are read: in which windows, with how much memory, where, as which format."""
    parser.add_argument(
        "--max-words",
        type=common.whole_number(8),
        default=256,
        metavar="N",
        help="sentences longer than this are read in windows that overlap (256)",
    )
    common.add_budget(parser)
    common.add_device(parser)
    common.add_reading(parser)


def _predict(options: argparse.Namespace) -> int:
    bulk.check(options)
    if options.engine is not None:
        return bulk.run(options, thresholds_of(options.threshold))
    inputs: list[Path] = options.inputs or [STREAM]
    check_inputs(inputs, options)
    target = target_of(options, inputs)
    common.check_model(options.model)
    thresholds = thresholds_of(options.threshold)
    report = Report()
    total = counted_documents(inputs, options) if sys.stderr.isatty() else None
    model = common.load_model(options.model, options.device)
    from nestree.prediction.predict import Options, predictions

    piped = _Piped()
    documents = documents_of(inputs, options, report, piped)
    documents = common.split(documents, model.config.splitter, "as the model reads text")
    how = Options(thresholds, options.flat, options.trees, options.max_words, options.budget)
    try:
        found = predictions(model, documents, how, pausing=piped.pauses)
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None
    found = _with_memory(found, model)
    # A bar would be torn by lines on the same screen.
    target.write(with_bar(found, total, hidden=target.on_screen))
    common.say_report(report)
    return 0


# --- Input -----------------------------------------------------------------------------------------------------------


def check_inputs(inputs: list[Path], options: argparse.Namespace, command: str = "predict") -> None:
    """Says what is wrong with the input before anything slow begins."""
    for path in inputs:
        if path == STREAM:
            if sys.stdin is None or sys.stdin.isatty():
                advice = f"Name a file, or pipe text into it: echo 'Some text.' | nestree {command} MODEL"
                raise DataError("there is no input", advice=advice)
        elif not path.exists():
            raise DataError("there is no such file or folder", path=path)
        elif options.format is None:
            texts = _texts(path, options)
            if texts is None:
                _check_format(path)
            elif not texts:
                raise DataError("there are no files in this folder", path=path)


def _check_format(path: Path) -> None:
    try:
        detect(path)
    except UnknownFormatError as error:
        raise DataError(f"{error} Is it plain text? Then use --text") from None


class _Piped:
    """Lines of the standard input, read in a thread, so that it is known when no more come for now."""

    def __init__(self) -> None:
        self._lines: Ahead[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:  # a stream of its own, which nobody else waits for when the program ends
            stream: Iterable[bytes] = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
        except (AttributeError, OSError, ValueError):  # it is no real one
            stream = sys.stdin.buffer
        self._lines = Ahead(stream, LINES_AHEAD, "nestree-stdin")
        return self._lines

    def pauses(self) -> bool:
        """Whether whoever writes takes its time."""
        return self._lines is not None and not self._lines.comes_within(PATIENCE)


def documents_of(
    inputs: list[Path], options: argparse.Namespace, report: Report, piped: Iterable[bytes] | None = None
) -> Iterator[Document]:
    """The documents of files, folders and the standard input, one after the other.

    ``piped``: the lines of the standard input, if something else is to read them.
    """
    for path in inputs:
        if path == STREAM:
            yield from _of_stdin(options, report, piped)
        elif (texts := _texts(path, options)) is not None:
            for one in texts:
                yield from _of_text(one, options.lines)
        else:
            yield from common.documents(path, options, report)


def _texts(path: Path, options: argparse.Namespace) -> list[Path] | None:
    """The files of plain text that a path stands for; None if it holds documents of some format."""
    if options.format is not None:
        return None
    if not path.is_dir():
        return [path] if options.text or is_text(path) else None
    if options.text:
        return text_files(path, every=True)
    try:
        detect(path)
    except DataError:
        return text_files(path) or None
    return None


def _of_stdin(options: argparse.Namespace, report: Report, piped: Iterable[bytes] | None) -> Iterator[Document]:
    stream = sys.stdin.buffer
    if options.format is None:
        for number, line in enumerate(stream if piped is None else piped, 1):
            yield Document(_decoded(line, "<stdin>", number).rstrip("\r\n"), source=Source("<stdin>", number))
        return
    with tempfile.TemporaryDirectory() as folder:  # readers want a file, which they may look at twice
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(stream, file)
        try:
            yield from read(path, options.format, options=common.pairs(options.set), report=report)
        except DataError as error:
            raise DataError(error.what, path="<stdin>", line=error.line, advice=error.advice) from None


def _of_text(path: Path, lines: bool) -> Iterator[Document]:
    with files.opened(path) as stream:
        if not lines:
            text = _decoded(stream.read(), str(path), None)
            yield Document(text, id=stem(path), source=Source(str(path)))
            return
        for number, line in enumerate(stream, 1):
            text = _decoded(line, str(path), number).rstrip("\r\n")
            yield Document(text, source=Source(str(path), number))


def _decoded(raw: bytes, path: str, line: int | None) -> str:
    try:
        return raw.decode("utf-8-sig" if line in (None, 1) else "utf-8")
    except UnicodeDecodeError as error:
        advice = "Convert it: iconv -f latin1 -t utf-8 (if it is Latin-1)."
        raise DataError(f"this is not UTF-8 (byte {error.start})", path=path, line=line, advice=advice) from None


def counted_documents(inputs: list[Path], options: argparse.Namespace) -> int | None:
    """How many documents there are, if that is found out quickly."""
    given = [path for path in inputs if path.is_file()]
    if len(given) < len(inputs) or sum(path.stat().st_size for path in given) > COUNTED:
        return None
    number = 0
    for path in given:
        if _texts(path, options) is not None:
            number += sum(1 for _ in _of_text(path, options.lines))
        else:
            number += sum(1 for _ in read(path, options.format, options=common.pairs(options.set), report=Report()))
    return number


def thresholds_of(given: list[str]) -> float | dict[str, float] | None:
    """One for all labels, or some by label."""
    by_label: dict[str, float] = {}
    for item in given:
        label, equals, value = item.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            raise DataError(f"a threshold is written P or LABEL=P, found {item!r}") from None
        if not equals:
            if len(given) > 1:
                raise DataError("there are several thresholds, one of which is for all labels", advice="Name labels.")
            return number
        by_label[label] = number
    return by_label or None


def _with_memory(found: Iterator[Prediction], model: NestedNER) -> Iterator[Prediction]:
    with memory_of(model):
        yield from found


@contextmanager
def memory_of(model: NestedNER) -> Iterator[None]:
    """Within it, too little memory is an error that says what to do, and so are scores that are no numbers."""
    import torch

    try:
        yield
    except ValueError as error:
        if isinstance(error, DataError) or "log_potentials" not in str(error):
            raise
        advice = "Are its weights damaged? Save or train it again."
        raise DataError(
            f"the model gives no scores: {str(error).splitlines()[0].rstrip('.')}", advice=advice
        ) from error
    except torch.OutOfMemoryError as error:
        advice = "Use a smaller --budget, a smaller --max-words, or --device cpu."
        raise DataError(f"the memory of {model.device} does not suffice", advice=advice) from error


def with_bar(found: Iterable[common.Item], total: int | None, *, hidden: bool = False) -> Iterator[common.Item]:
    """The same, with a bar if a person looks: documents per second, and time left where that is known."""
    from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

    hidden = hidden or not sys.stderr.isatty()
    following = iter(found)
    first = list(islice(following, 1))  # what is said meanwhile is not within the bar
    yield from tqdm(chain(first, following), total=total, unit=" documents", disable=hidden)
