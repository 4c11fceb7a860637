"""The paper's algorithms: Algorithm 2 = Algorithm 3 = the kernels, on partial trees from random bracketings."""

from __future__ import annotations

import random

import pytest
import torch

from nestree.crf import Symbol, inside, masked_inside, reference
from tests.crf.cases import partial_trees, random_nesting, random_scores

ENTITY_LABELS, LATENT_LABELS = 3, 2


@pytest.mark.parametrize("seed", range(12))
def test_algorithms_2_and_3_and_the_kernels_agree(seed: int, each_backend: str) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    n = rng.randint(1, 9)
    scores = random_scores(1, n, ENTITY_LABELS + LATENT_LABELS).requires_grad_()
    spans = random_nesting(rng, n, ENTITY_LABELS)
    observed = {(i, j): k for i, j, k in spans}
    symbols, mask = reference.symbol_tree_and_mask(n, observed, ENTITY_LABELS, LATENT_LABELS)

    second = reference.inside_for_partial_marginalization(scores[0], observed, symbols, ENTITY_LABELS)
    third = reference.masked_inside(scores[0], mask)
    partial = partial_trees([spans], [n], entity_labels=ENTITY_LABELS, latent_labels=LATENT_LABELS)
    ours = masked_inside(scores, partial)[0]

    torch.testing.assert_close(second, third)
    torch.testing.assert_close(ours, third)
    gradients = [torch.autograd.grad(value, scores)[0] for value in (second, third, ours)]
    torch.testing.assert_close(gradients[1], gradients[0])
    torch.testing.assert_close(gradients[2], gradients[0])
    torch.testing.assert_close(inside(scores)[0], reference.inside(scores[0]))


@pytest.mark.parametrize("seed", range(12))
def test_partial_trees_are_algorithm_1(seed: int) -> None:
    rng = random.Random(seed)
    lengths = [rng.randint(1, 8) for _ in range(4)]
    spans = [random_nesting(rng, m, ENTITY_LABELS) for m in lengths]
    partial = partial_trees(spans, lengths, entity_labels=ENTITY_LABELS, latent_labels=LATENT_LABELS)
    for b, m in enumerate(lengths):
        observed = {(i, j): k for i, j, k in spans[b]}
        symbols, mask = reference.symbol_tree_and_mask(m, observed, ENTITY_LABELS, LATENT_LABELS)
        for i in range(m):
            for j in range(m):
                found = Symbol(int(partial.symbols[b, i, j]))
                assert found.glyph == (symbols[i][j] if i <= j else " ")
        upper = torch.ones(m, m).triu()[..., None]
        torch.testing.assert_close(partial.mask(dtype=torch.float64)[b, :m, :m], mask * upper)
        assert (partial.symbols[b, m:] == Symbol.PADDING).all()
        assert (partial.symbols[b, :, m:] == Symbol.PADDING).all()


def test_the_papers_figure() -> None:
    """Section 3.2: with [AB] observed, [BC] cannot be an entity, and [ABC] may be a latent one."""
    partial = partial_trees([[(0, 1, 0)]], [6], entity_labels=1)
    symbols = partial.symbols[0]
    assert symbols[0, 1] == Symbol.OBSERVED
    assert symbols[1, 2] == Symbol.REJECTED
    assert symbols[0, 2] == symbols[3, 5] == symbols[0, 5] == Symbol.LATENT
    assert (symbols.diagonal() != Symbol.REJECTED).all(), "leaves are observed or latent"
