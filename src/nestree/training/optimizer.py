"""Learning rates, weight decay, and an average of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nestree.model import NestedNER
from nestree.training.config import TrainConfig


def make_optimizer(model: NestedNER, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with own learning rates for the encoder and the head; vectors (biases, norms) do not decay."""
    groups: list[dict[str, Any]] = []
    encoder = {id(one) for one in model.encoder.parameters()}
    for of_encoder, rate in ((True, config.encoder_lr), (False, config.head_lr)):
        for matrix, decay in ((True, config.weight_decay), (False, 0.0)):
            chosen = [
                one
                for one in model.parameters()
                if one.requires_grad and (id(one) in encoder) is of_encoder and (one.dim() > 1) is matrix
            ]
            if chosen:
                of = {"encoder": of_encoder, "full_lr": rate}
                groups.append({"params": chosen, "lr": rate, "weight_decay": decay, **of})
    return torch.optim.AdamW(groups, fused=model.device.type == "cuda" or None)


def rate_factor(step: int, steps: int, config: TrainConfig) -> float:
    """What share of the full learning rates a step has: up in the first ones, then down to 0."""
    rising = round(steps * config.warmup)
    if step < rising:
        return (step + 1) / rising
    return 1.0 if config.decay == "none" else (steps - step) / max(1, steps - rising)


def set_rates(optimizer: Any, factor: float) -> None:
    """Sets the learning rates of a step."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_lr"] * factor


def rates_of(optimizer: Any) -> tuple[float, float]:
    """The learning rates of the encoder and of the head in the last step."""
    found = {group["encoder"]: float(group["lr"]) for group in optimizer.param_groups}
    return found.get(True, 0.0), found.get(False, 0.0)


class Average:
    """An exponential moving average of the weights.

    Args:
        model: whose weights.
        decay: what share of the average stays in each step; less in the first steps, so that they are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._names = [name for name, _ in model.named_parameters()]
        self._weights = [one for _, one in model.named_parameters()]
        self._averages = [one.detach().clone() for one in self._weights]
        self._decay = decay

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Counts in the weights after a step."""
        decay = min(self._decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._averages, [one.detach() for one in self._weights], 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averages for its weights in here."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for weight, average in zip(self._weights, self._averages, strict=True):
            kept = weight.detach().clone()
            weight.copy_(average)
            average.copy_(kept)

    def tensors(self) -> dict[str, Tensor]:
        """The averages by the weights' names."""
        return dict(zip(self._names, self._averages, strict=True))

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Goes on from saved averages."""
        for name, average in zip(self._names, self._averages, strict=True):
            average.copy_(tensors[name])
