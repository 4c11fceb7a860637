"""TensorBoard, if it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Board:
    """Writes what metrics.jsonl holds for TensorBoard too; does nothing without it.

    Args:
        folder: where its files go.
        after: the last step that is done; what is there of later ones is not shown.
    """

    def __init__(self, folder: Path, after: int = 0) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(folder), purge_step=after + 1)  # type: ignore[no-untyped-call, unused-ignore]

    def step(self, event: Mapping[str, Any]) -> None:
        """A line about a step."""
        self._scalars(event, {"loss": "train/loss", "encoder_lr": "rates/encoder", "head_lr": "rates/head"})

    def epoch(self, event: Mapping[str, Any]) -> None:
        """A line about an epoch."""
        names = {name: f"dev/{name}" for name in ("precision", "recall", "f1")}
        self._scalars(event, names | {"sentences_per_second": "train/sentences_per_second"})
        if self._writer:
            for label, scores in event["labels"].items():
                self._writer.add_scalar(f"dev by label/{label}", scores["f1"], event["step"])
            self._writer.flush()

    def _scalars(self, event: Mapping[str, Any], names: Mapping[str, str]) -> None:
        if self._writer:
            for key, name in names.items():
                self._writer.add_scalar(name, event[key], event["step"])

    def close(self) -> None:
        """Ends the file."""
        if self._writer:
            self._writer.close()
