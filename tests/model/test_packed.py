"""Products with packed weights are what torch's own are."""

from __future__ import annotations

import copy
import pickle
import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import AutoModel, BertConfig, DistilBertConfig, MPNetConfig, RobertaConfig

from nestree.model import encoder as module
from nestree.model import packed
from nestree.model.encoder import vectors
from nestree.model.packed import PackedProducts, packed_products
from tests.model.tiny import SIZES, model

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available(),
    reason="oneDNN is for this CPU, or this torch, not there",
)

KINDS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "mpnet": MPNetConfig(**SIZES),
    "relu": BertConfig(**SIZES, hidden_act="relu"),
    "gelu_new": BertConfig(**SIZES, hidden_act="gelu_new"),
    "distilbert": DistilBertConfig(vocab_size=50, dim=32, n_layers=2, n_heads=4, hidden_dim=64),
}


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this CPU is."""
    packed.is_there()  # once, before anybody counts products
    monkeypatch.setattr(packed, "is_worth_it", lambda: packed.is_there())


def encoder(kind: str = "bert") -> Any:
    torch.manual_seed(1)
    return AutoModel.from_config(KINDS[kind]).eval()


def text() -> tuple[torch.Tensor, torch.Tensor]:
    pieces = torch.arange(3, 33).view(3, 10)
    attention = torch.ones_like(pieces)
    attention[1, 6:] = 0
    return pieces, attention


def read(model: Any) -> torch.Tensor:
    with packed_products(model, text()[0]):
        return plainly(model)


def plainly(model: Any) -> torch.Tensor:
    """What torch computes by itself."""
    return vectors(model, *text(), full=False)


def count(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Gets an entry for each packed product: whether it was activated, too."""
    seen: list[bool] = []
    own = packed.product

    def product(*values: Any, gelu: bool = False) -> torch.Tensor:
        seen.append(gelu)
        return own(*values, gelu=gelu)

    monkeypatch.setattr(packed, "product", product)
    return seen


def test_torch_has_what_it_takes() -> None:
    assert packed.is_there()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_same_vectors(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = encoder(kind)
    expected, seen = plainly(model), count(monkeypatch)
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
def test_weights_that_change_are_packed_again() -> None:
    model = encoder()
    before = read(model)
    weight = model.encoder.layer[0].output.dense.weight
    weight.mul_(3)
    after = read(model)
    assert not torch.allclose(before, after, atol=1e-3)
    torch.testing.assert_close(after, plainly(model), atol=1e-5, rtol=1e-4)
    weight.data = weight.data.clone().mul_(-1)
    torch.testing.assert_close(read(model), plainly(model), atol=1e-5, rtol=1e-4)
    model.encoder.layer[0].output.dense.weight = torch.nn.Parameter(torch.zeros_like(weight))
    torch.testing.assert_close(read(model), plainly(model), atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_weights_without_a_history_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = encoder(), count(monkeypatch)  # made within: nobody could know whether they change
    read(model)
    assert not seen


@torch.no_grad()
def test_copies_have_weights_of_their_own() -> None:
    model = encoder()
    before = read(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(read(other), before)
        other.encoder.layer[1].output.dense.weight.zero_()
        torch.testing.assert_close(read(other), plainly(other), atol=1e-5, rtol=1e-4)
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


@torch.no_grad()
def test_whole_models_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count(monkeypatch)
    monkeypatch.setattr(module, "unpadded", lambda *_: None)  # BERT has a way of its own
    whole = model(tmp_path).eval()
    batch = whole.pieces([["anna", "of", "the", "acme", "club"], ["bo", "runs"]])
    found = whole.span_scores(batch)
    assert len(seen) == 6 * whole.encoder.model.config.num_hidden_layers + sum(
        isinstance(one, torch.nn.Linear) for one in whole.scorer.modules()
    )
    monkeypatch.setattr(packed, "is_there", lambda: False)
    torch.testing.assert_close(found, whole.span_scores(batch), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("rows", "more"), [(1, 8), (8, 8), (255, 256), (257, 272), (1500, 1504), (5000, 5056)])
def test_there_are_few_numbers_of_rows(rows: int, more: int) -> None:
    words = torch.randn(1, rows, 4)
    padded = packed.with_more_rows(words)
    assert padded.shape == (more, 4)
    assert torch.equal(padded[:rows], words[0])
    assert not padded[rows:].any()
    own = torch.randn(more, 4)[:rows].view(1, rows, 4)
    assert packed.with_more_rows(own).data_ptr() == own.data_ptr()
    turned = torch.randn(4, rows).T
    assert torch.equal(packed.with_more_rows(turned)[:rows], turned)
    last = torch.randn(rows + 3, 4)[3:]  # with nothing behind it
    assert torch.equal(packed.with_more_rows(last)[:rows], last)
