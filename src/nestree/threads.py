"""Getting things ready in a thread while others are used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class _Raised:
    error: BaseException


_END = object()


def ahead(items: Iterable[Item], number: int, name: str = "nestree-ahead") -> Iterator[Item]:
    """The same items, made in a thread of their own, so many in advance. An error is raised where its item is used.

    When the iterator is closed, nothing more is made.
    """
    ready: queue.Queue[object] = queue.Queue(number)
    stop = threading.Event()

    def put(item: object) -> None:
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None

    def make() -> None:
        try:
            for item in items:
                if stop.is_set():
                    return
                put(item)
            put(_END)
        except BaseException as error:  # raised again where the items are used
            put(_Raised(error))

    thread = threading.Thread(target=make, daemon=True, name=name)
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Raised):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join(timeout=1)  # it may wait for input that never comes, and ends with the process
