"""Random sentences and partial trees for the tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nestree.crf import PartialTrees, backend
from nestree.crf.kernels import _has_triton, cpu

HAS_GPU = torch.cuda.is_available()
INTERPRETED = not HAS_GPU
"""Without a GPU the Triton kernels are interpreted: the same code, some thousand times slower."""

NEVER = float("-inf")


def random_scores(
    batch: int, n: int, labels: int, *, scale: float = 1.0, dtype: torch.dtype = torch.float64, holes: float = 0.0
) -> Tensor:
    """Normal scores, of which a share is -inf."""
    scores = torch.randn(batch, n, n, labels, dtype=torch.float64) * scale
    return scores.masked_fill(torch.rand(scores.shape) < holes, NEVER).to(dtype)


def random_nesting(rng: random.Random, n: int, labels: int, keep: float = 0.4) -> list[tuple[int, int, int]]:
    """Some nodes of a random binary tree over n words, with labels: spans that cannot cross."""
    spans = []

    def visit(i: int, j: int) -> None:
        if rng.random() < keep:
            spans.append((i, j, rng.randrange(labels)))
        if i < j:
            split = rng.randrange(i, j)
            visit(i, split)
            visit(split + 1, j)

    visit(0, n - 1)
    rng.shuffle(spans)
    return spans


def partial_trees(*arguments: Any, **options: Any) -> PartialTrees:
    """As :meth:`PartialTrees.from_spans`, on the device that a test computes on."""
    return PartialTrees.from_spans(*arguments, **options).to(torch.get_default_device())


def interpreted(name: str) -> bool:
    """Whether a backend is so slow here that it gets small sentences."""
    return name == "triton" and INTERPRETED


@contextmanager
def using(name: str) -> Iterator[None]:
    """Computes with one backend, on tensors where that backend computes."""
    with torch.device(device_for(name)), backend(name):
        yield


def why_not(name: str) -> str | None:
    """Why a backend cannot be tested on this machine."""
    if name == "cpu" and cpu.library is None:
        return "the CPU kernels are not compiled here (no C++ compiler at installation)"
    if name == "triton" and not _has_triton():
        return "Triton is not installed"
    return None


def device_for(name: str) -> str:
    """Where the tensors of a test with this backend live."""
    return "cuda" if name == "triton" and HAS_GPU else "cpu"


def generator(seed: int) -> torch.Generator:
    """Random numbers for the device that a test computes on."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)
