"""How good predictions are. No torch here.

::

    from nestree.data import read
    from nestree.evaluation import score
    scores = score(read("test.jsonl"), read("predictions.jsonl"))
    print(scores.micro.f1, scores.labels["protein"].recall, scores.unreachable)

For predictions of other systems, other ways to match and kinds of entities there is :func:`evaluate`.
"""

from nestree.evaluation.alignment import paired
from nestree.evaluation.breakdowns import BREAKDOWNS, Credits, Seen
from nestree.evaluation.evaluator import Evaluation, Evaluator, evaluate
from nestree.evaluation.matching import MATCHES, Match, Pair, pairs
from nestree.evaluation.metrics import UNREACHABLE, Counts, Scores, Tally, score, with_split_labels

__all__ = [
    "BREAKDOWNS",
    "MATCHES",
    "UNREACHABLE",
    "Counts",
    "Credits",
    "Evaluation",
    "Evaluator",
    "Match",
    "Pair",
    "Scores",
    "Seen",
    "Tally",
    "evaluate",
    "paired",
    "pairs",
    "score",
    "with_split_labels",
]
