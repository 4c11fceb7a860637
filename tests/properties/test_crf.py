"""Hypothesis looks for shapes, types and masks on which a kernel differs from its plain twin, or breaks a law."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nestree.crf import TreeCRF, backend
from nestree.crf.kernels import BACKENDS
from tests.crf.brute_force import EveryTree
from tests.crf.cases import NEVER, interpreted, partial_trees, random_nesting, random_scores, using, why_not

seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from([torch.float32, torch.float64])
scales = st.sampled_from([0.1, 1.0, 10.0, 50.0])
holes = st.sampled_from([0.0, 0.1, 0.5])
every_backend = pytest.mark.parametrize("name", BACKENDS)


def shapes(name: str) -> st.SearchStrategy[tuple[int, int, int]]:
    """Sentences, words, labels."""
    batches, words = (2, 6) if interpreted(name) else (4, 20)
    return st.tuples(st.integers(1, batches), st.integers(1, words), st.sampled_from([1, 2, 3, 5, 8, 9, 17]))


def check(name: str, law: Callable[[], None]) -> None:
    """Lets Hypothesis look for a counterexample with one backend."""
    if reason := why_not(name):
        pytest.skip(reason)
    with using(name):
        settings(max_examples=8 if interpreted(name) else 60, deadline=None)(law)()


def draw_lengths(batch: int, n: int) -> Tensor:
    return torch.randint(1, n + 1, (batch,))


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "torch"])
def test_kernels_agree_with_plain_torch(name: str) -> None:
    @given(shape=shapes(name), seed=seeds, dtype=dtypes, scale=scales, hole=holes)
    def law(shape: tuple[int, int, int], seed: int, dtype: torch.dtype, scale: float, hole: float) -> None:
        torch.manual_seed(seed)
        batch, n, labels = shape
        lengths = draw_lengths(batch, n)
        scores = random_scores(batch, n, labels, scale=scale, dtype=dtype, holes=hole).requires_grad_()
        mask = torch.rand(scores.shape).masked_fill(torch.rand(scores.shape) < 0.3, 0)
        tolerance = (
            {"rtol": 1e-5, "atol": 2e-4 * max(1.0, scale)} if dtype == torch.float32 else {"rtol": 1e-7, "atol": 1e-7}
        )
        found: list[list[Tensor]] = []
        for other in ("torch", name):
            with backend(other):
                crf = TreeCRF(scores, lengths)
            values = [crf.log_partition, crf.log_prob(mask, impossible="-inf"), crf.entropy, crf.max, crf.marginals]
            total = sum(torch.where(v.isfinite(), v, 0.0).double().sum() for v in values)
            found.append([*values, *torch.autograd.grad(total, scores)])
        for plain, fused in zip(*found, strict=True):
            torch.testing.assert_close(fused, plain, **tolerance)

    check(name, law)


@every_backend
def test_codes_say_what_the_dense_mask_says(name: str) -> None:
    @given(
        shape=shapes(name),
        latent=st.integers(0, 2),
        seed=seeds,
        smoothing=st.sampled_from([0.0, 0.02, 1.0]),
        scope=st.sampled_from(["rejected", "all"]),
    )
    def law(shape: tuple[int, int, int], latent: int, seed: int, smoothing: float, scope: str) -> None:
        torch.manual_seed(seed)
        rng = random.Random(seed)
        batch, n, entity_labels = shape
        lengths = draw_lengths(batch, n)
        spans = [random_nesting(rng, int(m), entity_labels) for m in lengths]
        partial = partial_trees(spans, lengths, entity_labels=entity_labels, latent_labels=latent, n=n)
        scores = random_scores(batch, n, entity_labels + latent).requires_grad_()
        crf = TreeCRF(scores, lengths)
        by_codes = crf.log_prob(partial, smoothing=smoothing, scope=scope, impossible="-inf")
        by_mask = crf.log_prob(partial.mask(smoothing, scope, dtype=torch.float64), impossible="-inf")
        torch.testing.assert_close(by_codes, by_mask)
        torch.testing.assert_close(
            *[torch.autograd.grad(v[v.isfinite()].sum(), scores, retain_graph=True)[0] for v in (by_codes, by_mask)]
        )

    check(name, law)


@every_backend
def test_small_sentences_agree_with_all_trees_written_out(name: str) -> None:
    @given(shape=st.tuples(st.integers(1, 4), st.integers(1, 3)), seed=seeds, hole=holes)
    def law(shape: tuple[int, int], seed: int, hole: float) -> None:
        torch.manual_seed(seed)
        scores = random_scores(1, *shape, holes=hole)
        crf, every = TreeCRF(scores), EveryTree(scores[0])
        torch.testing.assert_close(crf.log_partition[0], every.log_partition)
        if len(every.nodes):
            torch.testing.assert_close(crf.marginals[0], every.marginals)
            torch.testing.assert_close(crf.entropy[0], every.entropy)
            torch.testing.assert_close(crf.max[0], every.tree_scores.max())
            k = min(5, len(every.nodes))
            torch.testing.assert_close(crf.topk(k)[0][:, 0], every.tree_scores.topk(k).values)

    check(name, law)


@every_backend
def test_laws(name: str) -> None:
    @given(shape=shapes(name), seed=seeds, hole=holes)
    def law(shape: tuple[int, int, int], seed: int, hole: float) -> None:
        torch.manual_seed(seed)
        batch, n, labels = shape
        lengths = draw_lengths(batch, n)
        crf = TreeCRF(random_scores(batch, n, labels, holes=hole), lengths)
        possible = crf.log_partition > NEVER
        nodes = torch.where(possible, 2 * lengths - 1, 0)
        torch.testing.assert_close(crf.marginals.sum((1, 2, 3)), nodes.double())
        assert ((crf.marginals >= 0) & (crf.marginals <= 1 + 1e-9)).all()
        trees = torch.cat([crf.argmax[None], crf.mbr()[None], crf.sample(3), crf.topk(2)[1][:1]])
        assert torch.equal((trees >= 0).sum((-1, -2)), nodes.expand(len(trees), -1))
        assert (crf.score(trees) <= crf.max + 1e-9).logical_or(~possible).all()
        assert (crf.max <= crf.log_partition + 1e-9).all()
        assert (crf.entropy >= -1e-9).all()
        torch.testing.assert_close(crf.kl(crf), torch.zeros(batch, dtype=torch.float64), rtol=0, atol=1e-9)
        other = TreeCRF(random_scores(batch, n, labels), lengths)
        torch.testing.assert_close(crf.kl(other), crf.cross_entropy(other) - crf.entropy)
        assert (crf.kl(other) >= -1e-9).all()

    check(name, law)
