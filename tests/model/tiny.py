"""A very small encoder that nobody has to download."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel, BertTokenizerFast

from nestree.model import ModelConfig, NestedNER

LABELS = ("ORG", "PER")
SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
"""Of an encoder without a tokenizer, for those that take BERT's settings."""


def encoder(folder: Path, positions: int = 64) -> tuple[nn.Module, Any]:
    """A BERT of two layers with random weights, and a tokenizer whose pieces are letters."""
    letters = string.ascii_lowercase + string.digits
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"))
    torch.manual_seed(0)
    settings = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    return BertModel(settings, add_pooling_layer=False), tokenizer


def model(folder: Path, positions: int = 64, **settings: Any) -> NestedNER:
    """A model on that encoder."""
    torch.manual_seed(1)
    return NestedNER(ModelConfig(LABELS, **settings), *encoder(folder, positions))
