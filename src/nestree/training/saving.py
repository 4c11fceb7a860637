"""The checkpoints of a run that is under way: a full disk does not end it, and all processes go on from the same."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from nestree.training import checkpoints
from nestree.training.checkpoints import Checkpoint
from nestree.training.errors import TrainingError
from nestree.training.folder import RunFiles
from nestree.training.notes import Notes
from nestree.training.progress import Progress


class Stopwatch:
    """Seconds since a run began; those between its end and its going on do not count."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """That it took so far."""
        return time.monotonic() - self._began

    def go_on_after(self, seconds: float) -> None:
        """So many were taken before."""
        self._began = time.monotonic() - seconds


class Saver:
    """Writes and reads checkpoints: optimizer, scaler, and what the run gives besides.

    Args:
        folder: of the run.
        accelerator: where it computes; the first process writes.
        optimizer: of the run.
        progress: shows it.
        notes: tells what is told once.
    """

    def __init__(self, folder: RunFiles, accelerator: Any, optimizer: Any, progress: Progress, notes: Notes) -> None:
        self._folder = folder
        self._accelerator = accelerator
        self._optimizer = optimizer
        self._progress = progress
        self._notes = notes

    def save(self, step: int, tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> bool:
        """Writes a checkpoint, if it can be; whether it was written.

        Args:
            step: the last one that was done.
            tensors: all but the optimizer's.
            content: all else; ``state`` holds the same step.
        """
        if not self._accelerator.is_main_process:
            return False
        state = checkpoints.optimizer_tensors(self._optimizer.state_dict()["state"])
        scaler = self._accelerator.scaler.state_dict() if self._accelerator.scaler else None
        try:
            whole = {**content, "scaler": scaler}
            checkpoints.save(self._folder.checkpoints, step, {**tensors, **dict(state)}, whole)
        except OSError as error:
            self._notes("checkpoint", f"a checkpoint could not be written ({error}); the run goes on, and tries again")
            return False
        return True

    def restore(self, steps: int) -> Checkpoint | None:
        """Puts optimizer and scaler back as the last checkpoint has them; returns it, or None if there is none yet.

        Args:
            steps: of the whole run.

        Raises:
            TrainingError: processes see different checkpoints.
        """
        found, damaged = checkpoints.load(self._folder.checkpoints)
        for path, why in damaged:
            self._progress.message(f"{path} is damaged ({why}); it is passed over")
        step = found.state["state"]["step"] if found else 0
        self._agree(step)
        if self._accelerator.is_main_process:
            self._folder.forget_after(step if found else -1)
        if found is None:
            self._progress.message(f"{self._folder.path}: no checkpoint yet; beginning at the first step")
            return None
        groups = self._optimizer.state_dict()["param_groups"]
        state = checkpoints.optimizer_state(found.tensors)
        self._optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self._accelerator.scaler and found.state["scaler"]:
            self._accelerator.scaler.load_state_dict(found.state["scaler"])
        self._progress.message(f"going on after step {step} of {steps}")
        return found

    def _agree(self, step: int) -> None:
        """All processes must go on from the same step: with several machines, they must see the same folder."""
        from accelerate.utils import gather_object

        found = set(gather_object([step]))
        if len(found) > 1:
            raise TrainingError(
                f"{self._folder.path}: processes found checkpoints of different steps ({sorted(found)}). All machines "
                "must share this folder."
            )
