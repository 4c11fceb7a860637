"""Which sentences are read together: those of similar length, as many as a budget of work allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nestree.model.pieces import Cut

WORDS_SQUARED = 32
"""A chart with n words costs as much as n² / 32 pieces: about so on CPUs and GPUs, with small and large encoders."""


def work(cuts: Sequence[Cut]) -> int:
    """The padded work of a batch, in pieces: its windows as wide as the widest, its charts as large as the largest."""
    windows = sum(len(cut.windows) for cut in cuts)
    width = max((cut.width for cut in cuts), default=0)
    n = max((len(cut.first) for cut in cuts), default=0)
    return windows * width + len(cuts) * n * n // WORDS_SQUARED


ENOUGH = 8
"""A batch of an eighth of the budget is large enough not to be worth more padding."""


def by_work(cuts: Sequence[Cut], budget: int, alike: float = 0.0) -> list[list[int]]:
    """Numbers of sentences that go together, the longest first; a sentence beyond the budget goes alone.

    ``alike``: sentences shorter than this share of the longest do not come into a batch that is large enough.
    """
    sizes, order = _by_length(cuts)
    batches: list[list[int]] = []
    windows = width = n = 0
    for at in order:
        own_width, own_n, own_windows = sizes[at]
        windows, width, n = windows + own_windows, max(width, own_width), max(n, own_n)
        padded = windows * width + (len(batches[-1]) + 1 if batches else 1) * n * n // WORDS_SQUARED
        too_short = own_width < alike * width and padded * ENOUGH >= budget
        if batches and padded <= budget and not too_short:
            batches[-1].append(at)
        else:
            batches.append([at])
            width, n, windows = sizes[at]
    return batches


def by_cost(cuts: Sequence[Cut], budget: int, batch: int) -> list[list[int]]:
    """The same, with the fewest pieces in all, padding included, if a batch costs something by itself.

    Args:
        cuts: sentences.
        budget: most padded work of a batch.
        batch: what a batch costs besides, in pieces.
    """
    if not cuts:
        return []
    sizes, order = _by_length(cuts)
    width, n, windows = np.array([sizes[at] for at in order], dtype=np.int64).T
    before = np.concatenate([[0], np.cumsum(windows)])
    least = np.zeros(len(order) + 1, dtype=np.int64)  # that the first so many cost
    begins = [0]
    first = 0
    for end in range(1, len(order) + 1):  # which of them begins the batch that ends here?
        most_n = np.maximum.accumulate(n[first:end][::-1])[::-1]
        pieces = (before[end] - before[first:end]) * width[first:end]
        fits = pieces + np.arange(end - first, 0, -1) * most_n**2 // WORDS_SQUARED <= budget
        skipped = int(fits.argmax()) if fits.any() else end - first - 1  # those do not fit later, either
        begin = skipped + int((least[first:end] + pieces)[skipped:].argmin())
        least[end] = least[first + begin] + pieces[begin] + batch
        begins.append(first + begin)
        first += skipped
    batches: list[list[int]] = []
    end = len(order)
    while end:
        batches.append(order[begins[end] : end])
        end = begins[end]
    return batches[::-1]


def _by_length(cuts: Sequence[Cut]) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Of each sentence width, words and windows; and the numbers of all, the longest first."""
    sizes = [(cut.width, len(cut.first), len(cut.windows)) for cut in cuts]
    return sizes, sorted(range(len(cuts)), key=lambda at: (-sizes[at][0], -sizes[at][1], at))
