"""A small model that finds something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nestree.model import NestedNER
from tests.prediction.test_trees import sure
from tests.serving.server import Client, served

for package in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package, reason='a service needs pip install "nestree[serve]"')


@pytest.fixture(scope="session")
def ner(tmp_path_factory: pytest.TempPathFactory) -> NestedNER:
    return sure(tmp_path_factory.mktemp("tiny")).eval()


@pytest.fixture(scope="session")
def saved(ner: NestedNER, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "small"
    ner.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def client(ner: NestedNER) -> Iterator[Client]:
    with served(ner, name="small") as found:
        yield found
