"""The examples do what their first lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nestree.model import NestedNER
from tests.prediction.engines.cases import ENVIRONMENT, expected, found_in, outputs, write_parquet

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(name: str, *arguments: Any, status: int = 0) -> str:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    environment = {**os.environ, **ENVIRONMENT, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def counts(model: Path, sizes: dict[str, int]) -> dict[str, int]:
    labels = [
        span[2] for _, spans, _ in expected(NestedNER.from_pretrained(model).eval(), sizes).values() for span in spans
    ]
    return {label: labels.count(label) for label in sorted(set(labels))}


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_bulk(model: Path, tmp_path: Path, engine: str) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    sizes = {"a": 20, "b": 10}
    for name, size in sizes.items():
        write_parquet(tmp_path / "in" / f"{name}.parquet", name, size)
    said = run("bulk.py", model, tmp_path / "in", tmp_path / "out", *(["--ray"] if engine == "ray" else []))
    assert "30 documents" in said
    assert found_in(outputs(tmp_path / "out")) == expected(NestedNER.from_pretrained(model).eval(), sizes)
    for label, number in counts(model, sizes).items():
        assert f"{label}\t{number}" in said


def test_bulk_with_a_shard_that_fails(model: Path, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", "a", 20)
    (tmp_path / "in" / "broken.parquet").write_bytes(b"PAR1 and no more")
    assert "20 documents" in run("bulk.py", model, tmp_path / "in", tmp_path / "out", status=2)


def test_bulk_spark(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql", reason="Spark is too large for the development requirements")
    write_parquet(tmp_path / "in" / "a.parquet", "a", 20)
    said = run("bulk_spark.py", model, tmp_path / "in", tmp_path / "out")
    rows = {
        line.split("|")[1].strip(): line.split("|")[2].strip() for line in said.splitlines() if line.startswith("|")
    }
    assert {label: number for label, number in rows.items() if label != "label"} == {
        label: str(number) for label, number in counts(model, {"a": 20}).items()
    }
