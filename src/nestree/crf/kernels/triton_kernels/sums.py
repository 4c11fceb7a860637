"""Inside and outside.

With ``SLOPES`` every sum is computed along a direction too: beside a number x stands d log x, which needs no exponent.
Along the scores themselves these are expectations, so this gives entropies and Hessian-vector products.

A program computes one chart of one sentence. Parts of a chart: mantissas, exponents, and slopes.
"""

import triton
import triton.language as tl

from nestree.crf.kernels.triton_kernels.numbers import (
    LN_2,
    exact,
    floor,
    load_number,
    load_slope,
    mantissa_type,
    never,
    normalized,
    parts,
    power_of_two,
    store_number,
    store_slope,
)
from nestree.crf.kernels.triton_kernels.spans import LENGTH, NO_TREE, SIZES, TOO_SMALL, fill_weights, row


@triton.jit
def _nothing(STEPS: tl.constexpr, STARTS: tl.constexpr, WIDE: tl.constexpr):
    """Running sums of nothing, kept apart for each place of a tile: mantissas, exponents, slopes times mantissas."""
    if WIDE:
        mantissa = tl.zeros([STEPS, STARTS], tl.float64)
        exponent = tl.full([STEPS, STARTS], never(WIDE), tl.int64)
    else:
        mantissa = tl.zeros([STEPS, STARTS], tl.float32)
        exponent = tl.full([STEPS, STARTS], never(WIDE), tl.int32)
    return mantissa, exponent, mantissa


@triton.jit
def _add(sums, one, first, other, second, here, cells, SLOPES: tl.constexpr, WIDE: tl.constexpr):
    """Adds the products ``one[first] * other[second]`` to running sums. Shape: ``[STEPS, STARTS]``."""
    total, top, slope = sums
    one_mantissa, one_exponent = load_number(one, first, here, cells, WIDE)
    other_mantissa, other_exponent = load_number(other, second, here, cells, WIDE)
    exponent = one_exponent + other_exponent
    highest = tl.maximum(top, exponent)
    product = one_mantissa * other_mantissa * power_of_two(exponent - highest, WIDE)
    scale = power_of_two(top - highest, WIDE)
    total = total * scale + product
    if SLOPES:
        along = load_slope(one, first, here, cells) + load_slope(other, second, here, cells)
        slope = slope * scale + tl.where(product > 0, product * along, 0.0)
    return total, highest, slope


@triton.jit
def _own(chart, cell, some, cells, SLOPES: tl.constexpr, WIDE: tl.constexpr):
    """The weight of spans that stands in their cells: mantissa, exponent, slope. Shape: ``[STARTS]``."""
    mantissa, exponent = load_number(chart, cell, some, cells, WIDE)
    slope = mantissa
    if SLOPES:
        slope = load_slope(chart, cell, some, cells)
    return mantissa, exponent, slope


@triton.jit
def _finish(sums, chart, cell, some, own, cells, SLOPES: tl.constexpr, WIDE: tl.constexpr):
    """Adds up running sums along the steps, and writes them times the span's own weight into the chart.

    ``own``: from :func:`_own`, before the reductions here make threads wait for each other: a cell is not read again by
    one thread while another writes it. Returns what was added up: mantissa, exponent and slope. Shape: ``[STARTS]``.
    """
    total, top, slope = sums
    highest = tl.max(top, 0)
    scale = power_of_two(top - highest[None, :], WIDE)
    total = tl.sum(total * scale, 0)
    mantissa, exponent = normalized(total * own[0], highest + own[1], WIDE)
    store_number(chart, cell, mantissa, exponent, some, cells, WIDE)
    mean = total
    if SLOPES:
        mean = tl.sum(slope * scale, 0) / tl.where(total > 0, total, 1.0)
        store_slope(chart, cell, own[2] + mean, some, cells)
    return total, highest, mean


@triton.jit
def _inside(chart, words, n, SLOPES: tl.constexpr, WIDE: tl.constexpr, STARTS: tl.constexpr, STEPS: tl.constexpr):
    """Turns the weights of spans into inside sums, narrowest first."""
    cells = n * (n + 1) // 2
    for width in range(1, words):
        for first in range(0, words - width, STARTS):
            i = first + tl.arange(0, STARTS)
            some = i < words - width
            cell = row(width, n) + i
            own = _own(chart, cell, some, cells, SLOPES, WIDE)
            sums = _nothing(STEPS, STARTS, WIDE)
            for done in range(0, width, STEPS):
                step = (done + tl.arange(0, STEPS))[:, None]  # the width of the left child
                left = row(step, n) + i[None, :]
                right = row(width - 1 - step, n) + (i[None, :] + step + 1)
                here = (step < width) & some[None, :]
                sums = _add(sums, chart, left, chart, right, here, cells, SLOPES, WIDE)
            _finish(sums, chart, cell, some, own, cells, SLOPES, WIDE)
        tl.debug_barrier()


@triton.jit
def _outside(
    inner,
    outer,
    marginals,
    words,
    n,
    SLOPES: tl.constexpr,
    WIDE: tl.constexpr,
    STARTS: tl.constexpr,
    STEPS: tl.constexpr,
):
    """Turns weights in ``outer`` into outside sums times the weight, widest first, each gathered from its parents.

    Writes the probability of each span, and how its logarithm changes along the direction.
    """
    cells = n * (n + 1) // 2
    root = row(words - 1, n)
    root_mantissa, root_exponent = load_number(inner, root, True, cells, WIDE)
    tl.store(marginals + root, tl.where(root_mantissa == 0, 0.0, root_mantissa / root_mantissa))
    root_slope = root_mantissa
    if SLOPES:
        root_slope = load_slope(inner, root, True, cells)
        tl.store(marginals + cells + root, root_slope - root_slope)
    for narrower in range(1, words):
        width = words - 1 - narrower
        for first_start in range(0, words - width, STARTS):
            i = first_start + tl.arange(0, STARTS)
            some = i < words - width
            cell = row(width, n) + i
            own = _own(outer, cell, some, cells, SLOPES, WIDE)
            sums = _nothing(STEPS, STARTS, WIDE)
            for done in range(0, narrower, STEPS):
                step = (done + tl.arange(0, STEPS))[:, None]  # the width of the sibling
                parent = row(width + 1 + step, n)
                sibling = row(step, n)
                here = (step < narrower) & some[None, :]
                # The sibling follows: the parent is (i, i + width + 1 + step).
                after = i[None, :] + width + 1
                there = here & (after + step < words)
                sums = _add(sums, outer, parent + i[None, :], inner, sibling + after, there, cells, SLOPES, WIDE)
                # The sibling comes before: the parent is (i - 1 - step, i + width).
                before = i[None, :] - 1 - step
                there = here & (before >= 0)
                sums = _add(sums, outer, parent + before, inner, sibling + before, there, cells, SLOPES, WIDE)
            total, top, mean = _finish(sums, outer, cell, some, own, cells, SLOPES, WIDE)
            mantissa, exponent = load_number(inner, cell, some, cells, WIDE)
            possible = total * mantissa > 0
            ratio = total * mantissa / tl.where(possible, root_mantissa, 1.0)
            scale = power_of_two(tl.where(possible, top + exponent - root_exponent, 0), WIDE)
            tl.store(marginals + cell, tl.where(possible, ratio * scale, root_mantissa - root_mantissa), mask=some)
            if SLOPES:
                change = mean + load_slope(inner, cell, some, cells) - root_slope
                tl.store(marginals + cells + cell, change, mask=some)
        tl.debug_barrier()


@triton.jit(do_not_specialize=SIZES)
def charts_kernel(
    scores,
    direction,
    lengths,
    codes,
    entity_labels,
    log_rejected,
    log_other,
    charts,
    marginals,
    results,
    expectation,
    batch,
    n,
    labels,
    DIFFERENCE: tl.constexpr,
    MARGINALS: tl.constexpr,
    HAS_CODES: tl.constexpr,
    SLOPES: tl.constexpr,
    WIDE: tl.constexpr,
    LABELS: tl.constexpr,
    SPANS: tl.constexpr,
    STARTS: tl.constexpr,
    STEPS: tl.constexpr,
):
    """Inside, and with ``MARGINALS`` outside. One program per chart of a sentence.

    Shapes: ``charts`` ``[1 or 2, charts, batch, parts, cells]``, for inside and outside sums; ``marginals``
    ``[charts, batch, 1 or 2, cells]``; ``results`` ``[2, charts, batch]``: log partition and problem; ``expectation``
    ``[charts, batch]``. With ``DIFFERENCE`` the second log partition is 0 where no tree is possible.
    """
    mask = (entity_labels, exact(log_rejected), exact(log_other))
    sentence = tl.program_id(0)
    which = tl.program_id(1)
    given = tl.load(lengths + sentence)
    words = tl.minimum(tl.maximum(given, 1), n).to(tl.int32)
    cells = n * (n + 1) // 2
    place = which * batch + sentence
    all_charts = tl.num_programs(1) * batch
    inner = charts + place.to(tl.int64) * parts(WIDE, SLOPES) * cells
    outer = inner + all_charts.to(tl.int64) * parts(WIDE, SLOPES) * cells
    if MARGINALS:
        marginals += place.to(tl.int64) * (2 if SLOPES else 1) * cells
    kept, kept_direction, wrong = fill_weights(
        scores,
        direction,
        codes,
        mask,
        inner,
        outer,
        sentence,
        which == 0,
        words,
        n,
        labels,
        MARGINALS,
        HAS_CODES,
        SLOPES,
        WIDE,
        LABELS,
        SPANS,
    )
    kept, wrong = tl.sum(kept, 0), tl.max(wrong, 0)
    tl.debug_barrier()
    _inside(inner, words, n, SLOPES, WIDE, STARTS, STEPS)
    root = row(words - 1, n)
    mantissa, exponent = load_number(inner, root, True, cells, WIDE)
    mantissa = mantissa.to(tl.float64)
    possible = mantissa > 0
    value = tl.log(tl.where(possible, mantissa, 1.0)) + exponent.to(tl.float64) * LN_2 + kept
    wrong = tl.maximum(wrong, tl.where(given == words, 0, LENGTH))
    wrong = tl.maximum(wrong, tl.where(possible, tl.where(exponent < floor(WIDE) // 2, TOO_SMALL, 0), NO_TREE))
    if DIFFERENCE:
        value = tl.where(possible, value, tl.where(which == 0, float("-inf"), 0.0))
    else:
        value = tl.where(possible, value, float("-inf"))
    tl.store(results + place, tl.where(wrong > NO_TREE, float("nan"), value))
    tl.store(results + all_charts + place, wrong.to(tl.float64))
    if SLOPES:
        mean = load_slope(inner, root, True, cells) + tl.sum(kept_direction, 0)
        tl.store(expectation + place, tl.where(possible, mean, 0.0))
    if MARGINALS:
        tl.debug_barrier()
        nan = (mantissa * float("nan")).to(mantissa_type(WIDE))
        store_number(inner, root, nan, exponent, wrong > NO_TREE, cells, WIDE)  # so that gradients show it, too
        tl.debug_barrier()
        _outside(inner, outer, marginals, words, n, SLOPES, WIDE, STARTS, STEPS)
