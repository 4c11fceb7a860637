"""`nestree predict` as people run it."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nestree.cli import output as writing
from nestree.cli import predict
from nestree.cli.main import main
from nestree.data import files, read, write
from nestree.data.errors import DataError
from nestree.data.files import opener_for
from tests.launching import hearing_ctrl_c
from tests.prediction.engines.cases import Dropped

LINES = ["Anna of the acme club.", "", "Bo runs."]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "some.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def run(*arguments: Any) -> int:
    return main(["predict", *map(str, arguments), "--device", "cpu"])


def objects(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_a_file_to_the_screen(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, text) == 0
    (found,) = objects(capsys.readouterr().out)
    assert found["text"] == text.read_text()
    assert found["id"] == "some"
    assert found["entities"]
    for entity in found["entities"]:
        assert found["text"][entity["start"] : entity["end"]] == entity["text"]
        assert entity["depth"] == 1 or found["entities"][entity["parent"]]["start"] <= entity["start"]


def test_lines_of_a_file(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, text, "--lines") == 0
    assert [one["text"] for one in objects(capsys.readouterr().out)] == LINES


def test_lines_of_a_pipe(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    raw = io.BytesIO(b"\xef\xbb\xbf" + "\r\n".join(LINES).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
    assert run(model) == 0
    assert [one["text"] for one in objects(capsys.readouterr().out)] == LINES


def test_documents_of_a_pipe(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    raw = io.BytesIO(b'{"tokens": ["anna", "of", "bo"], "entities": []}\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
    assert run(model, "-", "--format", "jsonl") == 0
    assert objects(capsys.readouterr().out)[0]["text"] == "anna of bo"


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.conll", "out.spacy"])
def test_what_is_written_is_read_again(model: Path, text: Path, tmp_path: Path, name: str) -> None:
    assert run(model, text, "--lines", "--output", tmp_path / name) == 0
    found = list(read(tmp_path / name))
    (first, *_) = [one for one in found if one.entities]
    if ".jsonl" in name:
        with opener_for(tmp_path / name)(tmp_path / name, "rt") as stream:
            assert all(one["depth"] for one in json.loads(stream.readline())["entities"])
    assert first.text.startswith("Anna of the acme club")
    assert not list(tmp_path.glob("*.partial*"))
    assert run(model, tmp_path / name, "--output", tmp_path / "again.jsonl") == 0


def test_options_reach_the_model(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {}
    for name, flags in {
        "all": [],
        "sure": ["--threshold", "0.9"],
        "one": ["--threshold", "ORG=1"],
        "flat": ["--flat", "outermost"],
        "trees": ["--trees", "--max-words", "8"],
    }.items():
        assert run(model, text, *flags) == 0
        sizes[name] = objects(capsys.readouterr().out)[0]
    count = {name: len(one["entities"]) for name, one in sizes.items()}
    assert count["sure"] < count["all"]
    assert {one["label"] for one in sizes["one"]["entities"]} == {"PER"}
    assert {one["depth"] for one in sizes["flat"]["entities"]} == {1}
    assert sizes["trees"]["meta"]["trees"]
    assert "meta" not in sizes["all"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt"], "nowhere.txt: there is no such file or folder"),
        (["some.md"], "looks like none of the known formats.*Is it plain text\\? Then use --text"),
        (["latin.txt"], "latin.txt: this is not UTF-8 \\(byte 3\\).*iconv"),
        (["some.txt", "--threshold", "high"], "P or LABEL=P, found 'high'"),
        (["some.txt", "--threshold", "0.5", "--threshold", "ORG=0.4"], "one of which is for all labels"),
        (["some.txt", "--threshold", "DOG=0.4"], "no such label; it has \\['ORG', 'PER'\\]"),
        (["some.txt", "--threshold", "1.5"], "a probability, from 0 to 1"),
        (["some.txt", "--to", "conll"], "goes to a file.*--output PATH"),
        (["some.txt", "--output", "out.xyz"], "does not say which format"),
        (["some.txt", "--output", "some.txt", "--to", "jsonl"], "input and output are the same"),
        (["some.txt", "--output", "there.jsonl"], "there is something already.*--force"),
        (["some.txt", "--output", "no/such/out.jsonl"], "there is no such folder"),
        (["some.txt", "--output", "out.conll", "--trees"], "trees are written as JSON Lines only"),
        (
            ["some.txt", "--output", "half.jsonl"],
            "half.partial.jsonl: there is a file from a run that was not finished",
        ),
    ],
)
def test_bad_input_is_one_line(
    model: Path,
    text: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("some.md").write_text("# Text\n")
    Path("latin.txt").write_bytes(b"caf\xe9")
    for name in ("there.jsonl", "half.partial.jsonl"):
        Path(name).write_text("mine\n")
    assert run(model, *arguments) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    import re

    assert re.search(message, errors[0]), errors[0]
    assert Path("there.jsonl").read_text() == "mine\n"
    assert text.read_text().startswith("Anna")


def test_a_model_that_is_none(tmp_path: Path, text: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, text) == 2
    assert "holds no model of nestree" in capsys.readouterr().err
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert run(broken, text) == 2
    assert "model.safetensors: the weights are" in capsys.readouterr().err
    shutil.copytree(model, tmp_path / "newer")
    settings = tmp_path / "newer" / "nestree.json"
    settings.write_text(settings.read_text().replace('"labels"', '"of_the_future": 1, "labels"', 1))
    assert run(tmp_path / "newer", text) == 2
    assert "of_the_future" in capsys.readouterr().err


def test_force_replaces(model: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old\n")
    assert run(model, text, "--output", tmp_path / "out.jsonl", "--force") == 0
    assert "Anna" in (tmp_path / "out.jsonl").read_text()


def test_what_came_before_an_error_is_kept_and_marked(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nestree.prediction import reading

    monkeypatch.setattr(reading, "AHEAD", 1)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "Anna of the acme club."}\n{"text": "Bo."}\n{"text": 7}\n')
    for name in ("out.jsonl", "out.conll"):
        assert run(model, bad, "--output", tmp_path / name) == 2
        said = capsys.readouterr().err
        assert "bad.jsonl:3" in said
        assert "2 documents, as far as it came; not complete" in said
        assert not (tmp_path / name).exists()
        kept = writing.partial_name(tmp_path / name)
        assert [one.text[:4] for one in read(kept)] == ["Anna", "Bo ." if name == "out.conll" else "Bo."]


class Full(io.FileIO):
    """A file on a disk with little room."""

    room = 250

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.room:
            super().write(bytes(data)[: self.room - self.tell()])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize(
    ("name", "flags"), [("out.jsonl", []), ("out.txt", ["--to", "jsonl"]), ("out.jsonl.gz", []), ("out.conll", [])]
)
def test_a_full_disk_leaves_whole_lines(
    model: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    flags: list[str],
) -> None:
    monkeypatch.setattr(writing, "opened", lambda path: Full(path, "wb"))

    def full(*_: Any, **__: Any) -> None:
        raise DataError("the file cannot be written: No space left on device")

    monkeypatch.setattr(writing, "write", lambda documents, *_, **__: (list(documents), full()))
    if name.endswith(".gz"):
        monkeypatch.setattr(files, "opener_for", lambda _: lambda path, mode: Full(path, mode))
    text.write_text("x\n" * 40)
    assert run(model, text, "--lines", "--output", tmp_path / name, *flags) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "not complete" in said
    assert not (tmp_path / name).exists()
    (kept,) = tmp_path.glob("*.partial*")
    assert 1 < len(list(read(kept, "jsonl"))) < 40


@pytest.mark.parametrize("name", ["out.conll", "out.spacy", "out.brat", "out.datasets", "out.parquet"])
def test_what_a_format_refuses_is_kept_as_lines(
    model: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    kind = name.split(".")[1]

    def refusing(documents: Any, *arguments: Any, **options: Any) -> None:
        def two() -> Any:
            following = iter(documents)
            yield next(following)
            yield next(following)
            raise DataError("no room for more")

        write(two(), *arguments, **options)

    monkeypatch.setattr(writing, "write", refusing)
    text.write_text("Anna.\nBo runs.\nAnna of the acme club.\n")
    assert run(model, text, "--lines", "--output", tmp_path / name, "--to", kind) == 2
    said = capsys.readouterr().err
    assert "no room for more" in said
    assert "nestree data convert" in said
    kept = tmp_path / f"{name}.partial.jsonl"
    assert list(tmp_path.glob("*partial*")) == [kept]
    assert [one.text for one in read(kept)][:2] == ["Anna.", "Bo runs."]


@pytest.mark.parametrize("name", ["conll", "columns", "three-line", "brat", "spacy", "parquet", "datasets", "jsonl"])
def test_lone_surrogates_do_not_end_a_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    given = tmp_path / "in.jsonl"
    given.write_text('{"text": "Anna runs."}\n{"text": "Bo \\ud800 runs."}\n')
    assert run(model, given, "--output", tmp_path / "out", "--to", name) == 0
    assert ("U+FFFD" in capsys.readouterr().err) == (name != "jsonl")
    found = " ".join(one.text for one in read(tmp_path / "out", name))
    assert found.count("\ud800") == (name == "jsonl")
    assert found.count("\ufffd") == (name != "jsonl")


def test_empty_documents_that_a_format_cannot_hold_are_not_counted(
    model: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, text, "--lines", "--output", tmp_path / "out.conll") == 0
    said = capsys.readouterr().err
    assert "2 documents written" in said
    assert "empty document: 1" in said
    assert len(list(read(tmp_path / "out.conll"))) == 2


@pytest.mark.parametrize("name", ["out.parquet", "out.spacy", "out.jsonl"])
def test_what_was_windowed_is_written(model: Path, text: Path, tmp_path: Path, name: str) -> None:
    text.write_text("club " * 40)
    assert run(model, text, "--max-words", 8, "--output", tmp_path / name) == 0
    (found,) = read(tmp_path / name)
    assert found.meta["windowed"] == [[0, 199]]


def test_an_input_is_not_taken_for_what_a_run_left_behind(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("x.partial.conll", "x.conll.partial.jsonl"):
        given = tmp_path / name
        given.write_text('{"text": "Anna."}\n')
        assert run(model, given, "--format", "jsonl", "--output", tmp_path / "x.conll", "--force") == 2
        assert "input and output are the same" in capsys.readouterr().err
        assert given.read_text() == '{"text": "Anna."}\n'
        given.unlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_to_and_a_link_is_followed(model: Path, text: Path, tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    listener = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    listener.start()
    assert run(model, text, "--output", pipe, "--to", "jsonl", "--force") == 0
    listener.join(timeout=60)
    assert pipe.is_fifo()
    assert objects(heard[0])[0]["text"] == text.read_text()
    (tmp_path / "real.jsonl").write_text("old\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    assert run(model, text, "--output", tmp_path / "link.jsonl", "--force") == 0
    assert (tmp_path / "link.jsonl").is_symlink()
    assert "Anna" in (tmp_path / "real.jsonl").read_text()


def test_a_dash_is_the_standard_output(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, text, "--output", "-") == 0
    assert objects(capsys.readouterr().out)[0]["text"] == text.read_text()


def test_folders_of_text_compressed_text_and_pipes(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("Anna runs.")
    with gzip.open(folder / "b.txt.gz", "wt") as stream:
        stream.write("Bo runs.")
    assert run(model, folder) == 0
    assert [one["id"] for one in objects(capsys.readouterr().out)] == ["a", "b"]
    (folder / "c.md").write_text("The club.")
    assert run(model, folder, "--text") == 0
    assert [one["text"] for one in objects(capsys.readouterr().out)] == ["Anna runs.", "Bo runs.", "The club."]
    (tmp_path / "nothing").mkdir()
    assert run(model, tmp_path / "nothing", "--text") == 2
    assert "there are no files in this folder" in capsys.readouterr().err
    assert run(model, folder / "c.md") == 2
    assert "Is it plain text? Then use --text" in capsys.readouterr().err


def test_all_that_came_before_a_broken_line_is_predicted(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "late.txt"
    given.write_bytes(b"Anna runs.\n" * 100 + b"caf\xe9\n")
    assert run(model, given, "--lines", "--output", tmp_path / "out.jsonl") == 2
    said = capsys.readouterr().err
    assert "late.txt:101: this is not UTF-8" in said
    assert "100 documents, as far as it came" in said
    assert len(list(read(tmp_path / "out.partial.jsonl"))) == 100


def test_documents_of_a_pipe_are_named_after_it(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hi\n")))
    assert run(model, "-", "--format", "jsonl") == 2
    assert "error: <stdin>:1: " in capsys.readouterr().err


def test_weights_that_are_no_numbers_are_one_line(
    model: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nestree.model.ner import NestedNER

    scores = NestedNER.potentials
    monkeypatch.setattr(NestedNER, "potentials", lambda self, batch: scores(self, batch) * float("nan"))
    assert run(model, text) == 2
    said = capsys.readouterr().err
    assert "the model gives no scores" in said
    assert "NaN" in said
    assert "Traceback" not in said


def test_a_newer_version_is_named(tmp_path: Path, text: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(model, tmp_path / "newer")
    settings = tmp_path / "newer" / "nestree.json"
    values = json.loads(settings.read_text())
    values["nestree"], values["model"]["loss"] = "99.0", "quantum"
    settings.write_text(json.dumps(values))
    assert run(tmp_path / "newer", text) == 2
    assert "nestree 99.0 saved it" in capsys.readouterr().err


def test_a_slow_pipe_is_answered_line_by_line(model: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command(model), text=True, **pipes) as process:  # type: ignore[call-overload]
        for text in ("Anna runs. Bo runs.", "The acme club."):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text  # it does not wait for the end
        process.stdin.close()
        assert process.wait(timeout=120) == 0


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal of Unix")
def test_a_bar_is_shown_where_predictions_go_to_a_file(model: Path, text: Path, tmp_path: Path) -> None:
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    asked = command(model, text, "--lines", "--output", tmp_path / "out.jsonl")
    process = subprocess.Popen(asked, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # it is closed on the other side
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert process.wait(timeout=120) == 0
    assert "documents/s" in said.decode()
    assert "3/3" in said.decode()


def command(model: Path, *arguments: Any) -> list[str]:
    return [sys.executable, "-m", "nestree", "predict", str(model), *map(str, arguments), "--device", "cpu"]


def test_ctrl_c_keeps_what_is_there(model: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text("Anna of the acme club and Bo of the club.\n" * 40000)
    asked = command(model, long, "--lines", "--output", tmp_path / "out.jsonl")
    process = subprocess.Popen(hearing_ctrl_c(asked), stderr=subprocess.PIPE, text=True)
    partial = tmp_path / "out.partial.jsonl"
    deadline = time.monotonic() + 120
    while not (partial.exists() and partial.stat().st_size) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "not complete" in said
    assert "Traceback" not in said
    assert not (tmp_path / "out.jsonl").exists()
    assert 0 < sum(1 for _ in read(partial)) < 40000


@pytest.mark.parametrize("to_file", [True, False])
def test_ctrl_c_within_a_destructor_is_not_lost(
    model: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    to_file: bool,
) -> None:
    read_some = predict.documents_of

    def documents(*arguments: Any) -> Any:
        Dropped()
        yield from read_some(*arguments)

    monkeypatch.setattr(predict, "documents_of", documents)
    output = ["--output", tmp_path / "out.jsonl"] if to_file else []
    assert run(model, text, *output) == 130
    said = capsys.readouterr()
    assert "stopped" in said.err
    assert "Exception ignored" not in said.err
    assert not said.out
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_reader_that_has_seen_enough(model: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text("Anna of the acme club.\n" * 5000)
    process = subprocess.Popen(
        command(model, long, "--lines"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["text"] == "Anna of the acme club."
    process.stdout.close()
    with process.stderr:
        said = process.stderr.read()
    assert process.wait(timeout=120) == 0
    assert "Traceback" not in said
