"""A pretrained encoder and its tokenizer, by name or folder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nestree.encoders import resolve
from nestree.model.pieces import Batch


def load(name: str) -> tuple[nn.Module, Any]:
    """An encoder with its weights, from safetensors only, and its tokenizer."""
    from transformers import AutoModel, AutoTokenizer

    where = resolve(name)
    model = AutoModel.from_pretrained(where, use_safetensors=True)
    return model, AutoTokenizer.from_pretrained(where, use_fast=True)


def limit_of(config: Any, tokenizer: Any) -> int:
    """How many pieces an encoder reads at a time."""
    positions = getattr(config, "max_position_embeddings", None) or 512
    if getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= 2  # they count positions from 2
    known = getattr(tokenizer, "model_max_length", None) or positions
    return int(min(positions, known))


class WordEncoder(nn.Module):
    """Vectors of words from vectors of their pieces.

    Args:
        model: the encoder.
        word: which pieces stand for a word: "first", "last" or "mean".
    """

    def __init__(self, model: nn.Module, word: str = "first") -> None:
        super().__init__()
        self.model = model
        self.word = word

    def forward(self, batch: Batch) -> Tensor:
        """Shape: ``[batch, n, hidden]``; what stands outside a sentence is not defined."""
        hidden = self.model(input_ids=batch.pieces, attention_mask=batch.attention).last_hidden_state
        flat = hidden.flatten(0, 1)
        if self.word != "mean":
            return flat[batch.first if self.word == "first" else batch.last]
        most = int((batch.last - batch.first).max()) + 1 if batch.first.numel() else 1
        at = batch.first[..., None] + torch.arange(most, device=flat.device)
        counts = at <= batch.last[..., None]
        pieces = flat[torch.where(counts, at, 0)] * counts[..., None]
        return pieces.sum(2) / counts.sum(2, keepdim=True)
