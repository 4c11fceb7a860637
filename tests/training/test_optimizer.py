"""The optimizer: the same steps however it computes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from nestree.training.optimizer import make_optimizer, set_rates

RATES = SimpleNamespace(encoder_lr=1e-3, head_lr=1e-2, weight_decay=0.1)


class Model(nn.Module):
    def __init__(self, *, turned: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.head = nn.Linear(7, 5), nn.Linear(5, 3)
        if turned:
            self.encoder.weight = nn.Parameter(self.encoder.weight.detach().T.contiguous().T)
        self.device = torch.device("cpu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x).tanh()).square().sum()


def trained(make: Any, *, turned: bool) -> list[torch.Tensor]:
    """Twenty steps, with a checkpoint after ten, in which all tensors lie in order."""
    model = Model(turned=turned)
    optimizer = make(model)
    for step in range(20):
        set_rates(optimizer, 1 - step / 20)
        model(torch.randn(4, 7, generator=torch.Generator().manual_seed(step))).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 9:
            kept = optimizer.state_dict()
            for own in kept["state"].values():
                own.update({name: value.contiguous() for name, value in own.items()})
            optimizer = make(model)
            optimizer.load_state_dict(kept)
    return [one.detach() for one in model.parameters()]


def adamw(model: Any, *, fused: bool) -> torch.optim.AdamW:
    names = ("params", "lr", "weight_decay", "full_lr", "encoder")
    groups = make_optimizer(model, RATES).param_groups
    return torch.optim.AdamW([{name: one[name] for name in names} for one in groups], fused=fused)


@pytest.mark.parametrize("turned", [False, True])
def test_steps_are_those_of_plain_adamw(turned: bool) -> None:
    ours = trained(lambda model: make_optimizer(model, RATES), turned=turned)
    plain = trained(lambda model: adamw(model, fused=False), turned=turned)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_weights_that_do_not_lie_in_order_are_not_moved_by_the_fused_kernel() -> None:
    assert make_optimizer(Model(turned=False), RATES).defaults["fused"]
    assert not make_optimizer(Model(turned=True), RATES).defaults["fused"]
