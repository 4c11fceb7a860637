"""What people see while a model is trained."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nestree.evaluation import Counts, Scores
from nestree.training.board import Board
from nestree.training.progress import EpochResult, Progress, Silent, clock

SCORES = Scores(labels={"PER": Counts(3, 4, 5)})


def result(epoch: int, *, best: bool = True) -> EpochResult:
    return EpochResult(epoch, 10 * epoch, 1.5, SCORES, best, 123.4, 60.0)


def test_without_a_terminal_there_is_a_line_for_each_epoch() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.start(2, 10, 0, "training")
    for epoch in (1, 2):
        for _ in range(10):
            progress.step(epoch, 1.0, 100.0)
        progress.epoch(result(epoch, best=epoch == 1))
    progress.end()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "training"
    assert lines[1].startswith("epoch 1/2  loss   1.5000  dev P 75.00 R 60.00 F1 66.67     123 sentences/s  0:")
    assert lines[1].endswith("left  best so far")
    assert lines[2] == "epoch 2/2  loss   1.5000  dev P 75.00 R 60.00 F1 66.67     123 sentences/s"
    assert len(lines) == 3


def test_in_a_terminal_there_is_a_bar_with_loss_scores_speed_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    stream = io.StringIO()
    progress = Progress(stream, terminal=True)
    progress.start(2, 10, 5, "training")
    progress.epoch(result(1))
    progress.step(2, 1.25, 321.0)
    progress.end()
    text = stream.getvalue()
    assert "5/20 steps" in text
    assert "epoch 1/2  loss   1.5000  dev P 75.00" in text


def test_other_processes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Silent()
    progress.start(1, 1, 0, "training")
    progress.epoch(result(1))
    progress.end()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0:00"), (65, "1:05"), (3725, "1:02:05")])
def test_times_are_clocks(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


STEP = {"step": 5, "loss": 1.0, "encoder_lr": 1e-4, "head_lr": 1e-3}
EPOCH = {
    "step": 9,
    "precision": 0.5,
    "recall": 0.5,
    "f1": 0.5,
    "sentences_per_second": 10.0,
    "labels": {"A": {"f1": 0.1}},
}


def test_tensorboard_gets_what_the_metrics_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            assert (folder, purge_step) == (str(tmp_path), 4)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def flush(self) -> None: ...

        def close(self) -> None:
            written.append(("closed", 0.0, 0))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    board = Board(tmp_path, after=3)
    board.step(STEP)
    board.epoch(EPOCH)
    board.close()
    assert ("train/loss", 1.0, 5) in written
    assert ("dev/f1", 0.5, 9) in written
    assert ("dev by label/A", 0.1, 9) in written
    assert written[-1][0] == "closed"


def test_without_tensorboard_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    board = Board(tmp_path)
    board.step(STEP)
    board.epoch(EPOCH)
    board.close()
    assert not list(tmp_path.iterdir())
