"""A small model, shards for it, and what must come out of them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest

from nestree.data import read
from nestree.model import NestedNER
from nestree.prediction.engines import Job
from tests.launching import hearing_ctrl_c
from tests.prediction.test_trees import sure

WORDS = ["Anna", "of", "the", "acme", "club", "Bo", "runs", "with", "x"]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-a-ray-for-tests-" + "0" * 40}
"""One thread; and a token of its own, since Ray would write one to the home folder."""


def saved_model(folder: Path) -> Path:
    """The folder of a model that finds something."""
    sure(folder, decoding="mbr").save_pretrained(folder / "saved")
    return folder / "saved"


def texts(name: str, number: int) -> list[str]:
    """Different texts, the same for the same name."""
    random_ = random.Random(name)
    return [f"{' '.join(random_.choices(WORDS, k=random_.randint(3, 12)))} {at}." for at in range(number)]


def write_parquet(path: Path, name: str, number: int) -> Path:
    """A shard as people have them: an id, a text, and columns of their own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"id": [f"{name}-{at}" for at in range(number)], "text": texts(name, number), "page": list(range(number))}
    types = pa.schema([("id", pa.string()), ("text", pa.string()), ("page", pa.int64())])
    pa.parquet.write_table(pa.table(columns, schema=types), path, row_group_size=100)
    return path


def write_lines(path: Path, name: str, number: int) -> Path:
    """The same as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"id": f"{name}-{at}", "text": text, "page": at} for at, text in enumerate(texts(name, number))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def found_in(paths: Iterable[Path]) -> dict[str, tuple[str, list[Any], Any]]:
    """What outputs say of each document, by its name; no name comes twice."""
    found: dict[str, tuple[str, list[Any], Any]] = {}
    for path in paths:
        for document in read(path, "parquet" if path.suffix == ".parquet" else "jsonl"):  # empty ones as well
            assert document.id not in found, f"{document.id} comes twice"
            spans = [(*one[:3], pytest.approx(one.score, abs=1e-4)) for one in document.entities]
            found[document.id] = (document.text, spans, document.meta)
    return found


def expected(model: NestedNER, shards: dict[str, int]) -> dict[str, tuple[str, list[Any], Any]]:
    """What ``predict_stream`` says of the same documents."""
    found = {}
    for name, number in shards.items():
        for at, one in enumerate(model.predict_stream(texts(name, number))):
            spans = [(entity.start, entity.end, entity.label, entity.score) for entity in one]
            found[f"{name}-{at}"] = (one.text, spans, {"page": at})
    return found


def outputs(folder: Path) -> list[Path]:
    """The files that a reader of the folder sees."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and "_nestree" not in path.parts)


def names(folder: Path) -> list[str]:
    """Their names within the folder."""
    return [path.relative_to(folder).as_posix() for path in outputs(folder)]


def markers(folder: Path) -> int:
    """How many shards are done."""
    return len(list((folder / "_nestree" / "done").rglob("*.json")))


def attempts(folder: Path) -> list[Path]:
    """Attempts that are going on, or whose process died."""
    found = os.walk(folder / "_nestree" / "unfinished")  # which passes over folders that go meanwhile
    return [Path(place, name) for place, folders, _ in found for name in folders if name.startswith(".attempt-")]


def job(model: Path, output: Path, **others: Any) -> Job:
    """A job for the CPU."""
    return Job(model, output, device="cpu", **others)


def start(model: Path, *arguments: Any) -> subprocess.Popen[str]:
    """The command in a process of its own, with one thread."""
    command = [sys.executable, "-m", "nestree", "predict", str(model), *map(str, arguments), "--device", "cpu"]
    environment = {**os.environ, **ENVIRONMENT}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(hearing_ctrl_c(command), env=environment, **pipes)


class Dropped:
    """A Ctrl-C that comes within a destructor."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status, and all it said."""
    said, _ = process.communicate(timeout=300)
    return process.returncode, said


def wait_for(happened: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    """Returns when something has happened; the process must not end before."""
    deadline = time.monotonic() + 240
    while not happened():
        assert process.poll() is None, finish(process)
        assert time.monotonic() < deadline
        time.sleep(0.005)


def within_a_shard(out: Path, old: set[Path]) -> bool:
    """Whether an attempt is going on of a shard that has no marker yet; old ones are of processes that died.

    A broken file has attempts, too, and never a marker.
    """
    state = out / "_nestree"
    names = {one.parent.relative_to(state / "unfinished").as_posix() for one in set(attempts(out)) - old}
    return any(not (state / "done" / f"{name}.json").exists() for name in names if not name.startswith("broken"))


def killed_within_a_shard(there: Sequence[psutil.Process], out: Path, old: set[Path], kill: int = 1) -> bool:
    """Kills so many of the workers, if they can be held while one is in the middle of a shard."""
    for worker in there:
        with suppress(psutil.NoSuchProcess):
            worker.suspend()
    held = bool(there) and within_a_shard(out, old)
    for number, worker in enumerate(there):
        with suppress(psutil.NoSuchProcess):
            if held and number < kill:
                worker.kill()
            else:
                worker.resume()
    return held
