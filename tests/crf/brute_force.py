"""Every labelled tree of a short sentence, written out. The judge of all algorithms: nothing here is clever."""

from __future__ import annotations

from functools import cache
from itertools import product

import torch
from torch import Tensor

Bracketing = tuple[tuple[int, int], ...]


@cache
def bracketings(i: int, j: int) -> list[Bracketing]:
    """All binary trees over words i to j, each as its spans."""
    if i == j:
        return [((i, i),)]
    return [
        ((i, j), *left, *right)
        for split in range(i, j)
        for left in bracketings(i, split)
        for right in bracketings(split + 1, j)
    ]


@cache
def labelled_trees(n: int, labels: int) -> tuple[Tensor, Tensor]:
    """All labelled trees over n words: their charts ``[tree, n, n]``, and where their nodes lie in flat scores."""
    charts, nodes = [], []
    for spans in bracketings(0, n - 1):
        starts, ends = zip(*spans, strict=True)
        for choice in product(range(labels), repeat=len(spans)):
            chart = torch.full((n, n), -1)
            chart[list(starts), list(ends)] = torch.tensor(choice)
            charts.append(chart)
            nodes.append([(i * n + j) * labels + k for (i, j), k in zip(spans, choice, strict=True)])
    return torch.stack(charts), torch.tensor(nodes)


class EveryTree:
    """The distribution over the possible trees of one sentence as an explicit list. Scores: ``[n, n, label]``."""

    def __init__(self, scores: Tensor) -> None:
        self.scores = scores
        charts, nodes = labelled_trees(scores.shape[0], scores.shape[2])
        possible = (scores.detach().reshape(-1)[nodes] > float("-inf")).all(1)
        self.charts, self.nodes = charts[possible], nodes[possible]

    def total(self, of: Tensor) -> Tensor:
        """The sum of ``of`` over the nodes of each possible tree. Shape: ``[tree]``."""
        return of.reshape(-1)[self.nodes].sum(1)

    @property
    def tree_scores(self) -> Tensor:
        return self.total(self.scores)

    @property
    def log_partition(self) -> Tensor:
        if len(self.nodes):
            return self.tree_scores.logsumexp(0)
        return self.scores[self.scores.isfinite()].sum() * 0 + float("-inf")  # with a gradient, of zeros

    def masked(self, mask: Tensor) -> Tensor:
        """The log-sum over trees of mask × exp(score). Shape of the mask: ``[n, n, label]``."""
        weights = mask.to(self.scores.dtype).reshape(-1)[self.nodes].prod(1)
        return (self.tree_scores[weights > 0] + weights[weights > 0].log()).logsumexp(0)

    @property
    def probabilities(self) -> Tensor:
        return self.tree_scores.softmax(0)

    @property
    def marginals(self) -> Tensor:
        flat = torch.zeros(self.scores.numel(), dtype=self.scores.dtype)
        weights = self.probabilities[:, None].expand_as(self.nodes)
        return flat.index_add(0, self.nodes.reshape(-1), weights.reshape(-1)).view_as(self.scores)

    @property
    def entropy(self) -> Tensor:
        p = self.probabilities
        return -(p * p.log()).sum()

    def cross_entropy(self, other: Tensor) -> Tensor:
        log_q = self.total(other) - EveryTree(other).log_partition
        return -(self.probabilities * log_q).sum()

    def kl(self, other: Tensor) -> Tensor:
        return self.cross_entropy(other) - self.entropy
