"""A run: what it leaves, how it goes on without memory, what it refuses."""

from __future__ import annotations

import io
import json
import shutil
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from safetensors.torch import load_file
from transformers import T5Config, T5Model

from nestree.cli.main import main
from nestree.data import DataError
from nestree.model import NestedNER
from nestree.training import Progress, TrainingError, checkpoints, load_part, machine, prepare, train
from nestree.training.folder import RunFolder
from nestree.training.loop import Trainer
from nestree.training.seeds import train_seeds
from tests.model import tiny
from tests.training.cases import command, corpus, corpus_file, encoder, finish, run, settings, start, steps


def said(progress: io.StringIO) -> str:
    return progress.getvalue()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_a_run_learns_and_leaves_all_that_belongs_to_it(tmp_path: Path, stream: io.StringIO) -> None:
    result = run(tmp_path, epochs=25, progress=Progress(stream))
    assert result.f1 > 0.9
    folder = tmp_path / "run"
    for name in ("model.safetensors", "nestree.json", "README.md", "metrics.json"):
        assert (folder / name).is_file()
    for name in ("config.toml", "run.json", "metrics.jsonl", "result.json", "curves.png", "report.html"):
        assert (folder / "training" / name).is_file()
    assert not (folder / "training" / "checkpoints").exists()
    model = NestedNER.from_pretrained(folder)
    assert model.metrics["dev"]["micro"]["f1"] == result.f1
    assert model.config.labels == ("ORG", "PER")
    (spans,) = model.predict_tokens([["a", "u", "x", "y", "d"]])
    assert {(one.start, one.end, one.label) for one in spans} == {(1, 4, "ORG"), (3, 4, "PER")}
    known = json.loads((folder / "training" / "run.json").read_text())
    assert known["machine"]["torch"] == version("torch")
    assert len(known["data"]["train"]["fingerprint"]) == 64
    lines = said(stream).splitlines()
    assert sum(line.startswith("epoch ") for line in lines) == 25
    assert "dev P " in lines[-1]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    weights = {}
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        run(tmp_path, name, seed=seed)
        weights[name] = (tmp_path / name / "model.safetensors").read_bytes()
    assert weights["one"] == weights["two"] != weights["three"]


def test_averaged_weights_are_those_that_are_scored_and_saved(tmp_path: Path) -> None:
    run(tmp_path, "averaged", epochs=1, ema=0.9)
    run(tmp_path, "last", epochs=1, ema=0.0)
    averaged = load_file(tmp_path / "averaged" / "model.safetensors")
    last = load_file(tmp_path / "last" / "model.safetensors")
    assert any(not torch.equal(averaged[name], last[name]) for name in last)
    # The steps themselves are the same: averaging watches.
    losses = [[one["loss"] for one in steps(tmp_path / name)] for name in ("averaged", "last")]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("loss", ["treecrf", "local"])
def test_out_of_memory_splits_the_batch_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, loss: str
) -> None:
    calm = {"mask": 0.0, "dropout": 0.0, "loss": loss}
    folder = encoder(tmp_path / "encoder", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    assert json.loads((folder / "config.json").read_text())["hidden_dropout_prob"] == 0.0
    run(tmp_path, "roomy", **calm)
    original = NestedNER.loss

    def cramped(self: NestedNER, batch: Any, observed: Any) -> Any:
        value = original(self, batch, observed)
        if len(observed) > 2:
            value.backward()  # half a backward pass was done already
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return value

    monkeypatch.setattr(NestedNER, "loss", cramped)
    run(tmp_path, "cramped", progress=Progress(stream), **calm)
    assert said(stream).count("memory does not suffice") == 1
    losses = [[one["loss"] for one in steps(tmp_path / name)] for name in ("roomy", "cramped")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_one_sentence_too_much_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(NestedNER, "loss", never)
    with pytest.raises(TrainingError, match=r"one sentence at a time"):
        run(tmp_path)


def test_other_errors_are_not_taken_for_a_lack_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(NestedNER, "loss", broken)
    with pytest.raises(RuntimeError, match=r"shapes differ"):
        run(tmp_path)


def test_two_processes_give_the_losses_of_one(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    calm = {"dropout": 0.0, "batch_size": 5, "epochs": 2}
    status, text = finish(start(command(tmp_path, "one", **calm)))
    assert status == 0, text
    both = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    status, text = finish(start(command(tmp_path, "two", launcher=both, **calm)))
    assert status == 0, text
    assert "2 processes" in text
    one, two = ([line["loss"] for line in steps(tmp_path / name)] for name in ("one", "two"))
    assert len(one) == len(two) == 10
    assert one == pytest.approx(two, rel=1e-4)
    scores = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("one", "two")]
    assert scores[0] == scores[1]


def test_a_run_that_does_not_get_better_stops(tmp_path: Path, stream: io.StringIO) -> None:
    result = run(tmp_path, epochs=30, patience=2, encoder_lr=0.0, head_lr=0.0, ema=0.0, progress=Progress(stream))
    assert result.epochs == 3
    assert "no better dev F1 for 2 epochs: stopped" in said(stream)


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the run diverged. Lower encoder_lr"):
        run(tmp_path, encoder_lr=1e30, head_lr=1e30, clip=0.0, warmup=0.0, normalize=False)


def test_several_seeds_are_summed_up_and_finished_ones_are_not_repeated(tmp_path: Path, stream: io.StringIO) -> None:
    config = settings(tmp_path)
    found = corpus(tmp_path, config)
    results = train_seeds(found, tmp_path / "runs", config, 2, progress=Progress(stream))
    content = json.loads((tmp_path / "runs" / "seeds.json").read_text())
    values = [result.f1 for result in results]
    assert content["f1"]["values"] == values
    assert content["f1"]["mean"] == pytest.approx(sum(values) / 2, abs=1e-6)
    again = train_seeds(found, tmp_path / "runs", config, 3, resume=True, progress=Progress(stream))
    assert [one.f1 for one in again[:2]] == values
    assert said(stream).count("this run is finished") == 2
    assert (tmp_path / "runs" / "seed-2" / "model.safetensors").is_file()


def test_logged_losses_are_means_of_the_steps_since_the_last_line(tmp_path: Path) -> None:
    run(tmp_path, "all", log_every=1)
    run(tmp_path, "some", log_every=4, checkpoint_every=3)
    every = {one["step"]: one["loss"] for one in steps(tmp_path / "all")}
    before = 0
    for line in steps(tmp_path / "some"):
        since = [every[step] for step in range(before + 1, line["step"] + 1)]
        assert line["loss"] == pytest.approx(sum(since) / len(since), rel=1e-5)
        before = line["step"]
    assert [one["step"] for one in steps(tmp_path / "some")] == [4, 6, 8, 12, 16, 18]  # and at the ends of epochs


def test_after_a_lack_of_memory_parts_stay_as_large_as_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    sizes: list[int] = []
    original = NestedNER.loss

    def cramped(self: NestedNER, batch: Any, observed: Any) -> Any:
        if len(observed) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        sizes.append(len(observed))
        return original(self, batch, observed)

    monkeypatch.setattr(NestedNER, "loss", cramped)
    run(tmp_path, batch_size=8, epochs=4, budget=200, progress=Progress(stream))
    assert max(sizes[-6:]) > 1, "steps that were ready in advance made the budget smaller and smaller"


def test_a_model_that_could_not_be_saved_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, "whole")
    original, calls = NestedNER.save_pretrained, []

    def full(self: NestedNER, *arguments: Any, **settings: Any) -> None:
        calls.append(arguments)
        if len(calls) <= 3:
            raise OSError("No space left on device")
        original(self, *arguments, **settings)

    monkeypatch.setattr(NestedNER, "save_pretrained", full)
    stopped = Trainer.after_step

    def stop(self: Trainer) -> None:
        stopped(self)
        if self.state.step == 9:
            raise RuntimeError("killed")

    monkeypatch.setattr(Trainer, "after_step", stop)
    with pytest.raises(RuntimeError, match="killed"):
        run(tmp_path, "late")
    monkeypatch.setattr(Trainer, "after_step", stopped)
    run(tmp_path, "late", resume=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "late")]
    assert weights[0] == weights[1]


def test_metrics_that_cannot_be_written_come_later(
    tmp_path: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = RunFolder.log, []

    def full(self: RunFolder, events: Any) -> None:
        calls.append(len(events))
        if 3 < len(calls) < 9:
            raise OSError(28, "No space left on device")
        original(self, events)

    monkeypatch.setattr(RunFolder, "log", full)
    run(tmp_path, progress=Progress(stream))
    assert said(stream).count("metrics could not be written") == 1
    assert [one["step"] for one in steps(tmp_path / "run")] == list(range(1, 19))


def test_encoders_that_share_weights_are_trained_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    _, tokenizer = tiny.encoder(encoder(tmp_path / "bert"))
    settings_ = T5Config(vocab_size=len(tokenizer), d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2)
    T5Model(settings_).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    result = run(tmp_path, epochs=2)
    assert result.epochs == 2
    assert NestedNER.from_pretrained(tmp_path / "run").config.labels == ("ORG", "PER")


# --- What is refused -------------------------------------------------------------------------------------------------


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    run(tmp_path, epochs=1)
    with pytest.raises(TrainingError, match=r"holds a run already. --resume goes on with it, --force replaces it"):
        run(tmp_path, epochs=1)
    run(tmp_path, epochs=2, force=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TrainingError, match=r"is a file; --output names a folder"):
        run(tmp_path, "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_start_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    run(tmp_path, epochs=1)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(OSError, match=r"there is no such folder|cannot be"):
        run(tmp_path, epochs=1, encoder=str(tmp_path / "nowhere"), force=True)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    with pytest.raises(OSError, match=r"there is no such folder|cannot be"):
        run(tmp_path, "new", epochs=1, encoder=str(tmp_path / "nowhere"))
    run(tmp_path, "new", epochs=1)


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"force": True}])
def test_a_model_without_its_run_is_never_replaced(tmp_path: Path, how: dict[str, bool]) -> None:
    run(tmp_path, epochs=1)
    shutil.rmtree(tmp_path / "run" / "training")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(TrainingError, match=r"holds a model, and not the run that made it. Name another --output"):
        run(tmp_path, epochs=1, **how)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("output", ["encoder", "around", "others", "taken"])
def test_what_is_not_of_a_run_is_never_written_over(tmp_path: Path, output: str, force: bool) -> None:
    (tmp_path / "around").mkdir()
    place = encoder(tmp_path / "around" / "encoder") if output == "around" else encoder(tmp_path / "encoder")
    for path in ("others/members/staff.csv", "taken/training/config.toml", "taken/training/train.conll"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("mine")
    before = everything(tmp_path / output)
    with pytest.raises(TrainingError, match=r"holds what no run of nestree left there \(.*\).*Name another --output"):
        run(tmp_path, output, epochs=1, encoder=str(place), force=force)
    assert everything(tmp_path / output) == before


@pytest.mark.parametrize("resume", [False, True])
def test_what_never_came_to_begin_does_not_stand_in_the_way(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "run" / "training" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "training" / "config.toml").write_text("epochs = 1\n")  # killed before there was a run.json
    assert run(tmp_path, epochs=1, resume=resume).epochs == 1


def test_a_run_can_go_on_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder(tmp_path / "encoder")
    monkeypatch.chdir(tmp_path)
    run(tmp_path, epochs=1, encoder="encoder")
    monkeypatch.chdir("/")
    assert main(["train", "--output", str(tmp_path / "run"), "--resume"]) == 0


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    left = [
        tmp_path / "run" / ".saving-x",
        tmp_path / "run" / "training" / "checkpoints" / ".unfinished-step-000000001",
    ]
    for path in left:
        path.mkdir(parents=True)
    run(tmp_path, epochs=1, force=True)
    assert not any(path.exists() for path in left)


def test_a_checkpoint_of_the_same_step_is_replaced_when_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.save(tmp_path, 5, {"a": torch.zeros(2)}, {"state": 1})
    checkpoints.save(tmp_path, 5, {"a": torch.ones(2)}, {"state": 2})
    found, damaged = checkpoints.load(tmp_path)
    assert found is not None
    assert (found.state["state"], damaged) == (2, [])
    rename, calls = Path.rename, []

    def killed(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(tmp_path, 5, {"a": torch.zeros(2)}, {"state": 3})
    monkeypatch.setattr(Path, "rename", rename)
    checkpoints.clean(tmp_path)
    found, _ = checkpoints.load(tmp_path)
    assert found is not None
    assert found.state["state"] == 2


def test_labels_with_bars_are_no_joined_labels_if_the_policy_says_so(tmp_path: Path) -> None:
    config = settings(tmp_path, same_span="first")
    one = {"tokens": ["u", "x"], "entities": [{"start": 0, "end": 1, "label": "A|B"}]}
    part = load_part(write(tmp_path / "bars.jsonl", one), config.splitter)
    found = prepare(part, part, config)
    assert found.labels == ("A|B",)
    assert "training and dev data are the same" in found.notes[0]


def test_a_run_goes_on_with_its_own_settings_and_data_alone(tmp_path: Path) -> None:
    run(tmp_path, epochs=1)
    with pytest.raises(TrainingError, match=r"other settings: head_lr was 0.003 and is 0.1"):
        run(tmp_path, epochs=1, head_lr=0.1, resume=True)
    config = settings(tmp_path, epochs=1)
    other = load_part(corpus_file(tmp_path / "other.jsonl", 9, 7), config.splitter)
    with pytest.raises(TrainingError, match=r"other.jsonl is not the train data"):
        train(prepare(other, corpus(tmp_path, config).dev, config), tmp_path / "run", config, resume=True)


def test_an_encoder_may_be_elsewhere_when_a_run_goes_on_but_must_be_the_same(tmp_path: Path) -> None:
    run(tmp_path, epochs=1)
    folder = RunFolder(tmp_path / "run")
    moved = (tmp_path / "encoder").rename(tmp_path / "moved")
    (folder.training / "result.json").unlink()  # as if it had been stopped at the very end
    found = corpus(tmp_path, settings(tmp_path, epochs=1, encoder=str(moved)))
    train(found, folder.path, settings(tmp_path, epochs=1, encoder=str(moved)), resume=True)
    assert folder.config().encoder == str(moved)
    other = settings(tmp_path, epochs=1, encoder=str(encoder(tmp_path / "other", hidden_dropout_prob=0.3)))
    with pytest.raises(TrainingError, match=r"other settings: encoder was '.*moved' and is '.*other'"):
        train(found, folder.path, other, resume=True)


def write(path: Path, *documents: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    return path


ONE = {"tokens": ["u", "x", "y"], "entities": [{"start": 0, "end": 2, "label": "PER"}]}


@pytest.mark.parametrize(
    ("training", "dev", "says"),
    [
        ({"tokens": ["a"], "entities": []}, ONE, "there is no entity in the training data, read as jsonl"),
        (ONE, {"tokens": ["a"], "entities": []}, "there is no entity in the dev data"),
        (ONE, {**ONE, "entities": [{"start": 0, "end": 1, "label": "LOC"}]}, r"does not have: 'LOC' \(1 entities\)"),
    ],
)
def test_data_from_which_nothing_can_be_learned_stops_it(
    tmp_path: Path, training: dict[str, Any], dev: dict[str, Any], says: str
) -> None:
    config = settings(tmp_path)
    parts = [
        load_part(write(tmp_path / f"{name}.jsonl", one), config.splitter) for name, one in enumerate((training, dev))
    ]
    with pytest.raises(DataError, match=says):
        prepare(parts[0], parts[1], config)


@pytest.mark.parametrize(
    ("words", "label", "says"),
    [(["\ud800", "x"], "A", "a text holds a lone"), (["x"], "\ud800", "a label holds a lone")],
)
def test_what_is_no_text_is_refused(tmp_path: Path, words: list[str], label: str, says: str) -> None:
    one = {"tokens": words, "entities": [{"start": 0, "end": 1, "label": label}]}
    with pytest.raises(DataError, match=says):
        load_part(write(tmp_path / "bad.jsonl", one), settings(tmp_path).splitter)


def test_a_folder_that_cannot_be_made_is_said_before_anything_slow(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot be made \(Not a directory\). Name another --output"):
        run(tmp_path, "file/run")


def test_a_label_that_is_missing_can_be_allowed(tmp_path: Path) -> None:
    config = settings(tmp_path, missing_labels="ignore")
    other = {**ONE, "entities": [*ONE["entities"], {"start": 0, "end": 1, "label": "LOC"}]}  # type: ignore[misc]
    parts = [
        load_part(write(tmp_path / f"{name}.jsonl", one), config.splitter) for name, one in enumerate((ONE, other))
    ]
    found = prepare(parts[0], parts[1], config)
    assert "count as missed: 'LOC' (1 entities)" in found.notes[0]


def test_dev_that_no_tree_can_hold_stops_it(tmp_path: Path) -> None:
    config = settings(tmp_path)
    text = {"text": "abc def", "entities": [{"start": 1, "end": 2, "label": "PER"}]}
    parts = [load_part(write(tmp_path / f"{name}.jsonl", one), config.splitter) for name, one in enumerate((ONE, text))]
    with pytest.raises(DataError, match=r"no entity of dev can be found by a model, whatever it learns: 1 off tokens"):
        prepare(parts[0], parts[1], config)


def test_the_command_trains_resumes_and_speaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = command(tmp_path, "run")[3:]
    assert main(line) == 0
    out, err = capsys.readouterr()
    assert "sentences" in out
    assert "unlabelled spans" in out
    assert "next: nestree evaluate" in err
    assert main(line) == 2
    assert "holds a run already" in capsys.readouterr().err
    assert main(["train", "--output", str(tmp_path / "run"), "--resume"]) == 0
    assert "this run is finished" in capsys.readouterr().err
    assert main(["train", "--output", str(tmp_path / "new")]) == 2
    assert "TRAIN is missing: name the train data" in capsys.readouterr().err
    assert main(["train", "nowhere.jsonl", "--dev", "d.jsonl", "--output", str(tmp_path / "new")]) == 2
    assert "nowhere.jsonl: there is no such file or folder" in capsys.readouterr().err


def test_several_seeds_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command(tmp_path, "runs", epochs=1)[3:], "--seeds", "2"]) == 0
    assert "dev, 2 seeds: mean ± standard deviation" in capsys.readouterr().out
    assert main(["train", "--output", str(tmp_path / "runs"), "--resume", "--seeds", "2"]) == 0


def test_several_files_of_several_formats_are_one_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus_file(tmp_path / "dev.jsonl", 8, 1)
    old = corpus_file(tmp_path / "old.jsonl", 10)
    task = {"data": {"text": "u x y"}, "annotations": [{"result": [region(0, 5, "ORG"), region(4, 5, "PER")]}]}
    hidden = {"data": {"text": "a u x y"}, "annotations": [{"result": [region(0, 1, "skipped")]}]}
    skipped = {"data": {"text": "u xx y"}, "annotations": [{"result": [], "was_cancelled": True}]}
    (tmp_path / "returned.json").write_text(json.dumps([task, hidden, skipped, {**task, "annotations": []}]))
    (tmp_path / "config.toml").write_text(settings(tmp_path, epochs=1).as_toml())
    files = [str(old), str(tmp_path / "returned.json"), "--dev", str(tmp_path / "dev.jsonl")]
    output = ["--output", str(tmp_path / "run")]
    flags = ["--config", str(tmp_path / "config.toml"), "--set", "unknown_label=skipped"]
    assert main(["train", *files, *output, *flags]) == 0
    said = capsys.readouterr().err
    assert "old.jsonl: read as jsonl" in said
    assert "returned.json: read as label-studio" in said
    assert "not accepted: 1" in said
    assert "not annotated: 1" in said
    known = json.loads((tmp_path / "run" / "training" / "run.json").read_text())["data"]["train"]
    assert known["sentences"] == 12
    assert [one["options"] for one in known["files"]] == [{}, {"unknown_label": "skipped"}]
    card = json.loads((tmp_path / "run" / "nestree.json").read_text())["training"]
    assert card["train"]["file"] == "old.jsonl, returned.json"
    assert main(["train", *output, "--resume"]) == 0  # finds them all again
    assert main(["train", *files, *output, "--force", "--set", "unknown=x"]) == 2
    assert "the format 'jsonl' has no option 'unknown'" in capsys.readouterr().err


def region(start: int, end: int, label: str) -> dict[str, object]:
    """As Label Studio writes it."""
    return {"type": "labels", "to_name": "text", "value": {"start": start, "end": end, "labels": [label]}}


def test_entities_with_scores_are_mentioned(tmp_path: Path) -> None:
    config = settings(tmp_path)
    part = load_part(corpus_file(tmp_path / "a.jsonl", 3), config.splitter)
    guessed = tmp_path / "guessed.jsonl"
    guessed.write_text((tmp_path / "a.jsonl").read_text().replace('"ORG"', '"ORG", "score": 0.5'))
    found = prepare(load_part(guessed, config.splitter), part, config)
    assert "entities of 3 training documents have scores, as predictions do: they are taken as annotated" in found.notes


def test_processes_wait_for_one_that_works_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a teacher is asked about much text, which takes longer than the usual ten minutes."""
    told = []

    class Noting(accelerate.Accelerator):
        def __init__(self, **given: Any) -> None:
            told.extend(given["kwargs_handlers"])
            super().__init__(**given)

    encoder(tmp_path / "encoder")
    monkeypatch.setattr(accelerate, "Accelerator", Noting)
    machine.start(settings(tmp_path))
    assert [one.timeout >= timedelta(days=1) for one in told] == [True]
