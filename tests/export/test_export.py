"""An exported model finds what the model found, and says what is wrong with its folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.cli.main import main
from nestree.data import Policies, read
from nestree.demo import CORPUS
from nestree.export import ExportedNER, export, load
from nestree.export import exporting as exporting_module
from nestree.model import ModelConfig, ModelError, NestedNER
from nestree.prediction import annotate
from tests.model.tiny import encoder, model

for package in ("onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason='exporting needs pip install "nestree[onnx]"')

SENTENCES = [["anna", "of", "the", "acme", "club"], ["bo", "runs"], ["x"]]
LONG = [["word", "by", "word", "and", "on", "and", "on"] * 6, ["short"]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> NestedNER:
    return model(tmp_path_factory.mktemp("tiny"), positions=24).eval()  # few: long sentences take windows


@pytest.fixture(scope="module")
def folder(original: NestedNER, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model"
    original.metrics, original.trained_with = {"dev": {"micro": {"f1": 0.5}}}, {"data": {"train": "some.jsonl"}}
    export(original, path)
    return path


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "copied"
    for file in (one for one in folder.rglob("*") if one.is_file()):
        (path / file.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (path / file.relative_to(folder)).write_bytes(file.read_bytes())
    return path


@torch.inference_mode()
def apart(one: NestedNER, other: NestedNER, sentences: list[list[str]]) -> float:
    """How far scores before normalisation are apart, at most, where there are words."""
    batch = one.pieces(sentences)
    one, other = one.eval(), other.eval()
    difference = (one.span_scores(batch) - other.span_scores(batch)).abs()
    return max(float(difference[at, :n, :n].max()) for at, n in enumerate(batch.lengths.tolist()))


# --- The same as the model ---


def test_the_corpus_gets_the_same_entities(original: NestedNER, folder: Path) -> None:
    found = load(folder)
    documents = [one for name in ("train.jsonl", "dev.conll", "test.data") for one in read(CORPUS / name)]
    ours, theirs = (list(annotate(one, documents)) for one in (found, original))
    assert sum(len(one.entities) for one in theirs) > 100
    for one, other in zip(ours, theirs, strict=True):
        assert [entity[:3] for entity in map(_plain, one.entities)] == [
            entity[:3] for entity in map(_plain, other.entities)
        ]
        assert [entity.score for entity in one.entities] == pytest.approx(
            [entity.score for entity in other.entities], abs=1e-4
        )


@pytest.mark.parametrize("labels", [("PER", "ORG"), ("ORG", "ORG|PER", "PER")])
def test_labels_in_any_order_and_joined_ones(labels: tuple[str, ...], tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = ModelConfig(labels, decoding="mbr", policies=Policies(same_span="composite"))
    original = NestedNER(config, *encoder(tmp_path, 20)).eval()
    export(original, tmp_path / "exported")
    for threshold in (None, 0.01):
        ours, theirs = (
            one.predict_tokens(SENTENCES, threshold=threshold) for one in (load(tmp_path / "exported"), original)
        )
        assert [[entity[:3] for entity in one] for one in ours] == [[entity[:3] for entity in one] for one in theirs]
    assert any(len(one) for one in theirs)


def _plain(entity: Any) -> tuple[int, int, str]:
    return entity.start, entity.end, entity.label


@pytest.mark.parametrize(
    "settings",
    [
        {"word": "last", "scorer": "bilinear", "loss": "local"},
        {
            "word": "mean",
            "scorer": "biaffine-separate",
            "latent_labels": 2,
            "decoding": "mbr",
            "temperature": 1.5,
            "gain": 3.0,
        },
    ],
)
def test_every_way_to_score_comes_out_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    original = model(tmp_path, positions=20, **settings)
    export(original, tmp_path / "exported")
    found = load(tmp_path / "exported")
    assert original.pieces(LONG).windowed > 3
    for sentences in (SENTENCES, SENTENCES[2:], LONG):
        assert apart(found, original, sentences) < 1e-4
        batch = original.pieces(sentences)
        ours, theirs = found.decode(batch), original.decode(batch)
        assert [[span[:3] for span in one] for one in ours] == [[span[:3] for span in one] for one in theirs]


def test_everything_that_reads_text_works(original: NestedNER, folder: Path) -> None:
    found = load(folder, threads=1)
    batch = found.pieces(SENTENCES)
    assert [[node[:3] for node in tree] for tree in found.trees(batch)] == [
        [node[:3] for node in tree] for tree in original.trees(batch)
    ]
    assert [len(one) for one in found.predict_tokens(SENTENCES)] == [
        len(one) for one in original.predict_tokens(SENTENCES)
    ]
    assert (found.config, found.metrics, found.trained_with) == (
        original.config,
        original.metrics,
        original.trained_with,
    )
    assert not list(found.parameters())
    assert found.to("cpu").device.type == "cpu"


def test_from_pretrained_hands_over(folder: Path) -> None:
    assert isinstance(NestedNER.from_pretrained(folder), ExportedNER)


def test_the_file_tells_no_paths(folder: Path) -> None:
    assert b"site-packages" not in (folder / "model.onnx").read_bytes()


# --- int8, and the command ---


@pytest.fixture(scope="module")
def int8(original: NestedNER, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("int8")
    original.save_pretrained(path / "saved")
    assert main(["export", str(path / "saved"), "--output", str(path / "exported"), "--int8"]) == 0
    return path / "exported"


def test_int8_is_smaller_and_close(original: NestedNER, folder: Path, int8: Path) -> None:
    found = load(int8)
    assert found.int8
    assert not load(folder).int8
    assert 0 < apart(found, original, SENTENCES) < 0.1
    with torch.inference_mode():
        assert float(original.span_scores(original.pieces(SENTENCES)).std()) > 0.3  # close, compared with that
    assert (int8 / "model.onnx").stat().st_size < (folder / "model.onnx").stat().st_size
    assert sorted(one.name for one in int8.iterdir()) == sorted(one.name for one in folder.iterdir())


def test_other_commands_read_what_was_exported(int8: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(int8), str(CORPUS / "test.data")]) == 0
    assert "micro" in capsys.readouterr().out


def test_the_command_refuses_in_one_line(int8: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        ([str(int8.parent / "saved"), "--output", str(int8)], "--force"),
        ([str(int8), "--output", str(tmp_path / "twice")], "exported already"),
        ([str(tmp_path / "nowhere"), "--output", str(tmp_path / "twice")], "no such folder"),
    ):
        assert main(["export", *arguments]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "twice").exists()


# --- Where it is written ---


def test_nothing_is_replaced_unless_that_is_wanted(original: NestedNER, copied: Path) -> None:
    (copied / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match=r"something in this folder already.*--force"):
        export(original, copied)
    other = model(copied.parent, word="last").bfloat16().train()
    attention = other.encoder.model.config._attn_implementation
    export(other, copied, force=True)
    found = load(copied)
    assert found.config.word == "last"
    assert found.span_scores(found.pieces(SENTENCES)).dtype == torch.float32
    assert (copied / "notes.txt").read_text() == "mine"
    assert other.training  # the model itself stays as it was
    assert other.scorer.bilinear.dtype == torch.bfloat16
    assert other.encoder.model.config._attn_implementation == attention


def test_a_model_is_never_replaced_by_its_export(original: NestedNER, tmp_path: Path) -> None:
    original.save_pretrained(tmp_path / "saved")
    with pytest.raises(ModelError, match="not exported"):
        export(original, tmp_path / "saved", force=True)
    assert type(NestedNER.from_pretrained(tmp_path / "saved")) is NestedNER


def test_other_places_are_refused(original: NestedNER, copied: Path) -> None:
    with pytest.raises(ModelError, match="this is a file"):
        export(original, copied / "model.onnx")
    (copied / "model.onnx").unlink()
    with pytest.raises(ModelError, match="of something else"):
        export(original, copied, force=True)


def test_a_failure_leaves_what_was_there(original: NestedNER, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file: file.read_bytes() for file in copied.rglob("*") if file.is_file()}

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such operation.\nand more")

    monkeypatch.setattr(torch.onnx, "export", fails)
    with pytest.raises(ModelError, match=r"torch cannot export a BertModel \(no such operation\)"):
        export(original, copied, force=True)
    assert {file: file.read_bytes() for file in copied.rglob("*") if file.is_file()} == before
    assert len(list(copied.iterdir())) == len({file.relative_to(copied).parts[0] for file in before})


def test_an_export_that_is_not_faithful_is_an_error(
    original: NestedNER, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting_module, "TOLERANCE", -1.0)
    with pytest.raises(ModelError, match="other scores than the model"):
        export(original, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_weights_that_are_too_large_are_named(
    original: NestedNER, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting_module, "MOST_BYTES", 10)
    with pytest.raises(ModelError, match="do not fit into an ONNX file"):
        export(original, tmp_path / "exported")


# --- What can be wrong with a folder ---


def _truncate(folder: Path) -> None:
    file = folder / "model.onnx"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _foreign(folder: Path) -> None:
    import onnx

    node = onnx.helper.make_node("Identity", ["pieces"], ["scores"])
    ends = [onnx.helper.make_tensor_value_info(name, 1, [1]) for name in ("pieces", "scores")]
    graph = onnx.helper.make_graph([node], "other", ends[:1], ends[1:])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10),
        folder / "model.onnx",
    )


def _other_settings(folder: Path) -> None:
    values = json.loads((folder / "nestree.json").read_text())
    (folder / "nestree.json").write_text(json.dumps({**values, "fingerprint": "0"}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_truncate, r"model\.onnx: this ONNX file cannot be loaded"),
        (lambda folder: (folder / "model.onnx").write_bytes(b""), "cannot be loaded|not written by nestree"),
        (_foreign, "not written by nestree"),
        (_other_settings, "other settings"),
        (lambda folder: (folder / "nestree.json").unlink(), "holds no model"),
        (lambda folder: (folder / "encoder/tokenizer.json").unlink(), "tokenizer"),
    ],
)
def test_what_is_damaged_is_named(damage: Callable[[Path], object], said: str, copied: Path) -> None:
    damage(copied)
    for way in (load, NestedNER.from_pretrained):
        with pytest.raises(ModelError, match=said) as caught:
            way(copied)
        assert "\n" not in str(caught.value)


def test_a_folder_without_an_export_says_how_to_get_one(original: NestedNER, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        load(tmp_path / "nowhere")
    original.save_pretrained(tmp_path / "saved")
    with pytest.raises(ModelError, match="nestree export MODEL"):
        load(tmp_path / "saved")


def test_a_model_needs_a_thread(folder: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        load(folder, threads=0)


# --- What an exported model cannot do ---


def test_an_exported_model_is_not_trained_saved_sent_or_exported(folder: Path, tmp_path: Path) -> None:
    found = load(folder)
    found.config = replace(found.config, temperature=2.0)
    batch = found.pieces(SENTENCES)
    for act in (
        lambda: found.loss(batch, None),
        lambda: found.save_pretrained(tmp_path / "again"),
        lambda: found.push_to_hub("some/name"),
        lambda: export(found, tmp_path / "again"),
    ):
        with pytest.raises(ModelError, match="exported"):
            act()
    assert not (tmp_path / "again").exists()


# --- What must be installed ---


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_at_once(
    package: str, original: NestedNER, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'{package}: pip install "nestree\[onnx\]"'):
        export(original, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
    if package == "onnxruntime":
        with pytest.raises(ImportError, match="pip install"):
            load(folder)
    else:
        assert load(folder).decode(original.pieces([["x"]])) is not None


def test_an_exported_model_is_fetched_from_the_hub(
    folder: Path, original: NestedNER, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked: list[list[str]] = []

    def download(name: str, *, allow_patterns: list[str], **_: Any) -> str:
        asked.append(allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    found = NestedNER.from_pretrained("org/name")
    assert isinstance(found, ExportedNER)
    assert found.predict_tokens(SENTENCES)[0].words == original.predict_tokens(SENTENCES)[0].words
    assert ["model.onnx" in patterns for patterns in asked] == [False, True]  # large: only where there is nothing else
    with pytest.raises(ModelError, match=r"cannot be sent.*hf upload org/name FOLDER"):
        found.push_to_hub("org/name")
