"""Saving, loading and sharing a model: what people call; :mod:`saving`, :mod:`loading` and :mod:`hub` do it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from torch import Tensor, nn

from nestree.model.card import MARKER
from nestree.model.config import ModelConfig
from nestree.model.encoder import WordEncoder
from nestree.model.folder import CARD, ENCODER, EXPORTED, FILES, MEMBERS, METRICS, WEIGHTS
from nestree.model.hub import find_folder, upload
from nestree.model.loading import load_model
from nestree.model.saving import save_model


class Saved(nn.Module):
    """A model that can be saved into a folder, loaded from one, and sent to the hub.

    Args:
        config: all settings.
        encoder: a Hugging Face encoder.
        tokenizer: its fast tokenizer.

    Attributes:
        metrics: the scores that the model was saved with.
        trained_with: the data and settings that it was trained with, as far as they were saved.
    """

    def __init__(self, config: ModelConfig, encoder: nn.Module, tokenizer: Any) -> None:
        super().__init__()
        self.config = config
        self.tokenizer = tokenizer
        self.encoder = WordEncoder(encoder, config.word)
        self.metrics: dict[str, Any] = {}
        self.trained_with: dict[str, Any] = {}

    def save_pretrained(
        self,
        folder: str | PathLike[str],
        *,
        metrics: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Writes everything into a folder: weights (safetensors), settings, tokenizer, scores and a model card.

        A model that is there already is replaced when the new one is complete; other files stay, and so does a
        README.md that somebody wrote.

        Args:
            folder: where to.
            metrics: scores by the name of the data, such as ``{"dev": scores.as_dict()}``; those the model was loaded
                with, if None.
            training: data and settings of the training, for the model card; likewise.
            weights: others than the model has now, such as its best ones, by the names of ``state_dict()``.
        """
        self._save(folder, metrics=metrics, training=training, weights=weights)

    def _save(
        self,
        folder: str | PathLike[str],
        *,
        metrics: Mapping[str, Any] | None,
        training: Mapping[str, Any] | None,
        weights: Mapping[str, Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        """Writes a folder; ``name``: what the model card calls the model."""
        save_model(self, folder, metrics=metrics, training=training, weights=weights, name=name)

    @classmethod
    def from_pretrained(
        cls,
        name: str | PathLike[str],
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | PathLike[str] | None = None,
        local_files_only: bool = False,
    ) -> Self:
        """A model as it was saved, in float32, or exported. Weights are read from safetensors, never from pickles.

        Args:
            name: a folder, or a name on the hub. The rest is for the hub:
            revision: a branch, a tag or a commit.
            token: for models that are not public; the one of ``hf auth login``, if None.
            cache_dir: where downloaded files are kept.
            local_files_only: whether to take what was downloaded before, and not to ask the hub.

        Raises:
            ModelError: there is no model of this name, or it is damaged, or of a newer version of nestree.
        """
        advice = "Name a folder that save_pretrained wrote, or be online and name a model of the hub (org/name)."
        options = {"revision": revision, "token": token, "cache_dir": cache_dir, "local_files_only": local_files_only}
        folder = find_folder(name, FILES, advice=advice, **options)
        there = (folder / WEIGHTS).is_file() or (folder / MEMBERS).is_dir()
        if not there and not Path(name).is_dir():
            folder = find_folder(name, (*FILES, EXPORTED), advice=advice, **options)  # large, and mostly not needed
        return load_model(cls, folder)

    def push_to_hub(
        self,
        name: str,
        *,
        metrics: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        private: bool | None = None,
        message: str = "A model of nestree",
    ) -> str:
        """Sends to the hub, as ``org/name``, what :meth:`save_pretrained` writes; returns the commit's address.

        Args:
            name: on the hub; it is made if it does not exist.
            metrics: as for :meth:`save_pretrained`.
            training: as for :meth:`save_pretrained`.
            revision: the branch.
            token: of somebody who may write there; the one of ``hf auth login``, if None.
            private: whether only the owners can see it, if it is new.
            message: of the commit.
        """
        with TemporaryDirectory() as folder:
            self._save(folder, metrics=metrics, training=training, name=name)
            return upload(
                folder,
                name,
                card=CARD,
                marker=MARKER,
                replaced=[METRICS, WEIGHTS, f"{ENCODER}/*", f"{MEMBERS}/*"],
                message=message,
                revision=revision,
                token=token,
                private=private,
            )
