"""BERT without padding computes what transformers computes, and leaves alone what is no plain BERT."""

from __future__ import annotations

import gc
import weakref
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel, RobertaConfig

from nestree.model import encoder as module
from nestree.model import packed
from nestree.model.encoder import vectors
from nestree.model.unpadded import is_unpadded, unpadded
from tests.model import tiny
from tests.model.tiny import SIZES


@pytest.fixture(autouse=True, params=[True, False], ids=["packed", "plain"])
def worth_it(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this CPU is: both kinds of products, if torch has both here."""
    if request.param and not packed.is_there():
        pytest.skip("this torch has no products of oneDNN for this CPU")
    monkeypatch.setattr(packed, "is_worth_it", lambda: bool(request.param))


def bert(**settings: Any) -> Any:
    torch.manual_seed(1)
    model = BertModel(BertConfig(**{**SIZES, **settings}), add_pooling_layer=False).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():  # biases and norms too: new ones do nothing
            weight.normal_(mean=1.0 if name.endswith("LayerNorm.weight") else 0.0, std=0.2)
    return model


def windows(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pieces and attention."""
    width = max(lengths)
    torch.manual_seed(len(lengths))
    attention = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    return torch.randint(5, 50, (len(lengths), width)) * attention, attention


def reads(model: Any) -> bool:
    with torch.inference_mode():
        return unpadded(model, torch.empty(0)) is not None


def both(model: Any, *lengths: int, monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of real pieces: without padding, and as transformers has them."""
    pieces, attention = windows(*lengths)
    full = bool(attention.all())
    with torch.inference_mode():
        own = vectors(model, pieces, attention, full)
        with monkeypatch.context() as patch:
            patch.setattr(module, "unpadded", lambda *_: None)
            theirs = vectors(model, pieces, attention, full)
    return own[attention.bool()], theirs[attention.bool()]


@pytest.mark.parametrize("lengths", [(1,), (7,), (7, 7), (3, 9, 1), (40, 2), (5,) * 33, tuple(range(1, 41))])
def test_the_same_vectors(lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    assert reads(model)
    own, theirs = both(model, *lengths, monkeypatch=monkeypatch)
    assert torch.allclose(own, theirs, atol=1e-5)


def test_no_matter_what_stands_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    pieces, attention = windows(6, 11)
    with torch.inference_mode():
        together = vectors(model, pieces, attention, False)[0, :6]
        alone = vectors(model, pieces[:1, :6], attention[:1, :6], True)[0]
    assert torch.allclose(together, alone, atol=1e-5)


NAMES = [
    "embeddings.token_type_embeddings.weight",
    "encoder.layer.0.attention.self.query.bias",
    "encoder.layer.0.attention.self.key.weight",
    "encoder.layer.0.attention.self.value.bias",
    "encoder.layer.0.attention.output.LayerNorm.bias",
    "encoder.layer.1.attention.output.dense.bias",
    "encoder.layer.1.intermediate.dense.weight",
    "encoder.layer.1.output.dense.bias",
    "encoder.layer.1.output.LayerNorm.weight",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("in_place", [True, False])
def test_weights_that_change(name: str, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    before, _ = both(model, 4, 6, monkeypatch=monkeypatch)
    weight = model.get_parameter(name)
    with torch.no_grad():
        if in_place:
            weight.add_(torch.randn_like(weight))
        else:
            weight.data = torch.randn_like(weight)
    assert reads(model)
    own, theirs = both(model, 4, 6, monkeypatch=monkeypatch)
    assert torch.allclose(own, theirs, atol=1e-5)
    assert not torch.allclose(own, before, atol=1e-3)


def test_weights_of_another_type_are_left_to_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    both(model, 4, 6, monkeypatch=monkeypatch)
    own, theirs = both(model.double(), 4, 6, monkeypatch=monkeypatch)
    assert own.dtype == torch.float64
    assert torch.equal(own, theirs)
    assert reads(model.float())


def test_parts_that_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    before, _ = both(model, 4, 6, monkeypatch=monkeypatch)
    model.encoder.layer[1].output.dense = torch.nn.Linear(64, 32)
    own, theirs = both(model, 4, 6, monkeypatch=monkeypatch)
    assert torch.allclose(own, theirs, atol=1e-5)
    assert not torch.allclose(own, before, atol=1e-3)
    model.encoder.layer[1].output.dense = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh())
    with torch.inference_mode():
        assert unpadded(model, torch.empty(0)) is None
    own, theirs = both(model, 4, 6, monkeypatch=monkeypatch)
    assert torch.equal(own, theirs)


def test_who_looks_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    both(model, 4, 6, monkeypatch=monkeypatch)
    seen: list[int] = []
    of_part = model.encoder.layer[0].output.register_forward_hook(lambda *_: seen.append(1))
    assert not reads(model)
    with torch.inference_mode():
        vectors(model, *windows(4), True)
    assert seen
    of_part.remove()
    assert reads(model)
    of_all = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert not reads(model)
    of_all.remove()
    assert reads(model)


def test_who_steps_in_is_not_passed_over() -> None:
    model = bert()
    assert reads(model)
    model.encoder.layer[0].forward = lambda words, *_, **__: words
    assert not reads(model)
    other = bert()
    other.encoder.layer[0].output.dense = torch.nn.Linear(64, 32, bias=False)
    assert not reads(other)
    other = bert()
    other.set_attn_implementation("flex_attention")
    assert not reads(other)


def test_copies_have_weights_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    before, _ = both(model, 4, 6, monkeypatch=monkeypatch)
    copy = deepcopy(model)
    with torch.no_grad():
        copy.encoder.layer[0].output.dense.weight.zero_()
    own, theirs = both(copy, 4, 6, monkeypatch=monkeypatch)
    assert torch.allclose(own, theirs, atol=1e-5)
    assert torch.equal(both(model, 4, 6, monkeypatch=monkeypatch)[0], before)


@pytest.mark.parametrize(
    "model",
    [
        bert(hidden_act="relu"),
        bert(hidden_act="gelu_new"),
        bert(is_decoder=True),
        bert().double(),
        AutoModel.from_config(RobertaConfig(**SIZES)).eval(),
        type("Other", (BertModel,), {})(BertConfig(**SIZES), add_pooling_layer=False).eval(),
    ],
    ids=["relu", "gelu_new", "decoder", "float64", "roberta", "subclass"],
)
def test_other_encoders_are_left_alone(model: Any) -> None:
    with torch.inference_mode():
        assert unpadded(model, torch.empty(0)) is None


def test_training_and_gradients_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    assert unpadded(model, torch.empty(0)) is None  # a gradient may be asked for
    with torch.inference_mode():
        assert unpadded(model.train(), torch.empty(0)) is None
        monkeypatch.setattr(packed, "MOST_BYTES", 1000)
        assert unpadded(bert(), torch.empty(0)) is None


def test_of_whole_models_it_is_known(tmp_path: Path) -> None:
    assert is_unpadded(tiny.model(tmp_path))
    assert not is_unpadded(torch.nn.Linear(2, 2))


def test_whole_models_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model(tmp_path).eval()
    words = [["anna", "of", "the", "acme", "club"], ["bo"], ["x"] * 30]
    batch = model.pieces(words)
    with torch.inference_mode():
        own = model(batch)
        monkeypatch.setattr(module, "unpadded", lambda *_: None)
        theirs = model(batch)
    for number, one in enumerate(words):
        n = len(one)
        assert torch.allclose(own[number, :n, :n], theirs[number, :n, :n], atol=1e-4)


def test_models_that_nobody_holds_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    both(model, 4, monkeypatch=monkeypatch)
    there = weakref.ref(model)
    del model
    gc.collect()
    assert there() is None
