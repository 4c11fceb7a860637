"""Services as processes, and load that does not wait for answers: used by :mod:`benchmarks.serve`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import urlopen

CONNECTIONS = 4096
"""Of the generator: with so many at most, requests are under way at a time."""
IDLE = 2.0
"""Seconds after which the generator does not use a connection again: the service closes idle ones after five."""


class Service:
    """A running ``nestree serve``."""

    def __init__(self, model: Path, log: Path, *options: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "nestree", "serve", str(model), "--port", "0", *options]
        with log.open("w") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        self.workers = int(options[options.index("--workers") + 1]) if "--workers" in options else 1
        while not (found := [one["event"] for one in self.lines() if "running on http" in one["event"]]):
            self._check()
        self.url = found[0].partition("running on ")[2].split()[0]
        while len(self.ready()) < self.workers or not self._answers():
            self._check()
        self._processes = {self.process.pid, *self.ready()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _check(self) -> None:
        if self.process.poll() is not None:
            raise SystemExit(f"the service ended early:\n{self._log.read_text()[-2000:]}")
        time.sleep(0.05)

    def _answers(self) -> bool:
        with suppress(OSError), urlopen(f"{self.url}/readyz") as answer:
            return bool(answer.status == 200)
        return False

    def lines(self) -> list[dict[str, Any]]:
        """What it logged that was no request."""
        with self._log.open() as stream:
            return [json.loads(line) for line in stream if line.startswith("{") and '"event": "request"' not in line]

    def ready(self) -> list[int]:
        """The processes that were ready at some time."""
        return [one["process"] for one in self.lines() if one["event"] == "Application startup complete."]

    def memory_mib(self) -> float:
        """Of all its processes together."""
        total = 0
        for worker in self._processes:
            with suppress(OSError):
                total += int(Path(f"/proc/{worker}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return total / 2**20

    def end(self) -> None:
        """Ends it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Asker:
    """Asks over many connections, and counts the answers."""

    def __init__(self, service: Service, texts: list[str]) -> None:
        place = urlsplit(service.url)
        self._host, self._port = str(place.hostname), int(place.port or 0)
        self._requests = [_request(text) for text in texts]
        self._sent = 0
        self.statuses: Counter[int] = Counter()
        """0: a connection that was broken before its answer."""
        self.milliseconds: list[float] = []
        """Of answers with status 200."""
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]] = []

    async def ask(self) -> None:
        """Sends a request, and waits for its answer."""
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        began = time.perf_counter()
        try:
            pair = await self._connection()
            status = await _answer(pair, request)
        except (OSError, EOFError):  # among them, an answer that ends early
            self.statuses[0] += 1
            return
        self._free.append((*pair, time.perf_counter()))
        self.statuses[status] += 1
        if status == 200:
            self.milliseconds.append((time.perf_counter() - began) * 1000)

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One that is not in use; those that were idle for long, and that the service may be closing, are left."""
        while self._free:
            reader, writer, since = self._free.pop()
            if time.perf_counter() - since < IDLE and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port)

    def close(self) -> None:
        """Closes all connections."""
        for _, writer, _ in self._free:
            writer.close()


def _request(text: str) -> bytes:
    body = json.dumps({"text": text}).encode()
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _answer(pair: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> int:
    reader, writer = pair
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return int(head.split(b" ", 2)[1])


def overload(service: Service, texts: list[str], per_second: float, seconds: float) -> dict[str, Any]:
    """So many requests a second, whatever is answered; what became of them, and of the memory."""
    return asyncio.run(_overload(service, texts, per_second, seconds))


async def _overload(service: Service, texts: list[str], per_second: float, seconds: float) -> dict[str, Any]:
    asker, memory = Asker(service, texts), [service.memory_mib()]
    tasks: set[asyncio.Task[None]] = set()
    began = sampled = time.perf_counter()
    offered = held_back = 0
    while (now := time.perf_counter()) - began < seconds:
        while offered < (now - began) * per_second:
            offered += 1
            if len(tasks) >= CONNECTIONS:
                held_back += 1  # as many connections as there are wait for an answer
                continue
            task = asyncio.ensure_future(asker.ask())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if now - sampled >= 5:
            memory.append(service.memory_mib())
            sampled = now
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    asker.close()
    half = memory[len(memory) // 2 :] or memory
    found = sorted(asker.milliseconds)
    return {
        "offered_per_second": round(per_second, 1),
        "minutes": round(seconds / 60, 2),
        "offered": offered,
        "not_sent": held_back,
        "answers": {str(status): number for status, number in sorted(asker.statuses.items())},
        "answered_per_second": round(asker.statuses[200] / seconds, 1),
        "p50_ms": round(statistics.median(found), 1) if found else None,
        "p99_ms": round(found[int(len(found) * 0.99)], 1) if found else None,
        "memory_mib": [round(one) for one in memory[:: max(1, len(memory) // 20)]],
        "growth_in_second_half_mib": round(half[-1] - half[0], 1),
        "alive": service.process.poll() is None,
    }


def kill_workers(service: Service, texts: list[str], clients: int, seconds: float) -> dict[str, Any]:
    """Kills a worker every ten seconds while clients ask; what they got, and how long it took to come back."""
    return asyncio.run(_kill_workers(service, texts, clients, seconds))


async def _kill_workers(service: Service, texts: list[str], clients: int, seconds: float) -> dict[str, Any]:
    asker = Asker(service, texts)
    end = time.perf_counter() + seconds
    back: list[float] = []
    least: list[int] = []

    async def ask() -> None:
        while time.perf_counter() < end:
            await asker.ask()

    async def kill() -> None:
        dead: set[int] = set()
        while time.perf_counter() < end - 5:
            await asyncio.sleep(5)
            living = [one for one in service.ready() if one not in dead]
            dead.add(living[0])
            os.kill(living[0], signal.SIGKILL)
            began, answered = time.perf_counter(), asker.statuses[200]
            while len(service.ready()) - len(dead) < service.workers:
                await asyncio.sleep(0.1)
            back.append(time.perf_counter() - began)
            least.append(asker.statuses[200] - answered)

    await asyncio.gather(kill(), *(ask() for _ in range(clients)))
    asker.close()
    return {
        "clients": clients,
        "kills": len(back),
        "seconds_to_come_back": [round(one, 1) for one in back],
        "answered_meanwhile": least,
        "answers": {str(status): number for status, number in sorted(asker.statuses.items())},
        "alive": service.process.poll() is None,
    }
