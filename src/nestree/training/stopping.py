"""Ending a run in good order, and keeping Python out of its way while it goes."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stoppable(wish: threading.Event, say: Callable[[str], None], *, alone: bool) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM is a wish, which the run fulfils after its step; the second stops at once.

    Args:
        wish: is set.
        say: tells people.
        alone: whether this is the only process of the run; where there are several, who started them stops them.
    """
    if not alone or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if wish.is_set():
            raise KeyboardInterrupt
        wish.set()
        say("stopping after this step, with a checkpoint; once more stops at once")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def without_garbage() -> Iterator[None]:
    """What is there now stays: looking through a whole corpus for garbage, again and again, takes longer than steps."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
