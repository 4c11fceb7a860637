"""Policies: what happens to entities that a tree cannot hold, and that it is said."""

from __future__ import annotations

import pytest

from nestree.data import DataError, Document, Entity, Policies, Report, Source, Splitter, apply
from nestree.data.report import Note


def document(text: str, *entities: tuple[int, int, str]) -> Document:
    source = Source("corpus.ann", 1, tuple(range(1, len(entities) + 1)))
    return Splitter("whitespace", "en", "none").split(
        Document(text, tuple(Entity(*one) for one in entities), source=source)
    )


def applied(found: Document, **policies: str) -> tuple[list[tuple[str, str]], Report]:
    report = Report()
    result = apply(found, Policies(**policies), report)  # type: ignore[arg-type]
    return [(result.text_of(one), one.label) for one in result.entities], report


def test_an_entity_off_its_tokens_is_an_error_that_says_what_it_touches() -> None:
    found = document("the interleukin-2 gene", (4, 15, "protein"))
    with pytest.raises(
        DataError,
        match=r"corpus\.ann:1: the entity 'interleukin' protein at \[4, 15\) is not on token boundaries: it touches "
        r"\['interleukin-2'\]\. Mend its offsets, or choose alignment = expand or contract",
    ):
        applied(found)


def test_expand_takes_every_token_it_touches_and_contract_those_inside() -> None:
    found = document("the interleukin-2 gene", (4, 19, "DNA"))
    assert applied(found, alignment="expand")[0] == [("interleukin-2 gene", "DNA")]
    entities, report = applied(found, alignment="contract")
    assert entities == [("interleukin-2", "DNA")]
    assert list(report) == [
        Note("alignment", "corpus.ann:1", "'interleukin-2 g' DNA becomes 'interleukin-2' DNA", "contracted")
    ]


def test_an_entity_without_a_whole_token_is_dropped_and_counted() -> None:
    entities, report = applied(document("interleukin-2", (0, 5, "X")), alignment="contract")
    assert entities == []
    assert report.actions["alignment", "dropped"] == 1


def test_crossing_entities_are_an_error_or_dropped() -> None:
    found = document("a b c d", (0, 3, "SHORT"), (2, 7, "LONG"))
    with pytest.raises(DataError, match=r"corpus\.ann:2: 'b c d' LONG crosses 'a b' SHORT"):
        applied(found)
    assert applied(found, crossing="drop_shorter")[0] == [("b c d", "LONG")]
    entities, report = applied(found, crossing="drop_later")
    assert entities == [("a b", "SHORT")]
    assert report.actions["crossing", "dropped"] == 1


def test_several_labels_of_a_span_are_joined_and_come_apart_again() -> None:
    found = document("a b", (0, 1, "Y"), (0, 1, "X|Z"), (2, 3, "X"))
    entities, report = applied(found)
    assert entities == [("a", "X\\|Z|Y"), ("b", "X")]
    assert report.actions["same span", "joined"] == 1
    assert applied(found, same_span="first")[0] == [("a", "Y"), ("b", "X")]
    with pytest.raises(DataError, match=r"corpus\.ann:1: 'a' is Y and X\|Z"):
        applied(found, same_span="error")


def test_duplicates_are_dropped_and_counted() -> None:
    entities, report = applied(document("a", (0, 1, "X"), (0, 1, "X")))
    assert entities == [("a", "X")]
    assert [str(note) for note in report] == ["corpus.ann:2: duplicate: 'a' X (dropped)"]


def test_discontinuous_entities_are_covered_or_dropped() -> None:
    whole = document("left and right arm")
    found = Document(
        whole.text,
        (Entity(0, 18, "PART", fragments=((0, 4), (15, 18))),),
        whole.tokens,
        whole.sentences,
        source=whole.source,
    )
    with pytest.raises(DataError, match="'left arm' PART is in 2 pieces"):
        applied(found)
    assert applied(found, discontinuous="cover")[0] == [("left and right arm", "PART")]
    entities, report = applied(found, discontinuous="drop")
    assert entities == []
    assert report.actions["discontinuous", "dropped"] == 1


def test_sentences_are_joined_where_an_entity_runs_across() -> None:
    found = Document.from_words(list("abcd"), [(1, 3, "X")], sentences=((0, 2), (2, 3), (3, 4)))
    report = Report()
    assert apply(found, Policies(), report).sentences == ((0, 3), (3, 4))
    assert report.counts == {"sentence border": 1}


def test_policies_are_checked_by_name_and_value() -> None:
    with pytest.raises(ValueError, match="alignment is 'loose'; known are 'strict', 'expand', 'contract'"):
        Policies(alignment="loose")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown policy 'allignment'; known are alignment, crossing"):
        Policies.from_dict({"allignment": "strict"})


def test_many_entities_take_no_time() -> None:
    words = ["w"] * 20_000
    spans = [(at, at + 2, "X") for at in range(0, 19_998)]
    report = Report(keep=10)
    found = apply(Document.from_words(words, spans[::2]), Policies(), report)
    assert len(found.entities) == len(spans[::2])
    assert len(list(report)) <= 10
