"""The fused operations on a GPU: hands tensors to the Triton kernels of ``triton_kernels``.

With ``TRITON_INTERPRET=1`` in the environment when this module is imported, the kernels are interpreted and take CPU
tensors: slow, and the same code, so that they are tested on machines without a GPU.
"""

from __future__ import annotations

import math
import struct
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from nestree.crf.kernels import errors
from nestree.crf.kernels.codes import REJECTED, span_grid
from nestree.crf.kernels.ops import chart_count, define, entropy_of, implement, new_normal, scaled
from nestree.crf.kernels.triton_kernels import normalization, spans, sums, trees

MAX_WORDS = 1024
"""The exponents of the charts are sized for sentences of up to this many words."""

INTERPRETED = not isinstance(sums.charts_kernel, triton.JITFunction)
"""Whether the kernels are interpreted, and take CPU tensors."""

_TILE = {"STARTS": 64, "STEPS": 16, "num_warps": 8, "num_stages": 1}
_LABEL_TILE = 2048  # labelled spans that a program reads at a time


class _Mask(NamedTuple):
    """A partial tree's codes and weights, as kernels take them."""

    codes: Tensor | None
    weights: tuple[int, int, int]
    charts: int

    @classmethod
    def of(
        cls, codes: Tensor | None, entity_labels: int, rejected_weight: float, other_weight: float, with_plain: bool
    ) -> _Mask:
        codes = None if codes is None else codes.to(torch.int16).contiguous()
        return cls(
            codes,
            (entity_labels, _log_bits(rejected_weight), _log_bits(other_weight)),
            chart_count(codes, with_plain),
        )


@cache
def _log_bits(weight: float) -> int:
    return _bits(math.log(weight) if weight > 0 else -math.inf)


def _bits(value: float) -> int:
    """The whole number with the same bits; ``numbers.exact`` turns it back. Kernels take no float64 numbers."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


_NO_MASK = _Mask(None, (0, 0, 0), 1)


def _new_state(scores: Tensor, charts: int, slopes: bool) -> Tensor:
    """What a value keeps is its gradient: computed at once, while scores and charts are at hand."""
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def _on(tensor: Tensor) -> AbstractContextManager[Any]:
    """Kernels start on the current device; this makes it the tensor's."""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device_of(tensor) if elsewhere else _HERE


_HERE = nullcontext()


def _tiles(scores: Tensor) -> dict[str, int]:
    labels = triton.next_power_of_2(scores.shape[3])
    return {"LABELS": labels, "SPANS": max(1, _LABEL_TILE // labels)}


def _check_size(scores: Tensor) -> None:
    if scores.shape[1] > MAX_WORDS:
        raise ValueError(
            f"log_potentials is for sentences of up to {scores.shape[1]} words, the GPU kernels for up to {MAX_WORDS}. "
            'Split long sentences, or use nestree.crf.backend("torch").'
        )


class _Found(NamedTuple):
    """What the charts say."""

    results: Tensor  # log partition and problem, [2, charts, batch]
    charts: Tensor  # inside sums, or the probabilities of spans
    expectation: Tensor | None = None  # [charts, batch]

    @property
    def log_partition(self) -> Tensor:
        return self.results[0]


def _charts(
    scores: Tensor,
    lengths: Tensor,
    mask: _Mask,
    direction: Tensor | None = None,
    *,
    marginals: bool = False,
    difference: bool = False,
) -> _Found:
    """Inside; with ``marginals`` outside too, and with a ``direction`` both along it.

    ``difference``: the plain log partition is 0 where no tree is possible, so that the two can be subtracted.
    """
    _check_size(scores)
    batch, n, _, labels = scores.shape
    inputs, options = _inputs(scores, lengths, mask, direction)
    results = scores.new_empty((2, mask.charts, batch), dtype=torch.float64)
    expectation = torch.empty_like(results[0]) if options["SLOPES"] else None
    cells, parts = n * (n + 1) // 2, 1 + options["WIDE"] + options["SLOPES"]
    charts = scores.new_empty((1 + marginals, mask.charts, batch, parts, cells), dtype=torch.int64)
    found = None
    if marginals:
        dtype = torch.float64 if options["WIDE"] else torch.float32
        found = scores.new_empty((mask.charts, batch, 1 + options["SLOPES"], cells), dtype=dtype)
    if batch:
        options |= {"DIFFERENCE": difference, "MARGINALS": marginals, **_TILE}
        with _on(scores):
            sums.charts_kernel[batch, mask.charts](
                *inputs, charts, found, results, expectation, batch, n, labels, **options
            )
    return _Found(results, charts if found is None else found, expectation)


def _gradient(
    weights: Tensor | None,
    scores: Tensor,
    lengths: Tensor,
    mask: _Mask,
    found: _Found,
    direction: Tensor | None = None,
    value: Tensor | None = None,
    sign: int = 1,
) -> Tensor:
    """Gradients of weighted log partitions, or their change along the direction, from the probabilities of spans.

    ``value``: gets the difference of two log partitions, of which gradients are wanted. Shape: ``weights``
    ``[charts, batch]``, 1 if left out.
    """
    batch, n, _, labels = scores.shape
    out = torch.empty_like(scores, memory_format=torch.contiguous_format)
    if batch:
        inputs, options = _inputs(scores, lengths, mask, direction)
        options |= {"CHARTS": mask.charts, "DIFFERENCE": value is not None, "SIGN": sign, "num_warps": 4}
        weights = None if weights is None else weights.contiguous()
        blocks = triton.cdiv(n * n, options["SPANS"])
        with _on(scores):
            sums.gradient_kernel[blocks * batch,](
                *inputs, found.charts, weights, found.results, value, out, batch, n, labels, **options
            )
    return out


def _inputs(
    scores: Tensor, lengths: Tensor, mask: _Mask, direction: Tensor | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What every kernel over labelled spans takes: arguments, and constants."""
    directed = None if direction is None else direction.contiguous()
    options = {"HAS_CODES": mask.codes is not None, "SLOPES": direction is not None, **_tiles(scores)}
    options["WIDE"] = direction is not None or scores.dtype == torch.float64
    return (scores.contiguous(), directed, lengths.contiguous(), mask.codes, *mask.weights), options


# --- The operations of ops.py ----------------------------------------------------------------------------------------


def inside(
    scores: Tensor,
    lengths: Tensor,
    codes: Tensor | None,
    entity_labels: int,
    rejected_weight: float,
    other_weight: float,
    with_plain: bool,
    keep: bool,
    strict: bool,
) -> tuple[Tensor, Tensor]:
    mask = _Mask.of(codes, entity_labels, rejected_weight, other_weight, with_plain)
    found = _charts(scores, lengths, mask, marginals=keep)
    state = _gradient(None, scores, lengths, mask, found) if keep else found.results.new_empty(0)
    _check(found, scores, lengths, mask, strict)
    return found.log_partition, state


def log_prob(
    scores: Tensor,
    lengths: Tensor,
    codes: Tensor,
    entity_labels: int,
    rejected_weight: float,
    other_weight: float,
    keep: bool,
    strict: bool,
) -> tuple[Tensor, Tensor]:
    mask = _Mask.of(codes, entity_labels, rejected_weight, other_weight, True)
    found = _charts(scores, lengths, mask, marginals=keep, difference=True)
    if keep:
        value = scores.new_empty(len(lengths))
        state = _gradient(None, scores, lengths, mask, found, value=value)
    else:
        value = (found.log_partition[0] - found.log_partition[1]).to(scores.dtype)
        state = found.results.new_empty(0)
    _check(found, scores, lengths, mask, strict)
    return value, state


def log_prob_backward(
    grad: Tensor,
    scores: Tensor,
    lengths: Tensor,
    codes: Tensor,
    entity_labels: int,
    rejected_weight: float,
    other_weight: float,
    state: Tensor,
) -> Tensor:
    return scaled(state, grad)


def marginals(
    weights: Tensor,
    scores: Tensor,
    lengths: Tensor,
    codes: Tensor | None,
    entity_labels: int,
    rejected_weight: float,
    other_weight: float,
    with_plain: bool,
    state: Tensor | None,
) -> Tensor:
    mask = _Mask.of(codes, entity_labels, rejected_weight, other_weight, with_plain)
    if state is not None:
        return scaled(state, weights[0])
    found = _charts(scores, lengths, mask, marginals=True)
    gradient = _gradient(weights, scores, lengths, mask, found)
    _check(found, scores, lengths, mask)
    return gradient


def slopes(
    weights: Tensor,
    scores: Tensor,
    direction: Tensor,
    lengths: Tensor,
    codes: Tensor | None,
    entity_labels: int,
    rejected_weight: float,
    other_weight: float,
    with_plain: bool,
) -> tuple[Tensor, Tensor]:
    mask = _Mask.of(codes, entity_labels, rejected_weight, other_weight, with_plain)
    found = _charts(scores, lengths, mask, direction, marginals=True)
    assert found.expectation is not None
    return found.expectation, _gradient(weights, scores, lengths, mask, found, direction)


def expectation(scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    found = _charts(scores, lengths, _NO_MASK, direction)
    _check(found, scores, lengths)
    assert found.expectation is not None
    return found.log_partition[0], found.expectation[0]


def entropy(scores: Tensor, lengths: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    found = _charts(scores, lengths, _NO_MASK, scores, marginals=keep)
    assert found.expectation is not None
    value = entropy_of(found.log_partition[0], found.expectation[0])
    state = found.results.new_empty(0)
    if keep:
        state = _gradient(None, scores, lengths, _NO_MASK, found, scores, sign=-1)
    _check(found, scores, lengths)
    return value, state


def entropy_backward(grad: Tensor, scores: Tensor, lengths: Tensor, state: Tensor) -> Tensor:
    return scaled(state, grad)


def best_tree(scores: Tensor, lengths: Tensor) -> Tensor:
    _check_size(scores)
    batch, n, _, labels = scores.shape
    cells = n * (n + 1) // 2
    nodes = scores.new_full((batch, n, n), -1, dtype=torch.int64)
    best = scores.new_empty((batch, cells), dtype=torch.float64)
    choices = scores.new_empty((batch, 2, cells), dtype=torch.int32)
    results = scores.new_empty((2, 1, batch), dtype=torch.float64)
    if batch:
        with _on(scores):
            trees.best_tree_kernel[batch,](
                scores.contiguous(),
                lengths.contiguous(),
                best,
                choices,
                nodes,
                results[1],
                n,
                labels,
                WORDS=triton.next_power_of_2(n),
                **_tiles(scores),
                **_TILE,
            )
    _check(_Found(results, best), scores, lengths)
    return nodes


def sample(scores: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    found = _charts(scores, lengths, _NO_MASK)
    _check(found, scores, lengths)
    batch, n, _, labels = scores.shape
    draws = uniforms.shape[0]
    nodes = scores.new_full((draws, batch, n, n), -1, dtype=torch.int64)
    if batch and draws:
        with _on(scores):
            trees.sample_kernel[batch * draws,](
                scores.contiguous(),
                lengths.contiguous(),
                found.charts,
                uniforms.contiguous(),
                nodes,
                batch,
                n,
                labels,
                WIDE=scores.dtype == torch.float64,
                LABELS=triton.next_power_of_2(labels),
                WORDS=triton.next_power_of_2(n),
                num_warps=1,
            )
    return nodes


def _with_strides(tensor: Tensor) -> tuple[Any, ...]:
    return tensor, *tensor.stride()


def normalize(scores: Tensor, lengths: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    out = new_normal(scores)
    batch, n, _, labels = scores.shape
    scales = scores.new_empty(batch, dtype=torch.float64)
    if batch:
        with _on(scores):
            tensors = (*_with_strides(scores), *_with_strides(out), lengths.contiguous(), scales)
            numbers = (n, labels, _bits(epsilon))
            normalization.normalize_kernel[batch,](*tensors, *numbers, **_tiles(scores), num_warps=8)
    return out, scales


def normalize_backward(grad: Tensor, scores: Tensor, normal: Tensor, scales: Tensor, lengths: Tensor) -> Tensor:
    out = torch.zeros_like(scores)
    batch, n, _, labels = scores.shape
    if batch:
        with _on(scores):
            tensors = (*_with_strides(grad), *_with_strides(normal), *_with_strides(out), lengths.contiguous(), scales)
            normalization.normalize_backward_kernel[batch,](*tensors, n, labels, **_tiles(scores), num_warps=8)
    return out


# --- Errors ----------------------------------------------------------------------------------------------------------


def _check(found: _Found, scores: Tensor, lengths: Tensor, mask: _Mask = _NO_MASK, strict: bool = False) -> None:
    """Raises what a kernel found wrong. ``strict``: no tree is an error.

    This waits for the kernel. While a CUDA graph is captured nothing can be waited for: then bad numbers show as NaN.
    """
    if scores.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    problems = found.results[1].cpu()
    if any(problems.flatten().tolist()):
        _raise(problems, scores.detach(), lengths, mask, strict)


def _raise(problems: Tensor, scores: Tensor, lengths: Tensor, mask: _Mask, strict: bool) -> None:
    def sentence_with(problem: Any) -> int | None:
        sentences = torch.nonzero(problems.reshape(-1, len(lengths)) == problem.value)[:, 1]
        return int(sentences.min()) if len(sentences) else None

    n, codes = scores.shape[1], mask.codes
    if (sentence := sentence_with(spans.LENGTH)) is not None:
        raise errors.length_out_of_range(sentence, int(lengths[sentence]), n)
    grid = span_grid(lengths, n)
    if sentence_with(spans.NOT_FINITE) is not None:
        errors.raise_not_finite(scores.masked_fill(~grid[..., None], -math.inf))
    if codes is not None and (sentence := sentence_with(spans.CODE)) is not None:
        wrong = grid[sentence] & ((codes[sentence] < REJECTED) | (codes[sentence] >= scores.shape[3]))
        start, end = torch.nonzero(wrong)[0].tolist() if wrong.any() else (0, 0)
        raise ValueError(f"codes hold an unknown value at sentence {sentence}, span ({start}, {end}).")
    if codes is not None and (sentence := sentence_with(spans.OTHER_LENGTH)) is not None:
        words = codes[sentence].diagonal() != REJECTED
        if not bool((words == (torch.arange(n, device=words.device) < words.sum())).all()):
            raise ValueError(f"codes reject a word of sentence {sentence}: a word by itself is in every tree.")
        raise errors.other_length(sentence, int(lengths[sentence]), int(words.sum()))
    for problem in (spans.TOO_LARGE, spans.TOO_SMALL):
        if (sentence := sentence_with(problem)) is not None:
            raise errors.out_of_range(scores[sentence], int(lengths[sentence]), sentence, problem is spans.TOO_LARGE)
    if strict and sentence_with(spans.NO_TREE) is not None:
        total = _charts(scores, lengths, mask).log_partition
        errors.require_trees(total[0], total[-1])


define("triton", _new_state, torch.contiguous_format)
implement("triton", "CPU" if INTERPRETED else "CUDA", globals())
