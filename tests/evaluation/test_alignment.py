"""Texts that differ in white space, and documents that are cut in other places."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.data import DataError, Document, Entity, Source, Tokens
from nestree.evaluation import score
from nestree.evaluation.alignment import aligned, joined, paired

SPACE = st.text(" \n\t\u00a0\u2009", max_size=3)
VISIBLE = st.text("ab.é𝔸\u200b", min_size=1, max_size=12)


@st.composite
def spaced(draw: st.DrawFn, characters: str) -> tuple[str, list[int]]:
    """The characters with white space strewn in, and where each stands."""
    text, places = draw(SPACE), []
    for character in characters:
        places.append(len(text))
        text += character + draw(SPACE)
    return text, places


@st.composite
def twice(draw: st.DrawFn) -> tuple[Document, str, list[tuple[int, int, str]]]:
    """A document with entities, the same text with other white space, and where the entities stand in it."""
    characters = draw(VISIBLE)
    (one, places), (other, there) = draw(spaced(characters)), draw(spaced(characters))
    numbers = st.integers(0, len(characters) - 1)
    spans = [
        (min(a, b), max(a, b), label)
        for a, b, label in draw(st.lists(st.tuples(numbers, numbers, st.sampled_from("XY"))))
    ]
    entities = tuple(Entity(places[a], places[b] + 1, label) for a, b, label in spans)
    return Document(one, entities), other, [(there[a], there[b] + 1, label) for a, b, label in spans]


# --- Offsets ---


@given(twice())
def test_offsets_go_to_the_same_characters(case: tuple[Document, str, list[tuple[int, int, str]]]) -> None:
    document, text, wanted = case
    found = aligned(document, text)
    assert found.text == text
    assert [(entity.start, entity.end, entity.label) for entity in found.entities] == wanted


@given(twice())
def test_there_and_back_nothing_has_changed(case: tuple[Document, str, list[tuple[int, int, str]]]) -> None:
    document, text, _ = case
    assert aligned(aligned(document, text), document.text) == document


@given(st.data())
def test_any_offsets_stay_within_the_text(data: st.DataObject) -> None:
    characters = data.draw(st.text("ab", max_size=4))
    (one, _), (other, _) = data.draw(spaced(characters)), data.draw(spaced(characters))
    start = data.draw(st.integers(0, len(one)))
    end = data.draw(st.integers(start, len(one)))
    entity = aligned(Document(one, (Entity(start, end, "X"),)), other).entities[0]
    assert 0 <= entity.start <= entity.end <= len(other)
    assert "".join(other[entity.start : entity.end].split()) == "".join(one[start:end].split())


def test_white_space_at_the_edges_of_an_entity_stays_where_both_texts_have_it() -> None:
    document = Document("a b  c", (Entity(0, 2, "X"), Entity(1, 5, "X"), Entity(2, 5, "X")))
    found = aligned(document, "a  b c")
    assert [(entity.start, entity.end) for entity in found.entities] == [(0, 2), (2, 5), (3, 5)]


def test_words_pieces_and_what_nobody_looked_at_come_along() -> None:
    words = Document.from_words(["IL", "-", "2", "gene", "."], [(0, 3, "protein"), (0, 4, "DNA")])
    pieces = Entity(0, 11, "X", fragments=((0, 2), (7, 11)))
    document = Document(words.text, (*words.entities, pieces), words.tokens, words.sentences, unknown=((7, 13),))
    found = aligned(document, "IL-2 gene.")
    assert found.tokens == Tokens([0, 2, 3, 5, 9], [2, 3, 4, 9, 10])
    assert found.sentences == ((0, 5),)
    assert found.entities == (
        Entity(0, 4, "protein", None, 0, 3),
        Entity(0, 9, "DNA", None, 0, 4),
        Entity(0, 9, "X", fragments=((0, 2), (5, 9))),
    )
    assert found.unknown == ((5, 10),)


def test_a_document_with_the_same_text_stays_as_it_is() -> None:
    document = Document("a b")
    assert aligned(document, "a b") is document


# --- Documents ---

CUTS = st.lists(st.integers(0, 12), max_size=5)


def cut(words: list[str], cuts: list[int]) -> list[Document]:
    """The words as documents; each word is an entity."""
    borders = sorted({0, len(words), *(min(one, len(words)) for one in cuts)})
    parts = [words[start:end] for start, end in pairwise(borders)]
    return [Document.from_words(part, [(at, at + 1, word) for at, word in enumerate(part)]) for part in parts]


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=12), CUTS, CUTS)
def test_documents_meet_wherever_they_are_cut(words: list[str], some: list[int], others: list[int]) -> None:
    pairs = list(paired(cut(words, some), cut(words, others)))
    assert [word for gold, _ in pairs for word in gold.words] == words
    for gold, predicted in pairs:
        assert gold.text == predicted.text
        assert gold.entities == predicted.entities
        assert gold.tokens == predicted.tokens
        assert gold.sentences is not None
        assert gold.sentences[-1][1] == len(gold.words)
    scores = score(*zip(*pairs, strict=True))
    assert (scores.micro.correct, scores.micro.gold, scores.micro.predicted) == (len(words),) * 3


def test_predictions_by_sentence_go_to_the_document() -> None:
    gold = Document("IL-2 works.\n\nIt does.", (Entity(0, 4, "P"), Entity(13, 15, "Q")))
    found = [
        Document.from_words(["IL-2", "works", "."], [(0, 1, "P")]),
        Document.from_words(["It", "does", "."], [(0, 1, "Q")]),
    ]
    [(same, predicted)] = paired([gold], found)
    assert same is gold
    assert [(entity.start, entity.end, entity.label) for entity in predicted.entities] == [(0, 4, "P"), (13, 15, "Q")]
    assert [(entity.tokens) for entity in predicted.entities] == [(0, 1), (3, 4)]
    assert predicted.sentences == ((0, 3), (3, 6))


def test_documents_without_characters_need_no_counterpart() -> None:
    gold = [Document(""), Document("a"), Document(" "), Document("b"), Document("\n")]
    found = [Document("a"), Document("b"), Document("")]
    for some, others in ((gold, found), (found, gold)):
        assert [(one.text, other.text) for one, other in paired(some, others) if one.text.strip()] == [
            ("a", "a"),
            ("b", "b"),
        ]


def test_pairs_stream() -> None:
    taken: list[str] = []

    def stream(side: str) -> Iterator[Document]:
        for number in range(4):
            taken.append(f"{side}{number}")
            yield Document("a")

    pairs = paired(stream("gold"), stream("found"))
    next(pairs)
    assert len(taken) <= 4


def test_joined_documents_keep_what_they_say() -> None:
    some = Document("a b", (Entity(0, 1, "X"),), complete_labels=("X", "Y"), source=Source("f", 1, (5,)), id="one")
    other = Document("c", (Entity(0, 1, "Y"),), unknown=((0, 1),), source=Source("f", 7, (9,)))
    found = joined([some, other])
    assert (found.text, found.id, found.tokens, found.sentences) == ("a b\nc", "one", None, None)
    assert found.entities == (Entity(0, 1, "X"), Entity(4, 5, "Y"))
    assert (found.complete_labels, found.unknown) == (("X", "Y"), ((4, 5),))
    assert [found.place_of(number) for number in range(2)] == ["f:5", "f:9"]
    assert joined([other, Document("d", source=Source("g", 2))]).source == Source("f", 7)


# --- What does not fit is said ---


def document(text: str, path: str, line: int) -> Document:
    return Document(text, source=Source(path, line))


def test_another_text_is_an_error_that_names_both_places() -> None:
    gold = [document("a", "gold.jsonl", 1), document("one two three", "gold.jsonl", 2)]
    found = [document("a", "found.data", 1), document("one", "found.data", 5), document("tow three", "found.data", 9)]
    with pytest.raises(DataError) as error:
        list(paired(gold, found))
    assert str(error.value).startswith(
        "the texts differ: 'wo three' at character 5 of document 2 of gold (gold.jsonl:2), "
        "'ow three' at character 1 of document 3 of the predictions (found.data:9). Gold and predictions must be"
    )


@pytest.mark.parametrize(
    ("gold", "found", "says"),
    [
        (
            ["a", "b"],
            ["a"],
            "document 2 of gold has no counterpart: the predictions have only 1 document",
        ),
        ([], ["a"], "document 1 of the predictions has no counterpart: gold has only 0 documents"),
        (["a b"], ["a"], "the last document of the predictions ends at character 2 of document 1 of gold, before 'b'"),
        (["a"], ["a b"], "the last document of gold ends at character 2 of document 1 of the predictions, before 'b'"),
    ],
)
def test_a_side_that_ends_early_is_an_error(gold: list[str], found: list[str], says: str) -> None:
    with pytest.raises(DataError, match=says):
        list(paired(map(Document, gold), map(Document, found)))
