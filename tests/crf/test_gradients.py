"""First, second and, for the entropy, third derivatives against finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from nestree.crf import PartialTrees, TreeCRF
from tests.crf.cases import interpreted, random_scores

pytestmark = pytest.mark.usefixtures("each_backend")

LENGTHS = [4, 2]
PARTIAL = PartialTrees.from_spans([[(0, 2, 1), (1, 2, 0)], [(1, 1, 0)]], LENGTHS, entity_labels=2, latent_labels=1)
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "log_partition": lambda s: TreeCRF(s, LENGTHS).log_partition,
    "log_prob": lambda s: TreeCRF(s, LENGTHS).log_prob(PARTIAL.to(s.device)),
    "log_prob, smoothed": lambda s: TreeCRF(s, LENGTHS).log_prob(PARTIAL.to(s.device), smoothing=0.1, scope="all"),
    "log_prob, dense mask": lambda s: TreeCRF(s, LENGTHS).log_prob(PARTIAL.mask(0.1).to(s.device)),
    "marginals": lambda s: TreeCRF(s, LENGTHS).marginals,
    "entropy": lambda s: TreeCRF(s, LENGTHS).entropy,
}


@pytest.mark.parametrize("name", [*LOSSES, "max"])
def test_first_derivatives(name: str, each_backend: str) -> None:
    loss = LOSSES.get(name, lambda s: TreeCRF(s, LENGTHS).max)
    assert gradcheck(loss, random_scores(2, 4, 3).requires_grad_(), fast_mode=interpreted(each_backend))


@pytest.mark.parametrize("name", LOSSES)
def test_second_derivatives(name: str, each_backend: str) -> None:
    # Of the marginals and the entropy this takes the third derivative of the log partition.
    assert gradgradcheck(LOSSES[name], random_scores(2, 4, 3).requires_grad_(), fast_mode=interpreted(each_backend))


@pytest.mark.parametrize("method", ["kl", "cross_entropy"])
def test_derivatives_for_both_distributions(method: str, each_backend: str) -> None:
    def loss(p: Tensor, q: Tensor) -> Tensor:
        return getattr(TreeCRF(p, LENGTHS), method)(TreeCRF(q, LENGTHS))

    both = random_scores(2, 4, 2).requires_grad_(), random_scores(2, 4, 2).requires_grad_()
    assert gradcheck(loss, both, fast_mode=interpreted(each_backend))
    assert gradgradcheck(loss, both, fast_mode=interpreted(each_backend))


def test_the_gradient_towards_a_teacher_is_the_difference_of_marginals(each_backend: str) -> None:
    teacher, student = random_scores(2, 4, 3), random_scores(2, 4, 3).requires_grad_()
    fixed = TreeCRF(teacher, LENGTHS)
    assert gradcheck(
        lambda s: TreeCRF(s, LENGTHS).surprise(fixed.marginals), student, fast_mode=interpreted(each_backend)
    )
    values = [TreeCRF(student, LENGTHS).surprise(fixed.marginals), fixed.kl(TreeCRF(student, LENGTHS))]
    one, two = [torch.autograd.grad(value.sum(), student)[0] for value in values]
    torch.testing.assert_close(one, two)
    inside = torch.ones(4, 4).triu().bool()
    wanted = (TreeCRF(student.detach(), LENGTHS).marginals - fixed.marginals)[0][inside]
    torch.testing.assert_close(one[0][inside], wanted)


def test_an_entropy_bonus_can_be_trained_through() -> None:
    scores = random_scores(2, 4, 3, dtype=torch.float32).requires_grad_()
    optimizer = torch.optim.SGD([scores], lr=0.5)
    before = TreeCRF(scores, LENGTHS).entropy.sum().item()
    for _ in range(8):
        optimizer.zero_grad()
        (-TreeCRF(scores, LENGTHS).entropy.sum()).backward()
        optimizer.step()
    assert TreeCRF(scores, LENGTHS).entropy.sum().item() > before + 0.2


@pytest.mark.parametrize("size", [1e-20, 1e30])
def test_directions_of_any_size(size: float) -> None:
    """A scaled loss (mixed precision) gives scaled second derivatives, in float32 too."""
    scores = random_scores(2, 6, 3, dtype=torch.float32).requires_grad_()
    direction = torch.randn(scores.shape)

    def second(scale: float) -> Tensor:
        return torch.autograd.grad((TreeCRF(scores, [6, 4]).marginals * direction * scale).sum(), scores)[0] / scale

    torch.testing.assert_close(second(size), second(1.0), rtol=1e-4, atol=1e-6)
