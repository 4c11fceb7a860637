"""What is counted as right: against a naive recount, by symmetry, and on an example worked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.data import DataError, Document, Entity, Source, Tokens, join_labels
from nestree.evaluation import Counts, Scores, score, with_split_labels
from nestree.evaluation.metrics import most_nested

WORDS = ["a", "b", "c", "d", "e", "f", "g"]
SPANS = st.tuples(st.integers(0, 6), st.integers(1, 7)).filter(lambda one: one[0] < one[1])
LISTED = st.lists(st.tuples(SPANS, st.sampled_from(["X", "Y", "Z"])), max_size=8)


def document(listed: list[tuple[tuple[int, int], str]]) -> Document:
    return Document.from_words(WORDS, [(start, end, label) for (start, end), label in listed])


CORPUS = st.lists(st.tuples(LISTED, LISTED), max_size=4)
Pairs = list[tuple[list[tuple[tuple[int, int], str]], list[tuple[tuple[int, int], str]]]]


def scores_of(pairs: Pairs) -> Scores:
    return score([document(gold) for gold, _ in pairs], [document(found) for _, found in pairs])


# --- Properties ---


@given(CORPUS)
def test_counts_are_those_of_a_naive_recount(pairs: Pairs) -> None:
    found = scores_of(pairs)
    gold = {(number, *one) for number, (listed, _) in enumerate(pairs) for one in listed}
    predicted = {(number, *one) for number, (_, listed) in enumerate(pairs) for one in listed}
    assert found.micro == Counts(sum(one in gold for one in predicted), len(predicted), len(gold))
    assert list(found.labels) == sorted({label for _, _, label in gold | predicted})
    for label, counts in found.labels.items():
        some, others = ({one for one in side if one[2] == label} for side in (gold, predicted))
        assert counts == Counts(len(some & others), len(others), len(some))
    some, others = ({one[:2] for one in side} for side in (gold, predicted))
    assert found.unlabelled == Counts(len(some & others), len(others), len(some))
    assert found.duplicates == sum(len(listed) for listed, _ in pairs) - len(gold)
    assert (found.documents, found.sentences) == (len(pairs), len(pairs))


@given(CORPUS)
def test_gold_and_predictions_swap_precision_and_recall(pairs: Pairs) -> None:
    one, other = scores_of(pairs), scores_of([(found, gold) for gold, found in pairs])
    for some, swapped in ((one.micro, other.micro), (one.unlabelled, other.unlabelled)):
        assert (some.precision, some.recall, some.f1) == (swapped.recall, swapped.precision, swapped.f1)
    assert (one.macro_precision, one.macro_recall) == (other.macro_recall, other.macro_precision)
    assert one.macro_f1 == other.macro_f1


@given(CORPUS.filter(lambda pairs: any(gold for gold, _ in pairs)))
def test_what_is_the_same_in_any_order_is_perfect(pairs: Pairs) -> None:
    found = scores_of([(gold, [*reversed(gold), *gold]) for gold, _ in pairs])
    fractions = (found.micro, found.unlabelled, *found.labels.values())
    assert {value for one in fractions for value in (one.precision, one.recall, one.f1)} == {1.0}
    assert (found.macro_precision, found.macro_recall, found.macro_f1) == (1.0, 1.0, 1.0)


@given(CORPUS)
def test_fractions_are_defined_and_f1_is_the_harmonic_mean(pairs: Pairs) -> None:
    for counts in (scores_of(pairs).micro, *scores_of(pairs).labels.values()):
        precision, recall = counts.precision, counts.recall
        both = precision + recall
        assert counts.f1 == pytest.approx(2 * precision * recall / both if both else 0.0)
        assert 0 <= counts.f1 <= 1


@given(CORPUS, CORPUS)
def test_counts_of_two_halves_add_up(some: Pairs, others: Pairs) -> None:
    assert scores_of(some + others).micro == scores_of(some).micro + scores_of(others).micro


@given(LISTED)
def test_crossing_counts_the_fewest_that_must_go(listed: list[tuple[tuple[int, int], str]]) -> None:
    different = set(listed)

    def nest(chosen: tuple[tuple[tuple[int, int], str], ...]) -> bool:
        spans = [span for span, _ in chosen]
        return not any(a < c < b < d or c < a < d < b for (a, b), (c, d) in combinations(spans, 2))

    sizes = range(len(different), -1, -1)
    most = next(size for size in sizes if any(map(nest, combinations(different, size))))
    assert scores_of([(listed, [])]).unreachable["crossing"] == len(different) - most
    assert most_nested(Counter(span for span, _ in different)) == most


# --- The worked example ---


def worked() -> tuple[Document, Document]:
    words = ["IL-2", "gene", "expression", "requires", "NF-kB", "alpha", ".", "It", "works"]
    sentences = ((0, 7), (7, 9))
    gold = [
        (0, 1, "protein"),
        (0, 2, "DNA"),  # holds the one before
        (0, 2, "region"),  # another label on that span
        (0, 1, "protein"),  # a duplicate
        (4, 6, "protein"),
        (5, 7, "protein"),  # crosses the one before
        (6, 8, "other"),  # runs into the next sentence
    ]
    found = [
        (0, 1, "protein"),
        (0, 2, "DNA|region"),  # joined, as a model has it
        (4, 6, "DNA"),  # the span is right, the label is not
        (8, 9, "cell"),  # there is nothing, and no such label in gold
    ]
    return (
        Document.from_words(words, gold, sentences=sentences),
        Document.from_words(words, found, sentences=sentences),
    )


def test_the_worked_example() -> None:
    gold, predicted = worked()
    found = score([gold], [with_split_labels(predicted)])
    assert found.labels == {
        "DNA": Counts(correct=1, predicted=2, gold=1),
        "cell": Counts(correct=0, predicted=1, gold=0),
        "other": Counts(correct=0, predicted=0, gold=1),
        "protein": Counts(correct=1, predicted=1, gold=3),
        "region": Counts(correct=1, predicted=1, gold=1),
    }
    assert found.micro == Counts(correct=3, predicted=5, gold=6)
    assert (found.micro.precision, found.micro.recall, found.micro.f1) == (3 / 5, 3 / 6, 6 / 11)
    assert found.macro_precision == pytest.approx((1 / 2 + 0 + 0 + 1 + 1) / 5)
    assert found.macro_recall == pytest.approx((1 + 0 + 0 + 1 / 3 + 1) / 5)
    assert found.macro_f1 == pytest.approx((2 / 3 + 0 + 0 + 1 / 2 + 1) / 5)
    assert found.unlabelled == Counts(correct=3, predicted=4, gold=5)
    assert found.duplicates == 1
    assert found.unreachable == {"discontinuous": 0, "off_tokens": 0, "across_sentences": 1, "crossing": 1}
    assert (found.documents, found.sentences) == (1, 2)


def test_json_has_rounded_fractions_and_all_counts() -> None:
    gold, predicted = worked()
    found = score([gold], [with_split_labels(predicted)]).as_dict()
    assert found["micro"] == {
        "precision": 0.6,
        "recall": 0.5,
        "f1": 0.545455,
        "correct": 3,
        "predicted": 5,
        "gold": 6,
    }
    assert found["macro"] == {"precision": 0.5, "recall": 0.466667, "f1": 0.433333}
    assert list(found["labels"]) == ["DNA", "cell", "other", "protein", "region"]
    assert found["unreachable"]["crossing"] == 1
    assert {"documents", "sentences", "duplicates", "incomplete", "unlabelled"} <= set(found)


# --- What no tree can hold ---


def test_what_no_tree_can_hold_stays_in_gold_under_one_reason_each() -> None:
    text = "one two. three"
    entities = (
        Entity(0, 7, "X", fragments=((0, 3), (4, 7))),
        Entity(0, 2, "X"),  # within a word
        Entity(4, 14, "X"),  # across sentences; it crosses the next one too, and is counted once
        Entity(0, 7, "X"),  # the same place as the first, in one piece
    )
    gold = Document(text, entities, Tokens([0, 4, 7, 9], [3, 7, 8, 14]), ((0, 3), (3, 4)))
    found = score([gold], [Document(text)])
    assert found.micro.gold == 4
    assert found.unreachable == {"discontinuous": 1, "off_tokens": 1, "across_sentences": 1, "crossing": 0}
    assert score([gold], [gold]).micro == Counts(4, 4, 4)  # unless somebody predicts them


def test_pieces_are_part_of_what_an_entity_is() -> None:
    whole, pieces = Entity(0, 5, "X"), Entity(0, 5, "X", fragments=((0, 1), (4, 5)))
    found = score([Document("a b c", (pieces,))], [Document("a b c", (whole,))])
    assert found.micro == found.unlabelled == Counts(0, 1, 1)


def test_words_are_those_of_the_prediction_if_gold_has_none() -> None:
    gold = Document("one two", (Entity(0, 2, "X"), Entity(4, 7, "X")))
    split = gold.with_tokens(Tokens([0, 4], [3, 7]), ((0, 2),))
    found = score([gold], [split])
    assert (found.unreachable["off_tokens"], found.sentences) == (1, 1)
    assert score([gold], [gold]).unreachable["off_tokens"] == 0  # nobody knows the words


def test_scores_do_not_make_an_entity_another_one() -> None:
    gold, sure = Document("a", (Entity(0, 1, "X"),)), Document("a", (Entity(0, 1, "X", 0.9),))
    assert score([gold], [sure]).micro.f1 == 1.0


def test_documents_that_are_not_annotated_completely_are_counted() -> None:
    gold = [Document("a", complete_labels=("X",)), Document("a", unknown=((0, 1),)), Document("a")]
    assert score(gold, gold).incomplete == 2


# --- Pairs ---


def test_nothing_is_nothing() -> None:
    found = score([], [])
    assert found == Scores()
    assert (found.micro.f1, found.macro_f1, found.unlabelled.f1) == (0.0, 0.0, 0.0)


def test_documents_stream() -> None:
    taken: list[str] = []

    def stream(side: str) -> Iterator[Document]:
        for number in range(3):
            taken.append(f"{side}{number}")
            yield Document("a")

    score(stream("gold"), stream("found"))
    assert taken == ["gold0", "found0", "gold1", "found1", "gold2", "found2"]


def test_another_text_is_an_error_that_says_which_and_where() -> None:
    gold = [Document("same"), Document("one two three", source=Source("test.jsonl", 7))]
    with pytest.raises(DataError, match=r"test.jsonl:7: document 2 has another text .* from character 5 on: 'wo "):
        score(gold, [Document("same"), Document("one tow three")])
    with pytest.raises(DataError, match="from character 3 on: ' two three' in gold, '' in the prediction"):
        score(gold, [Document("same"), Document("one")])


def test_another_number_of_documents_is_an_error_that_says_which() -> None:
    some = [Document("a", id="first"), Document("b", id="second")]
    with pytest.raises(DataError, match=r"second: document 2 has no counterpart: the predictions end after 1\."):
        score(some, some[:1])
    with pytest.raises(DataError, match=r"second: document 2 has no counterpart: the gold documents end after 1\."):
        score(some[:1], some)


# --- Joined labels ---


@given(st.lists(st.sets(st.sampled_from(["X", "Y", "a|b", "\\"]), min_size=1), max_size=3))
def test_joined_labels_are_taken_apart(labels: list[set[str]]) -> None:
    joined = [Entity(0, 1, join_labels(one), 0.5) for one in labels]
    wanted = [Entity(0, 1, label, 0.5) for one in labels for label in sorted(one)]
    source = Source("file", 1, tuple(range(len(joined))))
    found = with_split_labels(Document("a", tuple(joined), source=source))
    assert list(found.entities) == wanted
    lines = [line for line, one in enumerate(labels) for _ in one]
    assert [found.place_of(number) for number in range(len(wanted))] == [f"file:{line}" for line in lines]


def test_a_document_without_joined_labels_stays_as_it_is() -> None:
    one = Document("a", (Entity(0, 1, "X"),))
    assert with_split_labels(one) is one
