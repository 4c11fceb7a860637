"""How far scores can be trusted: confidence intervals, and whether two systems differ by more than chance. No torch.

**The unit.** What is drawn at random is the document or the sentence, never the entity: entities of one sentence are
right or wrong together, and those of one document share names and topic, so that single entities pretend to more
evidence than there is. Documents are the honest unit wherever there are enough of them; where a corpus is few long
documents, or one, sentences have to do, and intervals are then somewhat too narrow. :func:`choose_unit` knows the rule.

**Intervals** are percentiles of the bootstrap (Efron and Tibshirani, 1993): units are drawn with replacement, as many
as there are, and everything is computed anew. For the difference of two systems, both get the same draws.

**The test** is approximate randomisation (Noreen, 1989; for F1, Yeh, 2000): if the two systems were equally good, it
would not matter whose output for a unit is called whose; so they are swapped at random, unit by unit, and p is how
often the difference in micro F1 is then as large as the one observed, in either direction. It is preferred to the
paired bootstrap test (Koehn, 2004) because it assumes nothing about how F1 is distributed, is exact however few units
there are, and errs less often towards "significant" (Riezler and Maxwell, 2005; Dror et al., 2018).

Everything is computed from counts per unit, so that 10,000 resamples of 2,000 units take about a second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nestree.data.model import Document
from nestree.evaluation.metrics import keys

Unit = Literal["document", "sentence"]
UNITS: tuple[Unit, ...] = ("document", "sentence")
Numbers = NDArray[np.float64]

ENOUGH = 30
"""Fewer documents than this say too little about how documents vary; sentences are drawn instead."""
AT_ONCE = 1 << 21
"""Drawn numbers that are held at a time."""
_SAME = 1e-12  # two differences that are no further apart than this are equal; what differs in counts is further apart


@dataclass(frozen=True, eq=False)
class UnitCounts:
    """What was right in each unit.

    Attributes:
        labels: of gold and of all predictions that were counted together.
        counts: correct, predicted and gold. Shape: int64 ``[unit, label, 3]``.
        unit: what a unit is.
    """

    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    unit: Unit

    def __post_init__(self) -> None:
        if self.counts.ndim != 3 or self.counts.shape[1:] != (len(self.labels), 3):
            wanted = f"[unit, {len(self.labels)}, 3]"
            raise ValueError(f"counts must be {wanted}: correct, predicted, gold; got {list(self.counts.shape)}.")

    def __len__(self) -> int:
        return len(self.counts)


class Interval(NamedTuple):
    """A value, and between what it would lie if other text of the same kind had been taken."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Intervals:
    """Scores with their intervals, as fractions."""

    precision: Interval
    recall: Interval
    f1: Interval
    macro_f1: Interval

    def as_dict(self) -> dict[str, dict[str, float]]:
        """For JSON, rounded to 6 digits."""
        found: dict[str, Interval] = vars(self)
        return {name: {key: round(value, 6) for key, value in one._asdict().items()} for name, one in found.items()}


@dataclass(frozen=True)
class Paired:
    """Two systems on the same units.

    Attributes:
        one: scores of the first.
        other: scores of the second.
        difference: of the second less the first.
        p_value: of the difference in micro F1, two-sided.
        differing: units whose counts differ: only they decide.
        exact: whether all ways of swapping were tried, not a sample of them.
    """

    one: Intervals
    other: Intervals
    difference: Intervals
    p_value: float
    differing: int
    exact: bool

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        parts = {name: getattr(self, name).as_dict() for name in ("one", "other", "difference")}
        return {**parts, "p_value": round(self.p_value, 6), "differing_units": self.differing, "exact": self.exact}


# --- Counting --------------------------------------------------------------------------------------------------------


def choose_unit(documents: Iterable[Document]) -> Unit:
    """Documents, if there are enough (30) or if they are no longer than a sentence; else sentences."""
    number = sentences = 0
    for document in documents:
        number += 1
        sentences += len(document.sentences or (0,))
    return "document" if number >= ENOUGH or sentences <= number else "sentence"


def count_units(
    gold: Iterable[Document], *predictions: Iterable[Document], unit: Unit = "document"
) -> list[UnitCounts]:
    """The counts of each prediction, unit by unit, over the same labels.

    Documents must be the same in the same order (:func:`nestree.evaluation.score` checks it). An entity belongs to the
    sentence in which it begins; sentences are gold's, or those of the first prediction that has them; a document
    without sentences is one.
    """
    if unit not in UNITS:
        raise ValueError(f"unit is {unit!r}; known are {', '.join(map(repr, UNITS))}.")
    rows: list[list[Counter[tuple[int, str, int]]]] = [[] for _ in predictions]  # (unit, label, which count): number
    units = 0
    labels: set[str] = set()
    for wanted, *found in zip(gold, *predictions, strict=True):
        borders = _borders([wanted, *found]) if unit == "sentence" else [0]
        right = keys(wanted)
        for side, one in zip(rows, found, strict=True):
            predicted = keys(one)
            counter: Counter[tuple[int, str, int]] = Counter()
            for which, some in enumerate((right & predicted, predicted, right)):
                for place, label in some:
                    counter[units + bisect_right(borders, place[0]) - 1, label, which] += 1
            labels |= {label for _, label, _ in counter}
            side.append(counter)
        units += len(borders)
    names = tuple(sorted(labels))
    return [UnitCounts(names, _table(side, units, names), unit) for side in rows]


def _borders(documents: list[Document]) -> list[int]:
    """The character at which each sentence begins; all before the first belongs to it."""
    for one in documents:
        if one.tokens is not None and one.sentences:
            return [0, *(one.tokens[first].start for first, _ in one.sentences[1:])]
    return [0]


def _table(counters: list[Counter[tuple[int, str, int]]], units: int, labels: tuple[str, ...]) -> NDArray[np.int64]:
    number = {label: at for at, label in enumerate(labels)}
    counts = np.zeros((units, len(labels), 3), dtype=np.int64)
    for counter in counters:
        for (unit, label, which), value in counter.items():
            counts[unit, number[label], which] = value
    return counts


# --- Intervals -------------------------------------------------------------------------------------------------------


def bootstrap(counts: UnitCounts, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0) -> Intervals:
    """Percentile intervals of micro precision, recall and F1, and of macro F1.

    The mean of macro F1 is over the labels that gold or predictions of a resample have, as it is for a corpus.

    Args:
        counts: of one system, by :func:`count_units`.
        resamples: how many; 10,000 settle the second digit of a percentage.
        level: the share of them that lies within the interval.
        seed: the same gives the same.
    """
    _check(counts, resamples, level)
    drawn = _drawn(counts.counts, resamples, seed)
    return _intervals(_scores(counts.counts.sum(0)), _scores(drawn), level)


def compare_units(
    one: UnitCounts, other: UnitCounts, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Paired:
    """Two systems on the same gold: intervals of both and of their difference, and the p value of that in micro F1.

    Args:
        one: a system, counted together with the other by :func:`count_units`.
        other: the other.
        resamples: of the bootstrap, and shufflings of the test.
        level: of the intervals.
        seed: the same gives the same.
    """
    for side in (one, other):
        _check(side, resamples, level)
    gold = one.counts[..., 2]
    if one.labels != other.labels or not np.array_equal(gold, other.counts[..., 2]):
        raise ValueError("the counts are of other units or labels: count both systems in one call of count_units.")
    both = np.stack([one.counts, other.counts], 1)
    drawn = _scores(_drawn(both, resamples, seed))
    found = _scores(both.sum(0))
    p_value, differing, exact = _swapping(one.counts.sum(1), other.counts.sum(1), resamples, seed)
    return Paired(
        _intervals(found[0], drawn[:, 0], level),
        _intervals(found[1], drawn[:, 1], level),
        _intervals(found[1] - found[0], drawn[:, 1] - drawn[:, 0], level),
        p_value,
        differing,
        exact,
    )


def _check(counts: UnitCounts, resamples: int, level: float) -> None:
    if not len(counts):
        raise ValueError("there is no unit to draw; give at least one document.")
    if resamples < 1 or not 0 < level < 1:
        raise ValueError(f"need resamples >= 1 and a level between 0 and 1, got {resamples} and {level}.")


def _drawn(counts: NDArray[np.int64], resamples: int, seed: int) -> Numbers:
    """The sums over drawn units. Shape: ``[unit, ...]`` to ``[resample, ...]``."""
    units, columns = len(counts), counts.reshape(len(counts), -1).astype(np.float64)
    generator = np.random.default_rng(seed)
    totals = np.empty((resamples, columns.shape[1]))
    for rows in _chunks(resamples, units):
        size = rows.stop - rows.start
        drawn = generator.integers(0, units, (size, units), dtype=np.int32) + units * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        totals[rows] = times.astype(np.float64) @ columns  # whole numbers far below 2⁵³: exact
    return totals.reshape(resamples, *counts.shape[1:])


def _chunks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, AT_ONCE // max(1, columns))
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))


def _scores(totals: NDArray[Any]) -> Numbers:
    """Micro precision, recall, F1, and macro F1. Shape: ``[..., label, 3]`` to ``[..., 4]``."""
    correct, predicted, gold = np.moveaxis(totals.sum(-2), -1, 0)
    present = totals[..., 1] + totals[..., 2]
    by_label = _share(2 * totals[..., 0], present).sum(-1)
    parts = [
        _share(correct, predicted),
        _share(correct, gold),
        _share(2 * correct, predicted + gold),
        _share(by_label, (present > 0).sum(-1)),
    ]
    return np.stack(parts, -1)


def _share(part: NDArray[Any], whole: NDArray[Any]) -> Numbers:
    """A fraction that is 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) > 0)


def _intervals(values: Numbers, drawn: Numbers, level: float) -> Intervals:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Intervals(*(Interval(*map(float, one)) for one in zip(values, low, high, strict=True)))


# --- The test --------------------------------------------------------------------------------------------------------


def _swapping(one: NDArray[np.int64], other: NDArray[np.int64], shuffles: int, seed: int) -> tuple[float, int, bool]:
    """The p value of the difference in micro F1; how many units decide; whether all ways of swapping them were tried.

    Shape: ``[unit, 3]``
    """
    change = (other - one)[:, :2].astype(np.float64)  # gold is the same
    change = change[np.any(change != 0, 1)]
    units = len(change)
    first, second, gold = one.sum(0)[:2], other.sum(0)[:2], int(one[:, 2].sum())

    def difference(moved: Numbers) -> Numbers:
        """How far apart they are once the changes of some units have gone from one to the other."""
        mine, theirs = first + moved, second - moved
        return np.abs(_micro_f1(theirs, gold) - _micro_f1(mine, gold))

    observed = float(difference(np.zeros((1, 2)))[0]) - _SAME
    exact = units < 40 and 2**units <= shuffles  # so that no shift is too far
    generator = np.random.default_rng([seed, 1])  # not the draws of the intervals once more
    hits, tried = (0, 2**units) if exact else (1, shuffles + 1)  # what was observed is one of the ways
    for rows in _chunks(2**units if exact else shuffles, units):
        if exact:
            swapped = np.arange(rows.start, rows.stop)[:, None] >> np.arange(units) & 1
        else:
            swapped = generator.integers(0, 2, (rows.stop - rows.start, units), dtype=np.int8)
        hits += int((difference(swapped.astype(np.float64) @ change) >= observed).sum())
    return hits / tried, units, exact


def _micro_f1(counts: Numbers, gold: int) -> Numbers:
    return _share(2 * counts[:, 0], counts[:, 1] + gold)
