"""The fused operations on a GPU: hands tensors to the Triton kernels of ``triton_kernels``.

With ``TRITON_INTERPRET=1`` in the environment when this module is imported, the kernels are interpreted and take CPU
tensors: slow, and the same code, so that they are tested on machines without a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from nestree.crf.kernels.launches import TILE, bits, charts, check_size, gradient, power_of_2, start, tiles
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
    state = gradient(found, scores) if keep else found.results.new_empty(0)
    check(found.results[1], scores, lengths, mask, strict)
    return found.log_partition, state


def log_prob(scores: Tensor, lengths: Tensor, mask: ChartMask, keep: bool, strict: bool) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, mask, marginals=keep, difference=True)
    if keep:
        value = scores.new_empty(len(lengths))
        state = gradient(found, scores, value=value)
    else:
        value = (found.log_partition[0] - found.log_partition[1]).to(scores.dtype)
        state = found.results.new_empty(0)
    check(found.results[1], scores, lengths, mask, strict)
    return value, state


def log_prob_backward(grad: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask, state: Tensor) -> Tensor:
    return scaled(state, grad)


def marginals(weights: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask, state: Tensor | None) -> Tensor:
    if state is not None:
        return scaled(state, weights[0])
    found = charts(scores, lengths, mask, marginals=True)
    result = gradient(found, scores, weights)
    check(found.results[1], scores, lengths, mask)
    return result


def slopes(
    weights: Tensor, scores: Tensor, direction: Tensor, lengths: Tensor, mask: ChartMask
) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, mask, direction, marginals=True)
    assert found.expectation is not None
    return found.expectation, gradient(found, scores, weights)


def expectation(scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, ALL_TREES, direction)
    check(found.results[1], scores, lengths)
    assert found.expectation is not None
    return found.log_partition[0], found.expectation[0]


def entropy(scores: Tensor, lengths: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    found = charts(scores, lengths, ALL_TREES, scores, marginals=keep)
    assert found.expectation is not None
    value = entropy_of(found.log_partition[0], found.expectation[0])
    state = found.results.new_empty(0)
    if keep:
        state = gradient(found, scores, sign=-1)
    check(found.results[1], scores, lengths)
    return value, state


def entropy_backward(grad: Tensor, scores: Tensor, lengths: Tensor, state: Tensor) -> Tensor:
    return scaled(state, grad)


def best_tree(scores: Tensor, lengths: Tensor) -> Tensor:
    check_size(scores)
    batch, n, _, labels = scores.shape
    nodes = scores.new_empty((batch, n, n), dtype=torch.int64)
    places = scores.new_empty((n, batch), dtype=torch.int32)
    if batch:
        tensors = (scores.contiguous(), lengths.contiguous(), nodes, nodes.view(torch.float64), places)
        constants = {**tiles(scores), **TILE, "WORDS": power_of_2(n)}
        start(trees.best_tree_kernel, (batch, 1, 1), (*tensors, batch, n, labels), constants)
    check(places[-1:], scores, lengths)
    return nodes


def sample(scores: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    found = charts(scores, lengths, ALL_TREES)
    check(found.results[1], scores, lengths)
    batch, n, _, labels = scores.shape
    draws = uniforms.shape[0]
    nodes = scores.new_full((draws, batch, n, n), -1, dtype=torch.int64)
    if batch and draws:
        tensors = (scores.contiguous(), lengths.contiguous(), found.charts, uniforms.contiguous(), nodes)
        constants = {"WIDE": scores.dtype == torch.float64, "LABELS": power_of_2(labels), "WORDS": power_of_2(n)}
        start(trees.sample_kernel, (batch * draws, 1, 1), (*tensors, batch, n, labels), {**constants, "num_warps": 1})
    return nodes


def _with_strides(tensor: Tensor) -> tuple[Any, ...]:
    return tensor, *tensor.stride()


def normalize(scores: Tensor, lengths: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    out = new_normal(scores)
    batch, n, _, labels = scores.shape
    scales = scores.new_empty(batch, dtype=torch.float64)
    if batch:
        tensors = (*_with_strides(scores), *_with_strides(out), lengths.contiguous(), scales)
        constants = {**tiles(scores), "num_warps": 8}
        start(normalization.normalize_kernel, (batch, 1, 1), (*tensors, n, labels, bits(epsilon)), constants)
    return out, scales


def normalize_backward(grad: Tensor, scores: Tensor, normal: Tensor, scales: Tensor, lengths: Tensor) -> Tensor:
    out = torch.zeros_like(scores)
    batch, n, _, labels = scores.shape
    if batch:
        tensors = (*_with_strides(grad), *_with_strides(normal), *_with_strides(out), lengths.contiguous(), scales)
        constants = {**tiles(scores), "num_warps": 8}
        start(normalization.normalize_backward_kernel, (batch, 1, 1), (*tensors, n, labels), constants)
    return out


define("triton", _new_state, torch.contiguous_format)
implement("triton", "CPU" if INTERPRETED else "CUDA", globals())
