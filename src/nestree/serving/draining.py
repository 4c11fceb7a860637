"""How a service ends: it takes nothing new, and finishes what it accepted."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from nestree.serving.logs import say

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Drain:
    """Whether a service takes requests, and how many it is working on.

    A server that is told to stop closes its socket at once; whoever comes then is turned away without a word. So the
    signal is caught first: the service says 503, finishes what it has, and only then lets the server know.

    Args:
        seconds: how long it goes on at least.
        most: how long it waits for work after that, which has limits of its own.

    Attributes:
        draining: it was told to stop.
    """

    def __init__(self, seconds: float, most: float) -> None:
        self.draining = False
        self._seconds = seconds
        self._most = most
        self._at_work = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within it, a request is worked on."""
        self._at_work += 1
        try:
            yield
        finally:
            self._at_work -= 1

    @contextmanager
    def on_signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Within it, signals to stop are passed on to the server when all work is done; a second one, at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}

        def stop(number: int, frame: FrameType | None) -> None:
            if not callable(before[number]):
                signal.signal(number, before[number])
                signal.raise_signal(number)
            elif self.draining:
                before[number](number, frame)
            else:
                self.draining = True
                loop.call_soon_threadsafe(begin, number, frame)

        def begin(number: int, frame: FrameType | None) -> None:
            say("shutting down", at_work=self._at_work)
            self._task = loop.create_task(self._finish())
            self._task.add_done_callback(lambda _: before[number](number, frame))

        for number in SIGNALS:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number in SIGNALS:
                if signal.getsignal(number) is stop:
                    signal.signal(number, before[number])

    async def _finish(self) -> None:
        await asyncio.sleep(self._seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._most):
                while self._at_work:
                    await asyncio.sleep(0.02)
