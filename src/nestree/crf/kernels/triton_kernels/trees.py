"""The best tree (CKY) and trees drawn at random."""

import triton
import triton.language as tl

from nestree.crf.kernels.triton_kernels.numbers import load_number, parts, power_of_two
from nestree.crf.kernels.triton_kernels.spans import (
    LENGTH,
    NO_TREE,
    NOT_FINITE,
    block,
    label_offsets,
    label_sum,
    row,
)


@triton.jit(do_not_specialize=["batch", "n", "labels"])
def best_tree_kernel(
    scores,
    lengths,
    nodes,
    best,
    places,
    batch,
    n,
    labels,
    LABELS: tl.constexpr,
    SPANS: tl.constexpr,
    STARTS: tl.constexpr,
    STEPS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Writes the labels of the best tree's nodes into ``nodes``, and -1 elsewhere. One program per sentence.

    Until then the memory of ``nodes`` holds the chart: the best scores (``best``: the same memory as float64), then the
    best splits. ``places`` (``[n, batch]``) gets for each split the span that it splits, and last what is wrong.
    """
    sentence = tl.program_id(0)
    given = tl.load(lengths + sentence)
    words = tl.minimum(tl.maximum(given, 1), n).to(tl.int32)
    nodes += sentence.to(tl.int64) * n * n
    best += sentence.to(tl.int64) * n * n
    splits = nodes + n * (n + 1) // 2 - n  # a word by itself has none
    wrong = tl.zeros([SPANS], tl.int32)
    for first in range(0, (words + 1) // 2 * (words + 1), SPANS):
        start, end, there, here, offsets = block(first, sentence, words, n, labels, LABELS, SPANS)
        score = tl.load(scores + offsets, mask=here, other=float("-inf"))
        wrong = tl.maximum(wrong, tl.max(tl.where(score < float("inf"), 0, NOT_FINITE), 1))
        tl.store(best + row(end - start, n) + start, tl.max(score.to(tl.float64), 1), mask=there)
    tl.debug_barrier()
    for width in range(1, words):
        for first_start in range(0, words - width, STARTS):
            i = first_start + tl.arange(0, STARTS)
            some = i < words - width
            cell = row(width, n) + i
            own = tl.load(best + cell, mask=some, other=float("-inf"))  # before threads wait for each other below
            value = tl.full([STEPS, STARTS], float("-inf"), tl.float64)
            split = tl.zeros([STEPS, STARTS], tl.int32)
            for first in range(0, width, STEPS):
                step = (first + tl.arange(0, STEPS))[:, None]
                here = (step < width) & some[None, :]
                left = tl.load(best + row(step, n) + i[None, :], mask=here, other=float("-inf"))
                right = row(width - 1 - step, n) + (i[None, :] + step + 1)
                found = left + tl.load(best + right, mask=here, other=float("-inf"))
                split = tl.where(found > value, step, split)
                value = tl.maximum(found, value)
            highest = tl.max(value, 0)
            split = tl.min(tl.where(value == highest[None, :], split, width), 0)  # of equal ones the first, as on a CPU
            tl.store(best + cell, own + highest, mask=some)
            tl.store(splits + cell, (i + split).to(tl.int64), mask=some)
        tl.debug_barrier()
    possible = tl.load(best + row(words - 1, n)) > float("-inf")
    problem = tl.maximum(tl.max(wrong, 0), tl.where(given == words, tl.where(possible, 0, NO_TREE), LENGTH))
    words = tl.where(possible, words, 0)
    # Each word follows the spans that hold it, from the root down: as many steps as the tree is deep.
    word = tl.arange(0, WORDS)
    start = tl.zeros([WORDS], tl.int32)
    end = tl.zeros([WORDS], tl.int32) + (words - 1)
    inner = (word < words) & (start < end)
    while tl.max(inner.to(tl.int32), 0) > 0:
        split = tl.load(splits + row(end - start, n) + start, mask=inner, other=0).to(tl.int32)
        tl.store(places + split * batch + sentence, start * n + end, mask=inner & (word == split))
        start, end = (
            tl.where(inner & (word > split), split + 1, start),
            tl.where(inner & (word <= split), split, end),
        )
        inner = inner & (start < end)
    tl.store(places + (n - 1) * batch + sentence, problem)
    tl.debug_barrier()
    # The chart is not needed any more.
    for first in range(0, n * n, LABELS * SPANS):
        cell = first + tl.arange(0, LABELS * SPANS)
        tl.store(nodes + cell, tl.full([LABELS * SPANS], -1, tl.int64), mask=cell < n * n)
    tl.debug_barrier()
    for first in range(0, 2 * words - 1, SPANS):
        node = first + tl.arange(0, SPANS)
        there = node < 2 * words - 1
        leaf = node * (n + 1)
        place = tl.load(places + (node - words) * batch + sentence, mask=there & (node >= words), other=0)
        place = tl.where(node < words, leaf, place)
        here = there[:, None] & (tl.arange(0, LABELS)[None, :] < labels)
        offsets = label_offsets(sentence, place // n, place % n, n, labels, LABELS)
        score = tl.load(scores + offsets, mask=here, other=float("-inf"))
        _, label = tl.max(score, 1, return_indices=True)
        tl.store(nodes + place, label.to(tl.int64), mask=there)


@triton.jit(do_not_specialize=["batch", "n", "labels"])
def sample_kernel(
    scores,
    lengths,
    chart,
    uniforms,
    nodes,
    batch,
    n,
    labels,
    WIDE: tl.constexpr,
    LABELS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Draws one tree from inside sums, from the root down; ``nodes`` holds -1. One program per draw and sentence."""
    sentence = tl.program_id(0) % batch
    draw = tl.program_id(0) // batch
    words = tl.minimum(tl.maximum(tl.load(lengths + sentence), 1), n).to(tl.int32)
    cells = n * (n + 1) // 2
    chart += sentence.to(tl.int64) * parts(WIDE, False) * cells
    place = draw.to(tl.int64) * batch + sentence
    uniforms += place * 2 * (2 * n - 1)
    nodes += place * n * n
    root, _ = load_number(chart, row(words - 1, n), True, cells, WIDE)
    words = tl.where(root > 0, words, 0)
    # Each word knows the smallest span found so far that holds it.
    word = tl.arange(0, WORDS)
    starts = tl.zeros([WORDS], tl.int32)
    ends = tl.zeros([WORDS], tl.int32) + (words - 1)
    node = 0
    for _ in range(1, words):
        open_word = tl.min(tl.where((word < words) & (starts < ends), word, WORDS), 0)
        start = tl.sum(tl.where(word == open_word, starts, 0), 0)
        end = tl.sum(tl.where(word == open_word, ends, 0), 0)
        _draw_label(scores, sentence, uniforms + 2 * node, nodes, start, end, n, labels, LABELS)
        here = word < end - start  # as the width of the left child
        left = row(word, n) + start
        right = row(end - start - 1 - word, n) + start + word + 1
        left_mantissa, left_exponent = load_number(chart, left, here, cells, WIDE)
        right_mantissa, right_exponent = load_number(chart, right, here, cells, WIDE)
        exponent = left_exponent + right_exponent
        product = left_mantissa * right_mantissa * power_of_two(exponent - tl.max(exponent, 0), WIDE)
        product = product.to(tl.float64)
        split = start + _draw(product, tl.load(uniforms + 2 * node + 1), word, WORDS)
        below = (starts == start) & (ends == end)
        starts = tl.where(below & (word > split), split + 1, starts)
        ends = tl.where(below & (word <= split), split, ends)
        node += 1
    for leaf in range(0, words):
        _draw_label(scores, sentence, uniforms + 2 * node, nodes, leaf, leaf, n, labels, LABELS)
        node += 1


@triton.jit
def _draw(weights, uniform, index, SIZE: tl.constexpr):
    """One index, by its weight; never one of weight 0."""
    running = tl.cumsum(weights, 0)
    total = tl.max(running, 0)
    some = weights > 0
    drawn = tl.min(tl.where(some & (running > uniform * total), index, SIZE), 0)
    return tl.minimum(drawn, tl.max(tl.where(some, index, 0), 0))


@triton.jit
def _draw_label(scores, sentence, uniform, nodes, start, end, n, labels, LABELS: tl.constexpr):
    label = tl.arange(0, LABELS)
    here = tl.zeros([1], tl.int32)
    offset = label_offsets(sentence, here + start, here + end, n, labels, LABELS)
    score = tl.load(scores + offset, mask=(label < labels)[None, :], other=float("-inf")).to(tl.float64)
    _, relative, _ = label_sum(score)
    drawn = _draw(tl.reshape(relative, [LABELS]), tl.load(uniform), label, LABELS)
    tl.store(nodes + start * n + end, drawn.to(tl.int64))
