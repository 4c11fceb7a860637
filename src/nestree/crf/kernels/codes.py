"""One small integer per span: what a partial tree says about it, and the dense mask it stands for."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

LATENT = -1
"""The span may be a tree node, with a latent label."""
REJECTED = -2
"""The span crosses an observed one, lies below the diagonal, or reaches past the sentence's end."""
FIRST_SET = -3
"""The span's labels weigh what the first set says; ``FIRST_SET - s`` names set s. Kernels take a dense mask then."""


class SpanCodes(NamedTuple):
    """A mask over labels in its small form.

    ``codes[b, i, j]`` is the observed label of span ``(i, j)``, or :data:`LATENT`, or :data:`REJECTED`. An observed
    label and the latent labels of a latent span weigh 1, any label of a rejected span weighs ``rejected_weight``, and
    every other label weighs ``other_weight``.
    """

    codes: Tensor  # int16 [batch, n, n]
    entity_labels: int
    rejected_weight: float = 0.0
    other_weight: float = 0.0

    def dense(self, labels: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """The mask itself. Shape: ``[batch, n, n, labels]``."""
        codes = self.codes[..., None]
        label = torch.arange(labels, device=codes.device)
        allowed = (codes == label) | ((codes == LATENT) & (label >= self.entity_labels))
        mask = torch.full(allowed.shape, self.other_weight, dtype=dtype, device=codes.device)
        return mask.masked_fill_(codes == REJECTED, self.rejected_weight).masked_fill_(allowed, 1.0)


def span_grid(lengths: Tensor, n: int) -> Tensor:
    """Where a chart holds spans: from the diagonal up, within the sentence. Shape: ``[batch]`` to ``[batch, n, n]``."""
    index = torch.arange(n, device=lengths.device)
    return (index[:, None] <= index) & (index < lengths[:, None, None])


def mask_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """``scores + log(mask)``, with gradients for the scores only and none where the mask is 0.

    Shape: ``scores`` ``[batch, n, n, label]``, ``mask`` the same: booleans, or weights >= 0.
    """
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, float("-inf"))
    weights = mask.detach().to(scores.dtype)
    return (scores + torch.where(weights > 0, weights, 1.0).log()).masked_fill(weights == 0, float("-inf"))
