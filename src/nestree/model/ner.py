"""The model people hold: encoder, scorer, TreeCRF, and what it needs to read text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn

from nestree.crf import Doubts, PartialTrees, TreeCRF, normalize_potentials
from nestree.model import decoding
from nestree.model.alternatives import Tree, best_trees
from nestree.model.config import ModelConfig
from nestree.model.encoder import limit_of, load
from nestree.model.folder import ENCODER as ENCODER
from nestree.model.folder import SETTINGS as SETTINGS
from nestree.model.folder import WEIGHTS as WEIGHTS
from nestree.model.local import local_loss
from nestree.model.packed import packed_products
from nestree.model.pieces import Batch, Pieces
from nestree.model.saved import Saved
from nestree.model.scorer import SpanScorer
from nestree.model.spans import Chosen, Node, Span, Steps, Thresholds

if TYPE_CHECKING:
    from nestree.prediction.results import Prediction


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
        self.log_gain = nn.Parameter(torch.tensor(config.gain).log()) if config.has_gain else None
        self.scorer = SpanScorer(hidden, config.all_labels, kind=config.scorer, dropout=config.dropout)
        self.label_shift: Tensor | None = None
        """Added to the log potentials in training, and in training only. Shape: ``[label]``"""

    @classmethod
    def create(cls, config: ModelConfig) -> NestedNER:
        """A new model on a pretrained encoder."""
        return cls(config, *load(config.encoder))

    @staticmethod
    def ensemble(models: Iterable[NestedNER | str | PathLike[str]]) -> NestedNER:
        """Several models as one, which predicts by the mean of their log potentials and one exact TreeCRF.

        Args:
            models: or their folders; with the same labels, in any order. Encoders may differ.

        Raises:
            ModelError: they do not go together, or one counts twice; says why.
        """
        from nestree.model.ensemble import EnsembleNER, check_once
        from nestree.model.errors import ModelError

        if isinstance(models, (str, PathLike)):
            raise ModelError("one model cannot be combined", path=str(models), advice="Give a list of two or more.")
        members = [one if isinstance(one, NestedNER) else NestedNER.from_pretrained(one) for one in models]
        made = EnsembleNER(members)
        check_once(members)
        return made

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.scorer.bilinear.device

    # --- Scores and the loss ---

    def forward(self, batch: Batch) -> Tensor:
        """Log potentials of all labelled spans. Shape: ``[batch, n, n, label]``, float32 at least.

        They are normalised, and multiplied by their learned gain, if the model was made so; the same in training,
        decoding and marginals. The temperature is left to decoding.
        """
        return self._normalized(self.span_scores(batch), batch.lengths)

    def _normalized(self, scores: Tensor, lengths: Tensor) -> Tensor:
        if self.config.normalize and self.config.loss == "treecrf":
            scores = normalize_potentials(scores, lengths)
            return scores if self.log_gain is None else scores * self.log_gain.exp()
        return scores if scores.dtype == torch.float64 else scores.float()

    def span_scores(self, batch: Batch) -> Tensor:
        """Scores of all labelled spans, as they come from the scorer. Shape: ``[batch, n, n, label]``."""
        with packed_products(self, batch.pieces):
            scores: Tensor = self.scorer(self.encoder(batch))
        return scores

    def loss(self, batch: Batch, observed: PartialTrees) -> Tensor:
        """What training makes small, the mean over sentences. Shape: ``[]``."""
        scores = self(batch)
        if self.config.loss == "local":
            return local_loss(self._shifted(scores), observed, len(self.config.labels))
        return self.losses(scores, batch.lengths, observed).mean()

    def losses(self, scores: Tensor, lengths: Tensor, observed: PartialTrees) -> Tensor:
        """The loss of each sentence, of a model with trees, from what :meth:`forward` gave. Shape: ``[batch]``."""
        self._require_trees()
        crf = TreeCRF(self._shifted(scores), lengths)
        smoothing, scope = self.config.smoothing, self.config.smoothing_scope
        if self.config.gumbel and smoothing and self.training:
            values = -crf.log_prob(observed.mask(smoothing, scope=scope, gumbel=True))
        else:
            values = -crf.log_prob(observed, smoothing=smoothing, scope=scope)
        if self.config.entropy_weight:
            values = values - self.config.entropy_weight * crf.entropy
        return values

    def _shifted(self, scores: Tensor) -> Tensor:
        return scores if self.label_shift is None else scores + self.label_shift

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
    def decode(self, batch: Batch, thresholds: Thresholds = None) -> list[list[Span]]:
        """The entities of each sentence, outer ones first; each with the exact marginal probability of span and label.

        Of a span with several labels there are several.

        Args:
            batch: the sentences.
            thresholds: for each of ``config.single_labels`` the least probability of its entities; None: as the model
                decodes by itself.
                With "mbr" they take the place of one half. Where they are lower, several entities may be probable
                enough that no tree holds together: found are those of one tree, which exceed them by most in all.
        """
        return self.decode_steps(thresholds)(batch)

    def decode_steps(self, thresholds: Thresholds = None) -> Steps[Span]:
        """:meth:`decode` in two steps."""
        return self._steps(decoding.entities, thresholds, self._spans)

    def _steps(self, choose: decoding.Choose, thresholds: Thresholds, make: Callable[[Chosen], Any]) -> Steps[Any]:
        @torch.inference_mode()
        def ask(batch: Batch) -> Chosen:
            batch = batch.to(self.device)
            return choose(self.config, self.potentials(batch), batch.lengths, thresholds)

        return Steps(ask, make)

    @torch.inference_mode()
    def decode_potentials(self, scores: Tensor, lengths: Tensor, thresholds: Thresholds = None) -> list[list[Span]]:
        """As :meth:`decode`, from what :meth:`potentials` gave. Shape: ``[batch, n, n, label]``, ``[batch]``."""
        return self._spans(decoding.entities(self.config, scores, lengths.to(scores.device), thresholds))

    @torch.inference_mode()
    def _spans(self, chosen: Chosen) -> list[list[Span]]:
        return chosen.by_sentence(self.config.single_labels)

    @torch.inference_mode()
    def trees(self, batch: Batch, thresholds: Thresholds = None) -> list[list[Node]]:
        """The tree of each sentence: its entities, as :meth:`decode` finds them, and the most probable latent nodes.

        Nodes stand before those within them. A node with several labels comes once for each.
        """
        return self.tree_steps(thresholds)(batch)

    def tree_steps(self, thresholds: Thresholds = None) -> Steps[Node]:
        """:meth:`trees` in two steps."""
        self._require_trees()
        return self._steps(decoding.nodes, thresholds, self._nodes)

    @torch.inference_mode()
    def trees_of_potentials(self, scores: Tensor, lengths: Tensor, thresholds: Thresholds = None) -> list[list[Node]]:
        """As :meth:`trees`, from what :meth:`potentials` gave. Shape: ``[batch, n, n, label]``, ``[batch]``."""
        self._require_trees()
        return self._nodes(decoding.nodes(self.config, scores, lengths.to(scores.device), thresholds))

    @torch.inference_mode()
    def _nodes(self, chosen: Chosen) -> list[list[Node]]:
        found = chosen.by_sentence((*self.config.single_labels, None))
        return [[Node(*one) for one in of_sentence] for of_sentence in found]

    @torch.inference_mode()
    def best_trees(self, batch: Batch, k: int) -> list[list[Tree]]:
        """The k most probable trees of each sentence, best first, each with its exact probability.

        Latent labels are summed out: no two trees are the same but for them.
        """
        return self.best_trees_of_potentials(self.potentials(batch), batch.lengths, k)

    @torch.inference_mode()
    def best_trees_of_potentials(self, scores: Tensor, lengths: Tensor, k: int) -> list[list[Tree]]:
        """As :meth:`best_trees`, from what :meth:`potentials` gave. Shape: ``[batch, n, n, label]``, ``[batch]``."""
        self._require_trees()
        return best_trees(scores, lengths, self.config.parts, k)

    def _require_trees(self) -> None:
        if self.config.loss == "local":
            raise ValueError("a model with loss = local has no trees.")

    def potentials(self, batch: Batch) -> Tensor:
        """Log potentials as predictions use them: without dropout, whatever the model is doing, at its temperature.

        Shape: ``[batch, n, n, label]``
        """
        with at_rest(self):
            return self._tempered(self(batch.to(self.device)))

    def potentials_and_words(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """:meth:`potentials`, and the vectors of words that they come from, if the model can tell.

        Shape: ``[batch, n, n, label]`` and ``[batch, n, hidden]``
        """
        batch = batch.to(self.device)
        with at_rest(self):
            words = self.words(batch)
            if words is None:
                return self.potentials(batch), None
            return self._tempered(self._normalized(self.scorer(words), batch.lengths)), words

    def _tempered(self, scores: Tensor) -> Tensor:
        return scores if self.config.temperature == 1 else scores / self.config.temperature

    def words(self, batch: Batch) -> Tensor | None:
        """Vectors of words; None if the model does not tell. Shape: ``[batch, n, hidden]``."""
        found: Tensor = self.encoder(batch)
        return found

    # --- From text to entities ---

    @overload
    def predict(self, texts: str, **options: Any) -> Prediction: ...
    @overload
    def predict(self, texts: Iterable[str], **options: Any) -> list[Prediction]: ...
    def predict(self, texts: str | Iterable[str], **options: Any) -> Prediction | list[Prediction]:
        """The entities of a text, or of each of several; the text is split as the model was trained to read.

        Args:
            texts: one or several.
            **options:
                threshold: the least probability of an entity, for all labels or by label; left out, the model decides.
                nested: entities within others, too (the usual); False: the outermost ones alone.
                flat: leave out nesting: keep the "outermost", the "innermost" or the "best"-scoring entities.
                trees: also give the tree of each sentence, latent nodes included.
                alternatives: also give the best tree of each sentence and so many next best ones, with probabilities.
                max_words: sentences longer than this (256) are read in windows that overlap.
                budget: padded work of one forward pass (4096 on a CPU, else 16384); less needs less memory.

        Raises:
            TypeError: a text is not a string.
            ValueError: an option makes no sense.
        """
        if isinstance(texts, str):
            return next(self.predict_stream([texts], **options))
        return list(self.predict_stream(texts, **options))

    def predict_stream(self, texts: Iterable[str], **options: Any) -> Iterator[Prediction]:
        """As :meth:`predict`, for any number of texts, one prediction after the other, in bounded memory."""
        from nestree.prediction.predict import Options, predictions, texts_as_documents

        return predictions(self, texts_as_documents(self, texts), Options.of(options))

    def predict_tokens(self, token_lists: Iterable[Sequence[str]], **options: Any) -> list[Prediction]:
        """The entities of sentences that are words already, which are taken as they are. Offsets count words.

        Args:
            token_lists: the words of each sentence.
            **options: as of :meth:`predict`.
        """
        from nestree.prediction.predict import Options, predictions, words_as_documents

        return list(predictions(self, words_as_documents(token_lists), Options.of(options), in_words=True))

    def count_tokens(self, text: str) -> int:
        """How many pieces the encoder reads of a text; it reads ``model.pieces.limit`` at a time, in windows."""
        from nestree.prediction.predict import count_tokens

        return count_tokens(self, text)


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Within it, a model does not drop out anything; after it, it does as it did before."""
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()
