from __future__ import annotations

import pytest
import torch

from nestree.crf import backend
from nestree.crf.kernels import BACKENDS, cpu


@pytest.fixture(params=BACKENDS)
def each_backend(request: pytest.FixtureRequest):
    """Runs a test once with every backend there is."""
    if request.param == "cpu" and cpu.library is None:
        pytest.skip("the CPU kernels are not compiled here (no C++ compiler at installation)")
    with backend(request.param):
        yield request.param


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(20210209)
