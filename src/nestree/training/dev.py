"""How a model does on dev while it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from nestree.data import Document
from nestree.evaluation import Scores, score
from nestree.model import NestedNER
from nestree.prediction import Pages
from nestree.prediction.reading import budget_for
from nestree.training.gradients import too_long
from nestree.training.incomplete import judged


class Dev:
    """The documents that decide which epoch is best; every process reads its share of them.

    Args:
        model: that reads.
        gold: all documents, annotated.
        accelerator: where it computes.
    """

    def __init__(self, model: NestedNER, gold: Sequence[Document], accelerator: Any) -> None:
        self._model = model
        self._gold = gold
        self._accelerator = accelerator
        self._pages = Pages(model, gold[accelerator.process_index :: accelerator.num_processes])

    def scores(self, weights: AbstractContextManager[Any], budget: int) -> Scores:
        """Of the model as it is now.

        Args:
            weights: puts those in place that are to be scored.
            budget: padded work of one forward pass, at most.

        Raises:
            TrainingError: memory does not suffice.
        """
        from accelerate.utils import gather_object

        try:
            with weights, self._accelerator.autocast():
                own = list(self._pages.annotated(self._model, min(budget, budget_for(self._accelerator.device))))
        except torch.OutOfMemoryError as error:
            raise too_long() from error
        if self._accelerator.num_processes > 1:
            parts: list[list[Document]] = gather_object([own])
            own = [parts[at % len(parts)][at // len(parts)] for at in range(len(self._gold))]
        return score(self._gold, list(map(judged, self._gold, own)))
