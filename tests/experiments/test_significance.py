from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.counts import pack, unpack
from experiments.significance import compared, holm, score, without_one
from experiments.studies.latent_labels import trend


def system(share: float, seed: int, sentences: int = 300) -> np.ndarray:
    gold = np.random.default_rng(0).integers(0, 5, sentences)
    correct = np.random.default_rng([seed, 1]).binomial(gold, share)
    return np.stack([correct, gold, gold], 1)


@given(st.lists(st.tuples(*[st.integers(0, 999)] * 3), min_size=1, max_size=50))
def test_counts_come_back_as_they_were_packed(rows: list[tuple[int, int, int]]) -> None:
    counts = np.array(rows, dtype=np.int64)
    assert np.array_equal(unpack(pack(counts)), counts)


def test_a_large_difference_is_significant_and_its_interval_holds_it() -> None:
    found = compared([system(0.6, seed) for seed in range(5)], [system(0.8, seed + 9) for seed in range(5)])
    assert found.significant
    assert found.low < found.value < found.high
    assert found.low > 10
    assert found.value == pytest.approx(20, abs=3)


def test_equal_systems_do_not_differ() -> None:
    same = [system(0.7, seed) for seed in range(3)]
    assert compared(same, same, same_models=True).p == 1
    others = [system(0.7, seed + 50) for seed in range(3)]
    assert not compared(same, others).significant


def test_seeds_that_vary_widen_the_interval() -> None:
    base = [system(0.7, seed) for seed in range(4)]
    steady = compared(base, [system(0.75, seed + 20) for seed in range(4)])
    shaky = compared(base, [system(share, 20) for share in (0.6, 0.7, 0.8, 0.9)])
    assert shaky.high - shaky.low > 1.5 * (steady.high - steady.low)


def test_runs_on_other_data_are_refused() -> None:
    other = system(0.7, 0)
    other[0, 2] += 1
    with pytest.raises(ValueError, match="not measured on the same data"):
        compared([system(0.7, 0)], [other])
    with pytest.raises(ValueError, match="same sentences"):
        compared([system(0.7, 0)], [system(0.7, 0, 200)])


def test_measures_are_those_of_counts() -> None:
    totals = np.array([6, 8, 12])
    assert score(totals, "precision") == 0.75
    assert score(totals, "recall") == 0.5
    assert score(totals, "f1") == 0.6
    assert score(np.zeros(3), "f1") == 0


def test_holm_corrects_the_smallest_most() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_trend_is_found_where_there_is_one() -> None:
    noise = np.random.default_rng(0).normal(0, 0.2, 24)
    sizes = [1, 2, 4, 8, 16, 32] * 4
    falling = trend(sizes, [80 - 0.5 * np.log2(size) + one for size, one in zip(sizes, noise, strict=True)])
    assert falling.slope == pytest.approx(-0.5, abs=0.1)
    assert falling.p < 0.001
    assert trend(sizes, [80 + one for one in noise]).p > 0.05
    assert trend([3, 3], [1.0, 2.0]).p == 1


def test_the_sentence_that_matters_most_can_be_left_out() -> None:
    good = np.array([[1, 1, 1]] * 9 + [[0, 0, 1]])
    wild = np.array([[1, 1, 1]] * 9 + [[0, 20, 1]])
    assert compared([wild], [good]).value > 20
    assert without_one([wild], [good]) == pytest.approx(0.0)
    assert compared([wild], [good]).single
    assert not compared([wild] * 2, [good] * 2).single


def test_two_seeds_are_known_to_vary_more_than_drawing_them_shows() -> None:
    """Means of two drawn seeds have half the variance that means of two new ones have."""

    def everywhere(percent: int) -> np.ndarray:
        return np.tile([percent, 100, 100], (300, 1))

    found = compared([everywhere(50)] * 2, [everywhere(60), everywhere(80)])
    assert found.value == pytest.approx(20)
    assert (found.low, found.high) == pytest.approx((20 - 10 * 2**0.5, 20 + 10 * 2**0.5))


def test_the_other_way_round_a_difference_has_the_other_sign_and_no_other_interval() -> None:
    one, other = [system(0.6, seed) for seed in range(3)], [system(0.65, seed + 9) for seed in range(5)]
    there, back = compared(one, other), compared(other, one)
    assert (back.value, back.low, back.high, back.p) == pytest.approx((-there.value, -there.high, -there.low, there.p))
    other = other[:3]  # of the same models, decoded otherwise
    there, back = compared(one, other, same_models=True), compared(other, one, same_models=True)
    assert (back.value, back.low, back.high, back.p) == pytest.approx((-there.value, -there.high, -there.low, there.p))
