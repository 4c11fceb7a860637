"""From words to what an encoder reads: pieces, in windows that overlap where a sentence is too long for one.

No word is cut off, ever: a sentence of any length becomes as many windows as it takes, and each word is read where it
has most context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Sentences as tensors, and where each word's pieces are.

    Shape: ``pieces`` and ``attention`` ``[window, piece]``; ``first`` and ``last`` ``[batch, n]``, indices into the
    flattened windows; ``lengths`` ``[batch]``.
    """

    pieces: Tensor
    attention: Tensor
    first: Tensor
    last: Tensor
    lengths: Tensor

    def to(self, device: torch.device | str) -> Batch:
        """The same on a device."""
        return replace(self, **{name: value.to(device, non_blocking=True) for name, value in vars(self).items()})

    @property
    def windowed(self) -> int:
        """How many windows there are beside one for each sentence."""
        return len(self.pieces) - len(self.lengths)


class Pieces:
    """Splits words into an encoder's pieces.

    Args:
        tokenizer: a fast tokenizer of Hugging Face.
        limit: pieces that the encoder reads at a time, its special ones included.
    """

    def __init__(self, tokenizer: Any, limit: int) -> None:
        self.tokenizer = tokenizer
        self.limit = limit
        bare = tokenizer(["a"], is_split_into_words=True, add_special_tokens=False)["input_ids"]
        dressed = tokenizer(["a"], is_split_into_words=True)["input_ids"]
        at = next(at for at in range(len(dressed)) if dressed[at : at + len(bare)] == bare)
        self._before, self._after = dressed[:at], dressed[at + len(bare) :]
        self._room = limit - len(self._before) - len(self._after)
        if self._room < 1:
            raise ValueError(f"the encoder reads {limit} pieces at a time, and needs more for its special ones.")

    def of_words(self, words: Sequence[str]) -> list[list[int]]:
        """The pieces of each word, at least one, and no more than fit into a window."""
        found = self.tokenizer(
            list(words), is_split_into_words=True, add_special_tokens=False, truncation=False, verbose=False
        )
        pieces: list[list[int]] = [[] for _ in words]
        for word, piece in zip(found.word_ids(), found["input_ids"], strict=True):
            if word is not None:
                pieces[word].append(piece)
        return [one[: self._room] or [self.tokenizer.unk_token_id] for one in pieces]

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Batch:
        """A batch of sentences."""
        windows: list[list[int]] = []
        places: list[list[tuple[int, int, int]]] = []  # of each word: window, first and last piece in it
        for words in sentences:
            pieces = self.of_words(words)
            found = [(0, 0, 0)] * len(pieces)
            for start, end, keep_start, keep_end in self._windows([len(one) for one in pieces]):
                row, at = list(self._before), len(self._before)
                for word in range(start, end):
                    if keep_start <= word < keep_end:
                        found[word] = (len(windows), at, at + len(pieces[word]) - 1)
                    row += pieces[word]
                    at += len(pieces[word])
                windows.append(row + self._after)
            places.append(found)
        return self._tensors(windows, places)

    def _windows(self, sizes: list[int]) -> list[tuple[int, int, int, int]]:
        """Ranges of words that fit into windows, and of each window the words that are taken from it."""
        if sum(sizes) <= self._room:
            return [(0, len(sizes), 0, len(sizes))]
        ranges: list[tuple[int, int]] = []
        start = 0
        while True:
            end, used = start, 0
            while end < len(sizes) and used + sizes[end] <= self._room:
                used += sizes[end]
                end += 1
            ranges.append((start, end))
            if end == len(sizes):
                break
            # The next window begins in the middle of this one, so that every word has half a window of context.
            half = 0
            while start < end - 1 and half + sizes[start] <= self._room // 2:
                half += sizes[start]
                start += 1
            start = max(start, ranges[-1][0] + 1)
        borders = [0]
        for (_, end), (next_start, _) in pairwise(ranges):
            borders.append((max(next_start, borders[-1]) + end) // 2 if next_start < end else end)
        borders.append(len(sizes))
        return [(*one, borders[at], borders[at + 1]) for at, one in enumerate(ranges)]

    def _tensors(self, windows: list[list[int]], places: list[list[tuple[int, int, int]]]) -> Batch:
        width = max(map(len, windows), default=1)
        n = max(map(len, places), default=0)
        pad = self.tokenizer.pad_token_id or 0
        pieces = torch.tensor([row + [pad] * (width - len(row)) for row in windows], dtype=torch.int64)
        sizes = torch.tensor([len(row) for row in windows])
        lengths = torch.tensor([len(one) for one in places])
        nowhere = [(0, 0, 0)]
        table = torch.tensor([one + nowhere * (n - len(one)) for one in places], dtype=torch.int64).reshape(-1, n, 3)
        first = table[..., 0] * width + table[..., 1]
        last = table[..., 0] * width + table[..., 2]
        attention = (torch.arange(width) < sizes[:, None]).to(torch.int64)
        return Batch(pieces.reshape(-1, width), attention, first, last, lengths)
