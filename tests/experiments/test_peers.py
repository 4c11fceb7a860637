"""What other tools are asked for."""

from __future__ import annotations

import pytest

from experiments.peers.train_spancat import is_look


@pytest.mark.parametrize(
    ("epochs", "looks", "at"),
    [(40, 4, [10, 20, 30, 40]), (10, 3, [4, 7, 10]), (5, 5, [1, 2, 3, 4, 5]), (7, 1, [7])],
)
def test_dev_is_predicted_evenly_and_after_the_last_epoch(epochs: int, looks: int, at: list[int]) -> None:
    spec = {"epochs": epochs, "looks": looks}
    assert [epoch for epoch in range(1, epochs + 1) if is_look(epoch, spec)] == at
