"""What Spark calls. A real Spark is used where there is one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
import pytest

from nestree.model import NestedNER
from nestree.prediction.engines import EngineError
from nestree.prediction.engines.spark import make_predict_fn, spark_udf
from nestree.prediction.predict import Options

TEXTS = ["Anna of the acme club.", "", "Bo runs."]


def test_the_function_for_predict_batch_udf(model: Path) -> None:
    predict = make_predict_fn(model, Options(threshold=0.6), "cpu")()
    rows = predict(numpy.array([*TEXTS, None, float("nan")], dtype=object))
    found = NestedNER.from_pretrained(model).eval().predict(TEXTS, threshold=0.6)
    names = ("start", "end", "label", "score", "text", "depth", "parent")
    wanted = [[{name: getattr(entity, name) for name in names} for entity in one] for one in found]
    assert [list(row["entities"]) for row in rows] == [*wanted, [], []]
    assert all(row["entities"].ndim == 1 for row in rows)  # what Spark asks of a list
    assert wanted[0]


def test_without_the_extra(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError, match=r'pip install "nestree\[spark\]"'):
        spark_udf(model)


def test_a_version_that_is_too_old(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "pyspark.ml", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    anything: Any = SimpleNamespace(__version__="3.5.1", predict_batch_udf=None, StructType=None)
    monkeypatch.setitem(sys.modules, "pyspark", anything)
    monkeypatch.setitem(sys.modules, "pyspark.ml.functions", anything)
    monkeypatch.setitem(sys.modules, "pyspark.sql.types", anything)
    with pytest.raises(EngineError, match=r"Spark 3\.5\.1 is too old"):
        spark_udf(model)


@pytest.mark.filterwarnings("default")  # Spark's own
def test_a_real_spark(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark.sql", reason="Spark is too large for the development requirements")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    session = pyspark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame([(text,) for text in [*TEXTS, None]], "text STRING")
        rows = frame.withColumn("entities", spark_udf(model, batch_size=3)("text").entities).collect()
    finally:
        session.stop()
    found = NestedNER.from_pretrained(model).eval().predict(TEXTS)
    spans = [[(one.start, one.end, one.label, one.parent) for one in row.entities] for row in rows]
    assert spans == [*[[(one.start, one.end, one.label, one.parent) for one in prediction] for prediction in found], []]
