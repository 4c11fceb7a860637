"""Sentences of many requests, read together: one thread for the model, fair to short requests, bounded.

Requests are admitted on the event loop, which counts their words. The model's thread takes what waits: every request in
turn gives a slice of its sentences, until there is work for one round. Slices are cut into pieces together, sorted into
batches of similar length, and read; a request is answered as soon as its last sentence is done. Nothing waits for
company: while one round is read, the next one gathers.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch

from nestree.model import NestedNER
from nestree.model.batching import by_work
from nestree.model.pieces import Cut
from nestree.prediction.predict import Finder
from nestree.prediction.reading import ALIKE, budget_for, read_cuts
from nestree.serving.jobs import Job, Unit

BROKEN: tuple[type[BaseException], ...] = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()
"""After one of these a GPU does nothing more for this process."""
SLICES = 8
"""A request gives an eighth of a round, and then it is the next one's turn."""
PATIENCE = 60
"""Most seconds that somebody is asked to wait."""


class QueueFullError(Exception):
    """Too many words wait already.

    Attributes:
        seconds: after which there should be room.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the queue is full for about {seconds} s")
        self.seconds = seconds


class _Piece(NamedTuple):
    """A unit of a job, in pieces."""

    job: Job
    unit: Unit
    cut: Cut


class Batcher:
    """Reads sentences of many requests together, in a thread of its own.

    Args:
        model: that reads them.
        queue_words: how many words may wait, those that are being read included.
        queue_seconds: how long it may take to read them.
        max_words: longer sentences are read in windows.
        batch_work: most padded work of one forward pass; left out, what suits the device.
        batching: whether requests share batches; without it, one request at a time.
        on_batch: is told of each forward pass how many sentences and words it read, in how many seconds; it is called
            in the model's thread.

    Attributes:
        waiting_words: of all requests that were admitted and not answered yet.
    """

    def __init__(
        self,
        model: NestedNER,
        *,
        queue_words: int,
        max_words: int,
        queue_seconds: float = math.inf,
        batch_work: int | None = None,
        batching: bool = True,
        on_batch: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self._model = model
        self._most = queue_words
        self._most_seconds = min(queue_seconds, 1e6)
        self._max_words = max_words
        self._budget = batch_work or budget_for(model.device)
        self._batching = batching
        self._on_batch = on_batch
        self.waiting_words = 0
        self._broken = False
        self._words_per_second = 1000.0
        self._jobs: deque[Job] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="nestree-model", daemon=True)

    # --- On the event loop ---

    def start(self) -> None:
        """Begins to read; the running event loop is the one that is told of results."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Ends the thread when all that waits is read."""
        with self._change:
            self._closed = True
            self._change.notify()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    @property
    def is_alive(self) -> bool:
        """Whether anything can be read."""
        return self._thread.is_alive() and not self._broken

    def check_room(self, words: int = 1) -> None:
        """Raises a QueueFullError if there is no room for so many words. Where none wait, there is room for any."""
        most = min(self._most, int(self._words_per_second * self._most_seconds))
        if self.waiting_words and self.waiting_words + words > most:
            too_many = self.waiting_words + words - most
            seconds = math.ceil(too_many / self._words_per_second)
            raise QueueFullError(max(1, min(PATIENCE, seconds)))

    def submit(self, find: Callable[[int], Finder], sentences: Sequence[Sequence[str]]) -> Job:
        """Puts sentences into the queue, whether there is room or not."""
        assert self._loop is not None, "start it first"
        job = Job(find, sentences, self._max_words, self._loop)
        if not job.units:
            job.done.set_result(None)
            return job
        with self._change:
            self._jobs.append(job)
            self._change.notify()
        return job

    @staticmethod
    def _answer(answered: Sequence[tuple[Job, BaseException | None]]) -> None:
        for job, error in answered:
            if job.done.done():
                continue
            if error is None:
                job.done.set_result(None)
            else:
                job.done.set_exception(error)

    # --- In the model's thread ---

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._jobs and not self._closed:
                    self._change.wait()
                if not self._jobs:
                    return
                taken = self._take()
            self._read_safely(taken)

    def _read_safely(self, taken: list[tuple[Job, Unit]]) -> None:
        """Reads a round; if something fails, each job by itself, so that one cannot harm the others."""
        try:
            self._read([one for one in taken if not one[0].dropped])
        except Exception as error:
            self._broken = self._broken or isinstance(error, BROKEN)
            jobs = {id(job): job for job, _ in taken}
            if len(jobs) == 1:
                job = taken[0][0]
                job.dropped = True
                self._tell([(job, error)])
                return
            for job in jobs.values():
                self._read_safely([one for one in taken if one[0] is job and not job.has(one[1])])

    def _take(self) -> list[tuple[Job, Unit]]:
        """The units of the next round: of each job a slice, in turns."""
        taken: list[tuple[Job, Unit]] = []
        work, slice_ = 0, max(1, self._budget // SLICES)
        while self._jobs and work < self._budget:
            job = self._jobs.popleft()
            if job.dropped:
                continue
            own = 0
            while job.next < len(job.units) and own < slice_:
                unit = job.units[job.next]
                taken.append((job, unit))
                own += job.work(unit)
                job.next += 1
            work += own
            if job.next < len(job.units):
                # Alone, it stays at the front; otherwise it is the others' turn.
                self._jobs.append(job) if self._batching else self._jobs.appendleft(job)
            elif not self._batching:
                break
        return taken

    def _read(self, taken: list[tuple[Job, Unit]]) -> None:
        cuts = self._model.pieces.cut([job.words(unit) for job, unit in taken])
        pieces = [_Piece(*one, cut) for one, cut in zip(taken, cuts, strict=True)]
        for batch in self._batches(pieces):
            some = [one for one in batch if not one.job.dropped]
            if some:
                self._read_batch(some)

    def _batches(self, pieces: list[_Piece]) -> Iterator[list[_Piece]]:
        """Those who ask for the same, together; the shortest first."""
        keys = [one.job.find(one.unit).key for one in pieces]
        order = sorted(range(len(pieces)), key=lambda at: hash(keys[at]))
        for _, group in groupby(order, key=lambda at: keys[at]):
            same = [pieces[at] for at in group]
            if self._model.device.type == "cuda":  # which is asked for several batches at a time
                yield same
                continue
            for numbers in reversed(by_work([one.cut for one in same], self._budget, ALIKE)):
                yield [same[number] for number in numbers]

    def _read_batch(self, batch: list[_Piece]) -> None:
        began = time.perf_counter()
        find = batch[0].job.find(batch[0].unit).steps
        found: list[Any] = read_cuts(self._model, find, [one.cut for one in batch], self._budget)
        seconds = time.perf_counter() - began
        done: list[tuple[Job, BaseException | None]] = []
        try:
            for one, of in zip(batch, found, strict=True):
                if one.job.keep(one.unit, of, one.cut):
                    done.append((one.job, None))
        finally:  # whatever becomes of the others
            self._tell(done)
        self._count(batch, seconds)

    def _count(self, batch: list[_Piece], seconds: float) -> None:
        words = sum(one.unit.end - one.unit.start for one in batch)
        self._words_per_second += 0.1 * (words / max(seconds, 1e-6) - self._words_per_second)
        if self._on_batch is not None:
            self._on_batch(len(batch), words, seconds)

    def _tell(self, answered: Sequence[tuple[Job, BaseException | None]]) -> None:
        if answered and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer, answered)
