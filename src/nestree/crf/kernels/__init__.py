"""The computations behind :class:`nestree.crf.TreeCRF`, and the choice between them.

| backend | module     | where                                                        |
|---------|------------|--------------------------------------------------------------|
| "torch" | `plain.py` | any device; slow, simple, the judge of the others            |
| "cpu"   | `cpu.py`   | CPU tensors; compiled C++ behind the operations of `ops.py`  |
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from nestree.crf.kernels import cpu, fused, plain
from nestree.crf.kernels.codes import SpanCodes

BACKENDS = ("torch", "cpu")

_override: ContextVar[str | None] = ContextVar("nestree_crf_backend", default=None)


class Backend(Protocol):
    """What a backend module offers. Sums are ``[batch]``, float64 where no other type is asked for."""

    def inside(
        self, scores: Tensor, lengths: Tensor, mask: SpanCodes | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Log-sum over all trees, or those the mask allows."""
        ...

    def log_prob(self, scores: Tensor, lengths: Tensor, mask: SpanCodes, strict: bool, dtype: torch.dtype) -> Tensor:
        """The masked sum less the plain one."""
        ...

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """Probabilities of labelled spans."""
        ...

    def expectation(self, scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Log partition, and the expected sum of ``direction`` over a tree's nodes."""
        ...

    def entropy(self, scores: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
        """Entropy in nats."""
        ...

    def best_tree(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """CKY."""
        ...

    def sample(self, scores: Tensor, lengths: Tensor, draws: int, generator: torch.Generator | None) -> Tensor:
        """Trees drawn at random."""
        ...

    def topk(self, scores: Tensor, lengths: Tensor, k: int) -> Tensor:
        """The k best trees."""
        ...


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Overrides the automatic choice for every :class:`TreeCRF` made inside the ``with`` block (in this thread)."""
    if name not in BACKENDS:
        raise ValueError(f"unknown backend {name!r}; known are {', '.join(map(repr, BACKENDS))}.")
    if name == "cpu" and cpu.library is None:
        raise RuntimeError(f"the 'cpu' backend is not there: {_NOT_COMPILED}")
    token = _override.set(name)
    try:
        yield
    finally:
        _override.reset(token)


def choose(device: torch.device) -> tuple[str, Backend]:
    """The backend for tensors on ``device``: its name and its functions."""
    name = _overridden()
    if name == "cpu" and device.type != "cpu":
        raise ValueError(f"the 'cpu' backend computes on CPU tensors; log_potentials is on {device}.")
    if name is None and device.type == "cpu":
        if cpu.library is not None:
            name = "cpu"
        else:
            _warn_once()
    return ("cpu", fused) if name == "cpu" else ("torch", plain)


def _overridden() -> str | None:
    """To ``torch.compile`` the choice is a constant, made when the model is compiled."""
    return _override.get()


# What torch.compiler.assume_constant_result does; but that imports the compiler, a second that few need to spend.
_overridden._dynamo_marked_constant = True  # type: ignore[attr-defined]


_NOT_COMPILED = (
    "this installation of nestree has no compiled kernels: when it was installed, no C++17 compiler was found, or it "
    "failed. "
    "Install one (Debian: apt install g++, macOS: xcode-select --install), then nestree again, for example with "
    "pip install --force-reinstall --no-deps in its folder; pip's -v shows what the compiler said."
)


@cache
def _warn_once() -> None:
    warnings.warn(
        f"nestree.crf uses its plain torch backend, which is many times slower: {_NOT_COMPILED}", stacklevel=4
    )
