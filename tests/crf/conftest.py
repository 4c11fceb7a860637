from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from nestree.crf.kernels import BACKENDS
from tests.crf.cases import using, why_not


@pytest.fixture(params=BACKENDS)
def each_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test once with every backend there is, on tensors where that backend computes."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    with using(request.param):
        yield request.param


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20210209)
