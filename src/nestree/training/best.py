"""The best model of a run, in its folder as soon as it can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from nestree.encoders import adaptation_of
from nestree.model import NestedNER
from nestree.training.config import TrainConfig
from nestree.training.data import Corpus
from nestree.training.notes import Notes
from nestree.training.objective import Objective
from nestree.training.state import State


class Best:
    """Keeps the best weights until they are written. Until they are, no checkpoint may say that they were.

    Args:
        model: of the run.
        path: its folder.
        corpus: what it learns from.
        config: all settings.
        objective: what is made small.
        notes: tells what is told once.
    """

    def __init__(
        self, model: NestedNER, path: Path, corpus: Corpus, config: TrainConfig, objective: Objective, notes: Notes
    ) -> None:
        self._model = model
        self._path = path
        self._corpus = corpus
        self._config = config
        self._objective = objective
        self._notes = notes
        self._unsaved: dict[str, Tensor] | None = None

    def keep(self, weights: dict[str, Tensor]) -> None:
        """These are the best now."""
        self._unsaved = weights

    def save(self, state: State) -> bool:
        """Writes the best model, if it is not written yet; whether it is."""
        if self._unsaved is None:
            return True
        metrics, training = {"dev": state.best_scores}, self._training(state.best_epoch)
        try:
            self._model.save_pretrained(self._path, metrics=metrics, training=training, weights=self._unsaved)
        except OSError as error:
            self._notes("model", f"the best model could not be written yet ({error}); the run goes on, and tries again")
            return False
        self._unsaved = None
        return True

    def _training(self, epoch: int) -> dict[str, Any]:
        """What the model says of how it came to be."""
        data = {
            name: {
                "file": ", ".join(Path(one.path).name for one in part.files),
                "sentences": part.statistics.sentences,
                "entities": part.statistics.entities,
            }
            for name, part in (("train", self._corpus.train), ("dev", self._corpus.dev))
        }
        training = {**data, "epoch": epoch, "settings": self._config.as_dict()}
        adapted = adaptation_of(self._config.encoder)
        if adapted is not None:
            training["adaptation"] = adapted
        return training | self._objective.told()
