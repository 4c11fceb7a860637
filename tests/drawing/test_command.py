"""`nestree draw` as people run it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from nestree.cli.main import main
from tests.prediction.test_trees import sure

TEXT = "Anna of the acme club. Bo runs."


def run(*arguments: Any) -> int:
    return main(["draw", *map(str, arguments), "--device", "cpu"])


def test_without_an_output_it_draws_in_the_terminal(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, TEXT, "--width", 70) == 0
    shown = capsys.readouterr().out
    assert "Anna" in shown
    assert "└╌ " in shown
    assert all(len(line) <= 70 for line in shown.splitlines())
    assert run(model, TEXT, "--width", 70, "--no-tree") == 0
    assert "╌" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.svg", "a.html", "a.HTM"])
def test_what_is_written_stands_alone(
    model: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, TEXT + " <b>&\x01\ud800", "--output", tmp_path / name) == 0
    root = ElementTree.fromstring((tmp_path / name).read_text().removeprefix("<!DOCTYPE html>\n"))
    assert any("node" in one.get("class", "") for one in root.iter())
    assert "entities drawn as" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_a_picture(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    assert run(model, TEXT, "--output", tmp_path / "a.png", "--theme", "dark") == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_options_reach_the_drawing(model: Path, tmp_path: Path) -> None:
    def drawn(*options: Any) -> str:
        assert run(model, TEXT, "--output", tmp_path / "a.svg", "--force", *options) == 0
        return (tmp_path / "a.svg").read_text()

    assert drawn() != drawn("--width", 130)
    assert "node" in drawn()
    assert '<rect class="node' not in drawn("--no-tree")
    assert "nestree-dark" in drawn("--theme", "dark")
    assert drawn("--threshold", 0, "--no-tree").count("data-span") > drawn("--threshold", 1, "--no-tree").count(
        "data-span"
    )
    flat = drawn("--flat", "outermost", "--no-tree", "--threshold", 0)
    assert 'data-level="0"' in flat
    assert 'data-level="1"' not in flat


def test_text_from_a_file_or_a_pipe(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some.txt").write_text(TEXT)
    assert run(model, TEXT, "--width", 80) == 0
    shown = capsys.readouterr().out
    assert run(model, "--file", tmp_path / "some.txt", "--width", 80) == 0
    assert capsys.readouterr().out == shown
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert run(model, "--file", "-", "--width", 80) == 0
    assert capsys.readouterr().out == shown


def test_a_model_without_trees_draws_entities_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sure(tmp_path, loss="local").save_pretrained(tmp_path / "saved")
    assert run(tmp_path / "saved", TEXT, "--output", tmp_path / "a.svg") == 0
    assert "has no trees; only entities are drawn" in capsys.readouterr().err
    assert '<rect class="node' not in (tmp_path / "a.svg").read_text()
    assert run(tmp_path / "saved", TEXT, "--no-tree") == 0
    assert "no trees" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--output", "a.pdf"], "the ending '.pdf'; known are .svg, .html, .htm, .png"),
        (["x", "--output", "a"], "the ending ''; known are"),
        (["x", "--output", "there.svg"], "there is something already"),
        (["x", "--output", "nowhere/a.svg"], "there is no such folder"),
        (["--file", "there.svg", "--output", "there.svg", "--force"], "input and output are the same"),
        ([" \n"], "the text is empty"),
        ([], "there is no text to draw"),
        (["x", "--file", "there.svg"], "there is a text and a file"),
        (["--file", "nowhere.txt"], "nowhere.txt: there is no such file"),
        (["--file", "."], "this is a folder"),
        (["--file", "latin.txt"], "not UTF-8 (byte 1)"),
        (["x", "--width", "5"], "8 columns or more"),
        (["x", "--width", "50", "--output", "a.svg"], "120 pixels or more"),
        (["x", "--threshold", "2"], "it is a probability, from 0 to 1"),
        (["x", "--threshold", "XYZ=0.5"], "the model has no such label"),
        (["x", "--threshold", "much"], "written P or LABEL=P"),
    ],
)
def test_what_is_wrong_is_one_line(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.svg").write_text("precious")
    Path("latin.txt").write_bytes("aé".encode("latin1"))
    assert run(model, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert Path("there.svg").read_text() == "precious"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["latin.txt", "there.svg"]


def test_a_folder_that_holds_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "nowhere", "x") == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert run(tmp_path, "x") == 2
    assert "holds no model" in capsys.readouterr().err


def test_a_picture_without_its_extra(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    assert run(model, TEXT, "--output", tmp_path / "a.png") == 2
    assert 'pip install "nestree[png]"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
