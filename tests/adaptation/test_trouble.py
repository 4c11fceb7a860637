"""What happens while an encoder is adapted: memory and disks that are too small, processes that do not agree."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.adaptation.folder import AdaptFolder
from nestree.adaptation.head import MaskedEncoder
from nestree.training.errors import TrainingError
from tests.adaptation.cases import encoder, run, settings, text_file
from tests.adaptation.test_loop import Told, weights
from tests.launching import with_small_files
from tests.training.cases import finish, start


def crash() -> None:
    raise ZeroDivisionError


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


# --- Memory ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for two windows at a time."""
    original = MaskedEncoder.forward

    def forward(self: MaskedEncoder, pieces: torch.Tensor, *others: Any) -> torch.Tensor:
        if len(pieces) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, pieces, *others)

    monkeypatch.setattr(MaskedEncoder, "forward", forward)


@pytest.mark.usefixtures("cramped")
def test_little_memory_is_enough_for_held_out_text_too(tmp_path: Path) -> None:
    told = Told()
    result = run(tmp_path, progress=told, held_out=0.4)
    assert result.after < result.before
    assert told.text.count("memory does not suffice for a batch") == 1


@pytest.mark.usefixtures("cramped")
def test_little_memory_and_a_stop_end_with_the_same_weights(tmp_path: Path) -> None:
    run(tmp_path, "whole", budget=150)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "stopped", budget=150, progress=Told(after=5, do=interrupt))
    again = Told()
    run(tmp_path, "stopped", budget=150, progress=again, resume=True)
    assert "memory does not suffice" not in again.text  # it is known already
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")


def test_one_window_too_much_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(MaskedEncoder, "forward", never)
    with pytest.raises(TrainingError, match="memory does not suffice for one window"):
        run(tmp_path)


def test_what_has_no_deterministic_algorithm_is_said_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = MaskedEncoder.forward

    def forward(self: MaskedEncoder, *inputs: Any) -> torch.Tensor:
        if not torch.is_deterministic_algorithms_warn_only_enabled():
            raise RuntimeError("counting does not have a deterministic implementation. Turn it off.")
        return original(self, *inputs)

    monkeypatch.setattr(MaskedEncoder, "forward", forward)
    told = Told()
    run(tmp_path, progress=told, epochs=1)
    assert told.text.count("counting does not have a deterministic implementation: runs with the same seed may") == 1


# --- Disks -----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    config = settings()
    (tmp_path / "config.toml").write_text(config.as_toml())
    command = [sys.executable, "-m", "nestree", "adapt", str(encoder(tmp_path / "encoder"))]
    command += [str(text_file(tmp_path / "text.txt")), "--config", str(tmp_path / "config.toml"), "--output"]
    status, said = finish(start(with_small_files([*command, str(tmp_path / "full")], 20_000)))
    assert status == 2, said
    assert said.count("a checkpoint could not be written") == 1
    assert "Make room, then begin again with --resume: no checkpoint could be kept" in said
    assert "Traceback" not in said
    assert not list((tmp_path / "full").glob(".saving-*"))
    for name in ("full", "whole"):
        status, said = finish(start([*command, str(tmp_path / name), "--resume"]))
        assert status == 0, said
    assert weights(tmp_path / "full") == weights(tmp_path / "whole")


def test_metrics_that_cannot_be_written_come_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = AdaptFolder.log, []

    def full(self: AdaptFolder, events: Any) -> None:
        calls.append(len(events))
        if len(calls) <= 2:
            raise OSError(28, "No space left on device")
        original(self, events)

    monkeypatch.setattr(AdaptFolder, "log", full)
    told = Told()
    run(tmp_path, progress=told)
    assert told.text.count("metrics could not be written") == 1
    lines = (tmp_path / "adapted" / "adaptation" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(one)["number"] for one in lines] == [1, 2, 3, 4]


def test_what_had_no_patience_left_does_not_go_on_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild: dict[str, Any] = {"epochs": 30, "rounds": 210, "lr": 1.0, "patience": 2, "clip": 0.0, "head": True}
    whole = run(tmp_path, "whole", **wild)
    publish: Callable[..., None] = AdaptFolder.publish

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(AdaptFolder, "publish", full)
    with pytest.raises(TrainingError, match="Make room"):
        run(tmp_path, "full", **wild)
    monkeypatch.setattr(AdaptFolder, "publish", publish)
    again = run(tmp_path, "full", resume=True, **wild)
    assert (again.steps, again.round, again.after) == (whole.steps, whole.round, whole.after)
    assert weights(tmp_path / "full") == weights(tmp_path / "whole")


# --- Several processes -----------------------------------------------------------------------------------------------


def test_processes_that_see_different_checkpoints_do_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, progress=Told(after=9, do=crash))
    metrics = tmp_path / "adapted" / "adaptation" / "metrics.jsonl"
    before = metrics.read_text()
    monkeypatch.setattr("accelerate.utils.gather_object", lambda own: [*own, 0])
    with pytest.raises(TrainingError, match=r"checkpoints of different steps \(\[0, 7\]\)"):
        run(tmp_path, resume=True)
    assert metrics.read_text() == before


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    folder = encoder(tmp_path / "encoder")
    values = json.loads((folder / "config.json").read_text())
    values |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(values))
    (tmp_path / "config.toml").write_text(settings(epochs=2, batch_size=5).as_toml())
    rest = ["adapt", str(folder), str(text_file(tmp_path / "text.txt")), "--config", str(tmp_path / "config.toml")]
    both = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    found = []
    for name, launcher in (("one", []), ("two", both)):
        command = [sys.executable, *launcher, "-m", "nestree", *rest, "--output", str(tmp_path / name)]
        status, said = finish(start(command))
        assert status == 0, said
        lines = (tmp_path / name / "adaptation" / "metrics.jsonl").read_text().splitlines()
        found.append([json.loads(one) for one in lines])
    for key in ("loss", "perplexity"):
        assert [one[key] for one in found[0]] == pytest.approx([one[key] for one in found[1]], rel=1e-3)
