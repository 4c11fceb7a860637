"""Prediction of millions of documents: files in, files out, by one process or many, exactly once.

``core`` knows texts and predictions alone; ``shards``, ``folder``, ``work`` and ``run`` are the same for all engines;
``local``, ``processes`` and ``ray`` are engines, and ``spark`` has what Spark calls.
"""

from nestree.prediction.engines.core import predict_batches
from nestree.prediction.engines.errors import EngineError
from nestree.prediction.engines.folder import Receipt
from nestree.prediction.engines.run import Engine, Summary, predict_shards
from nestree.prediction.engines.work import Job

__all__ = ["Engine", "EngineError", "Job", "Receipt", "Summary", "predict_batches", "predict_shards"]
