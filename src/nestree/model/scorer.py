"""From vectors of words to a score for every labelled span (the paper's Section 3.1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class SpanScorer(nn.Module):
    """Dropout, two feed-forward layers (h, then h/2), and a biaffine form for each label.

    ``s[i, j, k] = e[i]ᵀ U1[k] e[j] + (e[i] + e[j])ᵀ U2[k] + b[k]`` (Equation 2). "bilinear" is the first term alone;
    "biaffine-separate" has own layers, and own linear terms, for the start and the end of a span.

    Weights start so small that scores have a standard deviation of about 1, with or without normalisation.
    """

    def __init__(self, hidden: int, labels: int, *, kind: str = "biaffine", dropout: float = 0.2) -> None:
        super().__init__()
        size = hidden // 2
        self.kind = kind
        self.start = _layers(hidden, size, dropout)
        self.end = _layers(hidden, size, dropout) if kind == "biaffine-separate" else None
        self.bilinear = nn.Parameter(torch.randn(labels, size, size) / size)
        self.linear = self.bias = None
        if kind != "bilinear":
            ends = 1 if self.end is None else 2
            self.linear = nn.Parameter(torch.randn(ends, size, labels) / math.sqrt(2 * size))
            self.bias = nn.Parameter(torch.zeros(labels))

    def forward(self, words: Tensor) -> Tensor:
        """Scores of all spans. Shape: ``[batch, n, hidden]`` to ``[batch, n, n, label]``."""
        start = self.start(words)
        end = start if self.end is None else self.end(words)
        scores = torch.einsum("bid,kde,bje->bijk", start, self.bilinear, end)
        if self.linear is not None:
            scores = scores + (start @ self.linear[0])[:, :, None] + (end @ self.linear[-1])[:, None]
            scores = scores + self.bias
        return scores


def _layers(hidden: int, size: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, size), nn.LayerNorm(size)
    )
