"""Files that look right and are easily misread: read as they are meant, or refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nestree.cli.main import main
from nestree.data import DataError, Document, Entity, Report, checks, convert, detect, read, write
from nestree.data.checks import Check


def documents(tmp_path: Path, content: Any, name: str = "x.json", **options: str) -> tuple[list[Document], Report]:
    path, report = tmp_path / name, Report()
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return list(read(path, options=options, report=report)), report


def task(text: str, *regions: tuple[int, int, str | None], to_name: str = "text", **data: str) -> dict[str, Any]:
    result = []
    for start, end, said in regions:
        value: dict[str, Any] = {"start": start, "end": end, "labels": ["X"]} | ({} if said is None else {"text": said})
        result.append({"type": "labels", "to_name": to_name, "value": value})
    return {"id": 1, "data": {"text": text, **data}, "annotations": [{"result": result}]}


def test_pipes_are_refused_since_they_can_be_read_once_only(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(DataError, match="not a file or folder"):
        read(path, "jsonl")


def test_every_list_of_regions_in_json_min_counts(tmp_path: Path) -> None:
    region = {"start": 0, "end": 4, "text": "Rome", "labels": ["LOC"]}
    found, _ = documents(tmp_path, [{"text": "Rome is", "label": [region], "inner": [{**region, "labels": ["GPE"]}]}])
    assert [entity.label for entity in found[0].entities] == ["LOC", "GPE"]
    found, _ = documents(tmp_path, [{"text": "Rome is", "ner": [region]}])
    assert found[0].entities == (Entity(0, 4, "LOC"),)


def test_offsets_of_one_annotation_count_one_thing(tmp_path: Path) -> None:
    text = "🎉🎉🎉🎉Bob Bob and Ann"
    found, _ = documents(tmp_path, [task(text, (8, 11, "Bob"), (20, 23, "Ann"))])
    assert [entity.start for entity in found[0].entities] == [4, 16]


def test_offsets_that_nothing_explains_are_noted(tmp_path: Path) -> None:
    _, report = documents(tmp_path, [task("😀 Rome is", (3, 7, None))])
    assert report.counts["offsets"] == 1


def test_the_text_of_a_task_is_not_guessed(tmp_path: Path) -> None:
    annotations = [{"result": []}]
    with pytest.raises(DataError, match="which key holds the text is not clear; there is 'source', 'body'"):
        documents(tmp_path, [{"data": {"source": "p.txt", "body": "Rome"}, "annotations": annotations}])
    found, _ = documents(tmp_path, [{"data": {"body": "Rome", "n": 3}, "annotations": annotations}])
    assert found[0].text == "Rome"


def test_regions_of_several_texts_are_not_mixed(tmp_path: Path) -> None:
    both = task("a story", (0, 1, None), title="Rome")
    both["annotations"][0]["result"] += task("", (0, 4, None), to_name="title")["annotations"][0]["result"]
    with pytest.raises(DataError, match="regions of several texts: 'text', 'title'"):
        documents(tmp_path, [both])
    found, report = documents(tmp_path, [both], to_name="title", text="title")
    assert found[0].text_of(found[0].entities[0]) == "Rome"
    assert report.counts["other annotation"] == 1


def test_line_ends_in_regions_may_be_escaped(tmp_path: Path) -> None:
    found, _ = documents(tmp_path, [task("New\nYork", (0, 8, "New\\nYork"))])
    assert found[0].entities == (Entity(0, 8, "X"),)


def test_hashtags_are_words_and_comments_are_noted(tmp_path: Path) -> None:
    found, report = documents(tmp_path, "# a comment\n#WWDC\tB-EV\n#x\tO\n", "x.tsv")
    assert found[0].words == ("#WWDC", "#x")
    assert report.counts["comment"] == 1
    with pytest.raises(DataError, match=r"x\.tsv:2: 'o' is not a tag"):
        documents(tmp_path, "a\tB-X\n#WWDC\to\nb\tO\nc\tO\n", "x.tsv")


def test_a_mistyped_tag_is_no_header(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.tsv:1: 'b-LOC' is not a tag"):
        documents(tmp_path, "Rome\tb-LOC\nis\tO\nBonn\tB-LOC\n", "x.tsv")


def test_numbers_with_commas_do_not_make_a_three_line_file(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("About IN B-PP O\n10,000 CD B-NP O\nRomans NNS I-NP B-PER\n\n3,5 CD B-NP O\n")
    assert detect(path).name == "columns"


def test_dygie_entities_stand_in_the_sentence_they_are_listed_with(tmp_path: Path) -> None:
    wrong = {"sentences": [["Bob", "lives"], ["in", "Rome"]], "ner": [[[0, 0, "PER"]], [[1, 1, "LOC"]]]}
    with pytest.raises(DataError, match="does not begin in the sentence it is listed with, which has the words 2 to 3"):
        documents(tmp_path, wrong)


def test_words_of_a_text_leave_nothing_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no token holds 'T', which stands before 'he'"):
        documents(tmp_path, '{"text": "The other: he left", "tokens": ["he", "left"]}', "x.jsonl")


def test_brat_cuts_entities_at_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("New\nYork and so on")
    (tmp_path / "a.ann").write_text("T1\tLOC 0 3;4 8\tNew York\n")
    report = Report()
    (found,) = read(tmp_path, report=report)
    assert found.entities == (Entity(0, 8, "LOC"),)
    assert report.actions["line end", "pieces joined"] == 1


def test_inner_layers_of_hugging_face_are_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG"])
    chunks = datasets.ClassLabel(names=["O", "B-NP", "I-NP"])
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        chunk_tags=datasets.Sequence(chunks),
        ner_tags=datasets.Sequence(names),
        nested_ner_tags=datasets.Sequence(names),
    )
    rows = {"tokens": [["FC", "Berlin"]], "chunk_tags": [[1, 2]], "ner_tags": [[3, 4]], "nested_ner_tags": [[0, 1]]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "x.parquet")
    (found,) = read(tmp_path / "x.parquet")
    assert {(entity.tokens, entity.label) for entity in found.entities} == {((0, 2), "ORG"), ((1, 2), "LOC")}


# --- What convert could not keep -------------------------------------------------------------------------------------


def lost(tmp_path: Path, document: Document, name: str) -> Report:
    write([document], tmp_path / "in.jsonl")
    report = Report()
    convert(tmp_path / "in.jsonl", tmp_path / "out", target_format=name, report=report)
    assert len(list(read(tmp_path / "out", name))) == 1
    return report


def test_names_that_change_are_said(tmp_path: Path) -> None:
    report = lost(tmp_path, Document("a", id="pmid/12:3"), "brat")
    assert [note.message for note in report] == ["the name 'pmid/12:3', written as 'pmid_12_3'"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("doccano", "label"),
        ("prodigy", "spans"),
        ("label-studio", "text"),
        ("gliner", "ner"),
        ("dygie", "ner"),
        ("cnn-ner", "id"),
    ],
)
def test_fields_that_mean_something_else_are_not_written_over(name: str, key: str, tmp_path: Path) -> None:
    report = lost(tmp_path, Document("a b", (Entity(0, 1, "X"),), meta={key: "mine"}), name)
    assert f"the field {key!r}, which means something else there" in [note.message for note in report]


@pytest.mark.parametrize("name", ["brat", "columns", "conll", "three-line"])
def test_text_that_begins_with_a_byte_order_mark_keeps_it(name: str, tmp_path: Path) -> None:
    document = Document.from_words(["\ufeffRome", "is"], [(0, 1, "LOC")])
    write([document], tmp_path / "out", name)
    (found,) = read(tmp_path / "out", name)
    assert found.text == document.text
    assert found.entities[0].end == 5


def test_options_of_reading_and_writing_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'parquet' has no option 'ends'"):
        write([], tmp_path / "x.parquet", options={"ends": "inclusive"})


# --- Checks ----------------------------------------------------------------------------------------------------------


def test_labels_with_a_bar_are_representable() -> None:
    check = Check()
    check.split("train", [Document.from_words(["a", "b"], [(0, 1, "A|B"), (1, 2, "C")])])
    assert check.reach() == "2 of 2 gold entities are representable as they are."


def test_joined_labels_that_only_dev_has_are_unseen() -> None:
    check = Check()
    check.split("train", [Document.from_words(["a", "b"], [(0, 1, "A"), (1, 2, "B")])])
    check.split("dev", [Document.from_words(["a"], [(0, 1, "A"), (0, 1, "B")])])
    assert [note.message for note in check.report.of("unseen label")] == ["no entity of train is a 'A|B'"]


def test_check_says_when_it_stops_comparing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_REMEMBERED", 1)
    check = Check()
    check.split("train", [Document.from_words([word, "b", "c", "d"], [(0, 1, "X")]) for word in ("a", "e", "f")])
    assert check.report.counts["not compared"] == 1


# --- Sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gliner", "dygie", "three-line", "cnn-ner", "columns"])
def test_long_documents_come_back(name: str, tmp_path: Path) -> None:
    """Work that is quadratic in the sentences would show here."""
    words = ["w", "."] * 20_000
    sentences = tuple((at, at + 2) for at in range(0, 40_000, 2))
    document = Document.from_words(words, [(at, at + 1, "X") for at in range(0, 40_000, 2)], sentences=sentences)
    write([document], tmp_path / "out", name)
    assert sum(len(one.entities) for one in read(tmp_path / "out", name)) == 20_000


def test_offsets_of_browsers_in_a_long_text_are_no_trap(tmp_path: Path) -> None:
    text = "😀" + "Rome " * 40_000
    regions = [(2 + 5 * at, 6 + 5 * at, "Rome") for at in range(0, 40_000, 10)]
    found, _ = documents(tmp_path, [task(text, *regions)])
    assert all(found[0].text_of(entity) == "Rome" for entity in found[0].entities)


def test_an_array_on_one_line_is_read_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    items = [{"tokenized_text": ["word"] * 50, "ner": [[0, 1, "X"]]} for _ in range(3000)]
    path.write_text(json.dumps(items) + "\n  ")
    found = read(path)
    assert next(found).entities[0].tokens == (0, 2)
    assert sum(1 for _ in found) == 2999


# --- The command line ------------------------------------------------------------------------------------------------


def test_no_traceback_for_odd_paths_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "stats", "x" * 300]) == 2
    (tmp_path / "a.jsonl").write_text(
        '{"text": "ab", "entities": [{"start": 0, "end": 1, "label": "X", "score": 1e999}]}'
    )
    assert main(["data", "stats", str(tmp_path / "a.jsonl")]) == 2
    (tmp_path / "file").write_text("")
    (tmp_path / "b.jsonl").write_text('{"text": "ab"}')
    assert main(["data", "convert", str(tmp_path / "b.jsonl"), str(tmp_path / "file" / "out"), "--to", "brat"]) == 2
    err = capsys.readouterr().err
    assert "a score must be a number, found inf" in err
    assert "cannot be written" in err
