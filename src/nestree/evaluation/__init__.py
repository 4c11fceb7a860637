"""How good predictions are. No torch here.

::

    from nestree.data import read
    from nestree.evaluation import score
    scores = score(read("test.jsonl"), read("predictions.jsonl"))
    print(scores.micro.f1, scores.labels["protein"].recall, scores.unreachable)
"""

from nestree.evaluation.metrics import UNREACHABLE, Counts, Scores, Tally, score, with_split_labels

__all__ = ["UNREACHABLE", "Counts", "Scores", "Tally", "score", "with_split_labels"]
