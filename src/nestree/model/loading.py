"""A model from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nestree.model.encoder import NoRandomWeights, empty_encoder, read_settings, read_tokenizer
from nestree.model.errors import ModelError
from nestree.model.folder import (
    AGAIN,
    ENCODER,
    EXPORTED,
    MEMBERS,
    SETTINGS,
    WEIGHTS,
    Settings,
    fingerprint_of_members,
    members_of,
    read_folder,
)
from nestree.model.weights import fill_weights

if TYPE_CHECKING:
    from nestree.model.saved import Saved

Kind = TypeVar("Kind", bound="Saved")


def load_model(kind: type[Kind], path: Path) -> Kind:
    """A model from its folder, checked, in float32, ready to predict."""
    settings = read_folder(path)
    if (path / EXPORTED).is_file() and not (path / WEIGHTS).is_file():
        return _load_exported(kind, path)
    if (path / MEMBERS).is_dir() and not (path / WEIGHTS).is_file():
        return _load_combined(kind, path, settings)
    encoder = empty_encoder(read_settings(path / ENCODER))
    tokenizer = read_tokenizer(path / ENCODER)
    with NoRandomWeights():
        model = kind(settings.config, encoder, tokenizer)
    fill_weights(model, path / WEIGHTS, settings.fingerprint)
    model.trained_with, model.metrics = settings.training, settings.metrics
    return model.eval()


def _load_exported(kind: type[Kind], path: Path) -> Kind:
    from nestree.export import load

    found = load(path)
    if not isinstance(found, kind):
        raise ModelError(f"this model is exported, and no {kind.__name__}", path=path)
    return found


def _load_combined(kind: type[Kind], path: Path, settings: Settings) -> Kind:
    from nestree.model.ensemble import EnsembleNER
    from nestree.model.ner import NestedNER

    if fingerprint_of_members(settings.config.as_dict(), path) != settings.fingerprint:
        what = f"these members belong to other settings than those in {SETTINGS}"
        raise ModelError(what, path=path / MEMBERS, advice="Are these files of two models? " + AGAIN)
    found = EnsembleNER([load_model(NestedNER, folder) for folder in members_of(path)])
    if not isinstance(found, kind):
        raise ModelError(f"this model is combined, and no {kind.__name__}", path=path)
    found.config, found.trained_with, found.metrics = settings.config, settings.training, settings.metrics
    return found
