"""Shards in this process: every document exactly once, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.cli.main import main
from nestree.data import read
from nestree.data.errors import DataError
from nestree.model import NestedNER
from nestree.prediction.engines import Job, Receipt, Summary, local, predict_shards, work
from nestree.prediction.engines import run as running
from nestree.prediction.engines.folder import ATTEMPTS, OutputFolder
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.shards import Shard, common_folder, shards, sources
from nestree.prediction.engines.work import Worker
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


def shards_of(inputs: Path, out: Path) -> list[Shard]:
    files = sources([inputs], out)
    return list(shards(files, common_folder(files)))


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
    folder, shard = OutputFolder(out), shards_of(inputs, out)[0]
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


def test_an_output_whose_process_died_before_the_marker_goes_and_one_without_input_is_named(
    model: Path, inputs: Path, out: Path
) -> None:
    run(model, inputs, out)
    (out / "_nestree" / "done" / "z.jsonl.json").unlink()
    (out / "_nestree" / "unfinished" / "z.jsonl" / ".attempt-1").mkdir(parents=True)
    (inputs / "z.jsonl").unlink()
    (inputs / "y" / "empty.parquet").unlink()
    said: list[str] = []
    run(model, inputs, out, said=said)
    assert names(out) == ["x/part.parquet", "y/empty.parquet", "y/part.parquet"]
    assert f"{out}: the inputs of 1 outputs are not there any more, y/empty.parquet for one; they stay" in said
    assert not cases.attempts(out)


def test_what_cannot_be_seen_from_here_is_not_done(
    model: Path, inputs: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "WAIT", 0.0)

    def elsewhere(job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
        yield from local.do(job, shards[:1], watch)
        yield from (Receipt(shard.name, documents=5) for shard in shards[1:])

    said: list[str] = []
    done = predict_shards(job(model, out), [inputs], elsewhere, say=said.append)
    assert [receipt.name for receipt in done.done] == [shard.name for shard in shards_of(inputs, out)[:1]]
    assert len(done.failed) == 3
    for receipt in done.failed:
        assert f"{out / receipt.name}: a worker wrote it, and it cannot be seen from here" in str(receipt.error)
        assert "must be on a file system that all machines share" in str(receipt.error)
    assert len(run(model, inputs, out).done) == 3


def test_paths_are_the_same_for_workers_elsewhere(
    model: Path, inputs: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
        monkeypatch.chdir(inputs)
        yield from local.do(job, shards, watch)

    monkeypatch.chdir(tmp_path)
    relative = Path(os.path.relpath(model, tmp_path))
    assert len(predict_shards(job(relative, Path("out")), [Path("in")], elsewhere).done) == 4
    assert len(outputs(out)) == 4


def test_a_worker_that_sees_another_file_refuses_it(model: Path, inputs: Path, out: Path) -> None:
    def changed(job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
        write_lines(inputs / "z.jsonl", "other", 3)
        yield from local.do(job, shards, watch)

    (failed,) = predict_shards(job(model, out), [inputs], changed).failed
    assert f"{inputs / 'z.jsonl'}: this is not the file that the run began with" in str(failed.error)
    assert not (out / "z.jsonl").exists()
    (done,) = run(model, inputs, out).done
    assert done.documents == 3


def test_a_worker_of_a_run_that_was_replaced_writes_nothing(model: Path, inputs: Path, out: Path) -> None:
    jobs: list[Job] = []

    def first(job: Job, shards: Sequence[Shard], watch: Watch) -> Generator[Receipt, None, None]:
        jobs.append(job)
        yield from local.do(job, shards, watch)

    predict_shards(job(model, out), [inputs], first)
    old = (out / "_nestree" / "done" / "z.jsonl.json").read_bytes()
    run(model, inputs, out, again=True, options=Options(flat="best"))
    shard = next(one for one in shards_of(inputs, out) if one.name == "z.jsonl")
    (out / "z.jsonl").unlink()
    late = Worker(jobs[0]).do(shard)
    assert late.hopeless
    assert "another run has taken over this folder" in str(late.error)
    assert not (out / "z.jsonl").exists()
    run(model, inputs, out, options=Options(flat="best"))
    (out / "_nestree" / "done" / "z.jsonl.json").write_bytes(old)  # of the first run, and of an output as large
    again = run(model, inputs, out, options=Options(flat="best"))
    assert [receipt.name for receipt in again.done] == ["z.jsonl"]


def test_a_run_that_got_nowhere_binds_nobody(model: Path, inputs: Path, out: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"damaged/model\.safetensors: the weights are damaged") as caught:
        run(tmp_path / "damaged", inputs, out)
    assert "\n" not in str(caught.value)
    begun = (out / "_nestree" / "run.json").read_bytes()
    with pytest.raises(DataError, match="the weights are damaged"):
        run(tmp_path / "damaged", inputs, out)
    assert (out / "_nestree" / "run.json").read_bytes() == begun  # the same run, whose workers may live
    assert len(run(model, inputs, out).done) == 4


def test_links_that_lead_nowhere_are_named(model: Path, inputs: Path, out: Path) -> None:
    (inputs / "circle.jsonl").symlink_to(inputs / "circle.jsonl")
    (inputs / "nowhere.parquet").symlink_to(inputs / "gone")
    done = run(model, inputs, out)
    assert len(done.done) == 4
    assert [receipt.name for receipt in done.failed] == ["circle.jsonl", "nowhere.parquet"]
    assert all(str(inputs / receipt.name) in str(receipt.error) for receipt in done.failed)


def test_an_output_that_is_its_input_by_a_link_is_refused(model: Path, inputs: Path, out: Path) -> None:
    run(model, inputs, out)
    (inputs / "z.jsonl").unlink()
    (inputs / "z.jsonl").symlink_to(out / "z.jsonl")
    with pytest.raises(DataError, match="the output would replace its input"):
        run(model, inputs, out)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_one_line(
    model: Path, inputs: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["predict", str(model), str(inputs), "--engine", "local", "--output", str(out), "--device", "cuda"]
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the model cannot be moved to the device 'cuda': ")
    assert line.endswith("Use --device cpu, or leave it out.")


def test_what_is_written_can_be_read_by_others(model: Path, inputs: Path, out: Path) -> None:
    before = os.umask(0o022)
    try:
        run(model, inputs, out)
    finally:
        os.umask(before)
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".parquet", ".jsonl"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}


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
    while not (markers(out) and of_long.exists()):
        assert process.poll() is None, cases.finish(process)
        assert time.monotonic() < deadline, "the long shard was not begun in time"
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    _, state = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(state), "the process has ended before it could be held"
    assert markers(out) == 1, "the process was held too late: the long shard is done"
    process.send_signal(number)
    if number != signal.SIGKILL:
        process.send_signal(signal.SIGCONT)
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
        (["--output", "x.jsonl", "--workers", "2"], r"--workers belongs to --engine\."),
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


def test_ctrl_c_within_a_destructor_is_not_lost(
    model: Path, inputs: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_some = work._lists

    def lists(*arguments: Any) -> Any:
        cases.Dropped()
        return read_some(*arguments)

    monkeypatch.setattr(work, "_lists", lists)
    monkeypatch.setattr(work, "SECONDS", 0)
    command = ["predict", str(model), str(inputs), "--engine", "local", "--output", str(out), "--device", "cpu"]
    assert main(command) == 130
    said = capsys.readouterr().err
    assert "the same command goes on" in said
    assert "Exception ignored" not in said
    monkeypatch.undo()
    assert main(command) == 0
    assert markers(out) == len(SIZES)
