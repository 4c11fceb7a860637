"""How far a run has come, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """How a run ended: the best epoch, its scores on dev, and how long all took."""

    folder: str
    epoch: int
    epochs: int
    scores: dict[str, Any]
    seconds: float

    @property
    def f1(self) -> float:
        """Micro F1 on dev."""
        return float(self.scores["micro"]["f1"])


@dataclass(frozen=True)
class State:
    """How far a run has come.

    Attributes:
        epoch: the epoch that is under way, from 1.
        in_epoch: its steps that are done.
        step: all steps that are done.
        loss: sum of the losses of this epoch's steps, as far as they were counted.
        counted: the last step that was.
        recent: sum of the losses of the steps after that.
        best: dev F1 of the best epoch; less than 0 before the first.
        best_epoch: which that was.
        best_scores: all its scores.
        seconds: how long it took.
    """

    epoch: int = 1
    in_epoch: int = 0
    step: int = 0
    loss: float = 0.0
    counted: int = 0
    recent: float = 0.0
    best: float = -1.0
    best_epoch: int = 0
    best_scores: dict[str, Any] | None = None
    seconds: float = 0.0
