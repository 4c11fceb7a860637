"""From text and words to predictions."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.crf import TreeCRF
from nestree.data import Document, Entity
from nestree.model import NestedNER, Node, Span, Steps
from nestree.model.pieces import Batch
from nestree.prediction import PredictedEntity, Prediction, reading
from nestree.prediction.results import flattened, nested
from tests.model.tiny import LABELS, model
from tests.prediction.test_trees import sure

TEXT = "Anna of the acme club.  Bo runs: the club of Anna!\n\tThe acme of Bo."


@pytest.fixture
def found(tmp_path: Path) -> NestedNER:
    return sure(tmp_path, decoding="mbr")


# --- Offsets, depth, parents ---


def test_offsets_are_those_of_the_text(found: NestedNER) -> None:
    prediction = found.predict(TEXT)
    assert prediction.text == TEXT
    assert len(prediction) > 3
    for entity in prediction:
        assert TEXT[entity.start : entity.end] == entity.text
        assert prediction.document.tokens is not None
        assert prediction.document.tokens.characters(entity.token_start, entity.token_end) == (entity.start, entity.end)
        assert entity.label in LABELS
        assert 0.5 < entity.score <= 1


def test_one_text_gives_one_prediction_and_several_give_a_list(found: NestedNER) -> None:
    one, several = found.predict(TEXT), found.predict([TEXT, "", TEXT])
    assert isinstance(one, Prediction)
    assert [list(prediction) for prediction in several] == [list(one), [], list(one)]
    assert found.predict([]) == []
    assert found.predict(text for text in [TEXT]) == [one]


def test_words_are_taken_as_they_are(found: NestedNER) -> None:
    words = ["anna", "of", "the", "acme", "club.", "bo"]
    (prediction,) = found.predict_tokens([words])
    assert prediction.words == tuple(words)
    (spans,) = found.decode(found.pieces([words]))
    assert [(one.start, one.end, one.label) for one in prediction] == [(one.start, one.end, one.label) for one in spans]
    assert all(one.text == " ".join(words[one.start : one.end]) for one in prediction)


ENTITIES = [
    Entity(0, 9, "A", 0.9, 0, 5),
    Entity(0, 3, "B", 0.8, 0, 2),
    Entity(0, 3, "C", 0.7, 0, 2),
    Entity(2, 3, "D", 0.6, 1, 2),
    Entity(5, 9, "E", 0.95, 3, 5),
    Entity(10, 12, "F", 0.5, 5, 6),
]


def test_depth_and_parent() -> None:
    entities = nested(Document("ab cd efg hi"), reversed(ENTITIES), in_words=False)
    rows = [(one.label, one.depth, one.parent) for one in entities]
    # Two labels on one span stand side by side; what lies within both is within the one that comes last.
    assert rows == [("A", 1, None), ("B", 2, 0), ("C", 2, 0), ("D", 3, 2), ("E", 2, 0), ("F", 1, None)]


@pytest.mark.parametrize(
    ("how", "labels"), [("outermost", ["A", "F"]), ("innermost", ["D", "E", "F"]), ("best", ["B", "E", "F"])]
)
def test_flat_views(how: Any, labels: list[str]) -> None:
    assert [one.label for one in flattened(ENTITIES, how)] == labels


def test_flat_predictions_share_no_word(found: NestedNER) -> None:
    for how in ("outermost", "innermost", "best"):
        entities = found.predict(TEXT, flat=how).entities
        assert entities
        assert all(one.end <= other.start for one, other in pairwise(entities))
        assert {one.depth for one in entities} == {1}


def test_several_labels_on_a_span_come_apart(found: NestedNER) -> None:
    found.config = replace(found.config, labels=tuple(f"{label}|part" for label in LABELS))
    prediction = found.predict(TEXT)
    assert prediction
    assert {one.label for one in prediction} <= {*LABELS, "part"}
    places = [(one.start, one.end) for one in prediction]
    assert all(places.count(place) == 2 for place in places)


# --- Thresholds ---


def test_a_threshold_leaves_out_what_is_less_probable(found: NestedNER) -> None:
    everything = found.predict(TEXT)
    limit = sorted(one.score for one in everything)[len(everything) // 2]
    kept = found.predict(TEXT, threshold=limit)
    assert [one[:5] for one in kept] == [one[:5] for one in everything if one.score >= limit]
    assert len(kept) < len(everything)


def test_thresholds_by_label_leave_other_labels_alone(found: NestedNER) -> None:
    everything = found.predict(TEXT)
    label = everything[0].label
    kept = found.predict(TEXT, threshold={label: 1.0})
    assert [one[:5] for one in kept] == [one[:5] for one in everything if one.label != label]


@pytest.mark.parametrize("decoding", ["mbr", "map"])
def test_low_thresholds_find_more_and_still_one_tree(tmp_path: Path, decoding: str) -> None:
    found = sure(tmp_path, decoding=decoding)
    with torch.no_grad():
        found.scorer.bilinear.mul_(0.2)  # unsure
    before, after = found.predict(TEXT), found.predict(TEXT, threshold=0.05)
    assert len(after) > len(before) if decoding == "mbr" else len(after) <= len(before)
    assert all(one.score >= 0.05 for one in after)
    for one in after:
        for other in after:
            assert not one.start < other.start < one.end < other.end
            assert (one.start, one.end) != (other.start, other.end) or one is other


def test_below_one_half_the_set_exceeds_the_thresholds_by_most(tmp_path: Path) -> None:
    """Against all sets of labelled spans of a short sentence that one tree can hold."""
    found = sure(tmp_path, decoding="mbr").eval()
    with torch.no_grad():
        found.scorer.bilinear.mul_(0.2)
    words, limit = ["anna", "of", "bo"], 0.15
    batch = found.pieces([words])
    marginals = TreeCRF(found(batch).detach(), batch.lengths).marginals[0, ..., : len(LABELS)]
    options = [(i, j, k, float(marginals[i, j, k])) for i, j, k in torch.nonzero(marginals >= limit).tolist()]

    def fits(chosen: tuple[Any, ...]) -> bool:
        return all(
            a[:2] != b[:2] and not (a[0] < b[0] <= a[1] < b[1] or b[0] < a[0] <= b[1] < a[1])
            for a, b in combinations(chosen, 2)
        )

    sets = [chosen for size in range(6) for chosen in combinations(options, size) if fits(chosen)]
    best = max(sets, key=lambda chosen: sum(one[3] - limit for one in chosen))
    (spans,) = found.decode(batch, [limit] * len(LABELS))
    assert len(options) > len(best) > 1
    assert {(one.start, one.end - 1, LABELS.index(one.label)) for one in spans} == {one[:3] for one in best}


def test_local_models_have_thresholds_too(tmp_path: Path) -> None:
    found = sure(tmp_path, loss="local")
    everything = found.predict(TEXT)
    assert len(found.predict(TEXT, threshold=0.9)) < len(everything)
    assert all(one.score >= 0.9 for one in found.predict(TEXT, threshold=0.9))
    with pytest.raises(ValueError, match="has no trees"):
        found.predict(TEXT, trees=True)


# --- Trees ---


def test_trees_hold_the_entities_and_every_word(found: NestedNER) -> None:
    prediction = found.predict(TEXT, trees=True)
    assert prediction.trees is not None
    assert [one[:4] for one in found.predict(TEXT)] == [one[:4] for one in prediction]
    assert found.predict(TEXT).trees is None
    nodes = [node for tree in prediction.trees for node in tree]
    for tree, (start, end) in zip(prediction.trees, prediction.document.sentences or (), strict=True):
        assert len(tree) == 2 * (end - start) - 1
    assert {(one.start, one.end, one.label) for one in prediction} == {node[:3] for node in nodes if node.label}
    (other,) = found.predict_tokens([["anna", "of", "bo"]], trees=True)
    assert other.trees is not None
    assert {node[:2] for node in other.trees[0]} >= {(0, 3), (0, 1), (1, 2), (2, 3)}


# --- Strange text ---


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "word",
        "\x00\x01",
        "a\ud800b \udfff",
        "日本語のテキスト。и кириллица, عربي mixed",
        "e\u0301" * 20,
        "\u200b\ufeff",
        "👩‍👩‍👧 went to Leeds",
        "x" * 5000,
        "a\rb\r\nc\u2028d",
    ],
    ids=repr,
)
def test_any_text_has_a_prediction(found: NestedNER, text: str) -> None:
    prediction = found.predict(text, trees=True)
    assert prediction.text == text
    assert all(text[one.start : one.end] == one.text for one in prediction)
    assert found.count_tokens(text) >= len(prediction.words)
    assert prediction.as_dict()["text"] == text


def test_words_may_be_any_iterable(found: NestedNER) -> None:
    (prediction,) = found.predict_tokens([map(str, ["anna", "runs"])])  # type: ignore[list-item]
    assert list(prediction.words) == ["anna", "runs"]


def test_without_nesting_the_outermost_stay(found: NestedNER) -> None:
    assert found.predict(TEXT, nested=False).entities == found.predict(TEXT, flat="outermost").entities


def test_a_word_of_more_pieces_than_a_window_is_said_to_be_windowed(tmp_path: Path) -> None:
    found = model(tmp_path, positions=12)
    text = "ab " + "z" * 30
    assert found.count_tokens(text) == 32
    assert found.predict(text).windowed == ((0, len(text)),)
    assert found.predict("ab " + "z" * 8).windowed == ()


def test_an_error_of_a_source_comes_after_what_was_before_it(found: NestedNER) -> None:
    def texts() -> Iterator[str]:
        yield from ["Anna runs."] * 20
        raise OSError("gone")

    following = found.predict_stream(texts())
    assert [next(following).text for _ in range(20)] == ["Anna runs."] * 20
    with pytest.raises(OSError, match="gone"):
        next(following)


def test_count_tokens_counts_pieces(found: NestedNER) -> None:
    pieces = found.pieces([["Anna", "runs"]]).attention.sum()
    assert found.count_tokens("Anna runs") == int(pieces) - 2  # without those at both ends


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda one: one.predict([["a", "b"]]), TypeError, "text 0 is a list, not a string.*predict_tokens"),
        (lambda one: one.predict(["a", None]), TypeError, "text 1 is a NoneType"),
        (
            lambda one: one.predict_tokens(["a b"]),
            TypeError,
            r"item 0 is a string.*predict_tokens\(\[words\]\).*predict",
        ),
        (lambda one: one.predict_tokens([[1]]), TypeError, "item 0 is not a list of words.*predict"),
        (lambda one: one.predict(b"a"), TypeError, "texts is bytes.*decode"),
        (lambda one: next(one.predict_stream("a")), TypeError, "texts is one string"),
        (lambda one: one.predict("a", treshold=0.5), TypeError, "no option 'treshold'; known are threshold, flat"),
        (lambda one: one.count_tokens(["a"]), TypeError, "text is a list, not a string"),
        (lambda one: one.predict_tokens([["a", ""]]), ValueError, "empty word"),
        (lambda one: one.predict("a", threshold=2), ValueError, "from 0 to 1"),
        (lambda one: one.predict("a", threshold={"XYZ": 0.5}), ValueError, "no such label; it has"),
        (lambda one: one.predict("a", flat="inner"), ValueError, "'outermost', 'innermost', 'best'"),
        (lambda one: one.predict("a", max_words=2), ValueError, "8 at least"),
        (lambda one: one.predict("a", budget=0), ValueError, "1 at least"),
    ],
)
def test_what_makes_no_sense_is_refused(found: NestedNER, call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(found)


# --- Long text ---


def test_five_thousand_words_without_a_full_stop(found: NestedNER) -> None:
    text = " ".join(["anna", "of", "the", "acme", "club"] * 1000)
    prediction = found.predict(text)
    assert prediction.windowed == ((0, len(text)),)
    assert prediction[-1].end > len(text) - 100
    assert len({one[1:4] for one in prediction}) == len(prediction)
    for one, other in pairwise(prediction):
        assert not one.start < other.start < one.end < other.end
    assert found.predict("anna of the acme club").windowed == ()


def test_sentences_longer_than_the_encoder_are_said_to_be_windowed(tmp_path: Path) -> None:
    found = model(tmp_path, positions=12)
    assert found.predict("ab " * 30).windowed == ((0, 89),)


def test_windows_share_a_quarter_and_cover_everything() -> None:
    for words in (1, 8, 9, 31, 100):
        windows = list(reading.windows_of(words, 8))
        assert windows[0][0] == 0
        assert windows[-1][1] == words
        assert all(end - start <= 8 for start, end in windows)
        assert all(b[0] == a[0] + 6 for a, b in pairwise(windows))


def test_what_two_windows_find_comes_once_and_without_crossing() -> None:
    windows = [(0, 8), (6, 14)]
    first = [Span(0, 2, "A", 0.9), Span(5, 8, "A", 0.6), Span(7, 8, "B", 0.9)]
    second = [Span(0, 2, "C", 0.9), Span(1, 2, "B", 0.8), Span(1, 4, "A", 0.7), Span(6, 8, "A", 0.9)]
    merged = reading.merged([first, second], windows)
    # Words up to 6 are the first window's. (7, 8) is taken from the second one; (5, 8) crosses (7, 10), which is surer.
    assert merged == [Span(0, 2, "A", 0.9), Span(7, 10, "A", 0.7), Span(7, 8, "B", 0.8), Span(12, 14, "A", 0.9)]


def test_of_many_windows_nothing_crosses_and_nothing_is_lost_without_a_reason() -> None:
    chance = random.Random(0)
    for _ in range(200):
        windows = list(reading.windows_of(60, 16))
        parts = []
        for start, end in windows:
            size, found = end - start, []
            for _ in range(12):
                first = chance.randrange(size)
                span = Span(first, min(size, first + chance.randint(1, 6)), chance.choice("AB"), chance.random())
                if not any(_cross(span, other) for other in found):
                    found.append(span)
            parts.append(found)
        merged = reading.merged(parts, windows)
        assert not any(_cross(one, other) for one, other in combinations(merged, 2))
        borders = [0, *((b + a) // 2 for (_, a), (b, _) in pairwise(windows)), 60]
        for (start, _), part, (first, last) in zip(windows, parts, pairwise(borders), strict=True):
            for one in part:
                moved = one._replace(start=one.start + start, end=one.end + start)
                if first <= moved.start < last and moved not in merged:
                    others = [
                        a._replace(start=a.start + b[0], end=a.end + b[0])
                        for p, b in zip(parts, windows, strict=True)
                        for a in p
                    ]
                    assert any(_cross(moved, other) for other in others)


def _cross(one: Span, other: Span) -> bool:
    return one.start < other.start < one.end < other.end or other.start < one.start < other.end < one.end


def test_latent_nodes_do_not_reach_over_the_border_of_windows() -> None:
    first, second = [Node(0, 8, None, 0.9), Node(2, 4, None, 0.8)], [Node(0, 8, None, 0.9), Node(3, 5, None, 0.8)]
    merged = reading.merged([first, second], [(0, 8), (6, 14)])
    assert merged == [Node(2, 4, None, 0.8), Node(9, 11, None, 0.8)]


# --- Streams ---


class Slow:
    """A way to find things in two steps that tells their order, and has room for so many sentences at a time."""

    def __init__(self, room: int = 99) -> None:
        self.told: list[str] = []
        self._room, self._held = room, 0

    def ask(self, batch: Batch) -> int:
        if self._held + len(batch.lengths) > self._room:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self._held += len(batch.lengths)
        self.told.append(f"ask {len(batch.lengths)}")
        return len(batch.lengths)

    def make(self, asked: int) -> list[list[Span]]:
        self._held -= asked
        self.told.append(f"make {asked}")
        return [[Span(0, 1, "A", 0.5)]] * asked

    @property
    def steps(self) -> Steps[Span]:
        return Steps(self.ask, self.make)


def test_answers_are_taken_some_batches_after_they_were_asked_for(found: NestedNER) -> None:
    slow, cuts = Slow(), found.pieces.cut([["Anna"]] * 7)
    desk, answers = reading._Desk(found, slow.steps), reading._Answers[Span](cuts)
    desk._most = 2
    for numbers in ([0], [1, 2], [3], [4, 5, 6]):
        desk.ask(answers, numbers)
    assert slow.told == ["ask 1", "ask 2", "ask 1", "make 1", "ask 3", "make 2"]
    assert not answers.complete
    desk.finish()
    assert answers.complete
    assert answers.found == [[Span(0, 1, "A", 0.5)]] * 7


def test_where_memory_does_not_suffice_answers_are_taken_first_and_batches_halved(found: NestedNER) -> None:
    slow, cuts = Slow(room=3), found.pieces.cut([["Anna"]] * 9)
    desk, answers = reading._Desk(found, slow.steps), reading._Answers[Span](cuts)
    desk._most = 5
    for numbers in ([0, 1], [2, 3], [4, 5, 6, 7, 8]):
        desk.ask(answers, numbers)
    desk.finish()
    assert answers.found == [[Span(0, 1, "A", 0.5)]] * 9
    assert slow.told[:4] == ["ask 2", "make 2", "ask 1", "ask 1"]
    with pytest.raises(torch.OutOfMemoryError):
        reading._Desk(found, Slow(room=0).steps).ask(answers, [0])


@pytest.mark.parametrize("most", [0, 1, 4])
def test_a_stream_gives_the_same_however_many_batches_are_under_way(
    found: NestedNER, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    made = reading._Desk.__init__

    def later(desk: Any, *arguments: Any) -> None:
        made(desk, *arguments)
        desk._most = most

    monkeypatch.setattr(reading, "AHEAD", 3)
    monkeypatch.setattr(reading._Desk, "__init__", later)
    monkeypatch.setattr(reading, "_more_is_ready", lambda groups: most > 0)  # as with a GPU
    texts = ["Anna of the acme club runs. Bo runs."] * 4 + ["The club of Anna!", "", "Bo"] * 3

    def places(prediction: Prediction) -> list[tuple[int, int, str]]:
        return [(one.start, one.end, one.label) for one in prediction]

    streamed = list(map(places, found.predict_stream(texts, budget=8)))
    assert sum(map(len, streamed)) > 20
    monkeypatch.undo()
    assert streamed == [places(found.predict(one)) for one in texts]


def test_a_model_that_learns_goes_on_learning(tmp_path: Path) -> None:
    found = model(tmp_path).train()
    first, again = (found.predict(["Anna of the acme club runs."] * 2) for _ in range(2))
    assert first == again
    assert all(part.training for part in found.modules())


def test_a_stream_takes_a_few_texts_at_a_time(found: NestedNER, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AHEAD", 4)
    taken = 0

    def texts() -> Iterator[str]:
        nonlocal taken
        for number in range(50):
            taken += 1
            yield f"Anna {number} of the acme club." if number % 3 else ""

    stream = found.predict_stream(texts())
    assert taken == 0
    first = next(stream)
    assert taken <= 8
    assert [first.text, *(one.text for one in stream)] == [
        f"Anna {number} of the acme club." if number % 3 else "" for number in range(50)
    ]
    assert taken == 50


def test_first_results_come_soon_and_later_ones_in_larger_groups(found: NestedNER) -> None:
    taken = 0

    def texts() -> Iterator[str]:
        nonlocal taken
        for _ in range(5 * reading.FIRST):
            taken += 1
            yield "Anna runs."

    stream = found.predict_stream(texts())
    next(stream)
    assert taken <= reading.FIRST + 1
    for _ in range(reading.FIRST):
        next(stream)
    assert taken == 5 * reading.FIRST


def test_memory_does_not_grow_with_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = model(tmp_path)
    monkeypatch.setattr(reading, "AHEAD", 64)

    def peak(sentences: int) -> int:
        text = "Anna runs to the club. " * sentences
        tracemalloc.start()
        try:
            assert not found.predict(text, threshold=1.0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(64)
    # Held is where words and sentences are, some 140 bytes a word; their pieces would take four times as much.
    assert peak(4000) - peak(400) < 3600 * 6 * 200


def test_entities_are_plain_data(found: NestedNER) -> None:
    entity = found.predict(TEXT)[0]
    assert isinstance(entity, PredictedEntity)
    assert set(entity._asdict()) >= {"text", "label", "start", "end", "score", "depth", "parent"}
