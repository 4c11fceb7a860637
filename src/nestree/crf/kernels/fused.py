"""The fused backend: the operations of ``ops.py`` under the same names as the plain backend."""

from __future__ import annotations

import torch
from torch import Tensor

from nestree.crf.kernels.codes import SpanCodes
from nestree.crf.kernels.ops import ops

_NO_MASK = (None, 0, 0.0, 0.0, True)


def _keep(scores: Tensor) -> bool:
    """The inside charts are worth keeping when an outside pass will follow."""
    return scores.requires_grad and torch.is_grad_enabled()


def inside(scores: Tensor, lengths: Tensor, mask: SpanCodes | None = None) -> Tensor:
    """The log-sum over all trees, or over those a mask allows. Shape: ``[batch]``, float64."""
    charts = _NO_MASK if mask is None else (*mask, False)
    return ops.inside(scores, lengths, *charts, _keep(scores), False)[0][0]


def masked_and_plain(scores: Tensor, lengths: Tensor, mask: SpanCodes, strict: bool) -> tuple[Tensor, Tensor]:
    """Masked Inside and Inside in one pass. ``strict``: no tree is an error. Shape: two of ``[batch]``, float64."""
    masked, everything = ops.inside(scores, lengths, *mask, True, _keep(scores), strict)[0].unbind(0)
    return masked, everything


def marginals(scores: Tensor, lengths: Tensor) -> Tensor:
    """The probability of each labelled span. Shape: ``[batch, n, n, label]``."""
    weights = torch.ones(1, scores.shape[0], dtype=torch.float64, device=scores.device)
    return ops.marginals(weights, scores, lengths, *_NO_MASK, None)


def expectation(scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Log partition, and the expected sum of ``direction`` over a tree's nodes. Shape: two of ``[batch]``."""
    return ops.expectation(scores, direction, lengths)


def entropy(scores: Tensor, lengths: Tensor) -> Tensor:
    """The entropy of the distribution over labelled trees. Shape: ``[batch]``, float64."""
    return ops.entropy(scores, lengths)


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
