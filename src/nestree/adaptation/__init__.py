"""Adapting an encoder to text: it goes on guessing hidden words, as it was pretrained."""

from nestree.adaptation.config import AdaptConfig
from nestree.adaptation.loop import adapt
from nestree.adaptation.progress import AdaptProgress
from nestree.adaptation.state import AdaptResult
from nestree.adaptation.text import Text, read_text

__all__ = ["AdaptConfig", "AdaptProgress", "AdaptResult", "Text", "adapt", "read_text"]
