"""Annotation that is not complete: which labels are, where nobody looked, and what a span may be."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nestree.data import (
    Admissible,
    DataError,
    Document,
    Entity,
    Policies,
    Report,
    Splitter,
    apply,
    convert,
    detect,
    read,
    write,
)
from nestree.data.model import Tokens
from tests.data.cases import text_documents, word_documents

CARRIERS = ("jsonl", "parquet", "prodigy", "label-studio", "spacy")
POSSIBLE = (Admissible(0, 4, ("PER", "ORG")), Admissible(5, 10, ("PER", None)), Admissible(5, 10, ("LOC",), True))
DOCUMENT = Document("Anna sings", complete_labels=("PER",), unknown=((5, 10),), admissible=POSSIBLE)
SAID = {
    "complete_labels": ["PER"],
    "unknown": [[5, 10]],
    "admissible": [
        {"start": 0, "end": 4, "labels": ["PER", "ORG"]},
        {"start": 5, "end": 10, "labels": ["PER", None]},
        {"start": 5, "end": 10, "not": ["LOC"]},
    ],
}


def known(document: Document) -> tuple[Any, ...]:
    return document.complete_labels, document.unknown, document.admissible


def documents(
    tmp_path: Path,
    *values: dict[str, Any],
    format: str | None = None,  # noqa: A002
    report: Report | None = None,
    **options: str,
) -> list[Document]:
    """As they are read from JSON Lines, or of Label Studio from an array."""
    path = tmp_path / "x.json"
    array = "data" in values[0] or "label" in values[0]
    path.write_text(json.dumps(values) if array else "\n".join(map(json.dumps, values)))
    return list(read(path, format, options=options, report=report))


# --- Documents -------------------------------------------------------------------------------------------------------


def test_it_stays_with_a_document_whatever_happens_to_that() -> None:
    tokens = Tokens.of_words(["Anna", "sings"])
    assert known(DOCUMENT.with_tokens(tokens, ((0, 2),))) == known(DOCUMENT)
    assert known(Splitter().split(DOCUMENT)) == known(DOCUMENT)
    assert known(Splitter().split(DOCUMENT.with_tokens(tokens, None))) == known(DOCUMENT)
    entities = (Entity(0, 4, "PER"), Entity(0, 4, "PER"), Entity(0, 7, "X"), Entity(0, 4, "ORG"))
    changed = apply(Splitter().split(replace(DOCUMENT, entities=entities)), Policies("expand", "drop_later"))
    assert [entity.label for entity in changed.entities] == ["ORG|PER", "X"]
    assert known(changed) == known(DOCUMENT)


def test_documents_that_differ_in_it_are_different() -> None:
    assert replace(DOCUMENT, admissible=POSSIBLE[:2]) != DOCUMENT
    assert replace(DOCUMENT, id="") == DOCUMENT
    assert Document("Anna").admissible == ()


def test_documents_made_by_hand_are_checked(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must be a tuple of Admissible, found tuple"):
        Document("ab", admissible=((0, 1, ("X",)),))  # type: ignore[arg-type]
    for one, says in (
        (Admissible(0, 3, ("X",)), r"d1: the admissible span \[0, 3\) \['X'\] does not lie within the 2 characters"),
        (Admissible(0, 1, "X"), "labels of an admissible span must be a tuple, found 'X'"),  # type: ignore[arg-type]
        (Admissible(0, 1, (None,), True), "'not' of an admissible span holds null"),
    ):
        with pytest.raises(DataError, match=says):
            write([Document("ab", id="d1", admissible=(one,))], tmp_path / "x.jsonl")


# --- Formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CARRIERS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_it_comes_back_as_it_was_written(name: str, data: st.DataObject) -> None:
    anything = word_documents() if name == "spacy" else st.one_of(text_documents(), word_documents())
    found = data.draw(st.lists(anything, min_size=1, max_size=3))
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus")
        write(found, path, name, report=report)
        again = list(read(path, name, report=report))
    assert list(map(known, again)) == list(map(known, found))
    assert [one.meta for one in again] == [{}] * len(found)
    assert not report.actions["not kept", "incomplete annotation"]


@pytest.mark.parametrize("name", ["brat", "columns", "conll", "three-line", "dygie", "cnn-ner", "gliner", "doccano"])
@pytest.mark.parametrize("field", ["complete_labels", "unknown", "admissible"])
def test_formats_that_cannot_carry_it_say_so(name: str, field: str, tmp_path: Path) -> None:
    write([Document("Anna sings", **{field: getattr(DOCUMENT, field)})], tmp_path / "in.jsonl")
    report = Report()
    convert(tmp_path / "in.jsonl", tmp_path / "out", target_format=name, report=report)
    assert report.actions["not kept", "incomplete annotation"] == 1


def test_json_lines_count_in_words_or_in_characters(tmp_path: Path) -> None:
    said = [{"start": 1, "end": 2, "labels": ["PER", None]}, {"start": 0, "end": 2, "not": ["ORG"]}]
    words, text = documents(tmp_path, {"tokens": ["ab", "cd"], "admissible": said}, {"text": "ab", "admissible": said})
    assert words.admissible == (Admissible(3, 5, ("PER", None)), Admissible(0, 5, ("ORG",), True))
    assert text.admissible == (Admissible(1, 2, ("PER", None)), Admissible(0, 2, ("ORG",), True))


def test_json_lines_are_written_in_words_if_everything_is_on_words(tmp_path: Path) -> None:
    on_words = Document.from_words(["ab", "cd"], admissible=(Admissible(3, 5, ("PER", None)),))
    within = replace(on_words, admissible=(Admissible(4, 5, ("PER",), True),))
    write([on_words, within], tmp_path / "x.jsonl")
    first, second = map(json.loads, (tmp_path / "x.jsonl").read_text().splitlines())
    assert first == {
        "tokens": ["ab", "cd"],
        "entities": [],
        "admissible": [{"start": 1, "end": 2, "labels": ["PER", None]}],
    }
    assert (second["text"], second["admissible"]) == ("ab cd", [{"start": 4, "end": 5, "not": ["PER"]}])


def test_json_lines_with_admissible_spans_are_not_taken_for_label_studio(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": "Anna sings", **SAID}))
    assert detect(path).name == "jsonl"
    assert known(next(read(path))) == known(DOCUMENT)


WRONG = {
    "beyond the text": (
        {"end": 3, "labels": ["X"]},
        r"span \[0, 3\) \['X'\] does not lie within the 2 characters.*count",
    ),
    "empty": ({"end": 0, "labels": ["X"]}, r"the admissible span \[0, 0\) \['X'\] is empty"),
    "in disorder": ({"start": 2, "labels": ["X"]}, "ends before it begins"),
    "before the text": ({"start": -1, "labels": ["X"]}, r"span \[-1, 1\).*does not lie within"),
    "no start": ({"start": None, "labels": ["X"]}, "the key 'start' is missing"),
    "an end that is no number": ({"end": "1", "labels": ["X"]}, "'end' must be a whole number, found '1'"),
    "no labels": ({}, "has neither 'labels' nor 'not'. It needs one of them"),
    "both": ({"labels": ["X"], "not": ["Y"]}, "has both 'labels' and 'not'"),
    "labels that are no list": ({"labels": "X"}, "'labels' must be a list, found 'X'"),
    "an empty list": ({"labels": []}, "'labels' of an admissible span is empty. It must name at least one label"),
    "an empty list of excluded": ({"not": []}, "'not' of an admissible span is empty"),
    "an empty label": ({"labels": ["X", " "]}, "a label must be a string that is not empty, found ' '"),
    "a number": ({"not": [5]}, "a label must be a string that is not empty, found 5"),
    "a label twice": ({"labels": ["X", "Y", "X"]}, "'labels' of an admissible span holds 'X' twice"),
    "null twice": ({"labels": [None, "X", None]}, "'labels' of an admissible span holds null twice"),
    "null excluded": ({"not": ["X", None]}, "'not' of an admissible span holds null.*leave null out"),
    "a misspelt key": (
        {"label": ["X"]},
        "an admissible span has the unknown key 'label'. Known are: start, end, labels",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_with_its_place(case: str, tmp_path: Path) -> None:
    values, says = WRONG[case]
    span = {"start": 0, "end": 1} | values
    where = r"x\.json:2: "
    with pytest.raises(DataError, match=where + ".*" + says):
        documents(tmp_path, {"text": "a"}, {"text": "ab", "admissible": [span]})
    with pytest.raises(DataError, match=where + ".*" + says):
        documents(tmp_path, {"text": "a", "spans": []}, {"text": "ab", "spans": [], "meta": {"admissible": [span]}})
    tasks = [{"data": {"text": text}, "meta": {}, "annotations": [{"result": []}]} for text in ("a", "ab")]
    tasks[1]["meta"] = {"admissible": [span]}
    with pytest.raises(DataError, match=r"x\.json:1: item 2: .*" + says):
        documents(tmp_path, *tasks)


def test_admissible_spans_are_a_list_of_objects(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'admissible' must hold objects, found \[0, 1, 'X'\]"):
        documents(tmp_path, {"text": "ab", "admissible": [[0, 1, "X"]]})
    with pytest.raises(DataError, match="'admissible' must be a list, found"):
        documents(tmp_path, {"text": "ab", "admissible": {"start": 0, "end": 1, "labels": ["X"]}})
    with pytest.raises(DataError, match=r"\[0, 2\) \['X'\] does not lie within the 1 words"):
        documents(tmp_path, {"tokens": ["ab"], "admissible": [{"start": 0, "end": 2, "labels": ["X"]}]})


# --- Prodigy ---------------------------------------------------------------------------------------------------------

SPANS = [{"start": 0, "end": 4, "label": "PER"}, {"start": 5, "end": 10, "label": "ORG"}]


def example(**values: Any) -> dict[str, Any]:
    return {"text": "Anna sings", "spans": SPANS, "answer": "accept", **values}


def test_accepted_questions_of_prodigy_say_nothing_of_the_rest(tmp_path: Path) -> None:
    (found,) = documents(tmp_path, example(_is_binary=True))
    assert found.entities == (Entity(0, 4, "PER"), Entity(5, 10, "ORG"))
    assert known(found) == (None, ((0, 10),), ())


def test_rejected_questions_of_prodigy_say_what_the_spans_are_not(tmp_path: Path) -> None:
    report = Report()
    (found,) = documents(tmp_path, example(_is_binary=True, answer="reject", spans=SPANS[:1]), report=report)
    assert found.entities == ()
    assert known(found) == (None, ((0, 10),), (Admissible(0, 4, ("PER",), excluded=True),))
    assert not report.counts


@pytest.mark.parametrize(
    "values",
    [
        {"answer": "reject"},
        {"answer": "reject", "_is_binary": False},
        {"answer": "ignore", "_is_binary": True},
        {"answer": "reject", "_is_binary": True, "spans": []},
        {"answer": "reject", "_is_binary": True},  # of two spans, both may be wrong, or one
    ],
)
def test_other_examples_of_prodigy_that_were_not_accepted_are_left_out(values: dict[str, Any], tmp_path: Path) -> None:
    report = Report()
    assert documents(tmp_path, example(**values), report=report) == []
    assert report.actions == {("not accepted", "left out"): 1}


def test_examples_of_prodigy_that_are_no_questions_are_complete(tmp_path: Path) -> None:
    (found,) = documents(tmp_path, example(_is_binary=False))
    assert known(found) == (None, (), ())
    assert found.meta == {"_is_binary": False}


def test_examples_of_prodigy_without_an_answer_can_be_left_out(tmp_path: Path) -> None:
    question = {"text": "Anna sings", "spans": SPANS}
    assert len(documents(tmp_path, question)) == 1
    report = Report()
    assert documents(tmp_path, question, report=report, unanswered="ignore") == []
    assert report.actions == {("not annotated", "left out"): 1}


def test_prodigy_may_say_it_beside_the_text_or_in_meta(tmp_path: Path) -> None:
    beside, within = documents(tmp_path, example(**SAID), example(meta={"source": "web", **SAID}))
    assert known(beside) == known(within) == known(DOCUMENT)
    assert beside.entities == (Entity(0, 4, "PER"), Entity(5, 10, "ORG"))
    assert (beside.meta, within.meta) == ({}, {"meta": {"source": "web"}})
    with pytest.raises(DataError, match=r"x\.json:1: there is 'unknown' beside the text, and in 'meta' too. Keep one"):
        documents(tmp_path, example(unknown=[], meta={"unknown": []}))


@pytest.mark.parametrize("answer", ["accept", "reject"])
def test_questions_of_prodigy_are_the_same_after_writing(answer: str, tmp_path: Path) -> None:
    found = documents(tmp_path, example(_is_binary=True, answer=answer, meta={"score": 0.5}, spans=SPANS[:1]))
    write(found, tmp_path / "again.jsonl", "prodigy")
    assert list(read(tmp_path / "again.jsonl")) == found
    changed = replace(found[0], unknown=(), meta={**found[0].meta, "_is_binary": True})
    report = Report()
    write([changed], tmp_path / "again.jsonl", "prodigy", report=report)
    assert next(read(tmp_path / "again.jsonl")).unknown == ()
    assert report.actions["not kept", "meta"] == 1


@pytest.mark.parametrize("meta", [{"unknown": "soldier"}, {"meta": {"unknown": "soldier"}}, {"meta": "x"}])
def test_fields_that_mean_something_else_to_prodigy_are_not_written(meta: dict[str, Any], tmp_path: Path) -> None:
    report = Report()
    write([replace(DOCUMENT, meta=meta)], tmp_path / "x.jsonl", "prodigy", report=report)
    assert report.actions == {("not kept", "meta"): 1}
    assert known(next(read(tmp_path / "x.jsonl"))) == known(DOCUMENT)


def test_a_label_of_prodigy_can_mark_where_nobody_looked(tmp_path: Path) -> None:
    (found,) = documents(tmp_path, example(unknown=[[4, 5]]), unknown_label="ORG")
    assert found.entities == (Entity(0, 4, "PER"),)
    assert known(found) == (None, ((4, 5), (5, 10)), ())
    (found,) = documents(tmp_path, example(_is_binary=True, answer="reject"), unknown_label="ORG")
    assert known(found) == (None, ((0, 10),), (Admissible(0, 4, ("PER",), excluded=True),))


# --- Label Studio ----------------------------------------------------------------------------------------------------


def task(*labels: list[str], **values: Any) -> dict[str, Any]:
    places = [(0, 4), (5, 10)][: len(labels)]
    result = [
        {"value": {"start": start, "end": end, "labels": given}}
        for (start, end), given in zip(places, labels, strict=True)
    ]
    return {"data": {"text": "Anna sings"}, "annotations": [{"result": result}], **values}


def test_label_studio_may_say_it_in_data_or_in_meta(tmp_path: Path) -> None:
    report = Report()
    tasks = task(["PER"], data={"text": "Anna sings", "source": "web", **SAID}), task(["PER"], meta=SAID)
    in_data, in_meta = documents(tmp_path, *tasks, report=report)
    assert known(in_data) == known(in_meta) == known(DOCUMENT)
    assert (in_data.meta, in_meta.meta) == ({"source": "web"}, {})
    assert in_meta.entities == (Entity(0, 4, "PER"),)
    assert not report.counts
    with pytest.raises(DataError, match="item 1: there is 'unknown' beside the text, and in 'meta' too"):
        documents(tmp_path, task(data={"text": "Anna", "unknown": []}, meta={"unknown": []}))


def test_what_else_stands_in_meta_of_label_studio_is_still_not_read(tmp_path: Path) -> None:
    report = Report()
    (found,) = documents(tmp_path, task(meta={"unknown": [[0, 4]], "embedding": [1]}), report=report)
    assert found.unknown == ((0, 4),)
    assert [note.message for note in report] == ["tasks also say meta"]


def test_label_studio_json_min_says_it_beside_the_text(tmp_path: Path) -> None:
    values = {"text": "Anna sings", "label": [{"start": 0, "end": 4, "labels": ["PER"]}], "source": "web", **SAID}
    (found,) = documents(tmp_path, values)
    assert known(found) == known(DOCUMENT)
    assert (found.entities, found.meta) == ((Entity(0, 4, "PER"),), {"source": "web"})


def test_a_label_of_label_studio_can_mark_where_nobody_looked(tmp_path: Path) -> None:
    (found,) = documents(tmp_path, task(["PER", "?"], ["?"]), unknown_label="?")
    assert found.entities == (Entity(0, 4, "PER"),)
    assert known(found) == (None, ((0, 4), (5, 10)), ())


def test_several_labels_of_a_region_can_mean_one_of_them(tmp_path: Path) -> None:
    one = task(["PER", "ORG"], ["LOC"])
    (found,) = documents(tmp_path, one)
    assert [entity.label for entity in found.entities] == ["PER", "ORG", "LOC"]
    (found,) = documents(tmp_path, one, several="admissible")
    assert found.entities == (Entity(5, 10, "LOC"),)
    assert known(found) == (None, (), (Admissible(0, 4, ("PER", "ORG")),))
    (found,) = documents(tmp_path, task(["PER", "?"], ["PER", "?", "ORG"]), several="admissible", unknown_label="?")
    assert found.entities == (Entity(0, 4, "PER"),)
    assert known(found) == (None, ((0, 4), (5, 10)), (Admissible(5, 10, ("PER", "ORG")),))
    with pytest.raises(DataError, match=r"the option several is 'both'\. It can be: entities, admissible"):
        documents(tmp_path, one, several="both")
    with pytest.raises(DataError, match="item 1: 'labels' of an admissible span holds 'PER' twice"):
        documents(tmp_path, task(["PER", "PER"]), several="admissible")


def test_regions_that_browsers_counted_mean_the_same(tmp_path: Path) -> None:
    places = [(3, 7, "Anna", ["PER", "ORG"]), (8, 13, "sings", ["?"])]
    result = [{"value": {"start": a, "end": b, "text": says, "labels": labels}} for a, b, says, labels in places]
    values = {"data": {"text": "😀 Anna sings"}, "annotations": [{"result": result}]}
    (found,) = documents(tmp_path, values, several="admissible", unknown_label="?")
    assert known(found) == (None, ((7, 12),), (Admissible(2, 6, ("PER", "ORG")),))


def test_label_studio_writes_it_into_meta(tmp_path: Path) -> None:
    report = Report()
    write(
        [replace(DOCUMENT, meta={"unknown": "soldier"}), Document("a")],
        tmp_path / "x.json",
        "label-studio",
        report=report,
    )
    first, second = json.loads((tmp_path / "x.json").read_text())
    assert (first["meta"], first["data"]) == (SAID, {"text": "Anna sings"})
    assert "meta" not in second
    assert report.actions == {("not kept", "meta"): 1}
