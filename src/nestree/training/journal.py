"""What a run writes down about itself: metrics.jsonl, and TensorBoard's files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nestree.training.board import Board
from nestree.training.folder import RunFiles, RunFolder
from nestree.training.notes import Notes
from nestree.training.progress import EpochResult


class Lines:
    """Lines of metrics.jsonl. A full disk does not end a run: what could not be written comes later.

    Args:
        folder: of the run.
        notes: tells what is told once.
    """

    def __init__(self, folder: RunFiles, notes: Notes) -> None:
        self._folder = folder
        self._notes = notes
        self._waiting: list[dict[str, Any]] = []

    def add(self, event: dict[str, Any], also: Callable[[Mapping[str, Any]], None] | None = None) -> None:
        """One more; ``also`` gets it too, when it is written."""
        self._waiting.append(event)
        try:
            self._folder.log(self._waiting)
            self._waiting = []
            if also:
                also(event)
        except OSError as error:
            self._notes("journal", f"metrics could not be written ({error}); the run goes on, and tries again")


class Journal:
    """Writes lines about steps and epochs.

    Args:
        folder: of the run.
        sentences: in a step, for the speed.
        notes: tells what is told once.
    """

    def __init__(self, folder: RunFolder, *, sentences: int, notes: Notes) -> None:
        self._folder = folder
        self._board: Board | None = None
        self._lines = Lines(folder, notes)
        self._sentences = sentences
        self._last = time.monotonic(), 0

    def begin(self, step: int, *, tensorboard: bool) -> None:
        """The next step is the first that this process does after so many; for TensorBoard too, if it is installed."""
        self._last = time.monotonic(), step
        self._board = Board(self._folder.training / "tensorboard", after=step) if tensorboard else None

    def step(self, step: int, epoch: int, loss: float, rates: tuple[float, float], seconds: float) -> float:
        """A line about the steps since the last one; returns sentences per second."""
        then, before = self._last
        self._last = time.monotonic(), step
        speed = (step - before) * self._sentences / max(1e-9, self._last[0] - then)
        event = {"event": "step", "step": step, "epoch": epoch, "loss": loss, "sentences_per_second": round(speed, 1)}
        event |= {"encoder_lr": rates[0], "head_lr": rates[1], "seconds": round(seconds, 2)}
        self._lines.add(event, self._board.step if self._board else None)
        return speed

    def epoch(self, result: EpochResult) -> None:
        """A line about an epoch."""
        micro = result.scores.micro
        event: dict[str, Any] = {"event": "epoch", "epoch": result.epoch, "step": result.step, "loss": result.loss}
        event |= {"precision": micro.precision, "recall": micro.recall, "f1": micro.f1, "best": result.best}
        event |= {"sentences_per_second": round(result.sentences_per_second, 1), "seconds": round(result.seconds, 2)}
        event |= {"labels": result.scores.as_dict()["labels"]}
        self._lines.add(event, self._board.epoch if self._board else None)

    def close(self) -> None:
        """Ends TensorBoard's file."""
        if self._board:
            with suppress(OSError):
                self._board.close()
