"""What the settings of an adaptation mean."""

from __future__ import annotations

import pytest

from nestree.adaptation.config import AdaptConfig


@pytest.mark.parametrize(
    ("width", "pieces", "rate"),
    [
        (384, 600_000, 5e-4),
        (384, 250_000, 2.5e-4),
        (384, 100, 1e-4),
        (768, 10**9, 1e-4),
        (768, 100_000, 2e-5),
        (1024, 500_000, 5e-5),
    ],
)
def test_learning_rates_follow_width_and_text(width: int, pieces: int, rate: float) -> None:
    assert AdaptConfig().rate(width, pieces) == pytest.approx(rate)
    assert AdaptConfig(lr=3e-3).rate(width, pieces) == 3e-3
