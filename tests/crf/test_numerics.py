"""Exactness where peers lose it: large scores, outliers, -inf, sentences without a tree."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from nestree.crf import NoTreeError, TreeCRF, backend
from nestree.crf.kernels import cpu
from tests.crf.cases import NEVER, generator, interpreted, partial_trees, random_nesting, random_scores

needs_kernels = pytest.mark.skipif(cpu.library is None, reason="the CPU kernels are not compiled here")


def outliers(batch: int, n: int, labels: int) -> Tensor:
    scores = random_scores(batch, n, labels, dtype=torch.float32)
    where = torch.rand(scores.shape) < 0.01
    return torch.where(where, torch.where(torch.rand(scores.shape) < 0.5, 1e4, -1e4), scores)


@pytest.mark.parametrize("scale", [1, 3, 10, 30, "outliers"])
@pytest.mark.parametrize("n", [20, 100, 200])
def test_float32_results_are_those_of_float64(n: int, scale: int | str, each_backend: str) -> None:
    if interpreted(each_backend) and n > 20:
        pytest.skip("interpreted kernels get small sentences; a GPU gets these")
    lengths = [n, n - 3, n // 2]
    scores = outliers(3, n, 4) if scale == "outliers" else random_scores(3, n, 4, scale=scale, dtype=torch.float32)
    rng = random.Random(n)
    partial = partial_trees([random_nesting(rng, m, 3, 0.1) for m in lengths], lengths, entity_labels=3)
    crf = TreeCRF(scores, lengths)
    with backend("torch"):
        exact = TreeCRF(scores.double(), lengths)
    torch.testing.assert_close(crf.log_partition.double(), exact.log_partition, rtol=1e-5, atol=0)
    torch.testing.assert_close(crf.marginals.double(), exact.marginals, rtol=0, atol=1e-4)
    torch.testing.assert_close(crf.log_prob(partial).double(), exact.log_prob(partial), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(crf.max.double(), exact.max, rtol=1e-5, atol=0)


@needs_kernels
def test_sentences_fall_back_to_log_space_one_by_one() -> None:
    scores = random_scores(5, 30, 4, dtype=torch.float32)
    assert cpu.fallbacks(scores, torch.full((5,), 30)) == 0
    scores[1] *= 60
    scores[3, 2, 7, 1] = -1e4  # its span keeps other labels: nothing is lost
    scores[4, 0, 29] = 1e4
    assert cpu.fallbacks(scores, torch.full((5,), 30)) == 2


@needs_kernels
@pytest.mark.parametrize("quantity", ["log_partition", "marginals", "entropy", "log_prob", "gradients", "sample"])
def test_the_fallback_agrees_with_the_fast_path(quantity: str) -> None:
    """A constant on every label of every span moves a sentence into log space, and changes nothing but log Z."""
    n, constant = 12, 400.0
    scores = random_scores(2, n, 4).requires_grad_()
    moved = scores + constant
    lengths = torch.tensor([n, 7])
    # The constant alone is no problem; one span far below the rest of its row is.
    faint = torch.zeros_like(scores)
    faint[:, 0, 1] = -700.0
    assert cpu.fallbacks(scores.detach(), lengths) == 0
    assert cpu.fallbacks((moved + faint).detach(), lengths) == 2
    partial = partial_trees([[(2, 4, 1)], [(3, 3, 0)]], lengths, entity_labels=3, n=n)

    def compute(s: Tensor) -> Tensor:
        crf = TreeCRF(s, lengths)
        if quantity == "log_prob":
            return crf.log_prob(partial, smoothing=0.02, scope="all")
        if quantity == "sample":
            return crf.sample(20, generator=generator(0)).double()
        if quantity == "gradients":
            loss = (crf.log_prob(partial, smoothing=0.02) - 0.1 * crf.entropy).sum()
            return torch.autograd.grad(loss, scores)[0]
        return getattr(crf, quantity)

    fast, slow = compute(scores + faint / 7), compute(moved + faint)
    if quantity == "log_partition":
        slow = slow - constant * (2 * lengths - 1)
    if quantity == "entropy":
        assert (slow > 0).all()
    # exp(-100) is already nothing in float64 beside the others, so both distributions are the same.
    torch.testing.assert_close(slow, fast, rtol=1e-7, atol=1e-7)


@needs_kernels
def test_log_space_slopes_agree_with_plain_torch() -> None:
    scores = random_scores(2, 9, 3, scale=60).requires_grad_()
    lengths = torch.tensor([9, 6])
    assert cpu.fallbacks(scores.detach() * 4, lengths) == 2
    gradients = []
    for name in ("cpu", "torch"):
        with backend(name):
            crf = TreeCRF(scores * 4, lengths)
            loss = (crf.entropy + (crf.marginals * torch.arange(3)).sum((1, 2, 3)) + crf.log_partition).sum()
            gradients.append(torch.autograd.grad(loss, scores)[0])
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_nan_with_minus_inf_as_long_as_a_tree_is_possible(dtype: torch.dtype, each_backend: str) -> None:
    scores = random_scores(4, 8, 3, dtype=dtype, holes=0.2)
    scores[:, torch.arange(8), torch.arange(8), 0] = 0.0
    scores[:, 0, :, 0] = 0.0  # left-branching trees are always possible
    scores.requires_grad_()
    crf = TreeCRF(scores)
    other = TreeCRF(random_scores(4, 8, 3, dtype=dtype))
    values = [crf.log_partition, crf.entropy, crf.max, crf.kl(other), crf.cross_entropy(other), crf.marginals]
    values += [crf.log_prob((scores > -1) | (torch.arange(3) == 0))]
    for value in values:
        assert value.isfinite().all()
        (gradient,) = torch.autograd.grad(value.sum(), scores, retain_graph=True)
        assert gradient.isfinite().all()
        assert (gradient[scores == NEVER] == 0).all()


def test_a_sentence_without_a_tree_is_minus_inf_with_zero_gradients(each_backend: str) -> None:
    scores = random_scores(3, 4, 2)
    scores[1, 2, 2] = NEVER  # a leaf is in every tree
    scores.requires_grad_()
    crf = TreeCRF(scores)
    assert crf.log_partition.isneginf().tolist() == [False, True, False]
    (gradient,) = torch.autograd.grad(crf.log_partition.sum(), scores)
    assert (gradient[1] == 0).all()
    assert gradient.isfinite().all()
    assert crf.entropy[1] == 0
    assert crf.max[1] == NEVER
    assert (crf.marginals[1] == 0).all()
    for chart in (crf.argmax[1], crf.mbr()[1], crf.sample(1)[0, 1], crf.topk(2)[1][:, 1]):
        assert (chart == -1).all()


def test_gradients_of_a_sentence_without_a_tree_are_zero_whatever_comes_from_above(each_backend: str) -> None:
    scores = random_scores(2, 4, 3)
    scores[1, 2, 2] = NEVER
    scores.requires_grad_()
    partial = partial_trees([[], []], [4, 4], entity_labels=2)
    for value in (TreeCRF(scores).log_partition, TreeCRF(scores).log_prob(partial, impossible="-inf")):
        (gradient,) = torch.autograd.grad(value.square().sum(), scores)
        assert (gradient[1] == 0).all()
        assert (gradient[0] != 0).any()


def test_of_equally_good_trees_every_backend_takes_the_same(each_backend: str) -> None:
    n = 20  # more splits than a tile of the GPU kernels
    for seed in range(3):
        scores = torch.randint(0, 2, (1, n, n, 2), generator=generator(seed)).float()
        with backend("torch"):
            wanted = TreeCRF(scores).argmax
        assert torch.equal(TreeCRF(scores).argmax, wanted)


def test_an_impossible_observation_is_an_error_that_names_the_sentences(each_backend: str) -> None:
    scores = random_scores(4, 4, 3)
    scores[2, 0, 1, 1] = NEVER
    scores.requires_grad_()
    partial = partial_trees([[], [], [(0, 1, 1)], []], [4] * 4, entity_labels=2)
    crf = TreeCRF(scores)
    for observed in (partial, partial.mask(), partial.mask() > 0):
        with pytest.raises(
            NoTreeError, match=r"no tree is possible in sentence 2 \(of 4 .*impossible=\"-inf\""
        ) as error:
            crf.log_prob(observed)
        assert error.value.sentences == [2]
        value = crf.log_prob(observed, impossible="-inf")
        assert value.isneginf().tolist() == [False, False, True, False]
        (gradient,) = torch.autograd.grad(value.sum(), scores)
        assert (gradient[2] == 0).all()
        assert gradient.isfinite().all()
        assert (gradient[0] != 0).any()
    assert crf.log_prob(partial, smoothing=0.01, scope="all").isfinite().all()


def test_the_error_tells_when_the_potentials_alone_are_at_fault(each_backend: str) -> None:
    scores = random_scores(2, 3, 2)
    scores[0, 0, 2] = NEVER
    partial = partial_trees([[], []], [3, 3], entity_labels=1)
    with pytest.raises(NoTreeError, match="potentials alone, by their -inf entries, allow no tree in sentence 0"):
        TreeCRF(scores).log_prob(partial)


def test_padding_does_not_leak(each_backend: str) -> None:
    """A sentence's values and gradients are the same alone and beside longer ones, whatever fills the padding."""
    lengths = [3, 9, 1, 6]
    scores = random_scores(4, 9, 3)
    for b, m in enumerate(lengths):
        scores[b, m:] = scores[b, :, m:] = float("nan")
    lower = torch.ones(9, 9).tril(-1).bool()
    scores[:, lower] = float("nan")
    scores.requires_grad_()
    crf = TreeCRF(scores, lengths)
    partial = partial_trees([[(0, 1, 0)], [(2, 5, 1)], [], []], lengths, entity_labels=2)
    together = crf.log_prob(partial) + crf.entropy + crf.max
    (gradient,) = torch.autograd.grad(together.sum(), scores)
    assert not gradient.isnan().any()
    for b, m in enumerate(lengths):
        alone = scores[b : b + 1, :m, :m].detach().clone().requires_grad_()
        one = TreeCRF(alone)
        spans = list(partial.spans())[b]
        observed = partial_trees([spans], [m], entity_labels=2)
        value = one.log_prob(observed) + one.entropy + one.max
        (of_alone,) = torch.autograd.grad(value.sum(), alone)
        torch.testing.assert_close(together[b : b + 1], value, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient[b, :m, :m], of_alone[0], rtol=1e-12, atol=1e-12)
        assert (gradient[b, m:] == 0).all()
        assert (gradient[b, :, m:] == 0).all()
        assert torch.equal(crf.argmax[b, :m, :m], one.argmax[0])


@pytest.mark.parametrize("upstream", [1e-20, 1.0, 65536.0])
@pytest.mark.parametrize("depth", [0.0, 100.0, 140.0, 300.0, 1e4])
def test_gradients_of_faint_spans_at_any_upstream(depth: float, upstream: float, each_backend: str) -> None:
    """A span far below the others that every tree needs, and a scaled loss: finite, and those of float64."""
    scores = random_scores(2, 5, 3, dtype=torch.float32)
    scores[:, 0, 4] -= depth
    scores[0, 0, 4, 2] = NEVER
    found = []
    for dtype in (torch.float32, torch.float64):
        leaf = scores.to(dtype).requires_grad_()
        crf = TreeCRF(leaf)
        (gradient,) = torch.autograd.grad(((crf.log_partition + crf.entropy) * upstream).sum(), leaf)
        found.append(gradient.double() / upstream)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_labels_at_the_edge_of_float32_are_not_lost(each_backend: str) -> None:
    for depth in range(100, 160, 3):
        scores = torch.zeros(1, 2, 2, 8)
        scores[0, 0, 1] = -depth - 4.6
        scores[0, 0, 1, 0] = -float(depth)
        crf, exact = TreeCRF(scores), TreeCRF(scores.double())
        for name, tolerance in (("log_partition", 1e-6), ("marginals", 1e-6), ("entropy", 1e-4)):
            torch.testing.assert_close(
                getattr(crf, name).double(), getattr(exact, name), rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("value", [-1e12, -1e20, torch.finfo(torch.float32).min])
def test_huge_negative_scores_are_as_good_as_minus_inf_where_they_can_be_avoided(
    value: float, each_backend: str
) -> None:
    scores = random_scores(2, 7, 3, dtype=torch.float32)
    scores[:, 1, 3] = value
    forbidden = scores.clone()
    forbidden[:, 1, 3] = NEVER
    torch.testing.assert_close(TreeCRF(scores).marginals, TreeCRF(forbidden).marginals)
    scores[:, 0, 6] = value  # the root cannot be avoided: every tree pays
    crf = TreeCRF(scores)
    torch.testing.assert_close(crf.marginals.sum((1, 2, 3)), torch.full((2,), 13.0))
    assert crf.marginals.max() <= 1 + 1e-6


def test_a_common_offset_changes_neither_entropy_nor_its_gradient(each_backend: str) -> None:
    scores = random_scores(2, 20, 8, dtype=torch.float32)
    moved = (scores + 1e4).requires_grad_()
    exact = moved.detach().double().requires_grad_()
    got, want = TreeCRF(moved).entropy, TreeCRF(exact).entropy
    torch.testing.assert_close(got.double(), want, rtol=1e-6, atol=0)
    gradients = [torch.autograd.grad(h.sum(), x)[0].double() for h, x in ((got, moved), (want, exact))]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_a_diverged_upstream_gradient_shows(each_backend: str) -> None:
    scores = random_scores(1, 4, 2, dtype=torch.float32).requires_grad_()
    upstream = torch.zeros_like(scores)
    upstream[0, 1, 2, 0] = float("nan")
    (gradient,) = torch.autograd.grad(TreeCRF(scores).marginals, scores, upstream)
    assert gradient.isnan().any()
