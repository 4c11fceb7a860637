"""Processes side by side, within a time: what fails is told and the others go on; what is stopped can go on later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from experiments.worker import STOPPED

GRACE = 40.0
"""Seconds to write a checkpoint in, before a process is ended."""


@dataclass(frozen=True)
class Job:
    """A process to run.

    Attributes:
        name: what people see.
        command: with its arguments.
        log: where its output goes.
        after: names of jobs that have to be done first.
    """

    name: str
    command: Sequence[str]
    log: Path
    after: Sequence[str] = ()


@dataclass
class Outcome:
    """How jobs ended, by name."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    began: float


def run(
    jobs: Sequence[Job],
    *,
    side_by_side: int = 1,
    seconds: float | None = None,
    say: Callable[[str], None] = print,
    poll: float = 0.3,
) -> Outcome:
    """Runs jobs, so many at a time; after ``seconds`` no other is begun, and those that run are asked to stop.

    A job waits for those that it comes after, and for good if one of them fails; what is not among the jobs counts as
    done. Whatever ends this process early, but for SIGKILL, ends them first: Ctrl-C, an error, SIGTERM.
    """
    with _told_to_end() as told:
        return _run(jobs, side_by_side, seconds, say, poll, told)


def _run(
    jobs: Sequence[Job],
    side_by_side: int,
    seconds: float | None,
    say: Callable[[str], None],
    poll: float,
    told: Sequence[int],
) -> Outcome:
    outcome, waiting, running = Outcome(), list(jobs), list[_Running]()
    began, asked, undone = time.monotonic(), None, {job.name for job in jobs}
    try:
        while running or (asked is None and _next(waiting, undone)):
            _end_if(told)
            now = time.monotonic()
            if seconds is not None and now - began >= seconds and asked is None:
                asked = now
                say(f"{seconds:g} seconds are over: {len(running)} that run are asked to stop, {len(waiting)} wait")
                _signal(running, signal.SIGTERM)
            while asked is None and len(running) < side_by_side and (job := _next(waiting, undone)):
                waiting.remove(job)
                running.append(_start(job, side_by_side))
            if asked is not None and now - asked > GRACE:
                _signal(running, signal.SIGKILL)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                _ended(one, outcome, asked is not None, say, len(waiting) + len(running))
                undone -= set(outcome.done)
            time.sleep(poll)
        _end_if(told)
    finally:
        _signal(running, signal.SIGTERM)
        _wait(running)
    outcome.waiting = [job.name for job in waiting]
    return outcome


def _next(waiting: Sequence[Job], undone: Set[str]) -> Job | None:
    """The first job that nothing keeps from beginning."""
    return next((job for job in waiting if undone.isdisjoint(job.after)), None)


def _end_if(told: Sequence[int]) -> None:
    if told:
        raise KeyboardInterrupt if told[0] == signal.SIGINT else SystemExit(128 + told[0])


@contextmanager
def _told_to_end() -> Iterator[list[int]]:
    """Within it Ctrl-C and SIGTERM are noted, and nothing else: an error in the wrong moment would lose a process."""
    told: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    before = {
        number: signal.signal(number, lambda got, _: told.append(got)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(job: Job, side_by_side: int) -> _Running:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if side_by_side > 1:
        environment.setdefault("OMP_NUM_THREADS", "1")
        environment.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Whoever interrupts us means us: children are told by us, once.
    with job.log.open("ab") as log:
        process = subprocess.Popen(
            job.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    return _Running(job, process, time.monotonic())


def _ended(one: _Running, outcome: Outcome, was_asked: bool, say: Callable[[str], None], left: int) -> None:
    took, status = time.monotonic() - one.began, one.process.returncode
    if status == 0:
        outcome.done.append(one.job.name)
        say(f"done in {took:.0f} s: {one.job.name} ({left} left)")
    elif status == STOPPED or (was_asked and status < 0):
        outcome.stopped.append(one.job.name)
        say(f"stopped, can go on: {one.job.name}")
    else:
        outcome.failed[one.job.name] = why = _last_lines(one.job.log)
        say(f"FAILED with status {status}: {one.job.name}\n{why}\n  all of it is in {one.job.log}")


def _last_lines(log: Path, lines: int = 6) -> str:
    found = log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    return "\n".join(f"  | {line}" for line in found)


def _wait(running: Sequence[_Running]) -> None:
    """Returns when all have ended: by themselves within the grace, else suddenly."""
    limit = time.monotonic() + GRACE
    for one in running:
        try:
            one.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def _signal(running: Sequence[_Running], number: int) -> None:
    for one in running:
        if one.process.poll() is None:
            one.process.send_signal(number)


def python(*arguments: str) -> list[str]:
    """A command of this Python."""
    return [sys.executable, *arguments]
