"""Sentences of many requests, read together: off the event loop, fair to short requests, bounded.

Requests are admitted on the event loop, which counts their words. Readers, which are threads, take what waits: every
request in turn gives a slice of its sentences, until there is work for one round. Slices are cut into pieces together
and sorted into batches of similar length; each reader takes one batch after the other, and when none is left, the next
round is formed. A request is answered as soon as its last sentence is done. Nothing waits for company: while one round
is read, the next one gathers.

Several readers that use a core each get more done than one that uses several: torch's threads wait for each other after
every step, and for the event loop. A batch that is alone is read with all cores.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch.nn.attention import sdpa_kernel

from nestree.model import NestedNER
from nestree.model.encoder import ATTENTION
from nestree.model.pieces import Cut
from nestree.prediction.predict import Finder
from nestree.prediction.reading import batches_of, budget_for, read_cuts
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
    """Reads sentences of many requests together, in threads of its own.

    Args:
        model: that reads them.
        queue_words: how many words may wait, those that are being read included.
        queue_seconds: how long it may take to read them.
        max_words: longer sentences are read in windows.
        batch_work: most padded work of one forward pass; left out, what suits the device.
        cores: of the CPU, and batches that are read at the same time.
        batching: whether requests share batches; without it, one request is read at a time, with all cores.
        on_batch: is told of each forward pass how many sentences and words it read, in how many seconds; it is called
            by readers.

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
        cores: int = 1,
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
        self._ready: deque[list[_Piece]] = deque()
        self._at_work = 0
        self._change = threading.Condition()
        """Guards the two queues, and what jobs keep."""
        self._forming = threading.Lock()
        self._attention = ExitStack()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cores = cores if model.device.type == "cpu" else 1
        self._readers = [
            threading.Thread(target=self._run, name=f"nestree-model-{number}", daemon=True)
            for number in range(self._cores if batching else 1)
        ]

    # --- On the event loop ---

    def start(self) -> None:
        """Begins to read; the running event loop is the one that is told of results."""
        self._loop = asyncio.get_running_loop()
        # The choice of attention is one for all threads: made here, it stays while any of them needs it.
        self._attention.enter_context(sdpa_kernel(ATTENTION))
        for reader in self._readers:
            reader.start()

    async def close(self) -> None:
        """Ends the readers when all that waits is read."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for reader in self._readers:
            await asyncio.get_running_loop().run_in_executor(None, reader.join)
        self._attention.close()

    @property
    def is_alive(self) -> bool:
        """Whether anything can be read."""
        return all(reader.is_alive() for reader in self._readers) and not self._broken

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

    # --- In the readers' threads ---

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            self._read_safely(batch)
            with self._change:
                self._at_work -= 1

    def _next(self) -> list[_Piece] | None:
        """The next batch; None if there will be no more."""
        while True:
            with self._change:
                while not self._ready and not self._jobs and not self._closed:
                    self._change.wait()
                if self._ready:
                    self._at_work += 1
                    self._share_cores()
                    return self._ready.popleft()
                if not self._jobs:
                    return None
            with self._forming:
                with self._change:
                    taken = [] if self._ready else self._take()
                self._form(taken)

    def _share_cores(self) -> None:
        """A batch that is alone is read with all cores, others with one each."""
        alone = self._at_work == 1 and len(self._ready) == 1 and not self._jobs
        cores = self._cores if alone else 1
        if self._cores > 1 and torch.get_num_threads() != cores:  # which holds for this thread alone
            torch.set_num_threads(cores)

    def _form(self, taken: list[tuple[Job, Unit]]) -> None:
        """Makes batches of a round; if something fails, of each job by itself, so that one cannot harm the others."""
        if not taken:
            return
        try:
            cuts = self._model.pieces.cut([job.words(unit) for job, unit in taken])
        except Exception as error:
            jobs = {id(job): job for job, _ in taken}
            for job in jobs.values():
                if len(jobs) == 1:
                    self._fail(job, error)
                else:
                    self._form([one for one in taken if one[0] is job])
            return
        pieces = [_Piece(*one, cut) for one, cut in zip(taken, cuts, strict=True)]
        batches = list(self._batches(pieces))
        with self._change:
            self._ready.extend(batches)
            self._change.notify_all()

    def _read_safely(self, batch: list[_Piece]) -> None:
        """Reads a batch; if something fails, each job by itself, so that one cannot harm the others."""
        batch = [one for one in batch if not one.job.dropped and not one.job.has(one.unit)]
        if not batch:
            return
        try:
            self._read(batch)
        except Exception as error:
            self._broken = self._broken or isinstance(error, BROKEN)
            jobs = {id(one.job): one.job for one in batch}
            for job in jobs.values():
                if len(jobs) == 1:
                    self._fail(job, error)
                else:
                    self._read_safely([one for one in batch if one.job is job])

    def _fail(self, job: Job, error: Exception) -> None:
        job.failed = True
        self._tell([(job, error)])

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

    def _batches(self, pieces: list[_Piece]) -> Iterator[list[_Piece]]:
        """Those who ask for the same, together; the shortest first."""
        keys = [one.job.find(one.unit).key for one in pieces]
        order = sorted(range(len(pieces)), key=lambda at: hash(keys[at]))
        for _, group in groupby(order, key=lambda at: keys[at]):
            same = [pieces[at] for at in group]
            if self._model.device.type == "cuda":  # which is asked for several batches at a time
                yield same
                continue
            for numbers in batches_of(self._model, [one.cut for one in same], self._budget):
                yield [same[number] for number in numbers]

    def _read(self, batch: list[_Piece]) -> None:
        began = time.perf_counter()
        find = batch[0].job.find(batch[0].unit).steps
        found: list[Any] = read_cuts(self._model, find, [one.cut for one in batch], self._budget)
        seconds = time.perf_counter() - began
        done: list[tuple[Job, BaseException | None]] = []
        try:
            with self._change:
                for one, of in zip(batch, found, strict=True):
                    if one.job.keep(one.unit, of, one.cut):
                        done.append((one.job, None))
        finally:  # whatever becomes of the others
            self._tell(done)
        self._count(batch, seconds)

    def _count(self, batch: list[_Piece], seconds: float) -> None:
        words = sum(one.unit.end - one.unit.start for one in batch)
        speed = words / max(seconds, 1e-6) * max(1, self._at_work)
        self._words_per_second += 0.1 * (speed - self._words_per_second)
        if self._on_batch is not None:
            self._on_batch(len(batch), words, seconds)

    def _tell(self, answered: Sequence[tuple[Job, BaseException | None]]) -> None:
        if answered and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer, answered)
