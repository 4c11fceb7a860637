"""Numbers for Prometheus, right with any number of workers."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Names a folder that workers share; it must be set before this module is imported."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What a service counts."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "nestree_requests", "Requests that were answered", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "nestree_request_seconds",
            "From the first byte of a request to its answer",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self.words = Counter("nestree_words", "Words that were read", registry=registry)
        self.sentences = Counter("nestree_sentences", "Sentences that were read", registry=registry)
        self.entities = Counter("nestree_entities", "Entities that were found, by label", ["label"], registry=registry)
        self.batches = Histogram(
            "nestree_batch_sentences", "Sentences of a forward pass", buckets=SENTENCES, registry=registry
        )
        self.busy = Counter("nestree_model_seconds", "Time that the model was at work", registry=registry)
        self.waiting = Gauge(
            "nestree_queue_words",
            "Words that wait or are being read",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.refused = Counter("nestree_refused", "Requests that were refused with 503", ["why"], registry=registry)
        self.left = Counter("nestree_clients_left", "Clients that left before their answer", registry=registry)

    def read(self, sentences: int, words: int, seconds: float) -> None:
        """Counts a forward pass."""
        self.sentences.inc(sentences)
        self.words.inc(words)
        self.batches.observe(sentences)
        self.busy.inc(seconds)

    def text(self) -> bytes:
        """All numbers, of all workers."""
        folder = os.environ.get(FOLDER)
        if not folder:
            return generate_latest(self._registry)
        _forget_the_dead(Path(folder))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _forget_the_dead(folder: Path) -> None:
    """What a worker that ended had waiting, is not waiting any more."""
    for path in folder.glob("gauge_live*_*.db"):
        found = re.search(r"_(\d+)\.db$", path.name)
        if found and not _lives(int(found[1])):
            with suppress(FileNotFoundError):  # another scrape was first
                mark_process_dead(int(found[1]), str(folder))  # type: ignore[no-untyped-call]


def _lives(process: int) -> bool:
    if os.name == "nt":  # where signal 0 is Ctrl-C
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
