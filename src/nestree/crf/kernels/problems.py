"""What the kernels on a GPU report about their sentences, as errors."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nestree.crf.kernels import errors, later
from nestree.crf.kernels.codes import REJECTED, span_grid
from nestree.crf.kernels.launches import charts
from nestree.crf.kernels.ops import ALL_TREES, ChartMask
from nestree.crf.kernels.triton_kernels import spans


def check(problems: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask = ALL_TREES, strict: bool = False) -> None:
    """Raises what a kernel found wrong. ``strict``: no tree is an error. Shape: ``problems`` ``[charts, batch]``.

    This waits for the kernel. While a CUDA graph is captured nothing can be waited for: then bad numbers show as NaN.
    """
    if later.is_recorded(scores):
        return

    def look() -> None:
        reports = problems.tolist()
        if any(any(report) for report in reports):
            _raise(torch.tensor(reports), scores.detach(), lengths, mask, strict)

    later.check(look, can_wait=scores.is_cuda)


def _raise(problems: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask, strict: bool) -> None:
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
        start, end = torch.nonzero(wrong)[0].tolist()
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
        total = charts(scores, lengths, mask).log_partition
        errors.require_trees(total[0], total[-1])
