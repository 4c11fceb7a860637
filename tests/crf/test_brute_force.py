"""Every quantity of TreeCRF against all trees of short sentences, written out."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import Tensor

from nestree.crf import Doubts, TreeCRF, inside, masked_inside
from nestree.crf.partial import Scope
from tests.crf.brute_force import EveryTree
from tests.crf.cases import NEVER, generator, interpreted, partial_trees, random_nesting, random_scores

pytestmark = pytest.mark.usefixtures("each_backend")

LENGTHS = [5, 1, 3, 4, 2]
LABELS = 2


@pytest.fixture(params=[0.0, 0.25], ids=["finite", "with -inf"])
def scores(request: pytest.FixtureRequest) -> Tensor:
    return random_scores(len(LENGTHS), max(LENGTHS), LABELS, scale=2.0, holes=request.param).requires_grad_()


@pytest.fixture
def crf(scores: Tensor) -> TreeCRF:
    return TreeCRF(scores, LENGTHS)


@pytest.fixture
def every(scores: Tensor) -> list[EveryTree]:
    return [EveryTree(scores[b, :m, :m]) for b, m in enumerate(LENGTHS)]


def assert_same_with_gradients(ours: Tensor, theirs: list[Tensor], *inputs: Tensor) -> None:
    """Values, and gradients of a random weighting of them, agree; gradients hold no NaN."""
    wanted = torch.stack(theirs)
    assert_close(ours, wanted.detach())
    weights = torch.randn(ours.shape, dtype=ours.dtype)
    finite = wanted.isfinite()
    for x in inputs:
        (got,) = torch.autograd.grad((ours[finite] * weights[finite]).sum(), x, retain_graph=True)
        (want,) = torch.autograd.grad((wanted[finite] * weights[finite]).sum(), x, retain_graph=True)
        assert_close(got, want)


def assert_close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)


def test_trees_are_counted_by_catalan_numbers() -> None:
    n = 12
    for m in range(1, n + 1):
        catalan = math.comb(2 * (m - 1), m - 1) // m
        for labels in (1, 3):
            count = inside(torch.zeros(2, n, n, labels, dtype=torch.float64), [m, n])[0].exp()
            assert count.item() == pytest.approx(catalan * labels ** (2 * m - 1), rel=1e-9)


def test_log_partition(crf: TreeCRF, every: list[EveryTree], scores: Tensor) -> None:
    assert_same_with_gradients(crf.log_partition, [e.log_partition for e in every], scores)


def test_marginals(crf: TreeCRF, every: list[EveryTree], scores: Tensor) -> None:
    weights = torch.randn_like(scores)
    got, want = 0, 0
    for b, (e, m) in enumerate(zip(every, LENGTHS, strict=True)):
        of_sentence = crf.marginals[b, :m, :m]
        assert_close(of_sentence, e.marginals)
        got, want = got + (of_sentence * weights[b, :m, :m]).sum(), want + (e.marginals * weights[b, :m, :m]).sum()
    assert_close(*[torch.autograd.grad(x, scores, retain_graph=True)[0] for x in (got, want)])


def test_a_tree_over_m_words_has_2m_minus_1_nodes(crf: TreeCRF, every: list[EveryTree]) -> None:
    nodes = torch.tensor([2 * m - 1 if len(e.nodes) else 0 for e, m in zip(every, LENGTHS, strict=True)])
    assert_close(crf.marginals.sum((1, 2, 3)), nodes.double())


def test_entropy(crf: TreeCRF, every: list[EveryTree], scores: Tensor) -> None:
    assert_same_with_gradients(crf.entropy, [e.entropy for e in every], scores)


def test_cross_entropy_and_kl(crf: TreeCRF, every: list[EveryTree], scores: Tensor) -> None:
    other = random_scores(*scores.shape[:2], LABELS).masked_fill(scores == NEVER, NEVER).requires_grad_()
    q = TreeCRF(other, LENGTHS)
    alone = [other[b, :m, :m] for b, m in enumerate(LENGTHS)]
    pairs = list(zip(every, alone, strict=True))
    assert_same_with_gradients(crf.cross_entropy(q), [e.cross_entropy(o) for e, o in pairs], scores, other)
    assert_same_with_gradients(crf.kl(q), [e.kl(o) for e, o in pairs], scores, other)


def test_surprise_is_the_cross_entropy(crf: TreeCRF, every: list[EveryTree], scores: Tensor) -> None:
    other = random_scores(*scores.shape[:2], LABELS).masked_fill(scores == NEVER, NEVER).requires_grad_()
    found = TreeCRF(other, LENGTHS).surprise(crf.marginals.detach())
    alone = [e.cross_entropy(other[b, :m, :m]) for b, (e, m) in enumerate(zip(every, LENGTHS, strict=True))]
    assert_same_with_gradients(found, alone, other)
    assert_close(found - crf.entropy.detach(), crf.kl(TreeCRF(other, LENGTHS)).detach())


def test_surprise_is_infinite_where_this_forbids_what_the_other_allows() -> None:
    p = random_scores(2, 3, 2)
    q = p.clone()
    q[1, 0, 2] = NEVER
    found = TreeCRF(q.requires_grad_()).surprise(TreeCRF(p).marginals)
    assert found[0].isfinite()
    assert found[1] == math.inf
    with pytest.raises(ValueError, match=r"the marginals have shape \[2, 3, 3, 1\]"):
        TreeCRF(p).surprise(p[..., :1])


def test_kl_is_infinite_where_the_other_forbids_what_this_allows() -> None:
    p = random_scores(2, 3, 2).requires_grad_()
    q = p.detach().clone()
    q[1, 0, 2] = NEVER
    kl = TreeCRF(p).kl(TreeCRF(q))
    assert kl[0].item() == pytest.approx(0, abs=1e-9)
    assert kl[1] == math.inf
    kl[0].backward()
    assert p.grad is not None
    assert not p.grad.isnan().any()


def test_best_tree_and_its_score(crf: TreeCRF, every: list[EveryTree], scores: Tensor) -> None:
    for b, (e, m) in enumerate(zip(every, LENGTHS, strict=True)):
        chart = crf.argmax[b]
        assert (chart[m:] == -1).all()
        assert (chart[:, m:] == -1).all()
        if len(e.nodes):
            assert torch.equal(chart[:m, :m], e.charts[e.tree_scores.argmax()])
        else:
            assert (chart == -1).all()
    best = [e.tree_scores.max() if len(e.nodes) else e.log_partition for e in every]
    assert_same_with_gradients(crf.max, best, scores)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_topk_lists_the_best_trees_in_order(k: int, crf: TreeCRF, every: list[EveryTree]) -> None:
    values, charts = crf.topk(k)
    assert values.shape == (k, len(LENGTHS))
    for b, (e, m) in enumerate(zip(every, LENGTHS, strict=True)):
        order = e.tree_scores.argsort(descending=True)[:k]
        assert_close(values[: len(order), b], e.tree_scores[order])
        assert torch.equal(charts[: len(order), b, :m, :m], e.charts[order])
        assert (values[len(order) :, b] == NEVER).all()
        assert (charts[len(order) :, b] == -1).all()


@pytest.mark.parametrize("weights", [None, [1.0, 0.0]])
def test_minimum_risk_tree_has_most_expected_right_nodes(
    weights: list[float] | None, crf: TreeCRF, every: list[EveryTree]
) -> None:
    decoded = crf.mbr(weights)
    for b, (e, m) in enumerate(zip(every, LENGTHS, strict=True)):
        if not len(e.nodes):
            assert (decoded[b] == -1).all()
            continue
        worth = e.total(e.marginals * torch.tensor(weights or [1.0, 1.0]))
        found = (e.charts == decoded[b, :m, :m]).all(-1).all(-1)
        assert found.sum() == 1, "the decoded chart is one of the possible trees"
        assert_close(worth[found][0], worth.max())


def test_score_of_whole_trees(crf: TreeCRF, every: list[EveryTree]) -> None:
    charts = torch.full((2, *crf.argmax.shape), -1)
    charts[:, 0] = every[0].charts[:2]
    assert_close(crf.score(charts)[:, 0], every[0].tree_scores[:2])


@pytest.mark.parametrize("smoothing", [0.0, 0.02])
@pytest.mark.parametrize("scope", ["rejected", "all"])
@pytest.mark.parametrize("as_mask", [False, True], ids=["codes", "dense"])
def test_probability_of_partial_trees(smoothing: float, scope: str, as_mask: bool) -> None:
    entity_labels, latent_labels = 2, 1
    rng = random.Random(7)
    lengths = [4, 1, 3, 2, 4, 4]
    scores = random_scores(len(lengths), 4, entity_labels + latent_labels, scale=2.0).requires_grad_()
    partial = partial_trees(
        [random_nesting(rng, m, entity_labels) for m in lengths],
        lengths,
        entity_labels=entity_labels,
        latent_labels=latent_labels,
    )
    mask = partial.mask(smoothing, scope, dtype=torch.float64)
    crf = TreeCRF(scores, lengths)
    ours = crf.log_prob(mask) if as_mask else crf.log_prob(partial, smoothing=smoothing, scope=scope)
    theirs, sums = [], []
    for b, m in enumerate(lengths):
        e = EveryTree(scores[b, :m, :m])
        sums.append(e.masked(mask[b, :m, :m]))
        theirs.append(sums[-1] - e.log_partition)
    assert_same_with_gradients(ours, theirs, scores)
    alone = masked_inside(scores, mask, lengths) if as_mask else None
    if alone is None:
        alone = masked_inside(scores, partial, smoothing=smoothing, scope=scope)
    assert_same_with_gradients(alone, sums, scores)


@pytest.mark.parametrize("kind", ["booleans", "weights"])
def test_probability_under_any_mask(kind: str) -> None:
    scores = random_scores(3, 4, 2).requires_grad_()
    mask = torch.rand(scores.shape, dtype=torch.float64)
    mask = mask < 0.8 if kind == "booleans" else mask.masked_fill(mask < 0.2, 0)
    mask[:, :, :, 0] = True  # so that some tree is possible
    every = [EveryTree(s) for s in scores]
    theirs = [e.masked(m) - e.log_partition for e, m in zip(every, mask, strict=True)]
    assert_same_with_gradients(TreeCRF(scores).log_prob(mask), theirs, scores)


@pytest.mark.parametrize("scope", ["rejected", "all"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_probability_of_what_annotation_leaves_open(smoothing: float, scope: Scope) -> None:
    """Every tree that a rule by rule reading of the annotation allows, times the weights of its labelled nodes."""
    rng, lengths, entity_labels, labels = random.Random(4), [4, 3, 4, 1, 4], 2, 3
    sets = torch.tensor([[0.3, 0.0, 1.0], [1.0, 1.0, 0.0], [0.5, 0.7, 1.0]], dtype=torch.float64)
    spans = [random_nesting(rng, m, entity_labels, keep=0.3) for m in lengths]
    spans[2] = [(1, 2, -2)]  # an entity with either label
    doubts = [
        Doubts(0),
        Doubts(2, ((1, 1, 0),), ((0, 0, 2),)),
        Doubts(-1, ((0, 1, 2), (1, 1, 0)), ((0, 2, 1), (3, 3, 0))),
        Doubts(0, ((0, 0, 2),)),
        None,
    ]
    scores = random_scores(len(lengths), 4, labels).requires_grad_()
    partial = partial_trees(
        spans, lengths, entity_labels=entity_labels, sets=sets.to(torch.get_default_device()), doubts=doubts
    )
    ours = TreeCRF(scores, lengths).log_prob(partial, smoothing=smoothing, scope=scope)
    theirs = []
    for b, m in enumerate(lengths):
        mask = torch.zeros(m, m, labels, dtype=torch.float64)
        for i in range(m):
            for j in range(i, m):
                weights, rejected = _allowed(i, j, spans[b], doubts[b] or Doubts(), sets.tolist())
                for k, weight in enumerate(weights):
                    other = smoothing if scope == "all" else 0.0
                    mask[i, j, k] = smoothing if rejected else weight or other
        e = EveryTree(scores[b, :m, :m])
        theirs.append(e.masked(mask.to(scores.device)) - e.log_partition)
    assert_same_with_gradients(ours, theirs, scores)
    assert any(value > -1e6 for value in theirs)


def _allowed(
    i: int, j: int, spans: list[tuple[int, int, int]], doubts: Doubts, sets: list[list[float]]
) -> tuple[list[float], bool]:
    """The weights of the labels of a span, and whether it is rejected."""
    for start, end, label in spans:
        if (start, end) == (i, j):
            return (sets[-1 - label] if label < 0 else [float(k == label) for k in range(3)]), False
    if any(a < i <= b < j or i < a <= j < b for a, b, _ in spans):
        return [0.0] * 3, True
    found = [0.0, 0.0, 1.0] if doubts.otherwise < 0 else sets[doubts.otherwise]
    for first, last, number in doubts.regions:
        found = sets[number] if i <= last and first <= j else found
    for first, last, number in doubts.spans:
        found = sets[number] if (i, j) == (first, last) else found
    return found, False


def test_a_mask_of_ones_is_inside_and_a_whole_tree_is_its_score() -> None:
    scores = random_scores(1, 5, 2)
    crf = TreeCRF(scores)
    assert_close(crf.log_prob(torch.ones_like(scores)), torch.zeros(1, dtype=torch.float64))
    tree = crf.sample(1, generator=generator(3))[0]
    spans = [(i, j, int(tree[0, i, j])) for i, j in torch.nonzero(tree[0] >= 0).tolist()]
    whole = partial_trees([spans], [5], entity_labels=2, latent_labels=0)
    assert_close(masked_inside(scores, whole), crf.score(tree))
    assert_close(crf.log_prob(whole), crf.score(tree) - crf.log_partition)


def test_samples_are_possible_trees_with_the_right_frequencies(
    crf: TreeCRF, every: list[EveryTree], each_backend: str
) -> None:
    draws = 40 if interpreted(each_backend) else 3000
    drawn = crf.sample(draws, generator=generator(1))
    for b, (e, m) in enumerate(zip(every, LENGTHS, strict=True)):
        if not len(e.nodes):
            assert (drawn[:, b] == -1).all()
            continue
        charts = drawn[:, b, :m, :m]
        assert torch.isfinite(crf.score(drawn))[:, b].all()
        frequency = torch.stack([(charts == k).double().mean(0) for k in range(LABELS)], -1)
        # Four standard deviations of a frequency over this many draws.
        assert (frequency - e.marginals).abs().max() < 4 * math.sqrt(0.25 / draws)


def test_sampling_repeats_with_its_generator(crf: TreeCRF) -> None:
    first, second = (crf.sample(4, generator=generator(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert crf.sample(0).shape == (0, *crf.argmax.shape)
