"""How far a run is: documents, documents per second, time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from nestree.prediction.engines.folder import Receipt
from nestree.prediction.engines.shards import Shard


class Watch:
    """Counts what workers report, and shows it as a line.

    How many documents there are in all is not known before they are read: it is estimated from the bytes of the shards
    that are done.

    Args:
        shards: all that have to be done now.
        show: gets the line; whoever shows it decides how often. None: nobody looks.
        clock: seconds.
        say: gets lines about what an engine waits for, each once.
    """

    def __init__(
        self,
        shards: Iterable[Shard],
        show: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.say = say
        self._sizes = {shard.name: shard.size for shard in shards}
        self._show = show
        self._clock = clock
        self._began = clock()
        self._running: dict[str, int] = {}
        self._over: set[str] = set()
        self._documents = self._bytes = 0
        self._lock = threading.Lock()

    def running(self, name: str, documents: int) -> None:
        """A worker has done so many documents of a shard."""
        with self._lock:
            if name in self._over:  # a late word
                return
            self._running[name] = documents
        self._say()

    def over(self, receipt: Receipt) -> None:
        """A shard is done, or has failed."""
        with self._lock:
            self._running.pop(receipt.name, None)
            self._over.add(receipt.name)
            if receipt.error is None:
                self._documents += receipt.documents
                self._bytes += self._sizes.get(receipt.name, 0)
        self._say()

    def line(self) -> str:
        """Shards, documents, documents per second, time left."""
        with self._lock:
            documents = self._documents + sum(self._running.values())
            seconds = max(self._clock() - self._began, 1e-9)
            parts = [f"{len(self._over)} of {len(self._sizes)} shards", f"{documents:,} documents"]
            if documents:
                parts.append(f"{documents / seconds:,.0f} documents/s")
            left = self._left(documents, seconds)
        if left is not None:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def _left(self, documents: int, seconds: float) -> float | None:
        """From the bytes that are done; those of shards in work are guessed from their documents."""
        if not (self._documents and self._bytes):
            return None
        per_document = self._bytes / self._documents
        waiting = sum(size for name, size in self._sizes.items() if name not in self._over)
        in_work = sum(min(count * per_document, self._sizes.get(name, 0)) for name, count in self._running.items())
        return max(0.0, waiting - in_work) / (documents * per_document / seconds)

    def _say(self) -> None:
        if self._show is not None:
            self._show(self.line())


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, as a clock shows them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
