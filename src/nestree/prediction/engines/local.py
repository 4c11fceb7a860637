"""Shard after shard in this process."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

from nestree.prediction.engines.folder import Receipt
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.shards import Shard
from nestree.prediction.engines.work import Job, Worker


def do(job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
    """What becomes of each shard, one after the other."""
    worker = Worker(job)
    for shard in shards:
        yield worker.do(shard, partial(watch.running, shard.name))
