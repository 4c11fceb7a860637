"""Distillation: the exact divergence, a student that comes nearer to its teacher, runs that go on."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest
import torch

from nestree import NestedNER
from nestree.cli.main import main
from nestree.crf import TreeCRF
from nestree.data import Splitter
from nestree.model.ensemble import aligned_potentials
from nestree.training import Result, TrainConfig, distillation, train
from nestree.training.data import Corpus, Sentence
from nestree.training.distillation import DistilConfig, Distillation, Teacher
from nestree.training.errors import TrainingError
from nestree.training.folder import ABOUT, MARGINALS, UNFINISHED, RunFolder
from nestree.training.machine import start as start_machine
from tests.training.cases import command, corpus, corpus_file, encoder, finish, run, settings, start, steps

RAW = [("u", "x", "y", "a"), ("d", "bc"), ("u", "xx", "y")] * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two trained models."""
    path = tmp_path_factory.mktemp("distil")
    encoder(path / "encoder")
    for seed in (0, 1):
        run(path, f"teacher-{seed}", seed=seed, latent_labels=1 + seed)
    return path


def objective(folder: Path, found: Corpus, answers: Path | None = None, **others: Any) -> Distillation:
    teachers = [folder / f"teacher-{seed}" for seed in (0, 1)]
    return Distillation(teachers, found.sentences, RAW, found.labels, DistilConfig().updated(others), answers)


def distilled(folder: Path, name: str, *, resume: bool = False, train_settings: Any = None, **others: Any) -> Result:
    config: TrainConfig = settings(folder, **(train_settings or {}))
    found = corpus(folder, config)
    with_raw = replace(found, sentences=(*found.sentences, *(Sentence(words, ()) for words in RAW)))
    return train(with_raw, folder / name, config, resume=resume, objective=objective(folder, found, **others))


def prepared(
    folder: Path, where: Path, answers: Path | None = None, say: Callable[[str], object] = str, **others: Any
) -> tuple[Distillation, Corpus]:
    config = settings(folder)
    found = corpus(folder, config)
    made = objective(folder, found, answers, **others)
    made.prepare(where, start_machine(config), say)
    return made, found


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("cache_gb", [8.0, 0.0])
def test_the_divergence_is_that_of_the_crfs(folder: Path, tmp_path: Path, temperature: float, cache_gb: float) -> None:
    made, found = prepared(folder, tmp_path, temperature=temperature, cache_gb=cache_gb)
    assert made.recordable is (cache_gb > 0)
    assert (tmp_path / MARGINALS).exists() is (cache_gb > 0)
    teacher = NestedNER.ensemble([folder / "teacher-0", folder / "teacher-1"])
    student = NestedNER.from_pretrained(folder / "teacher-1")
    words = [one.words for one in found.sentences] + RAW
    numbers = np.array([3, len(words) - 1, 0])
    chosen = [words[at] for at in numbers]
    n = max(map(len, chosen)) + 3
    tensors = made.tensors(numbers, n)
    batch = student.pieces(chosen)
    scores = student(batch).detach()
    padded = torch.zeros(3, n, n, scores.shape[-1])
    padded[:, : scores.shape[1], : scores.shape[1]] = scores
    value = made.divergence(padded, batch.lengths, *tensors[:2])
    theirs = teacher.potentials(teacher.pieces(chosen)) / temperature
    mine = aligned_potentials(scores, [0, 1]) / temperature
    wanted = temperature**2 * TreeCRF(theirs, batch.lengths).kl(TreeCRF(mine, batch.lengths))
    torch.testing.assert_close(value, wanted.detach(), rtol=1e-3, atol=1e-3)
    assert tensors[2].tolist() == [1.0, 0.0, 1.0]


def test_of_raw_text_the_teacher_alone_counts(folder: Path, tmp_path: Path) -> None:
    made, found = prepared(folder, tmp_path, alpha=0.25)
    student = NestedNER.from_pretrained(folder / "teacher-0")
    for number, words, spans in ((2, found.sentences[2].words, found.sentences[2].spans), (22, RAW[0], ())):
        tensors = made.tensors(np.array([number]), len(words))
        batch = student.pieces([words])
        observed = student.observed([spans], [len(words)])
        divergence = made.divergence(student(batch), batch.lengths, *tensors[:2])
        ordinary = student.loss(batch, observed) if number == 2 else 0.0
        value = made.loss(student, batch, observed, *tensors)
        torch.testing.assert_close(value, 0.25 * divergence[0] + 0.75 * ordinary)


def test_a_student_comes_nearer_to_its_teacher(folder: Path, tmp_path: Path) -> None:
    made, _ = prepared(folder, tmp_path)
    numbers = np.arange(22, 22 + len(RAW))
    tensors = made.tensors(numbers, 4)

    def far(model: NestedNER) -> float:
        batch = model.pieces(RAW)
        with torch.inference_mode():
            return float(made.divergence(model.eval()(batch), batch.lengths, *tensors[:2]).mean())

    far_before = far(NestedNER.create(settings(folder).model(("ORG", "PER"))))
    result = distilled(folder, "near", alpha=1.0)
    assert far(NestedNER.from_pretrained(folder / "near")) < 0.2 * far_before
    assert result.f1 > 0
    assert not (folder / "near" / "training" / MARGINALS).exists()  # gone with the run's end
    card = (folder / "near" / "README.md").read_text()
    assert "distillation.raw_sentences" in card


def test_asked_in_each_step_it_learns_the_same(folder: Path) -> None:
    distilled(folder, "kept", train_settings={"epochs": 1})
    distilled(folder, "asked", cache_gb=0.0, train_settings={"epochs": 1})
    one, two = (NestedNER.from_pretrained(folder / name).state_dict() for name in ("kept", "asked"))
    for name, value in one.items():
        torch.testing.assert_close(value, two[name], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("teachers", "who"), [(1, "what the teacher says of"), (2, "what 2 teachers say of")])
def test_what_it_takes_is_told(folder: Path, tmp_path: Path, teachers: int, who: str) -> None:
    config, said = settings(folder), list[str]()
    found = corpus(folder, config)
    named = [folder / f"teacher-{seed}" for seed in range(teachers)]
    made = Distillation(named, found.sentences, RAW, found.labels, DistilConfig(cache_gb=0.0))
    made.prepare(tmp_path, start_machine(config), said.append)
    assert said[0].startswith(who)
    assert f"would take {made.bytes / 1e3:.1f} kB: it is asked for anew" in said[0]


def test_room_is_taken_before_the_teacher_is_asked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A disk that is full when a memory map is written is no error that could be told, but the end of Python.
    sizes = []

    def batches(self: Teacher) -> list[list[int]]:
        sizes.append((tmp_path / f"{MARGINALS}{UNFINISHED}").stat().st_blocks * 512)
        return original(self)

    original = Teacher.batches
    monkeypatch.setattr(Teacher, "batches", batches)
    made, _ = prepared(folder, tmp_path)
    assert sizes[0] >= made.bytes

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TrainingError, match=r"No space left on device\)\. Make room, or name another --output"):
        prepared(folder, tmp_path / "full")
    assert not list((tmp_path / "full").iterdir())


def test_what_is_kept_of_other_teachers_is_not_taken_for_these(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(folder, tmp_path)
    wanted = (tmp_path / MARGINALS).read_bytes()

    def killed(self: Teacher, numbers: Sequence[int]) -> None:
        raise ZeroDivisionError

    says = Teacher.says
    monkeypatch.setattr(Teacher, "says", killed)
    with pytest.raises(ZeroDivisionError):
        prepared(folder, tmp_path, temperature=2.0)
    monkeypatch.setattr(Teacher, "says", says)
    prepared(folder, tmp_path)
    assert (tmp_path / MARGINALS).read_bytes() == wanted


def test_students_share_what_their_teacher_says(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    first, _ = prepared(folder, tmp_path / "first", tmp_path / "said", said.append)
    other, _ = prepared(folder, tmp_path / "other", tmp_path / "said", temperature=2.0)  # says something else

    def asked_again(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Teacher, "says", asked_again)
    second, _ = prepared(folder, tmp_path / "second", tmp_path / "said", said.append)
    assert "for other students too" in said[0]
    assert "already" in said[1]
    alone = np.array([0, 3])
    for one, two in zip(first.tensors(alone, 9), second.tensors(alone, 9), strict=True):
        assert torch.equal(one, two)
    assert not torch.equal(first.tensors(alone, 9)[0], other.tensors(alone, 9)[0])
    second.finish(tmp_path / "second")
    kept = sorted(path.suffix for path in (tmp_path / "said").iterdir())
    assert [one for one in kept if one != ".lock"] == [".f32", ".f32", ".json", ".json"]
    assert not (tmp_path / "second" / MARGINALS).exists()


def test_answers_that_are_there_are_only_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be somebody else's."""
    prepared(folder, tmp_path / "first", tmp_path / "said")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(filelock.FileLock, "acquire", refused)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    prepared(folder, tmp_path / "second", tmp_path / "said")[0].check(tmp_path)
    other = objective(folder, corpus(folder, settings(folder)), tmp_path / "other")
    with pytest.raises(
        TrainingError, match=r"other \(nothing can be written there\)\. Name another folder with --answ"
    ):
        other.check(tmp_path)
    with pytest.raises(TrainingError, match=r"Permission denied\)\. Name another folder with --answers"):
        other.prepare(tmp_path, start_machine(settings(folder)), str)


def test_a_student_that_learns_keeps_what_it_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another one asks again, and is killed."""
    first, _ = prepared(folder, tmp_path / "first", tmp_path / "said")
    before = [one.clone() for one in first.tensors(np.array([0, 3]), 9)]
    next((tmp_path / "said").glob("*.json")).unlink()

    def killed(self: Teacher, numbers: Sequence[int]) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Teacher, "says", killed)
    with pytest.raises(ZeroDivisionError):
        prepared(folder, tmp_path / "second", tmp_path / "said")
    for one, two in zip(before, first.tensors(np.array([0, 3]), 9), strict=True):
        assert torch.equal(one, two)
    assert not list((tmp_path / "said").glob(f"*{UNFINISHED}"))


@pytest.mark.parametrize("damage", ["null", "[]", "{", '{"of": null}', "no entropies", "few entropies", "bytes"])
def test_damaged_answers_are_asked_for_again(folder: Path, tmp_path: Path, damage: str) -> None:
    first, _ = prepared(folder, tmp_path / "first", tmp_path / "said")
    wanted = [one.clone() for one in first.tensors(np.array([0, 3]), 9)]
    about, file = (next((tmp_path / "said").glob(f"*.{kind}")) for kind in ("json", "f32"))
    known = json.loads(about.read_text())
    if damage == "bytes":
        file.write_bytes(bytes(file.stat().st_size))
    elif damage == "no entropies":
        about.write_text(json.dumps({name: known[name] for name in known if name != "entropies"}))
    elif damage == "few entropies":
        about.write_text(json.dumps(known | {"entropies": known["entropies"][1:]}))
    else:
        about.write_text(damage)
    said = list[str]()
    second, _ = prepared(folder, tmp_path / "second", tmp_path / "said", said.append)
    assert "for other students too" in said[0]
    for one, two in zip(wanted, second.tensors(np.array([0, 3]), 9), strict=True):
        torch.testing.assert_close(one, two)


def test_how_long_asking_takes_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    monkeypatch.setattr(distillation, "MEASURED", 0.0)
    batches = Teacher.batches
    monkeypatch.setattr(Teacher, "batches", lambda self: [[number] for own in batches(self) for number in own])
    prepared(folder, tmp_path, say=said.append)
    assert sum("asking takes about 0:0" in one for one in said) == 1


def test_a_student_waits_for_another_that_asks(folder: Path, tmp_path: Path) -> None:
    """As two that are started side by side: one asks, both learn."""
    (tmp_path / "said").mkdir()
    said = list[str]()
    file = objective(folder, corpus(folder, settings(folder)), tmp_path / "said")._kept(tmp_path).file
    with file.with_suffix(".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def say(text: str) -> None:
            said.append(text)
            if "waiting" in text:
                threading.Timer(0.2, fcntl.flock, (other, fcntl.LOCK_UN)).start()

        prepared(folder, tmp_path / "run", tmp_path / "said", say)
    assert "another student asks" in said[0]
    assert "is kept in" in said[1]


def test_a_run_that_replaces_a_distillation_leaves_nothing_of_it(folder: Path) -> None:
    run(folder, "replaced", epochs=1)
    for name in (MARGINALS, ABOUT):
        (folder / "replaced" / "training" / name).write_text("large")
    run(folder, "replaced", epochs=1, force=True)
    assert not [name for name in (MARGINALS, ABOUT) if (folder / "replaced" / "training" / name).exists()]


def test_other_teachers_or_weights_cannot_go_on(folder: Path) -> None:
    distilled(folder, "run", train_settings={"epochs": 1})
    with pytest.raises(TrainingError, match="not what the run began with: alpha"):
        distilled(folder, "run", resume=True, alpha=0.9, train_settings={"epochs": 1})
    config = settings(folder, epochs=1)
    with pytest.raises(TrainingError, match="this run is a distillation; `nestree distil --output"):
        train(corpus(folder, config), folder / "run", config, resume=True)


def test_teachers_that_do_not_go_together_leave_everything_as_it_was(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder, "before", epochs=1)
    other = NestedNER.from_pretrained(folder / "teacher-1")
    other.config = replace(other.config, splitter=Splitter("whitespace"))
    other.save_pretrained(tmp_path / "other")
    before = {path: path.read_bytes() for path in (folder / "before").rglob("*") if path.is_file()}
    data = corpus_file(tmp_path / "train.jsonl")
    flags = ["--train", str(data), "--dev", str(data), "--device", "cpu", "--force", "--output", str(folder / "before")]
    assert main(["distil", str(folder / "teacher-0"), str(tmp_path / "other"), *flags]) == 2
    assert "words = 'whitespace', and the student would be with 'punctuation'. Add --words" in capsys.readouterr().err
    other.config = replace(other.config, splitter=Splitter(sentences="lines"))
    other.save_pretrained(tmp_path / "other")
    assert main(["distil", str(folder / "teacher-0"), str(tmp_path / "other"), *flags]) == 2
    assert "sentences = 'lines', and the first with 'sentencex'" in capsys.readouterr().err
    NestedNER.ensemble([folder / "teacher-0", folder / "teacher-1"]).save_pretrained(tmp_path / "both")
    assert main(["distil", str(tmp_path / "both"), str(folder / "teacher-1"), *flags]) == 2
    assert "hold the same model, which would count twice" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (folder / "before").rglob("*") if path.is_file()} == before


def test_a_teacher_with_other_labels_is_refused(folder: Path) -> None:
    found = corpus(folder, settings(folder))
    with pytest.raises(TrainingError, match=r"does not know GPE and knows PER, which the training data does not have"):
        Distillation([folder / "teacher-0"], found.sentences, [], ("GPE", "ORG"), DistilConfig())


@pytest.mark.parametrize(("name", "value"), [("alpha", 0.0), ("alpha", 1.5), ("temperature", 0.0), ("cache_gb", -1.0)])
def test_settings_that_make_no_sense(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is"):
        DistilConfig().updated({name: value})


def _command(folder: Path, name: str, *flags: str) -> list[str]:
    base = command(folder, name)
    at = base.index("train")
    text = folder / "raw.txt"
    text.write_text("\n".join(" ".join(words) for words in RAW) + "\n")
    inputs = [str(folder / "teacher-0"), str(folder / "teacher-1"), str(text)]
    return [*base[:at], "distil", *inputs, "--train", *base[at + 1 :], "--sentences", "lines", *flags]


def test_the_command_stopped_and_resumed_ends_with_the_same_weights(folder: Path) -> None:
    status, said = finish(start(_command(folder, "whole")))
    assert status == 0, said
    assert "12 of raw text" in said
    process = start(_command(folder, "stopped"))
    limit = time.monotonic() + 120
    while len(steps(folder / "stopped")) < 9 and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert finish(process)[0] != 0
    assert (folder / "stopped" / "training" / ABOUT).exists()
    short = [*_command(folder, "stopped")[:3], "distil", "--output", str(folder / "stopped"), "--resume"]
    status, said = finish(start(short))
    assert status == 0, said
    assert "is kept in" not in said  # what the teachers said is there still
    one, two = ((folder / name / "model.safetensors").read_bytes() for name in ("whole", "stopped"))
    assert one == two
    teacher = folder / "teacher-1"
    teacher.rename(folder / "elsewhere")  # nobody needs it any more
    status, said = finish(start(short))
    (folder / "elsewhere").rename(teacher)
    assert status == 0, said
    assert "nothing is left to do" in said
    status, said = finish(start([*short, "--epochs", "77"]))
    assert status != 0
    assert "epochs was 3 and is 77" in said


def test_the_command_shares_answers_and_finds_them_when_it_goes_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ["--answers", str(tmp_path / "said"), "--epochs", "1"]
    assert main(_command(folder, "shares-1", *shared)[3:]) == 0
    assert "for other students too" in capsys.readouterr().err
    assert main(_command(folder, "shares-2", *shared, "--seed", "5")[3:]) == 0
    assert "already" in capsys.readouterr().err
    (folder / "shares-2" / "training" / "result.json").unlink()  # as if it had been stopped at the very end
    assert main(["distil", "--output", str(folder / "shares-2"), "--resume"]) == 0
    assert "already" in capsys.readouterr().err
    for flags, wanted in ((["--answers", str(tmp_path / "elsewhere")], "elsewhere"), ([], "elsewhere")):
        (folder / "shares-2" / "training" / "result.json").unlink()
        assert main(["distil", "--output", str(folder / "shares-2"), "--resume", *flags]) == 0
        assert wanted in capsys.readouterr().err  # the last one counts from then on


def test_a_place_for_answers_that_is_none_costs_no_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_command(folder, "costs", "--epochs", "1")[3:]) == 0
    before = {path: path.read_bytes() for path in (folder / "costs").rglob("*") if path.is_file()}
    capsys.readouterr()
    (tmp_path / "file").touch()
    for place, wanted in (("file", "--answers names a folder"), ("file/within", "cannot be kept in")):
        assert main(_command(folder, "costs", "--force", "--answers", str(tmp_path / place))[3:]) == 2
        assert wanted in capsys.readouterr().err
    shutil.copytree(folder / "teacher-0", tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    more = _command(folder, "costs", "--force")[3:]
    assert main([*more[:1], str(tmp_path / "damaged"), *more[2:]]) == 2
    assert "the weights are damaged" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (folder / "costs").rglob("*") if path.is_file()} == before
    assert main(more) == 0
    assert capsys.readouterr().err.count(" is kept in ") == 1  # and not asked again after the run was replaced


def test_a_run_goes_on_where_its_data_is_now(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(folder / "teacher-1", tmp_path / "teacher")
    data = corpus_file(tmp_path / "train.jsonl")
    flags = ["--output", str(tmp_path / "run"), "--encoder", str(folder / "encoder"), "--device", "cpu"]
    files = ["--train", str(data), "--dev", str(data)]
    assert main(["distil", str(tmp_path / "teacher"), *files, *flags, "--epochs", "1"]) == 0
    short = ["distil", "--output", str(tmp_path / "run"), "--resume"]
    result = tmp_path / "run" / "training" / "result.json"
    result.unlink()
    moved = (tmp_path / "teacher").rename(tmp_path / "moved")
    data = data.rename(tmp_path / "other.jsonl")
    capsys.readouterr()
    assert main([*short, "--train", str(data), "--dev", str(data)]) == 2
    assert "is not there any more" in (said := capsys.readouterr().err)
    assert "nestree distil TEACHER" in said
    assert main([*short[:1], str(moved), *short[1:], "--train", str(data), "--dev", str(data)]) == 0
    result.unlink()
    assert main(short) == 0
    assert main([*short[:1], str(moved), *short[1:]]) == 0
    assert "nothing is left to do" in capsys.readouterr().err
    moved.rename(tmp_path / "gone")
    assert main([*short[:1], str(moved), *short[1:], "--device", "cpu"]) == 0
    assert main([*short[:1], str(moved), *short[1:], "--epochs", "9"]) == 2
    assert "epochs was 1 and is 9" in capsys.readouterr().err
    assert main([*short[:1], str(tmp_path / "mistyped"), *short[1:]]) == 2
    assert "mistyped: there is no such model" in capsys.readouterr().err
    (tmp_path / "gone").rename(moved)
    result.unlink()
    assert main([*short, "--cache-gb", "0"]) == 2
    assert "asked_in_each_step" in capsys.readouterr().err


def test_folders_that_are_no_teachers_say_what_they_are(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--train", str(corpus_file(tmp_path / "train.jsonl")), "--output", str(tmp_path / "out")]
    (tmp_path / "both").mkdir()
    both = [tmp_path / "both" / f"teacher-{seed}" for seed in (0, 1)]
    for one in both:
        one.symlink_to(folder / one.name)
    assert main(["distil", str(tmp_path / "both"), *flags]) == 2
    assert f"Name those that are meant: {both[0]} {both[1]}" in capsys.readouterr().err
    run = RunFolder(tmp_path / "stopped")
    for objective_, command_ in (({}, "train"), ({"objective": {"same": {}}}, "distil")):
        run.write_down("", objective_)
        assert main(["distil", str(run.path), *flags]) == 2
        assert f"nestree {command_} --output {run.path} --resume" in capsys.readouterr().err


def test_what_is_wrong_is_said(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = corpus_file(tmp_path / "train.jsonl")
    flags = ["--train", str(data), "--dev", str(data), "--output", str(tmp_path / "out")]
    assert main(["distil", *flags]) == 2
    assert "there is no teacher" in capsys.readouterr().err
    assert main(["distil", str(folder / "teacher-0"), *flags, "--loss", "local"]) == 2
    assert "a student has trees" in capsys.readouterr().err
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    for line in lines:
        line["entities"] = [one | {"label": "X"} for one in line["entities"]]
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join(map(json.dumps, lines)) + "\n")
    flags = ["--train", str(other), "--dev", str(other), "--output", str(tmp_path / "out"), "--device", "cpu"]
    assert main(["distil", str(folder / "teacher-0"), *flags]) == 2
    assert "does not know X" in capsys.readouterr().err


def test_a_student_does_not_replace_its_teacher(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, teacher = corpus_file(tmp_path / "train.jsonl"), folder / "teacher-0"
    before = (teacher / "model.safetensors").read_bytes()
    flags = ["--train", str(data), "--dev", str(data), "--output", str(teacher), "--force", "--epochs", "1"]
    assert main(["distil", str(teacher), *flags, "--device", "cpu"]) == 2
    assert "this is one of the teachers" in capsys.readouterr().err
    assert (teacher / "model.safetensors").read_bytes() == before
