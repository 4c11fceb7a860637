"""What a teacher says of sentences, in a file that one process writes and others read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nestree.training.errors import TrainingError
from nestree.training.folder import write_text


@dataclass(frozen=True)
class Answers:
    """A file of marginals, and one beside it of entropies, which is written last: with it, the first is whole.

    Attributes:
        file: of marginals.
        about: the file beside it.
        of: who was asked what; a file of anything else is not taken for it.
        shape: of the marginals: all spans of all sentences, and labels.
        shared: whether other students read and write it, too.
    """

    file: Path
    about: Path
    of: Mapping[str, Any]
    shape: tuple[int, int]
    shared: bool

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return self.shape[0] * self.shape[1] * np.dtype(np.float32).itemsize

    def are_there(self) -> bool:
        """Whether the file is there, whole, and of these teachers and sentences."""
        try:
            found = json.loads(self.about.read_text(encoding="utf-8"))
            return bool(found["of"] == self.of and self.file.stat().st_size == self.bytes)
        except (OSError, ValueError, KeyError):
            return False

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

    @contextmanager
    def writing(self) -> Iterator[np.memmap[Any, np.dtype[np.float32]]]:
        """The file, to be filled. It counts when :meth:`finish` was called after it. Shape: ``[span, label]``."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.about.unlink(missing_ok=True)  # what it says of the file is not true any more
            _take_room(self.file, self.bytes)
            values = np.memmap(self.file, dtype=np.float32, mode="r+", shape=self.shape)
            yield values
            values.flush()
        except OSError as error:
            raise TrainingError(f"what the teachers say cannot be kept in {self.file} ({error}). Make room.") from error

    def finish(self, entropies: np.ndarray) -> None:
        """Says that the file is whole. Shape: ``[sentence]``."""
        known = {"of": self.of, "entropies": [float(one) for one in entropies]}
        write_text(self.about, json.dumps(known) + "\n")

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Marginals and entropies. Shape: ``[span, label]``, ``[sentence]``."""
        if not self.are_there():
            what = f"what the teachers say cannot be read from {self.file}"
            raise TrainingError(f"{what}. All machines must share it.")
        entropies = json.loads(self.about.read_text(encoding="utf-8"))["entropies"]
        marginals = np.memmap(self.file, dtype=np.float32, mode="r", shape=self.shape)
        return marginals, np.array(entropies, dtype=np.float32)

    def _no_place(self, why: str) -> TrainingError:
        name = "another folder with --answers" if self.shared else "another --output"
        return TrainingError(f"what the teachers say cannot be kept in {self.file.parent} ({why}). Name {name}.")


def _take_room(path: Path, size: int) -> None:
    """A file of so many bytes that are really there: a disk that is full when a memory map is written ends Python."""
    with path.open("wb") as stream:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, size)
        else:
            stream.truncate(size)
