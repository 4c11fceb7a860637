from __future__ import annotations

import pytest
import torch

from nestree.crf import PartialTrees
from nestree.drawing import draw_marginals, draw_symbols, draw_tree

WORDS = ["a", "bb", "c"]


def test_a_symbol_tree_shows_the_three_kinds() -> None:
    partial = PartialTrees.from_spans([[(0, 1, 0)]], [3], entity_labels=1, n=5)
    assert draw_symbols(partial.symbols[0], WORDS).splitlines() == [
        "    a  bb  c",
        "a   □  ●   □",
        "bb     □   ○",
        "c          □",
    ]


def test_columns_hold_with_wide_characters() -> None:
    words = ["東京", "x"]
    partial = PartialTrees.from_spans([[]], [2], entity_labels=1)
    lines = draw_symbols(partial.symbols[0], words).splitlines()
    assert lines[0] == "      東京  x"
    assert lines[1] == "東京   □    □"
    assert lines[2] == "x           □"


def test_a_tree_shows_entities_and_latent_nodes_with_probabilities() -> None:
    nodes = torch.full((3, 3), -1)
    nodes[0, 2], nodes[0, 1], nodes[0, 0], nodes[1, 1], nodes[2, 2] = 0, 1, 1, 0, 1
    marginals = torch.full((3, 3, 2), 0.25)
    drawn = draw_tree(nodes, WORDS, ["PER", "latent"], entity_labels=1, marginals=marginals)
    assert drawn.splitlines() == [
        "PER a bb c    0.250",
        "├╌ · a bb     0.250",
        "│  ├╌ · a     0.250",
        "│  └─ PER bb  0.250",
        "└╌ · c        0.250",
    ]
    assert draw_tree(torch.full((3, 3), -1), WORDS, ["PER"], entity_labels=1) == "(no tree)"


def test_marginals_come_most_probable_first() -> None:
    marginals = torch.zeros(3, 3, 2)
    marginals[0, 1, 0], marginals[2, 2, 1] = 0.5, 1.0
    assert draw_marginals(marginals, WORDS, ["PER", "latent"]).splitlines() == [
        "latent  c     1.000  " + "█" * 24,
        "PER     a bb  0.500  " + "█" * 12,
    ]
    assert "no labelled span" in draw_marginals(torch.zeros(3, 3, 2), WORDS, ["PER", "latent"])


def test_words_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"4 words do not fit a chart of shape \[3, 3\]"):
        draw_symbols(torch.zeros(3, 3), [*WORDS, "d"])
