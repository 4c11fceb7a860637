"""The paper's algorithms as the paper writes them: plain, slow, for one sentence, readable beside its text.

They multiply and add real numbers (float64) in loops over spans, so they are for short sentences: tests, and the table
that compares their speed. Only two things differ from the paper: words count from 0, and sums over label pairs are
written as products of sums. Scores are ``[n, n, label]``; all results are differentiable.
"""

from __future__ import annotations

import torch
from torch import Tensor

OBSERVED, LATENT, REJECTED = "●", "□", "○"


def symbol_tree_and_mask(
    n: int, partial_tree: dict[tuple[int, int], int], entity_labels: int, latent_labels: int
) -> tuple[list[list[str]], Tensor]:
    """Algorithm 1: symbol tree and mask construction.

    ``partial_tree`` maps each observed span ``(i, j)`` to its label. Returns the symbol tree, an n × n matrix of which
    the upper triangle counts, and the mask ``M[i, j, k]``.
    """
    labels = entity_labels + latent_labels
    # Initialise all nodes as latent.
    symbols = [[LATENT] * n for _ in range(n)]
    mask = torch.zeros(n, n, labels, dtype=torch.float64)
    mask[:, :, entity_labels:] = 1
    for (i, j), k in partial_tree.items():  # observe entity (i, j) with label k
        symbols[i][j] = OBSERVED
        mask[i, j, :] = 0
        mask[i, j, k] = 1
        # All spans whose boundaries cross those of (i, j).
        for a in range(n):
            for b in range(a, n):
                if (a < i <= b < j) or (i < a <= j < b):
                    symbols[a][b] = REJECTED
                    mask[a, b, :] = 0
    return symbols, mask


def inside_for_partial_marginalization(
    scores: Tensor,
    partial_tree: dict[tuple[int, int], int],
    symbols: list[list[str]],
    entity_labels: int,
) -> Tensor:
    """Algorithm 2: s(T), with a case for each kind of node."""
    n, labels = scores.shape[0], scores.shape[2]
    weight = scores.double().exp()
    nothing = weight.new_zeros(labels)
    beta: dict[tuple[int, int], Tensor] = {}

    def keep(i: int, j: int) -> Tensor:
        """Which labels this node may take."""
        kept = nothing.clone()
        if symbols[i][j] == OBSERVED:
            kept[partial_tree[i, j]] = 1
        elif symbols[i][j] == LATENT:
            kept[entity_labels:] = 1
        return kept

    for i in range(n):
        beta[i, i] = torch.where(keep(i, i) > 0, weight[i, i], nothing)
    for d in range(1, n):
        for i in range(n - d):
            j = i + d
            if symbols[i][j] == REJECTED:
                beta[i, j] = nothing
                continue
            splits = _sum([beta[i, m].sum() * beta[m + 1, j].sum() for m in range(i, j)])
            beta[i, j] = torch.where(keep(i, j) > 0, weight[i, j] * splits, nothing)
    return beta[0, n - 1].sum().log()


def masked_inside(scores: Tensor, mask: Tensor) -> Tensor:
    """Algorithm 3: s(T), with the cases folded into the mask ``M[i, j, k]``."""
    n = scores.shape[0]
    weight = mask * scores.double().exp()
    beta: dict[tuple[int, int], Tensor] = {(i, i): weight[i, i] for i in range(n)}
    for d in range(1, n):
        for i in range(n - d):  # the paper does these in parallel
            j = i + d
            beta[i, j] = weight[i, j] * _sum([beta[i, m].sum() * beta[m + 1, j].sum() for m in range(i, j)])
    return beta[0, n - 1].sum().log()


def inside(scores: Tensor) -> Tensor:
    """Vanilla Inside: log Z, the sum over all labelled trees."""
    return masked_inside(scores, torch.ones_like(scores, dtype=torch.float64))


def _sum(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).sum()
