"""From the probabilities of spans to those of their labels: gradients for labelled scores."""

import triton
import triton.language as tl

from nestree.crf.kernels.triton_kernels.numbers import exact
from nestree.crf.kernels.triton_kernels.spans import (
    SIZES,
    label_offsets,
    label_sum,
    load_codes,
    masked_scores,
    row,
    span_slope,
    unavoidable,
)


@triton.jit(do_not_specialize=SIZES)
def gradient_kernel(
    scores,
    direction,
    lengths,
    codes,
    entity_labels,
    log_rejected,
    log_other,
    marginals,
    weights,
    results,
    value,
    out,
    batch,
    n,
    labels,
    CHARTS: tl.constexpr,
    DIFFERENCE: tl.constexpr,
    SIGN: tl.constexpr,
    HAS_CODES: tl.constexpr,
    SLOPES: tl.constexpr,
    WIDE: tl.constexpr,
    LABELS: tl.constexpr,
    SPANS: tl.constexpr,
):
    """The weighted sum over charts of marginals, or of their change along a direction. Writes all of ``out``.

    Without ``weights`` every chart counts ``SIGN``. With ``DIFFERENCE`` the second chart counts negatively, and nothing
    counts where the difference of the two log partitions in ``results`` is -inf; it is written to ``value``.
    """
    mask = (entity_labels, exact(log_rejected), exact(log_other))
    blocks = tl.cdiv(n * n, SPANS)
    sentence = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    words = tl.minimum(tl.maximum(tl.load(lengths + sentence), 1), n).to(tl.int32)
    cells = n * (n + 1) // 2
    index = block * SPANS + tl.arange(0, SPANS)
    start = index // n
    end = index % n
    there = (start <= end) & (end < words)
    label = tl.arange(0, LABELS)[None, :]
    here = there[:, None] & (label < labels)
    offsets = label_offsets(sentence, start, end, n, labels, LABELS)
    score = tl.load(scores + offsets, mask=here, other=float("-inf"))
    along = score
    if WIDE:
        score = score.to(tl.float64)
    if SLOPES:
        along = tl.load(direction + offsets, mask=here, other=0.0).to(tl.float64)
    factored = unavoidable(start, end, words)
    cell = row(end - start, n) + start
    result = tl.zeros([SPANS, LABELS], tl.float64)
    if DIFFERENCE:
        difference = tl.load(results + sentence) - tl.load(results + batch + sentence)
        tl.store(value + sentence, difference.to(value.dtype.element_ty), mask=block == 0)
    for which in tl.static_range(CHARTS):
        place = which * batch + sentence
        at = place.to(tl.int64) * (2 if SLOPES else 1) * cells + cell
        weight = tl.zeros([], tl.float64) + SIGN
        if DIFFERENCE:
            weight = tl.where(difference == float("-inf"), 0.0, weight * (1 - 2 * which))
        if weights is not None:
            weight *= tl.load(weights + place).to(tl.float64)
        code = load_codes(codes, sentence, start, end, there, n, HAS_CODES, which == 0)
        masked = masked_scores(score, code, labels, mask[0], mask[1], mask[2], LABELS)
        _, relative, total = label_sum(masked)
        marginal = tl.load(marginals + at, mask=there, other=0.0) / tl.where(total > 0, total, 1.0)
        marginal = (marginal[:, None] * relative).to(tl.float64)
        if SLOPES:
            slope, centred, _ = span_slope(along, relative, total, factored)
            change = tl.load(marginals + at + cells, mask=there, other=0.0) - slope
            marginal = tl.where(marginal == 0, 0.0, marginal * (change[:, None] + centred))
        result += marginal * weight
    result = tl.where(here, result, 0.0)
    tl.store(out + offsets, result.to(out.dtype.element_ty), mask=(start < n)[:, None] & (label < labels))
