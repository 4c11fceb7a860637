"""The most probable trees of sentences: what a model would say next, if its best tree were wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nestree.crf import TreeCRF


class TreePlace(NamedTuple):
    """A node of a tree: words ``[start, end)``, and its entity label, None if it is latent."""

    start: int
    end: int
    label: str | None


class Tree(NamedTuple):
    """A whole tree of a sentence, and its exact probability among all trees.

    Nodes stand before those within them. A node with several labels comes once for each.
    """

    probability: float
    nodes: tuple[TreePlace, ...]


def best_trees(scores: Tensor, lengths: Tensor, parts: Sequence[tuple[str, ...]], k: int) -> list[list[Tree]]:
    """The k most probable trees of each sentence, best first; fewer where there are not so many.

    Latent labels are summed out first, which leaves the sum over all trees as it is: trees that differ in nothing else
    are one tree, with the probability of all of them.

    Args:
        scores: log potentials; latent labels stand after the entity labels. Shape: ``[batch, n, n, label]``
        lengths: words in each sentence. Shape: ``[batch]``
        parts: of each entity label the labels that it stands for.
        k: how many, 1 at least.
    """
    wide = scores.double()
    latent = wide[..., len(parts) :].logsumexp(-1, keepdim=True)
    crf = TreeCRF(torch.cat([wide[..., : len(parts)], latent], -1), lengths.to(scores.device))
    values, charts = crf.topk(k)
    probabilities = (values - crf.log_partition).exp().T.tolist()
    labels: list[tuple[str | None, ...]] = [*parts, (None,)]
    nodes: list[list[list[TreePlace]]] = [[[] for _ in range(k)] for _ in range(len(scores))]
    for (rank, sentence, start, last), label in _places(charts):
        nodes[sentence][rank] += [TreePlace(start, last + 1, name) for name in labels[label]]
    return [
        [
            Tree(min(1.0, probability), tuple(sorted(one, key=lambda node: (node.start, -node.end))))
            for probability, one in zip(of_sentence, trees, strict=True)
            if one
        ]
        for of_sentence, trees in zip(probabilities, nodes, strict=True)
    ]


def _places(charts: Tensor) -> list[tuple[list[int], int]]:
    """Where there are nodes (tree, sentence, start, last word), and their labels."""
    places = torch.nonzero(charts >= 0)
    return list(zip(places.tolist(), charts[tuple(places.T)].tolist(), strict=True))
