"""The plain torch backend: any device, every derivative by autograd, nothing compiled.

The chart is filled width by width in log space, in float64 where the device has it. Time ``O(n)`` steps of parallel
work, memory ``O(batch n^3)`` when gradients are wanted. The fused kernels are tested against this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nestree.crf.kernels.codes import SpanCodes, mask_scores, span_grid
from nestree.crf.kernels.errors import raise_not_finite, require_trees

NEVER = float("-inf")

Reduce = Callable[[Tensor], Tensor]
"""Combines the alternatives along the last axis."""


def inside(scores: Tensor, lengths: Tensor, mask: SpanCodes | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """The log-sum over all trees, or over those a mask allows. Shape: ``[batch]``; float64 by default."""
    scores = _prepare(scores, lengths)
    if mask is not None:
        scores = mask_scores(scores, mask.dense(scores.shape[-1], scores.dtype))
    total = _chart(scores, lengths, log_sum_exp)
    return total if dtype is None else total.to(dtype)


def log_prob(scores: Tensor, lengths: Tensor, mask: SpanCodes, strict: bool) -> Tensor:
    """Masked Inside − Inside. ``strict``: no tree is an error. Shape: ``[batch]``."""
    masked, everything = inside(scores, lengths, mask), inside(scores, lengths)
    if strict and not torch.compiler.is_compiling():
        require_trees(masked, everything)
    return difference(masked, everything).to(scores.dtype)


def difference(masked: Tensor, everything: Tensor) -> Tensor:
    """Masked minus plain log-sum, -inf where nothing agrees with the mask. Shape: ``[batch]``."""
    return torch.where(masked == NEVER, masked, masked - everything)


def marginals(scores: Tensor, lengths: Tensor) -> Tensor:
    """The probability of each labelled span. Shape: ``[batch, n, n, label]``."""
    differentiable = torch.is_grad_enabled() and scores.requires_grad
    with _recording(scores) as leaf:
        return _gradient(inside(leaf, lengths).sum(), leaf, create_graph=differentiable)


def expectation(scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Log partition, and the expected sum of ``direction`` over a tree's nodes. Shape: two of ``[batch]``."""
    scores, direction = scores.double(), direction.double()  # before the marginals are rounded to the scores' type
    direction = torch.where(scores == NEVER, 0.0, direction)  # probability 0 times anything is 0
    spans = span_grid(lengths, scores.shape[1])[..., None]
    mean = torch.where(spans, marginals(scores, lengths) * direction, 0.0).sum((1, 2, 3))
    return inside(scores, lengths), mean


def entropy(scores: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
    """The entropy of the distribution over labelled trees. Shape: ``[batch]``."""
    log_partition, mean = expectation(scores, scores, lengths)
    return torch.where(log_partition == NEVER, 0.0, log_partition - mean).to(dtype)


def slopes(
    weights: Tensor, scores: Tensor, direction: Tensor, lengths: Tensor, masks: list[SpanCodes | None]
) -> tuple[Tensor, Tensor]:
    """Expectations of ``direction`` in each chart, and the weighted sum of the charts' Hessians applied to it.

    Differentiable to any order. Shape: ``weights`` ``[charts, batch]``; returns ``[charts, batch]`` and
    ``[batch, n, n, label]``.
    """
    with torch.enable_grad():
        leaf = scores if scores.requires_grad else scores.detach().requires_grad_()
        log_partitions = [inside(leaf, lengths, mask) for mask in masks]
        per_chart = [_gradient(value.sum(), leaf, create_graph=True) for value in log_partitions]
        mean = torch.stack([(gradient * direction).double().sum((1, 2, 3)) for gradient in per_chart])
        return mean, _gradient((weights * mean).sum(), leaf, create_graph=True)


def best_tree(scores: Tensor, lengths: Tensor) -> Tensor:
    """CKY. Shape: ``[batch, n, n]``: the label at each node of the best tree, -1 elsewhere."""
    with _recording(scores) as leaf:
        best = _chart(_prepare(leaf, lengths), lengths, lambda terms: terms.max(-1).values)
        return _nodes(_gradient(best.sum(), leaf), best)


def sample(scores: Tensor, lengths: Tensor, draws: int, generator: torch.Generator | None) -> Tensor:
    """Trees drawn from the distribution. Shape: ``[draws, batch, n, n]``.

    The gradient of a log-sum-exp is the distribution over its terms; replacing it by a draw from that distribution
    makes the backward pass choose one tree, from the root downward.
    """
    with _recording(scores) as leaf:
        total = _chart(_prepare(leaf, lengths), lengths, lambda terms: _draw(terms, generator))
        charts = [_nodes(_gradient(total.sum(), leaf), total) for _ in range(draws)]
    return torch.stack(charts) if charts else scores.new_empty((0, *scores.shape[:3]), dtype=torch.int64)


def topk(scores: Tensor, lengths: Tensor, k: int) -> Tensor:
    """The k best trees, best first. Shape: ``[k, batch, n, n]``; all -1 where fewer trees exist."""
    with _recording(scores) as leaf:
        best = _chart_of_lists(_prepare(leaf, lengths), lengths, k)
        return torch.stack([_nodes(_gradient(best[:, rank].sum(), leaf), best[:, rank]) for rank in range(k)])


def normalize(scores: Tensor, lengths: Tensor, epsilon: float) -> Tensor:
    """Each sentence's scores to mean 0 and variance 1. Shape: ``[batch, n, n, label]``, float32 at least."""
    return normalize_with_scales(scores, lengths, epsilon)[0]


def normalize_with_scales(scores: Tensor, lengths: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The normalised scores, and what each sentence was multiplied by. Shape: as the scores, and ``[batch]``."""
    wide = scores if scores.device.type == "mps" else scores.double()
    spans = span_grid(lengths, scores.shape[1])[..., None]
    counts = spans & (scores != NEVER)
    entries = counts.sum((1, 2, 3), keepdim=True).clamp_min(1)
    wide = torch.where(counts, wide, 0.0)
    centred = torch.where(counts, wide - wide.sum((1, 2, 3), keepdim=True) / entries, 0.0)
    scales = (centred.square().sum((1, 2, 3), keepdim=True) / entries + epsilon).rsqrt()
    normal = torch.where(spans, torch.where(counts, centred * scales, NEVER), 0.0)
    return normal.to(torch.promote_types(scores.dtype, torch.float32)), scales[:, 0, 0, 0]


def normalize_backward(grad: Tensor, scores: Tensor, normal: Tensor, scales: Tensor, lengths: Tensor) -> Tensor:
    """The gradient for scores from that for the normalised ones. Shape: as the scores."""
    counts = span_grid(lengths, scores.shape[1])[..., None] & (normal != NEVER)
    entries = counts.sum((1, 2, 3), keepdim=True).clamp_min(1)
    wide, value = (torch.where(counts, x.double(), 0.0) for x in (grad, normal))
    mean = wide.sum((1, 2, 3), keepdim=True) / entries
    projection = (wide * value).sum((1, 2, 3), keepdim=True) / entries
    result = (wide - mean - value * projection) * scales[:, None, None, None]
    return torch.where(counts, result, 0.0).to(scores.dtype)


def log_sum_exp(terms: Tensor) -> Tensor:
    """``logsumexp`` over the last axis; where all terms are -inf its gradients, of any order, are 0 and not NaN."""
    largest = terms.detach().amax(-1, keepdim=True)
    largest = torch.where(largest == NEVER, 0.0, largest)
    total = (terms - largest).exp().sum(-1)
    some = total > 0
    return torch.where(some, torch.where(some, total, 1.0).log() + largest[..., 0], NEVER)


class _DrawBackward(torch.autograd.Function):
    """log-sum-exp whose backward pass sends the gradient to one term, drawn by its probability."""

    @staticmethod
    def forward(ctx: Any, terms: Tensor, generator: torch.Generator | None) -> Tensor:
        ctx.save_for_backward(terms)
        ctx.generator = generator
        return log_sum_exp(terms)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (terms,) = ctx.saved_tensors
        uniform = torch.rand(terms.shape, dtype=terms.dtype, device=terms.device, generator=ctx.generator)
        gumbel = -(-uniform.clamp_min(torch.finfo(terms.dtype).tiny).log()).log()
        drawn = (terms + gumbel).argmax(-1, keepdim=True)
        return torch.zeros_like(terms).scatter(-1, drawn, grad[..., None]), None


def _draw(terms: Tensor, generator: torch.Generator | None) -> Tensor:
    drawn: Tensor = _DrawBackward.apply(terms, generator)
    return drawn


def _chart(scores: Tensor, lengths: Tensor, reduce: Reduce) -> Tensor:
    """Fills the chart with one value per span and returns the root's. Shape: ``[batch]``."""
    batch, n = scores.shape[:2]
    with torch.autocast(scores.device.type, enabled=False):
        span = reduce(scores)
        by_start = span.new_full((batch, n, n), NEVER)  # [b, i, width] = (i, i + width)
        by_end = span.new_full((batch, n, n), NEVER)  # [b, j, width] = (j - width, j)
        by_start[:, :, 0] = by_end[:, :, 0] = span.diagonal(0, 1, 2)
        for width in range(1, n):
            left = by_start[:, : n - width, :width]
            right = by_end[:, width:, :width].flip(-1)
            value = reduce(left + right) + span.diagonal(width, 1, 2)
            by_start[:, : n - width, width] = value
            by_end[:, width:, width] = value
    root = by_start[torch.arange(batch, device=scores.device), 0, lengths - 1]
    return torch.where(root == NEVER, NEVER, root)  # a constant: no gradient where no tree is possible


def _chart_of_lists(scores: Tensor, lengths: Tensor, k: int) -> Tensor:
    """Like :func:`_chart` with the k best values per span, best first. Shape: ``[batch, k]``."""
    batch, n = scores.shape[:2]
    span = _best(scores, k)
    by_start = span.new_full((batch, n, n, k), NEVER)
    by_end = span.new_full((batch, n, n, k), NEVER)
    leaves = span.diagonal(0, 1, 2).movedim(-1, 1)
    by_start[:, :, 0] = by_end[:, :, 0] = leaves
    for width in range(1, n):
        left = by_start[:, : n - width, :width]
        right = by_end[:, width:, :width].flip(2)
        children = _best((left[..., :, None] + right[..., None, :]).flatten(2), k)
        labels = span.diagonal(width, 1, 2).movedim(-1, 1)
        value = _best((children[..., :, None] + labels[..., None, :]).flatten(2), k)
        by_start[:, : n - width, width] = value
        by_end[:, width:, width] = value
    return by_start[torch.arange(batch, device=scores.device), 0, lengths - 1]


def _best(values: Tensor, k: int) -> Tensor:
    best = values.topk(min(k, values.shape[-1]), -1).values
    return torch.nn.functional.pad(best, (0, k - best.shape[-1]), value=NEVER)


def _prepare(scores: Tensor, lengths: Tensor) -> Tensor:
    """Scores in float64, -inf wherever there is no span, checked."""
    wide = scores if scores.device.type == "mps" else scores.double()
    wide = wide.masked_fill(~span_grid(lengths, scores.shape[1])[..., None], NEVER)
    if not torch.compiler.is_compiling() and not bool((wide < float("inf")).all()):
        raise_not_finite(wide)
    return wide


@contextmanager
def _recording(scores: Tensor) -> Iterator[Tensor]:
    """Yields scores through which gradients can be taken, whatever mode the caller is in."""
    with torch.inference_mode(False), torch.enable_grad():
        if scores.requires_grad and not scores.is_inference():
            yield scores
        else:
            yield scores.detach().clone().requires_grad_()


def _gradient(value: Tensor, leaf: Tensor, create_graph: bool = False) -> Tensor:
    (gradient,) = torch.autograd.grad(value, leaf, create_graph=create_graph, retain_graph=True)
    return gradient


def _nodes(indicator: Tensor, root: Tensor) -> Tensor:
    """From the 0/1 gradient of a tree's score, ``[batch, n, n, label]``, to the tree's chart, ``[batch, n, n]``."""
    used = indicator > 0.5
    chart = torch.where(used.any(-1), used.int().argmax(-1), -1)
    return torch.where((root == NEVER)[:, None, None], -1, chart)
