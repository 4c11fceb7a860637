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
    model = Model(turned=turned)
    optimizer = make(model)
    for step in range(20):
        set_rates(optimizer, 1 - step / 20)
        model(torch.randn(4, 7, generator=torch.Generator().manual_seed(step))).backward()
        optimizer.step()
        optimizer.zero_grad()
    return [one.detach() for one in model.parameters()]


@pytest.mark.parametrize("turned", [False, True])
def test_fused_steps_are_those_of_plain_adamw(turned: bool) -> None:
    def plain(model: Any) -> torch.optim.AdamW:
        groups = [{**group, "params": group["params"]} for group in make_optimizer(model, RATES).param_groups]
        kept = [{name: one[name] for name in ("params", "lr", "weight_decay", "full_lr", "encoder")} for one in groups]
        return torch.optim.AdamW(kept, fused=False)

    quick = trained(lambda model: make_optimizer(model, RATES), turned=turned)
    for one, other in zip(quick, trained(plain, turned=turned), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_weights_that_do_not_lie_in_order_are_not_moved_by_the_fused_kernel() -> None:
    assert make_optimizer(Model(turned=False), RATES).defaults["fused"]
    assert not make_optimizer(Model(turned=True), RATES).defaults["fused"]
