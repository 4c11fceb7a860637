"""The same questions put to nestree and to its peers: one class each, the same methods.

``None`` instead of a method's result means that the peer cannot answer the question.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import random
import sys
import types
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from nestree.crf import PartialTrees, TreeCRF, backend

SMOOTHING = 0.02
OPERATIONS = (
    "log_partition forward",
    "log_partition forward+backward",
    "loss forward+backward",
    "argmax",
    "marginals",
    "entropy forward+backward",
)


class Problem:
    """A batch as training has it: normal scores (what potential normalisation leaves), nested annotations."""

    def __init__(
        self, batch: int, n: int, labels: int, device: str = "cpu", dtype: torch.dtype = torch.float32, seed: int = 0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.scores = torch.randn(batch, n, n, labels, generator=generator).to(device, dtype)
        self.lengths = torch.full((batch,), n, device=device)
        rng = random.Random(seed)
        spans = [nested_entities(rng, n, labels - 1) for _ in range(batch)]
        self.partial = PartialTrees.from_spans(spans, [n] * batch, entity_labels=labels - 1).to(device)

    @cached_property
    def log_mask(self) -> Tensor:
        """The dense mask that the peers need, made once: it belongs to data processing, not to the loss."""
        return self.partial.mask(SMOOTHING, "all", dtype=self.scores.dtype).log().clamp_min(-1e6)

    def leaf(self) -> Tensor:
        """The scores as a fresh leaf of the autograd graph."""
        return self.scores.detach().requires_grad_()


class Contender(Protocol):
    """One library's answers; the first four return the gradient for the scores beside the value."""

    name: str

    def run(self, operation: str, problem: Problem) -> tuple[Tensor, ...] | None:
        """The answer, or None where there is none."""
        ...


class Nestree:
    """This package, with one of its backends."""

    def __init__(self, backend_name: str | None = None) -> None:
        self.name = "nestree" if backend_name is None else f"nestree ({backend_name})"
        self.backend = backend_name

    def run(self, operation: str, problem: Problem) -> tuple[Tensor, ...] | None:
        """Every operation has an answer."""
        if self.backend is None:
            return self._run(operation, problem)
        with backend(self.backend):
            return self._run(operation, problem)

    def _run(self, operation: str, problem: Problem) -> tuple[Tensor, ...]:
        scores = problem.leaf() if "backward" in operation else problem.scores
        crf = TreeCRF(scores, problem.lengths)
        if operation == "argmax":
            return (crf.argmax,)
        if operation == "marginals":
            return (crf.marginals,)
        if operation.startswith("log_partition"):
            value = crf.log_partition
        elif operation.startswith("entropy"):
            value = crf.entropy
        else:
            value = crf.log_prob(problem.partial, smoothing=SMOOTHING, scope="all")
        return _with_gradient(value, scores) if "backward" in operation else (value,)


class TorchStruct:
    """torch-struct 0.5; its masked inside is its inside on masked scores, as the paper's authors use it."""

    name = "torch-struct"

    def __init__(self) -> None:
        torch.distributions.Distribution.set_default_validate_args(False)  # it warns, and would only be slower
        self.TreeCRF: Any = importlib.import_module("torch_struct").TreeCRF

    def run(self, operation: str, problem: Problem) -> tuple[Tensor, ...] | None:
        """Every operation has an answer."""
        scores = problem.leaf() if "backward" in operation else problem.scores
        crf = self.TreeCRF(scores, lengths=problem.lengths)
        if operation == "argmax":
            return (_chart_of_one_hot(crf.argmax),)
        if operation == "marginals":
            return (crf.marginals,)
        if operation.startswith("log_partition"):
            value = crf.partition
        elif operation.startswith("entropy"):
            value = crf.entropy
        else:
            value = self.TreeCRF(scores + problem.log_mask, lengths=problem.lengths).partition - crf.partition
        value = value.reshape(-1)
        return _with_gradient(value, scores) if "backward" in operation else (value.detach(),)


class Supar:
    """supar 1.1.4: spans without labels, between word boundaries; labels are summed (or maximised) in torch before."""

    name = "supar"

    def __init__(self) -> None:
        self.ConstituencyCRF = _import_supar_structs().ConstituencyCRF

    def run(self, operation: str, problem: Problem) -> tuple[Tensor, ...] | None:
        """No entropy: it has one of unlabelled trees only, and its marginals have no gradient to build on."""
        if operation.startswith("entropy"):
            return None
        scores = problem.leaf() if "backward" in operation or operation == "marginals" else problem.scores
        if operation == "argmax":
            best = scores.max(-1)
            spans = self._crf(best.values, problem).argmax
            return (_chart_of_spans(spans, best.indices),)
        value = self._crf(scores.logsumexp(-1), problem).log_partition
        if operation == "marginals":
            return (_with_gradient(value, scores)[1],)
        if operation.startswith("loss"):
            value = self._crf((scores + problem.log_mask).logsumexp(-1), problem).log_partition - value
        return _with_gradient(value, scores) if "backward" in operation else (value.detach(),)

    def _crf(self, spans: Tensor, problem: Problem) -> Any:
        return self.ConstituencyCRF(torch.nn.functional.pad(spans, (1, 0, 0, 1)), problem.lengths)


def contenders() -> list[Contender]:
    """This package and the peers that are installed; torch-struct must be."""
    found: list[Contender] = [Nestree(), TorchStruct()]
    with contextlib.suppress(ModuleNotFoundError):
        found.append(Supar())
    return found


def _with_gradient(value: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), gradient


def _chart_of_one_hot(one_hot: Tensor) -> Tensor:
    chart: Tensor = torch.where(one_hot.sum(-1) > 0.5, one_hot.argmax(-1), -1)
    return chart


def _chart_of_spans(spans: list[list[list[int]]], labels: Tensor) -> Tensor:
    sentence = [b for b, found in enumerate(spans) for _ in found]
    start = [i for found in spans for i, _ in found]
    end = [j - 1 for found in spans for _, j in found]
    chart = torch.full_like(labels, -1)
    chart[sentence, start, end] = labels[sentence, start, end]
    return chart


def nested_entities(rng: random.Random, n: int, labels: int) -> list[tuple[int, int, int]]:
    """About one entity in eight words, a fifth of them with another inside, as in GENIA."""
    spans = []
    word = rng.randrange(4)
    while word < n:
        end = min(n - 1, word + rng.randrange(4))
        spans.append((word, end, rng.randrange(labels)))
        if end > word and rng.random() < 0.4:
            spans.append((word + 1, end, rng.randrange(labels)))
        word = end + 1 + rng.randrange(1, 10)
    return spans


def _import_supar_structs() -> Any:
    """Imports ``supar.structs`` without ``supar`` itself, which wants parser libraries that play no part here."""
    if "supar.structs" in sys.modules:
        return sys.modules["supar.structs"]
    found = importlib.util.find_spec("supar")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("supar")
    root = Path(next(iter(found.submodule_search_locations)))
    for name, path in (("supar", root), ("supar.utils", root / "utils")):
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules.setdefault(name, package)
    return importlib.import_module("supar.structs")
