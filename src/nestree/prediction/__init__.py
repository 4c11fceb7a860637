"""From documents to documents with predicted entities."""

from nestree.prediction.documents import Pages, annotate

__all__ = ["Pages", "annotate"]
