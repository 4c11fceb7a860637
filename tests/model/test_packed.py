"""Products with packed weights are what torch's own are."""

from __future__ import annotations

import copy
import pickle
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import AutoModel, BertConfig, DistilBertConfig, MPNetConfig, RobertaConfig

from nestree.model import packed
from nestree.model.encoder import vectors
from nestree.model.packed import PackedProducts, packed_products

pytestmark = pytest.mark.skipif(not packed.is_there(), reason="this torch has no packed weights")

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
KINDS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "mpnet": MPNetConfig(**SIZES),
    "relu": BertConfig(**SIZES, hidden_act="relu"),
    "gelu_new": BertConfig(**SIZES, hidden_act="gelu_new"),
    "distilbert": DistilBertConfig(vocab_size=50, dim=32, n_layers=2, n_heads=4, hidden_dim=64),
}


def encoder(kind: str = "bert") -> Any:
    torch.manual_seed(1)
    return AutoModel.from_config(KINDS[kind]).eval()


def text() -> tuple[torch.Tensor, torch.Tensor]:
    pieces = torch.arange(3, 33).view(3, 10)
    attention = torch.ones_like(pieces)
    attention[1, 6:] = 0
    return pieces, attention


def read(model: Any) -> torch.Tensor:
    pieces, attention = text()
    return vectors(model, pieces, attention, full=False)


def plainly(model: Any, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """What torch computes by itself."""
    from nestree.model import encoder as module

    with monkeypatch.context() as patch:
        patch.setattr(module, "packed_products", lambda model, pieces: nullcontext())
        return read(model)


def count(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Gets an entry for each packed product: whether it was activated, too."""
    seen: list[bool] = []
    own = packed.product

    def product(*values: Any, gelu: bool = False) -> torch.Tensor:
        seen.append(gelu)
        return own(*values, gelu=gelu)

    monkeypatch.setattr(packed, "product", product)
    return seen


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_same_vectors(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = encoder(kind)
    expected, seen = plainly(model, monkeypatch), count(monkeypatch)
    assert not seen
    torch.testing.assert_close(read(model), expected, atol=1e-5, rtol=1e-4)
    assert len(seen) == (12 if kind == "distilbert" else 13)  # six of each layer, and what pools
    assert seen.count(True) == (2 if kind in ("bert", "roberta", "mpnet") else 0)


def test_what_is_trained_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = encoder(), count(monkeypatch)
    read(model).sum().backward()
    assert not seen
    assert model.encoder.layer[0].intermediate.dense.weight.grad is not None
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        read(model)
    assert not seen


@torch.no_grad()
def test_weights_that_change_are_packed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = encoder()
    before = read(model)
    weight = model.encoder.layer[0].output.dense.weight
    weight.mul_(3)
    after = read(model)
    assert not torch.allclose(before, after, atol=1e-3)
    torch.testing.assert_close(after, plainly(model, monkeypatch), atol=1e-5, rtol=1e-4)
    weight.data = weight.data.clone().mul_(-1)
    torch.testing.assert_close(read(model), plainly(model, monkeypatch), atol=1e-5, rtol=1e-4)
    model.encoder.layer[0].output.dense.weight = torch.nn.Parameter(torch.zeros_like(weight))
    torch.testing.assert_close(read(model), plainly(model, monkeypatch), atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_weights_without_a_history_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = encoder(), count(monkeypatch)  # made within: nobody could know whether they change
    read(model)
    assert not seen


@torch.no_grad()
def test_copies_have_weights_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = encoder()
    before = read(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(read(other), before)
        other.encoder.layer[1].output.dense.weight.zero_()
        torch.testing.assert_close(read(other), plainly(other, monkeypatch), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(read(model), before)


@torch.no_grad()
def test_only_what_an_activation_follows_is_activated() -> None:
    model = encoder()
    dense = model.encoder.layer[0].intermediate.dense
    words = torch.randn(2, 5, 32)
    with packed_products(model, text()[0]) as products:
        assert isinstance(products, PackedProducts)
        torch.testing.assert_close(functional.gelu(words), torch.nn.GELU()(words))
        once = functional.gelu(dense(words))
        twice = functional.gelu(once)
    torch.testing.assert_close(once, functional.gelu(dense(words)), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(twice, functional.gelu(once))


@torch.no_grad()
def test_large_encoders_and_old_torches_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(packed, "MOST_BYTES", 1000)
        read(encoder())
    with monkeypatch.context() as patch:
        patch.setattr(packed, "is_there", lambda: False)
        read(encoder())
    assert not seen
