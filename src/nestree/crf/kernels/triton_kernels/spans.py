"""From labelled scores to one weight per span: label sums, the mask of span codes, checks."""

import triton
import triton.language as tl

from nestree.crf.kernels.triton_kernels.numbers import (
    LN_2,
    LOG2_E,
    floor,
    largest_exponent,
    normalized,
    store_number,
    store_slope,
)

LATENT = tl.constexpr(-1)  # as in codes.py
REJECTED = tl.constexpr(-2)
EVERY_LABEL = tl.constexpr(-3)

# What a program finds wrong with its sentence; of several things, the largest number.
NO_TREE = tl.constexpr(1)
TOO_SMALL = tl.constexpr(2)
TOO_LARGE = tl.constexpr(3)
OTHER_LENGTH = tl.constexpr(4)
CODE = tl.constexpr(5)
NOT_FINITE = tl.constexpr(6)
LENGTH = tl.constexpr(7)


SIZES = ["entity_labels", "log_rejected", "log_other", "batch", "n", "labels"]
"""Arguments of kernels that change from call to call: they must not lead to another compilation."""


@triton.jit
def row(width, n):
    """Where the spans of one width begin in a chart."""
    return width * (2 * n - width + 1) // 2


@triton.jit
def fold(index, words):
    """Numbers the spans of a sentence: a triangle folded into a rectangle ``words + 1`` wide.

    Returns start, end and whether there is such a span; rows from the top and from the bottom share a line.
    """
    line = index // (words + 1)
    column = index % (words + 1)
    from_top = column < words - line
    start = tl.where(from_top, line, words - 1 - line)
    end = tl.where(from_top, line + column, column - 1)
    there = (index < (words + 1) // 2 * (words + 1)) & (from_top | (start != line))
    return start, end, there


@triton.jit
def label_offsets(sentence, start, end, n, labels, LABELS: tl.constexpr):
    """Where the labels of spans stand in ``[batch, n, n, label]``. Shape: ``[spans]`` to ``[spans, LABELS]``."""
    span = (sentence.to(tl.int64) * n + start) * n + end
    return span[:, None] * labels + tl.arange(0, LABELS)[None, :]


@triton.jit
def block(first, sentence, words, n, labels, LABELS: tl.constexpr, SPANS: tl.constexpr):
    """Some spans of a sentence: start, end, whether there is one, and for their labels the same and the offsets."""
    start, end, there = fold(first + tl.arange(0, SPANS), words)
    here = there[:, None] & (tl.arange(0, LABELS)[None, :] < labels)
    return start, end, there, here, label_offsets(sentence, start, end, n, labels, LABELS)


@triton.jit
def load_codes(codes, sentence, start, end, there, n, HAS_CODES: tl.constexpr, masked):
    """The codes of spans, or "every label" in a chart without a mask. Shape: ``[spans]``."""
    if HAS_CODES:
        offset = (sentence.to(tl.int64) * n + start) * n + end
        code = tl.load(codes + offset, mask=there & masked, other=EVERY_LABEL).to(tl.int32)
    else:
        code = tl.full(start.shape, EVERY_LABEL, tl.int32)
    return code


@triton.jit
def masked_scores(scores, code, labels, entity_labels, log_rejected, log_other, LABELS: tl.constexpr):
    """Scores plus the logarithms of the labels' weights; -inf past the last label. Shape: ``[spans, LABELS]``."""
    label = tl.arange(0, LABELS)[None, :]
    code = code[:, None]
    allowed = (code == label) | ((code == LATENT) & (label >= entity_labels)) | (code == EVERY_LABEL)
    log_weight = tl.where(allowed, 0.0, tl.where(code == REJECTED, log_rejected, log_other))
    return tl.where(label < labels, scores + log_weight.to(scores.dtype), float("-inf"))


@triton.jit
def label_sum(scores):
    """The largest score of each span, each label relative to it, and their sum: ``exp(largest) * total``.

    Without a possible label the sum is 0. Shape: ``[spans, LABELS]`` to ``[spans]``, ``[spans, LABELS]``, ``[spans]``.
    """
    largest = tl.max(scores, 1)
    possible = largest > float("-inf")
    relative = tl.exp(scores - tl.where(possible, largest, 0.0)[:, None])
    return largest, relative, tl.where(possible, tl.sum(relative, 1), 0.0)


@triton.jit
def unavoidable(start, end, words):
    """Leaves and the root are in every tree: the largest of their scores need not go through the chart."""
    return (start == end) | ((start == 0) & (end == words - 1))


@triton.jit
def span_weight(largest, total, factored, WIDE: tl.constexpr):
    """``exp(largest) * total`` as mantissa and exponent; where ``factored``, ``total`` alone. Shape: ``[spans]``."""
    power = tl.where((largest > float("-inf")) & (factored == 0), largest.to(tl.float64), 0.0) * LOG2_E
    power = tl.minimum(tl.maximum(power, floor(WIDE) * 1.0), largest_exponent(WIDE) * 1.0)
    whole = tl.floor(power + 0.5)
    fraction = tl.exp((power - whole) * LN_2).to(total.dtype)
    if WIDE:
        exponent = whole.to(tl.int64)
    else:
        exponent = whole.to(tl.int32)
    return normalized(total * fraction, exponent, WIDE)


@triton.jit
def span_slope(direction, relative, total, factored):
    """The mean of ``direction`` over a span's labels; where ``factored``, relative to its largest number.

    Returns the mean, the direction less that number, and the number, or 0. Shape: ``[spans]``, ``[spans, LABELS]``,
    ``[spans]``.
    """
    counts = relative > 0
    reference = tl.max(tl.where(counts, direction, float("-inf")), 1)
    reference = tl.where(factored & (total > 0), reference, 0.0)
    centred = tl.where(counts, direction - reference[:, None], 0.0)
    mean = tl.sum(centred * relative, 1) / tl.where(total > 0, total, 1.0)
    return mean, centred, reference


@triton.jit
def fill_weights(
    scores,
    direction,
    codes,
    mask,
    inner,
    outer,
    sentence,
    masked,
    words,
    n,
    labels,
    MARGINALS: tl.constexpr,
    HAS_CODES: tl.constexpr,
    SLOPES: tl.constexpr,
    WIDE: tl.constexpr,
    LABELS: tl.constexpr,
    SPANS: tl.constexpr,
):
    """Writes every span's weight into the charts. Returns what leaves and root keep for themselves, and what is wrong.

    ``mask``: entity_labels, log_rejected, log_other.
    """
    cells = n * (n + 1) // 2
    kept = tl.zeros([SPANS], tl.float64)
    kept_direction = tl.zeros([SPANS], tl.float64)
    wrong = tl.zeros([SPANS], tl.int32)
    for first in range(0, (words + 1) // 2 * (words + 1), SPANS):
        start, end, there, here, offsets = block(first, sentence, words, n, labels, LABELS, SPANS)
        score = tl.load(scores + offsets, mask=here, other=float("-inf"))
        wrong = tl.maximum(wrong, tl.max(tl.where(score < float("inf"), 0, NOT_FINITE), 1))
        if WIDE:
            score = score.to(tl.float64)
        code = load_codes(codes, sentence, start, end, there, n, HAS_CODES, masked)
        if HAS_CODES:
            wrong = tl.maximum(wrong, tl.where(there & masked & ((code < REJECTED) | (code >= labels)), CODE, 0))
            wrong = tl.maximum(wrong, tl.where(there & (start == end) & (code == REJECTED), OTHER_LENGTH, 0))
        score = masked_scores(score, code, labels, mask[0], mask[1], mask[2], LABELS)
        largest, relative, total = label_sum(score)
        factored = unavoidable(start, end, words)
        too_large = there & (factored == 0) & (largest > largest_exponent(WIDE) * LN_2)
        wrong = tl.maximum(wrong, tl.where(too_large, TOO_LARGE, 0))
        mantissa, exponent = span_weight(largest, total, factored, WIDE)
        cell = row(end - start, n) + start
        store_number(inner, cell, mantissa, exponent, there, cells, WIDE)
        if MARGINALS:
            store_number(outer, cell, mantissa, exponent, there, cells, WIDE)
        kept += tl.where(there & factored & (total > 0), largest.to(tl.float64), 0.0)
        if SLOPES:
            along = tl.load(direction + offsets, mask=here, other=0.0).to(tl.float64)
            slope, _, reference = span_slope(along, relative, total, factored)
            store_slope(inner, cell, slope, there, cells)
            if MARGINALS:
                store_slope(outer, cell, slope, there, cells)
            kept_direction += tl.where(there, reference, 0.0)
    if HAS_CODES:  # codes made for a longer sentence
        position = words + tl.zeros([SPANS], tl.int32)
        beyond = load_codes(codes, sentence, position, position, position < n, n, HAS_CODES, masked)
        wrong = tl.maximum(wrong, tl.where((beyond != REJECTED) & (beyond != EVERY_LABEL), OTHER_LENGTH, 0))
    return kept, kept_direction, wrong
