"""The loss of a training step as different programs compute it; the values are the same but for the local one."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.train_step import span_by_span
from nestree.crf import TreeCRF
from nestree.crf.kernels.codes import LATENT, REJECTED
from nestree.model import NestedNER
from nestree.training.batching import Part

Loss = Callable[[NestedNER, Part], Tensor]
NOTHING = -1e6
"""What stands for log 0 in the paper."""


def biaffine(model: NestedNER, part: Part) -> Tensor:
    """One softmax per span, without trees."""
    return _as(model, "local").loss(part.batch, part.observed)


def ours(model: NestedNER, part: Part) -> Tensor:
    """As ``nestree train`` does it."""
    return _as(model, "treecrf").loss(part.batch, part.observed)


def masked_inside(model: NestedNER, part: Part) -> Tensor:
    """The paper's one line: Inside of torch-struct on masked scores, less Inside of torch-struct."""
    crf = importlib.import_module("torch_struct").TreeCRF
    scores = _as(model, "treecrf")(part.batch)
    masked = crf(scores + _log_mask(model, part), lengths=part.batch.lengths).partition
    return (crf(scores, lengths=part.batch.lengths).partition - masked).mean()


def vanilla_inside(model: NestedNER, part: Part) -> Tensor:
    """Inside span by span, all sentences of a batch at a time; masked, and not masked."""
    scores = _as(model, "treecrf")(part.batch)
    masked = span_by_span(scores + _log_mask(model, part), part.batch.lengths)
    return (span_by_span(scores, part.batch.lengths) - masked).mean()


def vanilla_partial(model: NestedNER, part: Part) -> Tensor:
    """Algorithm 2: a case for each kind of node, sentence by sentence. log Z comes from the quick kernels."""
    scores = _as(model, "treecrf")(part.batch)
    entity_labels = part.observed.entity_labels
    lengths, codes = part.batch.lengths.tolist(), part.observed.codes.tolist()
    found = [partial_by_cases(scores[at], codes[at], length, entity_labels) for at, length in enumerate(lengths)]
    return (TreeCRF(scores, part.batch.lengths).log_partition - torch.stack(found)).mean()


def partial_by_cases(scores: Tensor, codes: list[list[int]], length: int, entity_labels: int) -> Tensor:
    """The score of one partial tree, its latent part summed out; tensors over split points, in log space.

    Shape: ``[n, n, label]`` to ``[]``
    """
    latent = scores[..., entity_labels:].logsumexp(-1)
    nothing = scores.new_tensor(NOTHING)
    chart: dict[tuple[int, int], Tensor] = {}
    for width in range(length):
        for i in range(length - width):
            j, code = i + width, codes[i][i + width]
            if code == REJECTED:
                chart[i, j] = nothing
                continue
            own = latent[i, j] if code == LATENT else scores[i, j, code]
            if width:
                left = torch.stack([chart[i, split] for split in range(i, j)])
                right = torch.stack([chart[split + 1, j] for split in range(i, j)])
                own = own + (left + right).logsumexp(-1)
            chart[i, j] = own
    return chart[0, length - 1]


LOSSES: dict[str, Loss] = {
    "biaffine": biaffine,
    "nestree": ours,
    "Masked Inside": masked_inside,
    "vanilla partial marginalisation": vanilla_partial,
    "vanilla Inside": vanilla_inside,
}
NEEDS = {"Masked Inside": "torch_struct"}
"""Packages that some of them need."""


def available() -> tuple[dict[str, Loss], list[str]]:
    """The losses that can be computed here, and a line for each that cannot."""
    lacking = {name: package for name, package in NEEDS.items() if importlib.util.find_spec(package) is None}
    said = [f"{name} is left out: it needs {package} (pip install torch-struct)" for name, package in lacking.items()]
    return {name: loss for name, loss in LOSSES.items() if name not in lacking}, said


def _as(model: NestedNER, loss: Any) -> NestedNER:
    if model.config.loss != loss:
        model.config = replace(model.config, loss=loss)
    return model


def _log_mask(model: NestedNER, part: Part) -> Tensor:
    return part.observed.mask(model.config.smoothing).log().clamp_min(NOTHING)
