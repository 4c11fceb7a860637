"""``nestree predict``: entities of new text, from files or a pipe."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import bulk, common
from nestree.cli.interrupts import Interrupts
from nestree.data import Document, Report, read, write
from nestree.data.errors import DataError
from nestree.data.files import opener_for
from nestree.data.formats import detect, for_writing, get
from nestree.data.formats.base import Format
from nestree.data.formats.records import dumped
from nestree.data.model import Source

if TYPE_CHECKING:
    from nestree.model import NestedNER
    from nestree.prediction import Prediction

STDIN = Path("-")
FLAT = ("outermost", "innermost", "best")
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
    inputs: list[Path] = options.inputs or [STDIN]
    check_inputs(inputs, options)
    target = _target(options, inputs)
    common.check_model(options.model)
    thresholds = thresholds_of(options.threshold)
    report = Report()
    total = counted_documents(inputs, options) if sys.stderr.isatty() else None
    model = common.load_model(options.model, options.device)
    from nestree.prediction.predict import Options, predictions

    documents = common.split(documents_of(inputs, options, report), model.config.splitter, "as the model reads text")
    how = Options(thresholds, options.flat, options.trees, options.max_words, options.budget)
    try:
        found = predictions(model, documents, how)
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None
    found = _with_memory(found, model)
    target.write(_shown(found, total))
    common.say_report(report)
    return 0


# --- Input -----------------------------------------------------------------------------------------------------------


def check_inputs(inputs: list[Path], options: argparse.Namespace, command: str = "predict") -> None:
    """Says what is wrong with the input before anything slow begins."""
    for path in inputs:
        if path == STDIN:
            if sys.stdin is None or sys.stdin.isatty():
                advice = f"Name a file, or pipe text into it: echo 'Some text.' | nestree {command} MODEL"
                raise DataError("there is no input", advice=advice)
        elif not path.exists():
            raise DataError("there is no such file or folder", path=path)
        elif not _is_text(path, options) and options.format is None:
            try:
                detect(path)
            except DataError as error:
                raise DataError(f"{error} Is it plain text? Then use --text") from None


def documents_of(inputs: list[Path], options: argparse.Namespace, report: Report) -> Iterator[Document]:
    """The documents of files, folders and the standard input, one after the other."""
    for path in inputs:
        if path == STDIN:
            yield from _of_stdin(options, report)
        elif _is_text(path, options):
            yield from _of_text(path, options.lines)
        else:
            yield from common.documents(path, options, report)


def _is_text(path: Path, options: argparse.Namespace) -> bool:
    if options.format is not None or not path.is_file():
        return False
    return options.text or path.suffix.lower() == ".txt"


def _of_stdin(options: argparse.Namespace, report: Report) -> Iterator[Document]:
    stream = sys.stdin.buffer
    if options.format is None:
        for number, line in enumerate(stream, 1):
            yield Document(_decoded(line, "<stdin>", number).rstrip("\r\n"), source=Source("<stdin>", number))
        return
    with tempfile.TemporaryDirectory() as folder:  # readers want a file, which they may look at twice
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(stream, file)
        yield from read(path, options.format, options=common.pairs(options.set), report=report)


def _of_text(path: Path, lines: bool) -> Iterator[Document]:
    if not lines:
        text = _decoded(path.read_bytes(), str(path), None)
        yield Document(text, id=path.stem, source=Source(str(path)))
        return
    with path.open("rb") as stream:
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
    files = [path for path in inputs if path.is_file()]
    if len(files) < len(inputs) or sum(path.stat().st_size for path in files) > COUNTED:
        return None
    number = 0
    for path in files:
        if _is_text(path, options):
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
    """Within it, too little memory is an error that says what to do."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        advice = "Use a smaller --budget, a smaller --max-words, or --device cpu."
        raise DataError(f"the memory of {model.device} does not suffice", advice=advice) from error


def _shown(found: Iterable[Prediction], total: int | None) -> Iterator[Prediction]:
    # A bar would be torn by lines on the same screen.
    yield from with_bar(found, total, hidden=sys.stdout.isatty())


def with_bar(found: Iterable[common.Item], total: int | None, *, hidden: bool = False) -> Iterator[common.Item]:
    """The same, with a bar if a person looks: documents per second, and time left where that is known."""
    from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

    hidden = hidden or not sys.stderr.isatty()
    yield from tqdm(found, total=total, unit=" documents", disable=hidden)


# --- Output ----------------------------------------------------------------------------------------------------------


class _Target:
    """Where predictions go. What was written when something went wrong is kept, under a name that says so."""

    def __init__(self, path: Path | None, name: str, options: dict[str, str]) -> None:
        self._path = path
        self._format = name
        self._options = options
        self._number = 0
        self._error: BaseException | None = None
        self._reading = False
        self._stop = False
        self._interrupts = Interrupts()

    def write(self, found: Iterator[Prediction]) -> None:
        """Writes them all."""
        from nestree.prediction.output import as_object

        if self._path is None:
            with self._interrupts:
                for one in found:
                    self._interrupts.check()
                    sys.stdout.write(dumped(as_object(one)) + "\n")
                    sys.stdout.flush()
            return
        unfinished = partial_name(self._path)
        try:
            self._write_to(unfinished, found)
        except DataError as error:
            self._error = self._error or error
        if self._error is not None:
            if unfinished.exists():
                common.say(f"{unfinished}: {self._number} documents, as far as it came; not complete")
            raise self._error
        unfinished.replace(self._path)
        common.say(f"{self._path}: {self._number} documents written as {self._format}")

    def _write_to(self, unfinished: Path, found: Iterator[Prediction]) -> None:
        with self._interrupts, self._stopped_between_documents():
            if self._format == "jsonl":
                _write_lines(self._until_it_fails(found), unfinished)
            else:
                report = Report()
                documents = (one.document for one in self._until_it_fails(found))
                write(documents, unfinished, self._format, options=self._options, report=report)
                common.say_report(report)

    def _until_it_fails(self, found: Iterator[Prediction]) -> Iterator[Prediction]:
        try:
            while True:
                self._reading = True
                self._interrupts.check()
                if self._stop:
                    raise KeyboardInterrupt
                one = next(found, None)
                self._reading = False
                if one is None:
                    return
                yield one
                self._number += 1
        except (KeyboardInterrupt, DataError, OSError) as error:
            self._error = error
        finally:
            self._reading = False

    @contextmanager
    def _stopped_between_documents(self) -> Iterator[None]:
        """Within it, Ctrl-C does not come while a document is written."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self._stop or self._reading:
                raise KeyboardInterrupt
            self._stop = True

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def partial_name(path: Path) -> Path:
    """What a file is called as long as it is not complete: its ending stays."""
    suffixes = "".join(path.suffixes[-2:])
    return path.with_name(f"{path.name.removesuffix(suffixes)}.partial{suffixes}")


def _target(options: argparse.Namespace, inputs: list[Path]) -> _Target:
    """Says what is wrong with the output before anything slow begins."""
    path: Path | None = options.output
    if path is None:
        if options.to not in (None, "jsonl"):
            raise DataError(f"the format {options.to!r} goes to a file", advice="Name one: --output PATH.")
        return _Target(None, "jsonl", {})
    form, chosen = output_format(path, options)
    if options.trees and form.name != "jsonl":
        raise DataError("trees are written as JSON Lines only", path=path, advice="Use the ending .jsonl.")
    check_output(path, options.force, inputs)
    unfinished = partial_name(path)
    if unfinished.is_dir():
        raise DataError("there is a folder from a run that was not finished", path=unfinished, advice="Move it away.")
    if unfinished.exists() and not options.force:
        advice = "Move it away, or use --force."
        raise DataError("there is a file from a run that was not finished", path=unfinished, advice=advice)
    return _Target(path, form.name, chosen)


def output_format(path: Path, options: argparse.Namespace) -> tuple[Format, dict[str, str]]:
    """What ``--to``, ``--set-to`` and the ending of the output say, checked."""
    form = get(options.to) if options.to else for_writing(path)
    if form.write is None:
        raise DataError(f"the format {form.name!r} is read, not written")
    chosen = common.pairs(options.set_to)
    form.check_options(chosen, writing=True)
    return form, chosen


def check_output(path: Path, force: bool, inputs: list[Path]) -> None:
    """Raises an error if nothing can be written there, or something would be lost."""
    if path.is_dir():
        raise DataError("there is a folder already", path=path, advice="Name another one.")
    if any(one.exists() and path.exists() and one.resolve() == path.resolve() for one in inputs if one != STDIN):
        raise DataError("input and output are the same", path=path, advice="Name another one.")
    if path.exists() and not force:
        raise DataError("there is something already", path=path, advice="Name another one, or use --force.")
    if not path.parent.is_dir():
        raise DataError("there is no such folder", path=path.parent)


def _write_lines(found: Iterable[Prediction], path: Path) -> None:
    """Line by line. If the disk is full, the lines that are whole stay."""
    from nestree.prediction.output import as_object

    whole = 0
    try:
        with opener_for(path)(path, "wb") as stream:
            for one in found:
                line = (dumped(as_object(one)) + "\n").encode()
                stream.write(line)
                stream.flush()
                whole += len(line)
    except OSError as error:
        with suppress(OSError):
            if path.suffix == ".jsonl":
                with path.open("r+b") as stream:
                    stream.truncate(whole)
        raise DataError(f"the file cannot be written: {error.strerror or error}", path=path) from None
