"""The command as a user starts it: real processes that are told to stop, or killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.serving.server import post


class Process:
    """A running service."""

    def __init__(self, folder: Path, log: Path, options: tuple[str, ...]) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._log = log
        command = [sys.executable, "-m", "nestree", "serve", str(folder), "--port", "0", "--threads", "1", *options]
        with log.open("w") as stream:
            self.popen = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
        self.url = ""
        self.wait_for(self._find_url)
        self.client = self.new_client()
        self.wait_for(lambda: self.status("/readyz") == 200)

    def new_client(self) -> httpx.Client:
        """One that opens a connection for every request."""
        alone = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.url, timeout=120, trust_env=False, verify=False, limits=alone)

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def _find_url(self) -> bool:
        found = [one["event"] for one in self.lines() if "running on http" in one["event"]]
        self.url = found[0].partition("running on ")[2].split()[0] if found else ""
        return bool(found)

    def status(self, path: str) -> int | None:
        """Of an answer, on a connection of its own; None if there is none."""
        try:
            return self.client.get(path).status_code
        except httpx.TransportError:
            return None

    def wait_for(self, condition: Any) -> None:
        """Waits until something is so."""
        end = time.monotonic() + 120
        while not condition():
            assert self.popen.poll() is None, self._log.read_text()
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.02)


@contextmanager
def running(folder: Path, tmp_path: Path, *options: str) -> Iterator[Process]:
    process = Process(folder, tmp_path / "log", options)
    try:
        yield process
    finally:
        process.client.close()
        if process.popen.poll() is None:
            process.popen.send_signal(signal.SIGTERM)
        process.popen.wait(120)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_told_to_stop_it_finishes_what_it_accepted_and_takes_nothing_new(
    saved: Path, tmp_path: Path, workers: str
) -> None:
    body = {"texts": ["Anna of the Acme club. " * 60] * 10}
    # Small batches, so that there is time to look.
    options = ["--batch-work", "16", "--max-seconds", "120", "--drain", "1", "--workers", workers]
    with running(saved, tmp_path, *options) as process, ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(post, process.client, body)
        process.wait_for(lambda: _waiting(process) > 1000)
        process.popen.send_signal(signal.SIGTERM)
        process.wait_for(lambda: process.status("/readyz") == 503)
        refused = post(process.client, {"text": "a"})
        assert refused.status_code == 503
        assert refused.json()["type"].endswith("#shutting-down")
        assert refused.headers["retry-after"]
        assert process.status("/healthz") == 200
        answer = accepted.result()
        assert answer.status_code == 200
        assert len(answer.json()["documents"]) == 10
        assert process.popen.wait(120) == 0


def _waiting(process: Process) -> float:
    text = process.client.get("/metrics").text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("nestree_queue_words"))


def _workers(process: Process) -> set[int]:
    """Those that are ready."""
    return {one["process"] for one in process.lines() if one["event"] == "Application startup complete."}


def test_a_worker_that_is_killed_under_load_comes_back_and_the_others_go_on(saved: Path, tmp_path: Path) -> None:
    with running(saved, tmp_path, "--workers", "2") as process:
        process.wait_for(lambda: len(_workers(process)) == 2)
        end, statuses = threading.Event(), []

        def ask() -> None:
            while not end.is_set():
                try:
                    statuses.append(post(process.client, {"text": "Anna."}).status_code)
                except httpx.TransportError:
                    statuses.append(0)  # the one that the killed worker was about to answer

        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            try:
                process.wait_for(lambda: len(statuses) > 20)
                before = _workers(process)
                os.kill(min(before), signal.SIGKILL)
                answered = statuses.count(200)
                process.wait_for(lambda: len(_workers(process)) == 3)  # the two, and the new one
                assert statuses.count(200) > answered
                after = len(statuses)
                process.wait_for(lambda: len(statuses) > after + 20)
            finally:
                end.set()
            for one in asking:
                one.result()
        assert set(statuses) <= {0, 200}
        assert statuses.count(0) <= 4  # of each client at most the request that was under way
        # Counters of the dead worker still count, and its queue does not.
        text = process.client.get("/metrics").text
        assert f'nestree_requests_total{{path="/v1/predict",status="200"}} {float(statuses.count(200))}' in text
        assert _waiting(process) == 0


def _has_ended(number: int) -> bool:
    """Of a process; nobody may be left who asks how it ended, so that it stays listed as dead."""
    try:
        return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_workers_end_when_their_supervisor_is_killed(saved: Path, tmp_path: Path) -> None:
    with running(saved, tmp_path, "--workers", "2") as process:
        process.wait_for(lambda: len(_workers(process)) == 2)
        process.popen.kill()
        process.popen.wait(120)
        end = time.monotonic() + 120
        while not all(map(_has_ended, _workers(process))):
            assert time.monotonic() < end, "a worker goes on without its supervisor"
            time.sleep(0.05)
        assert process.status("/healthz") is None


def test_a_model_that_cannot_be_loaded_ends_it_with_a_word(saved: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in saved.iterdir():
        (broken / path.name).symlink_to(path)
    (broken / "model.safetensors").unlink()
    (broken / "model.safetensors").write_bytes(b"nothing")
    for workers in ("1", "2"):
        command = [sys.executable, "-m", "nestree", "serve", str(broken), "--port", "0", "--workers", workers]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert run.returncode == 2
        assert "Traceback" not in run.stderr
        assert "the weights are damaged" in run.stderr
