"""Learning rates, weight decay, and an average of the weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nestree.training.recordings import Recordings


class Rates(Protocol):
    """Settings of an optimizer."""

    @property
    def encoder_lr(self) -> float:
        """Learning rate of the encoder."""

    @property
    def head_lr(self) -> float:
        """Learning rate of everything else."""

    @property
    def weight_decay(self) -> float:
        """Of matrices."""


class Course(Protocol):
    """Settings of how learning rates change."""

    @property
    def warmup(self) -> float:
        """Share of the steps in which they rise."""

    @property
    def decay(self) -> str:
        """How they go on."""


class WithEncoder(Protocol):
    """A model with an encoder in it."""

    @property
    def encoder(self) -> nn.Module:
        """The part that was pretrained."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """All weights."""


def make_optimizer(model: WithEncoder, config: Rates) -> torch.optim.AdamW:
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
    if model.device.type != "cuda":
        # On CPUs the fused kernel takes weights and what it knows of them for what lies in memory in one order; what
        # comes back from a checkpoint lies in order, whatever the weight does.
        in_order = all(one.is_contiguous() for group in groups for one in group["params"])
        return torch.optim.AdamW(groups, fused=(model.device.type == "cpu" and in_order) or None)
    # Rates are tensors there, so that a recorded step reads the present ones.
    for group in groups:
        group["lr"] = torch.tensor(group["lr"], device=model.device)
    return torch.optim.AdamW(groups, fused=True, capturable=True)


def rate_factor(step: int, steps: int, config: Course) -> float:
    """What share of the full learning rates a step has: up in the first ones, then down to 0."""
    rising = round(steps * config.warmup)
    if step < rising:
        return (step + 1) / rising
    return 1.0 if config.decay == "none" else (steps - step) / max(1, steps - rising)


def set_rates(optimizer: Any, factor: float) -> None:
    """Sets the learning rates of a step."""
    for group in optimizer.param_groups:
        rate = group["full_lr"] * factor
        group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate


def rates_of(optimizer: Any) -> tuple[float, float]:
    """The learning rates of the encoder and of the head in the last step."""
    found = {group["encoder"]: float(group["lr"]) for group in optimizer.param_groups}
    return found.get(True, 0.0), found.get(False, 0.0)


class Update:
    """What a step does with the gradients: they are clipped, move the weights, and are gone.

    Args:
        model: whose weights.
        optimizer: moves them.
        accelerator: the machine.
        clip: the largest norm of the gradient; 0: any.
        recordings: where there are any, the work is recorded and replayed.
    """

    def __init__(
        self, model: nn.Module, optimizer: Any, accelerator: Any, clip: float, recordings: Recordings | None
    ) -> None:
        self._weights = [one for one in model.parameters() if one.requires_grad]
        self._optimizer = optimizer
        self._accelerator = accelerator
        self._clip = clip
        self._recordings = recordings

    def __call__(self) -> None:
        """Takes the step."""
        if self._recordings is not None:
            self._recordings.run("update", self._in_place)
            return
        self._step()
        self._optimizer.zero_grad(set_to_none=True)

    def _step(self) -> None:
        if self._clip:
            self._accelerator.clip_grad_norm_(self._weights, self._clip)
        self._optimizer.step()

    def _in_place(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
            self._step()
        torch._foreach_zero_([one.grad for one in self._weights if one.grad is not None])


class Average:
    """An exponential moving average of the weights.

    Args:
        model: whose weights.
        decay: what share of the average stays in each step; less in the first steps, so that they are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._names = [name for name, _ in model.named_parameters()]
        self._weights = [one.detach() for _, one in model.named_parameters()]
        self._averages = [one.clone() for one in self._weights]
        self._decay = decay

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Counts in the weights after a step."""
        decay = min(self._decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._averages, self._weights, 1 - decay)

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
            kept = weight.clone()
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
