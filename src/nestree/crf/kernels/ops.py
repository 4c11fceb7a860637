"""The fused operations as torch sees them: names, arguments and shapes, on no particular device.

A device adds its kernels with :func:`implement` (``cpu.py`` does); ``fused.py`` adds derivatives. To ``torch.compile``
each operation is one opaque node of known shape.

A call computes one chart or two: the trees that span codes allow ("masked"), all trees ("plain"), or both, in this
order. Charts come first in shapes: ``[charts, batch]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("nestree", "FRAGMENT")

_MASK = "Tensor? codes, int entity_labels, float rejected_weight, float other_weight, bool with_plain"

_SCHEMAS = {
    "inside": f"(Tensor scores, Tensor lengths, {_MASK}, bool keep, bool strict) -> (Tensor, Tensor)",
    "marginals": f"(Tensor weights, Tensor scores, Tensor lengths, {_MASK}, Tensor? state) -> Tensor",
    "slopes": f"(Tensor weights, Tensor scores, Tensor direction, Tensor lengths, {_MASK}) -> (Tensor, Tensor)",
    "expectation": "(Tensor scores, Tensor direction, Tensor lengths) -> (Tensor, Tensor)",
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
    padding = 16 * (n + 1)
    return charts * (n * (n + 1) // 2 + padding) + 1


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


@_fake("best_tree")
def _(scores, lengths):  # type: ignore[no-untyped-def]
    return scores.new_empty(scores.shape[:3], dtype=torch.int64)


@_fake("sample")
def _(scores, lengths, uniforms):  # type: ignore[no-untyped-def]
    return scores.new_empty((uniforms.shape[0], *scores.shape[:3]), dtype=torch.int64)


@_fake("topk")
def _(scores, lengths, k):  # type: ignore[no-untyped-def]
    return scores.new_empty((k, *scores.shape[:3]), dtype=torch.int64)
