"""From text, words or documents to predicted entities, and to what is worth annotating next."""

from nestree.prediction.documents import Pages, annotate
from nestree.prediction.results import Alternative, PredictedEntity, Prediction, TreeNode
from nestree.prediction.suggestions import Suggestion, SuggestOptions, suggest
from nestree.prediction.trees import annotate_with_trees

__all__ = [
    "Alternative",
    "Pages",
    "PredictedEntity",
    "Prediction",
    "SuggestOptions",
    "Suggestion",
    "TreeNode",
    "annotate",
    "annotate_with_trees",
    "suggest",
]
