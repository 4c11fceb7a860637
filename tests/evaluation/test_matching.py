"""Pairs of gold and predicted entities: against brute force, in any order, and on examples worked by hand."""

from __future__ import annotations

import random
import time
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.evaluation.matching import MATCHES, Match, Pair, best_pairs, pairs
from nestree.evaluation.metrics import Key

TEXT = "ab c def\ngh"
SPANS = st.tuples(st.integers(0, 10), st.integers(1, 11)).filter(lambda one: one[0] < one[1])
ENDS = st.lists(st.integers(0, 11), min_size=4, max_size=4, unique=True).map(sorted)


def piece(ends: list[int]) -> Key:
    return (ends[0], ends[3], ((ends[0], ends[1]), (ends[2], ends[3]))), "X"


KEYS = st.lists(
    st.one_of(st.builds(lambda span, label: ((*span, ()), label), SPANS, st.sampled_from(["X", "Y"])), ENDS.map(piece)),
    max_size=5,
)
WEIGHTS = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(-2, 9).map(float), max_size=14)


def brute_force(weights: dict[tuple[int, int], float]) -> float:
    """The largest sum, by trying every way to give columns, or nothing, to rows."""
    rows = sorted({row for row, _ in weights})
    columns = [*sorted({column for _, column in weights}), *[-1] * len(rows)]
    ways = set(permutations(columns, len(rows))) if rows else {()}
    return max(sum(max(0.0, weights.get(pair, 0.0)) for pair in zip(rows, way, strict=True)) for way in ways)


def characters(key: Key) -> set[int]:
    (start, end, fragments), _ = key
    return {at for a, b in fragments or ((start, end),) for at in range(a, b) if not TEXT[at].isspace()}


def worth(gold: Key, predicted: Key, match: Match) -> float:
    """What a pair is worth, straight from the definition; 0 if it is none."""
    if match == "exact":
        return float(gold == predicted)
    if match == "boundary":
        return float(gold[0] == predicted[0])
    some, others = characters(gold), characters(predicted)
    if gold[1] != predicted[1]:
        return 0.0
    if gold[0] == predicted[0]:
        return 1.0
    if not some & others:
        return 0.0
    return 1.0 if match == "overlap" else len(some & others) / len(some | others)


# --- Assignment ---


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(-2, 9).map(float)))
def test_the_assignment_is_as_good_as_the_best_of_all(weights: dict[tuple[int, int], float]) -> None:
    found = best_pairs(weights)
    assert len({row for row, _ in found}) == len({column for _, column in found}) == len(found)
    assert all(weights[pair] > 0 for pair in found)
    assert sum(weights[pair] for pair in found) == brute_force(weights)


@given(WEIGHTS, st.randoms(use_true_random=False))
def test_the_assignment_does_not_depend_on_the_order(
    weights: dict[tuple[int, int], float], luck: random.Random
) -> None:
    listed = list(weights.items())
    luck.shuffle(listed)
    assert best_pairs(dict(listed)) == best_pairs(weights)


def test_the_assignment_agrees_with_scipy_on_larger_problems() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    numpy = pytest.importorskip("numpy")
    luck = numpy.random.default_rng(0)
    for rows, columns, share in [(30, 30, 0.2), (40, 25, 0.5), (25, 40, 1.0), (60, 60, 0.05)]:
        full = luck.random((rows, columns)) * (luck.random((rows, columns)) < share)
        weights = {
            (int(row), int(column)): float(full[row, column]) for row, column in zip(*full.nonzero(), strict=True)
        }
        best = full[optimize.linear_sum_assignment(full, maximize=True)].sum()
        assert sum(weights[pair] for pair in best_pairs(weights)) == pytest.approx(best)


def test_a_document_full_of_overlapping_entities_is_no_trouble() -> None:
    text = "ab " * 600
    gold = {((3 * at, 3 * at + 5, ()), "X") for at in range(500)} | {((0, 1800, ()), "X")}
    found = {((3 * at + 1, 3 * at + 8, ()), "X") for at in range(500)} | {((1, 1800, ()), "X")}
    begun = time.perf_counter()
    assert len(pairs(gold, found, "overlap", text)) == 501
    assert sum(pair.credit for pair in pairs(gold, found, "partial", text)) > 300
    assert time.perf_counter() - begun < 20


# --- Pairs ---


@pytest.mark.parametrize("match", MATCHES)
@given(gold=KEYS, predicted=KEYS)
def test_pairs_are_worth_as_much_as_the_best_of_all(match: Match, gold: list[Key], predicted: list[Key]) -> None:
    found = pairs(gold, predicted, match, TEXT)
    some, others = sorted(set(gold)), sorted(set(predicted))
    assert {pair.gold for pair in found} <= set(some)
    assert {pair.predicted for pair in found} <= set(others)
    assert len({pair.gold for pair in found}) == len({pair.predicted for pair in found}) == len(found)
    for pair in found:
        assert pair.credit == worth(pair.gold, pair.predicted, match) > 0
    small, large = (some, others) if len(some) <= len(others) else (others, some)
    table = {
        (a, b): max(worth(one, two, match), worth(two, one, match))
        for a, one in enumerate(small)
        for b, two in enumerate(large)
    }
    ways = permutations(range(len(large)), len(small))
    best = max(sum(table[pair] for pair in enumerate(way)) for way in ways)
    assert sum(pair.credit for pair in found) == pytest.approx(best)


@pytest.mark.parametrize("match", MATCHES)
@given(gold=KEYS, predicted=KEYS, luck=st.randoms(use_true_random=False))
def test_pairs_do_not_depend_on_the_order(
    match: Match, gold: list[Key], predicted: list[Key], luck: random.Random
) -> None:
    found = pairs(gold, predicted, match, TEXT)
    luck.shuffle(gold)
    luck.shuffle(predicted)
    assert pairs(gold, predicted, match, TEXT) == found
    swapped = pairs(predicted, gold, match, TEXT)
    assert sum(pair.credit for pair in swapped) == pytest.approx(sum(pair.credit for pair in found))


@given(KEYS, KEYS)
def test_exact_is_the_strictest_and_overlap_the_mildest(gold: list[Key], predicted: list[Key]) -> None:
    exact, boundary, overlap, partial = (sum(p.credit for p in pairs(gold, predicted, m, TEXT)) for m in MATCHES)
    assert exact <= boundary
    assert exact <= partial + 1e-9
    assert partial <= overlap + 1e-9


@pytest.mark.parametrize("match", MATCHES)
@given(gold=KEYS)
def test_what_is_the_same_is_paired_with_itself(match: Match, gold: list[Key]) -> None:
    assert set(pairs(gold, gold, match, TEXT)) == {Pair(key, key, 1.0) for key in gold}


def test_one_long_prediction_is_credited_once() -> None:
    gold = [((0, 2, ()), "X"), ((3, 4, ()), "X"), ((5, 8, ()), "X")]
    long: Key = ((0, 8, ()), "X")
    assert pairs(gold, [long], "overlap", TEXT) == [Pair(gold[2], long, 1.0)]  # the one it shares most with
    assert pairs(gold, [long], "partial", TEXT) == [Pair(gold[2], long, 0.5)]  # 3 of 6 characters: not white space


def test_the_most_pairs_go_before_the_best_one() -> None:
    gold: list[Key] = [((0, 4, ()), "X"), ((0, 2, ()), "X")]
    predicted: list[Key] = [((0, 4, ()), "X"), ((2, 5, ()), "X")]
    assert [(p.gold[0][:2], p.predicted[0][:2]) for p in pairs(gold, predicted, "overlap", "abcde")] == [
        ((0, 2), (0, 4)),
        ((0, 4), (2, 5)),
    ]
    assert [pair.credit for pair in pairs(gold, predicted, "partial", "abcde")] == [1.0]  # 1/2 and 2/5 are less


def test_labels_that_agree_are_paired_first_where_the_place_is_the_same() -> None:
    place = (0, 2, ())
    gold: list[Key] = [(place, "A"), (place, "B")]
    assert pairs(gold, [(place, "B"), (place, "C")], "boundary", TEXT) == [
        Pair((place, "B"), (place, "B"), 1.0),
        Pair((place, "A"), (place, "C"), 1.0),
    ]


def test_another_way_to_match_is_refused() -> None:
    with pytest.raises(ValueError, match="match is 'fuzzy'; known are 'exact', 'boundary', 'overlap', 'partial'"):
        pairs([], [], "fuzzy", "")  # type: ignore[arg-type]
