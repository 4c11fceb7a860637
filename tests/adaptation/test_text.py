"""Text of any kind as sentences of words, and the commands around it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nestree.adaptation import adapt, read_text
from nestree.adaptation.head import load_masked
from nestree.adaptation.text import of_documents
from nestree.cli.main import main
from nestree.data import Document, Splitter, read
from tests.adaptation.cases import encoder, settings, text_file
from tests.training.cases import corpus_file

FLAGS = ["--epochs", "2", "--rounds", "2", "--batch-size", "4", "--length", "32", "--device", "cpu"]


def test_plain_text_is_split_as_the_tagger_splits_it(tmp_path: Path) -> None:
    text = "Dr. Smith came. He left,\nsoon.\n\nThe end.\n"
    (tmp_path / "a.txt").write_text(text)
    with gzip.open(tmp_path / "b.txt.gz", "wt") as stream:
        stream.write(text)
    plain = read_text([tmp_path / "a.txt"], Splitter())
    tokens, sentences = Splitter()(text.rstrip("\n"))
    words = [text[one.start : one.end] for one in tokens]
    assert plain.sentences == tuple(tuple(words[start:end]) for start, end in sentences)
    assert read_text([tmp_path / "b.txt.gz"], Splitter()).fingerprint == plain.fingerprint
    assert read_text([tmp_path], Splitter()).sentences == plain.sentences * 2  # a folder of texts


def test_long_texts_are_read_in_parts(tmp_path: Path) -> None:
    lines = [f"Line number {at} is here." for at in range(20_000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    found = read_text([tmp_path / "a.txt"], Splitter(sentences="lines"))
    assert len(found.sentences) == 20_000
    assert found.sentences[-1] == ("Line", "number", "19999", "is", "here", ".")


def test_corpora_give_their_words(tmp_path: Path) -> None:
    path = corpus_file(tmp_path / "c.jsonl")
    found = read_text([path], Splitter())
    lines = path.read_text().splitlines()
    assert [list(one) for one in found.sentences] == [json.loads(line)["tokens"] for line in lines]
    assert of_documents(read(path), Splitter(), "c.jsonl", "jsonl").fingerprint == found.fingerprint


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, text = encoder(tmp_path / "encoder"), text_file(tmp_path / "text.txt")
    target = tmp_path / "out"
    command = ["adapt", str(folder), str(text), "--output", str(target), *FLAGS]
    assert main(command) == 0
    assert "next: nestree train" in capsys.readouterr().err
    assert main(command) == 2
    assert "holds an adaptation already" in capsys.readouterr().err
    assert main(["adapt", "--output", str(target), "--resume"]) == 0
    assert "nothing is left to do" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--resume"], "nothing was begun here"),
        ([], "ENCODER is missing"),
        (["minilm"], "TEXT is missing"),
        (["minilm", "a.txt", "--resume", "--force"], "choose one"),
        (["minilm", "missing.txt"], "there is no such file"),
        (["minilm", "missing.txt", "--mask", "1.5"], "mask is 1.5"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adapt", *arguments, "--output", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err


def test_unknown_keys_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text("epoch = 3\n")
    flags = ["--output", str(tmp_path / "out"), "--config", str(tmp_path / "c.toml")]
    assert main(["adapt", "minilm", "text.txt", *flags]) == 2
    assert "unknown key 'epoch'. Did you mean 'epochs'? Known are words" in capsys.readouterr().err


def test_train_adapts_in_one_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = encoder(tmp_path / "encoder")
    train, dev = corpus_file(tmp_path / "train.jsonl"), corpus_file(tmp_path / "dev.jsonl", 8, 1)
    flags = ["--dev", str(dev), "--encoder", str(folder), "--output", str(tmp_path / "run"), "--epochs", "1"]
    flags += ["--device", "cpu", "--no-tensorboard", "--adapt-on", "train", str(text_file(tmp_path / "more.txt"))]
    chosen = ["--adapt-set", "epochs=2", "--adapt-set", "rounds=2", "--adapt-set", "batch_size=4"]
    assert main(["train", str(train), *flags, "--adapt-set", "epoch=2"]) == 2
    assert "unknown key 'epoch'" in capsys.readouterr().err
    assert main(["train", str(train), *flags, *chosen]) == 0
    run = json.loads((tmp_path / "run" / "adapted" / "adaptation" / "result.json").read_text())
    assert [one["file"] for one in run["text"]["files"]] == ["train.jsonl", "more.txt"]
    card = (tmp_path / "run" / "README.md").read_text()
    assert "adaptation.words" in card
    assert json.loads((tmp_path / "run" / "nestree.json").read_text())["model"]["encoder"].endswith("adapted")
    assert main(["train", str(train), *flags, *chosen, "--resume"]) == 0
    assert main(["train", "--output", str(tmp_path / "run"), "--resume"]) == 0


def test_what_is_wrong_with_an_adaptation_before_training_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = encoder(tmp_path / "encoder")
    train, dev = corpus_file(tmp_path / "train.jsonl"), corpus_file(tmp_path / "dev.jsonl", 8, 1)
    start = ["train", str(train), "--dev", str(dev), "--encoder", str(folder), "--output", str(tmp_path / "run")]
    assert main([*start, "--adapt-set", "epochs=2"]) == 2
    assert "Say on which text, with --adapt-on" in capsys.readouterr().err
    assert main([*start, "--adapt-on", "train", "--adapt-set", "pack=ture"]) == 2
    assert "pack is 'ture'; it can be true or false" in capsys.readouterr().err
    (tmp_path / "run" / "seed-1" / "training").mkdir(parents=True)
    for name in ("config.toml", "run.json"):  # a run that began
        (tmp_path / "run" / "seed-1" / "training" / name).write_text("{}")
    assert main([*start, "--adapt-on", "train", "--seeds", "2", "--device", "cpu"]) == 2
    assert "seed-1 holds a run already" in capsys.readouterr().err
    assert not (tmp_path / "run" / "adapted").exists()  # it was said before anything slow


def test_an_adaptation_before_training_goes_on_with_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, config = encoder(tmp_path / "encoder"), settings(epochs=1)
    documents = [Document("u x a"), Document("u x d")]
    adapt(str(folder), of_documents(documents, config.splitter, "a", "jsonl"), tmp_path / "out", config)
    assert main(["adapt", "--output", str(tmp_path / "out"), "--resume"]) == 2
    assert "Give that command again, with --resume" in capsys.readouterr().err


def test_texts_beside_a_corpus_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "mixed").mkdir()
    corpus_file(tmp_path / "mixed" / "c.jsonl")
    text_file(tmp_path / "mixed" / "text.txt")
    alone = [read_text([tmp_path / "mixed" / name], Splitter()) for name in ("c.jsonl", "text.txt")]
    found = read_text([tmp_path / "mixed"], Splitter())
    assert found.sentences == alone[0].sentences + alone[1].sentences
    assert found.files[0]["format"] == "jsonl and text"
    (tmp_path / "mixed" / "letter.md").write_text("Dear u x.\n")
    again = read_text([tmp_path / "mixed"], Splitter())
    assert again.sentences == found.sentences
    assert [Path(note.place).name for note in again.report] == ["letter.md"]


def test_texts_in_folders_within_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "all" / "letters").mkdir(parents=True)
    text = text_file(tmp_path / "all" / "letters" / "one.txt")
    assert read_text([tmp_path / "all"], Splitter()).sentences == read_text([text], Splitter()).sentences


def test_texts_are_texts_beside_corpora_of_a_named_format(tmp_path: Path) -> None:
    corpus, text = corpus_file(tmp_path / "c.jsonl"), text_file(tmp_path / "text.txt")
    found = read_text([corpus, text], Splitter(), format_name="jsonl", endings=True)
    assert [one["format"] for one in found.files] == ["jsonl", "text"]


def test_an_encoder_that_learned_nothing_has_no_head_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import itertools

    from nestree.adaptation.steps import Learner

    costs = itertools.count(1.0)
    monkeypatch.setattr(Learner, "cost", lambda *_: next(costs))  # it only gets worse
    text = text_file(tmp_path / "text.txt")
    command = ["adapt", str(encoder(tmp_path / "encoder")), "--output", str(tmp_path / "out"), str(text), *FLAGS]
    assert main(command) == 0
    assert "the encoder is as it was" in capsys.readouterr().err
    assert "which did not help" in (tmp_path / "out" / "README.md").read_text()
    assert not load_masked(str(tmp_path / "out")).pretrained


def test_an_encoder_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    text = text_file(tmp_path / "text.txt")
    assert main(["adapt", str(tmp_path / "nowhere"), str(text), "--output", str(tmp_path / "out"), *FLAGS]) == 2
    assert not (tmp_path / "out").exists()


def test_a_run_whose_encoder_was_being_adapted_does_not_go_on_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = str(corpus_file(tmp_path / "c.jsonl"))
    (tmp_path / "run" / "adapted").mkdir(parents=True)
    assert main(["train", corpus, "--dev", corpus, "--output", str(tmp_path / "run"), "--resume"]) == 2
    assert "Give the whole command again, with --adapt-on and --resume" in capsys.readouterr().err


def test_what_an_option_took_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, output = str(corpus_file(tmp_path / "c.jsonl")), str(tmp_path / "run")
    assert main(["train", "--dev", corpus, "--output", output, "--adapt-on", "train", corpus]) == 2
    assert "--adapt-on took all that follows it: name TRAIN before it" in capsys.readouterr().err
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "nestree.json").touch()
    assert main(["distil", "--train", corpus, str(tmp_path / "model"), "--dev", corpus, "--output", output]) == 2
    assert f"--train took {tmp_path / 'model'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere: there is no such model, file or folder"),
        (["begun"], "begun: the run in this folder has no model yet"),
        (["--resume"], "nothing was begun here"),
    ],
)
def test_what_is_wrong_with_teachers_is_said(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "begun" / "training").mkdir(parents=True)
    assert main(["distil", *arguments, "--output", "student"]) == 2
    assert said in capsys.readouterr().err


def test_archives_and_options_that_nothing_knows_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "all.tar.gz").write_bytes(b"")
    start = ["adapt", str(encoder(tmp_path / "encoder")), "--output", str(tmp_path / "out")]
    assert main([*start, str(tmp_path / "all.tar.gz")]) == 2
    assert "archives of this kind are not read. Unpack it" in capsys.readouterr().err
    assert main([*start, str(text_file(tmp_path / "text.txt")), "--set", "x=y"]) == 2
    assert "--set x: none of the texts has a format with this option. Plain text has no options." in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()
