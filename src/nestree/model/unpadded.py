"""BERT on a CPU, without padding and in few steps.

Sentences of a batch differ in length. All that a BERT does with single pieces, which is most of its work, is done here
with those of all sentences in one row after the other; only attention needs them side by side. Where each layer of
transformers takes some thirty calls through modules, this takes a dozen: for a single sentence, that is half the time.

The weights are those of the model, laid out as :mod:`nestree.model.packed` does where that is worth it. Encoders that
are anything but a plain BERT are left to transformers, and so is one that somebody looks into. Weights that change are
made ready anew; what is changed in place by way of ``weight.data`` is not noticed, as torch does not count it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as _anywhere

from nestree.model import packed


class Product:
    """Products of words with one weight, or with several side by side; made ready anew when one of them has changed."""

    def __init__(self, *parts: nn.Linear, gelu: bool = False) -> None:
        self._parts = parts
        self._gelu = gelu
        self._seen: tuple[tuple[int, int], ...] = ()
        self._held: list[Tensor] = []
        self._ready: tuple[Tensor, Tensor, bool] | None = None
        """The weight, the bias, and whether the weight is laid out."""

    @property
    def weights(self) -> list[Tensor]:
        """And biases."""
        return [one for part in self._parts for one in (part.weight, part.bias)]

    def __call__(self, words: Tensor) -> Tensor:
        """Shape: ``[row, hidden]`` to ``[row, other]``."""
        seen = tuple((one._version, one.data_ptr()) for one in self.weights)
        if self._ready is None or seen != self._seen:
            self._held = [one.detach() for one in self.weights]  # so that no other weight comes to lie there
            weight, bias = _side_by_side(self._held[::2]), _side_by_side(self._held[1::2])
            laid_out = packed.is_worth_it()
            if laid_out:
                weight = torch.ops.mkldnn._reorder_linear_weight(weight, packed.ROWS)
            self._ready, self._seen = (weight, bias, laid_out), seen
        weight, bias, laid_out = self._ready
        if laid_out:
            return packed.product(words, weight, bias, gelu=self._gelu)
        result = functional.linear(words, weight, bias)
        return functional.gelu(result) if self._gelu else result


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


@dataclass(frozen=True)
class Layer:
    """The parts of a layer, in the order in which they are used."""

    heads: int
    attended: Product
    mixed: Product
    norm: nn.LayerNorm
    widened: Product
    narrowed: Product
    last_norm: nn.LayerNorm

    def __call__(self, words: Tensor, rows: Rows) -> Tensor:
        """Shape: ``[row, hidden]``."""
        heads = rows.side_by_side(self.attended(words)).unflatten(-1, (3, self.heads, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=rows.mask)
        words = _normed(self.norm, self.mixed(rows.in_a_row(mixed.transpose(1, 2).flatten(2))), words)
        return _normed(self.last_norm, self.narrowed(self.widened(words)), words)


class Rows:
    """Where the pieces of a batch are, side by side in windows and one after the other without padding.

    Args:
        attention: which places hold a piece. Shape: ``[window, piece]``
        full: all of them do.
    """

    def __init__(self, attention: Tensor, full: bool) -> None:
        self._shape = attention.shape
        places = attention.flatten().nonzero()[:, 0] if not full else torch.arange(attention.numel())
        self._places = places
        # Some more, which come to nothing, so that there are few numbers of rows.
        self.places = torch.cat([places, places.new_zeros(packed.more_rows(len(places)) - len(places))])
        self.mask = None if full else attention.bool()[:, None, None]

    def side_by_side(self, words: Tensor) -> Tensor:
        """Shape: ``[row, hidden]`` to ``[window, piece, hidden]``."""
        number = len(self._places)
        if self.mask is None:
            return words[:number].unflatten(0, self._shape)
        padded = words.new_zeros(self._shape.numel(), words.shape[1])
        return padded.index_copy_(0, self._places, words[:number]).unflatten(0, self._shape)

    def in_a_row(self, words: Tensor) -> Tensor:
        """Shape: ``[window, piece, hidden]`` to ``[row, hidden]``."""
        return words.flatten(0, 1).index_select(0, self.places)


class UnpaddedBert:
    """What a BERT computes."""

    def __init__(self, model: Any) -> None:
        self._parts = tuple(model.modules())[1:]  # not the model, which is forgotten when nobody else holds it
        self._embeddings = model.embeddings
        self._layers = [_layer(one) for one in model.encoder.layer]

    def is_of(self, parts: Sequence[nn.Module]) -> bool:
        """Whether the model still has the same parts."""
        return len(parts) == len(self._parts) + 1 and all(map(operator.is_, parts[1:], self._parts))

    def __call__(self, pieces: Tensor, attention: Tensor, full: bool) -> Tensor:
        """Vectors of pieces. Shape: ``[window, piece]`` both, to ``[window, piece, hidden]``."""
        rows, own = Rows(attention, full), self._embeddings
        positions = rows.places % pieces.shape[1]
        words = functional.embedding(pieces.flatten()[rows.places], own.word_embeddings.weight)
        words += own.token_type_embeddings.weight[0]
        words += functional.embedding(positions, own.position_embeddings.weight)
        words = _normed(own.LayerNorm, words)
        for layer in self._layers:
            words = layer(words, rows)
        return rows.side_by_side(words)


_OF_MODELS: WeakKeyDictionary[nn.Module, UnpaddedBert] = WeakKeyDictionary()


_UNPADDED: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def is_unpadded(model: nn.Module) -> bool:
    """Whether a model reads without padding on a CPU, all of its encoders; as it was when it was first asked."""
    if model not in _UNPADDED:
        encoders = [one for one in model.modules() if hasattr(one, "get_input_embeddings")]
        parts = [tuple(one.modules()) for one in encoders]
        plain = bool(encoders) and all(map(_is_plain_bert, encoders, parts)) and all(map(_can_be_read, encoders, parts))
        _UNPADDED[model] = plain
    return _UNPADDED[model]


def unpadded(model: nn.Module, pieces: Tensor) -> UnpaddedBert | None:
    """The same BERT without padding; None if it is none, or if that is of no use here and now."""
    if not packed.by_hand(pieces) or model.training or type(model).__name__ != "BertModel":
        return None
    parts = tuple(model.modules())
    found = _OF_MODELS.get(model)
    if not _can_be_read(model, parts):
        _OF_MODELS.pop(model, None)
        return None
    if found is None or not found.is_of(parts):
        if not _is_plain_bert(model, parts):
            _OF_MODELS.pop(model, None)
            return None
        found = _OF_MODELS[model] = UnpaddedBert(model)
    return found


def _layer(one: Any) -> Layer:
    attention = one.attention.self
    return Layer(
        attention.num_attention_heads,
        Product(attention.query, attention.key, attention.value),
        Product(one.attention.output.dense),
        one.attention.output.LayerNorm,
        Product(one.intermediate.dense, gelu=True),
        Product(one.output.dense),
        one.output.LayerNorm,
    )


def _normed(norm: nn.LayerNorm, words: Tensor, more: Tensor | None = None) -> Tensor:
    if more is not None:
        words = words.add_(more)
    return functional.layer_norm(words, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def _can_be_read(model: nn.Module, parts: Sequence[nn.Module]) -> bool:
    """Whether all weights are here, in float32, and nobody looks on or steps in as they are used."""
    if _anywhere._global_forward_hooks or _anywhere._global_forward_pre_hooks:
        return False
    if getattr(model.config, "_attn_implementation", None) not in ("sdpa", "eager"):
        return False
    for part in parts:
        if part._forward_hooks or part._forward_pre_hooks or "forward" in part.__dict__:
            return False
        for one in part._parameters.values():
            if type(one) is not nn.Parameter or one.dtype is not torch.float32 or not one.is_cpu or one.is_inference():
                return False
    return True


def _is_plain_bert(model: nn.Module, parts: Sequence[nn.Module]) -> bool:
    """Whether it has the parts of a BERT of transformers and no others, and is not too large."""
    from transformers.activations import GELUActivation
    from transformers.models.bert import modeling_bert as bert

    names = ("Model", "Embeddings", "Encoder", "Layer", "Attention", "SelfAttention", "SelfOutput", "Intermediate")
    known = {getattr(bert, f"Bert{name}", None) for name in (*names, "Output")}
    known |= {nn.Linear, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.ModuleList, GELUActivation}
    settings: Any = model.config
    if type(model) is not bert.BertModel or not {type(one) for one in parts} <= known or settings.is_decoder:
        return False
    laid_out = sum(one.weight.numel() for one in parts if isinstance(one, nn.Linear))
    plain = all(one.max_norm is None for one in parts if isinstance(one, nn.Embedding))
    activations = [one for one in parts if isinstance(one, GELUActivation)]
    exact = bool(activations) and all(one.act is functional.gelu for one in activations)
    return exact and plain and 4 * laid_out <= packed.MOST_BYTES
