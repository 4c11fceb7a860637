"""From log potentials to what is found: the entities of each sentence, or its tree, with exact probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from nestree.crf import TreeCRF
from nestree.crf.kernels import later
from nestree.crf.kernels.codes import span_grid
from nestree.model.config import ModelConfig
from nestree.model.spans import Chosen, Thresholds

Choose = Callable[[ModelConfig, Tensor, Tensor, Thresholds], Chosen]
"""What is found with these settings by log potentials and lengths. Shape: ``[batch, n, n, label]``, ``[batch]``."""


def entities(config: ModelConfig, scores: Tensor, lengths: Tensor, thresholds: Thresholds) -> Chosen:
    """Entities: of trees, or of a model without them; a column for each of ``config.single_labels``."""

    def choose() -> tuple[Tensor, Tensor]:
        if config.loss == "local":
            return _chosen_locally(config, scores, lengths, thresholds)
        crf = TreeCRF(scores, lengths)
        marginals = _of_single_labels(config, crf.marginals)
        return _chosen(config, crf, marginals, thresholds), marginals

    return _with_checks(choose)


def nodes(config: ModelConfig, scores: Tensor, lengths: Tensor, thresholds: Thresholds) -> Chosen:
    """The nodes of a tree: entities as :func:`entities` finds them, and the likeliest latent ones, a last column."""

    def choose() -> tuple[Tensor, Tensor]:
        crf = TreeCRF(scores, lengths)
        marginals = _of_single_labels(config, crf.marginals)
        chosen = _chosen(config, crf, marginals, thresholds)
        latent = crf.marginals[..., len(config.labels) :].sum(-1)
        if config.decoding == "map" and thresholds is None:
            found = crf.argmax >= 0
        else:  # each entity is worth more than all latent nodes together
            worth = torch.where(chosen.any(-1), scores.shape[1] + 1.0, latent)
            found = TreeCRF(worth[..., None], crf.lengths).argmax >= 0
        both = torch.cat([chosen, (found & ~chosen.any(-1))[..., None]], -1)
        return both, torch.cat([marginals, latent[..., None]], -1)

    return _with_checks(choose)


def _with_checks(choose: Callable[[], tuple[Tensor, Tensor]]) -> Chosen:
    (chosen, scores), checks = later.collecting(choose)
    return Chosen(chosen, scores, checks)


def _chosen(config: ModelConfig, crf: TreeCRF, marginals: Tensor, thresholds: Thresholds) -> Tensor:
    """Which spans are found to be entities, with which labels. Shape: ``[batch, n, n, single label]``."""
    if config.decoding == "map":
        labels = torch.arange(len(config.labels), device=marginals.device)
        found = _of_single_labels(config, (crf.argmax[..., None] == labels).to(marginals.dtype)) > 0
        return found if thresholds is None else found & (marginals >= _limits(thresholds, 0.0, marginals))
    if thresholds is None:
        return marginals > 0.5  # the fewest errors to be expected. No two of them cross: no tree has both
    limits = _limits(thresholds, 0.5, marginals)
    enough = marginals >= limits
    if all(one is not None and one > 0.5 for one in thresholds):
        return enough
    # Several may be probable enough that no tree holds together: of one tree, those that exceed by most in all.
    gain = torch.where(enough, marginals - limits + 1e-6, 0.0)  # just enough is better than latent
    if not config.has_joined_labels:  # a node has one label
        enough &= gain == gain.amax(-1, keepdim=True)
    total = torch.where(enough, gain, 0.0).sum(-1)
    worth = torch.stack([torch.where(total > 0, total, -torch.inf), torch.zeros_like(total)], -1)
    return enough & (TreeCRF(worth, crf.lengths).argmax == 0)[..., None]


def _chosen_locally(
    config: ModelConfig, scores: Tensor, lengths: Tensor, thresholds: Thresholds
) -> tuple[Tensor, Tensor]:
    """The same without trees: the best label of each span, or those that are probable enough; and probabilities."""
    probabilities = scores.softmax(-1)
    marginals = _of_single_labels(config, probabilities)
    if thresholds is None:
        best = probabilities.argmax(-1)[..., None] == torch.arange(scores.shape[-1], device=scores.device)
        found = _of_single_labels(config, best.to(scores.dtype)) > 0
    else:
        found = marginals >= _limits(thresholds, 0.5, marginals)
        if not config.has_joined_labels:  # one label each
            found &= marginals == marginals.amax(-1, keepdim=True)
    return found & span_grid(lengths.to(scores.device), scores.shape[1])[..., None], marginals


def _of_single_labels(config: ModelConfig, probabilities: Tensor) -> Tensor:
    """Probabilities of entity labels, those of joined ones added up for each label that they hold.

    Shape: ``[..., label]`` to ``[..., single label]``
    """
    of_labels = probabilities[..., : len(config.labels)]
    if not config.has_joined_labels:
        return of_labels
    return of_labels @ _holds(config.parts, config.single_labels, of_labels.dtype, of_labels.device)


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def _holds(
    parts: tuple[tuple[str, ...], ...], single: tuple[str, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Which single labels each label stands for. Shape: ``[entity label, single label]``."""
    return torch.tensor([[float(one in own) for one in single] for own in parts], dtype=dtype, device=device)


def _limits(thresholds: Sequence[float | None], otherwise: float, like: Tensor) -> Tensor:
    """Thresholds of all labels. Shape: ``[entity label]``."""
    values = [otherwise if one is None else one for one in thresholds]
    return torch.tensor(values, dtype=like.dtype, device=like.device)
