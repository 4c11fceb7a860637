"""Adaptation: it learns, ends with the same weights however often it was stopped, and leaves an ordinary encoder."""

from __future__ import annotations

import json
import os
import signal
from io import StringIO
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from nestree.adaptation import AdaptProgress, adapt
from nestree.adaptation.folder import AdaptFolder
from nestree.adaptation.progress import RoundResult
from nestree.cli.main import main
from nestree.data.errors import DataError
from nestree.encoders import adaptation_of
from nestree.training.errors import TrainingError
from tests.adaptation.cases import encoder, run, settings, text, text_file
from tests.training.cases import corpus_file


class Told(AdaptProgress):
    """Keeps what is told, and can do something after a step."""

    def __init__(self, after: int = -1, do: object = None) -> None:
        super().__init__(StringIO(), terminal=False)
        self.rounds: list[RoundResult] = []
        self._after, self._do, self._number = after, do, 0

    @property
    def text(self) -> str:
        found = self._stream
        assert isinstance(found, StringIO)
        return found.getvalue()

    def stepped(self, number: int, loss: float | None, speed: float | None) -> None:
        self._number += 1
        if self._number == self._after:
            assert callable(self._do)
            self._do()

    def round(self, result: RoundResult) -> None:
        super().round(result)
        self.rounds.append(result)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_it_learns_and_leaves_an_ordinary_encoder(tmp_path: Path) -> None:
    told = Told()
    result = run(tmp_path, progress=told, epochs=12)
    assert result.after < 0.8 * result.before
    assert told.rounds[-1].loss < told.rounds[0].loss
    model = AutoModel.from_pretrained(tmp_path / "adapted")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "adapted")
    vectors = model(**tokenizer("u x", return_tensors="pt")).last_hidden_state
    assert vectors.isfinite().all()
    before = AutoModel.from_pretrained(tmp_path / "encoder")
    assert not torch.equal(before.embeddings.word_embeddings.weight, model.embeddings.word_embeddings.weight)


def test_the_card_says_on_what_and_nothing_of_the_text(tmp_path: Path) -> None:
    result = run(tmp_path)
    card = (tmp_path / "adapted" / "README.md").read_text()
    assert f"{result.after:.2f}" in card
    assert "| sentences | 60 |" in card
    everything = card + "".join(path.read_text() for path in (tmp_path / "adapted" / "adaptation").glob("*.json"))
    assert "efg" not in everything
    known = adaptation_of(str(tmp_path / "adapted"))
    assert known is not None
    assert known["sentences"] == 60
    assert adaptation_of(str(tmp_path / "encoder")) is None
    assert "base_model" not in card  # of a folder; on the hub, something else may have its name
    assert "huggingface.co" not in card


def test_windows_are_no_longer_than_what_the_encoder_reads_and_that_is_said(tmp_path: Path) -> None:
    told = Told()
    run(tmp_path, progress=told, epochs=1, length=100_000)
    assert "the most that this encoder reads, instead of 100000" in told.text


def test_little_text_is_said(tmp_path: Path) -> None:
    told = Told()
    run(tmp_path, progress=told, epochs=1)
    assert "words are little text" in told.text


def test_stopped_and_resumed_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    run(tmp_path, "whole")

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    told = Told(after=5, do=interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "stopped", progress=told)
    assert "--resume goes on from there" in told.text
    assert not (tmp_path / "stopped" / "model.safetensors").exists()
    again, moved = Told(), (tmp_path / "encoder").rename(tmp_path / "moved")
    with pytest.raises(TrainingError, match=r"not .*; --force begins anew"):
        adapt(
            str(encoder(tmp_path / "other", head=True)), text(tmp_path), tmp_path / "stopped", settings(), resume=True
        )
    adapt(str(moved), text(tmp_path), tmp_path / "stopped", settings(), resume=True, progress=again)
    assert "going on after step 5" in again.text
    assert AdaptFolder(tmp_path / "stopped").run["encoder"] == str(moved)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    assert not (tmp_path / "stopped" / "adaptation" / "checkpoints").exists()


def test_it_says_how_long_it_will_take_also_when_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nestree.adaptation.pace.MEASURED", 0.0)

    def crash() -> None:
        raise ZeroDivisionError

    told, again = Told(after=6, do=crash), Told()
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, progress=told)
    run(tmp_path, progress=again, resume=True)
    for one in (told, again):
        assert one.text.count("on this machine all passes take about ") == 1


def test_after_a_crash_it_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    run(tmp_path, "whole")

    def crash() -> None:
        raise ZeroDivisionError

    for after in (6, 4):
        with pytest.raises(ZeroDivisionError):
            run(tmp_path, "crashed", progress=Told(after=after, do=crash), resume=True)
    run(tmp_path, "crashed", resume=True)
    assert weights(tmp_path / "crashed") == weights(tmp_path / "whole")
    whole, crashed = (
        (tmp_path / name / "adaptation" / "metrics.jsonl").read_text().splitlines() for name in ("whole", "crashed")
    )
    assert [json.loads(one)["perplexity"] for one in whole] == [json.loads(one)["perplexity"] for one in crashed]


def test_parts_do_not_matter(tmp_path: Path) -> None:
    # Without dropout the same gradients, but for rounding.
    encoder(tmp_path / "encoder")
    path = tmp_path / "encoder" / "config.json"
    values = json.loads(path.read_text()) | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path.write_text(json.dumps(values))
    results = [run(tmp_path, str(budget), budget=budget, epochs=2).after for budget in (10_000, 40)]
    assert results[0] == pytest.approx(results[1], rel=1e-3)


def test_a_finished_one_is_not_done_again(tmp_path: Path) -> None:
    first = run(tmp_path)
    told = Told()
    again = run(tmp_path, progress=told, resume=True)
    assert "nothing is left to do" in told.text
    assert again == first


def test_patience_ends_it_and_the_best_is_kept(tmp_path: Path) -> None:
    told = Told()
    result = run(tmp_path, progress=told, epochs=30, rounds=30, lr=1.0, head_lr=1.0, patience=2, clip=0.0, head=True)
    assert "no better perplexity for 2 rounds: stopped" in told.text
    assert result.after == min(result.before, *(one.perplexity for one in told.rounds))


def test_what_does_not_help_leaves_the_encoder_as_it_was(tmp_path: Path) -> None:
    told = Told()
    result = run(tmp_path, progress=told, lr=5.0, clip=0.0, warmup=0.0, patience=1, head=True)
    assert result.round == 0
    assert "this text does not help it" in told.text
    before = AutoModel.from_pretrained(tmp_path / "with-head")
    after = AutoModel.from_pretrained(tmp_path / "adapted")
    assert torch.equal(before.embeddings.word_embeddings.weight, after.embeddings.word_embeddings.weight)


def test_divergence_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"diverged\. Lower lr"):
        run(tmp_path, lr=1e4, clip=0.0, warmup=0.0, head=True)


# --- What is refused -------------------------------------------------------------------------------------------------


def test_a_folder_that_is_taken(tmp_path: Path) -> None:
    run(tmp_path, epochs=1)
    with pytest.raises(TrainingError, match="holds an adaptation already"):
        run(tmp_path, epochs=1)
    run(tmp_path, epochs=1, seed=1, force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    for force in (False, True):
        with pytest.raises(TrainingError, match="holds something that is no adaptation"):
            run(tmp_path, "other", force=force)
    with pytest.raises(TrainingError, match="is the encoder itself"):
        run(tmp_path, "encoder", force=True)


def test_another_encoder_in_its_place_does_not_go_on(tmp_path: Path) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=Told(after=5, do=interrupt))
    model = AutoModel.from_pretrained(tmp_path / "encoder")
    before = (tmp_path / "encoder" / "model.safetensors").read_bytes()
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.add_(1.0)
    model.save_pretrained(tmp_path / "encoder")
    with pytest.raises(TrainingError, match="encoder is not what it was when the adaptation here began"):
        run(tmp_path, resume=True)
    (tmp_path / "encoder" / "model.safetensors").write_bytes(before)
    run(tmp_path, resume=True)
    assert (tmp_path / "adapted" / "config.json").exists()


def test_the_encoder_is_looked_at_before_text_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nestree.cli.adapt.read", lambda *_: pytest.fail("text was read"))
    text = str(text_file(tmp_path / "text.txt"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "nestree.json").write_text("{}")
    for name, what in (("nowhere", "no such folder"), ("model", "name the one that this was trained on")):
        assert main(["adapt", str(tmp_path / name), text, "--output", str(tmp_path / "out")]) == 2
        assert what in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    command = ["adapt", str(encoder(tmp_path / "encoder")), text, "--output", f"{text}/out"]
    assert main(command) == 2
    assert "out cannot be made" in capsys.readouterr().err


def test_what_never_came_to_begin_does_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "adapted" / "adaptation").mkdir(parents=True)
    (tmp_path / "adapted" / "adaptation" / "config.toml").write_text("")
    result = run(tmp_path, "adapted", epochs=1)
    assert result.after < result.before
    (tmp_path / "other" / "adaptation").mkdir(parents=True)
    (tmp_path / "other" / "adaptation" / "notes.md").write_text("mine")
    with pytest.raises(TrainingError, match="holds something that is no adaptation"):
        run(tmp_path, "other", epochs=1, force=True)


def test_other_settings_or_other_text_cannot_go_on(tmp_path: Path) -> None:
    run(tmp_path, epochs=1)
    with pytest.raises(TrainingError, match="epochs was 1 and is 2"):
        run(tmp_path, epochs=2, resume=True)
    from nestree.adaptation import adapt, read_text
    from tests.adaptation.cases import settings

    config = settings(epochs=1)
    other = read_text([text_file(tmp_path / "other.txt", seed=3)], config.splitter)
    with pytest.raises(TrainingError, match="not the text"):
        adapt(str(tmp_path / "encoder"), other, tmp_path / "adapted", config, resume=True)


def test_no_text_and_text_that_cannot_be_read(tmp_path: Path) -> None:
    from nestree.adaptation import read_text
    from nestree.data import Splitter

    (tmp_path / "empty.txt").write_text(" \n\n")
    with pytest.raises(DataError, match="there is no text"):
        read_text([tmp_path / "empty.txt"], Splitter())
    (tmp_path / "latin.txt").write_bytes("Käse".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_text([tmp_path / "latin.txt"], Splitter())
    with pytest.raises(DataError, match="no such file"):
        read_text([tmp_path / "missing.txt"], Splitter())
    with pytest.raises(DataError, match="would count twice"):
        read_text([tmp_path / "empty.txt", tmp_path / "." / "empty.txt"], Splitter())
    (tmp_path / "notes.md").write_text("Some words.\n")
    with pytest.raises(DataError, match="Is it plain text\\? Then use --text"):
        read_text([tmp_path / "notes.md"], Splitter())
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.txt").write_text("Some words.\n")
    (tmp_path / "mixed" / "notes.md").write_text("Other words.\n")
    found = read_text([tmp_path / "mixed"], Splitter())
    assert [(one["format"], one["sentences"]) for one in found.files] == [("text", 1)]
    assert ["notes.md" in note.place for note in found.report] == [True]
    corpus_file(tmp_path / "mixed" / "b.jsonl")
    (tmp_path / "mixed" / "c.conll").write_text("Anna\tB-PER\nruns\tO\n\n")
    with pytest.raises(DataError, match="files of several formats"):  # and not the text alone, without a word
        read_text([tmp_path / "mixed"], Splitter())
    (tmp_path / "nothing").mkdir()
    (tmp_path / "latin.dat").write_bytes("Käse".encode("latin-1"))
    for path, what in (("nothing", "no files in this folder"), ("latin.dat", "not UTF-8")):
        with pytest.raises(DataError, match=what) as refused:
            read_text([tmp_path / path], Splitter())
        assert "--text" not in str(refused.value)
