"""The fused backend: the operations of ``ops.py`` with derivatives, under the same names as the plain backend.

Derivatives close over three operations::

    inside      log partition of each chart                d = marginals
    marginals   weighted sum of the charts' marginals      d = slopes
    slopes      the charts' Hessians along a direction     d = plain torch, to any order
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from nestree.crf.kernels import plain
from nestree.crf.kernels.codes import SpanCodes
from nestree.crf.kernels.ops import ops

NEVER = float("-inf")

Mask = tuple[int, float, float, bool]
"""``entity_labels, rejected_weight, other_weight, with_plain``: what goes with the codes of a masked chart."""
_NO_MASK: Mask = (0, 0.0, 0.0, True)


def inside(scores: Tensor, lengths: Tensor, mask: SpanCodes | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """The log-sum over all trees, or over those a mask allows. Shape: ``[batch]``; float64 by default."""
    codes, rest = (None, _NO_MASK) if mask is None else (mask.codes, (*mask[1:], False))
    if _differentiable(scores):
        return _Inside.apply(scores, lengths, codes, rest, dtype)
    return ops.inside(scores, lengths, codes, *rest, False, False)[0][0].to(dtype or torch.float64)


def log_prob(scores: Tensor, lengths: Tensor, mask: SpanCodes, strict: bool, dtype: torch.dtype) -> Tensor:
    """Masked Inside − Inside, in one pass over the scores. ``strict``: no tree is an error. Shape: ``[batch]``."""
    rest = (*mask[1:], True)
    if _differentiable(scores):
        return _LogProb.apply(scores, lengths, mask.codes, rest, strict, dtype)
    return _difference(ops.inside(scores, lengths, mask.codes, *rest, False, strict)[0]).to(dtype)


def marginals(scores: Tensor, lengths: Tensor) -> Tensor:
    """The probability of each labelled span. Shape: ``[batch, n, n, label]``."""
    weights = torch.ones(1, scores.shape[0], dtype=torch.float64, device=scores.device)
    return _marginals(weights, scores, lengths, None, _NO_MASK, None)


def expectation(scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Log partition, and the expected sum of ``direction`` over a tree's nodes. Shape: two of ``[batch]``."""
    if _differentiable(scores, direction):
        return _Expectation.apply(scores, direction, lengths)
    return ops.expectation(scores, direction, lengths)


def entropy(scores: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
    """The entropy of the distribution over labelled trees. Shape: ``[batch]``."""
    if _differentiable(scores):
        return _Entropy.apply(scores, lengths, dtype)
    return _entropy(scores, lengths).to(dtype)


def best_tree(scores: Tensor, lengths: Tensor) -> Tensor:
    """CKY. Shape: ``[batch, n, n]``: the label at each node of the best tree, -1 elsewhere."""
    return ops.best_tree(scores.detach(), lengths)


def sample(scores: Tensor, lengths: Tensor, draws: int, generator: torch.Generator | None) -> Tensor:
    """Trees drawn from the distribution. Shape: ``[draws, batch, n, n]``."""
    batch, n = scores.shape[:2]
    shape = (draws, batch, 2 * (2 * n - 1))
    uniforms = torch.rand(shape, dtype=torch.float64, device=scores.device, generator=generator)
    return ops.sample(scores.detach(), lengths, uniforms)


def topk(scores: Tensor, lengths: Tensor, k: int) -> Tensor:
    """The k best trees, best first. Shape: ``[k, batch, n, n]``; all -1 where fewer trees exist."""
    return ops.topk(scores.detach(), lengths, k)


# --- Derivatives -----------------------------------------------------------------------------------------------------


def _differentiable(*inputs: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)


def _marginals(
    weights: Tensor, scores: Tensor, lengths: Tensor, codes: Tensor | None, mask: Mask, state: Tensor | None
) -> Tensor:
    """The sum over charts of weights × marginals. Shape: ``[charts, batch]`` and scores to ``[batch, n, n, label]``."""
    if _differentiable(weights, scores):
        return _Marginals.apply(weights, scores, lengths, codes, mask, state)
    return ops.marginals(weights, scores, lengths, codes, *mask, state)


def _slopes(
    weights: Tensor, scores: Tensor, direction: Tensor, lengths: Tensor, codes: Tensor | None, mask: Mask
) -> tuple[Tensor, Tensor]:
    """Each chart's expectation of the direction, and the sum over charts of weights × Hessian applied to it."""
    if _differentiable(weights, scores, direction):
        return _Slopes.apply(weights, scores, direction, lengths, codes, mask)
    return ops.slopes(weights, scores, direction, lengths, codes, *mask)


def _difference(total: Tensor) -> Tensor:
    """Masked minus plain, -inf where nothing agrees with the mask. Shape: ``[2, batch]`` to ``[batch]``."""
    masked, everything = total.unbind(0)
    return torch.where(masked == NEVER, masked, masked - everything)


def _entropy(scores: Tensor, lengths: Tensor) -> Tensor:
    total, mean = ops.expectation(scores, scores, lengths)
    return torch.where(total == NEVER, 0.0, total - mean)


class _Inside(Function):
    """One chart's log partition."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, lengths: Tensor, codes: Tensor | None, mask: Mask, dtype: torch.dtype | None
    ) -> Tensor:
        total, state = ops.inside(scores, lengths, codes, *mask, True, False)
        ctx.save_for_backward(scores, lengths, codes, state)
        ctx.mask = mask
        return total[0].to(dtype or torch.float64)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        scores, lengths, codes, state = ctx.saved_tensors
        return _marginals(grad[None].double(), scores, lengths, codes, ctx.mask, state), None, None, None, None


class _LogProb(Function):
    """The masked chart's log partition minus the plain one's."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, lengths: Tensor, codes: Tensor, mask: Mask, strict: bool, dtype: torch.dtype
    ) -> Tensor:
        total, state = ops.inside(scores, lengths, codes, *mask, True, strict)
        ctx.save_for_backward(scores, lengths, codes, state, total[0] == NEVER)
        ctx.mask = mask
        return _difference(total).to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        scores, lengths, codes, state, impossible = ctx.saved_tensors
        grad = grad.double().masked_fill(impossible, 0.0)
        weights = torch.stack([grad, -grad])
        return _marginals(weights, scores, lengths, codes, ctx.mask, state), None, None, None, None, None


class _Marginals(Function):
    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        scores: Tensor,
        lengths: Tensor,
        codes: Tensor | None,
        mask: Mask,
        state: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(weights, scores, lengths, codes)
        ctx.mask = mask
        return ops.marginals(weights, scores, lengths, codes, *mask, state)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> tuple[Any, ...]:
        weights, scores, lengths, codes = ctx.saved_tensors
        means, change = _slopes(weights, scores, direction, lengths, codes, ctx.mask)
        return means.to(weights.dtype), change, None, None, None, None


class _Slopes(Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, scores: Tensor, direction: Tensor, lengths: Tensor, codes: Tensor | None, mask: Mask
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(weights, scores, direction, lengths, codes)
        ctx.mask = mask
        means, change = ops.slopes(weights, scores, direction, lengths, codes, *mask)
        return means, change

    @staticmethod
    def backward(ctx: Any, for_means: Tensor, for_change: Tensor) -> tuple[Any, ...]:
        """The third derivative of the log partition; seldom wanted, so it is left to autograd through plain torch."""
        weights, scores, direction, lengths, codes = ctx.saved_tensors
        *rest, with_plain = ctx.mask
        masks: list[SpanCodes | None] = [None] if with_plain else []
        if codes is not None:
            masks.insert(0, SpanCodes(codes, *rest))
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            # Views give each argument a place of its own in the graph, even when two of them are the same tensor.
            arguments = (weights, scores, direction)
            inputs = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in arguments]
            finite = torch.where(inputs[2].isfinite(), inputs[2], 0.0)
            means, change = plain.slopes(inputs[0], inputs[1], finite, lengths, masks)
            total = (means * for_means).sum() + (change * for_change).sum()
            gradients = torch.autograd.grad(total, inputs, create_graph=again)
        return *gradients, None, None, None


class _Expectation(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(scores, direction, lengths)
        total, mean = ops.expectation(scores, direction, lengths)
        return total, mean

    @staticmethod
    def backward(ctx: Any, for_partition: Tensor, for_mean: Tensor) -> tuple[Any, ...]:
        scores, direction, lengths = ctx.saved_tensors
        for_scores = for_direction = None
        if ctx.needs_input_grad[0]:
            _, change = _slopes(for_mean[None], scores, direction, lengths, None, _NO_MASK)
            for_scores = change + _marginals(for_partition[None], scores, lengths, None, _NO_MASK, None)
        if ctx.needs_input_grad[1]:
            for_direction = _marginals(for_mean[None], scores, lengths, None, _NO_MASK, None).to(direction.dtype)
        return for_scores, for_direction, None


class _Entropy(Function):
    """log Z − E[score]; its gradient is minus the Hessian of log Z applied to the scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(scores, lengths)
        return _entropy(scores, lengths).to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        scores, lengths = ctx.saved_tensors
        _, change = _slopes(-grad[None].double(), scores, scores, lengths, None, _NO_MASK)
        return change, None, None
