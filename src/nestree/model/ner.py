"""The model people hold: encoder, scorer, TreeCRF, and what it needs to read text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nestree.crf import Doubts, PartialTrees, TreeCRF, normalize_potentials
from nestree.crf.kernels.codes import REJECTED, mask_scores, span_grid
from nestree.model.config import ModelConfig
from nestree.model.encoder import limit_of, load
from nestree.model.folder import ENCODER as ENCODER
from nestree.model.folder import SETTINGS as SETTINGS
from nestree.model.folder import WEIGHTS as WEIGHTS
from nestree.model.pieces import Batch, Pieces
from nestree.model.saved import Saved
from nestree.model.scorer import SpanScorer


class Span(NamedTuple):
    """A predicted entity: words ``[start, end)``, label, and the exact marginal probability of both."""

    start: int
    end: int
    label: str
    score: float


class Node(NamedTuple):
    """A node of a predicted tree: words ``[start, end)``, entity label or None if it is latent, and its probability."""

    start: int
    end: int
    label: str | None
    score: float


class NestedNER(Saved):
    """Finds nested entities.

    Args:
        config: all settings.
        encoder: a Hugging Face encoder.
        tokenizer: its fast tokenizer.
    """

    def __init__(self, config: ModelConfig, encoder: nn.Module, tokenizer: Any) -> None:
        super().__init__(config, encoder, tokenizer)
        settings: Any = encoder.config
        if getattr(encoder, "pooler", None) is not None:
            encoder.register_module("pooler", None)  # weights that nobody would use or train
        self.pieces = Pieces(tokenizer, limit_of(encoder, tokenizer))
        hidden = int(settings.hidden_size)
        self.scorer = SpanScorer(hidden, config.all_labels, kind=config.scorer, dropout=config.dropout)
        self.label_shift: Tensor | None = None
        """Added to the log potentials in training, and in training only. Shape: ``[label]``"""

    @classmethod
    def create(cls, config: ModelConfig) -> NestedNER:
        """A new model on a pretrained encoder."""
        return cls(config, *load(config.encoder))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.scorer.bilinear.device

    # --- Scores and the loss ---

    def forward(self, batch: Batch) -> Tensor:
        """Log potentials of all labelled spans. Shape: ``[batch, n, n, label]``, float32 at least.

        They are normalised if the model was made so; the same in training, decoding and marginals. The temperature
        is left to decoding.
        """
        scores = self.scorer(self.encoder(batch))
        if self.config.normalize and self.config.loss == "treecrf":
            return normalize_potentials(scores, batch.lengths)
        return scores if scores.dtype == torch.float64 else scores.float()

    def loss(self, batch: Batch, observed: PartialTrees) -> Tensor:
        """What training makes small, the mean over sentences. Shape: ``[]``."""
        scores = self(batch)
        if self.label_shift is not None:
            scores = scores + self.label_shift
        if self.config.loss == "local":
            return _local_loss(scores, observed, len(self.config.labels))
        crf = TreeCRF(scores, batch.lengths)
        smoothing, scope = self.config.smoothing, self.config.smoothing_scope
        if self.config.gumbel and smoothing and self.training:
            value = -crf.log_prob(observed.mask(smoothing, scope=scope, gumbel=True)).mean()
        else:
            value = -crf.log_prob(observed, smoothing=smoothing, scope=scope).mean()
        if self.config.entropy_weight:
            value = value - self.config.entropy_weight * crf.entropy.mean()
        return value

    def observed(
        self,
        spans: Sequence[Sequence[tuple[int, int, str | int]]],
        lengths: Sequence[int],
        *,
        sets: Sequence[Sequence[float]] = (),
        doubts: Sequence[Doubts | None] | None = None,
    ) -> PartialTrees:
        """Annotated entities, words half-open, as partial trees.

        Args:
            spans: of each sentence start, end and label; or a number of a set of labels, one of which it has.
            lengths: words in each sentence.
            sets: sets of labels: the weight of each entity label, and of being no entity.
            doubts: what each sentence's annotation leaves open (:class:`nestree.crf.Doubts`).
        """
        number = {label: at for at, label in enumerate(self.config.labels)}
        inclusive = [
            [(start, end - 1, -1 - of if isinstance(of, int) else number[of]) for start, end, of in one]
            for one in spans
        ]
        labels, latent = len(self.config.labels), self.config.latent_labels
        rows = [[*row[:labels], *[row[labels]] * latent] for row in sets]
        return PartialTrees.from_spans(
            inclusive,
            lengths,
            entity_labels=labels,
            latent_labels=latent,
            sets=torch.tensor(rows, dtype=torch.float32) if rows else None,
            doubts=doubts,
        )

    # --- Decoding ---

    @torch.inference_mode()
    def decode(self, batch: Batch) -> list[list[Span]]:
        """The entities of each sentence, outer ones first; each with its exact marginal probability."""
        scores = self._scores_in_peace(batch)
        labels = self.config.labels
        if self.config.loss == "local":
            return _local_spans(scores, batch.lengths, labels)
        crf = TreeCRF(scores, batch.lengths.to(scores.device))
        marginals = crf.marginals
        if self.config.decoding == "mbr":
            places = torch.nonzero(_more_probable_than_not(marginals, len(labels)))
        else:
            trees = crf.argmax
            wanted = (trees >= 0) & (trees < len(labels))
            places = torch.cat([torch.nonzero(wanted), trees[wanted][:, None]], 1)
        return _by_sentence(places, marginals, labels, len(scores))

    @torch.inference_mode()
    def trees(self, batch: Batch) -> list[list[Node]]:
        """The tree of each sentence: its entities, as :meth:`decode` finds them, and the most probable latent nodes.

        Nodes stand before those within them.
        """
        if self.config.loss == "local":
            raise ValueError("a model with loss = local has no trees.")
        scores = self._scores_in_peace(batch)
        lengths, labels = batch.lengths.to(scores.device), self.config.labels
        crf = TreeCRF(scores, lengths)
        marginals, trees = crf.marginals, crf.argmax
        if self.config.decoding == "mbr":
            # Each entity is worth more than all latent nodes together; other entity labels are out of the question.
            chosen = _more_probable_than_not(marginals, len(labels))
            worth = marginals.clone()
            worth[..., : len(labels)] = torch.where(chosen, scores.shape[1] + 1.0, -torch.inf)
            trees = TreeCRF(worth, lengths).argmax
        at = trees >= 0
        places = torch.cat([torch.nonzero(at), trees[at][:, None]], 1)
        names = (*labels, *[None] * self.config.latent_labels)
        return [[Node(*one) for one in found] for found in _by_sentence(places, marginals, names, len(scores))]

    def _scores_in_peace(self, batch: Batch) -> Tensor:
        """Log potentials without dropout, whatever the model is doing, at the model's temperature."""
        was_training = self.training
        self.eval()
        try:
            scores: Tensor = self(batch.to(self.device))
            return scores if self.config.temperature == 1 else scores / self.config.temperature
        finally:
            self.train(was_training)

    def predict_tokens(self, sentences: Sequence[Sequence[str]], *, batch_size: int = 32) -> Iterator[list[Span]]:
        """The entities of sentences that are split into words already, in their order."""
        for first in range(0, len(sentences), batch_size):
            yield from self.decode(self.pieces(sentences[first : first + batch_size]))


def _local_loss(scores: Tensor, observed: PartialTrees, entity_labels: int) -> Tensor:
    """One softmax per span: entities their label, all other spans the first latent label; the mean over sentences.

    Where annotation leaves several labels open, their probabilities are added up, by their weights.
    """
    if observed.sets is not None:
        return _local_loss_of_sets(scores, observed)
    codes = observed.codes.to(scores.device).long()
    n = codes.shape[1]
    grid = torch.ones(n, n, dtype=torch.bool, device=codes.device).triu()
    grid = grid & (torch.arange(n, device=codes.device) < observed.lengths.to(codes.device)[:, None, None])
    targets = torch.where(codes >= 0, codes, entity_labels).masked_fill(~grid, -100)
    total = nn.functional.cross_entropy(scores.flatten(0, 2), targets.flatten(), ignore_index=-100, reduction="sum")
    return total / len(codes)


def _local_loss_of_sets(scores: Tensor, observed: PartialTrees) -> Tensor:
    mask, entity_labels = observed.mask(), observed.entity_labels
    none = torch.arange(mask.shape[3], device=mask.device) >= entity_labels
    mask = torch.where((observed.codes == REJECTED)[..., None], none.to(mask.dtype), mask)
    grid = span_grid(observed.lengths, mask.shape[1])
    allowed = mask_scores(scores, mask).logsumexp(-1)
    return torch.where(grid, scores.logsumexp(-1) - allowed, 0.0).sum() / len(mask)


def _local_spans(scores: Tensor, lengths: Tensor, labels: Sequence[str]) -> list[list[Span]]:
    """Spans whose best label is an entity label."""
    probabilities = scores.softmax(-1)
    label = probabilities.argmax(-1)
    n = scores.shape[1]
    grid = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu()
    grid = grid & (torch.arange(n, device=scores.device) < lengths.to(scores.device)[:, None, None])
    at = grid & (label < len(labels))
    places = torch.cat([torch.nonzero(at), label[at][:, None]], 1)
    return _by_sentence(places, probabilities, labels, len(scores))


def _more_probable_than_not(marginals: Tensor, entity_labels: int) -> Tensor:
    """The entities with the fewest errors to be expected. No two of them cross, or are one span: no tree has both."""
    return marginals[..., :entity_labels] > 0.5


def _by_sentence(places: Tensor, scores: Tensor, labels: Sequence[Any], sentences: int) -> list[list[Span]]:
    """What is at places (sentence, start, last word, label), with its score, outer ones first."""
    found: list[list[Span]] = [[] for _ in range(sentences)]
    rows = zip(places.tolist(), scores[tuple(places.T)].tolist(), strict=True)
    for (sentence, start, last, label), score in rows:
        found[sentence].append(Span(start, last + 1, labels[label], score))
    return [sorted(one, key=lambda span: (span.start, -span.end)) for one in found]
