"""What tests of drawings share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prediction.test_trees import sure


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that finds something."""
    folder = tmp_path_factory.mktemp("model")
    sure(folder, decoding="mbr").save_pretrained(folder / "saved")
    return folder / "saved"
