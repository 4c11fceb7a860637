"""Kinds of entities: they add up, in any order, and an example worked by hand says what each is."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.data import DataError, Document, Entity, Tokens
from nestree.data.statistics import count
from nestree.evaluation import BREAKDOWNS, MATCHES, Credits, Evaluation, Evaluator, Match, Seen, evaluate
from nestree.evaluation.breakdowns import sentence_length, words_of

WORDS = ["a", "b", "a", "b", "e", "f", "g"]
SPANS = st.tuples(st.integers(0, 6), st.integers(1, 7)).filter(lambda one: one[0] < one[1])
Listed = list[tuple[tuple[int, int], str]]
LISTED = st.lists(st.tuples(SPANS, st.sampled_from(["X", "Y", "Z"])), max_size=7)
CORPUS = st.lists(st.tuples(LISTED, LISTED), max_size=3)
Pairs = list[tuple[Listed, Listed]]
TRAINING = [Document.from_words(["a", "b"], [(0, 1, "X"), (1, 2, "Y"), (0, 2, "X")])]


def document(listed: Listed) -> Document:
    return Document.from_words(WORDS, [(*span, label) for span, label in listed], sentences=((0, 2), (2, 7)))


def evaluated(pairs: Pairs, match: Match = "exact") -> Evaluation:
    gold, predicted = ([document(side[number]) for side in pairs] for number in range(2))
    evaluator = Evaluator(match, BREAKDOWNS, Seen(TRAINING))
    for one, other in zip(gold, predicted, strict=True):
        evaluator.add(one, other)
    return evaluator.result()


# --- Properties ---


@pytest.mark.parametrize("match", MATCHES)
@given(pairs=CORPUS)
def test_the_kinds_of_each_breakdown_add_up_to_all_entities(match: Match, pairs: Pairs) -> None:
    found = evaluated(pairs, match)
    assert list(found.breakdowns) == list(BREAKDOWNS)
    for by, kinds in found.breakdowns.items():
        total = sum(kinds.values(), Credits())
        assert (total.gold, total.predicted) == (found.scores.micro.gold, found.scores.micro.predicted), by
        assert total.found == pytest.approx(total.right) == pytest.approx(found.micro.found)
        for one in kinds.values():
            assert 0 <= one.found <= one.gold
            assert 0 <= one.right <= one.predicted
    assert found.labels == found.breakdowns["label"]


@given(CORPUS)
def test_exact_credits_are_the_scores(pairs: Pairs) -> None:
    found = evaluated(pairs)
    assert list(found.labels) == list(found.scores.labels)
    for label, counts in found.scores.labels.items():
        assert found.labels[label] == Credits(counts.gold, counts.correct, counts.predicted, counts.correct)
        assert found.labels[label].f1 == pytest.approx(counts.f1)
    assert found.as_dict()["micro"] == found.scores.micro.as_dict()


@given(CORPUS)
def test_places_whatever_the_label_are_the_unlabelled_spans_if_each_has_one_label(pairs: Pairs) -> None:
    single = [(dict(gold), dict(found)) for gold, found in pairs]
    found = evaluated([(list(gold.items()), list(other.items())) for gold, other in single], "boundary")
    spans = found.scores.unlabelled
    assert found.micro == Credits(spans.gold, spans.correct, spans.predicted, spans.correct)


@pytest.mark.parametrize("match", MATCHES)
@given(pairs=CORPUS, luck=st.randoms(use_true_random=False))
def test_the_order_of_entities_does_not_matter(match: Match, pairs: Pairs, luck: random.Random) -> None:
    found = evaluated(pairs, match)
    for one, other in pairs:
        luck.shuffle(one)
        luck.shuffle(other)
        other += other[:2]  # nor does saying things twice
    again = evaluated(pairs, match).as_dict()
    assert again == found.as_dict()


@given(LISTED)
def test_depth_nesting_and_length_are_those_of_the_statistics(listed: Listed) -> None:
    listed = sorted(set(listed))
    found = evaluated([(listed, [])]).breakdowns
    statistics = count([document(listed)])
    assert {int(depth): one.gold for depth, one in found["depth"].items()} == dict(statistics.depths)
    assert found["nesting"]["nested"].gold == statistics.nested_entities
    lengths = Counter(
        {
            name: sum(statistics.entity_lengths[one] for one in sizes)
            for name, sizes in (("1", [1]), ("2", [2]), ("3-5", [3, 4, 5]), ("6-10", [6, 7]))
        }
    )
    assert {kind: one.gold for kind, one in found["length"].items()} == {**lengths, "11+": 0}


# --- An example ---


def test_an_entity_is_of_the_kind_that_it_is_on_its_own_side() -> None:
    # Gold: *b a* holds *a*; the prediction has *a* alone, and there it is not nested.
    found = evaluated([([((1, 3), "X"), ((2, 3), "Y")], [((2, 3), "Y")])]).breakdowns
    assert found["depth"] == {"1": Credits(1, 0, 1, 1), "2": Credits(1, 1, 0, 0)}
    assert found["nesting"] == {"nested": Credits(2, 1, 0, 0), "flat": Credits(0, 0, 1, 1)}
    assert found["length"]["1"] == Credits(1, 1, 1, 1)
    assert found["length"]["2"] == Credits(1, 0, 0, 0)
    assert found["label"] == {"X": Credits(1, 0, 0, 0), "Y": Credits(1, 1, 1, 1)}
    # *b a* was never seen; *a* was, as an X.
    assert found["seen"] == {"seen": Credits(), "other label": Credits(1, 1, 1, 1), "unseen": Credits(1, 0, 0, 0)}


def test_white_space_plays_no_part_in_what_was_seen() -> None:
    seen = Seen([Document.from_words(["IL", "-", "2"], [(0, 3, "P")])])
    test = Document("IL-2 IL", (Entity(0, 4, "P"), Entity(0, 4, "Q"), Entity(5, 7, "P")))
    assert [seen.kind(test, entity) for entity in test.entities] == ["seen", "other label", "unseen"]


def test_lengths_are_in_words_that_are_touched_and_sentences_are_those_that_entities_begin_in() -> None:
    text = "one two. three four"
    split = Document(text, tokens=Tokens([0, 4, 7, 9, 15], [3, 7, 8, 14, 19]), sentences=((0, 3), (3, 5)))
    pieces = Entity(0, 19, "X", fragments=((0, 3), (9, 14)))
    entities = [Entity(0, 3, "X"), Entity(1, 6, "X"), Entity(4, 14, "X"), Entity(9, 10, "X"), pieces]
    assert [words_of(entity, split) for entity in entities] == [1, 2, 3, 1, 2]
    assert [sentence_length(entity, split) for entity in entities] == [3, 3, 3, 2, 3]


@pytest.mark.parametrize(
    ("size", "length", "sentence"),
    [
        (1, "1", "1-10"),
        (2, "2", "1-10"),
        (3, "3-5", "1-10"),
        (5, "3-5", "1-10"),
        (6, "6-10", "1-10"),
        (10, "6-10", "1-10"),
        (11, "11+", "11-20"),
        (30, "11+", "21-30"),
        (50, "11+", "31-50"),
        (51, "11+", "51+"),
    ],
)
def test_lengths_come_in_bins(size: int, length: str, sentence: str) -> None:
    one = Document.from_words(["a"] * size, [(0, size, "X")])
    found = evaluate([one], [one], by=("length", "sentence")).breakdowns
    assert found["length"][length] == found["sentence"][sentence] == Credits(1, 1, 1, 1)
    assert [list(kinds.values()).count(Credits()) for kinds in found.values()] == [4, 4]


def test_partial_credit_in_the_table_and_json() -> None:
    gold, predicted = Document("abcd", (Entity(0, 4, "X"),)), Document("abcd", (Entity(0, 3, "X"),))
    found = evaluate([gold], [predicted], match="partial").as_dict()
    assert found["match"] == "partial"
    row = {"precision": 0.75, "recall": 0.75, "f1": 0.75, "gold": 1, "found": 0.75, "predicted": 1, "right": 0.75}
    assert found["micro"] == found["labels"]["X"] == found["breakdowns"]["nesting"]["flat"] == row
    assert found["macro"] == {"precision": 0.75, "recall": 0.75, "f1": 0.75}
    assert found["unlabelled"]["correct"] == 0


# --- What cannot be told ---


def test_seen_needs_the_training_data_and_lengths_need_words() -> None:
    one = Document("a b", (Entity(0, 1, "X"),), id="first")
    with pytest.raises(ValueError, match="a breakdown by 'seen' needs the training data"):
        evaluate([one], [one], by=["seen"])
    with pytest.raises(DataError, match="first: the document has no words, and lengths are counted in words"):
        evaluate([one], [one], by=["length"])
    assert evaluate([one], [one], by=["depth"]).micro.f1 == 1.0


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match="there is no breakdown by 'colour'; known are label, depth"):
        evaluate([], [], by=["colour"])
    with pytest.raises(ValueError, match="match is 'fuzzy'; known are 'exact'"):
        evaluate([], [], match="fuzzy")  # type: ignore[arg-type]


def test_nothing_is_nothing() -> None:
    found = evaluate([], [], match="partial", by=BREAKDOWNS, training=[])
    assert (found.micro, found.micro.f1) == (Credits(), 0.0)
    assert found.as_dict()["macro"]["f1"] == 0.0
