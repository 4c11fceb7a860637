"""`nestree suggest` as people run it, and the way back into training."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from nestree.cli.main import main
from nestree.data import FORMATS, read
from tests.prediction.test_trees import sure

LINES = ["Anna of the acme club.", "", "Bo runs.", "The club of Bo runs.", "Bo runs."]
WRITTEN = sorted(name for name, form in FORMATS.items() if form.write)


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def run(*arguments: Any) -> int:
    return main(["suggest", *map(str, arguments), "--device", "cpu"])


def letters(text: str) -> str:
    return "".join(text.split())


def test_a_file_to_the_screen(model: Path, pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, pool, "--lines", "-k", "9") == 0
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert {one["text"] for one in found} == set(LINES) - {""}
    assert {one["id"] for one in found} == {"pool-1", "pool-3", "pool-4"}
    assert all(one["meta"]["suggested"]["place"].endswith(f"pool.txt:{one['id'][-1]}") for one in found)
    assert "there are 3 to be suggested, not 9" in err


def test_lines_of_a_pipe(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(LINES).encode())))
    assert run(model, "-k", "1") == 0
    assert json.loads(capsys.readouterr().out)["id"].startswith("stdin-")


@pytest.mark.parametrize("name", WRITTEN)
def test_suggestions_go_into_every_format_and_are_left_out_next_time(
    name: str, model: Path, pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    form = FORMATS[name]
    output = tmp_path / f"out{form.suffix}"
    assert run(model, pool, "--lines", "-k", "2", "--to", name, "--output", output) == 0
    found = list(read(output, name, options=form.with_guesses))
    assert len(found) == 2
    assert {letters(one.text) for one in found} < {letters(line) for line in LINES}
    assert any(one.entities for one in found)
    capsys.readouterr()
    assert run(model, pool, "--lines", "--exclude", output) == 0
    (left,) = capsys.readouterr().out.splitlines()
    assert letters(json.loads(left)["text"]) not in {letters(one.text) for one in found}


def test_what_was_annotated_twice_is_left_out_once(
    model: Path, pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = {"id": 1, "data": {"text": LINES[0]}, "annotations": [{"result": []}, {"result": []}]}
    (tmp_path / "export.json").write_text(json.dumps([task]))
    assert run(model, pool, "--lines", "--exclude", tmp_path / "export.json") == 0
    found = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert set(found) == set(LINES) - {"", LINES[0]}


def test_label_studio_and_prodigy_get_questions_not_answers(model: Path, pool: Path, tmp_path: Path) -> None:
    assert run(model, pool, "--lines", "--to", "label-studio", "--output", tmp_path / "tasks.json") == 0
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert all("annotations" not in task and task["predictions"][0]["result"] for task in tasks[:1])
    assert {task["data"]["suggested"]["id"] for task in tasks} == {"pool-1", "pool-3", "pool-4"}
    assert list(read(tmp_path / "tasks.json")) == []  # nobody annotated them
    assert run(model, pool, "--lines", "--to", "prodigy", "--output", tmp_path / "tasks.jsonl") == 0
    assert '"answer"' not in (tmp_path / "tasks.jsonl").read_text()
    done = ["--set-to", "as=annotations", "--output", tmp_path / "done.json"]
    assert run(model, pool, "--lines", "--to", "label-studio", *done) == 0
    assert len(list(read(tmp_path / "done.json"))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt"], "nowhere.txt: there is no such file or folder"),
        (["pool.txt", "--exclude", "nowhere.jsonl"], "nowhere.jsonl: there is no such file or folder"),
        (["pool.txt", "--to", "brat"], "goes to a file.*--output PATH"),
        (["pool.txt", "--to", "ace", "--output", "x"], "'ace' is read, not written"),
        (["pool.txt", "--to", "brat", "--set-to", "a=b", "--output", "x"], "'brat' has no option 'a'"),
        (["pool.txt", "--output", "pool.txt", "--to", "jsonl"], "input and output are the same"),
        (["pool.txt", "--exclude", "there.jsonl", "--output", "there.jsonl", "--force"], "are the same"),
        (["pool.txt", "--output", "there.jsonl"], "there is something already.*--force"),
        (["pool.txt", "--diversity", "3"], "diversity is 3.0; it is a number from 0 to 1"),
        (["pool.txt", "--threshold", "DOG=0.4"], "no such label"),
        (["bad.jsonl", "--output", "out.jsonl"], "bad.jsonl:2"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    arguments: list[str],
    message: str,
    model: Path,
    pool: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.jsonl").write_text('{"text": "Bo runs."}\n')
    Path("bad.jsonl").write_text('{"text": "Anna of the acme club."}\n{"text": 7}\n')
    assert run(model, *arguments) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert re.search(message, errors[0]), errors[0]
    assert not Path("out.jsonl").exists()
    assert Path("there.jsonl").read_text() == '{"text": "Bo runs."}\n'


def test_without_trees_it_goes_by_entities(tmp_path: Path, pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sure(tmp_path, loss="local").save_pretrained(tmp_path / "local")
    assert run(tmp_path / "local", pool, "--by", "tree") == 2
    assert "has no trees" in capsys.readouterr().err
    assert run(tmp_path / "local", pool) == 0
    assert '"by": "entities"' in capsys.readouterr().out.splitlines()[0]
