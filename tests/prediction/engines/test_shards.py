"""Which files are shards, what their outputs are called, and how far a run is."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from nestree.data.errors import DataError
from nestree.prediction.engines.folder import Receipt
from nestree.prediction.engines.progress import Watch, duration
from nestree.prediction.engines.shards import Shard, common_folder, shards, sources


def touched(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    return paths


def named(folder: Path, to: str | None = None) -> list[str]:
    files = sources([folder], folder / "out")
    return [shard.name for shard in shards(files, common_folder(files), to=to)]


def test_a_folder_is_searched_for_shards_and_for_nothing_else(tmp_path: Path) -> None:
    touched(tmp_path, "a.parquet", "b/c.jsonl.gz", "b/_SUCCESS", "b/.d.jsonl", "_old/e.jsonl", "out/f.jsonl", "g.txt")
    assert named(tmp_path) == ["a.parquet", "b/c.jsonl.gz"]


def test_folders_that_are_links_are_searched_and_circles_end(tmp_path: Path) -> None:
    touched(tmp_path, "in/a.jsonl", "elsewhere/b.jsonl", "out/c.jsonl")
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "circle").symlink_to(tmp_path / "in")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "results").symlink_to(tmp_path / "out")
    assert [path.name for path in sources([tmp_path / "in"], tmp_path / "out")] == ["a.jsonl", "b.jsonl"]


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touched(tmp_path, "in/a.jsonl", "in/closed/b.jsonl")
    scandir = os.scandir

    def refusing(path: Any) -> Any:  # for whoever may read everything
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(DataError, match=r"in/closed: this folder cannot be read: Permission denied\."):
        sources([tmp_path / "in"], tmp_path / "out")


def test_files_that_are_links_keep_their_names_and_come_once(tmp_path: Path) -> None:
    touched(tmp_path, "blobs/0a1b", "blobs/2c3d")
    (tmp_path / "snapshot" / "train").mkdir(parents=True)
    for name, blob in (("train/part-0.parquet", "0a1b"), ("train/part-1.jsonl", "2c3d"), ("twice.parquet", "0a1b")):
        (tmp_path / "snapshot" / name).symlink_to(tmp_path / "blobs" / blob)
    files = sources([tmp_path / "snapshot" / "train", tmp_path / "snapshot"], tmp_path / "out")
    found = list(shards(files, tmp_path / "snapshot"))
    assert [(one.name, one.format) for one in found] == [
        ("train/part-0.parquet", "parquet"),
        ("train/part-1.jsonl", "jsonl"),
    ]


def test_files_of_one_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    paths = touched(tmp_path, "x/part-0.parquet", "y/part-0.parquet")
    files = sources([*paths, tmp_path], tmp_path / "out")  # each once, however often it is named
    assert [shard.name for shard in shards(files, common_folder(files))] == ["x/part-0.parquet", "y/part-0.parquet"]


def test_the_ending_says_what_is_written(tmp_path: Path) -> None:
    touched(tmp_path, "a.parquet", "b.json", "c.jsonl.gz", "d.v2.ndjson")
    assert named(tmp_path) == ["a.parquet", "b.jsonl", "c.jsonl.gz", "d.v2.jsonl"]
    assert named(tmp_path, "parquet") == ["a.parquet", "b.parquet", "c.parquet", "d.v2.parquet"]


def test_two_inputs_with_one_output_are_refused(tmp_path: Path) -> None:
    touched(tmp_path, "a.json", "a.jsonl")
    with pytest.raises(DataError, match=r"a\.jsonl: the output of this file and of .*a\.json would be the same"):
        named(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.csv", "the ending does not say which format"), ("none.parquet", "no such file"), ("empty", "no shards in")],
)
def test_what_is_no_shard_is_refused(tmp_path: Path, name: str, message: str) -> None:
    touched(tmp_path, "a.csv", "empty/readme.txt")
    with pytest.raises(DataError, match=message):
        sources([tmp_path / name], tmp_path / "out")


def test_a_shard_is_told_from_another_by_its_beginning_end_and_size(tmp_path: Path) -> None:
    (path,) = touched(tmp_path, "a.jsonl")
    before = [one.fingerprint for one in shards([path], tmp_path)]
    copy = path.read_text()
    for text in (copy + " ", copy[::-1]):
        path.write_text(text)
        assert [one.fingerprint for one in shards([path], tmp_path)] != before
    path.write_text(copy)
    assert [one.fingerprint for one in shards([path], tmp_path)] == before


def test_the_line_about_progress() -> None:
    now, lines = 0.0, []
    every = [Shard(f"/{name}", "jsonl", name, 1000, "") for name in "abcd"]
    watch = Watch(every, lines.append, clock=lambda: now)
    now = 10.0
    watch.running("a", 50)
    assert lines[-1] == "0 of 4 shards, 50 documents, 5 documents/s"
    now = 20.0
    watch.over(Receipt("a", documents=100))
    watch.running("a", 70)  # a late word changes nothing
    assert lines[-1] == "1 of 4 shards, 100 documents, 5 documents/s, about 1:00 left"
    now = 30.0
    watch.running("b", 50)
    assert lines[-1] == "1 of 4 shards, 150 documents, 5 documents/s, about 0:50 left"
    watch.over(Receipt("b", error="broken"))
    assert lines[-1] == "2 of 4 shards, 100 documents, 3 documents/s, about 1:00 left"
    assert duration(3 * 3600 + 62) == "3:01:02"
