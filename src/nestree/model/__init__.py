"""The model: a pretrained encoder, a biaffine scorer, and a TreeCRF over their scores."""

from nestree.model.config import ModelConfig
from nestree.model.ner import NestedNER, Span

__all__ = ["ModelConfig", "NestedNER", "Span"]
