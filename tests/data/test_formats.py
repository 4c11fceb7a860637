"""Every format is recognised, read as it says, and gives back what was written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nestree.data import DataError, Document, Entity, Report, convert, detect, read, write
from nestree.data.formats import FORMATS
from tests.data.cases import CORPORA, OF_TEXT, OF_WORDS, SHIPPED, said

TEXT = list(read(CORPORA / "text.jsonl"))
WORDS = list(read(CORPORA / "words.jsonl"))


def test_there_is_a_corpus_for_every_format() -> None:
    assert set(FORMATS) - set(SHIPPED) == {"datasets"}  # a folder that is written in its own tests


@pytest.mark.parametrize("name", SHIPPED)
def test_the_format_is_recognised_from_the_file(name: str) -> None:
    assert detect(CORPORA / SHIPPED[name]).name == name


@pytest.mark.parametrize("name", OF_TEXT)
def test_text_corpora_say_the_same_in_every_format(name: str) -> None:
    found = {document.text: said(document) for document in read(CORPORA / SHIPPED[name])}
    assert found == {document.text: said(document) for document in TEXT}


@pytest.mark.parametrize("name", OF_WORDS)
def test_word_corpora_say_the_same_in_every_format(name: str) -> None:
    found = list(read(CORPORA / SHIPPED[name]))
    assert [document.words for document in found] == [document.words for document in WORDS]
    assert [said(document) for document in found] == [said(document) for document in WORDS]
    assert all(entity.tokens for document in found for entity in document.entities)


def test_every_entity_says_what_stands_at_its_offsets() -> None:
    harbour, museum, letter, ship = TEXT
    assert [museum.text_of(entity) for entity in museum.entities][:2] == [
        "Zoë Łukasz",
        "the Museum of Old Maps in São Brás",
    ]
    assert harbour.text_of(harbour.entities[2]) == "Dr. Ines Okafor, head of the Alder River Research Institute"
    assert letter.entities == ()
    assert ship.meta == {"source": "invented"}


def test_genia_xml_gives_the_words_and_types_of_the_literature() -> None:
    report = Report()
    title, both, last = read(CORPORA / "genia.xml", report=report)
    assert title.words == ("IL", "-", "2", "gene", "expression", "in", "T", "cells", ".")
    spans = [(one.tokens, one.label) for one in title.entities]
    assert spans == [((0, 3), "G#protein"), ((0, 4), "G#DNA"), ((6, 8), "G#cell_type")]
    assert [(one.tokens, one.label) for one in both.entities] == [((1, 5), "G#cell_type")]
    assert both.words[-6:] == ("drug", "(", "5", "%", ")", ".")
    assert [last.text_of(one) for one in last.entities] == ["c - fos mRNA"]
    assert report.counts["other types"] == 1
    assert title.source is not None
    assert title.source.line == 6


def test_genia_is_split_as_in_the_paper() -> None:
    options = {"sentences": "3"}
    numbers = [
        len(list(read(CORPORA / "genia.xml", options={**options, "split": part}))) for part in ("train", "dev", "test")
    ]
    assert numbers == [2, 0, 1]


# --- What a format keeps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in OF_TEXT if FORMATS[name].pieces])
def test_discontinuous_entities_are_kept_where_the_format_can_hold_them(name: str, tmp_path: Path) -> None:
    document = Document("left and right arm", (Entity(0, 18, "PART", fragments=((0, 4), (15, 18))),), id="arm")
    write([document], tmp_path / "out", name)
    (found,) = read(tmp_path / "out", name)
    assert found.entities == document.entities


def test_json_lines_keep_everything(tmp_path: Path) -> None:
    document = Document(
        "Anna Bo  Chi",
        (Entity(0, 4, "PER", 0.25), Entity(5, 7, "PER")),
        id="x",
        complete_labels=("PER",),
        unknown=((9, 12),),
        meta={"n": [1, {"a": None}]},
    )
    words = Document.from_words(["a", "b", "c"], [(0, 2, "X")], sentences=((0, 1), (1, 3)), unknown=((2, 5),), id="w")
    write([document, words], tmp_path / "all.jsonl")
    assert list(read(tmp_path / "all.jsonl")) == [document, words]


def test_words_of_a_text_are_found_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Anna  sees Anna.", "tokens": ["Anna", "sees", "Anna", "."], "entities": []}')
    (document,) = read(path)
    assert document.tokens is not None
    assert [tuple(token) for token in document.tokens] == [(0, 4), (6, 10), (11, 15), (15, 16)]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_compressed_files_are_read_and_written(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"words.jsonl{suffix}"
    write(WORDS, path)
    assert detect(path).name == "jsonl"
    assert list(read(path)) == WORDS


def test_a_folder_of_files_is_read_file_by_file(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write(WORDS[:2] if name == "a" else WORDS[2:], tmp_path / f"{name}.tsv")
    assert [document.words for document in read(tmp_path)] == [document.words for document in WORDS]


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    def documents():  # type: ignore[no-untyped-def]
        yield WORDS[0]
        raise ZeroDivisionError

    for name in ("out.jsonl", "out.tsv", "brat"):
        with pytest.raises(ZeroDivisionError):
            write(documents(), tmp_path / name, None if "." in name else "brat")
        assert list(tmp_path.iterdir()) == []


def test_crlf_and_byte_order_marks_are_no_part_of_words(tmp_path: Path) -> None:
    path = tmp_path / "windows.tsv"
    path.write_bytes(b"\xef\xbb\xbfAnna\tB-PER\r\nsings\tO\r\n\r\n")
    (document,) = read(path)
    assert document.words == ("Anna", "sings")
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"tokens": ["Anna"], "entities": []}\r\n')
    assert next(read(path)).words == ("Anna",)


def test_crlf_counts_as_two_characters_in_brat(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    (tmp_path / "a.ann").write_text("T1\tX 5 8\ttwo\n")
    (document,) = read(tmp_path)
    assert document.text == "one\r\ntwo"
    assert document.text_of(document.entities[0]) == "two"


# --- Particular formats ----------------------------------------------------------------------------------------------


def one(tmp_path: Path, content: str, name: str = "x.jsonl", format: str | None = None, **options: str) -> Document:  # noqa: A002
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    (document,) = read(path, format, options=options)
    return document


@pytest.mark.parametrize(
    "entities",
    [
        '"label": [[0, 4, "PER"]]',
        '"labels": [[0, 4, "PER"]]',
        '"entities": [{"id": 7, "start_offset": 0, "end_offset": 4, "label": "PER"}], "relations": []',
    ],
)
def test_doccano_has_three_keys(entities: str, tmp_path: Path) -> None:
    document = one(tmp_path, f'{{"id": 3, "text": "Anna sings", {entities}}}')
    assert document.entities == (Entity(0, 4, "PER"),)
    assert document.id == "3"


def test_label_studio_counts_as_browsers_do(tmp_path: Path) -> None:
    region = {"value": {"start": 3, "end": 7, "text": "Anna", "labels": ["PER", "POET"]}, "type": "labels"}
    task = [{"id": 1, "data": {"text": "😀 Anna"}, "annotations": [{"result": [region]}]}]
    document = one(tmp_path, json.dumps(task), "x.json")
    assert document.entities == (Entity(2, 6, "PER"), Entity(2, 6, "POET"))


def test_label_studio_asks_which_of_several_annotations_counts(tmp_path: Path) -> None:
    def result(label: str) -> dict[str, object]:
        return {"result": [{"value": {"start": 0, "end": 4, "labels": [label]}}]}

    task = json.dumps([{"data": {"text": "Anna"}, "annotations": [result("A"), result("B")]}])
    with pytest.raises(DataError, match="annotated 2 times"):
        one(tmp_path, task, "x.json")
    assert one(tmp_path, task, "x.json", annotation="last").entities[0].label == "B"


def test_label_studio_json_min(tmp_path: Path) -> None:
    content = '[{"id": 5, "text": "Anna sings", "label": [{"start": 0, "end": 4, "text": "Anna", "labels": ["PER"]}]}]'
    assert one(tmp_path, content, "x.json").entities == (Entity(0, 4, "PER"),)


def test_rejected_examples_of_prodigy_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = [{"text": "Anna", "spans": [], "answer": answer} for answer in ("accept", "reject", "ignore")]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    report = Report()
    assert len(list(read(tmp_path / "x.jsonl", report=report))) == 1
    assert report.counts == {"not accepted": 2}


def test_columns_are_found_by_what_they_hold(tmp_path: Path) -> None:
    germeval = "#\thttp://example.org [2009]\n1\tIn\tO\tO\n2\tBonn\tB-LOC\tO\n"
    document = one(tmp_path, germeval, "x.tsv")
    assert document.words == ("In", "Bonn")
    conll = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n"  # the chunks are no entities
    document = one(tmp_path, conll, "x.txt")
    assert [entity.label for entity in document.entities] == ["ORG"]


def test_a_hash_can_be_a_word(tmp_path: Path) -> None:
    assert one(tmp_path, "# id = the name\n#\tO\n1\tB-NUM\n", "x.tsv").words == ("#", "1")


def test_docstart_lines_hold_sentences_together(tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("-DOCSTART- -X- O O\n\na - O O\n\nb - O B-X\n\n-DOCSTART- -X- O O\n\nc - O O\n")
    assert [document.sentences for document in read(path, "columns")] == [((0, 1), (1, 2)), ((0, 1),)]


def test_bilou_and_iob1(tmp_path: Path) -> None:
    document = one(tmp_path, "a\tB-X\nb\tL-X\nc\tU-Y\n", "x.tsv")
    assert [(e.tokens, e.label) for e in document.entities] == [((0, 2), "X"), ((2, 3), "Y")]
    document = one(tmp_path, "a\tI-X\nb\tI-X\nc\tB-X\n", "x.tsv", scheme="iob1")
    assert [e.tokens for e in document.entities] == [(0, 2), (2, 3)]


def test_order_of_several_tags_does_not_matter(tmp_path: Path) -> None:
    for tags in ("I-A|B-B", "B-B|I-A"):
        document = one(tmp_path, f"a\tB-A\nb\t{tags}\nc\tI-A\n", "x.conll")
        assert [(e.tokens, e.label) for e in document.entities] == [((0, 3), "A"), ((1, 2), "B")]


def test_three_line_files_with_inclusive_ends_and_without_tags(tmp_path: Path) -> None:
    document = one(tmp_path, "a b c\n\n0,1 X\n\n".replace("\n\n0", "\nN N N\n0"), "x.data", ends="inclusive")
    assert document.entities[0].tokens == (0, 2)
    (tmp_path / "two.data").write_text("a b c\n0,1 X\n\nd e\n\n\nf\n0,1 Y|0,1 Z\n\n")
    documents = list(read(tmp_path / "two.data"))
    assert [len(document.entities) for document in documents] == [1, 0, 2]


def test_dygie_counts_through_the_document_with_inclusive_ends(tmp_path: Path) -> None:
    values = {"doc_key": "d", "sentences": [["a", "b"], ["c"]], "ner": [[[0, 1, "X"]], [[2, 2, "Y"]]], "clusters": []}
    document = one(tmp_path, json.dumps(values))
    assert [entity.tokens for entity in document.entities] == [(0, 2), (2, 3)]
    assert document.sentences == ((0, 2), (2, 3))
    assert document.meta == {"clusters": []}


def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    report = Report()
    convert(CORPORA / "text.jsonl", tmp_path / "out.tsv", report=report)
    assert report.actions["not kept", "text"] > 0
    assert report.actions["not kept", "meta"] == 1


def test_unknown_options_are_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"no option 'end'.*It knows: ends"):
        read(CORPORA / "three-line.data", options={"end": "inclusive"})


def test_a_folder_of_several_formats_is_refused_and_other_files_are_noted(tmp_path: Path) -> None:
    write(WORDS, tmp_path / "a.tsv")
    write(TEXT, tmp_path / "b.jsonl")
    with pytest.raises(
        DataError, match=r"several formats: columns \(a\.tsv\), jsonl \(b\.jsonl\)|jsonl \(b\.jsonl\), columns"
    ):
        list(read(tmp_path))
    report = Report()
    assert len(list(read(tmp_path, "jsonl", report=report))) == 4
    assert [note.place for note in report.of("other file")] == [str(tmp_path / "a.tsv")]


def test_names_may_come_again_in_another_file_of_a_folder(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        write(TEXT, tmp_path / name)
    assert len(list(read(tmp_path))) == 8


def test_columns_that_are_not_read_are_said(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n")
    report = Report()
    list(read(path, report=report))
    assert [note.message for note in report] == ["words in column 1, tags in 4; not in 2, 3"]


def test_a_line_that_names_the_columns_is_no_word(tmp_path: Path) -> None:
    document = one(tmp_path, "token\touter\tinner\nAnna\tB-PER\tO\nsings\tO\tO\n", "x.tsv")
    assert document.words == ("Anna", "sings")


def test_errors_in_an_array_name_the_item(tmp_path: Path) -> None:
    items = [{"id": number, "data": {"text": "Anna"}, "annotations": [{"result": []}]} for number in (7, 8)]
    items[1]["annotations"] = [{"result": [{"value": {"start": 0, "end": 9, "labels": ["X"]}}]}]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(items))
    with pytest.raises(DataError, match=r"x\.json:1: item 2.*: the entity \[0, 9\) 'X' does not lie within"):
        list(read(path))


def test_documents_made_by_hand_are_checked_before_they_are_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not lie within the 2 characters"):
        write([Document("ab", (Entity(0, 3, "X"),))], tmp_path / "a.jsonl")
    with pytest.raises(TypeError, match="tuple of Entity"):
        Document("ab", ((0, 1, "X"),))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Document\.from_words"):
        Document("ab", tokens=["ab"])  # type: ignore[arg-type]


def test_close_names_are_suggested() -> None:
    with pytest.raises(DataError, match="Did you mean label-studio"):
        read(CORPORA / "label-studio.json", "label_studio")


def test_a_gzip_file_may_hold_any_format(tmp_path: Path) -> None:
    path = tmp_path / "x.xml.gz"
    path.write_bytes(gzip.compress((CORPORA / "genia.xml").read_bytes()))
    assert len(list(read(path))) == 3
