"""What is wrong with a saved model or an encoder, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath


class ModelError(OSError):
    """A model or an encoder that cannot be loaded, saved or sent: where it is, what is wrong, what to do.

    Args:
        what: the fault, without a full stop.
        path: the file or folder, or the name on the hub.
        advice: what to do about it, as a sentence.
    """

    def __init__(self, what: str, *, path: str | PathLike[str] | None = None, advice: str | None = None) -> None:
        self.what = what
        self.path = None if path is None else fspath(path)
        self.advice = advice
        where = f"{self.path}: " if self.path else ""
        super().__init__(where + what + "." + (f" {advice}" if advice else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), self.what, self.path, self.advice))


class NoModelError(ModelError, FileNotFoundError):
    """There is no model where one was looked for."""


def _again(kind: type[ModelError], what: str, path: str | None, advice: str | None) -> ModelError:
    return kind(what, path=path, advice=advice)


def first_line(error: BaseException) -> str:
    """What another library says, in one line and without a full stop: something to put into a ModelError."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().removesuffix(".") if lines else type(error).__name__


@contextmanager
def writing(what: str, path: str | PathLike[str]) -> Iterator[None]:
    """Lets a full disk be an OSError, whichever library noticed: those of safetensors and tokenizers are none."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if type(error) is not Exception and type(error).__name__ != "SafetensorError":
            raise
        raise ModelError(f"{what} cannot be written ({first_line(error)})", path=path) from error
