"""A Ray to work on: found, or started, or refused with one message; and noticed when it is gone."""

from __future__ import annotations

import logging
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nestree.model.errors import first_line
from nestree.prediction.engines.errors import EngineError

OLDEST = (2, 50)
"""The oldest version of Ray whose actor pools work as they are used here."""
SILENCE = 30.0
"""Seconds without an answer after which a cluster is gone. After 60, Ray ends the process without a word."""
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # or a thread that ends late would connect to whatever it finds
}


@dataclass(frozen=True)
class Pool:
    """The actors that do the work.

    Attributes:
        workers: how many; None: as many as there is room for.
        cpus: of each; also the threads of a worker without a GPU.
        gpus: of each; a fraction lets several share one. None: one if the cluster has any.
        address: of a cluster: "auto" for the one of this machine, "HOST:PORT", "ray://HOST:PORT". None: one of its own
            on this machine, for the run.
    """

    workers: int | None = None
    cpus: int = 1
    gpus: float | None = None
    address: str | None = None


def ray_module() -> Any:
    """Ray, quiet.

    Raises:
        ImportError: it is not installed.
        EngineError: its version is too old.
    """
    for name, value in _SETTINGS.items():
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
def connected(ray: Any, address: str | None) -> Iterator[Pulse]:
    """Within it there is a Ray: the one that this process has, that of the address, or a new one on this machine."""
    if ray.is_initialized():
        yield Pulse(_place(ray, address))
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address:
        _check_answer(address)
        options["address"] = address
    else:
        options |= {"address": "local", "include_dashboard": False}
    try:
        if address == "auto":
            _check_answer(_found(ray))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the machine, and about Ray's own future
            ray.init(**options)
    except EngineError:
        raise
    except Exception as error:  # many kinds, by what is wrong with the cluster
        where = f"the Ray cluster at {address}" if address else "a Ray on this machine"
        advice = "Does `ray start --head` work?"
        if address:
            advice = "Does it run, with the same Ray and Python? If it wants a token, set RAY_AUTH_MODE=token."
        raise EngineError(f"{where} cannot be used: {first_line(error)}. {advice}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what it raises is said by us; its own log has it all
        yield Pulse(_place(ray, address))
    finally:
        ray.shutdown()


class Pulse:
    """Whether a cluster is still there.

    Args:
        place: host and port of what answers for it; None, or one that does not answer now: nobody can tell.
        silence: seconds without an answer after which it is gone.
    """

    def __init__(self, place: tuple[str, int] | None, silence: float = SILENCE) -> None:
        self._place = place if place and not _fault(place) else None
        self._silence = silence
        self._heard = time.monotonic()

    def heard(self) -> None:
        """Something came from it."""
        self._heard = time.monotonic()

    def gone(self) -> bool:
        """Asks; call it every second or so."""
        if self._place is None or not _fault(self._place):
            self.heard()
        return time.monotonic() - self._heard >= self._silence


def room(ray: Any, pool: Pool, shards: int, say: Callable[[str], None] = lambda line: None) -> tuple[int, float]:
    """How many workers, and the GPUs of each.

    Args:
        ray: the module, connected.
        pool: what is asked for.
        shards: there are no more workers than those.
        say: is told if a cluster has no room for a single worker now. It may grow, and is waited for.

    Raises:
        EngineError: this machine is too small for them.
    """
    there = ray.cluster_resources()
    gpus = pool.gpus if pool.gpus is not None else min(1.0, there.get("GPU", 0.0))
    needed = {"CPU": float(pool.cpus), "GPU": gpus}
    fit = min(int(there.get(name, 0.0) / amount) for name, amount in needed.items() if amount)
    has = f"{there.get('CPU', 0.0):g} CPUs and {there.get('GPU', 0.0):g} GPUs"
    asked = f"{pool.cpus} CPUs and {gpus:g} GPUs"
    if fit < (pool.workers or 1) and not pool.address:
        what = f"there is no room for {pool.workers or 1} workers with {asked} each"
        raise EngineError(f"{what}: this machine has {has}. Ask for less.")
    if fit < 1:
        say(f"waiting: the cluster has {has}, and a worker needs {asked}")
    return min(pool.workers or max(1, fit), shards), gpus


def _found(ray: Any) -> str:
    """The address that "auto" stands for: Ray notes it in a file, which outlives a cluster that is killed."""
    find = getattr(getattr(getattr(ray, "_private", None), "services", None), "get_ray_address_from_environment", None)
    return str(find("auto", None)) if find else "auto"


def _check_answer(address: str) -> None:
    """Refuses the address of a machine that does not answer; Ray would wait a long time for it."""
    place = _host_and_port(address)
    fault = _fault(place, 10) if place else None
    if fault is not None:
        what = f"there is no Ray cluster at {address} ({fault.strerror or fault})"
        raise EngineError(f"{what}. Is it running? Leave --ray-address out to use this machine alone.")


def _place(ray: Any, address: str | None) -> tuple[str, int] | None:
    found = _host_and_port(address or "")
    return found or _host_and_port(str(ray.get_runtime_context().gcs_address))


def _host_and_port(address: str) -> tuple[str, int] | None:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() else None


def _fault(place: tuple[str, int], timeout: float = 3) -> OSError | None:
    """Why nobody answers there; None if somebody does."""
    try:
        socket.create_connection(place, timeout).close()
    except OSError as error:
        return error
    return None
