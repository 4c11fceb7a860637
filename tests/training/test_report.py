from __future__ import annotations

import builtins
import json
import math
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from nestree.drawing.page import Table
from nestree.training.report import Metrics, Scores, Step, curves_png, read_metrics, write_report

LABELS = {
    "DNA": {"precision": 0.7, "recall": 0.6, "f1": 0.65, "gold": 100, "predicted": 90, "correct": 60},
    "<RNA>": {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "gold": 1200, "predicted": 6, "correct": 3},
}
Lines = list[dict[str, Any]]


def step(number: int, loss: float) -> dict[str, Any]:
    return {"event": "step", "step": number, "epoch": 1, "loss": loss, "seconds": 1.0, "head_lr": 1e-3}


def epoch(number: int, f1: float, *, best: bool = False) -> dict[str, Any]:
    shares = {"precision": f1 + 0.01, "recall": f1 - 0.01, "f1": f1, "best": best}
    return {"event": "epoch", "epoch": number, "step": 464 * number, "loss": 3.1, "labels": LABELS, **shares}


def run(folder: Path, lines: Lines, end: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + end, encoding="utf-8")
    return path


def whole_run() -> Lines:
    return [
        *(step(at, 10 / at) for at in range(1, 200)),
        *(epoch(at, f1, best=at in (1, 2)) for at, f1 in enumerate((0.5, 0.72, 0.71), 1)),
    ]


def test_steps_and_epochs_are_read_in_order(tmp_path: Path) -> None:
    metrics = read_metrics(run(tmp_path, [step(20, 1.0), epoch(1, 0.7, best=True), step(10, 2.0), {"event": "start"}]))
    assert metrics.steps == [Step(10, 2.0), Step(20, 1.0)]
    (only,) = metrics.epochs
    assert (only.epoch, only.step, only.f1, only.best, only.seconds) == (1, 464, 0.7, True, None)
    assert only.labels["DNA"] == Scores(0.7, 0.6, 0.65, 100, 90, 60)


def test_the_last_of_repeated_lines_wins(tmp_path: Path) -> None:
    lines = [step(10, 5.0), epoch(1, 0.1, best=True), step(20, 4.0), step(10, 3.0), epoch(1, 0.2)]
    metrics = read_metrics(run(tmp_path, lines))
    assert metrics.steps == [Step(10, 3.0), Step(20, 4.0)]
    assert [(one.f1, one.best) for one in metrics.epochs] == [(0.2, False)]


def test_a_half_written_line_is_skipped_wherever_it_breaks_off(tmp_path: Path) -> None:
    line = json.dumps(epoch(2, 0.9))
    for length in range(1, len(line)):
        metrics = read_metrics(run(tmp_path, [step(10, 5.0), epoch(1, 0.7)], line[:length]))
        assert (len(metrics.steps), len(metrics.epochs), metrics.broken) == (1, 1, 1)
    metrics = read_metrics(run(tmp_path, [step(10, 5.0), epoch(1, 0.7)], line))
    assert (len(metrics.epochs), metrics.broken) == (2, 0)


def test_a_character_cut_in_two_does_no_harm(tmp_path: Path) -> None:
    path = run(tmp_path, [step(10, 5.0)])
    path.write_bytes(path.read_bytes() + '{"event": "é'.encode()[:-1])
    assert read_metrics(path) == Metrics([Step(10, 5.0)], [], 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"event": "step", "step": 3}, "it has no 'loss'"),
        ({"event": "epoch", "epoch": "x"}, "invalid literal"),
        ({"event": "epoch", "epoch": 1, "labels": {"A": {"precision": 1}}}, "it has no 'recall'"),
        ([], "indices"),
    ],
)
def test_a_complete_line_that_is_wrong_is_an_error_that_says_where(tmp_path: Path, line: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"metrics\.jsonl:2: .*{message}"):
        read_metrics(run(tmp_path, [step(1, 1.0), line]))


def test_the_best_epoch_is_the_last_one_called_so_or_else_the_highest(tmp_path: Path) -> None:
    assert Metrics().best is None
    called = read_metrics(run(tmp_path, [epoch(1, 0.5, best=True), epoch(2, 0.6, best=True), epoch(3, 0.7)])).best
    assert called is not None
    assert called.epoch == 2
    highest = read_metrics(run(tmp_path, [epoch(1, 0.5), epoch(2, 0.7), epoch(3, 0.6)])).best
    assert highest is not None
    assert highest.epoch == 2


def cells(path: Path) -> list[list[str]]:
    text = path.read_text(encoding="utf-8").removeprefix("<!DOCTYPE html>\n")
    return [["".join(cell.itertext()) for cell in row] for row in ElementTree.fromstring(text).iter("tr")]


def test_a_report_shows_settings_data_epochs_and_labels(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run(tmp_path / "mine", whole_run(), '{"event"')
    written = write_report(
        tmp_path / "mine",
        settings={"encoder": "<bert>", "model": {"latent_labels": 1, "extra": {}}},
        data=Table(["file", "sentences"], [["train.jsonl", "15,023"]]),
    )
    assert written.paths == [tmp_path / "mine" / "curves.png", tmp_path / "mine" / "report.html"]
    assert written.notes == ["Left out, because incomplete: 1 line of metrics.jsonl."]
    rows = cells(written.paths[1])
    assert rows[:6] == [
        ["setting", "value"],
        ["encoder", "<bert>"],
        ["model.latent_labels", "1"],
        ["model.extra", "{}"],
        ["file", "sentences"],
        ["train.jsonl", "15,023"],
    ]
    assert rows[8] == ["2", "928", "3.100", "73.00%", "71.00%", "72.00%", "–", "–", "best"]
    assert rows[-3:] == [
        ["<RNA>", "50.00%", "25.00%", "33.33%", "1,200", "6", "3"],
        ["DNA", "70.00%", "60.00%", "65.00%", "100", "90", "60"],
        ["all labels", "73.00%", "71.00%", "72.00%", "1,300", "96", "63"],
    ]
    assert "Training of mine" in written.paths[1].read_text(encoding="utf-8")
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["curves.png", "metrics.jsonl", "report.html"]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [step(1, math.nan)],
        [step(1, 1.0), {"event": "epoch", "epoch": 1}],
        [{**epoch(1, 0.0), "precision": None, "labels": {}}],
    ],
)
def test_a_run_that_has_hardly_begun_can_be_reported(tmp_path: Path, lines: Lines) -> None:
    pytest.importorskip("matplotlib")
    run(tmp_path, lines)
    assert len(write_report(tmp_path).paths) == 2


def test_without_matplotlib_a_note_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    metrics = read_metrics(run(tmp_path, whole_run()))
    written = write_report(tmp_path)
    assert written.paths == [tmp_path / "report.html"]
    assert "nestree[plots]" in written.notes[0]
    assert "nestree[plots]" in written.paths[0].read_text(encoding="utf-8")
    with pytest.raises(ImportError, match=r"nestree\[plots\]"):
        curves_png(metrics, tmp_path / "curves.png")


def test_other_runs_are_drawn_along_whatever_their_names(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    mine, other = read_metrics(run(tmp_path / "a", whole_run())), read_metrics(run(tmp_path / "b", whole_run()[::2]))
    alone = curves_png(mine, tmp_path / "new" / "curves.png")
    assert alone == tmp_path / "new" / "curves.png"
    before = alone.read_bytes()
    assert before.startswith(b"\x89PNG")
    others = {"local": other, "_$\\frac$": other, "東京" * 50: other, "\ud800": other, "empty": Metrics()}
    assert curves_png(mine, alone, others, name="treecrf").read_bytes() != before
    assert curves_png(mine, alone).read_bytes() == before


def test_a_write_that_fails_leaves_the_old_report_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, whole_run())
    (tmp_path / "report.html").write_text("old", encoding="utf-8")
    (tmp_path / "curves.png").write_text("old", encoding="utf-8")

    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: random.randrange(len(content))])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        write_report(tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "metrics.jsonl", "report.html"]
