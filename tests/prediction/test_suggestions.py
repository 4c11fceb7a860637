"""What is suggested is uncertain, not alike, and says where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nestree.data import Document, Entity
from nestree.model import NestedNER
from nestree.prediction import annotate, suggest, suggestions
from nestree.prediction.diversity import Candidate, Candidates, diverse
from tests.crf.brute_force import EveryTree
from tests.model.tiny import LABELS, model
from tests.prediction.test_trees import sure

SENTENCES = [["anna", "of", "bo"], ["x"], ["the", "club"], ["bo", "runs", "here", "now"]]
POOL = [Document.from_words(words) for words in SENTENCES]


def by_text(found: list[suggestions.Suggestion]) -> dict[str, float]:
    return {one.document.text: one.uncertainty for one in found}


def potentials(found: NestedNER, words: list[str]) -> torch.Tensor:
    """Of one sentence by itself, as decoding has them."""
    with torch.no_grad():
        return found.eval()(found.pieces([words]))[0].double() / found.config.temperature


# --- Uncertainty ---


@pytest.mark.parametrize("settings", [{}, {"temperature": 2.5}, {"normalize": False, "latent_labels": 2}])
def test_it_is_the_entropy_of_all_trees_per_word(settings: dict[str, Any], tmp_path: Path) -> None:
    found = model(tmp_path, **settings)
    uncertainty = by_text(suggest(found, POOL, 10))
    assert len(uncertainty) == len(SENTENCES)
    for words in SENTENCES:
        wanted = EveryTree(potentials(found, words)).entropy / len(words)
        assert uncertainty[" ".join(words)] == pytest.approx(float(wanted), abs=1e-5)


def test_by_entities_it_is_the_entropy_of_what_spans_are(tmp_path: Path) -> None:
    found = model(tmp_path)
    uncertainty = by_text(suggest(found, POOL, 10, by="entities"))
    for words in SENTENCES:
        entities = EveryTree(potentials(found, words)).marginals[..., : len(LABELS)]
        wanted = torch.special.entr(torch.cat([entities, 1 - entities.sum(-1, keepdim=True)], -1))
        spans = torch.ones(len(words), len(words)).triu()
        assert uncertainty[" ".join(words)] == pytest.approx(
            float((wanted.sum(-1) * spans).sum() / len(words)), abs=1e-5
        )


def test_without_trees_spans_are_independent_and_their_entropies_add_up(tmp_path: Path) -> None:
    found = model(tmp_path, loss="local")
    uncertainty = by_text(suggest(found, POOL, 10))
    for words in SENTENCES:
        probabilities = potentials(found, words).softmax(-1)
        spans = torch.ones(len(words), len(words)).triu()
        wanted = (torch.special.entr(probabilities).sum(-1) * spans).sum() / len(words)
        assert uncertainty[" ".join(words)] == pytest.approx(float(wanted), abs=1e-5)
    with pytest.raises(ValueError, match=r"loss = local has no trees: .*\(by entities\)"):
        suggest(found, POOL, by="tree")


@pytest.mark.parametrize("settings", [{}, {"loss": "local"}])
def test_a_model_without_numbers_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    found = model(tmp_path, **settings)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.fill_(torch.nan)
    for by in ("entities",) if settings else ("tree", "entities"):
        with pytest.raises(ValueError, match=r"nan|NaN|not finite"):
            suggest(found, POOL, 10, by=by)


def test_the_most_uncertain_come_first_without_diversity(tmp_path: Path) -> None:
    everything = suggest(model(tmp_path), POOL, 10, diversity=0)
    values = [one.uncertainty for one in everything]
    assert values == sorted(values, reverse=True)
    assert suggest(model(tmp_path), POOL, 2, diversity=0) == everything[:2]


def test_long_sentences_are_read_in_windows_and_count_per_word(tmp_path: Path) -> None:
    words = ["anna", "of", "bo", "runs"] * 10
    (whole,) = suggest(model(tmp_path), [Document.from_words(words)], 1)
    (cut,) = suggest(model(tmp_path), [Document.from_words(words)], 1, max_words=8)
    assert cut.document.words == whole.document.words
    assert 0.5 * whole.uncertainty < cut.uncertainty < 1.5 * whole.uncertainty


# --- What is handed out ---


def test_suggestions_are_pre_annotated_as_predictions_are(tmp_path: Path) -> None:
    found = sure(tmp_path, decoding="mbr")
    wanted = {one.text: one.entities for one in annotate(found, POOL)}
    suggested = suggest(found, POOL, 10)
    assert {one.document.text: one.document.entities for one in suggested} == wanted
    assert any(wanted.values())
    (first, *_) = suggest(found, POOL, 10, threshold=1.0)
    assert not first.document.entities


def test_a_suggestion_says_where_it_comes_from(tmp_path: Path) -> None:
    text = "Anna runs. Bo of the club runs too."
    pool = [Document(text, id="letter", meta={"year": 1901}), "Anna of the club."]
    found = {one.document.id: one.document for one in suggest(model(tmp_path), pool, 10)}
    assert set(found) == {"letter-1", "letter-2", "text-2"}
    one = found["letter-2"]
    said = one.meta["suggested"]
    assert text[said["start"] : said["end"]] == one.text == "Bo of the club runs too."
    assert (said["document"], said["id"], one.meta["year"]) == ("letter", "letter-2", 1901)
    assert one.words == ("Bo", "of", "the", "club", "runs", "too", ".")
    assert sorted(one.meta["suggested"]["rank"] for one in found.values()) == [1, 2, 3]


def test_documents_can_be_suggested_whole(tmp_path: Path) -> None:
    text = "Anna runs. Bo of the club runs too."
    (found,) = suggest(model(tmp_path), [Document(text, (Entity(0, 4, "OLD"),))], 10, unit="document")
    assert found.document.text == text
    assert len(found.document.sentences or ()) == 2
    assert "OLD" not in {one.label for one in found.document.entities}
    parts = suggest(model(tmp_path), [text], 10)
    words = [len(one.document.words) for one in parts]
    mean = sum(n * one.uncertainty for n, one in zip(words, parts, strict=True)) / sum(words)
    assert found.uncertainty == pytest.approx(mean, abs=1e-5)


def test_names_are_unlike_each_other(tmp_path: Path) -> None:
    pool = [Document.from_words(words, id="same") for words in SENTENCES]
    names = {one.document.id for one in suggest(model(tmp_path), pool, 10)}
    assert len(names) == len(SENTENCES)


def test_what_was_annotated_is_not_suggested_again_however_it_is_written(tmp_path: Path) -> None:
    pool = ["Anna runs. Bo (of the club) runs too.", "Bo runs."]
    annotated = [
        Document.from_words(["Bo", "(", "of", "the", "club", ")", "runs", "too", "."]),
        Document("Eh? Bo runs."),
    ]
    texts = [one.document.text for one in suggest(model(tmp_path), pool, 10, exclude=annotated)]
    assert texts == ["Anna runs."]


def test_short_ones_can_be_left_out(tmp_path: Path) -> None:
    assert {len(one.document.words) for one in suggest(model(tmp_path), POOL, 10, min_words=3)} == {3, 4}


def test_empty_text_is_no_trouble(tmp_path: Path) -> None:
    assert suggest(model(tmp_path), [], 10) == []
    assert suggest(model(tmp_path), ["", " \n", Document("")], 10) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"by": "luck"}, "by is 'luck'; known are 'tree', 'entities'"),
        ({"unit": "page"}, "unit is 'page'; known are 'sentence', 'document'"),
        ({"diversity": 2}, "diversity is 2; it is a number from 0 to 1"),
        ({"candidates": 0}, "candidates is 0"),
        ({"threshold": 7}, "it is a probability"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        suggest(model(tmp_path), POOL, **options)


# --- Not the same again ---


def test_the_same_text_is_suggested_once_and_so_are_texts_that_differ_in_numbers(tmp_path: Path) -> None:
    pool = ["Anna runs.", "Order 17 for Bo.", "Anna  runs.", "Order 2048 for Bo.", "ANNA runs."]
    assert len(suggest(model(tmp_path), pool, 10)) == 2


def test_the_same_pool_gives_the_same_suggestions(tmp_path: Path) -> None:
    assert suggest(model(tmp_path), POOL, 3) == suggest(model(tmp_path), POOL, 3)


def candidate(number: int, uncertainty: float, vector: list[float]) -> Candidate:
    return Candidate(Document(f"text {chr(97 + number)}"), uncertainty, number, np.array(vector))


def test_near_copies_give_way_to_what_is_unlike_them() -> None:
    copies = [candidate(at, 1 - at / 100, [1, 0.01 * at]) for at in range(5)]
    others = [candidate(5, 0.5, [-1, 0]), candidate(6, 0.4, [0, 3])]
    numbers = [one.number for one in diverse([*copies, *others], 3, 0.5)]
    assert numbers[0] == 0
    assert set(numbers[1:]) == {5, 6}
    assert [one.number for one in diverse([*copies, *others], 3, 0.0)] == [0, 1, 2]


def test_full_diversity_takes_one_of_each_kind() -> None:
    kinds = [[1, 0], [-1, 1], [-1, -1]]
    mixed = [candidate(at, 1 - at / 100, [x + 0.01 * at, y]) for at, (x, y) in enumerate(sorted(kinds * 4))]
    assert len({one.number // 4 for one in diverse(mixed, 3, 1.0)}) == 3
    assert diverse(mixed, 3, 1.0)[0].number == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=60), st.integers(1, 8))
def test_no_more_are_kept_than_allowed_and_they_are_the_most_uncertain(pool: list[tuple[int, int]], limit: int) -> None:
    kept = Candidates(limit)
    of_text: dict[str, float] = {}
    for number, (letter, _) in enumerate(pool):
        document = Document("text " + "abcdefghij"[letter])
        uncertainty = of_text.setdefault(document.text, (letter * 7) % 10)  # a text is always as uncertain
        kept.add(Candidate(document, uncertainty, number, np.zeros(2)))
        assert len(kept) <= limit
    found = [(one.document.text, one.uncertainty) for one in kept.best()]
    assert found == sorted(of_text.items(), key=lambda item: -item[1])[:limit]


def test_a_pool_of_any_size_is_held_a_little_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nestree.prediction import reading

    monkeypatch.setattr(reading, "AHEAD", 4)
    most = 0
    given_out, at_first = 0, 0

    class Counting(Candidates):
        def add(self, candidate: Candidate) -> None:
            nonlocal most, at_first
            at_first = at_first or given_out
            super().add(candidate)
            most = max(most, len(self))

    monkeypatch.setattr(suggestions, "Candidates", Counting)

    def pool() -> Iterator[str]:
        nonlocal given_out
        for number in range(60):
            given_out += 1
            yield "anna " + "of " * (number % 7) + "bo" + "o" * number

    assert len(suggest(model(tmp_path), pool(), 2, candidates=3)) == 2
    assert most == 6
    assert 1 <= at_first <= 5  # when the first one was looked at
    assert given_out == 60


def test_an_exported_model_suggests_too(tmp_path: Path) -> None:
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason='exporting needs pip install "nestree[onnx]"')
    from nestree.export import export, load

    found = sure(tmp_path).eval()
    export(found, tmp_path / "exported")
    again = by_text(suggest(load(tmp_path / "exported"), POOL, 10))
    for text, uncertainty in by_text(suggest(found, POOL, 10)).items():
        assert again[text] == pytest.approx(uncertainty, abs=1e-4)


def test_annotation_of_the_pool_is_not_looked_at(tmp_path: Path) -> None:
    said = [replace(one, entities=(Entity(0, 1, "X"),), complete_labels=()) for one in POOL]
    assert by_text(suggest(model(tmp_path), said, 10)) == by_text(suggest(model(tmp_path), POOL, 10))
    assert not any(one.document.incomplete for one in suggest(model(tmp_path), said, 10))
