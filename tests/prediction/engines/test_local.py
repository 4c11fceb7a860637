"""Shards in this process: every document exactly once, whatever happens."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from nestree.cli.main import main
from nestree.data import read
from nestree.data.errors import DataError
from nestree.model import NestedNER
from nestree.prediction.engines import Summary, predict_shards
from nestree.prediction.engines.folder import ATTEMPTS, OutputFolder
from nestree.prediction.predict import Options
from tests.prediction.engines import cases
from tests.prediction.engines.cases import expected, found_in, job, markers, names, outputs, write_lines, write_parquet

SIZES = {"a": 30, "b": 5, "c": 0, "d": 12}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    write_parquet(folder / "x" / "part.parquet", "a", SIZES["a"])
    write_parquet(folder / "y" / "part.parquet", "b", SIZES["b"])
    write_parquet(folder / "y" / "empty.parquet", "c", SIZES["c"])
    write_lines(folder / "z.jsonl", "d", SIZES["d"])
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def run(
    model: Path, inputs: Path, out: Path, *, said: list[str] | None = None, again: bool = False, **others: Any
) -> Summary:
    say = (lambda line: None) if said is None else said.append
    return predict_shards(job(model, out, **others), [inputs], again=again, say=say)


def test_every_shard_becomes_one_and_every_document_is_as_predict_stream_has_it(
    model: Path, inputs: Path, out: Path
) -> None:
    done = run(model, inputs, out)
    assert names(out) == ["x/part.parquet", "y/empty.parquet", "y/part.parquet", "z.jsonl"]
    found = found_in(outputs(out))
    assert found == expected(NestedNER.from_pretrained(model).eval(), SIZES)
    assert done.documents == sum(SIZES.values())
    assert done.entities == sum(len(spans) for _, spans, _ in found.values()) > 0
    assert not cases.attempts(out)


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_outputs_of_one_format(model: Path, inputs: Path, out: Path, to: str) -> None:
    run(model, inputs, out, to=to)
    assert {path.suffix for path in outputs(out)} == {f".{to}"}
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), SIZES)


def test_what_is_done_is_not_done_again(model: Path, inputs: Path, out: Path) -> None:
    run(model, inputs, out)
    before = {path: path.stat().st_mtime_ns for path in outputs(out)}
    said: list[str] = []
    done = run(model, inputs, out, said=said)
    assert (done.before, done.done) == (4, ())
    assert said == [f"{out}: 4 of 4 shards are done already"]
    assert {path: path.stat().st_mtime_ns for path in outputs(out)} == before


def test_new_changed_and_lost_shards_are_done_alone(model: Path, inputs: Path, out: Path) -> None:
    run(model, inputs, out)
    write_lines(inputs / "new.jsonl", "e", 3)
    write_lines(inputs / "z.jsonl", "f", 7)
    (out / "x" / "part.parquet").unlink()
    said: list[str] = []
    done = run(model, inputs, out, said=said)
    assert sorted(receipt.name for receipt in done.done) == ["new.jsonl", "x/part.parquet", "z.jsonl"]
    assert "z.jsonl: its input or output has changed since it was done; it is done again" in said
    sizes = {**SIZES, "e": 3, "f": 7}
    del sizes["d"]
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), sizes)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"options": Options(threshold=0.9)}, "begun with threshold = None, and now it is 0.9"),
        ({"options": Options(flat="best")}, "begun with flat = None, and now it is best"),
        ({"to": "jsonl"}, "begun with output format = that of the input, and now it is jsonl"),
        ({"reading": {"text": "id"}}, "begun with options of the format"),
    ],
)
def test_other_options_are_refused(model: Path, inputs: Path, out: Path, others: dict[str, Any], message: str) -> None:
    run(model, inputs, out)
    with pytest.raises(DataError, match=f"{message}.*--force"):
        run(model, inputs, out, **others)
    assert len(run(model, inputs, out, again=True, **others).done) == 4
    assert len(outputs(out)) == 4


def test_another_model_is_refused_and_the_same_elsewhere_is_not(
    model: Path, inputs: Path, out: Path, tmp_path: Path
) -> None:
    run(model, inputs, out)
    shutil.copytree(model, tmp_path / "other")
    assert run(tmp_path / "other", inputs, out, options=Options(budget=99)).before == 4
    weights = tmp_path / "other" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\7")
    with pytest.raises(DataError, match="begun with another model"):
        run(tmp_path / "other", inputs, out)


def test_inputs_from_elsewhere_and_foreign_folders_are_refused(
    model: Path, inputs: Path, out: Path, tmp_path: Path
) -> None:
    run(model, inputs / "x", out)
    with pytest.raises(
        DataError, match=r"begun with inputs in .*/in/x, where names begin, and .*/in/z.jsonl is not there"
    ):
        run(model, inputs, out)
    with pytest.raises(DataError, match="no run of ours has written it"):
        run(model, inputs / "x", inputs / "y")
    with pytest.raises(DataError, match="this is a file"):
        run(model, inputs / "x", inputs / "z.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.parquet", b"PAR1 and no more", r"bad\.parquet: this is not a Parquet file, or it is broken"),
        ("bad.jsonl", b'{"text": "Bo."}\n{"text": 7}\n', r"bad\.jsonl:2: 'text' must be a string, found 7"),
        ("bad.jsonl", b'{"text": "Bo."}\n{"body": "Bo."}\n', r"bad\.jsonl:2: .*'tokens' is missing"),
        ("bad.jsonl", b'{"text": "Bo.', r"bad\.jsonl:1: this is not JSON"),
    ],
)
def test_a_broken_shard_is_named_others_go_on_and_it_is_tried_again_alone(
    model: Path, inputs: Path, out: Path, name: str, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (inputs / name).write_bytes(content)
    command = ["predict", str(model), str(inputs), "--engine", "local", "--output", str(out), "--device", "cpu"]
    assert main(command) == 2
    said = capsys.readouterr().err
    import re

    assert len(re.findall(f"failed: .*{message}", said)) == 1, said
    assert "4 of 5 shards are done" in said
    assert "1 shards are not done. Run the same command again" in said
    assert len(outputs(out)) == 4
    assert not cases.attempts(out)
    (write_parquet if name.endswith("parquet") else write_lines)(inputs / name, "e", 4)
    assert main(command) == 0
    assert "now: 4 documents" in capsys.readouterr().err
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), {**SIZES, "e": 4})


def test_a_row_without_a_text_is_named(model: Path, tmp_path: Path, out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    (tmp_path / "in").mkdir()
    pa.parquet.write_table(pa.table({"text": ["Bo.", None]}), tmp_path / "in" / "null.parquet")
    pa.parquet.write_table(pa.table({"body": ["Bo."]}), tmp_path / "in" / "other.parquet")
    null, other = run(model, tmp_path / "in", out).failed
    assert "null.parquet: row 2: there is neither a text nor tokens" in str(null.error)
    assert "other.parquet: there is neither a column 'text'" in str(other.error)
    assert "The columns are: body (string)" in str(other.error)
    (receipt,) = run(model, tmp_path / "in" / "other.parquet", tmp_path / "out2", reading={"text": "body"}).done
    assert receipt.documents == 1


def test_a_shard_that_kills_its_processes_is_given_up(model: Path, inputs: Path, out: Path) -> None:
    """Each death leaves the folder of an attempt behind."""
    from nestree.prediction.engines.shards import common_folder, shards, sources
    from nestree.prediction.engines.work import Worker

    folder, files = OutputFolder(out), sources([inputs], out)
    shard = next(shards(files, common_folder(files)))
    worker = Worker(job(model, out))
    for number in range(ATTEMPTS):
        assert folder.dead_attempts(shard) == number
        (out / "_nestree" / "unfinished" / shard.name / f".attempt-{number}").mkdir(parents=True)
    assert "3 processes died over this shard" in str(worker.do(shard).error)
    assert run(model, inputs, out).failed == ()  # a new run tries it again


def test_an_output_without_a_marker_is_done_again(model: Path, inputs: Path, out: Path) -> None:
    run(model, inputs, out)
    (out / "_nestree" / "done" / "z.jsonl.json").unlink()
    (out / "_nestree" / "done" / "x" / "part.parquet.json").write_text('{"source": ')  # half of one
    (out / "z.jsonl").write_text("something old\n")
    assert sorted(receipt.name for receipt in run(model, inputs, out).done) == ["x/part.parquet", "z.jsonl"]
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), SIZES)


def test_two_runs_do_not_write_to_one_folder(model: Path, inputs: Path, out: Path) -> None:
    with OutputFolder(out).alone(), pytest.raises(DataError, match="another run is writing to this folder"):
        run(model, inputs, out)
    assert len(run(model, inputs, out).done) == 4


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_is_stopped_in_a_shard_loses_nothing(
    model: Path, tmp_path: Path, out: Path, number: int
) -> None:
    sizes = {"first": 20, "long": 4000}
    for name, size in sizes.items():
        write_parquet(tmp_path / "in" / f"{name}.parquet", name, size)
    process = cases.start(model, tmp_path / "in", "--engine", "local", "--output", out)
    deadline = time.monotonic() + 120
    of_long = out / "_nestree" / "unfinished" / "long.parquet"
    while not (markers(out) and of_long.exists()) and time.monotonic() < deadline:
        assert process.poll() is None, cases.finish(process)
        time.sleep(0.005)
    process.send_signal(number)
    status, said = cases.finish(process)
    assert status == {signal.SIGKILL: -9, signal.SIGINT: 130}[signal.Signals(number)], said
    assert "Traceback" not in said
    assert names(out) == ["first.parquet"]
    if number == signal.SIGINT:
        assert "stopped" in said
        assert "the same command goes on" in said
        assert not cases.attempts(out)
    done = run(model, tmp_path / "in", out)
    assert [receipt.name for receipt in done.done] == ["long.parquet"]
    assert markers(out) == 2
    assert not cases.attempts(out)
    assert found_in(outputs(out)) == expected(NestedNER.from_pretrained(model).eval(), sizes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "local"], "an engine writes to a folder.*--output FOLDER"),
        (["--output", "x.jsonl", "--workers", "2"], "--workers belongs to --engine ray"),
        (["--engine", "local", "--output", "o", "--lines"], "--lines does not go with --engine"),
        (["--engine", "local", "--output", "o", "--to", "conll"], "shards are jsonl or parquet, not 'conll'"),
        (["--engine", "local", "--output", "o", "--trees"], "trees are written as JSON Lines only.*--to jsonl"),
        (["--engine", "local", "--output", "o", "--set", "colour=red"], "has no option 'colour'"),
        (["--engine", "local", "--output", "o", "--threshold", "DOG=0.5"], "a threshold for 'DOG', and the model has"),
        (["--engine", "local", "--output", "o", "--threshold", "1.5"], "is 1.5; it is a probability, from 0 to 1"),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    model: Path,
    inputs: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import re

    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(model), str(inputs), *arguments]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert re.search(message, error), error
    assert not (tmp_path / "o" / "_nestree" / "run.json").exists()


def test_trees_of_a_model_that_has_none_are_refused(model: Path, inputs: Path, out: Path, tmp_path: Path) -> None:
    local = tmp_path / "local"
    shutil.copytree(model, local)
    settings = json.loads((local / "nestree.json").read_text())
    settings["model"]["loss"] = "local"
    (local / "nestree.json").write_text(json.dumps(settings))
    with pytest.raises(DataError, match=f"{local}: a model with loss = local has no trees"):
        run(local, inputs, out, to="jsonl", options=Options(trees=True))
    assert not out.exists()


def test_trees_and_ranges_read_in_windows_are_in_the_output(model: Path, tmp_path: Path, out: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", "a", 4)
    run(model, tmp_path / "in", out, to="jsonl", options=Options(trees=True, max_words=8))
    for document in read(out / "a.jsonl"):
        assert document.meta["trees"]
        assert len(document.text.split()) < 8 or document.meta["windowed"]
