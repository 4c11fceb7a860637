"""Combined models: the mean of what members say, exactly, wherever a model works."""

from __future__ import annotations

import copy
import json
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, BertTokenizerFast

from nestree import NestedNER
from nestree.cli.main import main
from nestree.data import Document, Splitter
from nestree.export.exporting import export
from nestree.model import ModelConfig, ModelError
from nestree.model.ensemble import EnsembleNER, averaged
from nestree.model.folder import shared_members
from nestree.prediction.suggestions import suggest
from tests.crf.brute_force import EveryTree
from tests.model import tiny

WORDS = [["ab", "c", "defg"], ["h"], ["ij", "klm", "n", "op"]]
TEXTS = ["Ab c defg, hi.", "J klm n op. Qr st uvw xyz.", ""]


def member(folder: Path, seed: int, noise: float = 0.1, **settings: Any) -> NestedNER:
    """A small model with other weights; with little ``noise``, as runs from one start have them."""
    model = tiny.model(folder, **settings)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(noise * torch.randn_like(weight))
    return model.eval()


def other_encoder(folder: Path) -> tuple[nn.Module, Any]:
    """Of another width, whose pieces are other ones."""
    folder.mkdir()
    ends = [f"##{one}{two}" for one in string.ascii_lowercase for two in string.ascii_lowercase[:9]]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *ends]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    settings = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    torch.manual_seed(5)
    return BertModel(settings, add_pooling_layer=False), BertTokenizerFast(vocab=str(folder / "vocab.txt"))


def found(model: NestedNER, **options: Any) -> list[list[tuple[Any, ...]]]:
    return [
        [(one.start, one.end, one.label, round(one.score, 4)) for one in prediction]
        for prediction in model.predict(TEXTS, **options)
    ]


def trees(model: NestedNER) -> list[list[tuple[Any, ...]]]:
    return [
        [(node.start, node.end, node.label, round(node.score, 4)) for tree in one.trees or () for node in tree]
        for one in model.predict(TEXTS, trees=True)
    ]


def almost(model: NestedNER) -> NestedNER:
    """A copy with other weights for a piece that no text here has."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.encoder.model.get_input_embeddings().weight[0].add_(1.0)
    return other


def test_a_model_does_not_count_twice(tmp_path: Path) -> None:
    one, two = member(tmp_path, 1), member(tmp_path, 2)
    warm = copy.deepcopy(one)
    warm.config = replace(warm.config, temperature=2.0)  # calibrated, and the same model still
    for models, said in (
        ([one, one], "members 1 and 2 are the same"),
        ([one, two, warm], "members 1 and 3 are the same"),
        ([NestedNER.ensemble([one, two]), one], "members 1 and 3 are the same"),
    ):
        with pytest.raises(ModelError, match=said):
            NestedNER.ensemble(models)
    EnsembleNER([one, warm]).save_pretrained(tmp_path / "before")  # as could be made before it was refused
    assert len(NestedNER.from_pretrained(tmp_path / "before").config.labels) == len(one.config.labels)


@pytest.mark.parametrize("settings", [{"gain": 2.0}, {"latent_labels": 3, "decoding": "mbr"}, {"loss": "local"}])
def test_a_model_with_itself_is_that_model(tmp_path: Path, settings: dict[str, Any]) -> None:
    model = member(tmp_path, 1, **settings)
    both = NestedNER.ensemble([model, almost(model)])
    assert found(both) == found(model)
    assert found(both, threshold=0.1) == found(model, threshold=0.1)
    if "loss" not in settings:
        assert trees(both) == trees(model)


def test_potentials_are_the_mean(tmp_path: Path) -> None:
    one, two = member(tmp_path, 1, gain=2.0), member(tmp_path, 2, gain=3.0)
    two.config = replace(two.config, temperature=0.5)
    both = NestedNER.ensemble([one, two])
    together = both.potentials(both.pieces(WORDS))
    wanted = (one.potentials(one.pieces(WORDS)) + two.potentials(two.pieces(WORDS))) / 2
    for at, words in enumerate(WORDS):
        n = len(words)
        assert torch.allclose(together[at, :n, :n], wanted[at, :n, :n], atol=1e-5)


def test_it_is_the_geometric_mean_of_distributions_over_trees(tmp_path: Path) -> None:
    models = [member(tmp_path, seed, latent_labels=1) for seed in (1, 2, 3)]
    both = NestedNER.ensemble(models)
    words = [WORDS[2]]
    spaces = [EveryTree(model.potentials(model.pieces(words))[0].double()) for model in (*models, both)]
    logs = [torch.log_softmax(space.tree_scores, 0) for space in spaces]
    mean = torch.log_softmax(torch.stack(logs[:3]).mean(0), 0)
    assert torch.allclose(mean, logs[3], atol=1e-5)


def test_labels_may_stand_in_any_order(tmp_path: Path) -> None:
    one = member(tmp_path, 1)
    two = member(tmp_path, 2)
    turned = member(tmp_path, 2)
    turned.config = replace(turned.config, labels=turned.config.labels[::-1])
    with torch.no_grad():
        for name in ("bilinear", "linear", "bias"):
            weight = getattr(turned.scorer, name)
            axis = 0 if name == "bilinear" else weight.dim() - 1
            order = torch.tensor([1, 0, 2])
            weight.copy_(weight.index_select(axis, order))
    assert found(NestedNER.ensemble([one, turned])) == found(NestedNER.ensemble([one, two]))


def test_encoders_and_tokenizers_may_differ(tmp_path: Path) -> None:
    one = member(tmp_path, 1)
    other = NestedNER(ModelConfig(tiny.LABELS), *other_encoder(tmp_path / "other")).eval()
    both = NestedNER.ensemble([one, other])
    assert both.pieces.limit == 32
    together = both.potentials(both.pieces(WORDS))
    for at, words in enumerate(WORDS):
        n = len(words)
        alone = [model.potentials(model.pieces([words]))[0] for model in (one, other)]
        assert torch.allclose(together[at, :n, :n], (alone[0] + alone[1]) / 2, atol=1e-5)
    both.save_pretrained(tmp_path / "both")
    assert found(NestedNER.from_pretrained(tmp_path / "both")) == found(both)


def test_members_of_a_combined_model_count_alike(tmp_path: Path) -> None:
    models = [member(tmp_path, seed) for seed in (1, 2, 3)]
    nested = NestedNER.ensemble([NestedNER.ensemble(models[:2]), models[2]])
    assert found(nested) == found(NestedNER.ensemble(models))


def test_saved_and_loaded_it_finds_the_same(tmp_path: Path) -> None:
    both = NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2)])
    both.config = replace(both.config, temperature=0.7)
    both.save_pretrained(tmp_path / "both", metrics={"dev": {"micro": {"f1": 0.5}}})
    again = NestedNER.from_pretrained(tmp_path / "both")
    assert isinstance(again, EnsembleNER)
    assert again.config == both.config
    assert found(again) == found(both)
    assert again.metrics["dev"]["micro"]["f1"] == 0.5
    card = (tmp_path / "both" / "README.md").read_text()
    assert "| combined | potentials |" in card
    assert "These are 2 models together" in card
    assert "| members.2.encoder |" in card
    assert "{" not in card.partition("## Training")[2].partition("## ")[0]
    assert not list((tmp_path / "both").rglob("*.bin"))
    again.config = replace(again.config, temperature=0.9)
    again.save_pretrained(tmp_path / "both")  # over itself, as after calibration
    assert NestedNER.from_pretrained(tmp_path / "both").config.temperature == 0.9
    NestedNER.ensemble([member(tmp_path, seed) for seed in (4, 5, 6)]).save_pretrained(tmp_path / "both")
    assert len(list((tmp_path / "both" / "members").iterdir())) == 3


def test_a_file_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(ModelError, match="this is a file, and a model is saved into a folder"):
        NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2)]).save_pretrained(tmp_path / "file")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_mixture_of_two_is_noticed(tmp_path: Path) -> None:
    NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2)]).save_pretrained(tmp_path / "both")
    member(tmp_path, 3, smoothing=0.5).save_pretrained(tmp_path / "both" / "members" / "01")
    with pytest.raises(ModelError, match="belong to other settings"):
        NestedNER.from_pretrained(tmp_path / "both")


def test_what_to_annotate_next(tmp_path: Path) -> None:
    both = NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2)])
    documents = [both.config.splitter.split(Document(text, id=str(at))) for at, text in enumerate(TEXTS[:2])]
    assert len(list(suggest(both, documents, k=1))) == 1


# --- What does not go together ---------------------------------------------------------------------------------------


def test_other_labels_are_named(tmp_path: Path) -> None:
    other = NestedNER(ModelConfig(("ORG", "GPE")), *tiny.encoder(tmp_path))
    with pytest.raises(ModelError, match=r"model 2 has other labels .* does not know PER and knows GPE"):
        NestedNER.ensemble([member(tmp_path, 1), other])


def test_other_kinds_of_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="model 2 was trained with loss = 'local', and the first with 'treecrf'"):
        NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2, loss="local")])
    with pytest.raises(ModelError, match="one model cannot be combined"):
        NestedNER.ensemble([member(tmp_path, 1)])


def test_it_is_not_trained_and_not_exported(tmp_path: Path) -> None:
    both = NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2)])
    with pytest.raises(ModelError, match="cannot be trained"):
        both.loss(None, None)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="cannot be exported"):
        export(both, tmp_path / "onnx")


# --- The mean of weights ---------------------------------------------------------------------------------------------


def test_weights_are_the_mean(tmp_path: Path) -> None:
    models = [member(tmp_path, seed, 0.01) for seed in (1, 2, 3)]  # from one start: they differ by little
    made = averaged(models)
    for name, value in made.state_dict().items():
        wanted = torch.stack([model.state_dict()[name] for model in models]).mean(0)
        assert torch.allclose(value, wanted, atol=1e-6), name
    assert made.trained_with["combined"] == "weights"


def test_weights_of_other_starts_or_makes_have_no_mean(tmp_path: Path) -> None:
    torch.manual_seed(99)
    other = NestedNER(ModelConfig(tiny.LABELS), *tiny.encoder(tmp_path))
    torch.manual_seed(98)
    fresh = NestedNER(ModelConfig(tiny.LABELS), *other_encoder(tmp_path / "other"))
    with torch.no_grad():
        other.scorer.start[1].weight.normal_()
    with pytest.raises(ModelError, match="did not begin with the same weights"):
        averaged([member(tmp_path, 1, 0.0), other])
    elsewhere = member(tmp_path, 1, 0.0)
    elsewhere.config = replace(elsewhere.config, encoder="encoders/adapted")
    with pytest.raises(ModelError, match=r"another encoder than the first: adapted instead of"):
        averaged([member(tmp_path, 1, 0.0), elsewhere])
    with pytest.raises(ModelError, match=r"another encoder than the first: the cosine of their embeddings is 0\.0"):
        averaged([member(tmp_path, 1), member(tmp_path, 2)])
    with pytest.raises(ModelError, match="made in another way"):
        averaged([member(tmp_path, 1), fresh])


@pytest.mark.parametrize(("name", "value"), [("word", "mean"), ("normalize", False)])
def test_weights_that_mean_something_else_have_no_mean(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"model 2 has another {name} than the first: {value!r}"):
        averaged([member(tmp_path, 1), member(tmp_path, 2, **{name: value})])


def test_weights_for_other_pieces_have_no_mean(tmp_path: Path) -> None:
    other = member(tmp_path, 2)
    other.tokenizer.add_tokens(["acme"])
    with pytest.raises(ModelError, match="model 2 has another vocabulary than the first"):
        averaged([member(tmp_path, 1), other])


# --- The command -----------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = []
    for seed in (1, 2):
        member(tmp_path, seed, 0.01).save_pretrained(tmp_path / str(seed))
        folders.append(str(tmp_path / str(seed)))
    target = tmp_path / "both"
    assert main(["combine", *folders, "--output", str(target)]) == 0
    assert main(["combine", *folders, "--output", str(target)]) == 2
    assert "something in this folder already" in capsys.readouterr().err
    assert main(["combine", *folders, "--output", str(target), "--force"]) == 0
    assert main(["combine", *folders, "--output", str(target), "--force", "--how", "weights"]) == 2
    assert main(["combine", *folders, "--output", str(tmp_path / "mean"), "--how", "weights"]) == 0
    assert json.loads((tmp_path / "mean" / "nestree.json").read_text())["training"]["combined"] == "weights"
    assert main(["combine", *folders, "--output", folders[0]]) == 2
    exported = tmp_path / "exported"
    export(member(tmp_path, 1), exported)
    capsys.readouterr()
    assert main(["combine", *folders, str(exported), "--output", str(tmp_path / "three")]) == 2
    assert f"{exported}: this model is exported" in capsys.readouterr().err
    assert not (tmp_path / "three").exists()
    gold = tmp_path / "gold.jsonl"
    tokens = {"tokens": ["ab", "c", "d"], "entities": [{"start": 0, "end": 2, "label": "ORG"}]}
    gold.write_text(json.dumps(tokens) + "\n")
    for command in (
        ["evaluate", str(target), str(gold), "--device", "cpu"],
        ["predict", str(target), str(gold), "--device", "cpu"],
        ["calibrate", str(target), str(gold), "--device", "cpu"],
        ["draw", str(target), "Ab c d."],
        ["suggest", str(target), str(gold), "-k", "1", "--device", "cpu"],
    ):
        assert main(command) == 0, (command, capsys.readouterr().err)


def test_a_model_with_fewer_members_takes_the_place_of_one_with_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for seed in (1, 2, 3):
        member(tmp_path, seed).save_pretrained(tmp_path / str(seed))
        folders.append(str(tmp_path / str(seed)))
    target = tmp_path / "together"
    assert main(["combine", *folders, "--output", str(target)]) == 0
    assert "together: saved (3 members)" in capsys.readouterr().err
    assert main(["combine", *folders[:2], "--output", str(target), "--force"]) == 0
    assert sorted(path.name for path in (target / "members").iterdir()) == ["00", "01"]
    assert main(["draw", str(target), "Ab c d."]) == 0
    (target / "members" / "02" / "encoder").mkdir(parents=True)  # as earlier versions left it
    assert found(NestedNER.from_pretrained(target)) == found(NestedNER.ensemble(folders[:2]))
    capsys.readouterr()
    assert main(["combine", folders[0], folders[0], "--output", str(tmp_path / "twice")]) == 2
    assert "this model is named twice" in capsys.readouterr().err


def test_what_is_combined_already_counts_as_its_members_and_no_member_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = (str(tmp_path / str(seed)) for seed in (1, 2, 3))
    for seed in (1, 2, 3):
        member(tmp_path, seed).save_pretrained(tmp_path / str(seed))
    pair, all_three = str(tmp_path / "pair"), str(tmp_path / "all")
    assert main(["combine", one, two, "--output", pair]) == 0
    assert main(["combine", pair, three, "--output", all_three]) == 0
    told = capsys.readouterr().err
    assert "all: saved (3 members)" in told
    assert f"{pair} counts as its 2 members" in told
    assert main(["combine", pair, two, "--output", str(tmp_path / "twice")]) == 2
    assert f"{pair} and {two} hold the same model, which would count twice" in capsys.readouterr().err
    assert not (tmp_path / "twice").exists()


def test_other_splitting_is_named(tmp_path: Path) -> None:
    other = member(tmp_path, 2, splitter=Splitter("whitespace"))
    with pytest.raises(
        ModelError, match="model 2 was trained with words = 'whitespace', and the first with 'punctuation'"
    ):
        NestedNER.ensemble([member(tmp_path, 1), other])


def test_a_member_at_another_temperature_is_still_the_same_model(tmp_path: Path) -> None:
    pair = NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2)])
    pair.config = replace(pair.config, temperature=2.0)
    NestedNER.ensemble([pair, member(tmp_path, 3)]).save_pretrained(tmp_path / "three")
    for seed in (1, 4):
        member(tmp_path, seed).save_pretrained(tmp_path / str(seed))
    assert shared_members([tmp_path / "three", tmp_path / "4"]) is None
    assert shared_members([tmp_path / "4", tmp_path / "three", tmp_path / "1"]) == (tmp_path / "three", tmp_path / "1")


def test_files_may_be_named_after_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2):
        member(tmp_path, seed).save_pretrained(tmp_path / str(seed))
    assert main(["combine", str(tmp_path / "1"), "--output", str(tmp_path / "both"), str(tmp_path / "2")]) == 0
    with pytest.raises(SystemExit):
        main(["combine", str(tmp_path / "1"), "--output", str(tmp_path / "more"), "--unknown", str(tmp_path / "2")])
    assert "usage: nestree combine" in (told := capsys.readouterr().err)
    assert "unrecognized arguments: --unknown" in told


def test_which_model_does_not_go_with_the_others_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member(tmp_path, 1).save_pretrained(tmp_path / "one")
    member(tmp_path, 2, loss="local").save_pretrained(tmp_path / "two")
    assert main(["combine", str(tmp_path / "one"), str(tmp_path / "two"), "--output", str(tmp_path / "both")]) == 2
    assert f"2: {tmp_path / 'two'}" in capsys.readouterr().err


def test_the_temperature_of_a_combined_model_goes_with_its_members(tmp_path: Path) -> None:
    pair = NestedNER.ensemble([member(tmp_path, 1), member(tmp_path, 2)])
    pair.config = replace(pair.config, temperature=2.0)
    both = NestedNER.ensemble([pair, member(tmp_path, 3)])
    assert [one.config.temperature for one in both.members] == [2.0, 2.0, 1.0]
    assert [one.config.temperature for one in pair.members] == [1.0, 1.0]


def test_one_name_is_no_list_of_models(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Give a list of two or more"):
        NestedNER.ensemble(str(tmp_path))
