from __future__ import annotations

import gc
import json
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nestree.data.errors import DataError
from nestree.data.formats.base import Peek
from nestree.data.formats.spacy_docbin import FORMAT, document_of
from nestree.data.model import Document, Entity, Tokens
from nestree.data.report import Report
from tests.data.cases import admissibles

spacy = pytest.importorskip("spacy")
srsly = pytest.importorskip("srsly")
from spacy.tokens import Doc, DocBin, Span, SpanGroup  # noqa: E402

VOCAB = spacy.blank("xx").vocab
_WORDS = st.text("aé日👩\u200d\u0301-", min_size=1, max_size=4)
_GAPS = st.sampled_from(["", " ", "  ", "\n", " \n ", "\u00a0", "\t "])
_LABELS = st.sampled_from(["protein", "DNA", "ÄRA 👾"])


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Documents of two or more words, with all that a DocBin file can hold."""
    text, starts, ends = draw(_GAPS), [], []
    for word in draw(st.lists(_WORDS, min_size=2, max_size=6)):
        starts.append(len(text))
        text += word
        ends.append(len(text))
        text += draw(_GAPS)
    count = len(starts)
    spans = st.tuples(st.integers(0, count - 1), st.integers(1, count), _LABELS).filter(lambda span: span[0] < span[1])
    entities = [
        Entity(starts[start], ends[end - 1], label, draw(st.none() | st.floats(0, 1)))
        for start, end, label in draw(st.lists(spans, max_size=5, unique=True))
    ]
    cut = draw(st.integers(0, count))
    sentences = tuple(pair for pair in ((0, cut), (cut, count)) if pair[0] < pair[1])
    document = Document(
        text,
        tuple(entities),
        id=draw(st.sampled_from(["", "a1", "ä"])),
        complete_labels=draw(st.none() | st.lists(_LABELS, max_size=2).map(tuple)),
        unknown=draw(st.sampled_from([(), ((0, 1),)])),
        admissible=tuple(draw(st.lists(admissibles(len(text)), max_size=2))),
        meta=draw(st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.lists(st.text(max_size=2)))),
    ).with_tokens(Tokens(starts, ends), sentences)
    return document if draw(st.booleans()) else replace(document, sentences=None)


def _read(path: Path, report: Report | None = None, **options: str) -> list[Document]:
    FORMAT.check_options(options)
    return list(FORMAT.read(path, options, Report() if report is None else report))


def _saved(path: Path, *docs: Any, **options: Any) -> Path:
    DocBin(docs=docs, **options).to_disk(path)
    return path


def _doc(words: str = "the IL-2 gene") -> Any:
    return Doc(VOCAB, words=words.split(" "), spaces=[True] * words.count(" ") + [False])


def _found(document: Document) -> list[tuple[str, str]]:
    return [(document.text_of(entity), entity.label) for entity in document.entities]


# --- Writing and reading back ----------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(documents(), max_size=4))
def test_what_is_written_reads_back_identically(tmp_path: Path, found: list[Document]) -> None:
    path, report = tmp_path / "x.spacy", Report()
    FORMAT.write(iter(found), path, {}, report)
    assert FORMAT.looks(Peek(path))
    assert _read(path, report) == found
    assert not report.counts


@pytest.mark.parametrize("words", [[], ["a"]])
def test_documents_too_short_to_have_sentence_borders_have_sentences(tmp_path: Path, words: list[str]) -> None:
    document = Document.from_words(words)
    FORMAT.write([document, replace(document, sentences=None)], tmp_path / "x.spacy", {}, Report())
    assert _read(tmp_path / "x.spacy") == [document, document]


def test_spacy_sees_nested_entities_as_spans_and_outer_ones_as_ents(tmp_path: Path) -> None:
    document = Document.from_words(
        ["the", "👩\u200d🔬", "gene"], [(1, 2, "protein"), (1, 3, "DNA")], sentences=((0, 1), (1, 3))
    )
    scored = replace(document, entities=(document.entities[0]._replace(score=0.5), document.entities[1]))
    FORMAT.write([scored], tmp_path / "x.spacy", {"spans_key": "gold"}, Report())
    (doc,) = DocBin().from_disk(tmp_path / "x.spacy").get_docs(VOCAB)
    assert doc.text == document.text
    assert [(span.text, span.label_) for span in doc.spans["gold"]] == [
        ("👩\u200d🔬", "protein"),
        ("👩\u200d🔬 gene", "DNA"),
    ]
    assert doc.spans["gold"].attrs["scores"] == [0.5, None]
    assert [(span.text, span.label_) for span in doc.ents] == [("👩\u200d🔬 gene", "DNA")]
    assert [sentence.text for sentence in doc.sents] == ["the", "👩\u200d🔬 gene"]


def test_white_space_between_words_becomes_tokens_of_its_own(tmp_path: Path) -> None:
    document = Document(" a \n b\n", tokens=Tokens([1, 5], [2, 6]), sentences=((0, 2),))
    FORMAT.write([document], tmp_path / "x.spacy", {}, Report())
    (doc,) = DocBin().from_disk(tmp_path / "x.spacy").get_docs(VOCAB)
    assert [token.text for token in doc] == [" ", "a", "\n ", "b", "\n"]
    assert _read(tmp_path / "x.spacy") == [document]


def test_discontinuous_entities_are_noted_and_left_out(tmp_path: Path) -> None:
    pieces = Entity(0, 5, "x", fragments=((0, 1), (4, 5)))
    document = Document("a b c", (pieces,)).with_tokens(Tokens.of_words(["a", "b", "c"]), ((0, 3),))
    report = Report()
    FORMAT.write([document], tmp_path / "x.spacy", {}, report)
    assert report.actions["discontinuous", "not kept by spacy"] == 1
    assert _read(tmp_path / "x.spacy")[0].entities == ()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (Document("a b", id="d1"), "d1 has no words"),
        (Document("a, b", tokens=Tokens([0, 3], [1, 4]), id="d1"), "d1: ', ' is in no token"),
        (Document("a  b", tokens=Tokens([0, 1, 3], [1, 2, 4]), id="d1"), "d1: the token ' ' is white space"),
        (Document("ab", (Entity(0, 1, "x"),), Tokens([0], [2]), id="d1"), "d1: the entity 'a' is not on token"),
        (Document("a", tokens=Tokens([0], [1]), meta={"k": object()}, id="d1"), "d1: 'meta' cannot be written as JSON"),
        (Document("\ud800", tokens=Tokens([0], [1])), "surrogate"),
    ],
)
def test_what_spacy_cannot_hold_is_an_error_and_leaves_no_file(
    tmp_path: Path, document: Document, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        FORMAT.write([document], tmp_path / "x.spacy", {}, Report())
    assert not list(tmp_path.iterdir())


# --- Files of other programs -----------------------------------------------------------------------------------------


def test_span_groups_and_ents_are_read_each_entity_once(tmp_path: Path) -> None:
    doc = _doc()
    doc.spans["sc"] = [Span(doc, 1, 2, "protein"), Span(doc, 1, 3, "DNA")]
    doc.spans["more"] = SpanGroup(doc, name="more", spans=[Span(doc, 1, 2, "protein")], attrs={"scores": [0.25]})
    doc.ents = [Span(doc, 0, 1, "word")]
    path, report = _saved(tmp_path / "x.spacy", doc), Report()
    document = _read(path, report)[0]
    assert _found(document) == [("IL-2", "protein"), ("IL-2 gene", "DNA"), ("the", "word")]
    assert document.entities[0] == Entity(4, 8, "protein", 0.25, 1, 2)
    assert [str(note) for note in report] == [f"{path}: span groups: the file has 2: 'sc', 'more' (all read)"]
    assert _found(_read(path, spans_key="more")[0]) == [("IL-2", "protein"), ("the", "word")]
    assert _found(_read(path, spans_key="more", ents="no")[0]) == [("IL-2", "protein")]
    with pytest.raises(DataError, match=r"no span group 'gold'. There are: 'sc', 'more'"):
        _read(path, spans_key="gold")


def test_a_document_may_lack_the_span_group_that_others_have(tmp_path: Path) -> None:
    doc = _doc()
    doc.spans["sc"] = [Span(doc, 0, 1, "x")]
    assert [_found(document) for document in _read(_saved(tmp_path / "x.spacy", _doc(), doc), spans_key="sc")] == [
        [],
        [("the", "x")],
    ]
    with pytest.raises(DataError, match="no span groups at all"):
        _read(_saved(tmp_path / "y.spacy", _doc()), spans_key="sc")


def test_sentences_are_read_where_there_are_borders(tmp_path: Path) -> None:
    borders = Doc(VOCAB, words=["a", "\n", "b", " "], sent_starts=[True, True, True, False])
    found = _read(_saved(tmp_path / "x.spacy", borders, _doc()))
    assert (found[0].words, found[0].sentences) == (("a", "b"), ((0, 1), (1, 2)))
    assert found[1].sentences is None


def test_an_entity_that_ends_in_white_space_keeps_its_characters_and_can_be_written(tmp_path: Path) -> None:
    doc = Doc(VOCAB, words=["a", "\n", "b"], spaces=[False, False, False])
    doc.spans["sc"] = [Span(doc, 0, 2, "x")]
    document = _read(_saved(tmp_path / "x.spacy", doc))[0]
    assert document.entities == (Entity(0, 2, "x"),)
    FORMAT.write([document], tmp_path / "y.spacy", {}, Report())
    assert _read(tmp_path / "y.spacy") == [document]


def test_scores_that_do_not_fit_duplicates_and_spans_without_label_are_noted(tmp_path: Path) -> None:
    doc = _doc()
    spans = [Span(doc, 0, 1, "x"), Span(doc, 0, 1, "x"), Span(doc, 1, 2)]
    doc.spans["sc"] = SpanGroup(doc, name="sc", spans=spans, attrs={"scores": [0.5]})
    report = Report()
    assert _read(_saved(tmp_path / "x.spacy", doc), report)[0].entities == (Entity(0, 3, "x", None, 0, 1),)
    assert report.counts == {"scores": 1, "duplicate": 1, "no label": 1}


def test_user_data_about_the_document_becomes_meta(tmp_path: Path) -> None:
    doc = _doc()
    doc.cats = {"good": 1.0}
    doc.user_data = {"source": ["web", 1], ("._.", "title", None, None): "T", ("._.", "flag", 3, None): True}
    report = Report()
    document = _read(_saved(tmp_path / "x.spacy", doc, store_user_data=True), report)[0]
    assert document.meta == {"cats": {"good": 1.0}, "source": ["web", 1], "title": "T"}
    assert report.actions["not kept", "user data"] == 1


def test_a_doc_becomes_a_document_without_a_file() -> None:
    doc = _doc()
    doc.ents = [Span(doc, 1, 3, "x")]
    document = document_of(doc)
    assert document.source is None
    assert _found(document) == [("IL-2 gene", "x")]
    doc.spans["sc"] = [Span(doc, 1, 1, "x")]
    with pytest.raises(DataError, match=r"^the entity \[4, 4\) 'x' is empty"):
        document_of(doc)


# --- Malformed -------------------------------------------------------------------------------------------------------


def _message(path: Path) -> dict[str, Any]:
    return srsly.msgpack_loads(zlib.decompress(path.read_bytes()))


def _written(path: Path) -> Path:
    document = Document.from_words(["a", "bc"], [(0, 2, "x"), (1, 2, "y")], id="1", meta={"k": [1]})
    FORMAT.write([document] * 2, path, {}, Report())
    return path


@pytest.mark.parametrize(
    "content", [b"", b"\0\xff" * 50, b'{"text": "a"}', zlib.compress(b"junk"), zlib.compress(b"\xc1")]
)
def test_files_that_are_no_docbin_are_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.spacy"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a DocBin file of spaCy, or it is broken"):
        _read(path)
    assert gc.isenabled()
    with pytest.raises(DataError, match="no such file"):
        _read(tmp_path / "y.spacy")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_error_or_goes_unseen_but_never_a_crash(tmp_path: Path, data: st.DataObject) -> None:
    path = _written(tmp_path / "x.spacy")
    content = bytearray(zlib.decompress(path.read_bytes()))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(zlib.compress(content))
    with suppress(DataError):
        _read(path)
    packed = path.read_bytes()
    path.write_bytes(packed[: data.draw(st.integers(0, len(packed) - 1))])
    with pytest.raises(DataError):
        _read(path)
    assert gc.isenabled()


def test_wrong_user_data_and_offsets_are_errors_with_the_document(tmp_path: Path) -> None:
    path = _written(tmp_path / "x.spacy")
    message = _message(path)
    wrong = ({"unknown": [[0, 99]]}, {"admissible": [{"start": 0, "end": 1, "labels": []}]})
    for stored in ("no JSON", '["a"]', '{"other": 1}', 5, *map(json.dumps, wrong)):
        message["user_data"][1] = srsly.msgpack_dumps({"nestree": stored})
        path.write_bytes(zlib.compress(srsly.msgpack_dumps(message)))
        with pytest.raises(DataError, match=r"x\.spacy: document 2: ") as caught:
            _read(path)
        assert caught.value.line is None


def test_pickles_are_not_loaded(tmp_path: Path) -> None:
    path = _written(tmp_path / "x.spacy")
    message = _message(path)
    array = {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": [1], b"data": b"cbuiltins\nexit\n(tR."}
    message["user_data"][0] = srsly.msgpack_dumps({"evil": array})
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(message)))
    with pytest.raises(DataError, match="document 1: "):
        _read(path)


def test_without_spacy_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(DataError, match=r"nestree\[spacy\]"):
        _read(tmp_path / "x.spacy")
