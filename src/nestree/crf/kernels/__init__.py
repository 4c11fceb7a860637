"""The computations behind :class:`nestree.crf.TreeCRF`, and the choice between them.

| backend  | module     | where                                                                  |
|----------|------------|------------------------------------------------------------------------|
| "torch"  | `plain.py` | any device; slow, simple, the judge of the others                      |
| "cpu"    | `cpu.py`   | CPU tensors; compiled C++ behind the operations of `ops.py`            |
| "triton" | `gpu.py`   | CUDA tensors; Triton behind the same operations, imported when needed  |
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from nestree.crf.kernels import cpu, plain
from nestree.crf.kernels.codes import SpanCodes
from nestree.crf.kernels.fused import Fused

BACKENDS = ("torch", "cpu", "triton")

_override: ContextVar[str | None] = ContextVar("nestree_crf_backend", default=None)


class Backend(Protocol):
    """What a backend module offers. Sums are ``[batch]``, float64 where no other type is asked for."""

    def inside(
        self, scores: Tensor, lengths: Tensor, mask: SpanCodes | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Log-sum over all trees, or those the mask allows."""
        ...

    def log_prob(self, scores: Tensor, lengths: Tensor, mask: SpanCodes, strict: bool) -> Tensor:
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

    def normalize(self, scores: Tensor, lengths: Tensor, epsilon: float) -> Tensor:
        """Potential normalisation."""
        ...


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Overrides the automatic choice for every :class:`TreeCRF` made inside the ``with`` block (in this thread)."""
    if name not in BACKENDS:
        raise ValueError(f"unknown backend {name!r}; known are {', '.join(map(repr, BACKENDS))}.")
    if name == "cpu" and cpu.library is None:
        raise RuntimeError(f"the 'cpu' backend is not there: {_NOT_COMPILED}")
    if name == "triton" and not _has_triton():
        raise RuntimeError(f"the 'triton' backend is not there: {_NO_TRITON}")
    token = _override.set(name)
    try:
        yield
    finally:
        _override.reset(token)


_backends: dict[str, Backend] = {"torch": plain, "cpu": Fused("cpu"), "triton": Fused("triton")}


def choose(device: torch.device) -> tuple[str, Backend]:
    """The backend for tensors on ``device``: its name and its functions."""
    name = _name_for(device.type)
    return name, _backends[name]


def _name_for(device: str) -> str:
    """To ``torch.compile`` the choice is a constant, made when the model is compiled."""
    name = _override.get()
    if name is None:
        name = _usual(device)
    elif name == "cpu" and device != "cpu":
        raise ValueError(f"the 'cpu' backend computes on CPU tensors; log_potentials is on {device}.")
    elif name == "triton" and device != ("cpu" if _interpreted() else "cuda"):
        where = "CPU tensors where TRITON_INTERPRET is set" if _interpreted() else "CUDA tensors"
        raise ValueError(f"the 'triton' backend computes on {where}; log_potentials is on {device}.")
    if name == "triton":
        from nestree.crf.kernels import gpu  # noqa: F401  (defines the operations; Triton takes a moment to import)
    return name


# What torch.compiler.assume_constant_result does; but that imports the compiler, a second that few need to spend.
_name_for._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _usual(device: str) -> str:
    if device == "cpu" and cpu.library is not None:
        return "cpu"
    if device == "cuda" and _has_triton() and not _interpreted():
        return "triton"
    if device == "cpu":
        _warn_once(_NOT_COMPILED)
    elif device == "cuda":
        _warn_once(_IS_INTERPRETED if _interpreted() else _NO_TRITON)
    return "torch"


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _interpreted() -> bool:
    """As Triton reads the variable."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


_NOT_COMPILED = (
    "this installation of nestree has no compiled kernels: when it was installed, no C++17 compiler was found, or it "
    "failed. "
    "Install one (Debian: apt install g++, macOS: xcode-select --install), then nestree again, for example with "
    "pip install --force-reinstall --no-deps in its folder; pip's -v shows what the compiler said."
)


_NO_TRITON = (
    "Triton is not installed. It comes with torch's own builds for NVIDIA GPUs on Linux; "
    'elsewhere, try pip install "nestree[gpu]".'
)


_IS_INTERPRETED = "TRITON_INTERPRET is set in the environment, so Triton's kernels do not run on a GPU."


@cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"nestree.crf uses its plain torch backend, which is many times slower: {reason}", stacklevel=6)
