"""Interruption loses nothing: a run that is stopped in any way and resumed ends with the very same weights."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.launching import with_small_files
from tests.training.cases import command, encoder, finish, start, steps

EPOCHS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that nothing interrupted."""
    path = tmp_path_factory.mktemp("runs")
    encoder(path / "encoder")
    status, said = finish(start(command(path, "whole", epochs=EPOCHS)))
    assert status == 0, said
    return path


def weights(path: Path) -> bytes:
    return (path / "model.safetensors").read_bytes()


def stopped(folder: Path, name: str, number: int, after: int, *flags: str) -> str:
    """Begins a run, and sends it a signal when it has done so many steps. Returns what it said."""
    process = start(command(folder, name, *flags, epochs=EPOCHS))
    limit = time.monotonic() + 120
    while len(steps(folder / name)) < after and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)
    process.send_signal(number)
    status, said = finish(process)
    assert status != 0, "it was over before it could be stopped"
    return said


def resumed(folder: Path, name: str) -> str:
    status, said = finish(start(command(folder, name, "--resume", epochs=EPOCHS)))
    assert status == 0, said
    return said


def test_killed_in_mid_epoch(folder: Path) -> None:
    stopped(folder, "killed", signal.SIGKILL, after=9)  # of 6 steps an epoch
    assert not (folder / "killed" / "training" / "result.json").exists()
    assert "going on after step" in resumed(folder, "killed")
    assert weights(folder / "killed") == weights(folder / "whole")
    assert [one["step"] for one in steps(folder / "killed")] == [one["step"] for one in steps(folder / "whole")]
    assert [one["loss"] for one in steps(folder / "killed")] == [one["loss"] for one in steps(folder / "whole")]


def test_killed_again_and_again(folder: Path) -> None:
    stopped(folder, "often", signal.SIGKILL, after=1)
    for after in (8, 20):
        stopped(folder, "often", signal.SIGKILL, after, "--resume")
    resumed(folder, "often")
    assert weights(folder / "often") == weights(folder / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(folder: Path, number: int) -> None:
    name = f"asked-{number}"
    said = stopped(folder, name, number, after=7)
    assert "--resume goes on from there" in said
    assert "Traceback" not in said
    resumed(folder, name)
    assert weights(folder / name) == weights(folder / "whole")


def test_half_written_checkpoints_are_passed_over(folder: Path) -> None:
    stopped(folder, "half", signal.SIGKILL, after=13)
    checkpoints = folder / "half" / "training" / "checkpoints"
    newest = max(checkpoints.glob("step-*"))
    tensors = newest / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[: tensors.stat().st_size // 2])
    (checkpoints / ".unfinished-step-000000099").mkdir()
    said = resumed(folder, "half")
    assert f"{newest} is damaged" in said
    assert "going on after step" in said
    assert weights(folder / "half") == weights(folder / "whole")


def test_without_a_whole_checkpoint_it_begins_again(folder: Path) -> None:
    stopped(folder, "none", signal.SIGKILL, after=9)
    for path in (folder / "none" / "training" / "checkpoints").glob("step-*"):
        (path / "state.json").write_text('{"state"')
    assert "beginning at the first step" in resumed(folder, "none")
    assert weights(folder / "none") == weights(folder / "whole")


def test_a_full_disk_is_said_and_nothing_is_lost(folder: Path) -> None:
    status, said = finish(start(with_small_files(command(folder, "full", epochs=EPOCHS), 60_000)))
    assert status == 2, said
    assert said.count("a checkpoint could not be written") == 1
    assert said.count("the best model could not be written yet") == 1
    assert "Make room on the disk, then go on with --resume" in said
    assert "Traceback" not in said
    assert not list((folder / "full").rglob(".unfinished-*"))
    resumed(folder, "full")
    assert weights(folder / "full") == weights(folder / "whole")


def test_a_disk_that_fills_up_keeps_the_last_checkpoint_and_the_last_model(folder: Path) -> None:
    stopped(folder, "fills", signal.SIGKILL, after=9)
    before = weights(folder / "fills")
    kept = {path.name for path in (folder / "fills" / "training" / "checkpoints").glob("step-*")}
    assert kept

    again = command(folder, "fills", "--resume", epochs=EPOCHS)
    status, said = finish(start(with_small_files(again, 60_000)))
    assert status == 2, said
    assert weights(folder / "fills") == before
    assert {path.name for path in (folder / "fills" / "training" / "checkpoints").glob("step-*")} == kept
    resumed(folder, "fills")
    assert weights(folder / "fills") == weights(folder / "whole")


def test_a_finished_run_is_not_done_again(folder: Path) -> None:
    before = (folder / "whole" / "model.safetensors").stat().st_mtime_ns
    status, said = finish(start(command(folder, "whole", "--resume", epochs=EPOCHS)))
    assert status == 0
    assert "this run is finished" in said
    assert (folder / "whole" / "model.safetensors").stat().st_mtime_ns == before
