"""What a run makes small. Ordinarily that is the loss of the model; others add to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nestree.crf import PartialTrees
from nestree.model import NestedNER
from nestree.model.pieces import Batch
from nestree.training.folder import KEPT


class Objective:
    """The loss of a model. Others override what they need.

    Attributes:
        recordable: whether the work of a step can be recorded for a GPU (:mod:`nestree.training.recordings`).
    """

    recordable = True

    def described(self) -> dict[str, Any]:
        """As ``run.json`` keeps it. What stands under ``same`` must be the same when a run goes on."""
        return {}

    def told(self) -> dict[str, Any]:
        """What the model card says of it."""
        return {}

    def check(self, folder: Path) -> None:
        """Is called before anything slow, and before anything that was there is replaced: an error if it cannot be.

        Args:
            folder: the one of :meth:`prepare`.
        """

    def prepare(self, folder: Path, accelerator: Any, say: Callable[[str], None]) -> None:
        """Is called before the first step: what takes long is done here, and kept in the run's folder.

        It is called a second time if a run is replaced: before that, when an error does no harm, and after it.

        Here, what another objective kept there is removed: the run that it belonged to was replaced.
        """
        if accelerator.is_main_process:
            self.finish(folder)

    def tensors(self, numbers: np.ndarray, n: int) -> tuple[Tensor, ...]:
        """What the loss of these sentences needs besides, with room for n words; is called in a thread."""
        return ()

    def loss(self, model: NestedNER, batch: Batch, observed: PartialTrees, *more: Tensor) -> Tensor:
        """The mean over sentences. ``more``: the tensors, where the model is. Shape: ``[]``."""
        return model.loss(batch, observed)

    def finish(self, folder: Path) -> None:
        """Is called when the run is over: what was kept in the folder can go."""
        for name in KEPT:
            (folder / name).unlink(missing_ok=True)
