from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from nestree.crf import Doubts, PartialTrees, Symbol, spans_of
from tests.crf.cases import random_nesting


def from_spans(*spans: tuple[int, int, int], length: int = 6, **options: int) -> PartialTrees:
    return PartialTrees.from_spans([[], list(spans)], [2, length], **{"entity_labels": 3, **options})


def test_spans_come_back() -> None:
    rng = random.Random(0)
    lengths = [9, 1, 5]
    spans = [random_nesting(rng, m, 4) for m in lengths]
    partial = PartialTrees.from_spans(spans, torch.tensor(lengths), entity_labels=4)
    assert list(partial.spans()) == [sorted(s) for s in spans]
    assert len(partial) == 3
    assert partial.codes.dtype == torch.int16


def test_charts_can_be_larger_than_the_longest_sentence() -> None:
    partial = PartialTrees.from_spans([[(0, 1, 0)]], [3], entity_labels=1, n=5)
    assert partial.codes.shape == (1, 5, 5)
    assert partial.mask()[0, 3:].sum() == partial.mask()[0, :, 3:].sum() == 0


def test_smoothing_changes_what_its_scope_names() -> None:
    partial = PartialTrees.from_spans([[(0, 1, 0)]], [3], entity_labels=2, latent_labels=1)
    plain, rejected, everything = partial.mask()[0], partial.mask(0.1)[0], partial.mask(0.1, "all")[0]
    assert plain[1, 2].tolist() == [0, 0, 0]  # crosses (0, 1)
    assert rejected[1, 2].tolist() == everything[1, 2].tolist() == pytest.approx([0.1, 0.1, 0.1])
    assert plain[0, 1].tolist() == rejected[0, 1].tolist() == [1, 0, 0]
    assert everything[0, 1].tolist() == pytest.approx([1, 0.1, 0.1])
    assert plain[0, 2].tolist() == rejected[0, 2].tolist() == [0, 0, 1]
    assert everything[0, 2].tolist() == pytest.approx([0.1, 0.1, 1])
    assert everything[2, 1].tolist() == [0, 0, 0]  # below the diagonal there is no span


def test_gumbel_smoothing_perturbs_the_smoothed_entries_alone() -> None:
    partial = from_spans((0, 3, 1), (1, 2, 0), length=12)
    fixed, random_one = partial.mask(0.1, "all"), partial.mask(0.1, "all", gumbel=True)
    smoothed = fixed == torch.tensor(0.1)
    assert torch.equal(random_one[~smoothed], fixed[~smoothed])
    gumbel = (random_one[smoothed] / 0.1).log()
    assert gumbel.mean().item() == pytest.approx(0.5772, abs=0.3)  # the mean of a standard Gumbel
    again = [partial.mask(0.1, gumbel=True, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*again)


def test_a_span_given_twice_with_one_label_counts_once() -> None:
    assert torch.equal(from_spans((1, 3, 2), (1, 3, 2)).codes, from_spans((1, 3, 2)).codes)


def test_moves_to_a_device() -> None:
    assert from_spans((1, 3, 2)).to("meta").codes.device.type == "meta"


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(1, 3, 0), (2, 5, 0)], r"sentence 1: observed spans \(1, 3\) and \(2, 5\) cross"),
        ([(2, 5, 0), (1, 3, 0)], r"sentence 1: observed spans \(2, 5\) and \(1, 3\) cross"),
        ([(1, 6, 0)], r"sentence 1: observed span \(1, 6\) does not lie within its 6 words"),
        ([(-1, 2, 0)], r"sentence 1: observed span \(-1, 2\) does not lie"),
        ([(3, 2, 0)], r"sentence 1: observed span \(3, 2\) does not lie"),
        ([(0, 2, 3)], r"sentence 1: observed span \(0, 2\) has label 3; entity labels are 0 to 2"),
        ([(0, 2, -1)], r"sentence 1: observed span \(0, 2\) has label -1"),
        ([(0, 2, 0), (0, 2, 1)], r"sentence 1: observed span \(0, 2\) has two labels, 0 and 1"),
        ([(0, 3, 0), (3, 5, 0)], r"cross; .*both ends are inclusive"),
        ([(0, 2)], r"sentence 1: \(0, 2\) is no \(start, end, label\)"),
    ],
)
def test_what_no_tree_can_hold_is_refused(spans: list[tuple[int, int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_spans(*spans)


@pytest.mark.parametrize("label", ["PER", 1.5])
def test_labels_are_whole_numbers(label: object) -> None:
    with pytest.raises(TypeError, match=r"sentence 1: span \(0, 2, .*which is not a whole number"):
        from_spans((0, 2, label))  # type: ignore[arg-type]


def test_nodes_become_spans() -> None:
    nodes = torch.full((2, 3, 3), -1)
    nodes[0, 0, 2], nodes[0, 0, 0], nodes[1, 1, 1] = 1, 0, 2
    assert list(spans_of(nodes)) == [[(0, 0, 0), (0, 2, 1)], [(1, 1, 2)]]
    assert list(spans_of(nodes, entity_labels=2)) == [[(0, 0, 0), (0, 2, 1)], []]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"lengths\[0\] holds 3.9, which is not a whole number"):
        PartialTrees.from_spans([[]], [3.9], entity_labels=1)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="spans holds 1 sentences and lengths 2"):
        PartialTrees.from_spans([[]], [1, 2], entity_labels=1)
    with pytest.raises(ValueError, match=r"lengths\[1\] is 0"):
        PartialTrees.from_spans([[], []], [1, 0], entity_labels=1)
    with pytest.raises(ValueError, match=r"lengths\[0\] is 4; sentences have 1 to 3"):
        PartialTrees.from_spans([[]], [4], entity_labels=1, n=3)
    with pytest.raises(ValueError, match="entity_labels >= 1"):
        PartialTrees.from_spans([[]], [1], entity_labels=0)
    with pytest.raises(ValueError, match="at most 32767"):
        PartialTrees.from_spans([[]], [1], entity_labels=40000)
    with pytest.raises(ValueError, match="scope is 'none'"):
        from_spans().mask(0.1, "none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="smoothing is a weight between 0 and 1"):
        from_spans().mask(-0.1)
    with pytest.raises(ValueError, match=r"codes must be \[batch, n, n\]"):
        PartialTrees(torch.zeros(2, 3, 4, dtype=torch.int16), torch.tensor([1, 1]), 1)


SETS = torch.tensor([[0.5, 0.0, 1.0], [1.0, 1.0, 0.0]])


def test_open_spans_are_latent_and_uncertain_ones_observed() -> None:
    partial = PartialTrees.from_spans(
        [[(1, 2, -2)]], [4], entity_labels=2, sets=SETS, doubts=[Doubts(-1, ((3, 3, 0),), ((0, 1, 0),))]
    )
    # (0, 1) crosses the entity: what is said of it does not count.
    assert partial.codes[0].tolist() == [[-1, -2, -1, -3], [-2, -1, -4, -3], [-2, -2, -1, -2], [-2, -2, -2, -3]]
    glyphs = [[Symbol(value).glyph for value in row] for row in partial.symbols[0].tolist()]
    assert glyphs == [["□", "○", "□", "□"], [" ", "□", "●", "□"], [" ", " ", "□", "○"], [" ", " ", " ", "□"]]
    assert partial.mask()[0, 1, 2].tolist() == [1.0, 1.0, 0.0]
    assert partial.mask()[0, 3, 3].tolist() == [0.5, 0.0, 1.0]
    assert partial.mask(0.1, "all")[0, 3, 3].tolist() == pytest.approx([0.5, 0.1, 1.0])
    assert partial.to("cpu").sets is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sets": SETS, "doubts": [Doubts(2)]}, "names? set 2; there are 2"),
        ({"sets": SETS, "doubts": [Doubts(0, ((0, 4, 0),))]}, "not within its 4 words"),
        ({"sets": SETS, "doubts": [None, None]}, "for 2 sentences, and there are 1"),
        ({"sets": SETS[:, :2]}, r"weights \[set, 3\]"),
        ({"sets": -SETS}, "weights >= 0"),
        ({"sets": SETS, "spans": [[(0, 1, -3)]]}, "has label -3; entity labels are 0 to 1, sets -1 to -2"),
        ({"spans": [[(0, 1, -1)]]}, "has label -1; entity labels are 0 to 1"),
    ],
)
def test_doubts_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    spans = options.pop("spans", [[]])
    with pytest.raises(ValueError, match=message):
        PartialTrees.from_spans(spans, [4], entity_labels=2, **options)
