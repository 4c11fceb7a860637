"""What a teacher says of sentences, in a file that one process writes and others read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nestree.training.errors import TrainingError
from nestree.training.folder import UNFINISHED, write_text


@dataclass(frozen=True)
class Answers:
    """A file of marginals, and one beside it of entropies, which is written last: with it, the first is whole.

    The file gets its name when it is whole, so that whoever reads an older one goes on with that.

    Attributes:
        file: of marginals.
        about: the file beside it.
        of: who was asked what; a file of anything else is not taken for it.
        shape: of the marginals: all spans of all sentences, and labels.
        sentences: how many there are.
        shared: whether other students read and write it, too.
    """

    file: Path
    about: Path
    of: Mapping[str, Any]
    shape: tuple[int, int]
    sentences: int
    shared: bool

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return self.shape[0] * self.shape[1] * np.dtype(np.float32).itemsize

    def are_there(self) -> bool:
        """Whether the file is there, of these teachers and sentences, and as large as it has to be."""
        return self._known() is not None

    def are_whole(self) -> bool:
        """The same, and that no byte of it has changed since."""
        known = self._known()
        return known is not None and known.get("sha256") == _digest(self.file)

    def check_place(self) -> None:
        """Raises a TrainingError if the file is not there and cannot be written."""
        if self.are_there():
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._no_place(error.strerror or str(error)) from error
        if not os.access(self.file.parent, os.W_OK):
            raise self._no_place("nothing can be written there")

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[None]:
        """Within it, no other student writes the file; one that does is waited for."""
        if not self.shared:
            yield
            return
        from filelock import FileLock, Timeout

        lock = FileLock(self.file.with_suffix(".lock"))
        try:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"another student asks and writes {self.file}: waiting for it")
                lock.acquire()
        except (OSError, NotImplementedError) as error:  # the second on file systems without locks
            raise self._no_place(str(error)) from error
        try:
            yield
        finally:
            lock.release()

    def write(self, fill: Callable[[np.ndarray, np.ndarray], None]) -> None:
        """Writes what there is to say.

        Args:
            fill: fills marginals and entropies. Shape: ``[span, label]``, ``[sentence]``
        """
        unfinished = self.file.with_name(f"{self.file.name}{UNFINISHED}")
        entropies = np.zeros(self.sentences, dtype=np.float32)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            _take_room(unfinished, self.bytes)
            marginals = np.memmap(unfinished, dtype=np.float32, mode="r+", shape=self.shape)
            fill(marginals, entropies)
            marginals.flush()
            known = {"of": self.of, "sha256": _digest(unfinished), "entropies": [float(one) for one in entropies]}
            self.about.unlink(missing_ok=True)  # what it says of the file is not true any more
            unfinished.replace(self.file)
            write_text(self.about, json.dumps(known) + "\n")
        except OSError as error:
            raise self._no_place(str(error), "Make room, or name") from error
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Marginals and entropies. Shape: ``[span, label]``, ``[sentence]``."""
        known = self._known()
        if known is None:
            what = f"what the teachers say cannot be read from {self.file}"
            raise TrainingError(f"{what}. All machines must share it.")
        marginals = np.memmap(self.file, dtype=np.float32, mode="r", shape=self.shape)
        return marginals, np.array(known["entropies"], dtype=np.float32)

    def _known(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self.about.read_text(encoding="utf-8"))
            fits = found["of"] == self.of and len(found["entropies"]) == self.sentences
            return found if fits and self.file.stat().st_size == self.bytes else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _no_place(self, why: str, advice: str = "Name") -> TrainingError:
        name = "another folder with --answers" if self.shared else "another --output"
        return TrainingError(f"what the teachers say cannot be kept in {self.file.parent} ({why}). {advice} {name}.")


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def _take_room(path: Path, size: int) -> None:
    """A file of so many bytes that are really there: a disk that is full when a memory map is written ends Python."""
    with path.open("wb") as stream:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, size)
        else:
            stream.truncate(size)
