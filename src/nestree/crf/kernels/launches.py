"""Starts the Triton kernels that fill charts: what every operation on a GPU is made of."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton import JITFunction

from nestree.crf.kernels.ops import ChartMask
from nestree.crf.kernels.triton_kernels import gradients, sums

MAX_WORDS = 1024
"""The exponents of the charts are sized for sentences of up to this many words."""

TILE = {"STARTS": 64, "STEPS": 16, "num_warps": 8, "num_stages": 1}
_LABEL_TILE = 2048  # labelled spans that a program reads at a time


class Inputs(NamedTuple):
    """What every kernel over labelled spans takes."""

    arguments: tuple[Any, ...]
    constants: dict[str, Any]


class Found(NamedTuple):
    """What the charts say."""

    results: Tensor  # log partition and problem, [2, charts, batch]
    charts: Tensor  # inside sums, or the probabilities of spans
    expectation: Tensor | None  # [charts, batch]
    inputs: Inputs

    @property
    def log_partition(self) -> Tensor:
        """Of each chart. Shape: ``[charts, batch]``."""
        return self.results[0]


def charts(
    scores: Tensor,
    lengths: Tensor,
    mask: ChartMask,
    direction: Tensor | None = None,
    *,
    marginals: bool = False,
    difference: bool = False,
) -> Found:
    """Inside; with ``marginals`` outside too, and with a ``direction`` both along it.

    ``difference``: the plain log partition is 0 where no tree is possible, so that the two can be subtracted.
    """
    check_size(scores)
    batch, n, _, labels = scores.shape
    inputs = _inputs(scores, lengths, mask, direction)
    options = inputs.constants
    results = scores.new_empty((2, mask.charts, batch), dtype=torch.float64)
    expectation = torch.empty_like(results[0]) if options["SLOPES"] else None
    cells, parts = n * (n + 1) // 2, 1 + options["WIDE"] + options["SLOPES"]
    memory = scores.new_empty((1 + marginals, mask.charts, batch, parts, cells), dtype=torch.int64)
    found = None
    if marginals:
        dtype = torch.float64 if options["WIDE"] else torch.float32
        found = scores.new_empty((mask.charts, batch, 1 + options["SLOPES"], cells), dtype=dtype)
    if batch:
        arguments = (*inputs.arguments, memory, found, results, expectation, batch, n, labels)
        constants = {**options, "DIFFERENCE": difference, "MARGINALS": marginals, **TILE}
        start(sums.charts_kernel, (batch, mask.charts, 1), arguments, constants)
    return Found(results, memory if found is None else found, expectation, inputs)


def gradient(
    found: Found, scores: Tensor, weights: Tensor | None = None, *, value: Tensor | None = None, sign: int = 1
) -> Tensor:
    """Gradients of weighted log partitions, or their change along the direction, from the probabilities of spans.

    ``value``: gets the difference of two log partitions, of which gradients are wanted. Shape: ``weights``
    ``[charts, batch]``, 1 if left out.
    """
    batch, n, _, labels = scores.shape
    out = torch.empty_like(scores, memory_format=torch.contiguous_format)
    if batch:
        inputs, options = found.inputs
        weights = None if weights is None else weights.contiguous()
        arguments = (*inputs, found.charts, weights, found.results, value, out, batch, n, labels)
        blocks = -(-n * n // options["SPANS"])
        constants = {**options, "CHARTS": found.results.shape[1], "DIFFERENCE": value is not None}
        start(gradients.gradient_kernel, (blocks * batch, 1, 1), arguments, {**constants, "SIGN": sign, "num_warps": 4})
    return out


def _inputs(scores: Tensor, lengths: Tensor, mask: ChartMask, direction: Tensor | None) -> Inputs:
    codes = None if mask.codes is None else mask.codes.to(torch.int16).contiguous()
    directed = None if direction is None else direction.contiguous()
    weights = (mask.entity_labels, _log_bits(mask.rejected_weight), _log_bits(mask.other_weight))
    options = {"HAS_CODES": codes is not None, "SLOPES": direction is not None, **tiles(scores)}
    options["WIDE"] = direction is not None or scores.dtype == torch.float64
    return Inputs((scores.contiguous(), directed, lengths.contiguous(), codes, *weights), options)


@lru_cache(maxsize=64)  # as few as there are smoothing weights
def _log_bits(weight: float) -> int:
    return bits(math.log(weight) if weight > 0 else -math.inf)


def bits(value: float) -> int:
    """The whole number with the same bits; ``numbers.exact`` turns it back. Kernels take no float64 numbers."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def start(kernel: Any, grid: tuple[int, int, int], arguments: Sequence[Any], constants: dict[str, Any]) -> None:
    """Starts a kernel on the device of its first argument, a tensor.

    Which compiled form of it fits is looked up by types, whole numbers and constants, where all tensors are aligned as
    torch aligns them. Triton's own way of finding that out takes longer than a small kernel runs.
    """
    device = arguments[0].get_device()
    addresses = 0
    key: list[Any] = [id(kernel), device, *constants.values()]
    for argument in arguments:
        if isinstance(argument, Tensor):
            addresses |= argument.data_ptr()
            key.append(argument.dtype)
        else:
            key.append(argument)
    found = None if addresses % 16 else _compiled.get(tuple(key))
    elsewhere = device >= 0 and device != torch.cuda.current_device()
    with torch.cuda.device(device) if elsewhere else _HERE:
        if found is not None:
            compiled, rest = found
            compiled[grid](*arguments, *rest)
            return
        compiled = kernel[grid](*arguments, **constants)
    if isinstance(kernel, JITFunction) and not addresses % 16:
        if len(_compiled) >= _MOST_KNOWN:
            _compiled.clear()
        _compiled[tuple(key)] = compiled, [constants[name] for name in kernel.arg_names[len(arguments) :]]


_compiled: dict[tuple[Any, ...], tuple[Any, list[Any]]] = {}
_MOST_KNOWN = 4096  # one for each shape of a batch
_HERE = nullcontext()


def tiles(scores: Tensor) -> dict[str, int]:
    """How many labels and spans a program reads at a time."""
    labels = power_of_2(scores.shape[3])
    return {"LABELS": labels, "SPANS": max(1, _LABEL_TILE // labels)}


def power_of_2(number: int) -> int:
    """The smallest that is not less than a positive number."""
    return 1 << (number - 1).bit_length()


def check_size(scores: Tensor) -> None:
    """Refuses sentences that the charts' exponents are not made for."""
    if scores.shape[1] > MAX_WORDS:
        raise ValueError(
            f"log_potentials is for sentences of up to {scores.shape[1]} words, the GPU kernels for up to {MAX_WORDS}. "
            'Split long sentences, or use nestree.crf.backend("torch").'
        )
