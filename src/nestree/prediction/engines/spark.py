"""What Spark calls: a function for ``predict_batch_udf``, which loads the model once in each Python worker.

::

    entities = spark_udf("/models/mine")
    frame.withColumn("entities", entities("text").entities)

Spark decides which rows go where, what is tried again, and what is written: shards and markers are not needed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

from nestree.model import NestedNER
from nestree.prediction.engines.core import predict_batches
from nestree.prediction.engines.errors import EngineError
from nestree.prediction.predict import Options
from nestree.prediction.results import PredictedEntity

OLDEST = (4, 0)
"""The oldest version of Spark that this is tested with."""
FIELDS = "start: INT, end: INT, label: STRING, score: DOUBLE, text: STRING, depth: INT, parent: INT"
Predict = Callable[[Any], list[dict[str, Any]]]


def make_predict_fn(
    model: str | PathLike[str], options: Options | None = None, device: str = "auto"
) -> Callable[[], Predict]:
    """What ``pyspark.ml.functions.predict_batch_udf`` asks for: loads a model, and returns what predicts a batch.

    Args:
        model: folder of a saved model, there on every machine, or a name on the hub.
        options: as of ``NestedNER.predict``.
        device: "auto": an NVIDIA GPU if there is one, or CPU.
    """

    def make() -> Predict:
        import numpy
        import torch

        place = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        loaded = NestedNER.from_pretrained(model).to(place).eval()

        def predict(texts: Iterable[Any]) -> list[dict[str, Any]]:
            """An object for each text; of a null, one without entities."""
            batch = ["" if text is None or text != text else text for text in texts]  # pandas' null is NaN
            rows = []
            for found in next(predict_batches(loaded, [batch], options)):
                entities = numpy.empty(len(found), dtype=object)  # Spark wants an array, also of objects
                entities[:] = [_row(entity) for entity in found]
                rows.append({"entities": entities})
            return rows

        return predict

    return make


def _row(entity: PredictedEntity) -> dict[str, Any]:
    values = entity._asdict()
    return {name: values[name] for name in ("start", "end", "label", "score", "text", "depth", "parent")}


def spark_udf(
    model: str | PathLike[str],
    options: Options | None = None,
    *,
    batch_size: int = 512,
    device: str = "auto",
) -> Any:
    """A function of a text column: an object with ``entities``, a list of objects.

    Args:
        model: folder of a saved model, there on every machine, or a name on the hub.
        options: as of ``NestedNER.predict``.
        batch_size: rows that are predicted together.
        device: "auto": an NVIDIA GPU if there is one, or CPU.

    Raises:
        ImportError: Spark is not installed.
        EngineError: its version is too old.
    """
    try:
        import pyspark
        from pyspark.ml.functions import predict_batch_udf
        from pyspark.sql.types import StructType
    except ImportError as error:
        raise ImportError(f'Spark is needed ({error}): pip install "nestree[spark]"') from None
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < OLDEST:
        raise EngineError(f'Spark {pyspark.__version__} is too old; 4.0 is needed: pip install "nestree[spark]"')
    returned = StructType.fromDDL(f"entities ARRAY<STRUCT<{FIELDS}>>")
    return predict_batch_udf(make_predict_fn(model, options, device), return_type=returned, batch_size=batch_size)
