"""Where predictions go: to a file that is complete or says that it is not, or line by line to the standard output."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nestree.cli import common
from nestree.cli.interrupts import Interrupts
from nestree.data import Policies, Report, Splitter, write
from nestree.data.conversion import Counted, fit
from nestree.data.errors import DataError
from nestree.data.files import is_compressed, written_bytes
from nestree.data.formats import for_writing, get
from nestree.data.formats.base import Format
from nestree.data.formats.records import dumped

if TYPE_CHECKING:
    from nestree.prediction import Prediction

STREAM = Path("-")
"""Stands for the standard input, or output."""
LINES = "jsonl"


def target_of(options: argparse.Namespace, inputs: list[Path]) -> Target:
    """What ``--output``, ``--to``, ``--set-to`` and ``--force`` ask for.

    Raises:
        DataError: nothing can be written there, or something would be lost.
    """
    path: Path | None = None if options.output == STREAM else options.output
    if path is None:
        if options.to not in (None, LINES):
            raise DataError(f"the format {options.to!r} goes to a file", advice="Name one: --output PATH.")
        return Target(None, get(LINES), {})
    if path.is_symlink():
        path = path.resolve()  # what it points to is replaced, not the link
    form, chosen = output_format(path, options)
    if options.trees and form.name != LINES:
        raise DataError("trees are written as JSON Lines only", path=path, advice="Use the ending .jsonl.")
    if is_stream(path):
        if form.name != LINES:
            raise DataError("this is no ordinary file, and gets JSON Lines alone", path=path, advice="Use --to jsonl.")
        return Target(path, form, chosen)
    check_output(path, options.force, inputs)
    for unfinished in (partial_name(path), lines_name(path)):
        if unfinished.is_dir():
            what = "there is a folder from a run that was not finished"
            raise DataError(what, path=unfinished, advice="Move it away.")
        check_apart(unfinished, inputs)
        if unfinished.exists() and not options.force:
            advice = "Move it away, or use --force."
            raise DataError("there is a file from a run that was not finished", path=unfinished, advice=advice)
    return Target(path, form, chosen)


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
    if is_stream(path):
        raise DataError("this is no ordinary file", path=path, advice="Name another one.")
    check_apart(path, inputs)
    if path.exists() and not force:
        raise DataError("there is something already", path=path, advice="Name another one, or use --force.")
    if not path.parent.is_dir():
        raise DataError("there is no such folder", path=path.parent)


def check_apart(path: Path, inputs: list[Path]) -> None:
    """Raises an error if a file that is to be written is one of those to be read."""
    if path.exists() and any(one.exists() and one.samefile(path) for one in inputs if one != STREAM):
        raise DataError("input and output are the same", path=path, advice="Name another output.")


def is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def partial_name(path: Path) -> Path:
    """What a file is called as long as it is not complete: its ending stays."""
    suffixes = "".join(path.suffixes[-2:])
    return path.with_name(f"{path.name.removesuffix(suffixes)}.partial{suffixes}")


def lines_name(path: Path) -> Path:
    """Where predictions stand as lines, until they are complete in another format."""
    return path.with_name(f"{path.name}.partial.jsonl")


class Target:
    """Where predictions go. What was predicted when something went wrong is kept, under a name that says so.

    JSON Lines grow line by line. Of other formats, many are complete with their last byte or not at all. So lines are
    written beside them, and stay if the format cannot be: on a full disk, say.

    Args:
        path: a file, which is not there or may be replaced; a device or pipe; or None: the standard output.
        form: of the file.
        options: of that format.
    """

    def __init__(self, path: Path | None, form: Format, options: dict[str, str]) -> None:
        self._path = path
        self._form = form
        self._options = options
        self._error: BaseException | None = None
        self._reading = False
        self._stop = False
        self._interrupts = Interrupts()

    @property
    def on_screen(self) -> bool:
        """Whether a person sees what is written."""
        return self._path is None and sys.stdout.isatty()

    def write(self, found: Iterator[Prediction]) -> None:
        """Writes them all."""
        if self._path is None:
            self._stream(found, getattr(sys.stdout, "buffer", None), "the standard output")
        elif is_stream(self._path):
            with self._path.open("wb") as stream:
                self._stream(found, stream, str(self._path))
        elif self._form.name == LINES and not is_compressed(self._path):
            self._write_lines(found, self._path)
        else:
            self._write_beside_lines(found, self._path)

    def _stream(self, found: Iterator[Prediction], stream: IO[bytes] | None, name: str) -> None:
        with self._interrupts:
            for one in found:
                self._interrupts.check()
                try:
                    if stream is None:
                        sys.stdout.write(_line(one).decode())
                    else:
                        stream.write(_line(one))
                        stream.flush()
                except BrokenPipeError:
                    raise
                except OSError as error:
                    raise DataError(f"{name} cannot be written: {error.strerror or error}") from None

    def _write_lines(self, found: Iterator[Prediction], path: Path) -> None:
        unfinished = _Lines(partial_name(path))
        with self._interrupts, self._stopped_between_documents():
            for _ in self._noted(self._until_it_fails(found), unfinished):
                pass
        self._raise_error(unfinished.path, unfinished.number)
        unfinished.path.replace(path)
        common.say(f"{path}: {unfinished.number} documents written as {self._form.name}")

    def _write_beside_lines(self, found: Iterator[Prediction], path: Path) -> None:
        unfinished, lines, report = partial_name(path), _Lines(lines_name(path)), Report()
        noted = self._noted(self._until_it_fails(found), lines)
        try:
            with self._interrupts, self._stopped_between_documents():
                number = self._write_format(noted, unfinished, report)
        except (DataError, KeyboardInterrupt) as error:
            noted.close()
            _remove(unfinished)
            self._error = self._error or error
            self._raise_error(lines.path, lines.number, " (JSON Lines; `nestree data convert` makes any format of it)")
            raise
        lines.path.unlink(missing_ok=True)
        common.say_report(report)
        self._raise_error(unfinished, number)
        unfinished.replace(path)
        common.say(f"{path}: {number} documents written as {self._form.name}")

    def _write_format(self, found: Iterator[Prediction], path: Path, report: Report) -> int:
        """Writes a file as its format wants it; returns the number of documents."""
        if self._form.name != LINES:
            from nestree.prediction.output import with_meta

            documents = Counted(fit(map(with_meta, found), self._form, Policies(), Splitter(), report))
            write(documents, path, self._form.name, options=self._options, report=report)
            return documents.number
        number = 0
        with written_bytes(path) as stream:
            for one in found:
                stream.write(_line(one))
                number += 1
        return number

    def _raise_error(self, kept: Path, number: int, how: str = "") -> None:
        if self._error is None:
            return
        if kept.exists():
            common.say(f"{kept}: {number} documents, as far as it came; not complete{how}")
        raise self._error

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
        except (KeyboardInterrupt, DataError, OSError) as error:
            self._error = error
        finally:
            self._reading = False

    def _noted(self, found: Iterator[Prediction], lines: _Lines) -> Generator[Prediction]:
        """The same predictions, each written as a line before it is passed on; until that fails."""
        try:
            with lines:
                for one in found:
                    lines.add(_line(one))
                    yield one
        except OSError as error:
            what = f"the file cannot be written: {error.strerror or error}"
            self._error = self._error or DataError(what, path=self._path)

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


def opened(path: Path) -> IO[bytes]:
    """A file for lines."""
    return path.open("wb")


class _Lines:
    """A file that grows line by line; if the disk is full, it ends with a whole one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self._whole = 0
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> None:
        self._stream = opened(self.path)

    def add(self, line: bytes) -> None:
        """One more."""
        assert self._stream is not None
        self._stream.write(line)
        self._stream.flush()
        self._whole += len(line)
        self.number += 1

    def __exit__(self, *_: object) -> None:
        assert self._stream is not None
        with suppress(OSError):
            self._stream.close()
        with suppress(OSError), self.path.open("r+b") as stream:
            stream.truncate(self._whole)


def _line(found: Prediction) -> bytes:
    from nestree.prediction.output import as_object

    return (dumped(as_object(found)) + "\n").encode()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
