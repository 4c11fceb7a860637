"""Shards in several processes of this machine: for GPUs that compute a small encoder sooner than one Python asks.

This process hands out shards, one at a time, and takes receipts. A worker that dies is started again, and its shard is
given to another; :mod:`nestree.prediction.engines.folder` sees to it that a shard comes out once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from nestree.model.errors import first_line
from nestree.prediction.engines.errors import EngineError
from nestree.prediction.engines.folder import ATTEMPTS, Receipt
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.run import Engine
from nestree.prediction.engines.shards import Shard
from nestree.prediction.engines.work import Job, Worker

READY, RUNNING, DONE, FAULT = "ready", "running", "done", "fault"
PATIENCE = 10.0
"""Seconds that workers have to clean up when they are stopped."""
_WISH = threading.Event()
"""In a worker: it is to end."""


def engine(workers: int) -> Engine:
    """The engine with so many processes."""
    return partial(_do, workers)


def _do(workers: int, job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
    todo, wanted = deque(shards), min(workers, len(shards))
    threads = max(1, (os.cpu_count() or 1) // wanted)
    with _ended() as all_:
        for number in range(wanted):
            all_.append(_Seat(number, job, threads))
        left = len(shards)
        while left:
            for seat in _with_news(all_):
                news = seat.news()
                if news is None:
                    lost = seat.again()
                    if lost is not None:  # after all others: it may be what the worker died of
                        todo.append(lost)
                    for other in all_:  # some may be waiting for nothing
                        other.give(todo)
                    continue
                kind, said = news
                if kind == FAULT:
                    raise EngineError(f"a worker could not begin: {said}")
                if kind == RUNNING:
                    watch.running(*said)
                    continue
                if kind == DONE:
                    left -= 1
                    yield said
                seat.give(todo)


def _with_news(seats: Sequence[_Seat]) -> list[_Seat]:
    """Those whose worker has something to say, or is dead."""
    by_pipe = {seat.pipe: seat for seat in seats}
    ready: list[Any] = wait(list(by_pipe))
    return [by_pipe[one] for one in ready]


@contextmanager
def _ended() -> Iterator[list[_Seat]]:
    """Seats; after it, there is nobody on them."""
    seats: list[_Seat] = []
    try:
        yield seats
    finally:
        for seat in seats:
            seat.process.terminate()
        for seat in seats:
            seat.process.join(PATIENCE)
            if seat.process.is_alive():
                seat.process.kill()
                seat.process.join()
            seat.pipe.close()


class _Seat:
    """A place for a worker, and the shard that it was given."""

    def __init__(self, number: int, job: Job, threads: int) -> None:
        self._start: tuple[Any, ...] = (number, job, threads)
        self._shard: Shard | None = None
        self._idle = False
        self._early_deaths = 0
        self.process, self.pipe = self._started()

    def _started(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")  # a GPU does not survive a fork
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, *self._start), name="nestree-worker", daemon=True)
        process.start()
        there.close()  # so that it is the worker's alone, and ends with it
        return process, here

    def news(self) -> tuple[str, Any] | None:
        """What the worker says; None: it is dead."""
        try:
            found: tuple[str, Any] = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self._idle = found[0] in (READY, DONE)
        if found[0] == DONE:
            self._shard = None
        return found

    def give(self, todo: deque[Shard]) -> None:
        """Gives the worker something to do, if it waits for that."""
        if self._idle and todo:
            self._shard, self._idle = todo.popleft(), False
            with suppress(OSError):  # it died just now: that is the next news
                self.pipe.send(self._shard)

    def again(self) -> Shard | None:
        """Starts another worker in place of one that died; returns the shard that it was doing."""
        self.process.join()
        lost, self._shard, self._idle = self._shard, None, False
        if lost is None:
            self._early_deaths += 1
            if self._early_deaths >= ATTEMPTS:
                raise EngineError(
                    f"worker processes end before they have begun (exit status {self.process.exitcode}). "
                    "Perhaps memory does not suffice for so many: use fewer --workers."
                )
        self.pipe.close()
        self.process, self.pipe = self._started()
        return lost


# --- In a worker -----------------------------------------------------------------------------------------------------


def _work(pipe: Connection, number: int, job: Job, threads: int) -> None:
    """Does shards until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which goes to all; whoever started this one ends it
    signal.signal(signal.SIGTERM, _stop)
    _end_with_the_driver()
    with suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        try:
            worker = Worker(replace(job, device=_placed(job.device, number)), threads)
        except Exception as error:
            pipe.send((FAULT, first_line(error)))
            return
        pipe.send((READY, None))
        while True:
            shard: Shard = pipe.recv()
            receipt = worker.do(shard, partial(_tell, pipe, shard.name))
            if _WISH.is_set():  # and the stop may have become another error, which the receipt takes for the shard's
                return
            pipe.send((DONE, receipt))


def _tell(pipe: Connection, name: str, documents: int) -> None:
    if _WISH.is_set():  # and Python dropped the error, as it came within a destructor
        raise KeyboardInterrupt
    pipe.send((RUNNING, (name, documents)))


def _stop(number: int, frame: Any) -> None:
    """Ends a worker in good order: what it has begun is taken away."""
    _WISH.set()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _placed(device: str, number: int) -> str:
    """Where there are several GPUs, each worker has one."""
    import torch

    if device in ("auto", "cuda") and torch.cuda.device_count() > 1:
        return f"cuda:{number % torch.cuda.device_count()}"
    return device


def _end_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    assert driver is not None

    def watch() -> None:
        wait([driver.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="nestree-driver", daemon=True).start()
