"""From words to what an encoder reads: pieces, in windows that overlap where a sentence is too long for one.

No word is cut off, ever: a sentence of any length becomes as many windows as it takes, and each word is read where it
has most context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

EIGHT = 8
"""Windows are as wide as a multiple of this: GPUs like that, and meet fewer shapes to get ready for."""


@dataclass(frozen=True)
class Batch:
    """Sentences as tensors, and where each word's pieces are.

    Shape: ``pieces`` and ``attention`` ``[window, piece]``; ``first`` and ``last`` ``[batch, n]``, indices into the
    flattened windows; ``lengths`` ``[batch]``. ``most`` is how many pieces the longest word has, ``full`` whether all
    windows are of one width, so that there is nothing to leave out of attention.
    """

    pieces: Tensor
    attention: Tensor
    first: Tensor
    last: Tensor
    lengths: Tensor
    most: int
    full: bool = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, in order."""
        return self.pieces, self.attention, self.first, self.last, self.lengths

    def with_tensors(self, tensors: Sequence[Tensor]) -> Batch:
        """With others in place of :attr:`tensors`."""
        pieces, attention, first, last, lengths = tensors
        return Batch(pieces, attention, first, last, lengths, self.most, self.full)

    def to(self, device: torch.device | str) -> Batch:
        """The same on a device."""
        device = torch.device(device)
        if device.type == "cuda" and self.pieces.device.type == "cpu" and not self.pieces.is_pinned():
            return self.with_tensors(_sent(self.tensors, device))
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Batch:
        """The same where a GPU can fetch it by itself."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return self.with_tensors([change(one) for one in self.tensors])

    @property
    def windowed(self) -> int:
        """How many windows there are beside one for each sentence."""
        return len(self.pieces) - len(self.lengths)


def _sent(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors of one type on a GPU, by a single copy that nobody waits for."""
    packed = torch.empty(sum(one.numel() for one in tensors), dtype=tensors[0].dtype, pin_memory=True)
    parts = packed.split([one.numel() for one in tensors])
    for part, one in zip(parts, tensors, strict=True):
        part.copy_(one.flatten())
    there = packed.to(device, non_blocking=True).split([one.numel() for one in tensors])
    return [part.view(one.shape) for part, one in zip(there, tensors, strict=True)]


class Cut(NamedTuple):
    """A sentence in pieces; ``short`` says whether a word has more pieces than a window, of which the first are read.

    Shape: ``windows`` rows of pieces, the special ones included; ``window``, ``first`` and ``last`` ``[n]``: of each
    word the window it is read in, and its first and last piece there.
    """

    windows: tuple[np.ndarray, ...]
    window: np.ndarray
    first: np.ndarray
    last: np.ndarray
    short: bool = False

    @property
    def width(self) -> int:
        """Pieces in the longest window."""
        return len(self.windows[0]) if len(self.windows) == 1 else max(map(len, self.windows))


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
        self.padding: int = tokenizer.pad_token_id or 0
        known = (tokenizer.unk_token_id, tokenizer.mask_token_id)
        self._unknown: int = next((one for one in known if one is not None), self.padding)
        if self._room < 1:
            raise ValueError(f"the encoder reads {limit} pieces at a time, and needs more for its special ones.")

    def of_words(self, words: Sequence[str]) -> list[list[int]]:
        """The pieces of each word, at least one, and no more than fit into a window."""
        return self._by_word(self._encoded([words])[0], len(words))

    def by_word(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """The same for each of several sentences."""
        encoded = self._encoded(sentences)
        return [self._by_word(one, len(words)) for one, words in zip(encoded, sentences, strict=True)]

    @property
    def special(self) -> tuple[list[int], list[int]]:
        """The pieces that stand before and after a sentence."""
        return list(self._before), list(self._after)

    def _encoded(self, sentences: Sequence[Sequence[str]]) -> Any:
        """What the tokenizer says of each sentence: its pieces, and the word of each."""
        backend = self.tokenizer.backend_tokenizer
        if backend.truncation is not None:  # as somebody else may have left it
            backend.no_truncation()
        if backend.padding is not None:
            backend.no_padding()
        return backend.encode_batch(list(map(list, sentences)), is_pretokenized=True, add_special_tokens=False)

    def count(self, words: Sequence[str]) -> int:
        """How many pieces words have, however long they are."""
        return sum(len(one) or 1 for one in self._all_by_word(self._encoded([words])[0], len(words)))

    def _by_word(self, encoded: Any, words: int) -> list[list[int]]:
        return [one[: self._room] or [self._unknown] for one in self._all_by_word(encoded, words)]

    def _all_by_word(self, encoded: Any, words: int) -> list[list[int]]:
        pieces: list[list[int]] = [[] for _ in range(words)]
        for word, piece in zip(encoded.word_ids, encoded.ids, strict=True):
            if word is not None:
                pieces[word].append(piece)
        return pieces

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Batch:
        """A batch of sentences."""
        return self.together(self.cut(sentences))

    def cut(self, sentences: Sequence[Sequence[str]]) -> list[Cut]:
        """Each sentence in pieces, once and for all; :meth:`together` makes batches of them."""
        if not sentences:
            return []
        encoded = self._encoded(sentences)
        return [
            cut or self._cut(self._all_by_word(one, len(words)))
            for cut, one, words in zip(self._in_one_window(encoded, sentences), encoded, sentences, strict=True)
        ]

    def _in_one_window(self, encoded: Sequence[Any], sentences: Sequence[Sequence[str]]) -> list[Cut | None]:
        """Sentences that fit into a window, and of which every word has pieces: almost all are such. None: others."""
        pieces, of = [one.ids for one in encoded], [one.word_ids for one in encoded]
        simple = [0 < len(some) <= self._room and None not in words for some, words in zip(pieces, of, strict=True)]
        pieces, of = [list(compress(rows, simple)) for rows in (pieces, of)]
        sizes = np.array([len(some) for some in pieces], dtype=np.int64)
        ends = np.cumsum(sizes)
        starts = ends - sizes
        # All sentences in a row: a word begins where the number of the word changes, and at the start of a sentence.
        numbers = np.fromiter(chain.from_iterable(of), dtype=np.int64, count=int(sizes.sum()))
        begins = np.ones(len(numbers), dtype=bool)
        begins[1:] = numbers[1:] != numbers[:-1]
        begins[starts] = True
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(numbers)) - 1
        bounds = np.searchsorted(first, np.append(starts, len(numbers))).tolist()
        offset = np.repeat(len(self._before) - starts, np.diff(bounds))
        first, last = first + offset, last + offset
        zeros = np.zeros(max(map(len, sentences)), dtype=np.int64)
        rest = zip(pieces, pairwise(bounds), strict=True)
        cuts: list[Cut | None] = []
        for is_simple, words in zip(simple, sentences, strict=True):
            cut = None
            if is_simple:
                own, (start, end) = next(rest)
                if end - start == len(words):
                    window = np.array([*self._before, *own, *self._after])
                    cut = Cut((window,), zeros[: len(words)], first[start:end], last[start:end])
            cuts.append(cut)
        return cuts

    def _cut(self, pieces: list[list[int]]) -> Cut:
        short = any(len(one) > self._room for one in pieces)
        pieces = [one[: self._room] or [self._unknown] for one in pieces]
        sizes = np.array([len(one) for one in pieces], dtype=np.int64)
        flat = np.array([piece for one in pieces for piece in one], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        windows: list[np.ndarray] = []
        window = np.zeros(len(pieces), dtype=np.int64)
        first = np.zeros(len(pieces), dtype=np.int64)
        for start, end, keep_start, keep_end in self._windows(sizes.tolist()):
            kept = slice(keep_start, keep_end)
            window[kept] = len(windows)
            first[kept] = starts[kept] - starts[start] + len(self._before)
            windows.append(np.concatenate([self._before, flat[starts[start] : starts[end]], self._after]))
        return Cut(tuple(windows), window, first, first + sizes - 1, short)

    def padded_width(self, widest: int, multiple: int = EIGHT) -> int:
        """How wide the windows of a batch are."""
        return min(-(-widest // multiple) * multiple, max(widest, self.limit))

    def together(self, cuts: Sequence[Cut], multiple: int = EIGHT) -> Batch:
        """A batch of sentences that are in pieces already, its width a multiple of some number."""
        rows = [row for cut in cuts for row in cut.windows]
        widths, lengths, windows = (
            np.array(sizes, dtype=np.int64)
            for sizes in (
                [len(row) for row in rows],
                [len(cut.first) for cut in cuts],
                [len(cut.windows) for cut in cuts],
            )
        )
        width = self.padded_width(int(widths.max(initial=1)), multiple)
        attention = np.arange(width) < widths[:, None]
        pieces = np.full(attention.shape, self.padding, dtype=np.int64)
        words = np.arange(lengths.max(initial=0)) < lengths[:, None]
        origin = (np.cumsum(windows) - windows) * width
        first, last = np.repeat(origin[None, :, None], 2, 0).repeat(words.shape[1], 2)  # no word: its own sentence
        if len(cuts):
            pieces[attention] = np.concatenate(rows)
            inside = np.concatenate([cut.window for cut in cuts]) * width
            first[words] += inside + np.concatenate([cut.first for cut in cuts])
            last[words] += inside + np.concatenate([cut.last for cut in cuts])
        most = int((last - first).max(initial=0)) + 1
        return Batch(
            torch.from_numpy(pieces),
            torch.from_numpy(attention.astype(np.int64)),
            torch.from_numpy(first),
            torch.from_numpy(last),
            torch.from_numpy(lengths),
            most,
            bool(attention.all()),
        )

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
