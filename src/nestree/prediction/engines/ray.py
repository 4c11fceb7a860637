"""Bulk prediction on Ray Data: a dataset of shards, mapped by a pool of actors.

A row of the dataset is a shard, not a document. Ray Data cuts documents into blocks as it likes, and does not know
which block came from which file. A shard as a row is read, predicted and written by one actor, which holds a bounded
part of it; what goes through Ray is its receipt. An actor that dies is started again by Ray, and so is its row;
:mod:`nestree.prediction.engines.folder` sees to it that a shard comes out once.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from nestree.model.errors import first_line
from nestree.prediction.engines.cluster import Pool as Pool
from nestree.prediction.engines.cluster import Pulse, connected, ray_module, room
from nestree.prediction.engines.errors import EngineError
from nestree.prediction.engines.folder import Receipt
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.run import Engine
from nestree.prediction.engines.shards import Shard
from nestree.prediction.engines.work import Job, Worker

AGAIN = "What is done is done: run the same command again to go on."
_POLL = 1.0  # seconds between two looks at workers and cluster


def engine(pool: Pool) -> Engine:
    """The engine with this pool.

    Raises:
        ImportError: Ray is not installed.
        EngineError: its version is too old.
    """
    ray_module()
    return partial(_do, pool)


def _do(pool: Pool, job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
    ray = ray_module()
    if job.device == "cpu" and pool.gpus is None:
        pool = replace(pool, gpus=0)  # they would be taken from others, and stand idle
    with connected(ray, pool.address) as pulse:
        size, gpus = room(ray, pool, len(shards), watch.say)
        if not gpus and job.device == "auto":
            job = replace(job, device="cpu")
        reports = ray.remote(_Reports).options(num_cpus=0, max_restarts=-1).remote()
        rows = ray.data.from_items([asdict(shard) for shard in shards], override_num_blocks=len(shards))
        done = rows.map(
            _Actor,
            fn_constructor_args=(job, None if gpus else pool.cpus, reports),
            compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
            num_cpus=pool.cpus,
            num_gpus=gpus or None,
        )
        with _watched(ray, reports, watch):
            for row in _while_it_lives(done.iter_rows(), pulse):
                yield Receipt(**{**row, "notes": tuple(row["notes"])})


class _Actor:
    """A worker in a process of its own. What is wrong with its model is a receipt too, so that it is said once."""

    def __init__(self, job: Job, threads: int | None, reports: Any) -> None:
        self._reports = reports
        self._fault = ""
        try:
            self._worker = Worker(job, threads)
        except Exception as error:  # raised here, Ray would start the actor again and again
            self._fault = first_line(error)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        shard = Shard(**row)
        if self._fault:
            where = f"a worker on {socket.gethostname()} could not begin"
            receipt = Receipt(shard.name, error=f"{where}: {self._fault}", hopeless=True)
        else:
            receipt = self._worker.do(shard, partial(self._reports.put.remote, shard.name))
        return {**asdict(receipt), "notes": list(receipt.notes)}


class _Reports:
    """How far workers are, for whoever asks."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}

    def put(self, name: str, documents: int) -> None:
        self._running[name] = documents

    def take(self) -> dict[str, int]:
        found, self._running = self._running, {}
        return found


@contextmanager
def _watched(ray: Any, reports: Any, watch: Watch) -> Iterator[None]:
    """Within it, the watch is told what workers report."""
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_POLL):
            with suppress(Exception):  # progress is not worth failing for
                for name, documents in ray.get(reports.take.remote(), timeout=10).items():
                    watch.running(name, documents)

    thread = threading.Thread(target=look, daemon=True, name="nestree-watch")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=1)


def _while_it_lives(rows: Iterable[dict[str, Any]], pulse: Pulse) -> Iterator[dict[str, Any]]:
    """The rows; one message if Ray gives up, or if its cluster is gone, which it would not say."""
    ready: queue.Queue[Any] = queue.Queue()
    end, stop = object(), threading.Event()

    def take() -> None:
        try:
            for row in rows:
                ready.put(row)
                if stop.is_set():
                    return
            ready.put(end)
        except BaseException as error:  # raised again below
            ready.put(error)

    threading.Thread(target=take, daemon=True, name="nestree-rows").start()
    try:
        while True:
            try:
                found = ready.get(timeout=_POLL)
            except queue.Empty:
                if pulse.gone():
                    raise EngineError(f"the Ray cluster is gone: nobody answers there any more. {AGAIN}") from None
                continue
            if found is end:
                return
            if isinstance(found, BaseException):
                raise EngineError(f"Ray gave up: {first_line(found)}. {AGAIN}") from found
            yield found
            pulse.heard()  # however long that took: nobody asked in the meantime
    finally:
        stop.set()
