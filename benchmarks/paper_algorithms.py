"""How long do the paper's algorithms take as it writes them, loop by loop, and the same sums here?

    python -m benchmarks.paper_algorithms

For the loss of a batch, forward and backward: Masked Inside − Inside with Algorithm 2 and with Algorithm 3, sentence by
sentence, against one call of ``log_prob``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.measure import environment, interleaved_medians, table, write_json
from nestree.crf import PartialTrees, TreeCRF, reference

BATCH, LABELS, ENTITY_LABELS = 8, 8, 7


def main() -> None:
    """Lengths as in ACE (20 words) and GENIA (30 words)."""
    torch.set_num_threads(1)
    rows = []
    for n in (20, 30):
        scores = torch.randn(BATCH, n, n, LABELS, requires_grad=True)
        spans = [(0, 0, 0), (0, 2, 1), (0, n // 2, 2), (n - 4, n - 2, 3)]
        gold = PartialTrees.from_spans([spans] * BATCH, [n] * BATCH, entity_labels=ENTITY_LABELS)
        contenders: dict[str, Callable[[], Tensor]] = {
            "nestree": partial(gradient, partial(ours, gold), scores),
            "Algorithm 2, vanilla": partial(gradient, partial(algorithm_2, spans), scores),
            "Algorithm 3, vanilla": partial(gradient, partial(algorithm_3, spans), scores),
        }
        wanted = contenders["nestree"]()
        for run in contenders.values():
            torch.testing.assert_close(run(), wanted, rtol=1e-4, atol=1e-5)
        times = interleaved_medians(contenders, rounds=(3, 10))
        mine = times.pop("nestree")
        for peer, theirs in times.items():
            row = {"op": "loss forward+backward", "n": n, "threads": 1, "ours_ms": round(mine, 4), "peer": peer}
            rows.append({**row, "peer_ms": round(theirs, 1), "ratio": round(theirs / mine)})
    print(table(rows, ["op", "n", "ours_ms", "peer", "peer_ms", "ratio"]))
    print(f"written to {write_json('paper-algorithms', {'environment': environment(), 'rows': rows})}")


def gradient(loss: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    """One forward and one backward pass."""
    return torch.autograd.grad(loss(scores), scores)[0]


def ours(gold: PartialTrees, scores: Tensor) -> Tensor:
    """The fused kernels."""
    return TreeCRF(scores).log_prob(gold).sum()


def algorithm_2(spans: list[tuple[int, int, int]], scores: Tensor) -> Tensor:
    """A case for each kind of node."""
    observed = {(i, j): k for i, j, k in spans}
    symbols, _ = reference.symbol_tree_and_mask(scores.shape[1], observed, ENTITY_LABELS, LABELS - ENTITY_LABELS)
    return torch.stack(
        [
            reference.inside_for_partial_marginalization(s, observed, symbols, ENTITY_LABELS) - reference.inside(s)
            for s in scores
        ]
    ).sum()


def algorithm_3(spans: list[tuple[int, int, int]], scores: Tensor) -> Tensor:
    """The cases folded into a mask."""
    observed = {(i, j): k for i, j, k in spans}
    _, mask = reference.symbol_tree_and_mask(scores.shape[1], observed, ENTITY_LABELS, LABELS - ENTITY_LABELS)
    return torch.stack([reference.masked_inside(s, mask) - reference.inside(s) for s in scores]).sum()


if __name__ == "__main__":
    main()
