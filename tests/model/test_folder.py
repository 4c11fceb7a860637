"""A model as a folder, and on the hub: what is saved comes back, and what is damaged is named."""

from __future__ import annotations

import json
import os
import pickle
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import safetensors.torch
import torch
from huggingface_hub import errors as hub_errors

from nestree import __version__
from nestree.data import Policies, Splitter
from nestree.model import NestedNER
from nestree.model.card import MARKER
from nestree.model.errors import ModelError, NoModelError
from tests.model.tiny import model

SENTENCES = [["anna", "of", "the", "acme", "club"], ["bo", "runs"], ["x"]]
METRICS = {"dev": {"micro": {"precision": 0.5, "recall": 0.25, "f1": 1 / 3}, "labels": {}}}


def test_an_encoder_s_folder_is_not_taken_and_files_of_others_stay(tmp_path: Path) -> None:
    one = model(tmp_path)
    (tmp_path / "e").mkdir()
    one.encoder.model.save_pretrained(tmp_path / "e")
    weights = (tmp_path / "e" / "model.safetensors").read_bytes()
    with pytest.raises(ModelError, match="holds an encoder, and a model would replace it"):
        one.save_pretrained(tmp_path / "e")
    assert (tmp_path / "e" / "model.safetensors").read_bytes() == weights
    for path in ("encoder/mine.txt", "members/staff.csv"):
        (tmp_path / "folder" / path).parent.mkdir(parents=True)
        (tmp_path / "folder" / path).write_text("mine")
    one.save_pretrained(tmp_path / "folder")
    assert [(tmp_path / "folder" / path).read_text() for path in ("encoder/mine.txt", "members/staff.csv")] == [
        "mine",
        "mine",
    ]


def spans(found: NestedNER) -> list[Any]:
    return list(found.predict_tokens(SENTENCES))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    model(tmp_path).save_pretrained(folder, metrics=METRICS)
    return folder


def change(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


# --- Round trips ---


@pytest.mark.parametrize("settings", [{}, {"scorer": "biaffine-separate", "latent_labels": 2}, {"loss": "local"}])
def test_a_model_comes_back_as_it_was(settings: dict[str, Any], tmp_path: Path) -> None:
    policies, splitter = Policies(crossing="drop_shorter"), Splitter("whitespace", "de", "lines")
    found = model(tmp_path, policies=policies, splitter=splitter, **settings)
    training = {"data": {"train": Path("train.jsonl")}, "rates": (torch.tensor(0.5), float("nan"))}
    found.save_pretrained(tmp_path / "saved", metrics=METRICS, training=training)
    again = NestedNER.from_pretrained(str(tmp_path / "saved"))
    assert (again.config, again.metrics) == (found.config, METRICS)
    assert again.trained_with == {"data": {"train": "train.jsonl"}, "rates": [0.5, None]}
    assert spans(again) == spans(found)
    assert not again.training
    again.save_pretrained(tmp_path / "again")  # with all that it was loaded with
    NestedNER.from_pretrained(tmp_path / "again").save_pretrained(tmp_path / "third")
    files = [file.relative_to(tmp_path / "again") for file in (tmp_path / "again").rglob("*.*")]
    assert len(files) == 7
    for file in {*files} - {Path("README.md")}:
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "third" / file).read_bytes(), file


def test_a_folder_holds_no_pickles_and_no_paths_of_the_machine(saved: Path, tmp_path: Path) -> None:
    files = {str(file.relative_to(saved)) for file in saved.rglob("*") if file.is_file()}
    encoder = {"encoder/config.json", "encoder/tokenizer.json", "encoder/tokenizer_config.json"}
    assert files == {"nestree.json", "model.safetensors", "metrics.json", "README.md", *encoder}
    for file in files - {"model.safetensors"}:
        assert str(tmp_path) not in (saved / file).read_text(), file
    assert json.loads((saved / "nestree.json").read_text())["nestree"] == __version__


def test_no_weight_is_left_undefined(saved: Path, tmp_path: Path) -> None:
    state, wanted = NestedNER.from_pretrained(saved).state_dict(), model(tmp_path).state_dict()
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[name], wanted[name]) for name in wanted)


def test_a_model_in_half_precision_is_loaded_in_float32(tmp_path: Path) -> None:
    model(tmp_path).bfloat16().save_pretrained(tmp_path / "saved")
    again = NestedNER.from_pretrained(tmp_path / "saved")
    assert {one.dtype for one in again.parameters()} == {torch.float32}
    assert len(spans(again)) == 3


def test_other_weights_can_be_saved_than_the_model_has_now(tmp_path: Path) -> None:
    found = model(tmp_path).eval()
    best, before = {name: value.clone() for name, value in found.state_dict().items()}, spans(found)
    torch.nn.init.normal_(found.scorer.bilinear)
    found.save_pretrained(tmp_path / "saved", weights=best)
    assert spans(NestedNER.from_pretrained(tmp_path / "saved")) == before != spans(found)
    with pytest.raises(ModelError, match=r"missing: scorer\.bias"):
        found.save_pretrained(tmp_path / "saved", weights={key: best[key] for key in best if key != "scorer.bias"})
    assert spans(NestedNER.from_pretrained(tmp_path / "saved")) == before


# --- A folder that is in use ---


def test_other_files_stay_and_what_belonged_to_the_old_model_goes(saved: Path, tmp_path: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    (saved / "encoder" / "added_tokens.json").write_text("{}")
    model(tmp_path, word="last").save_pretrained(saved)
    assert (saved / "notes.txt").read_text() == "mine"
    assert not (saved / "encoder" / "added_tokens.json").exists()
    assert not (saved / "metrics.json").exists()
    assert NestedNER.from_pretrained(saved).config.word == "last"
    assert not list(saved.glob(".saving*"))


def test_a_card_that_somebody_wrote_is_kept(saved: Path, tmp_path: Path) -> None:
    assert MARKER in (saved / "README.md").read_text()
    model(tmp_path).save_pretrained(saved, metrics={"test": METRICS["dev"]})
    assert "| test |" in (saved / "README.md").read_text()
    (saved / "README.md").write_text("# My model\n")
    model(tmp_path).save_pretrained(saved)
    assert (saved / "README.md").read_text() == "# My model\n"


def failing_at(name: str, real: Callable[..., None]) -> Callable[..., None]:
    """``os.replace`` that fails for one file."""

    def replace(source: Path, target: Path) -> None:
        if Path(target).name == name and "before" not in Path(source).parts:
            raise OSError(28, "No space left on device")
        real(source, target)

    return replace


@pytest.mark.parametrize("name", ["config.json", "README.md", "model.safetensors", "nestree.json"])
def test_a_save_that_is_interrupted_leaves_the_old_model(
    name: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {file: file.read_bytes() for file in saved.rglob("*") if file.is_file()}
    other = model(tmp_path, positions=32, latent_labels=3, word="mean")
    monkeypatch.setattr(os, "replace", failing_at(name, os.replace))
    with pytest.raises(OSError, match="No space left"):
        other.save_pretrained(saved)
    assert {file: file.read_bytes() for file in saved.rglob("*") if file.is_file()} == before
    assert NestedNER.from_pretrained(saved).config.word == "first"
    with pytest.raises(OSError, match="No space left"):
        other.save_pretrained(tmp_path / "new")
    with pytest.raises(NoModelError):
        NestedNER.from_pretrained(tmp_path / "new")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), safetensors.SafetensorError("no space left")])
def test_weights_that_cannot_be_written_leave_the_old_model(
    error: BaseException, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    wanted = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ModelError
    with pytest.raises(wanted):
        model(tmp_path, word="last").save_pretrained(saved)
    assert NestedNER.from_pretrained(saved).config.word == "first"
    assert not list(saved.glob(".saving*"))


def test_a_disk_without_room_for_the_tokenizer_is_said(saved: Path) -> None:
    found = NestedNER.from_pretrained(saved)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))  # more than the settings, less than the tokenizer
    try:
        with pytest.raises(ModelError, match="the encoder's settings cannot be written"):
            found.save_pretrained(saved.parent / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (saved.parent / "full").exists()


def test_a_disk_without_hard_links_is_enough(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError("not here")

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "replace", failing_at("nestree.json", os.replace))
    with pytest.raises(OSError, match="No space left"):
        model(tmp_path, word="last").save_pretrained(saved)
    assert NestedNER.from_pretrained(saved).config.word == "first"


def test_a_model_is_not_saved_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="this is a file, and a model is saved into a folder"):
        model(tmp_path).save_pretrained(tmp_path / "file")


# --- What is damaged is named ---


def refused(folder: Path, says: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        NestedNER.from_pretrained(folder)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def test_folders_without_a_model_are_named(tmp_path: Path) -> None:
    error = refused(tmp_path, "holds no model of nestree: there is no nestree.json in it. Name a folder")
    assert isinstance(error, FileNotFoundError)
    refused(
        tmp_path / "none", f"{tmp_path / 'none'}: there is no such folder. Name a folder that save_pretrained wrote"
    )
    (tmp_path / "file").touch()
    refused(tmp_path / "file", "this is a file, not a folder")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.path) == (NoModelError, str(error), str(tmp_path))


def test_damaged_settings_are_named(saved: Path) -> None:
    file = saved / "nestree.json"
    whole = file.read_text()
    file.write_text(whole[:100])
    refused(saved, f"{file}: this is no JSON (")
    file.write_text("[]")
    refused(saved, "an object was expected, not list")
    for values, says in [
        ({"format": 2, "nestree": "7.0"}, "the model is in format 2, written by nestree 7.0. This is nestree"),
        ({"format": None}, "its format is None, and should be 1"),
        ({"colour": 1}, "unknown key 'colour'. Known are format, nestree,"),
        ({"model": []}, "'model' should be an object"),
        ({"model": {"labels": ["A"], "smothing": 1}}, "are wrong: unknown key 'smothing'; known are labels"),
        ({"model": {"labels": 5}}, "the settings of the model are wrong"),
        ({"model": {"labels": ["A"], "splitter": {"word": 1}}}, "the settings of the model are wrong"),
    ]:
        file.write_text(whole)
        change(file, **values)
        refused(saved, says)
    file.write_text(json.dumps({name: value for name, value in json.loads(whole).items() if name != "training"}))
    refused(saved, "missing key 'training'")


def test_damaged_weights_are_named(saved: Path) -> None:
    file = saved / "model.safetensors"
    whole = file.read_bytes()
    for damaged in (whole[:-100], whole[:40], b"", b"nonsense" * 20):
        file.write_bytes(damaged)
        refused(saved, f"{file}: the weights are damaged (")
    file.unlink()
    refused(saved, f"{file}: there are no weights. Was it saved or downloaded to the end?")


def test_weights_that_do_not_fit_are_named(saved: Path) -> None:
    file = saved / "model.safetensors"
    weights = safetensors.torch.load_file(file)
    weights["scorer.more"] = weights.pop("scorer.bias")
    weights["scorer.bilinear"] = weights["scorer.bilinear"][:2].clone()
    safetensors.torch.save_file(weights, file)
    says = "missing: scorer.bias; unexpected: scorer.more; of another shape: scorer.bilinear is [2, 16, 16] instead of"
    refused(saved, says)
    safetensors.torch.save_file({"x": torch.zeros(1)}, file)
    refused(saved, "more; unexpected: x.")


def test_files_of_two_models_are_not_mixed(saved: Path, tmp_path: Path) -> None:
    model(tmp_path, word="last").save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(saved / "model.safetensors")
    refused(saved, "these weights belong to other settings than those in nestree.json. Is the model being saved")


def test_settings_may_be_edited_by_hand(saved: Path) -> None:
    values = json.loads((saved / "nestree.json").read_text())["model"]
    change(saved / "nestree.json", model={**values, "decoding": "mbr"})
    assert NestedNER.from_pretrained(saved).config.decoding == "mbr"


def test_a_damaged_encoder_is_named(saved: Path) -> None:
    (saved / "encoder" / "tokenizer.json").write_text("{")
    refused(saved, "the tokenizer cannot be loaded (")
    (saved / "encoder" / "tokenizer.json").unlink()
    refused(saved, "there is no tokenizer in this folder")
    (saved / "encoder" / "config.json").write_text("{")
    refused(saved, "this encoder cannot be used (")
    (saved / "encoder" / "config.json").unlink()
    refused(saved, "it has no config.json")


# --- The hub ---


def test_a_name_on_the_hub_is_downloaded_without_pickles(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(saved)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    found = NestedNER.from_pretrained("org/name", revision="v1", token="t", cache_dir="c", local_files_only=True)
    assert len(spans(found)) == 3
    wanted = {"name": "org/name", "revision": "v1", "token": "t", "cache_dir": "c", "local_files_only": True}
    assert wanted.items() <= asked.items()
    kept = huggingface_hub.utils.filter_repo_objects(
        ["nestree.json", "model.safetensors", "encoder/vocab.txt", "encoder/config.json", "pytorch_model.bin",
         "checkpoint/optimizer.safetensors", "training.pt", "encoder/spiece.model", "README.md", "a.pkl"],
        allow_patterns=asked["allow_patterns"],
    )  # fmt: skip
    assert list(kept) == [
        "nestree.json", "model.safetensors", "encoder/vocab.txt", "encoder/config.json", "encoder/spiece.model",
        "README.md",
    ]  # fmt: skip


def test_a_folder_has_no_revisions(saved: Path) -> None:
    refused_with = r"this is a folder here, which has no revision 'v1'\. Leave the revision out"
    with pytest.raises(ModelError, match=refused_with):
        NestedNER.from_pretrained(saved, revision="v1")


def http(kind: type[hub_errors.HfHubHTTPError]) -> Exception:
    import httpx

    return kind("404", response=httpx.Response(404, request=httpx.Request("GET", "https://huggingface.co")))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            hub_errors.LocalEntryNotFoundError("x"),
            "the hub cannot be reached; nothing of this name has been downloaded",
        ),
        (http(hub_errors.RepositoryNotFoundError), "the hub has no model of this name, or a private one"),
        (http(hub_errors.GatedRepoError), "asks for permission to read the model of this name. Accept its terms"),
        (http(hub_errors.RevisionNotFoundError), "has no revision 'v1'"),
        (RuntimeError("one\ntwo"), "it cannot be downloaded from the hub (one)"),
    ],
)
def test_what_the_hub_does_not_give_is_said(error: Exception, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ModelError) as caught:
        NestedNER.from_pretrained("org/name", revision="v1")
    assert str(caught.value).startswith("org/name: there is no such folder, and ")
    assert says in str(caught.value)


@pytest.mark.parametrize("own_card", [None, "# Mine", f"{MARKER} old"])
def test_a_model_is_sent_to_the_hub_in_one_commit(
    own_card: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    class Api:
        def __init__(self, **options: Any) -> None:
            seen["token"] = options["token"]

        def create_repo(self, name: str, **options: Any) -> SimpleNamespace:
            seen.update(options)
            return SimpleNamespace(repo_id=name)

        def hf_hub_download(self, name: str, file: str, **_: Any) -> str:
            if own_card is None:
                raise http(hub_errors.RemoteEntryNotFoundError)
            (tmp_path / "there.md").write_text(own_card)
            return str(tmp_path / "there.md")

        def upload_folder(self, *, folder_path: Path, **options: Any) -> SimpleNamespace:
            seen.update(options, card=(folder_path / "README.md").read_text())
            seen["again"] = spans(NestedNER.from_pretrained(folder_path))
            return SimpleNamespace(commit_url="https://huggingface.co/org/name/commit/1")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    found = model(tmp_path)
    address = found.push_to_hub("org/name", metrics=METRICS, token="t", private=True)
    assert address == "https://huggingface.co/org/name/commit/1"
    assert (seen["token"], seen["private"], seen["repo_id"]) == ("t", True, "org/name")
    assert seen["again"] == spans(found)
    assert 'from_pretrained("org/name")' in seen["card"]
    assert seen["ignore_patterns"] == (["README.md"] if own_card == "# Mine" else None)
    assert seen["delete_patterns"] == ["metrics.json", "model.safetensors", "encoder/*", "members/*"]


def test_what_cannot_be_sent_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(*_: object, **__: object) -> None:
        raise http(hub_errors.HfHubHTTPError)

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create)
    with pytest.raises(ModelError, match=r"org/name: the model cannot be sent to the hub \(404\)\. Be online, and log"):
        model(tmp_path).push_to_hub("org/name")
    with pytest.raises(ModelError, match="this cannot be a name on the hub"):
        model(tmp_path).push_to_hub("not a name")


def test_weights_that_others_keep_for_themselves_are_not_missing(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # as for a user who is not root
    with pytest.raises(PermissionError, match=r"may not be read by this user.*model\.safetensors"):
        NestedNER.from_pretrained(saved)
