"""The fused operations as torch sees them: schemas, shapes and derivatives, on no particular device.

A device adds its kernels with :func:`implement` (``cpu.py`` does). To ``torch.compile`` each operation is one opaque
node of known shape. Derivatives close over three operations::

    inside      log partition of each chart                d = marginals
    marginals   weighted sum of the charts' marginals      d = slopes
    slopes      the Hessian applied to a direction         d = plain torch, to any order

A call computes one chart or two: the trees that span codes allow ("masked"), all trees ("plain"), or both, in this
order. Charts come first in shapes: ``[charts, batch]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nestree.crf.kernels import plain
from nestree.crf.kernels.codes import SpanCodes

_library = torch.library.Library("nestree", "FRAGMENT")

_MASK = "Tensor? codes, int entity_labels, float rejected_weight, float other_weight, bool with_plain"

_SCHEMAS = {
    "inside": f"(Tensor scores, Tensor lengths, {_MASK}, bool keep, bool strict) -> (Tensor, Tensor)",
    "marginals": f"(Tensor weights, Tensor scores, Tensor lengths, {_MASK}, Tensor? state) -> Tensor",
    "slopes": f"(Tensor weights, Tensor scores, Tensor direction, Tensor lengths, {_MASK}) -> (Tensor, Tensor)",
    "expectation": "(Tensor scores, Tensor direction, Tensor lengths) -> (Tensor, Tensor)",
    "entropy": "(Tensor scores, Tensor lengths) -> Tensor",
    "best_tree": "(Tensor scores, Tensor lengths) -> Tensor",
    "sample": "(Tensor scores, Tensor lengths, Tensor uniforms) -> Tensor",
    "topk": "(Tensor scores, Tensor lengths, int k) -> Tensor",
}
for _name, _schema in _SCHEMAS.items():
    _library.define(_name + _schema)

ops: Any = torch.ops.nestree


def implement(name: str, device: str, kernel: Callable[..., Any]) -> None:
    """Registers the kernel of one operation for one device type ("CPU", "CUDA")."""
    _library.impl(name, kernel, device)


def state_size(charts: int, n: int) -> int:
    """Numbers per sentence that the inside pass keeps for the outside pass: its charts, and how they were computed."""
    return charts * (n * (n + 1) // 2) + 1


def chart_count(codes: Tensor | None, with_plain: bool) -> int:
    """How many charts a call computes."""
    return int(codes is not None) + int(with_plain)


# --- Shapes ----------------------------------------------------------------------------------------------------------


def _fake(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return torch.library.register_fake(f"nestree::{name}", lib=_library)


def _double(scores: Tensor, *shape: int | torch.SymInt) -> Tensor:
    return scores.new_empty(shape, dtype=torch.float64)


@_fake("inside")
def _(scores, lengths, codes, entity_labels, rejected_weight, other_weight, with_plain, keep, strict):  # type: ignore[no-untyped-def]
    batch, n, charts = scores.shape[0], scores.shape[1], chart_count(codes, with_plain)
    return _double(scores, charts, batch), _double(scores, batch, state_size(charts, n) if keep else 0)


@_fake("marginals")
def _(weights, scores, *rest):  # type: ignore[no-untyped-def]
    return torch.empty_like(scores)


@_fake("slopes")
def _(weights, scores, *rest):  # type: ignore[no-untyped-def]
    return torch.empty_like(weights), torch.empty_like(scores)


@_fake("expectation")
def _(scores, direction, lengths):  # type: ignore[no-untyped-def]
    return _double(scores, scores.shape[0]), _double(scores, scores.shape[0])


@_fake("entropy")
def _(scores, lengths):  # type: ignore[no-untyped-def]
    return _double(scores, scores.shape[0])


@_fake("best_tree")
def _(scores, lengths):  # type: ignore[no-untyped-def]
    return scores.new_empty(scores.shape[:3], dtype=torch.int64)


@_fake("sample")
def _(scores, lengths, uniforms):  # type: ignore[no-untyped-def]
    return scores.new_empty((uniforms.shape[0], *scores.shape[:3]), dtype=torch.int64)


@_fake("topk")
def _(scores, lengths, k):  # type: ignore[no-untyped-def]
    return scores.new_empty((k, *scores.shape[:3]), dtype=torch.int64)


# --- Derivatives -----------------------------------------------------------------------------------------------------


def _differentiate(name: str, backward: Callable[..., Any], setup: Callable[..., Any]) -> None:
    torch.library.register_autograd(f"nestree::{name}", backward, setup_context=setup, lib=_library)


def _setup_inside(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    scores, lengths, codes, *mask, keep, _strict = inputs
    ctx.save_for_backward(scores, lengths, codes, output[1] if keep else None)
    ctx.mask = mask
    ctx.mark_non_differentiable(output[1])


def _inside_backward(ctx: Any, weights: Tensor, _state: Tensor) -> tuple[Any, ...]:
    scores, lengths, codes, state = ctx.saved_tensors
    return (ops.marginals(weights, scores, lengths, codes, *ctx.mask, state), *[None] * 8)


def _setup_marginals(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    weights, scores, lengths, codes, *mask, _state = inputs
    ctx.save_for_backward(weights, scores, lengths, codes)
    ctx.mask = mask


def _marginals_backward(ctx: Any, direction: Tensor) -> tuple[Any, ...]:
    weights, scores, lengths, codes = ctx.saved_tensors
    means, change = ops.slopes(weights, scores, direction, lengths, codes, *ctx.mask)
    return means, change, *[None] * 7


def _setup_slopes(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    weights, scores, direction, lengths, codes, *mask = inputs
    ctx.save_for_backward(weights, scores, direction, lengths, codes)
    ctx.mask = mask


def _slopes_backward(ctx: Any, for_means: Tensor, for_change: Tensor) -> tuple[Any, ...]:
    """The third derivative of the log partition; seldom wanted, so it is left to autograd through the plain backend."""
    weights, scores, direction, lengths, codes = ctx.saved_tensors
    entity_labels, rejected_weight, other_weight, with_plain = ctx.mask
    masks: list[SpanCodes | None] = [None] if with_plain else []
    if codes is not None:
        masks.insert(0, SpanCodes(codes, entity_labels, rejected_weight, other_weight))
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views give each argument a place of its own in the graph, even when two of them are the same tensor.
        inputs = [
            t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in (weights, scores, direction)
        ]
        finite = torch.where(inputs[2].isfinite(), inputs[2], 0.0)
        means, change = plain.slopes(inputs[0], inputs[1], finite, lengths, masks)
        total = (means * for_means).sum() + (change * for_change).sum()
        gradients = torch.autograd.grad(total, inputs, create_graph=again)
    return *gradients, *[None] * 6


def _setup_expectation(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _expectation_backward(ctx: Any, for_partition: Tensor, for_mean: Tensor) -> tuple[Any, ...]:
    scores, direction, lengths = ctx.saved_tensors
    no_mask = (None, 0, 0.0, 0.0, True)
    for_scores = for_direction = None
    if ctx.needs_input_grad[0]:
        _, change = ops.slopes(for_mean[None], scores, direction, lengths, *no_mask)
        for_scores = change + ops.marginals(for_partition[None], scores, lengths, *no_mask, None)
    if ctx.needs_input_grad[1]:
        for_direction = ops.marginals(for_mean[None], scores, lengths, *no_mask, None).to(direction.dtype)
    return for_scores, for_direction, None


def _setup_entropy(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _entropy_backward(ctx: Any, weights: Tensor) -> tuple[Any, ...]:
    scores, lengths = ctx.saved_tensors
    _, change = ops.slopes(-weights[None], scores, scores, lengths, None, 0, 0.0, 0.0, True)
    return change, None


_differentiate("inside", _inside_backward, _setup_inside)
_differentiate("marginals", _marginals_backward, _setup_marginals)
_differentiate("slopes", _slopes_backward, _setup_slopes)
_differentiate("expectation", _expectation_backward, _setup_expectation)
_differentiate("entropy", _entropy_backward, _setup_entropy)
