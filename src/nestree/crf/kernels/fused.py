"""The fused backends: the operations of ``ops.py`` with derivatives, under the same names as the plain backend.

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

from nestree.crf.kernels import errors, later, plain
from nestree.crf.kernels.codes import SpanCodes
from nestree.crf.kernels.ops import operation as find
from nestree.crf.kernels.ops import operations, scaled

NEVER = float("-inf")

Mask = tuple[int, float, float, bool]
"""``entity_labels, rejected_weight, other_weight, with_plain``: what goes with the codes of a masked chart."""
_NO_MASK: Mask = (0, 0.0, 0.0, True)


class Fused:
    """The functions of a backend that has its own kernels, by the backend's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def inside(
        self, scores: Tensor, lengths: Tensor, mask: SpanCodes | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """The log-sum over all trees, or over those a mask allows. Shape: ``[batch]``; float64 by default."""
        codes, rest = (None, _NO_MASK) if mask is None else (mask.codes, (*mask[1:], False))
        if _differentiable(scores):
            return _Inside.apply(self.name, scores, lengths, codes, rest, dtype)
        return (
            operations(self.name).inside(scores, lengths, codes, *rest, False, False)[0][0].to(dtype or torch.float64)
        )

    def log_prob(self, scores: Tensor, lengths: Tensor, mask: SpanCodes, strict: bool) -> Tensor:
        """Masked Inside − Inside, in one pass over the scores. ``strict``: no tree is an error. Shape: ``[batch]``."""
        if _differentiable(scores):
            return _LogProb.apply(self.name, scores, lengths, mask.codes, mask[1:], strict)
        return operations(self.name).log_prob(scores, lengths, *mask, False, strict)[0]

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The probability of each labelled span. Shape: ``[batch, n, n, label]``."""
        weights = torch.ones(1, scores.shape[0], dtype=torch.float64, device=scores.device)
        return _marginals(self.name, weights, scores, lengths, None, _NO_MASK, None)

    def expectation(self, scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Log partition, and the expected sum of ``direction`` over a tree's nodes. Shape: two of ``[batch]``."""
        if _differentiable(scores, direction):
            return _Expectation.apply(self.name, scores, direction, lengths)
        return operations(self.name).expectation(scores, direction, lengths)

    def entropy(self, scores: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
        """The entropy of the distribution over labelled trees. Shape: ``[batch]``."""
        if _differentiable(scores):
            return _Entropy.apply(self.name, scores, lengths, dtype)
        return operations(self.name).entropy(scores, lengths, False)[0].to(dtype)

    def best_tree(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """CKY. Shape: ``[batch, n, n]``: the label at each node of the best tree, -1 elsewhere."""
        return operations(self.name).best_tree(scores.detach(), lengths)

    def sample(self, scores: Tensor, lengths: Tensor, draws: int, generator: torch.Generator | None) -> Tensor:
        """Trees drawn from the distribution. Shape: ``[draws, batch, n, n]``."""
        batch, n = scores.shape[:2]
        shape = (draws, batch, 2 * (2 * n - 1))
        uniforms = torch.rand(shape, dtype=torch.float64, device=scores.device, generator=generator)
        return operations(self.name).sample(scores.detach(), lengths, uniforms)

    def topk(self, scores: Tensor, lengths: Tensor, k: int) -> Tensor:
        """The k best trees, best first. Shape: ``[k, batch, n, n]``; all -1 where fewer trees exist."""
        if self.name == "triton":  # seldom wanted on a GPU
            errors.require_lengths(lengths, scores.shape[1])
            return plain.topk(scores.detach(), lengths, k)
        return operations(self.name).topk(scores.detach(), lengths, k)

    def normalize(self, scores: Tensor, lengths: Tensor, epsilon: float) -> Tensor:
        """Each sentence's scores to mean 0 and variance 1. Shape: ``[batch, n, n, label]``, float32 at least."""
        if _differentiable(scores):
            return _Normalize.apply(self.name, scores, lengths, epsilon)
        return operations(self.name).normalize(scores, lengths, epsilon)[0]


# --- Derivatives -----------------------------------------------------------------------------------------------------


def _differentiable(*inputs: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)


def _marginals(
    name: str, weights: Tensor, scores: Tensor, lengths: Tensor, codes: Tensor | None, mask: Mask, state: Tensor | None
) -> Tensor:
    """The sum over charts of weights × marginals. Shape: ``[charts, batch]`` and scores to ``[batch, n, n, label]``."""
    if _differentiable(weights, scores):
        return _Marginals.apply(name, weights, scores, lengths, codes, mask, state)
    return operations(name).marginals(weights, scores, lengths, codes, *mask, state)


def _slopes(
    name: str, weights: Tensor, scores: Tensor, direction: Tensor, lengths: Tensor, codes: Tensor | None, mask: Mask
) -> tuple[Tensor, Tensor]:
    """Each chart's expectation of the direction, and the sum over charts of weights × Hessian applied to it."""
    if _differentiable(weights, scores, direction):
        return _Slopes.apply(name, weights, scores, direction, lengths, codes, mask)
    return operations(name).slopes(weights, scores, direction, lengths, codes, *mask)


def _call(ctx: Any, name: str, operation: str, *arguments: Any) -> tuple[Tensor, Tensor]:
    """Calls an operation in a forward pass; what a GPU finds wrong, the backward pass raises (:func:`_settle`)."""
    call = find(name, operation, arguments[0])
    if name != "triton" or torch.compiler.is_compiling():
        results: tuple[Tensor, Tensor] = call(*arguments)
        return results
    results, ctx.checks = later.collecting(call, *arguments)
    return results


def _settle(ctx: Any) -> None:
    """Raises what was found wrong in the forward pass and put off until now."""
    for check in getattr(ctx, "checks", ()):
        check()
    ctx.checks = []  # they hold on to the scores


def _keep(ctx: Any, name: str, state: Tensor) -> Tensor | None:
    """What to save for the backward pass.

    A GPU's state is the gradient itself. It is not saved but handed out by the first backward pass, scaled in place:
    one cheap operation there, and no second tensor of its size. Compiled code is left to save and multiply it.
    """
    if name != "triton" or torch.compiler.is_compiling():
        return state
    ctx.gradient = [state]
    return None


def _kept(ctx: Any, grad: Tensor) -> Tensor | None:
    """The gradient that :func:`_keep` kept, times what came from above; once."""
    try:
        gradient: Tensor = ctx.gradient.pop()
    except (AttributeError, IndexError):
        return None
    try:
        return gradient.mul_(grad.view(-1, 1, 1, 1))
    except RuntimeError:  # several gradients at a time (is_grads_batched) do not fit into one
        ctx.gradient.append(gradient)
        return scaled(gradient, grad)


def _was_checked(scores: Tensor) -> bool:
    """Whether an operation that just ran has raised the errors it found; it cannot while a CUDA graph is captured."""
    if torch.compiler.is_compiling():
        return False
    return not later.is_recorded(scores)


def _unless_impossible(grad: Tensor, value: Tensor) -> Tensor:
    """What came from above, and 0 for sentences without a tree, whatever came. Shape: ``[batch]``."""
    return torch.where(value == NEVER, 0.0, grad)


class _Inside(Function):
    """One chart's log partition."""

    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        scores: Tensor,
        lengths: Tensor,
        codes: Tensor | None,
        mask: Mask,
        dtype: torch.dtype | None,
    ) -> Tensor:
        total, state = _call(ctx, name, "inside", scores, lengths, codes, *mask, True, False)
        value = total[0].to(dtype or torch.float64)
        ctx.save_for_backward(value, scores, lengths, codes, _keep(ctx, name, state))
        ctx.name, ctx.mask = name, mask
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _settle(ctx)
        value, scores, lengths, codes, state = ctx.saved_tensors
        if ctx.name == "triton":  # the CPU's kernels take care of it
            grad = _unless_impossible(grad, value)
        again = _differentiable(grad, scores)
        gradient = None if again else _kept(ctx, grad)
        if gradient is None:
            if state is None and not again:
                _, state = operations(ctx.name).inside(scores, lengths, codes, *ctx.mask, True, False)
            gradient = _marginals(ctx.name, grad[None].double(), scores, lengths, codes, ctx.mask, state)
        return None, gradient, None, None, None, None


class _LogProb(Function):
    """The masked chart's log partition minus the plain one's."""

    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        scores: Tensor,
        lengths: Tensor,
        codes: Tensor,
        mask: tuple[int, float, float],
        strict: bool,
    ) -> Tensor:
        value, state = _call(ctx, name, "log_prob", scores, lengths, codes, *mask, True, strict)
        ctx.save_for_backward(value, scores, lengths, codes, _keep(ctx, name, state))
        ctx.name, ctx.mask = name, mask
        ctx.possible = strict and _was_checked(scores)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _settle(ctx)
        value, scores, lengths, codes, state = ctx.saved_tensors
        if not ctx.possible:
            grad = _unless_impossible(grad, value)
        again = _differentiable(grad, scores)
        gradient = None if again else _kept(ctx, grad)
        if again:
            weights = log_prob_weights(grad)
            gradient = _marginals(ctx.name, weights, scores, lengths, codes, (*ctx.mask, True), state)
        elif gradient is None:
            ops = operations(ctx.name)
            if state is None:
                _, state = ops.log_prob(scores, lengths, codes, *ctx.mask, True, False)
            gradient = ops.log_prob_backward(grad, scores, lengths, codes, *ctx.mask, state)
        return None, gradient, None, None, None, None


def log_prob_weights(grad: Tensor) -> Tensor:
    """How the two charts of a log probability count for its gradient. Shape: ``[batch]`` to ``[2, batch]``."""
    grad = grad.double()
    return torch.stack([grad, -grad])


class _Marginals(Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        weights: Tensor,
        scores: Tensor,
        lengths: Tensor,
        codes: Tensor | None,
        mask: Mask,
        state: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(weights, scores, lengths, codes)
        ctx.name, ctx.mask = name, mask
        return operations(name).marginals(weights, scores, lengths, codes, *mask, state)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> tuple[Any, ...]:
        weights, scores, lengths, codes = ctx.saved_tensors
        means, change = _slopes(ctx.name, weights, scores, direction, lengths, codes, ctx.mask)
        return None, means.to(weights.dtype), change, None, None, None, None


class _Slopes(Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        weights: Tensor,
        scores: Tensor,
        direction: Tensor,
        lengths: Tensor,
        codes: Tensor | None,
        mask: Mask,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(weights, scores, direction, lengths, codes)
        ctx.name, ctx.mask = name, mask
        means, change = operations(name).slopes(weights, scores, direction, lengths, codes, *mask)
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
        return None, *gradients, None, None, None


class _Expectation(Function):
    @staticmethod
    def forward(ctx: Any, name: str, scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(scores, direction, lengths)
        ctx.name = name
        total, mean = operations(name).expectation(scores, direction, lengths)
        return total, mean

    @staticmethod
    def backward(ctx: Any, for_partition: Tensor, for_mean: Tensor) -> tuple[Any, ...]:
        scores, direction, lengths = ctx.saved_tensors
        for_scores = for_direction = None
        if ctx.needs_input_grad[1]:
            _, change = _slopes(ctx.name, for_mean[None], scores, direction, lengths, None, _NO_MASK)
            for_scores = change + _marginals(ctx.name, for_partition[None], scores, lengths, None, _NO_MASK, None)
        if ctx.needs_input_grad[2]:
            for_direction = _marginals(ctx.name, for_mean[None], scores, lengths, None, _NO_MASK, None).to(
                direction.dtype
            )
        return None, for_scores, for_direction, None


class _Entropy(Function):
    """log Z − E[score]; its gradient is minus the Hessian of log Z applied to the scores."""

    @staticmethod
    def forward(ctx: Any, name: str, scores: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
        value, state = _call(ctx, name, "entropy", scores, lengths, True)
        ctx.save_for_backward(scores, lengths, _keep(ctx, name, state))
        ctx.name = name
        return value.to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _settle(ctx)
        scores, lengths, state = ctx.saved_tensors
        again = _differentiable(grad, scores)
        gradient = None if again else _kept(ctx, grad)
        if again:
            _, gradient = _slopes(ctx.name, -grad[None].double(), scores, scores, lengths, None, _NO_MASK)
        elif gradient is None:
            ops = operations(ctx.name)
            if state is None:
                _, state = ops.entropy(scores, lengths, True)
            gradient = ops.entropy_backward(grad, scores, lengths, state)
        return None, gradient, None, None


class _Normalize(Function):
    @staticmethod
    def forward(ctx: Any, name: str, scores: Tensor, lengths: Tensor, epsilon: float) -> Tensor:
        normal, scales = operations(name).normalize(scores, lengths, epsilon)
        ctx.save_for_backward(scores, normal, scales, lengths)
        ctx.name, ctx.epsilon = name, epsilon
        return normal

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        scores, normal, scales, lengths = ctx.saved_tensors
        if _differentiable(grad, scores):  # derivatives of derivatives: autograd through plain torch
            again = plain.normalize(scores, lengths, ctx.epsilon)
            (gradient,) = torch.autograd.grad(again, scores, grad, create_graph=True)
        else:
            gradient = operations(ctx.name).normalize_backward(grad, scores, normal, scales, lengths)
        return None, gradient, None, None
