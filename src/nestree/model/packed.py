"""Products with weights that are laid out once as a CPU likes them best.

torch lays a weight out anew for every product, in whatever library it was built with. oneDNN, which comes with torch,
can keep the layout, and add the activation while the result is still in the caches. That takes operations of torch that
its compiler uses and its documentation does not name: where they are missing, or compute something else, all is as
usual.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

MOST_BYTES = 512 * 2**20
"""Models with more weights are left as they are: every weight is kept twice."""
ROWS = 1024
"""Of a usual product; the layout suits all."""
STEPS = ((256, 8), (1024, 16), (2048, 32), (1 << 62, 64))
"""Products of at most so many rows have a multiple of so many. What oneDNN compiles for a shape it keeps for the last
1,024 shapes; sentences have more, and to compile for each anew takes time, and leaves the memory in pieces."""


class _Kept(NamedTuple):
    """A weight in its layout, and by what it is known that it has not changed since."""

    layout: Tensor
    version: int
    place: int


class PackedWeights:
    """The weights of a model, as they were when they were last needed.

    Args:
        model: whose products it is about. Nothing of it is changed.
    """

    def __init__(self, model: nn.Module) -> None:
        linear = [one for one in model.modules() if type(one) is nn.Linear]
        weights = [one.weight for one in linear if one.weight.dtype == torch.float32]
        self._known: Any = WeakIdKeyDictionary()
        if sum(one.numel() * one.element_size() for one in weights) <= MOST_BYTES:
            for weight in weights:
                self._known[weight] = None
        self._activated: Any = WeakIdKeyDictionary()
        for part in model.modules():
            dense = getattr(part, "dense", None)
            if isinstance(dense, nn.Linear) and _is_product_and_gelu(part):
                self._activated[dense.weight] = True

    def layout(self, weight: Tensor) -> Tensor | None:
        """A weight as oneDNN likes it; None: it is not one of the model's."""
        if weight not in self._known or weight.is_inference():  # of which nobody knows whether they have changed
            return None
        kept, version, place = self._known[weight], weight._version, weight.data_ptr()
        if kept is None or (kept.version, kept.place) != (version, place):
            kept = _Kept(torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS), version, place)
            self._known[weight] = kept
        return kept.layout

    def is_activated(self, weight: Tensor) -> bool:
        """Whether nothing but GELU is done with products of this weight."""
        return weight in self._activated


_OF_MODELS: WeakKeyDictionary[nn.Module, PackedWeights] = WeakKeyDictionary()


def packed_products(model: nn.Module, pieces: Tensor) -> AbstractContextManager[Any]:
    """Within it, a model reads pieces as fast as it can here."""
    weights = _OF_MODELS.get(model)
    if weights is None:
        weights = _OF_MODELS[model] = PackedWeights(model)
    return PackedProducts(weights) if by_hand(pieces) and is_worth_it() else nullcontext()


def by_hand(pieces: Tensor) -> bool:
    """Whether what is read here and now may be computed in other ways than torch's own: on a CPU, without gradients."""
    wanted = pieces.device.type == "cpu" and not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[no-untyped-call, attr-defined]
    return wanted and not traced


class PackedProducts(TorchFunctionMode):
    """Within it, products with a model's weights use the layouts that are kept."""

    def __init__(self, weights: PackedWeights) -> None:
        super().__init__()
        self._weights = weights
        self._done: Tensor | None = None
        """What is activated already."""
        self._padded: tuple[Tensor, Tensor] | None = None
        """The last words, which are often used again, and the same with more rows."""

    def __torch_function__(
        self, function: Any, types: Any, values: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        if function is functional.linear and not options and len(values) == 3:
            words, weight, bias = values
            layout = self._weights.layout(weight) if words.dtype == torch.float32 and words.dim() > 1 else None
            if layout is not None:
                gelu = self._weights.is_activated(weight)
                found = product(self._with_more_rows(words), layout, bias, gelu=gelu)
                result = found[: _rows(words)].view(*words.shape[:-1], -1)
                if gelu:
                    self._done = result
                return result
        elif function is functional.gelu and len(values) == 1:
            (words,) = values
            if words is self._done:
                self._done = None
                return words
            if words.dtype == torch.float32 and words.dim() > 1:  # compiled for each shape, too
                return functional.gelu(with_more_rows(words), **(options or {}))[: _rows(words)].view(words.shape)
        return function(*values, **(options or {}))

    def _with_more_rows(self, words: Tensor) -> Tensor:
        if self._padded is None or self._padded[0] is not words:
            self._padded = words, with_more_rows(words)
        return self._padded[1]


def with_more_rows(words: Tensor) -> Tensor:
    """Words as rows, and some more below them, so that there are few numbers of rows. Shape: ``[row, hidden]``."""
    width, rows = words.shape[-1], _rows(words)
    wanted = more_rows(rows)
    if words.is_contiguous():
        behind = words.untyped_storage().nbytes() // words.element_size() - words.storage_offset()
        if behind >= wanted * width:  # there is something, as in our own results, and it does not matter what
            return words.as_strided((wanted, width), (width, 1))
    padded = words.new_zeros(wanted, width)
    padded[:rows] = words.reshape(rows, width)
    return padded


def more_rows(rows: int) -> int:
    """So many rows or some more."""
    step = next(step for most, step in STEPS if rows <= most)
    return -(-rows // step) * step


def _rows(words: Tensor) -> int:
    return words.numel() // max(1, words.shape[-1])


def product(words: Tensor, layout: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
    """``words @ weight.T + bias``, and GELU of it."""
    activation, exactly = ("gelu", "none") if gelu else ("none", "")
    result: Tensor = torch.ops.mkldnn._linear_pointwise(words, layout, bias, activation, [], exactly)
    return result


def _is_product_and_gelu(part: nn.Module) -> bool:
    """BERT and its kin have a part for these two steps."""
    from transformers.activations import GELUActivation

    names = {name for name, _ in part.named_children()}
    if names != {"dense", "intermediate_act_fn"}:
        return False
    activation = part.get_submodule("intermediate_act_fn")
    return isinstance(activation, GELUActivation) and activation.act is functional.gelu


@cache
def is_worth_it() -> bool:
    """Whether these products are the faster ones: with AVX-512 they are; without it, those that torch is built with."""
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512") and is_there()


@cache
def is_there() -> bool:
    """Whether torch has the operations here, and they compute what they should."""
    if not torch.backends.mkldnn.is_available():
        return False
    random = torch.Generator().manual_seed(0)
    words, weight, bias = (torch.randn(*shape, generator=random) for shape in ((3, 5, 16), (32, 16), (32,)))
    expected = functional.linear(words, weight, bias)
    try:
        layout = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
        found = product(words, layout, bias), product(words, layout, bias, gelu=True)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    wanted = expected, functional.gelu(expected)
    return all(torch.allclose(one, other, atol=1e-5) for one, other in zip(found, wanted, strict=True))
