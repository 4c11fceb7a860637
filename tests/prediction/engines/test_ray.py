"""Shards on a local Ray, whose processes are killed; and all ways in which Ray is not there."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from nestree.cli.main import main
from nestree.model import NestedNER
from nestree.prediction.engines import EngineError, cluster, predict_shards
from nestree.prediction.engines import ray as on_ray
from nestree.prediction.engines.cluster import Pool, Pulse
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.shards import Shard
from tests.prediction.engines import cases
from tests.prediction.engines.cases import attempts, expected, found_in, job, markers, outputs, wait_for, write_parquet

SIZES = {f"part-{number}": 1200 for number in range(6)}


def workers(driver: psutil.Process) -> list[psutil.Process]:
    """The processes of actors that predict."""
    found = []
    for process in driver.children(recursive=True):
        try:
            if "MapWorker" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def begun() -> Iterator[list[psutil.Process]]:
    """Processes of a Ray whose driver is killed. Its agents notice late, and are not waited for."""
    found: list[psutil.Process] = []
    yield found
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def test_a_run_outlives_its_driver_and_its_workers(model: Path, tmp_path: Path, begun: list[psutil.Process]) -> None:
    pytest.importorskip("ray")
    out = tmp_path / "out"
    for name, size in SIZES.items():
        write_parquet(tmp_path / "in" / f"{name}.parquet", name, size)
    (tmp_path / "in" / "broken.parquet").write_bytes(b"PAR1 and no more")
    flags = [tmp_path / "in", "--engine", "ray", "--output", out, "--workers", "1", "--gpus-per-worker", "0"]

    first = cases.start(model, *flags)  # its driver is killed
    wait_for(lambda: markers(out) and attempts(out), first)
    begun += psutil.Process(first.pid).children(recursive=True)
    orphans = workers(psutil.Process(first.pid))
    first.send_signal(signal.SIGKILL)
    first.wait()
    if first.stdout is not None:
        first.stdout.close()
    _, alive = psutil.wait_procs(orphans, timeout=120)
    assert not alive, "a worker outlived its driver"
    before, old = markers(out), set(attempts(out))
    assert 0 < before < len(SIZES)

    second = cases.start(model, *flags)  # a worker of it is killed
    driver = psutil.Process(second.pid)
    wait_for(lambda: cases.killed_within_a_shard(workers(driver), out, old), second)
    status, said = cases.finish(second)
    assert status == 2, said
    assert f"{before} of {len(SIZES) + 1} shards are done already" in said
    assert "its process died; attempt 2 did it" in said
    assert said.count("broken.parquet: this is not a Parquet file, or it is broken") == 1
    assert f"{len(SIZES)} of {len(SIZES) + 1} shards are done" in said
    assert "Traceback" not in said
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), SIZES)

    write_parquet(tmp_path / "in" / "broken.parquet", "mended", 3)
    done = predict_shards(job(model, out), [tmp_path / "in"])  # any engine goes on with it
    assert [receipt.name for receipt in done.done] == ["broken.parquet"]
    assert done.failed == ()
    assert len(outputs(out)) == len(SIZES) + 1


# --- Ray that is not there ---


def refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The one line that the command says."""
    write_parquet(tmp_path / "in" / "a.parquet", "a", 2)
    command = ["predict", str(model), str(tmp_path / "in"), "--engine", "ray", "--output", str(tmp_path / "out")]
    assert main([*command, *flags]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert not outputs(tmp_path / "out")
    return error


def test_without_the_extra(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert 'pip install "nestree[ray]"' in refused(model, tmp_path, capsys)


def test_a_version_that_is_too_old(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="2.9.3"))
    monkeypatch.setitem(sys.modules, "ray.data", SimpleNamespace())
    assert "Ray 2.9.3 is too old; 2.50 or newer is needed" in refused(model, tmp_path, capsys)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_is_not_there(
    model: Path, tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "ray_module", fake_ray)
    monkeypatch.setattr(on_ray, "ray_module", fake_ray)
    address = f"{scheme}127.0.0.1:{free_port()}"
    error = refused(model, tmp_path, capsys, "--ray-address", address)
    assert f"there is no Ray cluster at {address} (Connection refused)" in error


def fake_ray(**resources: float) -> Any:
    def init(**options: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nMore about it.")

    return SimpleNamespace(is_initialized=lambda: False, init=init, cluster_resources=lambda: resources)


def test_what_ray_says_is_one_line(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_ray, "ray_module", fake_ray)
    error = refused(model, tmp_path, capsys, "--ray-address", "auto")
    assert "the Ray cluster at auto cannot be used: Could not find any running Ray instance. Does it run" in error
    assert "RAY_AUTH_MODE=token" in error


def test_a_cluster_that_was_killed_and_left_its_address_behind(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    services = SimpleNamespace(get_ray_address_from_environment=lambda address_, folder: address)

    def with_an_old_address() -> Any:
        found = fake_ray()
        found._private = SimpleNamespace(services=services)
        return found

    monkeypatch.setattr(on_ray, "ray_module", with_an_old_address)
    assert f"there is no Ray cluster at {address}" in refused(model, tmp_path, capsys, "--ray-address", "auto")


def test_a_cluster_that_goes_away_is_noticed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        pulse = Pulse(there.getsockname(), silence=0)
        assert not Pulse(there.getsockname(), silence=60).gone()
    assert pulse.gone()
    assert not Pulse(("127.0.0.1", free_port()), silence=0.5).gone()  # it never answered: nobody can tell

    def rows() -> Iterator[dict[str, Any]]:
        yield {"name": "a"}
        threading.Event().wait()

    found = on_ray._while_it_lives(rows(), pulse)
    assert next(found) == {"name": "a"}
    with pytest.raises(EngineError, match=r"the Ray cluster is gone.*run the same command again"):
        next(found)


def test_what_ray_raises_is_one_message() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield {"name": "a"}
        raise RuntimeError("The actor died.\nA long story.")

    found = on_ray._while_it_lives(rows(), Pulse(None))
    next(found)
    with pytest.raises(EngineError, match=r"^Ray gave up: The actor died\. What is done is done"):
        next(found)


def test_as_many_workers_as_there_is_room_for() -> None:
    two = fake_ray(CPU=8.0, GPU=2.0)
    assert cluster.room(two, Pool(), 100) == (2, 1.0)
    assert cluster.room(two, Pool(gpus=0.5, cpus=2), 100) == (4, 0.5)
    assert cluster.room(two, Pool(gpus=0, cpus=2), 3) == (3, 0)
    assert cluster.room(fake_ray(CPU=4.0), Pool(), 100) == (4, 0.0)
    assert cluster.room(fake_ray(CPU=4.0), Pool(workers=9, address="auto"), 100) == (9, 0.0)
    with pytest.raises(EngineError, match=r"no room for 1 workers with 1 CPUs and 1 GPUs each.* 4 CPUs and 0 GPUs"):
        cluster.room(fake_ray(CPU=4.0), Pool(gpus=1), 100)


def test_a_cluster_without_room_is_waited_for_and_that_is_said() -> None:
    said: list[str] = []
    assert cluster.room(fake_ray(CPU=4.0), Pool(gpus=1, address="auto"), 100, said.append) == (1, 1)
    assert said == ["waiting: the cluster has 4 CPUs and 0 GPUs, and a worker needs 1 CPUs and 1 GPUs"]
    assert cluster.room(fake_ray(CPU=4.0), Pool(workers=9, address="auto"), 100, said.append) == (9, 0.0)
    assert len(said) == 1


def test_no_gpus_are_taken_for_work_on_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Pool] = []

    def no_room(ray: Any, pool: Pool, *others: Any) -> Any:
        asked.append(pool)
        raise EngineError("full")

    monkeypatch.setattr(on_ray, "ray_module", fake_ray)
    monkeypatch.setattr(on_ray, "connected", lambda ray, address: nullcontext(Pulse(None)))
    monkeypatch.setattr(on_ray, "room", no_room)
    for given in (Pool(), Pool(gpus=0.5)):
        with pytest.raises(EngineError):
            next(on_ray._do(given, job(tmp_path, tmp_path), [], Watch([])))
    assert [pool.gpus for pool in asked] == [0, 0.5]


def test_rows_that_take_long_are_no_silence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        pulse = Pulse(there.getsockname(), silence=60)
    pulse._heard -= 120  # whoever gets the row takes two minutes over it
    found = on_ray._while_it_lives(iter([{"name": "a"}, {"name": "b"}]), pulse)
    assert [row["name"] for row in found] == ["a", "b"]
    assert not pulse.gone()


def test_a_worker_that_cannot_load_its_model_says_so_once(tmp_path: Path) -> None:
    actor = on_ray._Actor(job(tmp_path / "nowhere", tmp_path), None, None)
    shard = asdict(Shard(str(tmp_path / "a.jsonl"), "jsonl", "a.jsonl", 0, ""))
    receipt = actor(shard)
    assert receipt["hopeless"]
    assert f"a worker on {os.uname().nodename} could not begin: {tmp_path / 'nowhere'}" in receipt["error"]
