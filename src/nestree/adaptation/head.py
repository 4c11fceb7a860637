"""An encoder with a head that guesses hidden pieces: the one it was pretrained with, or a fresh one.

A model of transformers for masked language models is an encoder and a head, of which every kind of encoder has its own.
Here the encoder is run by us, and the head gets the vectors of hidden pieces alone: the scores of all pieces of the
vocabulary at all places would take more time and memory than the rest. For that, something that hands out vectors
stands in the place of the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nestree.adaptation.windows import IGNORED
from nestree.model.encoder import check_weights, folder_of, load, quiet, read_settings, read_tokenizer, vectors
from nestree.model.errors import ModelError, first_line, writing


class MaskedEncoder(nn.Module):
    """An encoder with a head.

    Args:
        encoder: of transformers.
        head: makes scores of all pieces of the vocabulary from vectors. Shape: ``[guess, hidden]`` to
            ``[guess, vocabulary]``
        tokenizer: of the encoder.
        pretrained: whether the head was trained before.
        note: what people should know of the head.
    """

    def __init__(
        self, encoder: nn.Module, head: OwnHead | GivenHead, tokenizer: Any, *, pretrained: bool, note: str = ""
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.tokenizer = tokenizer
        self.pretrained = pretrained
        self.note = note

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def width(self) -> int:
        """Of the encoder's vectors."""
        return int(self.encoder.config.hidden_size)  # type: ignore[union-attr, arg-type]

    def forward(self, pieces: Tensor, attention: Tensor, places: Tensor, targets: Tensor, full: bool) -> Tensor:
        """What guesses cost in nats, summed up; see :class:`nestree.adaptation.windows.Guesses`. Shape: ``[]``."""
        hidden = vectors(self.encoder, pieces, attention, full).flatten(0, 1)
        scores = self.head(hidden[places]).float()
        return nn.functional.cross_entropy(scores, targets, ignore_index=IGNORED, reduction="sum")

    def save(self, folder: Path) -> None:
        """Writes an ordinary encoder's folder: with the head, if transformers knows such models."""
        with quiet(), writing("the encoder", folder):
            self.head.whole(self.encoder).save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)

    def save_encoder(self, folder: Path) -> None:
        """The same without the head."""
        with quiet(), writing("the encoder", folder):
            self.encoder.save_pretrained(folder)  # type: ignore[operator]
            self.tokenizer.save_pretrained(folder)


class _Vectors(nn.Module):
    """Stands in the place of an encoder: gives vectors that are there already; knows all else that the encoder does."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.__dict__["of"] = encoder  # not as a part: it has its own place
        self.__dict__["found"] = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["of"], name)

    def forward(self, *_: Any, **__: Any) -> Any:
        return _output()(last_hidden_state=self.__dict__["found"])


@cache
def _output() -> type[Any]:
    """What encoders return. Some return more than others: what is not there is None."""
    from transformers.modeling_outputs import BaseModelOutput

    class Output(BaseModelOutput):
        def __getattr__(self, name: str) -> None:
            if name.startswith("_"):
                raise AttributeError(name)

    return Output


class GivenHead(nn.Module):
    """The head of a model of transformers.

    Args:
        model: for masked language models; its encoder is taken out.
        encoder: takes its place.
        pretrained: whether the head was trained before. Then it goes on as it is: with scores that are the encoder's
            embeddings, or with scores of its own. A new one shares the embeddings.
    """

    def __init__(self, model: Any, encoder: Any, *, pretrained: bool) -> None:
        super().__init__()
        self._name: str = model.base_model_prefix
        scores, embeddings = model.get_output_embeddings(), encoder.get_input_embeddings()
        if scores is None:
            raise ModelError(f"a {type(model).__name__} has no scores of pieces")
        self._tied = not pretrained or scores.weight is model.get_input_embeddings().weight
        setattr(model, self._name, _Vectors(encoder))
        if self._tied:
            if scores.weight.shape != embeddings.weight.shape:
                raise ModelError(f"the scores of a {type(model).__name__} have another shape than its embeddings")
            scores.weight = embeddings.weight
        self.model = model

    def forward(self, hidden: Tensor) -> Tensor:
        """Shape: ``[guess, hidden]`` to ``[guess, vocabulary]``."""
        stand_in = getattr(self.model, self._name)
        stand_in.__dict__["found"] = hidden[None]
        try:
            # It wants pieces, which nobody looks at.
            scores: Tensor = self.model(input_ids=hidden.new_zeros(1, len(hidden), dtype=torch.long)).logits[0]
        finally:
            stand_in.__dict__["found"] = None
        return scores

    def whole(self, encoder: nn.Module) -> Any:
        """The model of transformers, with the encoder in its place."""
        import copy

        stand_in = getattr(self.model, self._name)
        setattr(self.model, self._name, None)
        try:
            whole = copy.deepcopy(self.model).cpu()
        finally:
            setattr(self.model, self._name, stand_in)
        inner = copy.deepcopy(encoder).cpu()
        setattr(whole, self._name, inner)
        if self._tied:
            whole.get_output_embeddings().weight = inner.get_input_embeddings().weight  # type: ignore[operator]
        whole.config.tie_word_embeddings = self._tied
        return whole


class OwnHead(nn.Module):
    """A new head for encoders that transformers knows no head for: dense, GELU, norm, and the embeddings themselves.

    Args:
        encoder: whose input embeddings score the pieces.
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        embeddings: Tensor = encoder.get_input_embeddings().weight
        hidden = int(encoder.config.hidden_size)
        self.layers = nn.Sequential(
            nn.Linear(hidden, embeddings.shape[1]), nn.GELU(), nn.LayerNorm(embeddings.shape[1])
        )
        self.bias = nn.Parameter(torch.zeros(len(embeddings)))
        self.embeddings: nn.Parameter = encoder.get_input_embeddings().weight  # the same: they learn together

    def forward(self, hidden: Tensor) -> Tensor:
        """Shape: ``[guess, hidden]`` to ``[guess, vocabulary]``."""
        return nn.functional.linear(self.layers(hidden), self.embeddings, self.bias)

    def whole(self, encoder: nn.Module) -> Any:
        """The encoder alone: there is no place for the head."""
        return encoder


def load_masked(name: str) -> MaskedEncoder:
    """An encoder with its head; a head that its folder does not hold is new, with weights drawn at random.

    Raises:
        ModelError: it cannot be used: it has no mask piece, it is no encoder by itself, its weights are no safetensors.
    """
    settings = check_encoder(name)
    encoder, tokenizer = load(name)
    return with_head(encoder, tokenizer, settings, folder_of(name))


def check_encoder(name: str) -> Any:
    """The settings of an encoder; a ModelError as of :func:`load_masked`, but for what its weights alone tell."""
    folder = folder_of(name)
    settings = read_settings(folder)
    tokenizer = read_tokenizer(folder)
    if tokenizer.mask_token_id is None:
        what = f"{type(tokenizer).__name__} has no mask piece, so nothing can be hidden from this encoder"
        raise ModelError(what, path=folder, advice="Name an encoder that was pretrained by guessing, such as a BERT.")
    check_weights(folder, name)
    return settings


def with_head(encoder: nn.Module, tokenizer: Any, settings: Any, folder: Path) -> MaskedEncoder:
    """An encoder with the head that its folder holds, or a new one."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM

    if type(settings) not in MODEL_FOR_MASKED_LM_MAPPING:
        return _with_own(encoder, tokenizer, f"transformers knows no head for a {type(encoder).__name__}")
    check_weights(folder, str(folder))
    with quiet():
        try:
            model, report = AutoModelForMaskedLM.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
        except Exception as error:  # of a library that tells in many ways; the encoder itself was read from there
            return _with_own(encoder, tokenizer, f"transformers cannot load its head ({first_line(error)})")
    prefix = f"{model.base_model_prefix}."
    own = {name: value for name, value in model.named_parameters() if not name.startswith(prefix)}
    pretrained = not _filled(own, own.keys() & set(report["missing_keys"]))
    try:
        head = GivenHead(model, encoder, pretrained=pretrained)
        _try(head, encoder, tokenizer)
    except Exception as error:  # a head of another make than all that are known
        what = f"the head of a {type(model).__name__} cannot be used by itself ({first_line(error)})"
        return _with_own(encoder, tokenizer, what)
    return MaskedEncoder(encoder, head, tokenizer, pretrained=pretrained)


@torch.no_grad()
def _filled(own: Mapping[str, nn.Parameter], missing: set[str]) -> set[str]:
    """Fills biases of a head that its file does not hold; gives what was not there by another name either.

    A bias for each piece of the vocabulary can have two names, of which older files hold one. All others begin at 0:
    some are left as memory was.
    """
    new = set[str]()
    for name in missing:
        there = (other for other in own.keys() - missing if other.endswith("bias"))
        twins = [other for other in there if own[other].shape == own[name].shape]
        if name.endswith("decoder.bias") and len(twins) == 1:
            own[name].copy_(own[twins[0]])
            continue
        new.add(name)
        if name.endswith("bias"):
            own[name].zero_()
    return new


def _with_own(encoder: nn.Module, tokenizer: Any, why: str) -> MaskedEncoder:
    note = f"{why}: a new head of our make guesses, and is not saved with the encoder"
    return MaskedEncoder(encoder, OwnHead(encoder), tokenizer, pretrained=False, note=note)


def _try(head: nn.Module, encoder: Any, tokenizer: Any) -> None:
    """Raises an error if the head cannot be used by itself."""
    with torch.no_grad():
        found = head(torch.zeros(2, int(encoder.config.hidden_size)))
    wanted = (2, len(encoder.get_input_embeddings().weight))
    if tuple(found.shape) != wanted:
        raise ModelError(f"the head gives scores of shape {tuple(found.shape)} instead of {wanted}")
