"""Words become pieces, and no word is ever cut off."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nestree.model.pieces import Pieces
from tests.model.tiny import encoder

WORDS = st.lists(st.text("abc9\x00東 ", min_size=1, max_size=14), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> object:
    return encoder(tmp_path_factory.mktemp("tiny"))[1]


@given(st.lists(WORDS, min_size=1, max_size=3), st.integers(3, 20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_word_is_read_whatever_the_limit(tokenizer: object, sentences: list[list[str]], limit: int) -> None:
    pieces = Pieces(tokenizer, limit)
    batch = pieces(sentences)
    assert batch.pieces.shape[1] <= limit
    flat = batch.pieces.flatten()
    for row, words in enumerate(sentences):
        assert int(batch.lengths[row]) == len(words)
        for at, wanted in enumerate(pieces.of_words(words)):
            found = flat[batch.first[row, at] : batch.last[row, at] + 1].tolist()
            assert found == wanted
            assert wanted
            window = int(batch.first[row, at]) // batch.pieces.shape[1]
            assert window == int(batch.last[row, at]) // batch.pieces.shape[1]
            assert bool(batch.attention[window].any())


def test_words_of_long_sentences_have_context_on_both_sides(tokenizer: object) -> None:
    pieces = Pieces(tokenizer, 22)  # room for 20 words of one piece
    batch = pieces([["a"] * 100])
    width = batch.pieces.shape[1]
    place = batch.first[0] % width
    inner = place[10:-10]
    assert bool((inner >= 5).all())
    assert bool((inner <= width - 6).all())


def test_short_sentences_are_one_window_each(tokenizer: object) -> None:
    batch = Pieces(tokenizer, 64)([["ab", "c"], ["d"]])
    assert batch.windowed == 0
    assert batch.pieces.tolist()[1][2:] == [3, 0, 0, 0, 0, 0]  # as wide as a multiple of eight
    assert torch.equal(batch.lengths, torch.tensor([2, 1]))


def test_words_without_pieces_are_unknown_ones(tokenizer: object) -> None:
    assert Pieces(tokenizer, 64).of_words(["\x00", "a"]) == [[1], [5]]
