"""Whether two kinds of runs differ by more than chance: chance of sentences and of seeds, both.

Sentences are drawn with replacement, the same for both kinds, as in :mod:`nestree.evaluation.bootstrap`; and so are
the seeds of each kind. The interval of the difference of mean scores holds 95% of the draws; p is twice the share of
draws on the wrong side of 0. With one seed, only sentences are drawn.

Means of k seeds that are drawn from k seeds vary less than means of k new seeds, by the factor (k - 1) / k of the
variance, which is one half with two seeds. So how far the drawn seeds lie from all of them is scaled up by its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.counts import Counts

RESAMPLES = 20_000
PIECE = 2000
"""Resamples at a time, for the sake of memory."""
LEVEL = 0.05
MEASURES = ("precision", "recall", "f1")
QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182}
"""Of Student's t, 97.5%, where the expansion is not good to 0.01."""
Numbers = NDArray[np.float64]


class Difference(NamedTuple):
    """How much higher the second kind is, in points: the mean, its 95% interval, the p value.

    ``single``: one of the kinds has one seed, so that nothing is known of how its seeds vary.
    """

    value: float
    low: float
    high: float
    p: float
    single: bool = False

    @property
    def significant(self) -> bool:
        """Whether chance would seldom do that."""
        return self.p < LEVEL

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f}){'†' * self.single}".replace("-", "−")


def compared(
    one: Sequence[Counts], other: Sequence[Counts], measure: str = "f1", *, same_models: bool = False
) -> Difference:
    """The second kind less the first. Each is the counts of its seeds, over the same sentences.

    Args:
        one: counts of each seed. Shape: ``[sentence, 3]``: correct, predicted, gold
        other: likewise.
        measure: what is compared.
        same_models: both are the same models, decoded in two ways; then their seeds are drawn together.
    """
    if not one or not other or {len(counts) for counts in one} != {len(counts) for counts in other}:
        raise ValueError("both kinds need at least one seed, over the same sentences.")
    if any(not np.array_equal(one[0][:, 2], counts[:, 2]) for counts in (*one, *other)):
        raise ValueError("the gold of these runs differs: they were not measured on the same data.")
    value = _mean(other, measure) - _mean(one, measure)
    # The lower one always draws first, so that the difference the other way round is the same but for its sign.
    streams = (1, 1) if same_models else (1, 2) if value >= 0 else (2, 1)
    drawn = _drawn(other, measure, streams[1]) - _drawn(one, measure, streams[0])
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    tail = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    p = min(1.0, 2 * (tail + 1) / (RESAMPLES + 1))
    return Difference(100 * value, 100 * float(low), 100 * float(high), p, 1 in (len(one), len(other)))


def without_one(one: Sequence[Counts], other: Sequence[Counts], measure: str = "f1") -> float:
    """The second kind less the first, in points, without the sentence that changes this most."""
    means = [np.mean([score(counts.sum(0) - counts, measure) for counts in kind], axis=0) for kind in (other, one)]
    left = 100 * (means[0] - means[1])
    whole = 100 * (_mean(other, measure) - _mean(one, measure))
    return float(left[np.argmax(np.abs(left - whole))])


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of a family of comparisons, corrected so that one false alarm in the family is as rare (Holm)."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    found, largest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[at]))
        found[at] = largest
    return found


def score(totals: NDArray[np.int64] | NDArray[np.float32] | Numbers, measure: str) -> Numbers:
    """A measure of counts. Shape: ``[..., 3]`` to ``[...]``."""
    correct, predicted, gold = np.moveaxis(np.asarray(totals, dtype=np.float64), -1, 0)
    parts = {
        "precision": (correct, predicted),
        "recall": (correct, gold),
        "f1": (2 * correct, predicted + gold),
    }
    if measure not in parts:
        raise ValueError(f"measure is {measure!r}; known are {', '.join(MEASURES)}.")
    part, whole = parts[measure]
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0)


def _mean(seeds: Sequence[Counts], measure: str) -> float:
    return float(np.mean([score(counts.sum(0), measure) for counts in seeds]))


def _drawn(seeds: Sequence[Counts], measure: str, stream: int) -> Numbers:
    """The mean score of drawn seeds on drawn sentences. Shape: ``[resample]``."""
    values = np.stack([_on_drawn_sentences(counts.tobytes(), len(counts), measure) for counts in seeds], 1)
    if len(seeds) == 1:
        return values[:, 0]
    chosen = np.random.default_rng([stream, len(seeds)]).integers(0, len(seeds), (RESAMPLES, len(seeds)))
    centre, drawn = values.mean(1), np.take_along_axis(values, chosen, 1).mean(1)
    scaled: Numbers = centre + (drawn - centre) * (len(seeds) / (len(seeds) - 1)) ** 0.5
    return scaled


@lru_cache(maxsize=1024)
def _on_drawn_sentences(counts: bytes, sentences: int, measure: str) -> Numbers:
    """The score of one model on drawn sentences. Shape: ``[resample]``."""
    numbers = np.frombuffer(counts, dtype=np.int64).reshape(sentences, 3).astype(np.float32)
    times = _times(sentences)
    totals = [times[at : at + PIECE].astype(np.float32) @ numbers for at in range(0, RESAMPLES, PIECE)]
    return score(np.concatenate(totals), measure)


@cache
def _times(sentences: int) -> NDArray[np.uint8]:
    """How often each sentence is drawn. Shape: ``[resample, sentence]``."""
    random = np.random.default_rng(0)
    found = np.empty((RESAMPLES, sentences), dtype=np.uint8)
    for row in found:
        row[:] = np.bincount(random.integers(0, sentences, sentences), minlength=sentences)
    return found


def quantile(degrees: int) -> float:
    """The 97.5% quantile of Student's t: of few degrees by a table, else by the expansion of Fisher and Cornish."""
    if degrees in QUANTILES:
        return QUANTILES[degrees]
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
