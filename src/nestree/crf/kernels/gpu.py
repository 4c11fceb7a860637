"""The fused operations on a GPU: hands tensors to the Triton kernels of ``triton_kernels``.

With ``TRITON_INTERPRET=1`` in the environment when this module is imported, the kernels are interpreted and take CPU
tensors: slow, and the same code, so that they are tested on machines without a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from nestree.crf.kernels.launches import TILE, Found, bits, charts, check_size, gradient, on, tiles
from nestree.crf.kernels.ops import ALL_TREES, ChartMask, define, entropy_of, implement, new_normal, scaled
from nestree.crf.kernels.problems import check
from nestree.crf.kernels.triton_kernels import normalization, sums, trees

INTERPRETED = not isinstance(sums.charts_kernel, triton.JITFunction)
"""Whether the kernels are interpreted, and take CPU tensors."""


def _new_state(scores: Tensor, charts: int, slopes: bool) -> Tensor:
    """What a value keeps is its gradient: computed at once, while scores and charts are at hand."""
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def inside(scores: Tensor, lengths: Tensor, mask: ChartMask, keep: bool, strict: bool) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, mask, marginals=keep)
    state = gradient(None, scores, lengths, mask, found) if keep else found.results.new_empty(0)
    check(found, scores, lengths, mask, strict)
    return found.log_partition, state


def log_prob(scores: Tensor, lengths: Tensor, mask: ChartMask, keep: bool, strict: bool) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, mask, marginals=keep, difference=True)
    if keep:
        value = scores.new_empty(len(lengths))
        state = gradient(None, scores, lengths, mask, found, value=value)
    else:
        value = (found.log_partition[0] - found.log_partition[1]).to(scores.dtype)
        state = found.results.new_empty(0)
    check(found, scores, lengths, mask, strict)
    return value, state


def log_prob_backward(grad: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask, state: Tensor) -> Tensor:
    return scaled(state, grad)


def marginals(weights: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask, state: Tensor | None) -> Tensor:
    if state is not None:
        return scaled(state, weights[0])
    found = charts(scores, lengths, mask, marginals=True)
    result = gradient(weights, scores, lengths, mask, found)
    check(found, scores, lengths, mask)
    return result


def slopes(
    weights: Tensor, scores: Tensor, direction: Tensor, lengths: Tensor, mask: ChartMask
) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, mask, direction, marginals=True)
    assert found.expectation is not None
    return found.expectation, gradient(weights, scores, lengths, mask, found, direction)


def expectation(scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, ALL_TREES, direction)
    check(found, scores, lengths)
    assert found.expectation is not None
    return found.log_partition[0], found.expectation[0]


def entropy(scores: Tensor, lengths: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, ALL_TREES, scores, marginals=keep)
    assert found.expectation is not None
    value = entropy_of(found.log_partition[0], found.expectation[0])
    state = found.results.new_empty(0)
    if keep:
        state = gradient(None, scores, lengths, ALL_TREES, found, scores, sign=-1)
    check(found, scores, lengths)
    return value, state


def entropy_backward(grad: Tensor, scores: Tensor, lengths: Tensor, state: Tensor) -> Tensor:
    return scaled(state, grad)


def best_tree(scores: Tensor, lengths: Tensor) -> Tensor:
    check_size(scores)
    batch, n, _, labels = scores.shape
    cells = n * (n + 1) // 2
    nodes = scores.new_full((batch, n, n), -1, dtype=torch.int64)
    best = scores.new_empty((batch, cells), dtype=torch.float64)
    choices = scores.new_empty((batch, 2, cells), dtype=torch.int32)
    results = scores.new_empty((2, 1, batch), dtype=torch.float64)
    if batch:
        with on(scores):
            trees.best_tree_kernel[batch,](
                scores.contiguous(),
                lengths.contiguous(),
                best,
                choices,
                nodes,
                results[1],
                n,
                labels,
                WORDS=triton.next_power_of_2(n),
                **tiles(scores),
                **TILE,
            )
    check(Found(results, best), scores, lengths)
    return nodes


def sample(scores: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    found = charts(scores, lengths, ALL_TREES)
    check(found, scores, lengths)
    batch, n, _, labels = scores.shape
    draws = uniforms.shape[0]
    nodes = scores.new_full((draws, batch, n, n), -1, dtype=torch.int64)
    if batch and draws:
        with on(scores):
            trees.sample_kernel[batch * draws,](
                scores.contiguous(),
                lengths.contiguous(),
                found.charts,
                uniforms.contiguous(),
                nodes,
                batch,
                n,
                labels,
                WIDE=scores.dtype == torch.float64,
                LABELS=triton.next_power_of_2(labels),
                WORDS=triton.next_power_of_2(n),
                num_warps=1,
            )
    return nodes


def _with_strides(tensor: Tensor) -> tuple[Any, ...]:
    return tensor, *tensor.stride()


def normalize(scores: Tensor, lengths: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    out = new_normal(scores)
    batch, n, _, labels = scores.shape
    scales = scores.new_empty(batch, dtype=torch.float64)
    if batch:
        with on(scores):
            tensors = (*_with_strides(scores), *_with_strides(out), lengths.contiguous(), scales)
            numbers = (n, labels, bits(epsilon))
            normalization.normalize_kernel[batch,](*tensors, *numbers, **tiles(scores), num_warps=8)
    return out, scales


def normalize_backward(grad: Tensor, scores: Tensor, normal: Tensor, scales: Tensor, lengths: Tensor) -> Tensor:
    out = torch.zeros_like(scores)
    batch, n, _, labels = scores.shape
    if batch:
        with on(scores):
            tensors = (*_with_strides(grad), *_with_strides(normal), *_with_strides(out), lengths.contiguous(), scales)
            normalization.normalize_backward_kernel[batch,](*tensors, n, labels, **tiles(scores), num_warps=8)
    return out


define("triton", _new_state, torch.contiguous_format)
implement("triton", "CPU" if INTERPRETED else "CUDA", globals())
