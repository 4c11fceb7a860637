"""Packing and hiding: whole words, the right share, never special pieces, the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nestree.adaptation import Text
from nestree.adaptation.prepared import enough_words, held_out_sentences, held_out_share, prepare
from nestree.adaptation.windows import IGNORED, MEASURING, SPECIAL, Windows, ordinary_pieces, rounded_up, windows_of
from nestree.data.errors import DataError
from nestree.model.pieces import Pieces
from tests.adaptation.cases import pieces as small_pieces
from tests.adaptation.cases import settings

SENTENCES = [["abc", "d", "efghi"], ["jk"], ["l", "mnop", "q", "rs"], ["t"] * 40, ["uvw"]]


@pytest.fixture
def pieces(tmp_path: Path) -> Pieces:
    return small_pieces(tmp_path)


def windows(pieces: Pieces, sentences: list[list[str]], mask: float = 0.3, seed: int = 0) -> Windows:
    cut = windows_of(sentences, pieces, 32, pack=True)
    return Windows(cut, pieces, ordinary_pieces(pieces.tokenizer), mask, seed)


def many(number: int = 400) -> list[list[str]]:
    return [
        [f"{'abcdefghij'[at % 10]}{'klm'[: at % 4]}" for at in range(first, first + 3 + first % 9)]
        for first in range(number)
    ]


@pytest.mark.parametrize("pack", [True, False])
def test_every_piece_is_in_one_window_and_in_order(pieces: Pieces, pack: bool) -> None:
    found = windows_of(SENTENCES, pieces, 32, pack=pack)
    special = set(pieces.tokenizer.all_special_ids)
    read = [int(piece) for window in found for piece in window.pieces if int(piece) not in special]
    assert read == [piece for words in SENTENCES for word in pieces.of_words(words) for piece in word]
    assert all(len(window.pieces) <= 32 for window in found)


def test_packed_sentences_have_a_separator_between_them_and_are_whole(pieces: Pieces) -> None:
    first = windows_of(SENTENCES[:2], pieces, 32, pack=True)
    assert len(first) == 1
    tokens = pieces.tokenizer.convert_ids_to_tokens(first[0].pieces.tolist())
    assert tokens == ["[CLS]", "a", "##b", "##c", "d", "e", "##f", "##g", "##h", "##i", "[SEP]", "j", "##k", "[SEP]"]
    assert first[0].begins.tolist() == [-1, 1, 1, 1, 4, 5, 5, 5, 5, 5, -1, 11, 11, -1]
    assert len(windows_of(SENTENCES[:3], pieces, 20, pack=True)) == 2  # the third does not fit beside the others


def test_without_packing_windows_are_what_the_tagger_reads(pieces: Pieces) -> None:
    found = windows_of(SENTENCES[:3], pieces, 32, pack=False)
    for window, cut in zip(found, pieces.cut(SENTENCES[:3]), strict=True):
        assert window.pieces.tolist() == cut.windows[0].tolist()


def test_long_sentences_go_on_at_a_words_border(pieces: Pieces) -> None:
    found = windows_of([["abc"] * 30], pieces, 32, pack=True)
    assert len(found) > 1
    for window in found:
        assert (len(window.pieces) - 2) % 3 == 0


def test_hidden_are_whole_words_and_never_special_pieces(pieces: Pieces) -> None:
    made = windows(pieces, many())
    numbers = np.arange(len(made))
    shown, there, hidden = made.hidden(numbers, 1)
    begins = np.where(there, made._begins.padded(numbers, shown.shape[1])[0], SPECIAL)
    assert hidden.any()
    assert not hidden[begins == SPECIAL].any()
    for row in range(len(numbers)):
        for word in set(begins[row][begins[row] >= 0].tolist()):
            assert len(set(hidden[row][begins[row] == word].tolist())) == 1


def test_the_share_is_as_asked_for(pieces: Pieces) -> None:
    made = windows(pieces, many(3000), mask=0.15)
    numbers = np.arange(len(made))
    shown, there, hidden = made.hidden(numbers, 1)
    begins = np.where(there, made._begins.padded(numbers, shown.shape[1])[0], SPECIAL)
    first = begins == np.arange(shown.shape[1])  # one place for each word
    assert hidden[first].mean() == pytest.approx(0.15, abs=0.01)


def test_eight_of_ten_are_masked_one_is_random_one_stays(pieces: Pieces) -> None:
    made = windows(pieces, many(3000), mask=0.3)
    numbers = np.arange(len(made))
    original = made.hidden(numbers, 1)[0]
    batch = made.batch(numbers, 1)
    count = batch.count
    places = batch.places.numpy()[:count]
    shown = batch.pieces.numpy().ravel()[places]
    wanted = batch.targets.numpy()[:count]
    assert np.array_equal(original.ravel()[places], wanted)
    assert (batch.targets.numpy()[count:] == IGNORED).all()
    mask = pieces.tokenizer.mask_token_id
    assert (shown == mask).mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == wanted).mean() == pytest.approx(0.1, abs=0.02)
    assert not np.isin(shown[shown != mask], pieces.tokenizer.all_special_ids).any()
    untouched = np.ones(batch.pieces.numel(), dtype=bool)
    untouched[places] = False
    there = batch.attention.numpy().ravel() == 1
    assert np.array_equal(batch.pieces.numpy().ravel()[untouched & there], original.ravel()[untouched & there])


def test_what_is_hidden_depends_on_seed_pass_and_window_alone(pieces: Pieces) -> None:
    made, again = windows(pieces, many()), windows(pieces, many())
    numbers = np.array([5, 2, 9])
    one = made.batch(numbers, 3)
    assert one.pieces.equal(again.batch(numbers, 3).pieces)
    assert not one.pieces.equal(made.batch(numbers, 4).pieces)
    assert not one.pieces.equal(windows(pieces, many(), seed=1).batch(numbers, 3).pieces)
    other = made.batch(np.array([7, 9, 1, 2]), 3)
    width = min(one.pieces.shape[1], other.pieces.shape[1])
    assert one.pieces[2, :width].equal(other.pieces[1, :width])
    assert one.pieces[1, :width].equal(other.pieces[3, :width])


def test_a_pass_has_every_window_once(pieces: Pieces) -> None:
    made = windows(pieces, many())
    for epoch in (1, 2):
        plan = made.plan(epoch, 8)
        assert sorted(np.concatenate(plan).tolist()) == list(range(len(made)))
    assert [one.tolist() for one in made.plan(1, 8)] != [one.tolist() for one in made.plan(2, 8)]


def test_the_same_sentence_is_never_on_both_sides() -> None:
    sentences = [[str(at % 50), "word"] for at in range(500)]
    held = held_out_sentences(sentences, 0.1, 0)
    sides = {}
    for words, side in zip(sentences, held, strict=True):
        assert sides.setdefault(tuple(words), side) is side
    assert 0 < sum(held) < 250
    assert held == held_out_sentences(sentences, 0.1, 0)
    assert held != held_out_sentences(sentences, 0.1, 1)


@pytest.mark.parametrize("share", [1e-12, 1 - 1e-12])
def test_something_is_on_both_sides(share: float) -> None:
    held = held_out_sentences([["a"], ["b"], ["c"]], share, 0)
    assert 0 < sum(held) < 3


def test_passes_follow_the_size_of_the_text() -> None:
    config = settings(epochs=0)
    assert [config.passes(pieces) for pieces in (10, 700_000, 7_000_000, 10**9)] == [100, 100, 10, 3]
    assert settings(epochs=7).passes(10) == 7


@pytest.mark.parametrize("count", [0, 1, 15, 17, 150, 4900, 10_000])
def test_room_for_guesses(count: int) -> None:
    assert count <= rounded_up(count) <= max(16, count + count / 8 + 16)


def test_one_sentence_is_no_text() -> None:
    with pytest.raises(DataError, match="two different sentences"):
        held_out_sentences([["a"], ["a"]], 0.5, 0)


def test_held_out_text_of_which_nothing_is_hidden_is_refused(pieces: Pieces) -> None:
    # With nothing to guess, every encoder would be as good as any other.
    text = Text((("a", "b"), ("c", "d")), (), "")
    with pytest.raises(DataError, match=r"no word is hidden of what is held out \(1 of 2 sentences\).*Name more text"):
        prepare(text, pieces, settings(mask=0.001))
    found = prepare(text, pieces, settings(mask=0.999))
    assert found.held.batch(np.arange(len(found.held)), MEASURING).count == 2


def test_more_is_held_out_of_little_text() -> None:
    config = settings(mask=0.15, held_out=0.03)
    assert held_out_share(10_000_000, config) == 0.03
    assert held_out_share(1000, config) == 0.1
    assert 0.03 < held_out_share(100_000, config) < 0.1
    assert held_out_share(1000, settings(held_out=0.3)) == 0.3
    assert enough_words(config) == 66_667
