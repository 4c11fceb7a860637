from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from experiments import pool
from experiments.pool import Job, python

STOPPABLE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
open(sys.argv[1], "w").close()
time.sleep(600)
"""


def job(name: str, program: str, folder: Path) -> Job:
    return Job(name, python("-c", program, str(folder / f"{name}.began")), folder / f"{name}.log")


def test_what_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    jobs = [job("bad", "print('what went wrong'); raise SystemExit(3)", tmp_path), job("good", "", tmp_path)]
    outcome = pool.run(jobs, side_by_side=1, say=said.append, poll=0.01)
    assert outcome.done == ["good"]
    assert "what went wrong" in outcome.failed["bad"]
    assert any("bad" in line and "status 3" in line for line in said)


def test_when_time_is_over_what_runs_is_stopped_and_nothing_is_begun(tmp_path: Path) -> None:
    jobs = [job("one", STOPPABLE, tmp_path), job("two", STOPPABLE, tmp_path), job("three", STOPPABLE, tmp_path)]
    outcome = pool.run(jobs, side_by_side=2, seconds=1.0, say=lambda _: None, poll=0.01)
    assert sorted(outcome.stopped) == ["one", "two"]
    assert outcome.waiting == ["three"]
    assert not (tmp_path / "three.began").exists()
    assert not outcome.failed


def test_no_more_run_side_by_side_than_were_asked_for(tmp_path: Path) -> None:
    counted = (
        "import os, sys, time; here = os.path.dirname(sys.argv[1]); open(sys.argv[1], 'w').close();"
        "print(len([f for f in os.listdir(here) if f.endswith('.began')])); time.sleep(0.2); os.remove(sys.argv[1])"
    )
    pool.run([job(str(at), counted, tmp_path) for at in range(5)], side_by_side=2, say=lambda _: None, poll=0.01)
    assert max(int((tmp_path / f"{at}.log").read_text()) for at in range(5)) <= 2


def test_jobs_wait_for_those_that_they_come_after_and_for_good_if_one_fails(tmp_path: Path) -> None:
    def after(job: Job, *names: str) -> Job:
        return replace(job, after=names)

    reads = "import sys, pathlib; here = pathlib.Path(sys.argv[1]).parent; print((here / 'first').read_text())"
    slow = "import sys, time, pathlib; time.sleep(0.3); pathlib.Path(sys.argv[1]).with_name('first').write_text('it')"
    jobs = [
        after(job("second", reads, tmp_path), "first", "one that is not here"),
        job("first", slow, tmp_path),
        job("bad", "raise SystemExit(3)", tmp_path),
        after(job("never", "", tmp_path), "bad"),
        after(job("nor this", "", tmp_path), "never"),
    ]
    outcome = pool.run(jobs, side_by_side=3, say=lambda _: None, poll=0.01)
    assert outcome.done == ["first", "second"]
    assert (tmp_path / "second.log").read_text().strip() == "it"
    assert list(outcome.failed) == ["bad"]
    assert outcome.waiting == ["never", "nor this"]


def test_told_to_end_with_the_last_job_it_does_not_go_on(tmp_path: Path) -> None:
    def interrupt(_: str) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pool.run([Job("one", python("-c", ""), tmp_path / "one.log")], poll=0.01, say=interrupt)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_ends_what_it_began(tmp_path: Path, number: signal.Signals) -> None:
    """As by `timeout`, or a machine that shuts down: nothing goes on computing unseen."""
    child = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); time.sleep(600)"
    code = "import sys, pathlib; from experiments.pool import Job, python, run; path = pathlib.Path(sys.argv[2]);"
    code += "run([Job('one', python('-c', sys.argv[1], sys.argv[2]), path.with_suffix('.log'))], poll=0.01)"
    began = tmp_path / "began"
    process = subprocess.Popen(python("-c", code, child, str(began)))
    end = time.monotonic() + 120
    while not (began.is_file() and began.read_text().strip()):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) == (-number if number == signal.SIGINT else 128 + number)
    assert not psutil.pid_exists(int(began.read_text()))
