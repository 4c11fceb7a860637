"""Batches by what they cost are the cheapest there are."""

from __future__ import annotations

import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from nestree.model.batching import by_cost, work


def sentence(width: int, words: int, windows: int = 1) -> Any:
    return SimpleNamespace(width=width, first=range(words), windows=range(windows))


def pieces(cuts: list[Any]) -> int:
    return sum(len(cut.windows) for cut in cuts) * max(cut.width for cut in cuts)


def cheapest(cuts: list[Any], budget: int, batch: int) -> int:
    """By trying all ways to cut the sorted sentences into batches."""
    order = sorted(cuts, key=lambda cut: (-cut.width, -len(cut.first)))
    best = None
    for choice in range(2 ** (len(order) - 1)):
        ends = [0, *(at + 1 for at in range(len(order) - 1) if choice >> at & 1), len(order)]
        parts = [order[start:end] for start, end in pairwise(ends)]
        if all(len(part) == 1 or work(part) <= budget for part in parts):
            cost = sum(pieces(part) + batch for part in parts)
            best = cost if best is None else min(best, cost)
    assert best is not None
    return best


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("budget", "batch"), [(60, 5), (200, 20), (10_000, 40), (10_000, 0), (1, 3)])
def test_no_batches_are_cheaper(seed: int, budget: int, batch: int) -> None:
    draw = random.Random(seed)
    cuts = [sentence(draw.randint(3, 40), draw.randint(1, 40), draw.choice([1, 1, 1, 2])) for _ in range(9)]
    found = by_cost(cuts, budget, batch)
    assert sorted(number for numbers in found for number in numbers) == list(range(9))
    parts = [[cuts[number] for number in numbers] for numbers in found]
    assert all(len(part) == 1 or work(part) <= budget for part in parts)
    assert sum(pieces(part) + batch for part in parts) == cheapest(cuts, budget, batch)
    widths = [cuts[number].width for numbers in found for number in numbers]
    assert widths == sorted(widths, reverse=True)


def test_nothing_is_no_batch() -> None:
    assert by_cost([], 100, 40) == []
