"""Potential normalisation: mean 0 and variance 1 over each sentence's own spans."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from nestree.crf import TreeCRF, normalize_potentials
from tests.crf.cases import NEVER, interpreted, random_scores

pytestmark = pytest.mark.usefixtures("each_backend")

LENGTHS = [5, 1, 3]


def spans(scores: Tensor, sentence: int) -> Tensor:
    """The scores of a sentence's spans. Shape: ``[span, label]``."""
    words = LENGTHS[sentence]
    start, end = torch.triu_indices(words, words)
    return scores[sentence, start, end]


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_each_sentence_has_mean_0_and_variance_1_over_its_possible_spans(holes: float) -> None:
    scores = random_scores(3, 5, 4, scale=7.0, holes=holes) + 100
    normal = normalize_potentials(scores, LENGTHS, epsilon=0.0)
    for sentence in range(3):
        before, after = spans(scores, sentence), spans(normal, sentence)
        assert torch.equal(before == NEVER, after == NEVER)
        counted = after[after > NEVER]
        torch.testing.assert_close(counted.mean(), torch.zeros_like(counted[0]), rtol=0, atol=1e-12)
        torch.testing.assert_close(counted.var(correction=0), torch.ones_like(counted[0]))
        assert torch.equal(counted.argsort(), before[before > NEVER].argsort())


def test_what_stands_outside_the_sentence_plays_no_part() -> None:
    scores = random_scores(3, 5, 2)
    spoilt = scores.clone()
    spoilt[1, :, 1:] = spoilt[2, 3:] = spoilt[:, 4, 0] = float("nan")
    spoilt.requires_grad_()
    normal = normalize_potentials(spoilt, LENGTHS)
    assert (normal[1, 0, 1:] == 0).all()
    for sentence in range(3):
        assert torch.equal(spans(normal, sentence), spans(normalize_potentials(scores, LENGTHS), sentence))
    (gradient,) = torch.autograd.grad(TreeCRF(normal, LENGTHS).log_partition.sum(), spoilt)
    assert gradient.isfinite().all()
    assert (gradient[1, 0, 1:] == 0).all()


def test_a_sentence_alone_and_in_a_batch_is_normalised_alike() -> None:
    scores = random_scores(3, 5, 2)
    alone = normalize_potentials(scores[2:, :3, :3])
    torch.testing.assert_close(
        normalize_potentials(scores, LENGTHS)[2:, :3, :3].triu(), alone.triu(), rtol=0, atol=1e-14
    )


def test_derivatives(each_backend: str) -> None:
    def normalize(scores: Tensor) -> Tensor:
        return normalize_potentials(scores, LENGTHS)

    scores = random_scores(3, 5, 2).requires_grad_()
    assert gradcheck(normalize, scores, fast_mode=interpreted(each_backend))
    assert gradgradcheck(normalize, scores, fast_mode=interpreted(each_backend))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_types_come_out_as_float32_and_get_their_gradients(dtype: torch.dtype) -> None:
    scores = random_scores(3, 5, 2, dtype=dtype).requires_grad_()
    normal = normalize_potentials(scores, LENGTHS)
    assert normal.dtype == torch.promote_types(dtype, torch.float32)
    exact = scores.detach().double().requires_grad_()
    direction = torch.randn(scores.shape)
    gradients = [
        torch.autograd.grad((normalize_potentials(s, LENGTHS) * direction).sum(), s)[0] for s in (scores, exact)
    ]
    assert gradients[0].dtype == dtype
    torch.testing.assert_close(gradients[0].double(), gradients[1], rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("layout", [(0, 3, 1, 2), (1, 2, 3, 0)])
def test_any_layout(layout: tuple[int, ...]) -> None:
    scores = random_scores(3, 5, 4)
    back = sorted(range(4), key=lambda axis: layout[axis])
    view = scores.permute(layout).contiguous().permute(back).requires_grad_()
    torch.testing.assert_close(normalize_potentials(view, LENGTHS), normalize_potentials(scores, LENGTHS))
    direction = torch.randn_like(scores)
    gradients = [
        torch.autograd.grad((normalize_potentials(s, LENGTHS) * direction).sum(), s)[0]
        for s in (view, scores.requires_grad_())
    ]
    torch.testing.assert_close(*gradients)


def test_equal_scores_and_single_words_stay_finite() -> None:
    assert (normalize_potentials(torch.full((2, 3, 3, 2), 5.0)) == 0).all()
    assert (normalize_potentials(torch.full((1, 1, 1, 1), -3.0)) == 0).all()
    assert (normalize_potentials(torch.full((1, 1, 1, 2), NEVER)) == NEVER).all()


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"log_potentials must be \[batch, n, n, label\]"):
        normalize_potentials(torch.zeros(2, 3, 2))
    with pytest.raises(ValueError, match=r"lengths\[1\] is 4"):
        normalize_potentials(torch.zeros(2, 3, 3, 2), [3, 4])
