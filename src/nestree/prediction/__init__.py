"""From documents to documents with predicted entities."""

from nestree.prediction.documents import Pages, annotate
from nestree.prediction.trees import annotate_with_trees

__all__ = ["Pages", "annotate", "annotate_with_trees"]
