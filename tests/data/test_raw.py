"""Reading text alone: what a table or a line has besides is kept, and annotation is not looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from nestree.data import Document, read
from nestree.data.errors import DataError

IGNORE = {"annotation": "ignore"}


def as_file(folder: Path, form: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"rows.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def read_one(folder: Path, form: str, row: dict[str, Any], **options: str) -> Document:
    (found,) = read(as_file(folder, form, [row]), form, options={**IGNORE, **options})
    return found


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
class TestRaw:
    def test_other_fields_are_meta(self, form: str, tmp_path: Path) -> None:
        found = read_one(tmp_path, form, {"id": 7, "text": "Bo runs.", "url": "u", "tags": ["news"], "spans": [1]})
        assert (found.id, found.text, found.tokens, found.entities) == ("7", "Bo runs.", None, ())
        assert found.meta == {"url": "u", "tags": ["news"], "spans": [1]}

    def test_annotation_of_any_kind_is_left_out(self, form: str, tmp_path: Path) -> None:
        row = {
            "text": "Bo runs.",
            "entities": [{"from": 0}],
            "tokens": ["##x"],
            "sentences": ["Bo"],
            "unknown": [[0, 2]],
        }
        found = read_one(tmp_path, form, row)
        assert (found.tokens, found.entities, found.unknown, found.meta) == (None, (), (), {})

    def test_a_number_of_tokens_is_no_token(self, form: str, tmp_path: Path) -> None:
        assert read_one(tmp_path, form, {"text": "Bo runs.", "tokens": 2}).meta == {"tokens": 2}

    def test_words_are_read_where_there_is_no_text(self, form: str, tmp_path: Path) -> None:
        found = read_one(tmp_path, form, {"tokens": ["Bo", "runs"], "sentences": [[0, 1], [1, 2]], "url": "u"})
        assert found.words == ("Bo", "runs")
        assert found.sentences == ((0, 1), (1, 2))
        assert found.meta == {"url": "u"}

    def test_the_text_may_have_another_name(self, form: str, tmp_path: Path) -> None:
        found = read_one(tmp_path, form, {"body": "Bo runs.", "text": "summary"}, text="body")
        assert (found.text, found.meta) == ("Bo runs.", {"text": "summary"})
        with pytest.raises(DataError, match="'content'"):
            read_one(tmp_path, form, {"body": "Bo runs."}, text="content")

    def test_another_value_is_refused(self, form: str, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="annotation"):
            read_one(tmp_path, form, {"text": "Bo."}, annotation="none")


def test_a_renamed_text_keeps_its_entities(tmp_path: Path) -> None:
    row = {"body": "Bo runs.", "entities": [{"start": 0, "end": 2, "label": "PER"}]}
    for form in ("jsonl", "parquet"):
        (found,) = read(as_file(tmp_path, form, [row]), form, options={"text": "body"})
        assert [found.text_of(entity) for entity in found.entities] == ["Bo"]


def test_meta_that_is_there_is_joined(tmp_path: Path) -> None:
    assert read_one(tmp_path, "jsonl", {"text": "Bo.", "meta": {"a": 1}, "b": 2}).meta == {"a": 1, "b": 2}
    assert read_one(tmp_path, "jsonl", {"text": "Bo.", "meta": "note", "b": 2}).meta == {"meta": "note", "b": 2}
