from __future__ import annotations

from pathlib import Path

import pytest

from tests.prediction.engines.cases import saved_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model"))
