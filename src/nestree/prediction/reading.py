"""Reads sentences in their order: any number, of any length, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch.nn.attention import sdpa_kernel

from nestree.data.splitting import without_surrogates
from nestree.model import NestedNER
from nestree.model.batching import by_work
from nestree.model.encoder import ATTENTION
from nestree.model.ner import at_rest
from nestree.model.pieces import EIGHT, Batch, Cut
from nestree.threads import ahead

AHEAD = 2048
"""Sentences that are looked at together, so that those of similar length meet in a batch."""
FIRST, GROWTH = 16, 64
"""The same at the beginning, so that first results come soon, and how many times more after that."""
WORDS_AHEAD = 65536
"""Words that are looked at together, if sentences are long."""
ALIKE = 0.85
"""Sentences of a batch are at least so wide as a share of the widest, unless they are few."""
MAX_WORDS = 256
"""Longer sentences are read in windows: the time for a tree grows with the cube of its words."""


Found = TypeVar("Found", bound=Any)
Find = Callable[[Batch], list[list[Found]]]
"""A method of a model that finds something in each sentence of a batch: ``model.decode``, ``model.trees``."""

Merge = Callable[[list[Any], list[tuple[int, int]]], Any]
"""Makes one of what was found in the windows of a sentence, which are ranges of its words."""


def budget_for(device: torch.device) -> int:
    """Work of one forward pass, if it is not chosen: what a CPU's caches hold, or what keeps other devices busy."""
    return 4096 if device.type == "cpu" else 16384


class Read(NamedTuple, Generic[Found]):
    """What was found in a sentence, and whether it was read in windows."""

    found: list[Found]
    windowed: bool


class _Group(NamedTuple):
    """Sentences that are looked at together; of long ones, their windows.

    Attributes:
        windows: of each sentence, the words at which its windows begin.
        cuts: all windows, in pieces.
    """

    windows: list[list[tuple[int, int]]]
    cuts: list[Cut]


def read(
    model: NestedNER,
    find: Find[Found],
    sentences: Iterable[Sequence[str]],
    *,
    budget: int | None = None,
    max_words: int = MAX_WORDS,
    merge: Merge | None = None,
) -> Iterator[Read[Found]]:
    """What is found in each sentence, in their order. A few thousand sentences are held at a time.

    Args:
        model: whose pieces are needed.
        find: finds spans or nodes, in words of the sentence.
        sentences: as words.
        budget: padded work of one forward pass (:func:`nestree.model.batching.work`); left out, what suits the device.
        max_words: longer sentences are read in windows of so many words, of which a quarter overlap.
        merge: puts together what was found in the windows of a sentence; :func:`merged`, if None.
    """
    merge = merge or merged
    groups: Iterable[_Group] = (_cut(model, some, max_words) for some in _groups(sentences))
    if model.device.type != "cpu":  # a CPU has nothing to wait for
        groups = ahead(groups, 1, "nestree-reader")
    for group in groups:
        found = iter(zip(read_cuts(model, find, group.cuts, budget), group.cuts, strict=True))
        for windows in group.windows:
            parts = [next(found) for _ in windows]
            of_sentence = [one for one, _ in parts]
            windowed = len(windows) > 1 or len(parts[0][1].windows) > 1  # of trees, or of the encoder
            yield Read(merge(of_sentence, windows) if len(windows) > 1 else of_sentence[0], windowed)


def read_cuts(model: NestedNER, find: Find[Found], cuts: Sequence[Cut], budget: int | None = None) -> list[list[Found]]:
    """What is found in each of these sentences, read in batches of similar length.

    Where memory does not suffice, batches are halved.
    """
    found: list[list[Found]] = [[] for _ in cuts]
    multiple = 1 if model.device.type == "cpu" else EIGHT

    def read_some(numbers: list[int]) -> None:
        try:
            result = find(model.pieces.together([cuts[number] for number in numbers], multiple))
        except torch.OutOfMemoryError:
            if len(numbers) == 1:
                raise
            result = None  # what the error holds on to is free again only after this
        if result is None:
            read_some(numbers[: len(numbers) // 2])
            read_some(numbers[len(numbers) // 2 :])
            return
        for number, one in zip(numbers, result, strict=True):
            found[number] = one

    batches = by_work(cuts, budget or budget_for(model.device), ALIKE)
    with at_rest(model):
        if model.device.type == "cuda" and len(batches) > 1:
            _two_at_a_time(read_some, batches)
        else:
            for numbers in reversed(batches):
                read_some(numbers)
    return found


def _two_at_a_time(do: Callable[[list[int]], None], batches: list[list[int]]) -> None:
    """While one thread makes entities of what the GPU found, the GPU works for the other.

    Where memory does not suffice for two, a batch is done again by itself.
    """
    cast, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    again: list[list[int]] = []

    def under_the_same_rules(numbers: list[int]) -> None:  # some of which torch keeps for each thread
        try:
            with torch.autocast("cuda", dtype, enabled=cast):
                do(numbers)
        except torch.OutOfMemoryError:
            again.append(numbers)

    pool = ThreadPoolExecutor(2, "nestree-decoder")
    # The choice of attention is one for all threads: made here, it stays while any of them needs it.
    with sdpa_kernel(ATTENTION):
        try:
            contexts = [copy_context() for _ in batches]
            for _ in pool.map(lambda context, numbers: context.run(under_the_same_rules, numbers), contexts, batches):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
    for numbers in again:
        do(numbers)


def _groups(sentences: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    waiting: list[Sequence[str]] = []
    words, most = 0, min(FIRST, AHEAD)
    for sentence in sentences:
        waiting.append(sentence)
        words += len(sentence)
        if len(waiting) >= most or words >= WORDS_AHEAD:
            yield waiting
            waiting, words, most = [], 0, min(GROWTH * most, AHEAD)
    if waiting:
        yield waiting


def _cut(model: NestedNER, sentences: list[Sequence[str]], max_words: int) -> _Group:
    windows = [list(windows_of(len(sentence), max_words)) for sentence in sentences]
    parts = [
        readable(sentence[start:end])
        for sentence, places in zip(sentences, windows, strict=True)
        for start, end in places
    ]
    return _Group(windows, model.pieces.cut(parts))


def readable(words: Sequence[str]) -> Sequence[str]:
    """Words as compiled libraries can read them."""
    return words if "".join(words).isascii() else [without_surrogates(word) for word in words]


def windows_of(words: int, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of words, each of which shares a quarter with the next."""
    start, step = 0, most - most // 4
    while words - start > most:
        yield start, start + most
        start += step
    yield start, words


def merged(parts: list[list[Found]], windows: list[tuple[int, int]]) -> list[Found]:
    """What windows found, once each: every window answers for what begins nearer to its middle than to its neighbours'.

    Of two that cross, as neighbours may disagree, the one that scores better stays.
    """
    kept: list[Found] = []  # of the windows before
    over: list[Found] = []  # those among them that reach into the next window's part
    for at, (part, (start, end)) in enumerate(zip(parts, windows, strict=True)):
        first = 0 if at == 0 else (start + windows[at - 1][1]) // 2
        last = end if at == len(windows) - 1 else (windows[at + 1][0] + end) // 2
        own = []
        for one in part:
            moved = one._replace(start=one.start + start, end=one.end + start)
            if first <= moved.start < last and not (moved.label is None and moved.end > last):
                own.append(moved)
        lost: set[int] = set()
        for one in sorted(over, key=lambda one: -one.score):
            crossing = [n for n, other in enumerate(own) if n not in lost and other.start < one.end < other.end]
            if any(own[n].score > one.score for n in crossing):
                kept.remove(one)
            else:
                lost.update(crossing)
        own = [one for n, one in enumerate(own) if n not in lost]
        over = [one for one in own if one.end > last]
        kept += own
    return sorted(kept, key=lambda one: (one.start, -one.end))
