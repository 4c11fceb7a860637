"""Potential normalisation: each sentence's scores to mean 0 and variance 1, over its spans and possible labels."""

import triton
import triton.language as tl

from nestree.crf.kernels.triton_kernels.numbers import exact
from nestree.crf.kernels.triton_kernels.spans import fold


@triton.jit
def _block(first, words, labels, LABELS: tl.constexpr, SPANS: tl.constexpr):
    start, end, there = fold(first + tl.arange(0, SPANS), words)
    return start, end, there[:, None] & (tl.arange(0, LABELS)[None, :] < labels)


@triton.jit
def _offsets(at, sentence, start, end, LABELS: tl.constexpr):
    """Where the labels of spans stand in a tensor with strides ``at``. Shape: ``[spans]`` to ``[spans, LABELS]``."""
    span = sentence.to(tl.int64) * at[0] + start.to(tl.int64) * at[1] + end.to(tl.int64) * at[2]
    return span[:, None] + tl.arange(0, LABELS).to(tl.int64)[None, :] * at[3]


@triton.jit
def _load(scores, at, sentence, first, words, labels, LABELS: tl.constexpr, SPANS: tl.constexpr):
    """Scores of a block, and which of them count: those of the sentence that are not -inf."""
    start, end, here = _block(first, words, labels, LABELS, SPANS)
    score = tl.load(scores + _offsets(at, sentence, start, end, LABELS), mask=here, other=0.0)
    score = score.to(tl.float64)
    return score, here & (score != float("-inf"))


@triton.jit
def _total(values):
    return tl.sum(tl.sum(values, 1), 0)


_SIZES = [
    "n",
    "labels",
    *(f"{tensor}_{axis}" for tensor in ("scores", "gradient", "normal", "out") for axis in range(3)),
]


@triton.jit(do_not_specialize=_SIZES)
def normalize_kernel(
    scores,
    scores_0,
    scores_1,
    scores_2,
    scores_3,
    out,
    out_0,
    out_1,
    out_2,
    out_3,
    lengths,
    scales,
    n,
    labels,
    epsilon,
    LABELS: tl.constexpr,
    SPANS: tl.constexpr,
):
    """Writes the spans of ``out``, which holds zeros, and 1 / standard deviation of each sentence.

    A sentence with an impossible length becomes NaN.
    """
    scores_at = (scores_0, scores_1, scores_2, scores_3)
    out_at = (out_0, out_1, out_2, out_3)
    sentence = tl.program_id(0)
    given = tl.load(lengths + sentence)
    words = tl.minimum(tl.maximum(given, 1), n).to(tl.int32)
    spans = (words + 1) // 2 * (words + 1)
    count = tl.zeros([SPANS, LABELS], tl.float64)
    total = tl.zeros([SPANS, LABELS], tl.float64)
    for first in range(0, spans, SPANS):
        score, counts = _load(scores, scores_at, sentence, first, words, labels, LABELS, SPANS)
        count += counts.to(tl.float64)
        total += tl.where(counts, score, 0.0)
    entries = tl.maximum(_total(count), 1.0)
    mean = tl.where(given == words, _total(total) / entries, float("nan"))
    total = tl.zeros([SPANS, LABELS], tl.float64)
    for first in range(0, spans, SPANS):
        score, counts = _load(scores, scores_at, sentence, first, words, labels, LABELS, SPANS)
        total += tl.where(counts, (score - mean) * (score - mean), 0.0)
    scale = 1.0 / tl.sqrt(_total(total) / entries + exact(epsilon))
    tl.store(scales + sentence, scale)
    for first in range(0, spans, SPANS):
        score, _ = _load(scores, scores_at, sentence, first, words, labels, LABELS, SPANS)
        start, end, here = _block(first, words, labels, LABELS, SPANS)
        offsets = _offsets(out_at, sentence, start, end, LABELS)
        tl.store(out + offsets, ((score - mean) * scale).to(out.dtype.element_ty), mask=here)


@triton.jit(do_not_specialize=_SIZES)
def normalize_backward_kernel(
    gradient,
    gradient_0,
    gradient_1,
    gradient_2,
    gradient_3,
    normal,
    normal_0,
    normal_1,
    normal_2,
    normal_3,
    out,
    out_0,
    out_1,
    out_2,
    out_3,
    lengths,
    scales,
    n,
    labels,
    LABELS: tl.constexpr,
    SPANS: tl.constexpr,
):
    """From the gradient for normalised scores to that for the scores; ``out`` holds zeros."""
    gradient_at = (gradient_0, gradient_1, gradient_2, gradient_3)
    normal_at = (normal_0, normal_1, normal_2, normal_3)
    out_at = (out_0, out_1, out_2, out_3)
    sentence = tl.program_id(0)
    words = tl.minimum(tl.maximum(tl.load(lengths + sentence), 1), n).to(tl.int32)
    spans = (words + 1) // 2 * (words + 1)
    count = tl.zeros([SPANS, LABELS], tl.float64)
    total = tl.zeros([SPANS, LABELS], tl.float64)
    along = tl.zeros([SPANS, LABELS], tl.float64)
    for first in range(0, spans, SPANS):
        value, counts = _load(normal, normal_at, sentence, first, words, labels, LABELS, SPANS)
        slope, _ = _load(gradient, gradient_at, sentence, first, words, labels, LABELS, SPANS)
        count += counts.to(tl.float64)
        total += tl.where(counts, slope, 0.0)
        along += tl.where(counts, slope * value, 0.0)
    entries = tl.maximum(_total(count), 1.0)
    mean = _total(total) / entries
    projection = _total(along) / entries
    scale = tl.load(scales + sentence)
    for first in range(0, spans, SPANS):
        value, counts = _load(normal, normal_at, sentence, first, words, labels, LABELS, SPANS)
        slope, _ = _load(gradient, gradient_at, sentence, first, words, labels, LABELS, SPANS)
        result = tl.where(counts, (slope - mean - value * projection) * scale, 0.0)
        if out.dtype.element_ty == tl.bfloat16:
            result = result.to(tl.float32)  # float64 does not turn into bfloat16 at one go everywhere
        start, end, here = _block(first, words, labels, LABELS, SPANS)
        offsets = _offsets(out_at, sentence, start, end, LABELS)
        tl.store(out + offsets, result.to(out.dtype.element_ty), mask=here)
