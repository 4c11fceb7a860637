"""Batches of texts in, batches of predictions out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nestree.data import Document
from nestree.model import NestedNER
from nestree.prediction import reading
from nestree.prediction.engines import predict_batches
from nestree.prediction.predict import Options
from tests.prediction.engines.cases import texts


@pytest.fixture(scope="module")
def loaded(model: Path) -> NestedNER:
    return NestedNER.from_pretrained(model).eval()


@settings(max_examples=20)
@given(sizes=st.lists(st.integers(0, 4), max_size=6))
def test_batches_keep_their_sizes_and_their_order(loaded: NestedNER, sizes: list[int]) -> None:
    every = texts("some", sum(sizes))
    rest = iter(every)
    batches = [[next(rest) for _ in range(size)] for size in sizes]
    found = list(predict_batches(loaded, batches))
    assert [len(batch) for batch in found] == sizes
    assert [one for batch in found for one in batch] == list(loaded.predict_stream(every))


def test_documents_keep_their_words_and_texts_are_split(loaded: NestedNER) -> None:
    words = Document.from_words(["Anna", "of", "acme."])
    ((first, second, third),) = predict_batches(loaded, [[words, "Anna of acme.", Document("Bo runs.", id="b")]])
    assert first.words == ("Anna", "of", "acme.")
    assert second.words == ("Anna", "of", "acme", ".")
    assert third.document.id == "b"


def test_a_few_batches_are_held_at_a_time(loaded: NestedNER, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AHEAD", 4)
    taken = 0

    def batches() -> Iterator[list[str]]:
        nonlocal taken
        for taken in range(1, 101):  # noqa: B007
            yield ["Bo runs.", "Anna."]

    found = predict_batches(loaded, batches())
    next(found)
    assert taken <= 3
    assert len(list(found)) == 99


def test_options_are_those_of_predict(loaded: NestedNER) -> None:
    ((found,),) = predict_batches(loaded, [["Anna of the acme club."]], Options(threshold=0.9, flat="outermost"))
    assert list(found) == list(loaded.predict("Anna of the acme club.", threshold=0.9, flat="outermost"))
    with pytest.raises(ValueError, match="the model has no such label"):
        predict_batches(loaded, [], Options(threshold={"DOG": 0.5}))


def test_what_is_no_text_is_named(loaded: NestedNER) -> None:
    wrong: Any = [["Bo."], ["Anna.", None]]
    with pytest.raises(TypeError, match="item 1 of batch 1 is a NoneType"):
        list(predict_batches(loaded, wrong))
