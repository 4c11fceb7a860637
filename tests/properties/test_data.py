"""What holds for any document: round trips, policies, splitting, tags. And nothing but a DataError for any bytes."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nestree.data import (
    DataError,
    Document,
    Policies,
    Report,
    Splitter,
    apply,
    fit,
    join_labels,
    read,
    split_label,
    write,
)
from nestree.data.formats import FORMATS, brat, tags
from nestree.data.policies import crosses
from nestree.data.splitting import glued
from nestree.data.statistics import nesting
from tests.data.cases import CORPORA, OF_TEXT, OF_WORDS, SHIPPED, TEXTS, WORDS, said, text_documents, word_documents

few = settings(max_examples=60, deadline=None)


def again(documents: list[Document], name: str, **options: str) -> list[Document]:
    """The documents after writing and reading."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus")
        write(documents, path, name, options=options)
        return list(read(path, name))


def _joined_at_line_ends(document: Document) -> Document:
    """As brat is read: pieces with nothing but line ends between them are one."""
    entities = [
        one._replace(fragments=()) if one.fragments and brat.is_one_run(document.text, one.fragments) else one
        for one in document.entities
    ]
    return replace(document, entities=tuple(entities))


@pytest.mark.parametrize("name", OF_TEXT)
@given(st.data())
@few
def test_text_comes_back_as_it_was_written(name: str, data: st.DataObject) -> None:
    documents = data.draw(st.lists(text_documents(pieces=FORMATS[name].pieces), min_size=1, max_size=3))
    found = again(documents, name)
    if name == "brat":
        found = sorted(found, key=lambda one: one.id)
        documents = [_joined_at_line_ends(one) for one in documents]
    assert [one.text for one in found] == [one.text for one in documents]
    assert [said(one) for one in found] == [said(one) for one in documents]


@pytest.mark.parametrize("name", [name for name in OF_WORDS if name != "conll"])
@given(st.lists(word_documents(sentences=False), min_size=1, max_size=3))
@few
def test_words_come_back_as_they_were_written(name: str, documents: list[Document]) -> None:
    if name == "three-line":
        documents = [one for one in documents if not any("|" in entity.label for entity in one.entities)]
    found = again(documents, name)
    wanted = documents
    if name in ("columns", "spacy"):  # where something stands twice, it is written once
        wanted = [
            Document.from_words(one.words, sorted({(*e.tokens, e.label) for e in one.entities})) for one in documents
        ]
        found = [Document.from_words(one.words, sorted({(*e.tokens, e.label) for e in one.entities})) for one in found]
    assert [one.words for one in found] == [one.words for one in documents]
    assert [said(one) for one in found] == [said(one) for one in wanted]


@given(word_documents(crossing=False, sentences=False), st.sampled_from(["bio", "bioes"]))
@few
def test_nested_entities_survive_several_tags_in_a_column(document: Document, scheme: str) -> None:
    documents = [Document.from_words(("x", *document.words), [(0, 1, "PER"), (0, 1, "ORG")]), document]
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus")
        write(documents, path, "conll", options={"scheme": scheme}, report=report)
        found = list(read(path, "conll", options={"scheme": scheme}))
    if not report.counts["ambiguous"]:
        assert [said(one) for one in found] == [said(one) for one in documents]


@given(st.lists(word_documents(), min_size=1, max_size=3), st.sampled_from(["columns", "dygie", "spacy"]))
@few
def test_sentences_survive_unless_an_entity_runs_across(documents: list[Document], name: str) -> None:
    report = Report()
    fitting = list(fit(documents, FORMATS[name], Policies(), Splitter(), report))
    found = again(fitting, name)
    assert [one.sentences for one in found] == [one.sentences for one in fitting]
    if not report.counts["sentence border"]:
        assert [one.sentences for one in fitting] == [one.sentences for one in documents]


@given(st.lists(st.one_of(text_documents(pieces=True, tokens=True), word_documents(), text_documents()), max_size=4))
@few
def test_json_lines_and_parquet_keep_everything(documents: list[Document]) -> None:
    for name in ("jsonl", "parquet"):
        assert again(documents, name) == documents


# --- Policies --------------------------------------------------------------------------------------------------------


@given(
    text_documents(pieces=True, tokens=True),
    st.sampled_from(["expand", "contract"]),
    st.sampled_from(["drop_shorter", "drop_later"]),
    st.sampled_from(["composite", "first"]),
    st.sampled_from(["cover", "drop"]),
)
def test_whatever_comes_a_tree_can_hold_it(document: Document, alignment, crossing, same_span, discontinuous) -> None:  # type: ignore[no-untyped-def]
    report = Report()
    found = apply(document, Policies(alignment, crossing, same_span, discontinuous), report)
    entities = found.entities
    assert found.tokens == document.tokens
    assert all(one.tokens and not one.fragments for one in entities)
    assert all(document.text[one.start : one.end].strip() for one in entities)
    assert len({one.tokens for one in entities}) == len(entities)
    assert not any(crosses(one, other) for one in entities for other in entities)
    owner = {at: number for number, (start, end) in enumerate(found.sentences or ()) for at in range(start, end)}
    assert all(owner[one.tokens[0]] == owner[one.tokens[1] - 1] for one in entities if one.tokens)
    labels = (
        Counter(label for one in entities for label in split_label(one.label)) if same_span == "composite" else None
    )
    dropped = report.actions["alignment", "dropped"] + report.actions["discontinuous", "dropped"]
    dropped += report.counts["duplicate"] + report.counts["crossing"]
    if labels is not None and not report.counts["crossing"]:
        assert labels.total() + dropped == len(document.entities)  # nothing was lost without a note


@given(word_documents(crossing=False))
def test_documents_that_fit_are_left_alone(document: Document) -> None:
    report = Report()
    found = apply(document, Policies(same_span="first"), report)
    if not report.counts:
        assert found == document


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_joined_labels_come_apart_again(labels: list[str]) -> None:
    assert split_label(join_labels(labels)) == tuple(sorted(set(labels)))


# --- Splitting -------------------------------------------------------------------------------------------------------


@given(
    st.one_of(TEXTS, st.text(max_size=60)),
    st.sampled_from(["punctuation", "whitespace"]),
    st.sampled_from(["sentencex", "lines", "none"]),
)
def test_splitting_loses_no_visible_character(text: str, words: str, sentences: str) -> None:
    document = Splitter(words, "en", sentences).split(Document(text))
    assert document.tokens is not None
    covered = set()
    before = 0
    for start, end in document.tokens:
        assert before <= start < end <= len(text)
        covered.update(range(start, end))
        before = end
    assert all(at in covered or not text[at].isprintable() or text[at].isspace() for at in range(len(text)))
    flat = [at for start, end in document.sentences or () for at in range(start, end)]
    assert flat == list(range(len(document.tokens)))


@given(st.lists(WORDS, max_size=10))
def test_glued_words_stand_where_they_are_said_to(words: list[str]) -> None:
    text, spans = glued(words)
    assert [text[start:end] for start, end in spans] == words


# --- Tags and nesting ------------------------------------------------------------------------------------------------


@given(word_documents(sentences=False), st.sampled_from(["bio", "bioes"]))
def test_layers_of_tags_spell_the_entities(document: Document, scheme: str) -> None:
    spans = [(*entity.tokens, entity.label) for entity in document.entities if entity.tokens]
    layers = tags.layers(spans, len(document.words), scheme)
    assert sorted(span for layer in layers for span in tags.decode(layer, scheme)) == sorted(spans)


@given(
    st.lists(st.sampled_from(["O", "B-X", "I-X", "E-X", "S-X", "I-Y", "B-Y", "E-Y"]), max_size=8),
    st.sampled_from(tags.SCHEMES),
)
def test_tags_are_decoded_or_refused(row: list[str], scheme: str) -> None:
    try:
        spans = tags.decode(row, scheme)
    except tags.TagError:
        return
    if scheme != "iob1":
        assert tags.layers(spans, len(row), scheme) in ([row], []) or all(tag == "O" for tag in row)
    assert tags.decode_sets([[tag] for tag in row], scheme) == sorted(spans, key=lambda s: (s[0], -s[1], s[2]))


@given(word_documents(sentences=False))
def test_nesting_is_what_comparing_all_pairs_says(document: Document) -> None:
    nested, depths = nesting(document.entities)
    for number, one in enumerate(document.entities):
        others = [
            other
            for other in document.entities
            if (other.start, other.end, other.label) != (one.start, one.end, one.label)
        ]
        holds = any(one.start <= other.start and other.end <= one.end for other in others)
        inside = any(other.start <= one.start and one.end <= other.end for other in others)
        assert nested[number] == (holds or inside)
        assert (depths[number] > 1) == any(
            other.start <= one.start and one.end <= other.end and (one.start, one.end) != (other.start, other.end)
            for other in others
        )


# --- Any bytes -------------------------------------------------------------------------------------------------------

_FILES = {name: CORPORA / file for name, file in SHIPPED.items() if (CORPORA / file).is_file()}


@pytest.mark.parametrize("name", _FILES)
@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_files_are_read_or_refused(name: str, data: st.DataObject) -> None:
    content = bytearray(_FILES[name].read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        action = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
        if action == "flip":
            content[at] ^= data.draw(st.integers(1, 255))
        elif action == "cut":
            del content[at:]
        elif action == "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=4))
        else:
            del content[at : at + data.draw(st.integers(1, 8))]
        content = content or bytearray(b" ")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus")
        path.write_bytes(bytes(content))
        try:
            for document in read(path, name):
                splitter = Splitter("whitespace", "en", "lines")
                list(fit([document], FORMATS["columns"], Policies("expand", discontinuous="cover"), splitter, Report()))
        except DataError:
            pass
