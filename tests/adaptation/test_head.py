"""Heads: the pretrained one is kept, a new one shares the embeddings, both give what transformers gives."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, BertConfig, BertModel, T5Config, T5EncoderModel

from nestree.adaptation.head import GivenHead, OwnHead, load_masked
from nestree.model.encoder import load
from nestree.model.errors import ModelError
from tests.adaptation.cases import encoder
from tests.model import tiny

PIECES = torch.tensor([[2, 5, 4, 7, 3], [2, 9, 11, 4, 3]])
PLACES = torch.tensor([2, 8])
TARGETS = torch.tensor([6, 12])


def cost(model: torch.nn.Module) -> float:
    model.eval()
    with torch.no_grad():
        return float(model(PIECES, torch.ones_like(PIECES), PLACES, TARGETS, True))


def test_a_pretrained_head_is_kept(tmp_path: Path) -> None:
    folder = encoder(tmp_path / "e", head=True)
    model = load_masked(str(folder))
    assert model.pretrained
    whole = AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logs = whole(PIECES).logits.log_softmax(-1).flatten(0, 1)
    assert cost(model) == pytest.approx(-float(logs[PLACES, TARGETS].sum()), rel=1e-5)


def test_a_new_head_is_not_called_pretrained_and_is_tied(tmp_path: Path) -> None:
    model = load_masked(str(encoder(tmp_path / "e")))
    assert not model.pretrained
    embeddings = model.encoder.get_input_embeddings().weight  # type: ignore[operator]
    assert isinstance(model.head, GivenHead)
    assert model.head.model.get_output_embeddings().weight is embeddings
    names = [name for name, value in model.named_parameters() if value is embeddings]
    assert len(names) == 1  # learned once, decayed once
    before = cost(model)
    with torch.no_grad():
        embeddings[6, 0] += 1  # all of them alike would be nothing to a layer norm
    assert cost(model) != before


def test_a_head_is_saved_and_read_again(tmp_path: Path) -> None:
    model = load_masked(str(encoder(tmp_path / "e")))
    (tmp_path / "saved").mkdir()
    model.save(tmp_path / "saved")
    again = load_masked(str(tmp_path / "saved"))
    assert again.pretrained
    assert cost(again) == pytest.approx(cost(model), rel=1e-6)
    alone, _ = load(str(tmp_path / "saved"))
    for name, value in model.encoder.state_dict().items():
        assert alone.state_dict()[name].equal(value)
    assert cost(model) == pytest.approx(cost(again), rel=1e-6)  # saving leaves the model as it was


def test_encoders_without_a_known_head_get_one_of_ours(tmp_path: Path) -> None:
    base, _ = tiny.encoder(tmp_path)
    own = OwnHead(base)
    assert own.embeddings is base.get_input_embeddings().weight  # type: ignore[operator]
    assert own(torch.zeros(3, 32)).shape == (3, len(own.embeddings))
    assert own.whole(base) is base


def test_without_a_mask_piece_it_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    folder.mkdir()
    model, tokenizer = tiny.encoder(folder)
    tokenizer.mask_token = None
    model.save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match="no mask piece"):
        load_masked(str(folder))


def test_an_encoder_with_a_decoder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    folder.mkdir()
    _, tokenizer = tiny.encoder(folder)
    settings = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    settings.is_encoder_decoder = True
    BertModel(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match="an encoder with a decoder"):
        load_masked(str(folder))


def test_the_encoder_of_a_t5_has_no_known_head(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    folder.mkdir()
    _, tokenizer = tiny.encoder(folder)
    settings = T5Config(vocab_size=100, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    T5EncoderModel(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    model = load_masked(str(folder))
    assert isinstance(model.head, OwnHead)
    assert cost(model) > 0


SMALL: dict[str, object] = {
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_size": 16,
}
OTHERS: dict[str, dict[str, object]] = {
    "roberta": SMALL,
    "mpnet": SMALL,
    "distilbert": {"n_layers": 1, "n_heads": 2, "dim": 16, "hidden_dim": 32},
    "albert": {**SMALL, "embedding_size": 8},
    "electra": {**SMALL, "embedding_size": 8},
    "deberta-v2": SMALL,
    "modernbert": SMALL,
    "longformer": {**SMALL, "attention_window": [4]},
    "bert, untied": {**SMALL, "tie_word_embeddings": False},  # scores of its own
    "rembert": {**SMALL, "input_embedding_size": 8, "output_embedding_size": 24},  # of another width
}


def made(kind: str, folder: Path, **more: object) -> Path:
    """The folder of an encoder of some kind, with a head."""
    folder.mkdir()
    _, tokenizer = tiny.encoder(folder)
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    settings = AutoConfig.for_model(
        kind.partition(",")[0], vocab_size=len(tokenizer), **special, **OTHERS[kind], **more
    )
    torch.manual_seed(0)
    AutoModelForMaskedLM.from_config(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # of transformers' DeBERTa
@pytest.mark.parametrize("kind", OTHERS)
def test_heads_of_other_encoders_are_kept_and_saved(kind: str, tmp_path: Path) -> None:
    folder = made(kind, tmp_path / "e")
    model = load_masked(str(folder))
    assert isinstance(model.head, GivenHead)
    assert model.pretrained
    assert not model.note
    whole = AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logs = whole(input_ids=PIECES, attention_mask=torch.ones_like(PIECES)).logits.log_softmax(-1).flatten(0, 1)
    assert cost(model) == pytest.approx(-float(logs[PLACES, TARGETS].sum()), rel=1e-4)
    (tmp_path / "saved").mkdir()
    model.save(tmp_path / "saved")
    again = load_masked(str(tmp_path / "saved"))
    assert again.pretrained
    assert cost(again) == pytest.approx(cost(model), rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("kind", [kind for kind in OTHERS if kind != "rembert"])  # its embeddings have another width
def test_a_new_head_shares_embeddings_whatever_the_encoder_s_settings_say(kind: str, tmp_path: Path) -> None:
    folder = made(kind, tmp_path / "e")
    (tmp_path / "bare").mkdir()
    AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "bare")
    load(str(folder))[1].save_pretrained(tmp_path / "bare")
    model = load_masked(str(tmp_path / "bare"))
    assert isinstance(model.head, GivenHead)
    assert not model.pretrained
    embeddings = model.encoder.get_input_embeddings().weight  # type: ignore[operator]
    assert model.head.model.get_output_embeddings().weight is embeddings
    assert cost(model) < 2 * 2 * math.log(len(embeddings))  # as by chance, and not as of memory that nobody filled
    (tmp_path / "saved").mkdir()
    model.save(tmp_path / "saved")
    again = load_masked(str(tmp_path / "saved"))
    assert again.pretrained
    assert again.head.model.get_output_embeddings().weight is again.encoder.get_input_embeddings().weight  # type: ignore[operator, union-attr]
    assert cost(again) == pytest.approx(cost(model), rel=1e-6)


def test_a_bias_that_goes_by_another_name_is_found(tmp_path: Path) -> None:
    folder = made("bert, untied", tmp_path / "e")
    whole = AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        whole.cls.predictions.decoder.bias.copy_(torch.arange(len(whole.cls.predictions.decoder.bias)) / 10)
        whole.cls.predictions.bias.copy_(whole.cls.predictions.decoder.bias)
    weights = {name: value.contiguous() for name, value in whole.state_dict().items()}
    del weights["cls.predictions.decoder.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = load_masked(str(folder))
    assert model.pretrained
    with torch.no_grad():
        logs = whole(input_ids=PIECES, attention_mask=torch.ones_like(PIECES)).logits.log_softmax(-1).flatten(0, 1)
    assert cost(model) == pytest.approx(-float(logs[PLACES, TARGETS].sum()), rel=1e-4)


def test_a_head_of_our_own_is_said_to_be_not_saved(tmp_path: Path) -> None:
    folder = made("rembert", tmp_path / "e")
    AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "bare")
    load(str(folder))[1].save_pretrained(tmp_path / "bare")
    model = load_masked(str(tmp_path / "bare"))
    assert isinstance(model.head, OwnHead)
    assert "is not saved with the encoder" in model.note


def test_a_head_that_transformers_cannot_load_is_said_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = encoder(tmp_path / "e", head=True)

    def broken(*_: object, **__: object) -> None:
        raise AttributeError("a head has no attribute `weight`")  # as one kind of DeBERTa says in transformers 5.17

    monkeypatch.setattr(AutoModelForMaskedLM, "from_pretrained", broken)
    model = load_masked(str(folder))
    assert isinstance(model.head, OwnHead)
    assert not model.pretrained
    assert "cannot load its head" in model.note
    assert "a new head of our make" in model.note
    assert cost(model) > 0


def test_a_head_that_cannot_be_used_by_itself_is_said_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = encoder(tmp_path / "e", head=True)
    monkeypatch.setattr(GivenHead, "forward", lambda self, hidden: hidden)
    model = load_masked(str(folder))
    assert isinstance(model.head, OwnHead)
    assert "BertForMaskedLM cannot be used by itself" in model.note
