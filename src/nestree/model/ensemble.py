"""Several models as one: the mean of their log potentials, then one exact TreeCRF.

Each member reads the words itself, with its own pieces, and gives log potentials as it would predict with them:
normalised, with its gain, at its temperature. What differs between members and means nothing is taken away first: the
order of labels, and latent labels, which are summed out (this leaves the sum over all trees as it is). The mean of log
potentials is the geometric mean of the members' distributions over trees: a tree is probable if no member finds it
improbable.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from nestree.data.splitting import Splitter
from nestree.model.config import ModelConfig
from nestree.model.errors import ModelError
from nestree.model.ner import NestedNER
from nestree.model.pieces import EIGHT, Batch, Cut, Pieces
from nestree.model.saving import save_members

_FIRST_LAYER = "scorer.start.1.weight"
PARTS = fields(Splitter)
"""How text is split."""
ONE_START = 0.2
"""The least cosine between the first layers of the scorers of runs from one start. Those of different starts are at
right angles, but for chance (0.003 with a MiniLM)."""


class Cuts(Cut):
    """A sentence in the pieces of several tokenizers; it looks like the one that is most work.

    Attributes:
        kinds: the sentence in the pieces of each.
    """

    kinds: tuple[Cut, ...]

    @classmethod
    def of(cls, kinds: Sequence[Cut]) -> Cuts:
        """Of the same sentence."""
        made = cls(*max(kinds, key=lambda one: len(one.windows) * one.width))
        made.kinds = tuple(kinds)
        return made


@dataclass(frozen=True)
class Batches(Batch):
    """Sentences in the pieces of several tokenizers; it looks like that of the first.

    Attributes:
        kinds: the sentences in the pieces of each.
    """

    kinds: tuple[Batch, ...] = ()

    @classmethod
    def of(cls, kinds: Sequence[Batch]) -> Batches:
        """Of the same sentences."""
        one = kinds[0]
        return cls(one.pieces, one.attention, one.first, one.last, one.lengths, one.most, one.full, tuple(kinds))

    def to(self, device: torch.device | str) -> Batches:
        """The same on a device."""
        return self.of([one.to(device) for one in self.kinds])

    def pinned(self) -> Batches:
        """The same where a GPU can fetch it by itself."""
        return self.of([one.pinned() for one in self.kinds])


class PiecesOfEach(Pieces):
    """Splits words into the pieces of several tokenizers.

    Args:
        kinds: each tokenizer's.
    """

    def __init__(self, kinds: Sequence[Pieces]) -> None:
        self.kinds = tuple(kinds)
        self.tokenizer = kinds[0].tokenizer
        self.limit = min(one.limit for one in kinds)
        self.padding = kinds[0].padding

    def of_words(self, words: Sequence[str]) -> list[list[int]]:
        """Those of the first tokenizer."""
        return self.kinds[0].of_words(words)

    def count(self, words: Sequence[str]) -> int:
        """The same."""
        return self.kinds[0].count(words)

    def cut(self, sentences: Sequence[Sequence[str]]) -> list[Cut]:
        """Each sentence in all pieces."""
        found = [one.cut(sentences) for one in self.kinds]
        return [Cuts.of(of_sentence) for of_sentence in zip(*found, strict=True)]

    def together(self, cuts: Sequence[Cut], multiple: int = EIGHT) -> Batch:
        """A batch of sentences that were cut here."""
        return Batches.of(
            [
                kind.together([one.kinds[at] for one in cuts if isinstance(one, Cuts)], multiple)
                for at, kind in enumerate(self.kinds)
            ]
        )


class EnsembleNER(NestedNER):
    """Finds nested entities, as several models do together. It cannot be trained, but distilled into one that can.

    Args:
        members: models with the same labels, in any order.

    Raises:
        ModelError: they do not go together; says why.
    """

    def __init__(self, members: Sequence[NestedNER]) -> None:
        nn.Module.__init__(self)  # no encoder and no scorer of its own
        check_together([one.config for one in members])
        flat = [one for member in members for one in parts_of(member)]
        self.members = nn.ModuleList(flat)
        self.config = _config_of(flat)
        self.tokenizer = flat[0].tokenizer
        self.metrics: dict[str, Any] = {}
        self.trained_with: dict[str, Any] = {"combined": "potentials", "members": [_told(one) for one in flat]}
        self.log_gain = None
        self.label_shift = None
        kinds: dict[tuple[str, int], Pieces] = {}  # members with the same tokenizer share its work
        keys = [(one.pieces.tokenizer.backend_tokenizer.to_str(), one.pieces.limit) for one in flat]
        for key, member in zip(keys, flat, strict=True):
            kinds.setdefault(key, member.pieces)
        self._kind = [list(kinds).index(key) for key in keys]
        self.pieces = PiecesOfEach(list(kinds.values()))
        self._orders = [[one.config.labels.index(label) for label in self.config.labels] for one in flat]
        self.eval()

    @property
    def device(self) -> torch.device:
        """Where the first member is."""
        return self._all[0].device

    @property
    def _all(self) -> list[NestedNER]:
        return [one for one in self.members if isinstance(one, NestedNER)]

    def forward(self, batch: Batch) -> Tensor:
        """The mean of the members' log potentials, each at its own temperature. Shape: ``[batch, n, n, label]``."""
        return self._read(batch)[0]

    def _read(self, batch: Batch, words: bool = False) -> tuple[Tensor, list[Tensor | None]]:
        assert isinstance(batch, Batches), "a batch of a combined model comes from its own pieces"
        total: Tensor | None = None
        vectors: list[Tensor | None] = []
        for member, kind, order in zip(self._all, self._kind, self._orders, strict=True):
            own = batch.kinds[kind]
            if words:
                scores, vector = member.potentials_and_words(own)
                vectors.append(vector)
            else:
                scores = member.potentials(own)
            aligned = aligned_potentials(scores, order).to(self.device)
            total = aligned if total is None else total + aligned
        assert total is not None
        return total / len(self._all), vectors

    def potentials_and_words(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The mean of potentials, and the members' vectors of words beside each other, if all can tell."""
        scores, vectors = self._read(batch.to(self.device), words=True)
        known = [one.float().to(self.device) for one in vectors if one is not None]
        return self._tempered(scores), torch.cat(known, -1) if len(known) == len(vectors) else None

    def span_scores(self, batch: Batch) -> NoReturn:
        """Raises an error: members have their own scores, before normalisation."""
        raise ModelError("a combined model has no scores before normalisation", advice="Ask for its potentials.")

    def words(self, batch: Batch) -> Tensor | None:
        """The members' vectors of words, beside each other; None if one does not tell."""
        return self.potentials_and_words(batch)[1]

    def loss(self, *_: Any, **__: Any) -> NoReturn:
        """Raises an error: a combined model does not learn."""
        raise ModelError("a combined model cannot be trained", advice="Distil it into one that can: nestree distil")

    def _save(
        self,
        folder: str | PathLike[str],
        *,
        metrics: Mapping[str, Any] | None,
        training: Mapping[str, Any] | None,
        weights: Mapping[str, Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        if weights is not None:
            raise ModelError("a combined model is saved with its members' own weights", path=Path(folder))
        save_members(self, self._all, folder, metrics=metrics, training=training, name=name)


def aligned_potentials(scores: Tensor, order: Sequence[int]) -> Tensor:
    """Potentials with the entity labels in another order, and all latent labels summed out into one, the last.

    Shape: ``[batch, n, n, label]`` to ``[batch, n, n, entity label + 1]``
    """
    latent = scores[..., len(order) :].logsumexp(-1, keepdim=True)
    entities = scores[..., : len(order)]
    if list(order) != list(range(len(order))):
        entities = entities[..., list(order)]
    return torch.cat([entities, latent], -1)


def parts_of(model: NestedNER) -> list[NestedNER]:
    """The members of a combined model, at its temperature besides their own; of another one itself."""
    if not isinstance(model, EnsembleNER):
        return [model]
    found = []
    for member in model._all:
        copied = copy.copy(member)  # with the same weights
        copied.config = replace(member.config, temperature=member.config.temperature * model.config.temperature)
        found.append(copied)
    return found


def check_once(models: Sequence[NestedNER]) -> None:
    """Raises a ModelError if two of all members have the same weights: one of them would count twice.

    Of exported models nothing is known.
    """
    states = [member.state_dict() for model in models for member in parts_of(model)]
    for number, state in enumerate(states):
        for other, before in enumerate(states[:number]):
            if _same_weights(state, before):
                what = f"members {other + 1} and {number + 1} are the same model, which would count twice"
                raise ModelError(what, advice="Name it once.")


def _same_weights(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether there are any, and all are equal. The scorer's come first: different models differ there at once."""
    return (
        bool(one)
        and one.keys() == other.keys()
        and all(
            one[name].shape == other[name].shape and torch.equal(one[name].to(other[name].device), other[name])
            for name in reversed(one)
        )
    )


def check_together(configs: Sequence[ModelConfig]) -> None:
    """Raises a ModelError if models with these settings cannot be combined."""
    if len(configs) < 2:
        raise ModelError(f"{'one model' if configs else 'no models'} cannot be combined", advice="Name two or more.")
    first = configs[0]
    for number, config in enumerate(configs[1:], 2):
        missing, more = set(first.labels) - set(config.labels), set(config.labels) - set(first.labels)
        if missing or more:
            said = [f"does not know {', '.join(sorted(missing))}"] if missing else []
            said += [f"knows {', '.join(sorted(more))}, which the first does not"] if more else []
            what = f"model {number} has other labels than the first: it {' and '.join(said)}"
            raise ModelError(what, advice="Models that are combined have the same labels, in any order.")
        for name, one, other in (
            ("loss", first.loss, config.loss),
            ("same_span", first.policies.same_span, config.policies.same_span),
            *((one.name, getattr(first.splitter, one.name), getattr(config.splitter, one.name)) for one in PARTS),
        ):
            if one != other:
                what = f"model {number} was trained with {name} = {other!r}, and the first with {one!r}"
                raise ModelError(what, advice="Combine models that were trained alike.")


def _config_of(models: Sequence[NestedNER]) -> ModelConfig:
    """The settings of a combined model: those of the first, with one latent label and a temperature of its own."""
    encoders = dict.fromkeys(one.config.encoder for one in models)
    return replace(models[0].config, encoder=", ".join(encoders), latent_labels=1, temperature=1.0)


def _told(model: NestedNER) -> dict[str, Any]:
    """What a combined model says of a member."""
    found: dict[str, Any] = {"encoder": Path(model.config.encoder).name}
    settings = model.trained_with.get("settings")
    if isinstance(settings, Mapping) and "seed" in settings:
        found["seed"] = settings["seed"]
    scores = model.metrics.get("dev")
    if isinstance(scores, Mapping) and isinstance(scores.get("micro"), Mapping):
        found["dev_f1"] = scores["micro"].get("f1")
    return found


# --- The mean of weights ---------------------------------------------------------------------------------------------


def averaged(models: Sequence[NestedNER]) -> NestedNER:
    """One model with the mean of the weights of several runs from one start: as large and as quick as one of them.

    Raises:
        ModelError: they are not made alike, or did not begin with the same weights.
    """
    check_together([one.config for one in models])
    first = models[0]
    if any(isinstance(one, EnsembleNER) or not hasattr(one, "scorer") for one in models):
        raise ModelError("only models with weights of their own have a mean of weights", advice="Use --how potentials.")
    states = [one.state_dict() for one in models]
    for number, (model, state) in enumerate(zip(models[1:], states[1:], strict=True), 2):
        _check_alike(number, first, model, states[0], state)
    mean = {
        name: torch.stack([state[name].detach().cpu().double() for state in states]).mean(0).to(value.dtype)
        if value.is_floating_point()
        else value.detach().cpu()
        for name, value in states[0].items()
    }
    made = copy.deepcopy(first).cpu()
    made.load_state_dict(mean)
    made.config = replace(first.config, temperature=1.0)
    made.metrics = {}
    made.trained_with = {**first.trained_with, "combined": "weights", "members": [_told(one) for one in models]}
    return made.eval()


def _check_alike(
    number: int, first: NestedNER, other: NestedNER, one: Mapping[str, Tensor], two: Mapping[str, Tensor]
) -> None:
    advice = "Weights can be averaged of runs with the same encoder, labels and settings of the model."
    if first.config.labels != other.config.labels:
        raise ModelError(f"model {number} has its labels in another order than the first", advice=advice)
    for setting in ("word", "normalize"):  # with another one, the same weights mean something else
        mine, theirs = getattr(first.config, setting), getattr(other.config, setting)
        if mine != theirs:
            what = f"model {number} has another {setting} than the first: {theirs!r} instead of {mine!r}"
            raise ModelError(what, advice=advice)
    shapes = [{name: tuple(value.shape) for name, value in state.items()} for state in (one, two)]
    names = shapes[0].keys() | shapes[1].keys()
    different = sorted(name for name in names if shapes[0].get(name) != shapes[1].get(name))
    if different:
        what = f"model {number} is made in another way than the first: {', '.join(different[:3])}"
        raise ModelError(what, advice=advice)
    if first.tokenizer.get_vocab() != other.tokenizer.get_vocab():
        raise ModelError(f"model {number} has another vocabulary than the first", advice=advice)
    mine, theirs = (Path(model.config.encoder).name for model in (first, other))
    encoders = _cosine(one, two, max(_of_encoder(one), key=lambda name: one[name].numel()))
    if mine != theirs or encoders < ONE_START:
        told = f"{theirs} instead of {mine}" if mine != theirs else f"the cosine of their embeddings is {encoders:.2f}"
        raise ModelError(f"model {number} was trained on another encoder than the first: {told}", advice=advice)
    cosine = _cosine(one, two, _FIRST_LAYER)
    if cosine < ONE_START:
        raise ModelError(
            f"model {number} did not begin with the same weights as the first: the cosine of their scorers is "
            f"{cosine:.2f}",
            advice="Train from one start (--start-seed), or combine by --how potentials, which needs no such thing.",
        )


def _of_encoder(state: Mapping[str, Tensor]) -> list[str]:
    return [name for name, value in state.items() if name.startswith("encoder.") and value.is_floating_point()]


def _cosine(one: Mapping[str, Tensor], two: Mapping[str, Tensor], name: str) -> float:
    layers = [state[name].detach().cpu().double().flatten() for state in (one, two)]
    return float(nn.functional.cosine_similarity(layers[0], layers[1], 0))
