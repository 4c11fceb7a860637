"""How to make scores probabilities: one number, fitted.

The number is the temperature T (Guo et al., 2017). It divides the log potentials before the TreeCRF, so
that marginals stay exact, those of the distribution with potentials s/T; a softmax per span (``loss = local``) is
treated alike. T is fitted on text that the model was not trained on. What it makes small is the Brier score of the
marginals of *all* labelled spans, a proper score. The two obvious alternatives, the exact likelihood of the annotated
tree and the log loss of the same marginals, are proper too; but both are unbounded, so that a few entities which a
model misses without hope decide over T, and the scores of what it does find become worse (``docs/calibration.md`` has
the figures).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nestree.data.errors import DataError, shown
from nestree.data.model import Document
from nestree.data.policies import apply
from nestree.data.report import Report
from nestree.evaluation.calibration import Scored, calibration, calibration_by_label, scored
from nestree.evaluation.metrics import Scores, score

if TYPE_CHECKING:
    from torch import Tensor

    from nestree.crf import PartialTrees
    from nestree.model import ModelConfig, NestedNER

Numbers = NDArray[np.float64]
Bins = Literal["width", "mass"]

LOWEST, HIGHEST = 1 / 16, 16.0
"""Temperatures that are looked at. A model that needs another one has other troubles."""
DRAWN = 25
"""Entities that a drawn bin has at least."""
_TINY = 1e-7  # about what float32 leaves of 1 - p


@dataclass(frozen=True)
class Measured:
    """A model at a temperature.

    Attributes:
        temperature: T.
        nll: of the annotated part of the tree (of all spans' labels, without trees), in nats; mean over sentences.
        log_loss: of the marginals of all labelled spans, summed over a sentence; mean over sentences.
        brier: likewise. This is what the temperature is fitted to.
        entities: what is predicted, with scores.
        scores: of that.
    """

    temperature: float
    nll: float
    log_loss: float
    brier: float
    entities: Scored
    scores: Scores

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        losses = {name: round(getattr(self, name), 6) for name in ("temperature", "nll", "log_loss", "brier")}
        labels = {label: one.as_dict() for label, one in calibration_by_label(self.entities).items()}
        whole = calibration(self.entities).as_dict()
        return {**losses, "micro": self.scores.micro.as_dict(), "predicted": whole, "labels": labels}


@dataclass(frozen=True)
class Fitted:
    """A temperature that was looked for.

    Attributes:
        before: the model as it was.
        after: at the best temperature.
        sentences: how many it was fitted on.
        gold: how many entities they have.
        gain: by how much the Brier score of a sentence became smaller; the mean.
        error: the standard error of that.
    """

    before: Measured
    after: Measured
    sentences: int
    gold: int
    gain: float
    error: float

    @property
    def better(self) -> bool:
        """Whether the gain is larger than its standard error.

        For the minimum of one parameter that is about a test at the level of 5 percent: if the old temperature were
        the right one, the gain would be z²/2 and its error ``|z|``, of the same unit, with z normal.
        """
        return self.gain > self.error

    @property
    def at_the_end(self) -> bool:
        """Whether the best temperature is the lowest or highest that was looked at."""
        return not LOWEST * 1.01 < self.after.temperature < HIGHEST / 1.01


def fit_temperature(
    model: NestedNER, documents: Sequence[Document], *, budget: int = 16384, report: Report | None = None
) -> Fitted:
    """Looks for the temperature at which a model's marginals have the smallest Brier score. Changes nothing.

    The text is read five times, in batches; nothing is kept but a number for each sentence and temperature.

    Args:
        model: a trained model, on any device.
        documents: gold that it was not trained on, with words and sentences. Documents that are not annotated
            completely are left out, as their right predictions would count as wrong.
        budget: padded work of one forward pass (:func:`nestree.model.batching.work`).
        report: gets a note of everything that is left out.

    Raises:
        DataError: nothing is left to fit on.
    """
    notes = Report() if report is None else report
    used = list(_complete(documents, notes))
    sentences = [one for document in used for one in _sentences(document, model.config, notes)]
    gold = sum(len(spans) for _, spans in sentences)
    if not gold:
        what = "there is no entity that the model knows in completely annotated text"
        raise DataError(what, path=documents[0].place if documents else None, advice="Name other annotated text.")
    passes = _Passes(model, sentences, budget)
    before = model.config.temperature
    best = search(lambda temperatures: passes.brier(temperatures).sum(1).tolist())
    losses = passes.losses([before, best])
    gains = losses[0, :, 2] - losses[1, :, 2]
    measured = [
        _measured(model, used, temperature, one.mean(0).tolist(), budget)
        for temperature, one in zip((before, best), losses, strict=True)
    ]
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return Fitted(measured[0], measured[1], len(sentences), gold, float(gains.mean()), error)


def search(values: Callable[[Sequence[float]], Sequence[float]]) -> float:
    """The temperature with the smallest value, by two looks at many at once, a grid and a finer one; then a parabola.

    Nothing is asked of the function but that its valley is wider than a factor of √2; it need not be convex.
    """
    coarse = [LOWEST * 2 ** (at / 2) for at in range(round(2 * math.log2(HIGHEST / LOWEST)) + 1)]
    best = _smallest(values(coarse))
    low, high = coarse[max(0, best - 1)], coarse[min(best + 1, len(coarse) - 1)]
    fine = [low * (high / low) ** (at / 10) for at in range(11)]
    found = list(values(fine))
    best = _smallest(found)
    if not 0 < best < len(fine) - 1:
        return fine[best]
    left, middle, right = found[best - 1 : best + 2]
    bend = left - 2 * middle + right
    shift = (left - right) / (2 * bend) if bend > 0 else 0.0
    return fine[best] * (high / low) ** (min(max(shift, -1.0), 1.0) / 10)


def _smallest(values: Sequence[float]) -> int:
    return min(range(len(values)), key=lambda at: math.inf if math.isnan(values[at]) else values[at])


Sentence = tuple[tuple[str, ...], list[tuple[int, int, str]]]
"""Words, and entities in words: start, end (half-open), label."""


def _complete(documents: Iterable[Document], report: Report) -> Iterator[Document]:
    for document in documents:
        if not document.incomplete:
            yield document
        else:
            report.note("incomplete", document.place, "it is not annotated completely", "left out")


def _sentences(document: Document, config: ModelConfig, report: Report) -> Iterator[Sentence]:
    """The sentences as the model reads them, with the entities that it could find there."""
    if document.tokens is None or document.sentences is None:
        raise ValueError(f"{document.place or 'a document'} has no words yet; split its text first.")
    bounds = [end for _, end in document.sentences]
    held = []
    for entity in document.entities:
        words = None if entity.fragments else document.tokens.exactly(entity.start, entity.end)
        if words is None or any(words[0] < end < words[1] for end in bounds):
            report.note("unreachable", document.place, shown(document.text_of(entity)), "left out")
        else:
            held.append(entity._replace(token_start=words[0], token_end=words[1]))
    same_span = "first" if config.policies.same_span == "error" else config.policies.same_span
    policies = replace(config.policies, crossing="drop_shorter", same_span=same_span)
    fitted = apply(replace(document, entities=tuple(held), source=None), policies, report)
    known = set(config.labels)
    spans = sorted((one.token_start or 0, one.token_end or 0, one.label) for one in fitted.entities)
    for start, end in document.sentences:
        inside = [(first - start, last - start, label) for first, last, label in spans if start <= first < end]
        for _, _, label in inside:
            if label not in known:
                report.note("unknown label", document.place, label, "left out")
        yield document.words[start:end], [one for one in inside if one[2] in known]


class _Passes:
    """Looks at all sentences at some temperatures, a batch at a time."""

    def __init__(self, model: NestedNER, sentences: Sequence[Sentence], budget: int) -> None:
        from nestree.model.batching import by_work

        self.model = model
        self.sentences = sentences
        self._cuts = model.pieces.cut([words for words, _ in sentences])
        self._batches = by_work(self._cuts, budget)

    def brier(self, temperatures: Sequence[float]) -> Numbers:
        """The Brier score of each sentence. Shape: ``[temperature, sentence]``."""
        found = np.zeros((len(temperatures), len(self.sentences)))
        for numbers, scores, observed in self._scored():
            right = _right(observed)
            for at, temperature in enumerate(temperatures):
                marginals = _marginals(self.model, scores / temperature, observed)
                found[at, numbers] = _summed((marginals - right.to(marginals.dtype)) ** 2)
        return found

    def losses(self, temperatures: Sequence[float]) -> Numbers:
        """Negative log likelihood, log loss and Brier score. Shape: ``[temperature, sentence, 3]``."""
        import torch

        found = np.zeros((len(temperatures), len(self.sentences), 3))
        for numbers, scores, observed in self._scored():
            right = _right(observed)
            for at, temperature in enumerate(temperatures):
                at_temperature = scores / temperature
                marginals = _marginals(self.model, at_temperature, observed).double()
                safe = marginals.clamp(_TINY, 1 - _TINY)
                log_loss = torch.where(right, -safe.log(), torch.where(marginals > 0, -(-safe).log1p(), 0.0))
                found[at, numbers, 0] = _nll(self.model, at_temperature, observed).double().cpu().numpy()
                found[at, numbers, 1] = _summed(log_loss)
                found[at, numbers, 2] = _summed((marginals - right.double()) ** 2)
        return found

    def _scored(self) -> Iterator[tuple[list[int], Tensor, PartialTrees]]:
        """Numbers of sentences, their log potentials (at temperature 1), and what is annotated."""
        import torch

        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                for numbers in self._batches:
                    batch = self.model.pieces.together([self._cuts[number] for number in numbers])
                    chosen = [self.sentences[number] for number in numbers]
                    observed = self.model.observed([one[1] for one in chosen], [len(one[0]) for one in chosen])
                    device = self.model.device
                    yield numbers, self.model(batch.to(device)), observed.to(device)
        finally:
            self.model.train(was_training)


def _right(observed: PartialTrees) -> Tensor:
    """Which labelled spans are entities of gold. Shape: bool ``[batch, n, n, entity label]``."""
    import torch

    return observed.codes[..., None] == torch.arange(observed.entity_labels, device=observed.codes.device)


def _marginals(model: NestedNER, scores: Tensor, observed: PartialTrees) -> Tensor:
    """Probabilities of all labelled spans, 0 where there is no span. Shape: ``[batch, n, n, entity label]``."""
    from nestree.crf import Symbol, TreeCRF

    if model.config.loss == "local":
        inside = observed.symbols != int(Symbol.PADDING)
        return (scores.softmax(-1) * inside[..., None])[..., : observed.entity_labels]
    return TreeCRF(scores, observed.lengths).marginals[..., : observed.entity_labels]


def _nll(model: NestedNER, scores: Tensor, observed: PartialTrees) -> Tensor:
    """Shape: ``[batch]``."""
    import torch

    from nestree.crf import Symbol, TreeCRF

    if model.config.loss != "local":
        return -TreeCRF(scores, observed.lengths).log_prob(observed)
    codes = observed.codes.long()
    target = torch.where(codes >= 0, codes, observed.entity_labels)
    logs = scores.log_softmax(-1).gather(-1, target[..., None])[..., 0]
    return -(logs * (observed.symbols != int(Symbol.PADDING))).sum((1, 2))


def _summed(values: Tensor) -> Numbers:
    """Shape: ``[batch, ...]`` to ``[batch]``."""
    found: Numbers = values.flatten(1).double().sum(1).cpu().numpy()
    return found


def _measured(
    model: NestedNER, documents: Sequence[Document], temperature: float, losses: list[float], budget: int
) -> Measured:
    """What the model predicts at a temperature, and how good that is."""
    from nestree.prediction import annotate

    config = model.config
    model.config = replace(config, temperature=temperature)
    try:
        predicted = list(annotate(model, documents, budget=budget))
    finally:
        model.config = config
    nll, log_loss, brier = losses
    return Measured(temperature, nll, log_loss, brier, scored(documents, predicted), score(documents, predicted))
