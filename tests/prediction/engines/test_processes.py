"""Shards in several processes of this machine, which are killed."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from nestree.cli.main import main
from nestree.model import NestedNER
from nestree.prediction.engines import EngineError, predict_shards, processes
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.shards import Shard
from tests.prediction.engines import cases
from tests.prediction.engines.cases import attempts, expected, found_in, job, markers, outputs, wait_for, write_parquet

SIZES = {f"part-{number}": 1200 for number in range(5)}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    for name, size in SIZES.items():
        write_parquet(tmp_path / "in" / f"{name}.parquet", name, size)
    return tmp_path / "in"


def workers(driver: psutil.Process) -> list[psutil.Process]:
    return [one for one in driver.children() if "spawn_main" in " ".join(one.cmdline())]


def flags(inputs: Path, out: Path) -> list[Any]:
    return [inputs, "--engine", "local", "--workers", "2", "--output", out]


def test_workers_that_are_killed_lose_nothing(model: Path, inputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (inputs / "z-broken.parquet").write_bytes(b"PAR1 and no more")
    process = cases.start(model, *flags(inputs, out))
    driver = psutil.Process(process.pid)
    wait_for(lambda: cases.killed_within_a_shard(workers(driver), out, set(), kill=2), process)
    status, said = cases.finish(process)
    assert status == 2, said
    assert "its process died; attempt 2 did it" in said
    assert said.count("z-broken.parquet: this is not a Parquet file, or it is broken") == 1
    assert f"{len(SIZES)} of {len(SIZES) + 1} shards are done" in said
    assert "Traceback" not in said
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), SIZES)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_nobody_behind_and_goes_on(
    model: Path, inputs: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    process = cases.start(model, *flags(inputs, out))
    wait_for(lambda: markers(out) and attempts(out), process)
    there = workers(psutil.Process(process.pid))
    assert len(there) == 2
    process.send_signal(number)
    status, said = cases.finish(process)
    assert status == {signal.SIGINT: 130, signal.SIGKILL: -9}[number], said
    _, alive = psutil.wait_procs(there, timeout=60)
    assert not alive
    if number == signal.SIGINT:
        assert "the same command goes on" in said
        assert not attempts(out)
    before = markers(out)
    assert 0 < before < len(SIZES)
    done = predict_shards(job(model, out), [inputs], processes.engine(2))
    assert len(done.done) == len(SIZES) - before
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), SIZES)


def test_a_worker_that_cannot_begin_is_one_line(
    model: Path, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(model, tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert main(["predict", str(tmp_path / "damaged"), *map(str, flags(inputs, tmp_path / "out"))]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: a worker could not begin: ")
    assert "damaged/model.safetensors: the weights are damaged" in line


def test_workers_that_die_before_they_begin_are_given_up(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_work", _die)
    shard = Shard(str(tmp_path / "a.parquet"), "parquet", "a.parquet", 0, "")
    with pytest.raises(EngineError, match=r"end before they have begun \(exit status 7\).*fewer --workers"):
        list(processes.engine(2)(job(model, tmp_path), [shard], Watch([shard])))


def _die(*_: Any) -> None:
    raise SystemExit(7)


def test_workers_need_an_engine(model: Path, inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(model), str(inputs), "--workers", "2"]) == 2
    assert "--workers belongs to --engine" in capsys.readouterr().err


def test_each_worker_has_a_gpu_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [processes._placed("auto", number) for number in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert processes._placed("cpu", 1) == "cpu"
    assert processes._placed("cuda:1", 0) == "cuda:1"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert processes._placed("auto", 1) == "auto"


def test_a_wish_to_end_that_python_dropped_is_fulfilled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = multiprocessing.Pipe()
    processes._tell(there, "a", 3)
    assert here.recv() == (processes.RUNNING, ("a", 3))
    monkeypatch.setattr(processes, "_WISH", threading.Event())
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt):
            processes._stop(signal.SIGTERM, None)
    finally:
        signal.signal(signal.SIGTERM, before)
    with pytest.raises(KeyboardInterrupt):
        processes._tell(there, "a", 4)
    here.close()
    there.close()
