"""From sentences to windows of pieces, and which of their words are hidden.

**Packing.** A window is what the tagger reads of a sentence, its special pieces included; packed, it is several
sentences, one after the other with a separator between them, as many as fit whole. No attention is masked between
them: that is how encoders were pretrained. A sentence that is longer than a window goes on in the next one, at a word's
border. Windows of similar width go together, so that hardly anything is padded.

**Hiding.** Whole words (ours) are hidden, chosen anew in each pass by seed, pass, window and place alone. Of ten hidden
words eight become mask pieces, one random pieces, and one stays as it is; all their pieces are to be guessed. Special
pieces are never hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nestree.model.pieces import Pieces
from nestree.training.batching import BUCKET, shares
from nestree.training.shelf import Ragged

MASKED, RANDOM = 0.8, 0.1
"""Shares of the hidden words that become mask pieces, and random ones; the others stay as they are."""
MEASURING = 0
"""The number of the pass over held-out text; those that are learned from count from 1."""
IGNORED = -100
SPECIAL = -1
"""In place of a word's first piece: this piece belongs to no word."""


class Window(NamedTuple):
    """Pieces, and of each the place where its word begins in the window; -1 for special pieces. Shape: ``[piece]``."""

    pieces: np.ndarray
    begins: np.ndarray


@dataclass(frozen=True)
class Guesses:
    """Windows with hidden words, and what they were.

    Shape: ``pieces`` and ``attention`` ``[window, piece]``; ``places`` and ``targets`` ``[guess]``: places in the
    flattened windows, and the pieces that stood there, -100 where there is nothing to guess. ``count``: how many there
    are to guess. ``full``: attention leaves nothing out.
    """

    pieces: Tensor
    attention: Tensor
    places: Tensor
    targets: Tensor
    count: int
    full: bool

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, in order."""
        return self.pieces, self.attention, self.places, self.targets

    def pinned(self) -> Guesses:
        """The same where a GPU can fetch it by itself."""
        pieces, attention, places, targets = (one.pin_memory() for one in self.tensors)
        return Guesses(pieces, attention, places, targets, self.count, self.full)


def windows_of(sentences: Sequence[Sequence[str]], pieces: Pieces, length: int, *, pack: bool) -> list[Window]:
    """Sentences in windows of at most so many pieces, in their order."""
    before, after = pieces.special
    room = min(length, pieces.limit) - len(before) - len(after)
    separator = after[:1] if pack else []
    windows: list[Window] = []
    waiting: list[list[int]] = []  # words, and separators as words of their own
    breaks: set[int] = set()
    used = 0

    def close() -> None:
        nonlocal waiting, breaks, used
        if waiting:
            windows.append(_window(waiting, breaks, before, after))
        waiting, breaks, used = [], set(), 0

    for first in range(0, len(sentences), 1024):
        for words in pieces.by_word(sentences[first : first + 1024]):
            size = sum(map(len, words))
            if waiting and (not pack or used + len(separator) + size > room):
                close()
            if waiting and separator:
                breaks.add(len(waiting))
                waiting.append(separator)
                used += len(separator)
            for word in words:
                word = word[:room]
                if used + len(word) > room:
                    close()
                waiting.append(word)
                used += len(word)
    close()
    return windows


def _window(words: list[list[int]], breaks: set[int], before: list[int], after: list[int]) -> Window:
    flat, begins = list(before), [SPECIAL] * len(before)
    for number, word in enumerate(words):
        begins += [SPECIAL if number in breaks else len(flat)] * len(word)
        flat += word
    flat += after
    begins += [SPECIAL] * len(after)
    return Window(np.array(flat, dtype=np.int32), np.array(begins, dtype=np.int32))


class Windows:
    """All windows of a text, and batches of them with hidden words.

    Args:
        windows: at least one.
        pieces: of the encoder.
        ordinary: pieces that a random one is drawn from.
        mask: the share of words to hide.
        seed: of everything random.
    """

    def __init__(self, windows: Sequence[Window], pieces: Pieces, ordinary: np.ndarray, mask: float, seed: int) -> None:
        self._rows = Ragged([one.pieces for one in windows])
        self._begins = Ragged([one.begins for one in windows])
        self._pieces = pieces
        self._hidden = int(pieces.tokenizer.mask_token_id)
        self._ordinary = ordinary
        self._mask, self._seed = mask, seed

    def __len__(self) -> int:
        return len(self._rows.sizes)

    @property
    def total(self) -> int:
        """Pieces in all windows."""
        return int(self._rows.sizes.sum())

    def plan(self, epoch: int, size: int) -> list[np.ndarray]:
        """The windows of each step of a pass: shuffled, those of similar width together."""
        random = np.random.default_rng((self._seed, epoch))
        order = random.permutation(len(self))
        batches: list[np.ndarray] = []
        for first in range(0, len(order), size * BUCKET):
            some = order[first : first + size * BUCKET]
            some = some[np.argsort(self._rows.sizes[some], kind="stable")]
            batches += [some[at : at + size] for at in range(0, len(some), size)]
        random.shuffle(batches)
        return batches

    def parts(self, numbers: np.ndarray, budget: int) -> Iterator[np.ndarray]:
        """Windows in parts of at most so many pieces, padding included; at least one at a time."""
        width = self._pieces.padded_width(int(self._rows.sizes[numbers].max(initial=1)))
        most = max(1, budget // width)
        for first in range(0, len(numbers), most):
            yield numbers[first : first + most]

    def hidden(self, numbers: np.ndarray, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pieces of windows, where there are some, and which of them are of hidden words. Shape: ``[window, piece]``.

        A word is hidden by its place in the window, and not by what else is in the batch.
        """
        width = self._pieces.padded_width(int(self._rows.sizes[numbers].max(initial=1)))
        pieces, there = self._rows.padded(numbers, width)
        begins = np.where(there, self._begins.padded(numbers, width)[0], SPECIAL)
        random = self._by_word(begins, numbers, epoch, 0)
        return pieces, there, (begins >= 0) & (random < self._mask)

    def _by_word(self, begins: np.ndarray, numbers: np.ndarray, epoch: int, kind: int) -> np.ndarray:
        """A random number for each word, at all of its pieces. Shape: ``[window, piece]``."""
        drawn = self._drawn(numbers, epoch, kind, begins.shape[1])
        return np.take_along_axis(drawn, np.maximum(begins, 0).astype(np.int64), 1)

    def _drawn(self, numbers: np.ndarray, epoch: int, kind: int, width: int) -> np.ndarray:
        order = np.argsort(numbers, kind="stable")  # the rows of an owner must follow each other: here each has one
        drawn = np.empty((len(numbers), width))
        drawn[order] = shares(self._seed, 3 * epoch + kind, numbers[order], width)
        return drawn

    def batch(self, numbers: np.ndarray, epoch: int) -> Guesses:
        """Windows with hidden words."""
        pieces, there, chosen = self.hidden(numbers, epoch)
        begins = np.where(there, self._begins.padded(numbers, pieces.shape[1])[0], SPECIAL)
        fate = self._by_word(begins, numbers, epoch, 1)
        other = self._ordinary[(self._drawn(numbers, epoch, 2, pieces.shape[1]) * len(self._ordinary)).astype(np.int64)]
        shown = np.where(chosen & (fate < MASKED), self._hidden, pieces)
        shown = np.where(chosen & (fate >= MASKED) & (fate < MASKED + RANDOM), other, shown)
        shown = np.where(there, shown, self._pieces.padding)
        places = np.flatnonzero(chosen)
        room = rounded_up(len(places))
        at, targets = np.zeros(room, dtype=np.int64), np.full(room, IGNORED, dtype=np.int64)
        at[: len(places)] = places
        targets[: len(places)] = pieces.ravel()[places]
        return Guesses(
            torch.from_numpy(shown.astype(np.int64)),
            torch.from_numpy(there.astype(np.int64)),
            torch.from_numpy(at),
            torch.from_numpy(targets),
            len(places),
            bool(there.all()),
        )


def rounded_up(count: int) -> int:
    """Room for so many guesses: an eighth more at most, so that few shapes occur; 16 at least."""
    step = max(16, 1 << max(0, count.bit_length() - 4))
    return max(1, -(-count // step)) * step


def ordinary_pieces(tokenizer: object) -> np.ndarray:
    """All pieces but the special ones."""
    known = np.arange(len(tokenizer))  # type: ignore[arg-type]
    special: list[int] = tokenizer.all_special_ids  # type: ignore[attr-defined]
    return np.asarray(known[~np.isin(known, special)])
