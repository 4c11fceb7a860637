"""The loss without trees: every span for itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nestree.crf import PartialTrees
from nestree.crf.kernels.codes import REJECTED, mask_scores, span_grid


def local_loss(scores: Tensor, observed: PartialTrees, entity_labels: int) -> Tensor:
    """One softmax per span: entities their label, all other spans the first latent label; the mean over sentences.

    Where annotation leaves several labels open, their probabilities are added up, by their weights.
    """
    if observed.sets is not None:
        return _of_sets(scores, observed)
    codes = observed.codes.to(scores.device).long()
    n = codes.shape[1]
    grid = torch.ones(n, n, dtype=torch.bool, device=codes.device).triu()
    grid = grid & (torch.arange(n, device=codes.device) < observed.lengths.to(codes.device)[:, None, None])
    targets = torch.where(codes >= 0, codes, entity_labels).masked_fill(~grid, -100)
    total = nn.functional.cross_entropy(scores.flatten(0, 2), targets.flatten(), ignore_index=-100, reduction="sum")
    return total / len(codes)


def _of_sets(scores: Tensor, observed: PartialTrees) -> Tensor:
    mask, entity_labels = observed.mask(), observed.entity_labels
    label = torch.arange(mask.shape[3], device=mask.device)
    mask = torch.where((observed.codes == REJECTED)[..., None], (label == entity_labels).to(mask.dtype), mask)
    mask = mask * (label <= entity_labels)  # as without sets, of the latent labels the first one counts
    grid = span_grid(observed.lengths, mask.shape[1])
    allowed = mask_scores(scores, mask).logsumexp(-1)
    return torch.where(grid, scores.logsumexp(-1) - allowed, 0.0).sum() / len(mask)
