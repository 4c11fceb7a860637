"""The sentences of a request, and what was found in them so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nestree.model.pieces import Cut
from nestree.prediction.predict import Finder, Sentence, merged_sentences
from nestree.prediction.reading import readable, windows_of

TREES = 8
"""Next best trees take so many times as long as all else."""


class Unit(NamedTuple):
    """A sentence, or a window of one: its number, and its words ``[start, end)``."""

    sentence: int
    start: int
    end: int

    @property
    def work(self) -> int:
        """About how much it takes to read it, in pieces, as :func:`nestree.model.batching.work` counts."""
        words = self.end - self.start
        return words + words // 2 + words * words // 32


class Job:
    """The sentences of a request. Made and dropped on the event loop, filled by one reader at a time.

    Args:
        find: finds what the request asks for, in a sentence of so many words.
        sentences: as words.
        max_words: longer sentences are read in windows.
        loop: on which somebody waits for it.

    Attributes:
        done: a future that becomes ready when all sentences are read.
        failed: something went wrong with one of its sentences.
        next: the first unit that was not taken yet.
        found: of each sentence, when it is done.
        windowed: whether a sentence was read in windows.
    """

    def __init__(
        self,
        find: Callable[[int], Finder],
        sentences: Sequence[Sequence[str]],
        max_words: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._find = find
        self.done: asyncio.Future[None] = loop.create_future()
        self.failed = False
        self.next = 0
        self.found: list[Sentence] = [Sentence([], [])] * len(sentences)
        self.windowed = [False] * len(sentences)
        self.units: list[Unit] = []
        self._sentences = sentences
        self._windows: dict[int, dict[Unit, Sentence | None]] = {}
        for number, words in enumerate(sentences):
            windows = [Unit(number, *one) for one in windows_of(len(words), max_words)]
            if len(windows) > 1:
                self.windowed[number] = True
                self._windows[number] = dict.fromkeys(windows)
            self.units += windows
        self._left = set(self.units)

    @property
    def dropped(self) -> bool:
        """Whether it failed, or nobody waits any more: what is not read yet is not read at all."""
        return self.failed or self.done.cancelled()

    def find(self, unit: Unit) -> Finder:
        """Finds what is asked for in a unit."""
        return self._find(unit.end - unit.start)

    def work(self, unit: Unit) -> int:
        """About how much it takes to read a unit."""
        return unit.work * (TREES if self.find(unit).alternatives else 1)

    def has(self, unit: Unit) -> bool:
        """Whether a unit was read already."""
        return unit not in self._left

    def words(self, unit: Unit) -> Sequence[str]:
        """The words of a unit."""
        return readable(self._sentences[unit.sentence][unit.start : unit.end])

    def keep(self, unit: Unit, found: Sentence, cut: Cut) -> bool:
        """Keeps what was found in a unit; says whether this was the last one."""
        windows = self._windows.get(unit.sentence)
        if windows is None:
            self.found[unit.sentence] = found
            self.windowed[unit.sentence] = len(cut.windows) > 1  # of the encoder
        else:
            windows[unit] = found
            parts = [one for one in windows.values() if one is not None]
            if len(parts) == len(windows):
                self.found[unit.sentence] = merged_sentences(parts, [(one.start, one.end) for one in windows])
                del self._windows[unit.sentence]
        self._left.discard(unit)
        return not self._left
