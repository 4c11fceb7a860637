"""Files at the door: opened, decompressed, decoded and counted in lines; strictly, with errors that say where."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

from nestree.data.errors import DataError, shown

LONGEST_LINE = 1 << 28
"""Longer lines, in bytes, are refused: they are not what they pretend to be."""
_BOM = b"\xef\xbb\xbf"
_COMPRESSION: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BROKEN = (gzip.BadGzipFile, EOFError, lzma.LZMAError, zlib.error)


Line = tuple[int, str]
"""The number of a line, from 1, and the line without its end."""


def existing(path: str | PathLike[str]) -> Path:
    """The path of a file or folder that is there. Pipes are refused: they can be read once, and we look twice."""
    path = Path(path)
    try:
        if path.is_file() or path.is_dir():
            return path
        there = path.exists()
    except OSError as error:
        raise DataError(f"this cannot be opened: {error.strerror or error}", path=path) from None
    if there:
        raise DataError("this is not a file or folder", path=path, advice="Save what it gives to a file first.")
    raise DataError("there is no such file or folder", path=path)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file open for reading bytes, decompressed by its ending (.gz, .bz2, .xz)."""
    try:
        stream: Any = opener_for(path)(path, "rb")
    except FileNotFoundError:
        raise DataError("there is no such file", path=path) from None
    except OSError as error:
        raise DataError(f"the file cannot be opened: {error.strerror or error}", path=path) from None
    with stream:
        try:
            yield stream
        except _BROKEN as error:
            raise DataError(f"the compressed file is broken: {error}", path=path, advice="Is it complete?") from None
        except OSError as error:
            if path.suffix not in _COMPRESSION:
                raise DataError(f"the file cannot be read: {error.strerror or error}", path=path) from None
            raise DataError(f"the compressed file is broken: {error}", path=path, advice="Is it complete?") from None


def lines(path: Path) -> Iterator[Line]:
    """The lines of a UTF-8 file, without line ends (LF or CRLF) and without a byte order mark."""
    with opened(path) as stream:
        for number, raw in enumerate(iter(partial(stream.readline, LONGEST_LINE + 1), b""), 1):
            if len(raw) > LONGEST_LINE:
                raise DataError(
                    f"the line is longer than {LONGEST_LINE >> 20} MiB",
                    path=path,
                    line=number,
                    advice="Is this a text file with one record per line?",
                )
            if number == 1 and raw.startswith(_BOM):
                raw = raw[3:]
            try:
                yield number, raw.rstrip(b"\r\n").decode()
            except UnicodeDecodeError as error:
                raise not_utf8(error, path, number) from None


def chunks(path: Path, size: int = 1 << 16) -> Iterator[str]:
    """A UTF-8 file piece by piece, as it is, without a byte order mark."""
    decoder = getincrementaldecoder("utf-8-sig")()
    before = 1  # the line in which the next piece begins
    with opened(path) as stream:
        while True:
            raw = stream.read(size)
            try:
                piece = decoder.decode(raw, not raw)
            except UnicodeDecodeError as error:
                raise not_utf8(error, path, before + error.object.count(b"\n", 0, error.start)) from None
            before += piece.count("\n")
            yield piece
            if not raw:
                return


def text(path: Path) -> str:
    """A whole UTF-8 file as it is, line ends included, without a byte order mark."""
    with opened(path) as stream:
        raw = stream.read()
    raw = raw[3:] if raw.startswith(_BOM) else raw
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(error, path, raw.count(b"\n", 0, error.start) + 1) from None


def not_utf8(error: UnicodeDecodeError, path: Path, line: int) -> DataError:
    """The error for bytes that are not UTF-8."""
    found = shown(bytes(error.object[error.start : error.start + 8]))
    advice = "Save the file as UTF-8, for example with `iconv -f latin1 -t utf-8`."
    if b"\0" in error.object[:100]:
        advice = "It looks like a binary file, or UTF-16; text must be UTF-8."
    return DataError(f"this is not UTF-8: {found}", path=path, line=line, advice=advice)


def head(path: Path, size: int = 1 << 16) -> str:
    """The beginning of a file as text, up to a line's end if there is more; what cannot be decoded is replaced."""
    with opened(path) as stream:
        raw: bytes = stream.read(size)
        if len(raw) == size and b"\n" in raw:
            raw = raw[: raw.rindex(b"\n") + 1]
    return raw.removeprefix(_BOM).decode(errors="replace")


def opener_for(path: Path) -> Callable[..., IO[Any]]:
    """What opens a file that is compressed by its ending."""
    found: Callable[..., IO[Any]] = _COMPRESSION.get(path.suffix.lower(), open)
    return found


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed, by its ending."""
    return path.suffix.lower() in _COMPRESSION


class _Text:
    """A text file. Text that begins with U+FEFF gets another before it, as readers take one for a byte order mark."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._at_start = True

    def write(self, text: str) -> None:
        if self._at_start and text:
            self._at_start = False
            if text.startswith("\ufeff"):
                self._stream.write("\ufeff")
        self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


@contextmanager
def written(path: Path) -> Iterator[_Text]:
    """A UTF-8 file for writing, compressed by its ending. It gets its name when it is complete: half a file is none."""
    unfinished = path.with_name(f".{path.name}.partial")
    with _for_writing(path, unfinished, "wt", encoding="utf-8", newline="\n") as stream:
        yield _Text(stream)


@contextmanager
def written_bytes(path: Path) -> Iterator[BinaryIO]:
    """The same for bytes."""
    unfinished = path.with_name(f".{path.name}.partial")
    with _for_writing(path, unfinished, "wb") as stream:
        yield stream


@contextmanager
def _for_writing(path: Path, unfinished: Path, mode: str, **options: Any) -> Iterator[Any]:
    opener = opener_for(path)
    if path.is_dir():
        raise DataError("this is a folder, and a file is to be written", path=path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = opener(unfinished, mode, **options)
    except OSError as error:
        raise DataError(f"the file cannot be written: {error.strerror or error}", path=path) from None
    try:
        with stream:
            yield stream
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"the file cannot be written: {error.strerror or error}", path=path) from None
    except UnicodeEncodeError as error:
        bad = shown(error.object[error.start : error.end])
        raise DataError(f"{bad} cannot be written as UTF-8", path=path, advice="Lone surrogates are no text.") from None
    finally:
        unfinished.unlink(missing_ok=True)
