from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.data.errors import DataError
from nestree.data.formats.ace import FORMAT, TYPES, looks
from nestree.data.formats.base import Peek
from nestree.data.model import Document
from nestree.data.report import Report
from nestree.data.splitting import Splitter

CORPUS = Path(__file__).parent / "corpora" / "ace"
NEWSWIRE, BROADCAST, WEBLOG = "INV20300102.0900.0001", "INV_ENG_20300104_120000.5", "INVENTED_20300103.1130"


def read(path: Path = CORPUS, report: Report | None = None, **options: str) -> dict[str, Document]:
    found = list(FORMAT.read(path, options, Report() if report is None else report))
    assert len({document.id for document in found}) == len(found)
    return {document.id: document for document in found}


def mentions(document: Document) -> list[tuple[str, str]]:
    return [(document.text_of(entity), entity.label) for entity in document.entities]


# --- What is read ----------------------------------------------------------------------------------------------------


def test_each_document_is_read_once_and_named_after_its_files() -> None:
    assert list(read()) == [NEWSWIRE, WEBLOG, BROADCAST]  # as code points are sorted


def test_ace_2004_extents_nest_and_keep_the_line_breaks_and_sgml_entities_of_the_text() -> None:
    assert mentions(read()[NEWSWIRE]) == [
        ("The mayor of Fennmark", "PER"),
        ("Ilse Vorn", "PER"),
        ("Fennmark mayor", "PER"),
        ("She", "PER"),
        ("Fennmark", "GPE"),
        ("Fennmark", "GPE"),
        ("the owners of Hale\n&AMP; Moss Bakery", "PER"),
        ("their", "PER"),
        ("bakers", "PER"),
        ("Hale\n&AMP; Moss Bakery", "ORG"),
        ("the north of Aldora", "LOC"),
        ("Aldora", "GPE"),
        ("ship", "VEH"),
    ]


def test_ace_2005_extents_nest_three_deep() -> None:
    found = mentions(read()[BROADCAST])
    assert found[:3] == [
        ("police in the harbor of Osmark", "ORG"),
        ("the harbor of Osmark", "FAC"),
        ("Osmark", "GPE"),
    ]
    assert ("captain Zoë Lindt", "PER") in found  # characters are counted, not bytes


def test_an_ampersand_counts_as_the_five_characters_it_has_in_the_file() -> None:
    document = read()[WEBLOG]
    assert ("Tarn R&amp;D", "ORG") in mentions(document)
    assert mentions(document)[-1] == ("the old mill", "FAC")  # what comes after it is in its place
    assert "&lt;at last&gt;" in document.text


def test_heads_are_read_on_demand() -> None:
    assert mentions(read(mentions="heads")[BROADCAST]) == [
        ("police", "ORG"),
        ("harbor", "FAC"),
        ("Osmark", "GPE"),
        ("men", "PER"),
        ("they", "PER"),
        ("rifle", "WEA"),
        ("guards", "PER"),
        ("house", "FAC"),
        ("Zoë Lindt", "PER"),
    ]


def test_the_body_has_the_headline_where_there_is_a_body_and_else_the_text_alone() -> None:
    documents = read()
    assert documents[NEWSWIRE].text.startswith("\n\nFennmark mayor meets bakers\n")
    assert "2030-01-02" not in documents[NEWSWIRE].text
    assert documents[WEBLOG].text.startswith("\n\n Mira \n")
    assert "Who owns the mill?" not in documents[WEBLOG].text  # quoted in an attribute, over several lines


def test_mentions_outside_the_body_are_left_out_and_counted() -> None:
    report = Report()
    assert ("Lower Tarn", "GPE") not in mentions(read(report=report)[WEBLOG])
    assert report.counts["outside the body"] == 2
    assert {note.action for note in report.of("outside the body")} == {"left out"}
    assert any("Lower Tarn" in note.message and f"{WEBLOG}.apf.xml:8" in note.place for note in report)


def test_all_texts_have_everything_but_the_tags() -> None:
    report = Report()
    documents = read(report=report, texts="all")
    assert ("Lower Tarn", "GPE") in mentions(documents[WEBLOG])
    assert report.counts["outside the body"] == 0
    for name, document in documents.items():
        path = Path(document.source.path if document.source else "").with_name(name + ".sgm")
        assert document.text == re.sub("<[^>]*>", "", path.read_text())


def test_mentions_say_the_same_with_and_without_what_stands_around_the_body() -> None:
    whole = read(texts="all")
    for name, document in read().items():
        assert set(mentions(document)) <= set(mentions(whole[name]))


def test_other_annotations_are_skipped_and_counted() -> None:
    report = Report()
    assert {label for document in read(report=report).values() for _, label in mentions(document)} == set(TYPES)
    assert report.counts["other annotation"] == 5
    assert report.actions["other annotation", "timex2 skipped"] == 2


def test_documents_know_where_they_and_their_entities_were_read() -> None:
    document = read()[BROADCAST]
    lines = (CORPUS / "bn" / "timex2norm" / f"{BROADCAST}.apf.xml").read_text().splitlines()
    assert document.source is not None
    assert document.source.path.endswith(f"{BROADCAST}.apf.xml")
    assert len(document.source.entity_lines) == len(document.entities)
    for (text, _), line in zip(mentions(document), document.source.entity_lines, strict=True):
        assert f">{text}</charseq>" in lines[line - 1]
    assert document.meta == {"source": "broadcast news", "docid": BROADCAST}


def test_documents_come_without_tokens_and_our_splitter_puts_every_entity_on_tokens() -> None:
    for document in read().values():
        assert document.tokens is None
        assert document.sentences is None
        assert all(entity.tokens is not None for entity in Splitter().split(document).entities)


# --- Which files are read --------------------------------------------------------------------------------------------


def test_of_several_folders_the_last_stage_of_annotation_is_read() -> None:
    report = Report()
    assert len(read(report=report)[BROADCAST].entities) == 9
    (note,) = report.of("in several folders")
    assert note.action == "timex2norm read"
    assert str(CORPUS / "bn" / "adj") in note.message
    assert str(CORPUS / "bn" / "fp1") in note.message


@pytest.mark.parametrize(
    ("folders", "chosen"),
    [
        (["fp1", "adj", "timex2norm"], "timex2norm"),
        (["fp1", "adj"], "adj"),
        (["fp2", "fp1"], "fp1"),
        (["a/adj", "b/timex2norm"], "b/timex2norm"),
        (["b/adj", "a/adj"], "a/adj"),
    ],
)
def test_the_stage_is_chosen_by_the_name_of_its_folder(tmp_path: Path, folders: list[str], chosen: str) -> None:
    for folder in folders:
        written(tmp_path / folder)
    source = read(tmp_path)["doc"].source
    assert source is not None
    assert Path(source.path).parent == tmp_path / chosen


def test_a_list_names_the_documents_of_a_split_in_its_order() -> None:
    assert list(read(files=str(CORPUS / "splits" / "dev.txt"))) == [WEBLOG, NEWSWIRE]


def test_names_on_a_list_may_have_folders_and_endings_and_be_repeated(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text(f"# all\r\n\r\n./x\\{NEWSWIRE}.apf.xml\r\nbn/adj/{BROADCAST}.sgm # this one\r\n{NEWSWIRE}\r\n")
    report = Report()
    assert list(read(report=report, files=str(names))) == [NEWSWIRE, BROADCAST]
    assert report.counts["listed twice"] == 1


def test_a_listed_document_that_is_missing_is_named(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text(f"{NEWSWIRE}\nnw/adj/NOT_THERE_1\n")
    with pytest.raises(DataError, match=r"names\.txt:2: the document 'NOT_THERE_1' is not in"):
        read(files=str(names))


@pytest.mark.parametrize("content", [None, "", "# nothing\n"])
def test_a_list_that_is_missing_or_empty_is_an_error(tmp_path: Path, content: str | None) -> None:
    names = tmp_path / "names.txt"
    if content is not None:
        names.write_text(content)
    with pytest.raises(DataError, match=r"names\.txt"):
        read(files=str(names))


def test_documents_that_are_not_listed_are_not_looked_at(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "broken.sgm").write_text("<TEXT>")
    (tmp_path / "names.txt").write_text("doc\n")
    assert list(read(tmp_path, files=str(tmp_path / "names.txt"))) == ["doc"]


@pytest.mark.parametrize("ending", [".sgm", ".apf.xml"])
def test_one_file_is_read_with_its_partner(ending: str) -> None:
    assert list(read(CORPUS / "nwire" / f"{NEWSWIRE}{ending}")) == [NEWSWIRE]


def test_half_a_pair_beside_a_whole_one_is_noted(tmp_path: Path) -> None:
    written(tmp_path / "adj")
    written(tmp_path / "timex2norm")
    (tmp_path / "timex2norm" / "doc.apf.xml").unlink()
    report = Report()
    assert list(read(tmp_path, report)) == ["doc"]
    assert report.counts["file without partner"] == 1


def test_hidden_files_and_other_files_of_the_corpus_are_not_read(tmp_path: Path) -> None:
    written(tmp_path)
    for name in ("._doc.sgm", "._other.apf.xml", "doc.ag.xml", "doc.tab", "apf.v5.1.1.dtd"):
        (tmp_path / name).write_text("what other tools leave behind")
    assert list(read(tmp_path)) == ["doc"]


def test_folders_and_files_of_ace_are_recognised(tmp_path: Path) -> None:
    assert looks(Peek(CORPUS))
    assert looks(Peek(CORPUS / "nwire" / f"{NEWSWIRE}.sgm"))
    assert looks(Peek(CORPUS / "nwire" / f"{NEWSWIRE}.apf.xml"))
    assert not looks(Peek(CORPUS / "splits"))
    assert not looks(Peek(CORPUS / "splits" / "dev.txt"))
    (tmp_path / "alone.sgm").write_text("<DOC></DOC>")
    assert not looks(Peek(tmp_path / "alone.sgm"))
    assert not looks(Peek(tmp_path))


# --- What files may look like ----------------------------------------------------------------------------------------

SGM = "<DOC>\n<DOCID> doc </DOCID>\n<TEXT>\nAnn of Hale\n&amp; Moss left.\n</TEXT>\n</DOC>\n"
PLAIN = re.sub("<[^>]*>", "", SGM)
HEADER = '<?xml version="1.0"?>\n<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">\n'


def charseq(text: str, said: str | None = None) -> str:
    start = PLAIN.index(text)
    return f'<charseq START="{start}" END="{start + len(text) - 1}">{escape(text if said is None else said)}</charseq>'


def apf(sequence: str) -> str:
    return (
        f'{HEADER}<source_file SOURCE="newswire">\n<document DOCID="doc">\n<entity ID="E1" TYPE="PER">\n'
        f'<entity_mention ID="E1-1" TYPE="NAM">\n<extent>{sequence}</extent>\n<head>{sequence}</head>\n'
        "</entity_mention>\n</entity>\n</document>\n</source_file>\n"
    )


ANN = charseq("Ann")
APF = apf(ANN)


def written(folder: Path, sgm: str | bytes | None = SGM, annotation: str | bytes | None = APF) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("doc.sgm", sgm), ("doc.apf.xml", annotation)):
        if content is not None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize(
    "said", ["Hale\n&amp; Moss", "Hale\n& Moss", "Hale &amp; Moss", "Hale & Moss", "Hale & Moss\n"]
)
def test_annotation_may_resolve_sgml_entities_and_line_breaks(tmp_path: Path, said: str) -> None:
    sequence = charseq("Hale\n&amp; Moss", said)
    assert mentions(read(written(tmp_path, annotation=apf(sequence)))["doc"]) == [("Hale\n&amp; Moss", "PER")]


def test_line_ends_of_windows_count_as_one_character(tmp_path: Path) -> None:
    sequence = charseq("Hale\n&amp; Moss")
    folder = written(tmp_path, SGM.replace("\n", "\r\n"), apf(sequence).replace("\n", "\r\n"))
    assert mentions(read(folder)["doc"]) == [("Hale\n&amp; Moss", "PER")]


def test_white_space_at_the_edges_of_a_mention_is_cut_off_and_noted(tmp_path: Path) -> None:
    report = Report()
    folder = written(tmp_path, annotation=apf(charseq(" of Hale\n")))
    assert mentions(read(folder, report)["doc"]) == [("of Hale", "PER")]
    assert report.actions["white space at the edge", "cut off"] == 1


def test_types_that_ace_does_not_have_are_kept_and_noted(tmp_path: Path) -> None:
    report = Report()
    folder = written(tmp_path, annotation=APF.replace('TYPE="PER"', 'TYPE="SHIP"'))
    assert mentions(read(folder, report)["doc"]) == [("Ann", "SHIP")]
    assert report.counts["unusual type"] == 1


def test_names_in_the_attributes_of_an_entity_are_not_mentions(tmp_path: Path) -> None:
    names = f'<entity_attributes><name NAME="Ann">{ANN}</name></entity_attributes></entity>'
    assert mentions(read(written(tmp_path, annotation=APF.replace("</entity>", names)))["doc"]) == [("Ann", "PER")]


def test_what_an_xml_file_calls_its_encoding_does_not_matter_as_long_as_it_is_utf_8(tmp_path: Path) -> None:
    sgm = SGM.replace("Ann", "Zoë")
    annotation = apf(ANN.replace("Ann", "Zoë")).replace('"1.0"?', '"1.0" encoding="gb2312"?')
    assert mentions(read(written(tmp_path, sgm, annotation))["doc"]) == [("Zoë", "PER")]


def test_the_dtd_of_the_corpus_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "apf.v5.1.1.dtd").write_text("<!ENTITY broken")
    assert mentions(read(written(tmp_path))["doc"]) == [("Ann", "PER")]


words = st.text("abé& \n", max_size=6)
tags = st.sampled_from(["<TURN>", "</TURN>", '<QUOTE PREVIOUSPOST="\nx\n">', "<P >"])


@given(before=words, pieces=st.lists(st.tuples(words, tags)), data=st.data())
def test_wherever_tags_stand_offsets_count_what_is_left_without_them(
    tmp_path_factory: pytest.TempPathFactory, before: str, pieces: list[tuple[str, str]], data: st.DataObject
) -> None:
    inside = "".join(word + tag for word, tag in pieces) + "end"
    plain = before + "".join(word for word, _ in pieces) + "end"
    start = data.draw(st.integers(0, len(plain) - 1))
    end = data.draw(st.integers(start + 1, len(plain)))
    said = plain[start:end]
    sequence = f'<charseq START="{start}" END="{end - 1}">{escape(said)}</charseq>'
    folder = written(tmp_path_factory.mktemp("ace"), f"{before}<TEXT>{inside}</TEXT>", apf(sequence))
    if not said.strip():
        with pytest.raises(DataError, match="white space only"):
            read(folder)
        return
    assert mentions(read(folder, texts="all")["doc"]) == [(said.strip(), "PER")]
    found = mentions(read(folder)["doc"])
    leading = len(said) - len(said.lstrip())
    assert found == ([(said.strip(), "PER")] if start + leading >= len(before) else [])


# --- What is refused -------------------------------------------------------------------------------------------------


def edited(old: str, new: str, count: int = -1) -> str:
    assert old in APF
    return APF.replace(old, new, count)


START = PLAIN.index("Ann")
ENTITIES = '<!DOCTYPE source_file [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
MALFORMED: dict[str, tuple[str | bytes | None, str | bytes | None, str]] = {
    "no .sgm": (None, APF, r"doc\.apf\.xml: the other file of the pair, doc\.sgm, is missing"),
    "no .apf.xml": (SGM, None, r"doc\.sgm: the other file of the pair, doc\.apf\.xml, is missing"),
    "START is a word": (SGM, edited(f'START="{START}"', 'START="one"'), r"xml:7: START must be a whole number.*'one'"),
    "END is negative": (SGM, edited(f'END="{START + 2}"', 'END="-1"'), r"xml:7: END must be a whole number.*'-1'"),
    "END has a point": (SGM, edited(f'END="{START + 2}"', 'END="9.5"'), r"xml:7: END must be a whole number"),
    "START is in other digits": (SGM, edited(f'START="{START}"', 'START="١"'), r"xml:7: START must be a whole number"),
    "END is absurd": (SGM, edited(f'END="{START + 2}"', f'END="{"9" * 5000}"'), r"xml:7: END must be a whole number"),
    "START after END": (SGM, edited(f'START="{START}"', 'START="90"'), r"xml:7: START, 90, is greater than END, \d+"),
    "END after the text": (SGM, edited(f'END="{START + 2}"', 'END="999"'), r"xml:7: END, 999, is not within the \d+"),
    "one past the end": (SGM, edited(f'END="{START + 2}"', f'END="{len(PLAIN)}"'), r"xml:7: END, \d+, is not within"),
    "no START": (SGM, edited("START", "BEGIN"), r"xml:7: the <charseq> has no START"),
    "no END": (SGM, edited("END", "STOP"), r"xml:7: the <charseq> has no END"),
    "exclusive END": (
        SGM,
        edited(f'END="{START + 2}"', f'END="{START + 4}"'),
        r"xml:7: the annotation says 'Ann', and",
    ),
    "another text": (SGM.replace("Ann", "Bob"), APF, r"xml:7: the annotation says 'Ann', and the text has 'Bob'"),
    "other capitals": (SGM.replace("Ann", "ANN"), APF, r"xml:7: the annotation says 'Ann', and the text has 'ANN'"),
    "no text": (SGM, edited(">Ann<", "><"), r"xml:7: the annotation says '', and the text has 'Ann'"),
    "white space": (SGM, apf(charseq("\n\n", "")), r"xml:7: the mention is white space only"),
    "text moved": ("\n" + SGM, APF, r"xml:7: the annotation says 'Ann', and the text has '\\nAn'"),
    "no type": (SGM, edited(' TYPE="PER"', ""), r"xml:5: the <entity> has no TYPE"),
    "empty type": (SGM, edited('TYPE="PER"', 'TYPE=" "'), r"xml:5: the TYPE of the entity is empty"),
    "no extent": (SGM, edited("extent>", "scope>"), r"xml:9: a mention must have one <extent>.*none"),
    "no charseq": (SGM, edited(ANN, "Ann", 1), r"xml:9: a mention must have one <extent>.*none"),
    "two pieces": (SGM, edited(ANN, ANN + ANN, 1), r"xml:9: a mention must have one <extent>.*has 2"),
    "two documents": (
        SGM,
        edited("</document>", "</document><document/>"),
        r"xml:11: there is more than one <document>",
    ),
    "no document": (SGM, edited("document", "docu"), r"xml:1: there is no <document>"),
    "another root": (SGM, edited("source_file", "corpus"), r"xml:3: annotation of ACE begins with <source_file>"),
    "truncated": (SGM, APF[:-40], r"xml:9: this is not well-formed XML.*Is the file complete\?"),
    "empty": (SGM, "", r"xml:1: this is not well-formed XML"),
    "wrong nesting": (SGM, edited("</extent>", "</head>"), r"xml:7: this is not well-formed XML: mismatched tag"),
    "bare ampersand": (SGM, edited(">Ann<", ">A & n<"), r"xml:7: this is not well-formed XML"),
    "declares entities": (
        SGM,
        APF.replace(HEADER.splitlines()[1], ENTITIES),
        r"xml:2: the XML declares the entity 'a'",
    ),
    "unknown entity": (SGM, edited(">Ann<", ">&ann;<"), r"xml:7: the XML declares the entity 'ann'"),
    "annotation in Latin-1": (SGM, edited("Ann", "Zoë").encode("latin1"), r"xml:7: this is not UTF-8"),
    "text in Latin-1": (SGM.replace("left", "né").encode("latin1"), APF, r"sgm:5: this is not UTF-8"),
    "text in UTF-16": (SGM.encode("utf-16"), APF, r"sgm:1: this is not UTF-8"),
    "text not closed": (SGM.replace("</TEXT>", ""), APF, r"sgm:3: the <TEXT> does not end.*Is the file complete\?"),
    "text closed before it opens": ("</TEXT><TEXT>" + PLAIN, APF, r"sgm:1: the <TEXT> does not end"),
    "neither body nor text": (PLAIN, APF, r"sgm:1: there is neither a <BODY> nor a <TEXT>.*texts=all"),
    "empty text": ("", APF, r"sgm:1: there is neither"),
}


@pytest.mark.parametrize(("sgm", "annotation", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_files_are_refused_with_their_place(
    tmp_path: Path, sgm: str | bytes | None, annotation: str | bytes | None, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(written(tmp_path, sgm, annotation))
    assert caught.value.path is not None
    assert Path(caught.value.path).parent == tmp_path


def test_a_mention_without_a_head_is_refused_when_heads_are_read(tmp_path: Path) -> None:
    folder = written(tmp_path, annotation=edited(f"<head>{ANN}</head>", ""))
    assert mentions(read(folder)["doc"]) == [("Ann", "PER")]
    with pytest.raises(DataError, match=r"xml:9: a mention must have one <head>.*none"):
        read(folder, mentions="heads")


@pytest.mark.parametrize("at", range(0, len(APF), 7))
def test_annotation_cut_off_anywhere_is_refused(tmp_path: Path, at: int) -> None:
    with pytest.raises(DataError, match=r"doc\.apf\.xml"):
        read(written(tmp_path, annotation=APF[:at]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: read(path / "nowhere"), "there is no such file or folder"),
        (lambda path: read(path), r"there are no documents of ACE.*NAME\.sgm and NAME\.apf\.xml"),
        (lambda path: read(CORPUS / "splits" / "dev.txt"), r"the name ends neither in \.sgm nor in \.apf\.xml"),
        (lambda path: read(mentions="tails"), "the option mentions is 'tails'.*extents, heads"),
        (lambda path: read(texts="headline"), "the option texts is 'headline'.*body, all"),
    ],
)
def test_calls_that_cannot_be_meant_are_refused(tmp_path: Path, call: Callable[[Path], object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        call(tmp_path)


def test_the_options_are_those_that_are_described() -> None:
    FORMAT.check_options({"mentions": "heads", "files": "x", "texts": "all"})
    with pytest.raises(DataError, match="no option 'split'"):
        FORMAT.check_options({"split": "dev"})
