"""What is wrong with a file, and where."""

from __future__ import annotations

from os import PathLike, fspath


class DataError(ValueError):
    """Data that cannot be used as it is: where it stands, what is wrong, what to do.

    Args:
        what: the fault, without a full stop.
        path: the file or folder.
        line: counted from 1.
        advice: what to do about it, as a sentence.
    """

    def __init__(
        self,
        what: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        advice: str | None = None,
    ) -> None:
        self.what = what
        self.path = None if path is None else fspath(path)
        self.line = line
        self.advice = advice
        super().__init__(self._message())

    def _message(self) -> str:
        where = place(self.path, self.line)
        return (f"{where}: " if where else "") + self.what + "." + (f" {self.advice}" if self.advice else "")

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), self.what, self.path, self.line, self.advice))


class UnknownFormatError(DataError):
    """Data that look like none of the known formats."""


def _again(kind: type[DataError], what: str, path: str | None, line: int | None, advice: str | None) -> DataError:
    return kind(what, path=path, line=line, advice=advice)


def place(path: str | None, line: int | None) -> str:
    """``file:line``, as editors and compilers write it."""
    if path is None:
        return "" if line is None else f"line {line}"
    return path if line is None else f"{path}:{line}"


def shown(value: object, most: int = 60) -> str:
    """A value as it stands in a message: on one line, not too long."""
    if isinstance(value, str):
        value = value if len(value) <= most else value[:most] + "…"
    text = repr(value)
    return text if len(text) <= most + 20 else text[: most + 20] + "…"
