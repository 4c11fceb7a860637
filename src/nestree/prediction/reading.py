"""Reads sentences in their order: any number, of any length, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from nestree.data.splitting import without_surrogates
from nestree.model import NestedNER, Steps
from nestree.model.batching import by_cost, by_work
from nestree.model.ner import at_rest
from nestree.model.pieces import EIGHT, Batch, Cut
from nestree.model.unpadded import is_unpadded
from nestree.threads import Ahead

AHEAD = 2048
"""Sentences that are looked at together, so that those of similar length meet in a batch."""
FIRST, GROWTH = 16, 64
"""The same at the beginning, so that first results come soon, and how many times more after that."""
WORDS_AHEAD = 65536
"""Words that are looked at together, if sentences are long."""
ALIKE = 0.85
"""On a GPU, sentences of a batch are at least so wide as a share of the widest, unless they are few."""
A_BATCH, A_BATCH_UNPADDED = 40, 100
"""On a CPU, a batch costs as much as so many pieces of padding; without padding in most of the work, as so many."""
UNDER_WAY = 6
"""Batches that a GPU was asked for, and not yet for its answers."""
MAX_WORDS = 256
"""Longer sentences are read in windows: the time for a tree grows with the cube of its words."""


Found = TypeVar("Found", bound=Any)
Item = TypeVar("Item")
Find = Callable[[Batch], list[list[Found]]]
"""A method of a model that finds something in each sentence of a batch: ``model.decode``, ``model.trees``.

If it is :class:`nestree.model.Steps`, such as ``model.decode_steps()``, a GPU need not be waited for."""

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
    sentences: Iterable[Sequence[str] | None],
    *,
    budget: int | None = None,
    max_words: int = MAX_WORDS,
    merge: Merge | None = None,
) -> Iterator[Read[Found]]:
    """What is found in each sentence, in their order. A few thousand sentences are held at a time.

    While a GPU works on some sentences, the answers of those before are handed out, and the next are cut into pieces.

    If reading the sentences fails, that error comes after what was found in all sentences before it.

    Args:
        model: whose pieces are needed.
        find: finds spans or nodes, in words of the sentence.
        sentences: as words. None among them says that no more come for now: those before are read at once.
        budget: padded work of one forward pass (:func:`nestree.model.batching.work`); left out, what suits the device.
        max_words: longer sentences are read in windows of so many words, of which a quarter overlap.
        merge: puts together what was found in the windows of a sentence; :func:`merged`, if None.
    """
    failed: list[Exception] = []
    groups: Iterator[_Group] = (_cut(model, some, max_words) for some in _groups(sentences, failed))
    if model.device.type != "cpu":  # a CPU has nothing to wait for
        groups = Ahead(groups, 1, "nestree-reader")
    desk = _Desk(model, find)
    asked: deque[tuple[_Group, _Answers[Found]]] = deque()
    ready: deque[Read[Found]] = deque()
    for group in groups:
        answers: _Answers[Found] = _Answers(group.cuts)
        asked.append((group, answers))
        batches = batches_of(model, group.cuts, budget)
        for at, numbers in enumerate(batches):
            desk.ask(answers, numbers)
            while asked[0][1].complete and len(asked) > 1:
                ready.extend(_reads(*asked.popleft(), merge or merged))
            for _ in range(-(-len(ready) // (len(batches) - at))):  # evenly, so that the GPU never waits for long
                yield ready.popleft()
        if not _more_is_ready(groups):
            yield from _all_answers(desk, asked, merge or merged)
    yield from _all_answers(desk, asked, merge or merged)
    if failed:
        raise failed[0]


def read_cuts(model: NestedNER, find: Find[Found], cuts: Sequence[Cut], budget: int | None = None) -> list[list[Found]]:
    """What is found in each of these sentences, read in batches of similar length.

    Where memory does not suffice, batches are halved.
    """
    answers: _Answers[Found] = _Answers(cuts)
    desk = _Desk(model, find)
    with at_rest(model):
        for numbers in batches_of(model, cuts, budget):
            desk.ask(answers, numbers)
        desk.finish()
    return answers.found


def batches_of(model: NestedNER, cuts: Sequence[Cut], budget: int | None = None) -> list[list[int]]:
    """Numbers of the sentences that are read together, in the order in which they are read best."""
    budget = budget or budget_for(model.device)
    if model.device.type == "cpu":
        return by_cost(cuts, budget, A_BATCH_UNPADDED if is_unpadded(model) else A_BATCH)[::-1]
    batches = by_work(cuts, budget, ALIKE)
    return batches if model.device.type == "cuda" else batches[::-1]


def _more_is_ready(groups: Iterator[_Group]) -> bool:
    return isinstance(groups, Ahead) and groups.is_ready


def _all_answers(
    desk: _Desk[Found], asked: deque[tuple[_Group, _Answers[Found]]], merge: Merge
) -> Iterator[Read[Found]]:
    desk.finish()
    while asked:
        yield from _reads(*asked.popleft(), merge)


def _reads(group: _Group, answers: _Answers[Found], merge: Merge) -> Iterator[Read[Found]]:
    """The answers of a group, for each of its sentences."""
    found = zip(answers.found, group.cuts, strict=True)
    for windows in group.windows:
        parts = [next(found) for _ in windows]
        of_sentence = [one for one, _ in parts]
        cut = parts[0][1]
        windowed = len(windows) > 1 or len(cut.windows) > 1 or cut.short  # of trees, of the encoder, of one word
        yield Read(merge(of_sentence, windows) if len(windows) > 1 else of_sentence[0], windowed)


class _Answers(Generic[Found]):
    """What is found in some sentences, as it comes in."""

    def __init__(self, cuts: Sequence[Cut]) -> None:
        self.cuts = cuts
        self.found: list[list[Found]] = [[] for _ in cuts]
        self._missing = len(cuts)

    def take(self, numbers: list[int], found: list[list[Found]]) -> None:
        for number, one in zip(numbers, found, strict=True):
            self.found[number] = one
        self._missing -= len(numbers)

    @property
    def complete(self) -> bool:
        return not self._missing


class _Desk(Generic[Found]):
    """Hands batches to a device, and takes what it found: on a GPU some batches later, so that it always has work."""

    def __init__(self, model: NestedNER, find: Find[Found]) -> None:
        self._model = model
        self._steps = find if isinstance(find, Steps) else Steps(find, lambda found: found)
        on_gpu = model.device.type == "cuda"
        self._multiple = 1 if model.device.type == "cpu" else EIGHT
        self._most = UNDER_WAY if on_gpu else 0
        # What is waited for is copied beside the work of later batches, not after it.
        self._side = _side_stream(model.device) if on_gpu else None
        self._under_way: deque[tuple[_Answers[Found], list[int], Any, torch.cuda.Event | None]] = deque()

    def ask(self, answers: _Answers[Found], numbers: list[int]) -> None:
        """Asks for some of the sentences. Where memory does not suffice, for one half after the other."""
        batch = self._model.pieces.together([answers.cuts[number] for number in numbers], self._multiple)
        try:
            asked = self._steps.ask(batch)
        except torch.OutOfMemoryError:
            if len(numbers) == 1 and not self._under_way:
                raise
            asked = None  # what the error holds on to is free again only after this
        if asked is None:
            self.finish()
            half = -(-len(numbers) // 2)
            self.ask(answers, numbers[:half])
            if numbers[half:]:
                self.ask(answers, numbers[half:])
            return
        event = None
        if self._side is not None:
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(self._model.device))
        self._under_way.append((answers, numbers, asked, event))
        self.finish(self._most)

    def finish(self, but: int = 0) -> None:
        """Takes what was found, but for so many batches."""
        while len(self._under_way) > but:
            answers, numbers, asked, event = self._under_way.popleft()
            if self._side is None or event is None:
                found = self._steps.make(asked)
            else:
                with torch.cuda.stream(self._side):
                    self._side.wait_event(event)
                    found = self._steps.make(asked)
            answers.take(numbers, found)


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """The same for all readings: a stream keeps memory of its own."""
    return torch.cuda.Stream(device)


def _groups(sentences: Iterable[Sequence[str] | None], failed: list[Exception]) -> Iterator[list[Sequence[str]]]:
    """Sentences that are looked at together. An error of their source ends them, and is kept for later."""
    waiting: list[Sequence[str]] = []
    words, most = 0, min(FIRST, AHEAD)
    for sentence in _until_error(sentences, failed):
        if sentence is None:
            if waiting:
                yield waiting
            waiting, words = [], 0
            continue
        waiting.append(sentence)
        words += len(sentence)
        if len(waiting) >= most or words >= WORDS_AHEAD:
            yield waiting
            waiting, words, most = [], 0, min(GROWTH * most, AHEAD)
    if waiting:
        yield waiting


def _until_error(items: Iterable[Item], failed: list[Exception]) -> Iterator[Item]:
    following = iter(items)
    while True:
        try:
            item = next(following)
        except StopIteration:
            return
        except Exception as error:  # raised again, when all before it is read
            failed.append(error)
            return
        yield item


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
