"""The fused operations as torch sees them: names, arguments and shapes, one set for each backend that has kernels.

A backend defines its set with :func:`define` (``cpu.py`` and ``gpu.py`` do) and adds its kernels; ``fused.py`` adds
derivatives. To ``torch.compile`` each operation is one opaque node of known shape.

A call computes one chart or two: the trees that span codes allow ("masked"), all trees ("plain"), or both, in this
order. Charts come first in shapes: ``[charts, batch]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

_WEIGHTS = "int entity_labels, float rejected_weight, float other_weight"
_MASK = f"Tensor? codes, {_WEIGHTS}, bool with_plain"

_SCHEMAS = {
    "inside": f"(Tensor scores, Tensor lengths, {_MASK}, bool keep, bool strict) -> (Tensor, Tensor)",
    "log_prob": (
        f"(Tensor scores, Tensor lengths, Tensor codes, {_WEIGHTS}, bool keep, bool strict) -> (Tensor, Tensor)"
    ),
    "log_prob_backward": (
        f"(Tensor grad, Tensor scores, Tensor lengths, Tensor codes, {_WEIGHTS}, Tensor state) -> Tensor"
    ),
    "marginals": f"(Tensor weights, Tensor scores, Tensor lengths, {_MASK}, Tensor? state) -> Tensor",
    "slopes": f"(Tensor weights, Tensor scores, Tensor direction, Tensor lengths, {_MASK}) -> (Tensor, Tensor)",
    "expectation": "(Tensor scores, Tensor direction, Tensor lengths) -> (Tensor, Tensor)",
    "entropy": "(Tensor scores, Tensor lengths, bool keep) -> (Tensor, Tensor)",
    "entropy_backward": "(Tensor grad, Tensor scores, Tensor lengths, Tensor state) -> Tensor",
    "best_tree": "(Tensor scores, Tensor lengths) -> Tensor",
    "sample": "(Tensor scores, Tensor lengths, Tensor uniforms) -> Tensor",
    "topk": "(Tensor scores, Tensor lengths, int k) -> Tensor",
    "normalize": "(Tensor scores, Tensor lengths, float epsilon) -> (Tensor, Tensor)",
    "normalize_backward": "(Tensor grad, Tensor scores, Tensor normal, Tensor scales, Tensor lengths) -> Tensor",
}

NewState = Callable[[Tensor, int, bool], Tensor]
"""An empty tensor for what a value keeps for its gradient: from scores, how many charts, whether along a direction."""

_libraries: dict[str, torch.library.Library] = {}
_kernels: dict[tuple[str, str, str], Callable[..., Any]] = {}


def define(backend: str, new_state: NewState, layout: torch.memory_format) -> None:
    """Defines a backend's operations, ``torch.ops.nestree_BACKEND``, with what they return for shapes alone.

    ``layout``: of gradients for scores.
    """
    library = _libraries[backend] = torch.library.Library(f"nestree_{backend}", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        library.define(name + schema)
    for name, fake in _fakes(new_state, layout).items():
        torch.library.register_fake(f"nestree_{backend}::{name}", fake, lib=library)


class ChartMask(NamedTuple):
    """Which charts a kernel computes, and the codes and weights of the masked one."""

    codes: Tensor | None
    entity_labels: int
    rejected_weight: float
    other_weight: float
    with_plain: bool = True

    @property
    def charts(self) -> int:
        """How many charts these are."""
        return chart_count(self.codes, self.with_plain)


ALL_TREES = ChartMask(None, 0, 0.0, 0.0)
"""The plain chart alone."""


def implement(backend: str, device: str, kernels: Mapping[str, Any]) -> None:
    """Registers a backend's kernels, under the operations' names, for one device type ("CPU", "CUDA").

    A kernel takes the operation's arguments, those from ``codes`` to ``other_weight`` or ``with_plain`` as one
    :class:`ChartMask`.
    """
    for name, schema in _SCHEMAS.items():
        if name in kernels:
            kernel = _kernels[backend, name, device.lower()] = _with_mask(kernels[name], schema)
            _libraries[backend].impl(name, kernel, device)


def _with_mask(kernel: Callable[..., Any], schema: str) -> Callable[..., Any]:
    names = [argument.split()[-1] for argument in schema[1:].split(")")[0].split(", ")]
    if "codes" not in names:
        return kernel
    first = names.index("codes")
    last = names.index("with_plain" if "with_plain" in names else "other_weight") + 1

    def call(*arguments: Any) -> Any:
        return kernel(*arguments[:first], ChartMask(*arguments[first:last]), *arguments[last:])

    return call


def operations(backend: str) -> Any:
    """The operations of a backend."""
    return getattr(torch.ops, f"nestree_{backend}")


def operation(backend: str, name: str, scores: Tensor) -> Callable[..., Any]:
    """One operation for these scores: its kernel itself where nobody could have a say in between.

    The way through torch's dispatcher takes longer than a small kernel runs. Tensors that stand for others (in
    ``torch.compile``, ``torch.func``, under a mode) need it.
    """
    watched = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or type(scores) is not Tensor
    if not watched and not torch._C._functorch.is_functorch_wrapped_tensor(scores):
        kernel = _kernels.get((backend, name, scores.device.type))
        if kernel is not None:
            return kernel
    found: Callable[..., Any] = getattr(operations(backend), name)
    return found


def chart_count(codes: Tensor | None, with_plain: bool) -> int:
    """How many charts a call computes."""
    return int(codes is not None) + int(with_plain)


def entropy_of(log_partition: Tensor, mean: Tensor) -> Tensor:
    """The entropy from the log partition and the expected score; 0 where no tree is possible. Shape: ``[batch]``."""
    return torch.where(log_partition == float("-inf"), 0.0, log_partition - mean)


def scaled(gradient: Tensor, grad: Tensor) -> Tensor:
    """A gradient of one value per sentence, times what came from above. Shape: as the scores, and ``[batch]``."""
    return gradient * grad.to(gradient.dtype)[:, None, None, None]


def new_normal(scores: Tensor) -> Tensor:
    """Zeros for normalised scores, in float32 at least."""
    dtype = scores.dtype if scores.dtype == torch.float64 else torch.float32
    return torch.zeros_like(scores, dtype=dtype, memory_format=torch.contiguous_format)


def _fakes(new_state: NewState, layout: torch.memory_format) -> dict[str, Callable[..., Any]]:
    """For each operation a function that returns tensors of the right shape and type."""

    def double(scores: Tensor, *shape: int | torch.SymInt) -> Tensor:
        return scores.new_empty(shape, dtype=torch.float64)

    def inside(scores, lengths, codes, entity_labels, rejected_weight, other_weight, with_plain, keep, strict):  # type: ignore[no-untyped-def]
        charts = chart_count(codes, with_plain)
        state = new_state(scores, charts, False) if keep else double(scores, 0)
        return double(scores, charts, scores.shape[0]), state

    def log_prob(scores, lengths, codes, entity_labels, rejected_weight, other_weight, keep, strict):  # type: ignore[no-untyped-def]
        state = new_state(scores, 2, False) if keep else double(scores, 0)
        return scores.new_empty(scores.shape[:1]), state

    def entropy(scores: Tensor, lengths: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        state = new_state(scores, 1, True) if keep else double(scores, 0)
        return double(scores, scores.shape[0]), state

    def gradient(scores: Tensor) -> Tensor:
        return torch.empty_like(scores, memory_format=layout)

    def trees(scores: Tensor, *leading: int | torch.SymInt) -> Tensor:
        return scores.new_empty((*leading, *scores.shape[:3]), dtype=torch.int64)

    return {
        "inside": inside,
        "log_prob": log_prob,
        "log_prob_backward": lambda grad, scores, *rest: gradient(scores),
        "marginals": lambda weights, scores, *rest: gradient(scores),
        "slopes": lambda weights, scores, *rest: (torch.empty_like(weights, dtype=torch.float64), gradient(scores)),
        "expectation": lambda scores, *rest: (double(scores, scores.shape[0]), double(scores, scores.shape[0])),
        "entropy": entropy,
        "entropy_backward": lambda grad, scores, *rest: gradient(scores),
        "best_tree": lambda scores, lengths: trees(scores),
        "sample": lambda scores, lengths, uniforms: trees(scores, uniforms.shape[0]),
        "topk": lambda scores, lengths, k: trees(scores, k),
        "normalize": lambda scores, *rest: (new_normal(scores), double(scores, scores.shape[0])),
        "normalize_backward": lambda grad, scores, *rest: torch.empty_like(scores),
    }
