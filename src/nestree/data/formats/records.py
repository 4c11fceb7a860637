"""JSON Lines, and JSON arrays of objects, one object at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats.base import Record

_SPACE = " \t\r\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: of two equal ones, one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"the key {twice!r} stands twice in an object")
    return found


_decoder = json.JSONDecoder()
_strict_decoder = json.JSONDecoder(object_pairs_hook=_unique)


def records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file, or of a JSON array, with the line each begins in."""
    if files.head(path, 4096).lstrip(_SPACE)[:1] == "[":
        return _array(path)
    return _lines(path)


def items(path: Path) -> Iterator[Record]:
    """The same, as records that know their number if they are in an array."""
    is_array = files.head(path, 4096).lstrip(_SPACE)[:1] == "["
    for number, (line, values) in enumerate(records(path), 1):
        yield Record(values, str(path), line, number if is_array else None)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in files.lines(path):
        if line[:1] in _SPACE:  # an empty line too
            line = line.lstrip(_SPACE)
            if not line:
                continue
        yield number, parsed(line, path, number)


def parsed(line: str, path: Path, number: int) -> dict[str, Any]:
    """The object on a line."""
    try:
        # Looking for keys that stand twice takes time: it is done where there might be one.
        decoder = _strict_decoder if line.count('"entities"') > 1 or '"entities"' not in line else _decoder
        value, end = decoder.raw_decode(line)
        if end != len(line) and line[end:].strip(_SPACE):
            value = json.loads(line)  # says what is wrong with the rest
    except json.JSONDecodeError as error:
        raise DataError(
            f"this is not JSON: {error.msg}, at column {error.colno}: {shown(line[max(0, error.pos - 20) :][:40])}",
            path=path,
            line=number,
            advice="Each line holds one object; is the file complete?",
        ) from None
    except (RecursionError, ValueError) as error:
        raise DataError(f"this JSON cannot be read: {error}", path=path, line=number) from None
    return _object(value, path, number)


def _object(value: Any, path: Path, line: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"a JSON object was expected, found {shown(value)}", path=path, line=line)
    return value


def _array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads on until an object is complete: memory is bounded by the largest one."""
    buffer = _Buffer(files.chunks(path), path)
    buffer.expect("[")
    if buffer.next() == "]":
        buffer.skip()
    else:
        while True:
            yield buffer.value()
            mark = buffer.next()
            if mark not in (",", "]"):
                found = shown(mark) if mark else "the end of the file"
                raise DataError(
                    f"this is not JSON: a comma or ] was expected between objects, found {found}",
                    path=path,
                    line=buffer.line,
                    advice=None if mark else "Is the file complete?",
                )
            buffer.skip()
            if mark == "]":
                break
    if buffer.next():
        raise DataError("there is more after the end of the JSON array", path=path, line=buffer.line)


class _Buffer:
    """The part of a file that has been read and not yet been used."""

    def __init__(self, source: Iterable[str], path: Path) -> None:
        self._source = iter(source)
        self._path = path
        self._text = ""
        self._at = 0
        self.line = 1

    def _more(self, least: int) -> bool:
        """Reads at least so many characters, if there are any."""
        pieces = [self._text[self._at :]]
        size = 0
        for text in self._source:
            pieces.append(text)
            size += len(text)
            if size >= least:
                break
        self._text, self._at = "".join(pieces), 0
        return size > 0

    def next(self) -> str:
        """The next character that is not white space, without using it; "" at the end."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in _SPACE:
                    return character
                self.line += character == "\n"
                self._at += 1
            if not self._more(1):
                return ""

    def skip(self) -> None:
        """Uses one character."""
        self._at += 1

    def expect(self, character: str) -> None:
        """Uses a character that must be there."""
        if self.next() != character:
            raise DataError(f"a JSON array must begin with {character}", path=self._path, line=self.line)
        self.skip()

    def value(self) -> tuple[int, dict[str, Any]]:
        """The next object, and its line."""
        if self.next() != "{":
            found = shown(self._text[self._at : self._at + 20]) if self.next() else "the end of the file"
            raise DataError(f"a JSON object was expected, found {found}", path=self._path, line=self.line)
        line, least = self.line, 1 << 12
        while True:
            try:
                value, end = _strict_decoder.raw_decode(self._text, self._at)
                break
            except json.JSONDecodeError as error:
                # Either the object is not complete yet, or it is wrong: then reading on does not help.
                if not self._more(least):
                    raise DataError(
                        f"this is not JSON: {error.msg}, in the object that begins here",
                        path=self._path,
                        line=line,
                        advice="Is the file complete?",
                    ) from None
                least *= 2
            except (RecursionError, ValueError) as error:
                raise DataError(f"this JSON cannot be read: {error}", path=self._path, line=line) from None
        self.line += self._text.count("\n", self._at, end)
        self._at = end
        return line, _object(value, self._path, line)


def write_lines(objects: Iterable[dict[str, Any]], path: Path) -> None:
    """One object a line. Characters are written as they are."""
    with files.written(path) as stream:
        for one in objects:
            stream.write(dumped(one) + "\n")


def write_array(objects: Iterable[dict[str, Any]], path: Path) -> None:
    """A JSON array, one object a line."""
    with files.written(path) as stream:
        stream.write("[")
        for number, one in enumerate(objects):
            stream.write((",\n" if number else "\n") + dumped(one))
        stream.write("\n]\n")


def dumped(value: Any) -> str:
    """JSON on one line; with escapes only where a lone surrogate cannot be written otherwise."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
