"""Intervals that cover what they should, and a test that is right as often as it says."""

from __future__ import annotations

import time
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nestree.data import Document
from nestree.evaluation import score
from nestree.evaluation.bootstrap import (
    ENOUGH,
    Intervals,
    UnitCounts,
    bootstrap,
    choose_unit,
    compare_units,
    count_units,
)

WORDS = ["a", "b", "c", "d", "e", "f"]
SPANS = st.sampled_from([(start, end, label) for start, end in combinations(range(7), 2) for label in "XYZ"])
LISTED = st.lists(SPANS, max_size=6)
CORPUS = st.lists(st.tuples(LISTED, LISTED, LISTED), min_size=1, max_size=6)
Listed = list[tuple[int, int, str]]


def document(listed: Listed) -> Document:
    return Document.from_words(WORDS, listed, sentences=((0, 2), (2, 3), (3, 6)))


def counts_of(rows: list[list[list[int]]], labels: str = "X") -> UnitCounts:
    """From a list of [correct, predicted, gold] for each unit and label."""
    return UnitCounts(tuple(labels), np.array(rows, dtype=np.int64).reshape(-1, len(labels), 3), "document")


def simulated(generator: np.random.Generator, units: int, recall: float, gold: np.ndarray | None = None) -> UnitCounts:
    """Units of which some are harder than others."""
    gold = generator.poisson(3, units) if gold is None else gold
    correct = generator.binomial(gold, np.clip(recall + generator.normal(0, 0.1, units), 0, 1))
    predicted = correct + generator.poisson(0.5, units)
    return UnitCounts(("X",), np.stack([correct, predicted, gold], -1)[:, None, :], "document")


# --- Counting ---


@pytest.mark.parametrize("unit", ["document", "sentence"])
@given(corpus=CORPUS)
def test_the_sums_over_units_are_the_counts_of_the_corpus(
    unit: str, corpus: list[tuple[Listed, Listed, Listed]]
) -> None:
    gold, one, other = ([document(listed) for listed in side] for side in zip(*corpus, strict=True))
    for side, found in zip((one, other), count_units(gold, one, other, unit=unit), strict=True):  # type: ignore[arg-type]
        assert len(found) == len(corpus) * (3 if unit == "sentence" else 1)
        total = dict(zip(found.labels, found.counts.sum(0).tolist(), strict=True))
        wanted = score(gold, side).labels
        assert {label: row for label, row in total.items() if any(row)} == {
            label: [one.correct, one.predicted, one.gold] for label, one in wanted.items()
        }


def test_an_entity_belongs_to_the_sentence_in_which_it_begins() -> None:
    gold, found = document([(0, 1, "X"), (1, 5, "X"), (3, 4, "X")]), document([(1, 5, "X"), (2, 3, "X")])
    assert count_units([gold], [found], unit="sentence")[0].counts[:, 0].tolist() == [[1, 1, 2], [0, 1, 0], [0, 0, 1]]


def test_sentences_come_from_whoever_has_them_and_a_document_without_is_one() -> None:
    found = document([(0, 1, "X"), (3, 4, "X")])
    bare = Document(found.text, found.entities)
    assert len(count_units([bare], [found], unit="sentence")[0]) == 3
    assert count_units([bare], [bare], unit="sentence")[0].counts.tolist() == [[[2, 2, 2]]]


def test_documents_are_drawn_if_there_are_enough_of_them() -> None:
    assert choose_unit([document([])] * ENOUGH) == "document"
    assert choose_unit([document([])] * (ENOUGH - 1)) == "sentence"
    assert choose_unit([Document.from_words(WORDS)] * 3) == "document"  # no longer than a sentence


# --- Intervals ---


@settings(max_examples=25)
@given(corpus=CORPUS)
def test_values_are_those_of_the_scores_and_lie_within_possible_bounds(
    corpus: list[tuple[Listed, Listed, Listed]],
) -> None:
    gold, one, other = ([document(listed) for listed in side] for side in zip(*corpus, strict=True))
    counts = count_units(gold, one, other)
    found = compare_units(counts[0], counts[1], resamples=200)
    assert found.one == bootstrap(counts[0], resamples=200)  # the same draws for one and for two
    for side, intervals in ((one, found.one), (other, found.other)):
        scores = score(gold, side)
        micro = scores.micro
        values = [interval.value for interval in vars(intervals).values()]
        assert values == pytest.approx([micro.precision, micro.recall, micro.f1, scores.macro_f1])
        assert all(0 <= low <= high <= 1 for _, low, high in vars(intervals).values())
    assert 0 < found.p_value <= 1
    swapped = compare_units(counts[1], counts[0], resamples=200)
    assert swapped.p_value == pytest.approx(found.p_value)
    assert swapped.difference.f1.value == pytest.approx(-found.difference.f1.value)


def test_intervals_are_those_of_a_plain_bootstrap() -> None:
    """Against a loop that draws units and counts them again."""
    generator = np.random.default_rng(3)
    counts = simulated(generator, 40, 0.8)
    values = []
    for _ in range(4000):
        correct, predicted, gold = counts.counts[generator.integers(0, 40, 40), 0].sum(0)
        values.append(2 * correct / (predicted + gold))
    found = bootstrap(counts, resamples=4000).f1
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), abs=0.005)


def test_macro_f1_of_a_resample_is_over_the_labels_that_it_has() -> None:
    """A label in one of two units is missing from a quarter of the resamples; it does not count as 0 there."""
    counts = counts_of([[[1, 1, 1], [0, 0, 0]], [[1, 1, 1], [1, 1, 1]]], "XY")
    assert bootstrap(counts, resamples=500).macro_f1 == (1.0, 1.0, 1.0)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    truth = bootstrap(simulated(generator, 200_000, 0.8), resamples=1).f1.value
    covered = []
    for _ in range(300):
        found = bootstrap(simulated(generator, 80, 0.8), resamples=400, level=0.9).f1
        covered.append(found.low <= truth <= found.high)
    assert 0.84 < np.mean(covered) < 0.95


def test_more_units_and_a_lower_level_make_intervals_narrower() -> None:
    generator = np.random.default_rng(1)
    small, large = (bootstrap(simulated(generator, units, 0.8), resamples=1000) for units in (50, 5000))
    assert large.f1.high - large.f1.low < (small.f1.high - small.f1.low) / 5
    counts = simulated(generator, 100, 0.8)
    wide, narrow = (bootstrap(counts, resamples=1000, level=level).f1 for level in (0.99, 0.5))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_same_seed_gives_the_same_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(2)
    counts = simulated(generator, 50, 0.8)
    found = bootstrap(counts, resamples=300, seed=7)
    assert bootstrap(counts, resamples=300, seed=7) == found
    assert bootstrap(counts, resamples=300, seed=8) != found
    monkeypatch.setattr("nestree.evaluation.bootstrap.AT_ONCE", 50 * 7)  # seven at a time: the last part is a rest
    assert bootstrap(counts, resamples=300, seed=7) == found


def test_ten_thousand_resamples_of_two_thousand_units_take_seconds_at_most() -> None:
    generator = np.random.default_rng(4)
    one = simulated(generator, 2000, 0.8)
    other = simulated(generator, 2000, 0.8, one.counts[:, 0, 2])
    began = time.process_time()
    compare_units(one, other)
    assert time.process_time() - began < 10  # about one, on a machine with nothing else to do


# --- The test ---


def test_equal_predictions_have_a_p_value_of_one() -> None:
    counts = simulated(np.random.default_rng(5), 100, 0.8)
    found = compare_units(counts, counts, resamples=500)
    assert (found.p_value, found.differing, found.exact) == (1.0, 0, True)
    assert found.difference == Intervals(*[(0.0, 0.0, 0.0)] * 4)  # type: ignore[arg-type]


def test_a_clear_difference_has_a_small_p_value_and_an_interval_without_zero() -> None:
    generator = np.random.default_rng(6)
    one = simulated(generator, 400, 0.7)
    other = simulated(generator, 400, 0.9, one.counts[:, 0, 2])
    found = compare_units(one, other, resamples=2000)
    assert found.p_value == 1 / 2001  # as small as so many tries allow, and never 0
    assert 0 < found.difference.f1.low < found.difference.f1.value < found.difference.f1.high
    assert not found.exact


def test_few_differing_units_are_swapped_in_all_ways() -> None:
    """Against all ways, one after the other; units that do not differ change nothing."""
    one = counts_of([[[1, 2, 3]], [[2, 2, 2]], [[0, 1, 1]], [[3, 3, 4]], [[5, 6, 7]]])
    other = counts_of([[[2, 2, 3]], [[1, 2, 2]], [[1, 1, 1]], [[4, 4, 4]], [[5, 6, 7]]])

    def difference(swapped: tuple[bool, ...]) -> float:
        values = []
        for some, rest in ((one, other), (other, one)):
            rows = [(rest if swap else some).counts[at, 0] for at, swap in enumerate(swapped)]
            correct, predicted, gold = np.sum(rows, 0)
            values.append(2 * correct / (predicted + gold))
        return abs(values[0] - values[1])

    observed = difference((False,) * 5)
    hits = [difference((*swapped, False)) >= observed - 1e-12 for swapped in product([False, True], repeat=4)]
    found = compare_units(one, other, resamples=100)
    assert (found.p_value, found.differing, found.exact) == (np.mean(hits), 4, True)


def test_a_sample_of_swaps_comes_close_to_all_of_them() -> None:
    generator = np.random.default_rng(9)
    one = simulated(generator, 12, 0.7)
    other = simulated(generator, 12, 0.8, one.counts[:, 0, 2])
    exact, sampled = (compare_units(one, other, resamples=resamples) for resamples in (4096, 4095))
    assert exact.exact
    if exact.differing == 12:
        assert not sampled.exact
    assert sampled.p_value == pytest.approx(exact.p_value, abs=0.04)


def test_without_a_difference_p_values_are_small_as_seldom_as_they_say() -> None:
    generator = np.random.default_rng(10)
    values = []
    for _ in range(300):
        one = simulated(generator, 60, 0.8)
        other = simulated(generator, 60, 0.8, one.counts[:, 0, 2])
        values.append(compare_units(one, other, resamples=200).p_value)
    assert np.mean(np.array(values) <= 0.05) < 0.09
    assert 0.4 < np.mean(values) < 0.6


# --- What is wrong is said ---


def test_what_cannot_be_drawn_is_refused() -> None:
    counts = counts_of([[[1, 1, 1]]])
    with pytest.raises(ValueError, match="there is no unit to draw"):
        bootstrap(counts_of([]))
    with pytest.raises(ValueError, match="need resamples >= 1 and a level between 0 and 1, got 0"):
        bootstrap(counts, resamples=0)
    with pytest.raises(ValueError, match="count both systems in one call of count_units"):
        compare_units(counts, counts_of([[[1, 1, 2]]]))
    with pytest.raises(ValueError, match=r"counts must be \[unit, 1, 3\]"):
        UnitCounts(("X",), np.zeros((2, 3), dtype=np.int64), "document")
    with pytest.raises(ValueError, match="unit is 'word'; known are 'document', 'sentence'"):
        count_units([], [], unit="word")  # type: ignore[arg-type]
