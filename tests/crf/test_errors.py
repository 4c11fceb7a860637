"""Wrong input gets an error that says which sentence and which span."""

from __future__ import annotations

import numpy
import pytest
import torch

from nestree.crf import PartialTrees, TreeCRF, backend
from nestree.crf.kernels import cpu
from tests.crf.cases import partial_trees, random_scores


@pytest.mark.parametrize("shape", [(3, 3, 2), (1, 3, 4, 2), (1, 0, 0, 2), (1, 3, 3, 0), (1, 1, 3, 3, 2)])
def test_wrong_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"log_potentials must be \[batch, n, n, label\]"):
        TreeCRF(torch.zeros(shape))


def test_whole_numbers_are_no_potentials() -> None:
    with pytest.raises(TypeError, match=r"floating point, got torch\.int64"):
        TreeCRF(torch.zeros(1, 2, 2, 1, dtype=torch.int64))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([3, 5], r"lengths\[1\] is 5, but log_potentials has room for sentences of 1 to 4 words"),
        ([0, 4], r"lengths\[0\] is 0"),
        ([-1, 4], r"lengths\[0\] is -1"),
        ([4], r"lengths must be 2 whole numbers, got .* of shape \[1\]"),
        ([4.0, 4.0], r"lengths must be 2 whole numbers, got torch.float32"),
        ([True, True], r"lengths must be 2 whole numbers, got torch.bool"),
    ],
)
def test_wrong_lengths(lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TreeCRF(torch.zeros(2, 4, 4, 1), lengths)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("quantity", ["log_partition", "marginals", "argmax", "entropy", "topk", "sample", "log_prob"])
def test_nan_and_infinity_are_found(value: float, quantity: str, each_backend: str) -> None:
    scores = random_scores(3, 5, 2, dtype=torch.float32)
    scores[1, 2, 4, 1] = value
    scores[2, 0, 0, 0] = value
    crf = TreeCRF(scores)
    arguments = {
        "topk": (2,),
        "sample": (2,),
        "log_prob": (partial_trees([[], [], []], [5] * 3, entity_labels=1),),
    }.get(quantity)
    name = "NaN" if value != value else r"\+inf"
    with pytest.raises(ValueError, match=rf"log_potentials has {name} at sentence 1, span \(2, 4\), label 1"):
        getattr(crf, quantity) if arguments is None else getattr(crf, quantity)(*arguments)


def test_partial_trees_must_fit_the_potentials() -> None:
    crf = TreeCRF(torch.zeros(2, 4, 4, 3), [4, 3])
    with pytest.raises(ValueError, match=r"partial trees are for potentials of shape \[2, 4, 4, 2\]"):
        crf.log_prob(partial_trees([[], []], [4, 3], entity_labels=1))
    with pytest.raises(ValueError, match=r"from_spans\(n=\.\.\.\) sets the size"):
        crf.log_prob(partial_trees([[], []], [3, 3], entity_labels=2))
    with pytest.raises(ValueError, match=r"sentence 1 has 3 words in lengths \(.*but 2 in the partial trees"):
        crf.log_prob(partial_trees([[], []], [4, 2], entity_labels=2))
    with pytest.raises(ValueError, match=r"call partial\.to\(device\)"):
        crf.log_prob(partial_trees([[], []], [4, 3], entity_labels=2).to("meta"))


@pytest.mark.skipif(cpu.library is None, reason="the CPU kernels are not compiled here")
def test_codes_that_nobody_made_by_from_spans_are_checked_before_they_index_memory() -> None:
    partial = PartialTrees(torch.full((1, 3, 3), 99, dtype=torch.int16), torch.tensor([3]), 1)
    with backend("cpu"), pytest.raises(ValueError, match=r"unknown value at sentence 0, span \(0, 0\)"):
        TreeCRF(torch.zeros(1, 3, 3, 2)).log_prob(partial)


def test_dense_masks_must_fit_and_not_be_negative() -> None:
    crf = TreeCRF(torch.zeros(2, 3, 3, 2))
    with pytest.raises(ValueError, match=r"the mask has shape \[2, 3, 3\]"):
        crf.log_prob(torch.ones(2, 3, 3))
    mask = torch.ones(2, 3, 3, 2)
    mask[1, 0, 2, 1] = -0.5
    with pytest.raises(ValueError, match=r"weight -0.5 at sentence 1, span \(0, 2\), label 1; weights are finite"):
        crf.log_prob(mask)
    mask[1, 0, 2, 1] = float("nan")
    with pytest.raises(ValueError, match=r"the mask has weight nan at sentence 1"):
        crf.log_prob(mask)
    mask[1, 0, 2, 1] = 1.0
    mask[1, 2, 0, 1] = float("nan")  # below the diagonal there is no span
    assert crf.log_prob(mask).isfinite().all()
    for options in ({"smoothing": 0.1}, {"scope": "all"}):
        with pytest.raises(ValueError, match="a dense mask holds its own weights"):
            crf.log_prob(torch.ones(2, 3, 3, 2), **options)
        with pytest.raises(ValueError, match="a dense mask holds its own weights"):
            crf.masked_log_partition(torch.ones(2, 3, 3, 2), **options)


def test_other_wrong_arguments() -> None:
    crf = TreeCRF(torch.zeros(2, 3, 3, 2))
    with pytest.raises(ValueError, match="topk needs k >= 1"):
        crf.topk(0)
    with pytest.raises(ValueError, match="sample needs k >= 0"):
        crf.sample(-1)
    with pytest.raises(ValueError, match=r"label_weights must be \[2\] finite numbers, got shape \[3\]"):
        crf.mbr([1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="label_weights must be"):
        crf.mbr([1.0, float("nan")])
    with pytest.raises(ValueError, match="impossible is 'ignore'"):
        crf.log_prob(torch.ones(2, 3, 3, 2), impossible="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"same trees; their shapes are \[2, 3, 3, 2\] and \[2, 3, 3, 1\]"):
        crf.kl(TreeCRF(torch.zeros(2, 3, 3, 1)))
    with pytest.raises(ValueError, match="same trees"):
        crf.kl(TreeCRF(torch.zeros(2, 4, 4, 2)))
    with pytest.raises(ValueError, match="same trees; sentence 1 has 3 and 2 words"):
        crf.cross_entropy(TreeCRF(torch.zeros(2, 3, 3, 2), [3, 2]))
    with pytest.raises(ValueError, match=r"charts of label ids are whole numbers \[\.\.\., 2, 3, 3\]"):
        crf.score(torch.zeros(3, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="a chart holds label 2, but there are 2 labels"):
        crf.score(torch.full((2, 3, 3), 2))


def test_what_is_no_tensor_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"log_potentials must be a torch.Tensor, got numpy.ndarray"):
        TreeCRF(numpy.zeros((1, 2, 2, 1)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"PartialTrees or a torch.Tensor, got builtins.list"):
        TreeCRF(torch.zeros(1, 2, 2, 1)).log_prob([[(0, 1, 0)]])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the other distribution must be a TreeCRF, got torch.Tensor"):
        TreeCRF(torch.zeros(1, 2, 2, 1)).kl(torch.zeros(1, 2, 2, 1))  # type: ignore[arg-type]
