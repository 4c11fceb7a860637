"""Files that are wrong: each gives one clear error with file and line, and no file is written."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from nestree.cli.main import main
from nestree.data import DataError, read
from tests.data.cases import CORPORA

GENIA = (CORPORA / "genia.xml").read_text()
BOMB = '<!DOCTYPE set [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><set>&b;</set>'
OUTSIDE = '<!DOCTYPE set [<!ENTITY x SYSTEM "file:///etc/passwd">]><set>&x;</set>'

# name of the file, its bytes or text, the format if it cannot be recognised, line, what the error says
CASES: dict[str, tuple[str, bytes | str, str | None, int | None, str]] = {
    # JSON Lines
    "truncated JSON": ("a.jsonl", '{"tokens": ["a"], "entities": []}\n{"tokens": ["a"', None, 2, "not JSON"),
    "a list on a line": ("a.jsonl", '{"tokens": ["a"]}\n[1, 2]\n', None, 2, "object was expected"),
    "no text": ("a.jsonl", '{"id": "x", "entities": []}', "jsonl", 1, "'tokens' is missing"),
    "misspelt key": ("a.jsonl", '{"tokens": ["a"], "entites": []}', "jsonl", 1, "unknown key 'entites'.*Known are: id"),
    "misspelt key of an entity": (
        "a.jsonl",
        '{"tokens": ["a"], "entities": [{"start": 0, "end": 1, "lable": "X"}]}',
        None,
        1,
        "unknown key 'lable'",
    ),
    "end beyond the words": (
        "a.jsonl",
        '{"tokens": ["a"], "entities": [{"start": 0, "end": 2, "label": "X"}]}',
        None,
        1,
        r"\[0, 2\) 'X' does not lie within the 1 words",
    ),
    "end beyond the text": (
        "a.jsonl",
        '{"text": "ab", "entities": [{"start": 0, "end": 3, "label": "X"}]}',
        None,
        1,
        "does not lie within the 2 characters",
    ),
    "negative offset": (
        "a.jsonl",
        '{"text": "ab", "entities": [{"start": -1, "end": 1, "label": "X"}]}',
        None,
        1,
        "does not lie within",
    ),
    "empty span": (
        "a.jsonl",
        '{"text": "ab", "entities": [{"start": 1, "end": 1, "label": "X"}]}',
        None,
        1,
        "is empty",
    ),
    "end before start": (
        "a.jsonl",
        '{"tokens": ["a", "b"], "entities": [{"start": 1, "end": 0, "label": "X"}]}',
        None,
        1,
        "ends before it begins",
    ),
    "offsets as text": (
        "a.jsonl",
        '{"text": "ab", "entities": [{"start": "0", "end": 1, "label": "X"}]}',
        None,
        1,
        "'start' must be a whole number",
    ),
    "true is no offset": (
        "a.jsonl",
        '{"tokens": ["a"], "entities": [{"start": false, "end": 1, "label": "X"}]}',
        None,
        1,
        "whole number",
    ),
    "empty label": (
        "a.jsonl",
        '{"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": " "}]}',
        None,
        1,
        "label must be",
    ),
    "entities that are no list": ("a.jsonl", '{"tokens": ["a"], "entities": {"a": 1}}', None, 1, "must be a list"),
    "a number among words": ("a.jsonl", '{"tokens": ["a", 5]}', None, 1, "strings only"),
    "an empty word": ("a.jsonl", '{"tokens": ["a", ""]}', None, 1, "empty word"),
    "tokens that overlap": ("a.jsonl", '{"text": "abc", "tokens": [[0, 2], [1, 3]]}', None, 1, "begins before the end"),
    "tokens that are not in the text": ("a.jsonl", '{"text": "abc", "tokens": ["abd"]}', None, 1, "not in the text"),
    "sentences with a gap": (
        "a.jsonl",
        '{"tokens": ["a", "b"], "sentences": [[0, 1]]}',
        None,
        1,
        "without gaps",
    ),
    "fragments in disorder": (
        "a.jsonl",
        '{"text": "abcd", "entities": [{"start": 0, "end": 4, "label": "X", "fragments": [[2, 4], [0, 1]]}]}',
        None,
        1,
        "in order",
    ),
    "duplicate ids": (
        "a.jsonl",
        '{"id": "x", "tokens": ["a"]}\n{"id": "x", "tokens": ["b"]}\n',
        None,
        2,
        "second document is named 'x'",
    ),
    "a key that stands twice": (
        "a.jsonl",
        '{"text": "ab", "entities": [{"start": 0, "end": 1, "label": "X"}], "entities": []}',
        "jsonl",
        1,
        "the key 'entities' stands twice",
    ),
    "deep JSON": ("a.jsonl", '{"tokens": ' + "[" * 100_000, "jsonl", 1, "JSON"),
    "latin-1": ("a.jsonl", '{"tokens": ["é"]}'.encode("latin-1"), "jsonl", 1, "not UTF-8.*iconv"),
    "UTF-16": ("a.jsonl", '{"tokens": ["a"]}'.encode("utf-16"), "jsonl", 1, "not UTF-8"),
    "binary": ("a.jsonl", bytes(range(255, 0, -1)), "jsonl", 1, "not UTF-8"),
    "an unfinished array": ("a.json", '[{"tokenized_text": ["a"], "ner": []},\n', None, 2, "end of the file"),
    "an array that goes on": ("a.json", '[{"tokenized_text": ["a"], "ner": []}]\nx', None, 2, "more after the end"),
    # brat
    "brat without text": ("a.ann", "T1\tX 0 1\ta\n", None, None, "there is no a.txt beside it"),
    # columns
    "too few columns": ("a.tsv", "a\tB-X\tO\nb\tI-X\tO\n" * 3000 + "c\tO\n", None, 6001, "2 columns, 3 were expected"),
    "an I without a B": ("a.tsv", "a\tO\nb\tI-X\n", None, 2, "'I-X' goes on with an entity that was not begun"),
    "an S among BIO": ("a.tsv", "a\tB-X\n" * 20000 + "b\tS-X\n", None, 20001, "does not occur in the scheme BIO"),
    "an entity that is not ended": ("a.tsv", "a\tB-X\nb\tO\nc\tS-X\n", None, 2, "is not ended"),
    "no tags": ("a.tsv", "a\tb\nc\td\n", "columns", None, "no column holds tags.*--set word=1"),
    "several tags at once": ("a.tsv", "a\tB-X\n" * 20000 + "b\tI-X|B-Y\n", None, 20001, "several tags in one column"),
    "too many columns": ("a.tsv", "a\tB-X\nb\tI-X\n\nc\tO\tB-Y\n", None, 4, "3 columns, 2 were expected"),
    # three lines
    "words and tags disagree": ("a.data", "a b\nN\n0,1 X\n\n", "three-line", 2, "2 words and 1 tags"),
    "an entity without a label": ("a.data", "a b\nN N\n0,1\n\n", "three-line", 3, "`start,end label`"),
    "off by one": ("a.data", "a b\nN N\n0,3 X\n\n", "three-line", 3, r"\[0, 3\) 'X' does not lie within the 2 words"),
    "no empty line between": ("a.data", "a b\nN N\n0,1 X\nc\nN\n0,1 X\n\n", "three-line", 4, "empty line was expected"),
    "ends within a sentence": ("a.data", "a b\nN N\n0,1 X\n\nc d\n", "three-line", 5, "ends within a sentence"),
    # XML
    "truncated XML": ("a.xml", GENIA[:-30], None, 10, "not well-formed XML"),
    "mismatched tags": ("a.xml", GENIA.replace("</abstract>", "</abstrakt>"), None, 10, "mismatched tag"),
    "entity bomb": ("a.xml", BOMB, "genia-xml", 1, "declares the entity 'a'"),
    "external entity": ("a.xml", OUTSIDE, "genia-xml", 1, "declares the entity 'x'"),
    "a term without a closed meaning": (
        "a.xml",
        GENIA.replace("(AND G#cell_type G#cell_type)", "(AND G#cell"),
        None,
        8,
        "sem",
    ),
    "unknown encoding": ("a.xml", GENIA.replace("UTF-8", "UTF-9"), None, 1, "cannot be decoded|unknown encoding"),
    # JSON of other systems and tools
    "gliner with a float": (
        "a.json",
        '[{"tokenized_text": ["a"], "ner": [[0, 0.5, "X"]]}]',
        None,
        1,
        "ends are inclusive",
    ),
    "gliner with an exclusive end": (
        "a.json",
        '[{"tokenized_text": ["a"], "ner": [[0, 1, "X"]]}]',
        None,
        1,
        "not lie within",
    ),
    "dygie with lists missing": (
        "a.json",
        '{"sentences": [["a"], ["b"]], "ner": [[]]}',
        None,
        1,
        "1 lists for 2 sentences",
    ),
    "cnn-ner whose text disagrees": (
        "a.json",
        '{"tokens": ["a", "b"], "entity_mentions": [{"start": 0, "end": 1, "entity_type": "X", "text": "b"}]}',
        None,
        1,
        "are 'a', not 'b'",
    ),
    "doccano under two keys": (
        "a.jsonl",
        '{"text": "ab", "label": [[0, 1, "X"]], "labels": [[0, 1, "X"]]}',
        None,
        1,
        "under 'label' and under 'labels'",
    ),
    "doccano with two numbers": ("a.jsonl", '{"text": "ab", "label": [[0, 1]]}', None, 1, r"\[start, end, label\]"),
    "prodigy without labels": (
        "a.jsonl",
        '{"text": "ab", "spans": [{"start": 0, "end": 1}]}',
        None,
        1,
        "'label' is missing",
    ),
    "label studio whose text disagrees": (
        "a.json",
        '[{"data": {"text": "ab"}, "annotations": [{"result": [{"value": {"start": 0, "end": 1, "text": "b", '
        '"labels": ["X"]}}]}]}]',
        None,
        1,
        "is 'a', not 'b'",
    ),
    # Files
    "an empty file": ("a.jsonl", "", None, None, "the file is empty"),
    "white space": ("a.jsonl", " \n\n", None, None, "the file is empty"),
    "prose": ("a.txt", "It was a dark night.\nThe end.\n", None, None, "none of the known formats.*--format"),
    "broken gzip": (
        "a.jsonl.gz",
        gzip.compress(b'{"tokens": ["a"]}' * 999)[:-20],
        "jsonl",
        None,
        "compressed file is broken",
    ),
    "not gzip at all": ("a.jsonl.gz", b"hello", "jsonl", None, "compressed file is broken"),
    "broken bzip2": (
        "a.jsonl.bz2",
        bz2.compress(b'{"tokens": ["a"]}' * 999)[:-9],
        "jsonl",
        None,
        "compressed file is broken",
    ),
}


def test_there_are_more_than_forty() -> None:
    assert len(CASES) > 40


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_with_file_and_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, content, format_name, line, says = CASES[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=f"(?s){says}") as caught:
        list(read(path, format_name))
    error = caught.value
    assert error.path == str(path)
    assert error.line == line
    assert str(error).startswith(f"{path}:{line}: " if line else f"{path}: ")
    # A user sees the same, and no traceback.
    target = tmp_path / "out" / "converted.jsonl"
    arguments = ["data", "convert", str(path), str(target), *(["--format", format_name] if format_name else [])]
    assert main(arguments) == 2
    assert f"error: {error}" in capsys.readouterr().err
    assert not target.exists()


BRAT = {
    "bytes counted": ("é a", "T1\tX 3 4\ta\n", 1, r"\[3, 4\) does not lie within"),
    "off by one": ("a bc", "T1\tX 1 3\tbc\n", 1, "the text at 1 3 is ' b', not 'bc'"),
    "spaces for tabs": ("a bc", "T1 X 2 4 bc\n", 1, "separated by tabs"),
    "pieces that overlap": ("a bcd", "T1\tX 0 3;2 5\ta b bcd\n", 1, "overlap"),
    "an identifier twice": ("a bc", "T1\tX 0 1\ta\nT1\tX 2 4\tbc\n", 2, "two entities T1"),
    "something else": ("a bc", "T1\tX 0 1\ta\nhello\n", 2, "not a line of brat's"),
}


@pytest.mark.parametrize("case", BRAT)
def test_brat_is_refused_with_file_and_line(case: str, tmp_path: Path) -> None:
    text, annotation, line, says = BRAT[case]
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "a.ann").write_text(annotation, encoding="utf-8")
    with pytest.raises(DataError, match=says) as caught:
        list(read(tmp_path))
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "a.ann"), line)


def test_a_text_without_annotation_is_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.ann").write_text("")
    (tmp_path / "b.txt").write_text("b")
    with pytest.raises(DataError, match=r"b\.txt: there is no b\.ann beside it"):
        list(read(tmp_path))


def test_lines_that_are_too_long_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nestree.data import files

    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a"]}\n{"tokens": ["' + "a" * (1 << 21))
    with pytest.raises(DataError, match=r"a\.jsonl:2: the line is longer than 1 MiB"):
        list(read(path, "jsonl"))


@pytest.mark.parametrize("name", ["missing.jsonl", "missing"])
def test_missing_files_and_folders_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{name}: there is no such file"):
        list(read(tmp_path / name))
    with pytest.raises(DataError, match=f"{name}: there is no such file"):
        list(read(tmp_path / name, "jsonl"))
