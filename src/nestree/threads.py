"""Getting things ready in a thread while others are used."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class _Raised:
    error: BaseException


_END = object()


class Ahead(Iterator[Item]):
    """The same items, made in a thread of their own, so many in advance. An error is raised where its item is used.

    When it is closed, or forgotten, nothing more is made. Context variables are those of where it was begun.
    """

    def __init__(self, items: Iterable[Item], number: int, name: str = "nestree-ahead") -> None:
        self._ready: queue.Queue[object] = queue.Queue(number)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=copy_context().run, args=(_make, items, self._ready, self._stop), daemon=True, name=name
        )
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether the next item can be had without waiting; or nothing more comes."""
        return not self._ready.empty()

    def comes_within(self, seconds: float) -> bool:
        """Whether the next item, or the end, is there before so much time has passed."""
        deadline = time.monotonic() + seconds
        while not self.is_ready:
            if time.monotonic() >= deadline:
                return False
            time.sleep(seconds / 10)
        return True

    def __next__(self) -> Item:
        if self._stop.is_set():
            raise StopIteration
        item = self._ready.get()
        if item is _END or isinstance(item, _Raised):
            self.close()
            if isinstance(item, _Raised):
                raise item.error
            raise StopIteration
        return item  # type: ignore[return-value]

    def close(self) -> None:
        """Nothing more is made."""
        self._stop.set()
        self._thread.join(timeout=1)  # it may wait for input that never comes, and ends with the process

    def __del__(self) -> None:
        self._stop.set()


def _make(items: Iterable[object], ready: queue.Queue[object], stop: threading.Event) -> None:
    """Fills a queue. It knows nothing of whom it is for, who can be forgotten."""

    def put(item: object) -> None:
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None

    try:
        for item in items:
            if stop.is_set():
                return
            put(item)
        put(_END)
    except BaseException as error:  # raised again where the items are used
        put(_Raised(error))
