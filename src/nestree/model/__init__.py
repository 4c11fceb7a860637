"""The model: a pretrained encoder, a biaffine scorer, and a TreeCRF over their scores."""

from nestree.model.config import ModelConfig
from nestree.model.errors import ModelError
from nestree.model.ner import NestedNER
from nestree.model.spans import Node, Span, Steps

__all__ = ["ModelConfig", "ModelError", "NestedNER", "Node", "Span", "Steps"]
