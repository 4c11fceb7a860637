from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import treebank
from experiments.brackets import (
    Agreement,
    Comparison,
    GoldTree,
    Span,
    left_binarised,
    left_branching,
    nontrivial,
    random_tree,
    right_branching,
    right_branching_around,
)

SENTENCE = """<sentence><cons cat="S">
<cons cat="NP"><tok cat="NN">IL-2</tok> <tok cat="NN">gene</tok> <tok cat="NN">expression</tok></cons>
<cons cat="VP"><tok cat="VBZ">requires</tok> <cons cat="NP" null="NONE"></cons>
<cons cat="NP"><tok cat="NN">NF-kappa</tok> <tok cat="NN">B</tok></cons></cons>
<tok cat="PERIOD">.</tok></cons></sentence>"""
WORDS = ["IL", "-", "2", "gene", "expression", "requires", "NF", "-", "kappa", "B", "."]


def gold() -> GoldTree:
    tree = treebank.aligned(WORDS, treebank.parsed(ElementTree.fromstring(SENTENCE)))
    assert tree is not None
    return tree


def is_binary(spans: set[Span], length: int) -> bool:
    """Whether spans of more than one word are a binary tree: each but the words has exactly two children."""
    every = spans | {(at, at + 1) for at in range(length)}
    return (length == 1 or (0, length) in spans) and all(
        any((start, split) in every and (split, end) in every for split in range(start + 1, end))
        for start, end in spans
    )


def test_a_treebank_sentence_is_read_with_its_constituents() -> None:
    tree = gold()
    assert tree.tokens == ((0, 3), (3, 4), (4, 5), (5, 6), (6, 9), (9, 10), (10, 11))
    assert tree.wanted == {(0, 3), (3, 6), (4, 6)}
    assert tree.constituents[4, 6] == "NP"
    assert tree.constituents[3, 6] == "VP"
    assert tree.punctuation == {6}


def test_a_sentence_with_other_words_is_not_aligned() -> None:
    parsed = treebank.parsed(ElementTree.fromstring(SENTENCE))
    assert treebank.aligned(["IL-2g", "ene", *WORDS[4:]], parsed) is None
    assert treebank.aligned(WORDS[:-1], parsed) is None


def test_sentences_are_matched_by_their_text(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "treebank.zip", "w") as archive:
        archive.writestr("one.xml", f"<a>{SENTENCE}<sentence><tok cat='NN'>Unknown</tok></sentence></a>")
    read = list(treebank.read_treebank(tmp_path / "treebank.zip"))
    found = treebank.match([["Another", "one"], WORDS], read)
    assert [number for number, _ in found.trees] == [1]
    assert (found.sentences, found.other_text, found.other_tokens) == (2, 1, 0)


def test_spans_within_a_token_are_no_brackets_and_spans_across_one_are_wrong() -> None:
    tree = gold()
    assert tree.in_tokens([(0, 2), (0, 3), (6, 9)]) == []  # within a token, or one
    assert tree.in_tokens([(0, 4), (2, 5), (6, 10)]) == [(0, 2), None, (4, 6)]


def test_agreement_of_a_hand_made_tree() -> None:
    found = Comparison()
    # right: (0, 5) and (6, 10) in words; wrong: the others, one of which begins within a token
    found.add(gold(), gold().in_tokens([(0, 11), (0, 5), (2, 5), (6, 10), (5, 11), (0, 10)]))
    assert (found.plain.right, found.plain.guessed, found.plain.gold) == (2, 5, 3)
    # without the full stop (0, 10) is the whole sentence, and (5, 11) is the VP
    assert (found.usual.right, found.usual.guessed, found.usual.gold) == (3, 4, 3)
    assert found.as_dict()["paper"]["precision"] == 40.0


def test_the_full_stop_leaves_nothing_to_right_branching_trees() -> None:
    found = Comparison()
    found.add(gold(), gold().in_tokens(right_branching(len(WORDS))))
    assert found.plain.right == 0
    assert found.usual.right == 2  # VP and the NP in it


def test_the_oracle_has_every_constituent_and_is_binary() -> None:
    tree = gold()
    oracle = left_binarised(tree)
    assert tree.wanted <= oracle
    assert is_binary(oracle, len(tree.tokens))
    assert oracle == {(0, 7), (0, 6), (0, 3), (0, 2), (3, 6), (4, 6)}


@given(st.integers(1, 12), st.integers(0, 1000))
def test_baselines_are_binary_trees(length: int, seed: int) -> None:
    for tree in (left_branching(length), right_branching(length), random_tree(length, random.Random(seed))):
        assert is_binary(tree, length)
        assert len(tree) == length - 1


@given(st.integers(2, 12), st.data())
def test_random_trees_hold_what_they_must_not_cross(length: int, data: st.DataObject) -> None:
    ends = st.tuples(st.integers(0, length - 1), st.integers(1, length)).filter(lambda one: one[0] < one[1])
    spans: list[Span] = []
    for start, end in data.draw(st.lists(ends, max_size=4)):
        if not any(low < start < high < end or start < low < end < high for low, high in spans):
            spans.append((start, end))
    tree = random_tree(length, random.Random(data.draw(st.integers(0, 99))), spans)
    assert is_binary(tree, length)
    assert {one for one in spans if one[1] - one[0] > 1} <= tree


def test_all_trees_of_four_words_are_drawn() -> None:
    chance = random.Random(0)
    drawn = {frozenset(random_tree(4, chance)) for _ in range(500)}
    assert len(drawn) == 5  # the Catalan number


@given(st.integers(1, 8), st.data())
def test_agreement_is_that_of_sets_counted_by_hand(length: int, data: st.DataObject) -> None:
    every = [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
    gold_, guessed = (data.draw(st.sets(st.sampled_from(every))) for _ in range(2))
    found = Agreement()
    found.add(gold_, sorted(guessed))
    assert found.right == sum(one in guessed for one in gold_)
    total = len(gold_) + len(guessed)
    assert found.as_dict()["f1"] == pytest.approx(200 * found.right / total if total else 0, abs=1e-3)
    assert nontrivial(every, length) == {one for one in every if one[1] - one[0] > 1 and one != (0, length)}


def test_a_chain_of_equal_constituents_is_one_bracket() -> None:
    chain = "<sentence><cons cat='S'><cons cat='NP'><tok cat='A'>a</tok><tok cat='B'>b</tok></cons></cons></sentence>"
    parsed = treebank.parsed(ElementTree.fromstring(chain))
    assert parsed.constituents == {(0, 2): "S"}
    assert all(left[1] == right[0] for left, right in pairwise(parsed.children[0, 2]))


def test_right_branching_around_spans_keeps_them_and_is_right_branching_without() -> None:
    assert right_branching_around(5, []) == right_branching(5)
    assert right_branching_around(5, [(0, 3)]) == {(0, 5), (0, 3), (1, 3), (3, 5)}
    assert right_branching_around(5, [(1, 3)]) == {(0, 5), (1, 5), (1, 3), (3, 5)}
