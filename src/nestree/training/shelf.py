"""A corpus in a few long arrays, so that a batch is made of it by a few array operations and hardly any Python.

Training makes batches in a thread beside the one that drives the GPU. Both share Python's lock: what is Python in one
holds up the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nestree.crf import PartialTrees
from nestree.crf.kernels.codes import FIRST_SET, REJECTED
from nestree.model.pieces import Batch, Cut, Pieces


class Ragged:
    """Rows of numbers of different lengths, one after the other in one array.

    Args:
        rows: all of them; at least one number in all.
    """

    def __init__(self, rows: Sequence[np.ndarray]) -> None:
        self.sizes = np.array([len(row) for row in rows], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        self._flat = np.concatenate(rows)

    def padded(self, numbers: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Some rows as a table, and where it has numbers; elsewhere it is not defined. Shape: ``[row, width]``."""
        places = np.arange(width)
        there = places < self.sizes[numbers, None]
        return self._flat.take(self.starts[numbers, None] + places, mode="clip"), there

    def squares(self, numbers: np.ndarray, sides: np.ndarray, n: int, fill: int) -> np.ndarray:
        """Rows that are squares of these sides, written row by row, in larger squares. Shape: ``[row, n, n]``."""
        places = np.arange(n)
        sides = sides[:, None, None]
        at = self.starts[numbers, None, None] + places[:, None] * sides + places
        there = (places[:, None] < sides) & (places < sides)
        return np.where(there, self._flat.take(at, mode="clip"), np.asarray(fill, dtype=self._flat.dtype))


class Shelf:
    """All sentences of a corpus: pieces, where words are in them, and partial trees.

    Args:
        pieces: what cut the sentences.
        cuts: the sentences.
        observed: a partial tree for each, in any number of batches.
        sets: the sets of labels that these trees name, if they do, where the model is.
    """

    def __init__(
        self, pieces: Pieces, cuts: Sequence[Cut], observed: Sequence[PartialTrees], sets: Tensor | None = None
    ) -> None:
        self._pieces = pieces
        self._windows = Ragged([row for cut in cuts for row in cut.windows])
        self._counts = np.array([len(cut.windows) for cut in cuts], dtype=np.int64)
        self._first_window = np.concatenate([[0], np.cumsum(self._counts)[:-1]]).astype(np.int64)
        self._window = Ragged([cut.window for cut in cuts])
        self._first = Ragged([cut.first for cut in cuts])
        self._last = Ragged([cut.last for cut in cuts])
        self._codes = Ragged([square for some in observed for square in _squares(some)])
        self._labels = observed[0].entity_labels, observed[0].latent_labels
        self._sets = sets
        self._open = np.array([bool((square <= FIRST_SET).any()) for some in observed for square in _squares(some)])

    def windows(self, numbers: np.ndarray) -> np.ndarray:
        """The sentence that each window of a batch belongs to, in order."""
        return np.repeat(numbers, self._counts[numbers])

    def longest(self, numbers: np.ndarray) -> int:
        """Words of the longest of some sentences."""
        return int(self._first.sizes[numbers].max())

    def batch(self, numbers: np.ndarray, n: int) -> Batch:
        """Sentences as :meth:`Pieces.together` puts them together, with room for n words."""
        counts = self._counts[numbers]
        before = np.cumsum(counts) - counts  # windows of the sentences before
        inner = np.arange(int(counts.sum())) - np.repeat(before, counts)
        rows = np.repeat(self._first_window[numbers], counts) + inner
        width = self._pieces.padded_width(int(self._windows.sizes[rows].max()))
        pieces, there = self._windows.padded(rows, width)
        lengths = self._first.sizes[numbers]
        window, word = self._window.padded(numbers, n)
        origin = (before[:, None] + np.where(word, window, 0)) * width
        first = origin + np.where(word, self._first.padded(numbers, n)[0], 0)
        last = origin + np.where(word, self._last.padded(numbers, n)[0], 0)
        return Batch(
            torch.from_numpy(np.where(there, pieces, self._pieces.padding)),
            torch.from_numpy(there.astype(np.int64)),
            torch.from_numpy(first),
            torch.from_numpy(last),
            torch.from_numpy(lengths),
            int((last - first).max()) + 1,
            bool(there.all()),
        )

    def observed(self, numbers: np.ndarray, n: int) -> PartialTrees:
        """The partial trees of sentences, with room for n words."""
        lengths = self._first.sizes[numbers]
        codes = self._codes.squares(numbers, lengths, n, REJECTED)
        sets = self._sets if self._open[numbers].any() else None
        return PartialTrees(torch.from_numpy(codes), torch.from_numpy(lengths), *self._labels, sets)


def _squares(observed: PartialTrees) -> list[np.ndarray]:
    codes = observed.codes.numpy()
    return [codes[at, :length, :length].ravel() for at, length in enumerate(observed.lengths.tolist())]
