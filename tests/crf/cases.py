"""Random sentences and partial trees for the tests."""

from __future__ import annotations

import random

import torch
from torch import Tensor

NEVER = float("-inf")


def random_scores(
    batch: int, n: int, labels: int, *, scale: float = 1.0, dtype: torch.dtype = torch.float64, holes: float = 0.0
) -> Tensor:
    """Normal scores, of which a share is -inf."""
    scores = torch.randn(batch, n, n, labels, dtype=torch.float64) * scale
    return scores.masked_fill(torch.rand(scores.shape) < holes, NEVER).to(dtype)


def random_nesting(rng: random.Random, n: int, labels: int, keep: float = 0.4) -> list[tuple[int, int, int]]:
    """Some nodes of a random binary tree over n words, with labels: spans that cannot cross."""
    spans = []

    def visit(i: int, j: int) -> None:
        if rng.random() < keep:
            spans.append((i, j, rng.randrange(labels)))
        if i < j:
            split = rng.randrange(i, j)
            visit(i, split)
            visit(split + 1, j)

    visit(0, n - 1)
    rng.shuffle(spans)
    return spans
