"""Bulk prediction on Ray Data: a dataset of shards, mapped by a pool of actors.

A row of the dataset is a shard, not a document. Ray Data cuts documents into blocks as it likes, and does not know
which block came from which file. A shard as a row is read, predicted and written by one actor, which holds a bounded
part of it; what goes through Ray is its receipt. An actor that dies is started again by Ray, and so is its row;
:mod:`nestree.prediction.engines.folder` sees to it that a shard comes out once.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from nestree.model.errors import first_line
from nestree.prediction.engines.errors import EngineError
from nestree.prediction.engines.folder import Receipt
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.run import Engine
from nestree.prediction.engines.shards import Shard
from nestree.prediction.engines.work import Job, Worker

OLDEST = (2, 50)
"""The oldest version of Ray whose actor pools work as they are used here."""
AGAIN = "What is done is done: run the same command again to go on."
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_POLL = 1.0  # seconds between two looks at how far workers are


@dataclass(frozen=True)
class Pool:
    """The actors that do the work.

    Attributes:
        workers: how many; None: as many as there is room for.
        cpus: of each; also the threads of a worker without a GPU.
        gpus: of each; a fraction lets several share one. None: one if the cluster has any.
        address: of a cluster: "auto" for the one of this machine, "HOST:PORT", "ray://HOST:PORT". None: one of its
            own on this machine, for the run.
    """

    workers: int | None = None
    cpus: int = 1
    gpus: float | None = None
    address: str | None = None


def engine(pool: Pool) -> Engine:
    """The engine with this pool.

    Raises:
        ImportError: Ray is not installed.
        EngineError: its version is too old.
    """
    _ray()
    return partial(_do, pool)


def _do(pool: Pool, job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
    ray = _ray()
    with _connected(ray, pool):
        size, gpus = _room(ray, pool, len(shards))
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
        with _watched(ray, reports, watch), _one_message(ray):
            for row in done.iter_rows():
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


# --- Ray -------------------------------------------------------------------------------------------------------------


def _ray() -> Any:
    """The module, quiet; or one message about what is missing."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(f'--engine ray needs Ray Data ({error}): pip install "nestree[ray]"') from None
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise EngineError(f'Ray {ray.__version__} is too old; {oldest} or newer is needed: pip install "nestree[ray]"')
    return ray


@contextmanager
def _connected(ray: Any, pool: Pool) -> Iterator[None]:
    """Within it there is a Ray: the one that this process has, that of the address, or a new one on this machine."""
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if pool.address:
        _knock(pool.address)
        options["address"] = pool.address
    else:
        options |= {"address": "local", "include_dashboard": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the machine, and about Ray's own future
            ray.init(**options)
    except Exception as error:  # many kinds, by what is wrong with the cluster
        where = f"the Ray cluster at {pool.address}" if pool.address else "a Ray on this machine"
        advice = "Is it running? `ray status` says so." if pool.address else "Does `ray start --head` work?"
        raise EngineError(f"{where} cannot be used: {first_line(error)}. {advice}") from None
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Refuses the address of a machine that does not answer; Ray would wait a long time for it."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not (colon and port.isdigit()):
        return  # "auto", which Ray knows about
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        what = f"there is no Ray cluster at {address} ({error.strerror or error})"
        raise EngineError(f"{what}. Is it running? Leave --ray-address out to use this machine alone.") from None


def _room(ray: Any, pool: Pool, shards: int) -> tuple[int, float]:
    """How many workers, and the GPUs of each."""
    there = ray.cluster_resources()
    gpus = pool.gpus if pool.gpus is not None else min(1.0, there.get("GPU", 0.0))
    needed = {"CPU": float(pool.cpus), "GPU": gpus}
    fit = min(int(there.get(name, 0.0) / amount) for name, amount in needed.items() if amount)
    if fit < (pool.workers or 1) and not pool.address:
        has = f"{there.get('CPU', 0.0):g} CPUs and {there.get('GPU', 0.0):g} GPUs"
        asked = f"{pool.workers or 1} workers with {pool.cpus} CPUs and {gpus:g} GPUs each"
        raise EngineError(f"there is no room for {asked}: this machine has {has}. Ask for less.")
    return min(pool.workers or max(1, fit), shards), gpus  # a cluster may grow: there it may wait for room


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
        thread.join()


@contextmanager
def _one_message(ray: Any) -> Iterator[None]:
    """What Ray raises when its cluster is gone, or a worker cannot be kept alive, as one message."""
    try:
        yield
    except (ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
        raise EngineError(f"Ray gave up: {first_line(error)}. {AGAIN}") from error
