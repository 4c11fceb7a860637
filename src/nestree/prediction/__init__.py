"""From text, words or documents to predicted entities."""

from nestree.prediction.documents import Pages, annotate
from nestree.prediction.results import PredictedEntity, Prediction, TreeNode
from nestree.prediction.trees import annotate_with_trees

__all__ = ["Pages", "PredictedEntity", "Prediction", "TreeNode", "annotate", "annotate_with_trees"]
