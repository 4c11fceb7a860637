"""How uncertain a model is of a sentence, what it finds there, and where the sentence lies among others."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from nestree.crf import TreeCRF
from nestree.crf.kernels.codes import span_grid
from nestree.model import NestedNER, Span
from nestree.model.pieces import Batch
from nestree.model.spans import Thresholds
from nestree.prediction.reading import merged

By = Literal["tree", "entities"]
BY: tuple[str, ...] = get_args(By)
_BUCKETS = 256
_SPREAD = 40_503
"""Odd, so that pieces with neighbouring numbers come into different buckets."""


class Look(NamedTuple):
    """What a model makes of a sentence.

    Attributes:
        spans: its entities.
        nats: how uncertain the model is, in all.
        words: how many it has.
        vector: the mean of its words' vectors. Shape: ``[hidden]``
    """

    spans: list[Span]
    nats: float
    words: int
    vector: np.ndarray


def check_by(by: str | None, model: NestedNER) -> By:
    """What to go by; left out, the trees of a model that has some, or the entities.

    Raises:
        ValueError: it is not known, or the model has no trees.
    """
    local = model.config.loss == "local"
    if by not in (None, *BY):
        raise ValueError(f"by is {by!r}; known are {', '.join(map(repr, BY))}.")
    if by == "tree" and local:
        raise ValueError("a model with loss = local has no trees: its uncertainty is that of entities (by entities).")
    return "entities" if by == "entities" or local else "tree"


@torch.inference_mode()
def look(batch: Batch, *, model: NestedNER, by: By, thresholds: Thresholds = None) -> list[Look]:
    """What a model makes of each sentence of a batch, in one pass of its encoder.

    Args:
        batch: the sentences.
        model: any.
        by: "tree": the exact entropy of the distribution over trees. "entities": the entropy of what each span is (one
            of the entity labels, or no entity), summed over spans: the exact one of a model with loss = local, and of
            a model with trees an upper bound of the entropy of its entities alone.
        thresholds: as of :meth:`NestedNER.decode`.

    Raises:
        ValueError: the model's numbers are none (nan), or without bound.
    """
    scores, words = model.potentials_and_words(batch)
    lengths = batch.lengths.to(scores.device)
    nats = TreeCRF(scores, lengths).entropy if by == "tree" else _of_entities(model, scores, lengths)
    vectors = _counts(batch.to(scores.device)) if words is None else _means(words, lengths)
    if not bool(nats.isfinite().all()):
        raise ValueError("the model's uncertainty of a sentence is no number: its weights, or scores, are not finite.")
    spans = model.decode_potentials(scores, batch.lengths, thresholds)
    rows = zip(spans, nats.tolist(), batch.lengths.tolist(), vectors.float().cpu().numpy(), strict=True)
    return [Look(found, max(0.0, of_sentence), length, vector) for found, of_sentence, length, vector in rows]


def merged_looks(parts: list[Look], windows: list[tuple[int, int]]) -> Look:
    """One of what was seen in the windows of a long sentence. What windows share counts once, on average."""
    words, read = windows[-1][1], sum(part.words for part in parts)
    return Look(
        merged([part.spans for part in parts], windows),
        sum(part.nats for part in parts) * words / read,
        words,
        mean_vector(parts),
    )


def mean_vector(looks: list[Look]) -> np.ndarray:
    """The mean of all words' vectors. Shape: ``[hidden]``."""
    total = np.sum([one.words * one.vector for one in looks], 0)
    return np.asarray(total / sum(one.words for one in looks), np.float32)


def _of_entities(model: NestedNER, scores: Tensor, lengths: Tensor) -> Tensor:
    """Entropies of what spans are, summed over spans. Shape: ``[batch, n, n, label]`` to ``[batch]``."""
    local = model.config.loss == "local"
    probabilities = scores.softmax(-1) if local else TreeCRF(scores, lengths).marginals
    entities = probabilities[..., : len(model.config.labels)].double().clamp(0, 1)
    none = (1 - entities.sum(-1)).clamp_min(0)
    of_spans = torch.special.entr(entities).sum(-1) + torch.special.entr(none)
    return torch.where(span_grid(lengths, scores.shape[1]), of_spans, 0.0).sum((1, 2))


# --- Vectors ---------------------------------------------------------------------------------------------------------


def _means(words: Tensor, lengths: Tensor) -> Tensor:
    """Shape: ``[batch, n, hidden]`` to ``[batch, hidden]``."""
    inside = torch.arange(words.shape[1], device=words.device) < lengths[:, None]
    return torch.where(inside[..., None], words.float(), 0.0).sum(1) / lengths[:, None]


def _counts(batch: Batch) -> Tensor:
    """How often words begin with pieces, in buckets: sentences are near that have words in common.

    Shape: ``[batch, bucket]``
    """
    pieces = batch.pieces.flatten()[batch.first]
    inside = torch.arange(pieces.shape[1], device=pieces.device) < batch.lengths[:, None]
    buckets = pieces * _SPREAD % 65_521 % _BUCKETS
    found = torch.zeros(len(pieces), _BUCKETS, device=pieces.device)
    return found.scatter_add(1, buckets, inside.float()) / batch.lengths[:, None]
