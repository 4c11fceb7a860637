"""The fused operations on a CPU: hands tensors to the compiled library beside this file.

The library (``native/``) is plain C++ behind plain C functions. It is found next to this module, where the build puts
it; without it :data:`library` is ``None`` and the plain torch backend is used.
"""

from __future__ import annotations

import ctypes
import warnings
from pathlib import Path

import torch
from torch import Tensor

from nestree.crf.kernels import errors, plain
from nestree.crf.kernels.fused import log_prob_weights
from nestree.crf.kernels.ops import ALL_TREES, ChartMask, define, entropy_of, implement, new_normal

_OPERATIONS = ("inside", "marginals", "slopes", "best_tree", "best_trees", "sample", "normalize")
_PROBLEM_LENGTH, _PROBLEM_NOT_FINITE, _PROBLEM_MEMORY, _PROBLEM_CODE = 1, 2, 3, 4


class _Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("sentence", "start", "end", "label")]


class _Call(ctypes.Structure):
    """Mirrors ``Call`` in ``native/call.h``."""

    _fields_ = [
        ("scores", ctypes.c_void_p),
        ("scores_at", _Strides),
        ("direction", ctypes.c_void_p),
        ("direction_at", _Strides),
        ("out", ctypes.c_void_p),
        ("out_at", _Strides),
        *[(name, ctypes.c_void_p) for name in ("lengths", "codes", "weights", "uniforms")],
        *[(name, ctypes.c_void_p) for name in ("log_partition", "expectation", "state", "nodes")],
        *[(name, ctypes.c_int64) for name in ("batch", "n", "labels", "entity_labels")],
        *[(name, ctypes.c_int64) for name in ("charts", "masked_charts", "draws")],
        ("rejected_weight", ctypes.c_double),
        ("other_weight", ctypes.c_double),
        ("is_double", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("fallbacks", ctypes.c_int64),
        ("impossible", ctypes.c_int64),
        ("problem", ctypes.c_int64 * 5),
    ]


def _load() -> ctypes.CDLL | None:
    for path in sorted(Path(__file__).parent.glob("_native*")):
        if path.suffix not in {".so", ".pyd", ".dylib"}:
            continue
        try:
            loaded = ctypes.CDLL(str(path))
        except OSError as error:
            warnings.warn(f"nestree's compiled kernels cannot be loaded ({error}); reinstall nestree.", stacklevel=2)
            return None
        loaded.nestree_call_size.restype = ctypes.c_int64
        loaded.nestree_instructions.restype = ctypes.c_char_p
        if loaded.nestree_call_size() != ctypes.sizeof(_Call):
            raise ImportError(f"{path} was built from another version of nestree. Reinstall: pip install -e .")
        for name in _OPERATIONS:
            function = getattr(loaded, f"nestree_{name}")
            function.argtypes, function.restype = [ctypes.POINTER(_Call)], None
        return loaded
    return None


library = _load()
"""The compiled kernels, or ``None`` where the package was installed without a C++ compiler."""


def instructions() -> str:
    """Which instruction set the kernels use on this machine: "avx512", "avx2" or "any_cpu"."""
    return library.nestree_instructions().decode() if library else "none"


def _run(operation: str, call: _Call, scores: Tensor, lengths: Tensor) -> int:
    """Runs one operation; returns how many sentences had to be computed in log space."""
    assert library is not None
    call.scores, call.scores_at = scores.data_ptr(), _Strides(*scores.stride())
    call.lengths = lengths.data_ptr()
    call.batch, call.n, call.labels = scores.shape[0], scores.shape[1], scores.shape[3]
    call.is_double, call.threads = scores.dtype == torch.float64, torch.get_num_threads()
    getattr(library, f"nestree_{operation}")(ctypes.byref(call))
    kind, sentence, start, end, label = call.problem
    if kind == _PROBLEM_LENGTH:
        raise errors.length_out_of_range(sentence, int(lengths[sentence]), call.n)
    if kind == _PROBLEM_NOT_FINITE:
        raise errors.not_finite(float(scores[sentence, start, end, label]), sentence, start, end, label)
    if kind == _PROBLEM_CODE:
        raise ValueError(f"codes hold an unknown value at sentence {sentence}, span ({start}, {end}).")
    if kind == _PROBLEM_MEMORY:
        raise MemoryError(f"not enough memory for the charts of {call.batch} sentences of up to {call.n} words.")
    return int(call.fallbacks)


def _with_charts(mask: ChartMask = ALL_TREES) -> _Call:
    """A call for these charts; the codes must outlive it (:func:`_plain_codes`)."""
    call = _Call()
    call.charts, call.masked_charts = mask.charts, int(mask.codes is not None)
    call.codes = None if mask.codes is None else mask.codes.data_ptr()
    call.entity_labels, call.rejected_weight, call.other_weight = mask[1:4]
    return call


def _lengths(lengths: Tensor) -> Tensor:
    return lengths.to(torch.int64).contiguous()


def _plain_codes(mask: ChartMask) -> ChartMask:
    return mask if mask.codes is None else mask._replace(codes=mask.codes.to(torch.int16).contiguous())


def inside(scores: Tensor, lengths: Tensor, mask: ChartMask, keep: bool, strict: bool) -> tuple[Tensor, Tensor]:
    lengths, mask = _lengths(lengths), _plain_codes(mask)
    call = _with_charts(mask)
    total = torch.empty(call.charts, scores.shape[0], dtype=torch.float64)
    state = _new_state(scores, call.charts) if keep else total.new_empty(0)
    call.log_partition, call.state = total.data_ptr(), state.data_ptr() if keep else None
    _run("inside", call, scores, lengths)
    if strict and call.impossible:
        errors.require_trees(total[0], total[-1])
    return total, state


def log_prob(scores: Tensor, lengths: Tensor, mask: ChartMask, keep: bool, strict: bool) -> tuple[Tensor, Tensor]:
    total, state = inside(scores, lengths, mask, keep, strict)
    return plain.difference(*total.unbind(0)).to(scores.dtype), state


def log_prob_backward(grad: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask, state: Tensor) -> Tensor:
    return marginals(log_prob_weights(grad), scores, lengths, mask, state)


def marginals(weights: Tensor, scores: Tensor, lengths: Tensor, mask: ChartMask, state: Tensor | None) -> Tensor:
    lengths, mask, weights = _lengths(lengths), _plain_codes(mask), weights.double().contiguous()
    call = _with_charts(mask)
    total = torch.zeros(call.charts, scores.shape[0], dtype=torch.float64)
    out = torch.empty_like(scores)
    call.weights, call.log_partition = weights.data_ptr(), total.data_ptr()
    call.out, call.out_at = out.data_ptr(), _Strides(*out.stride())
    call.state = None if state is None else state.data_ptr()
    _run("marginals", call, scores, lengths)
    return out


def slopes(
    weights: Tensor, scores: Tensor, direction: Tensor, lengths: Tensor, mask: ChartMask
) -> tuple[Tensor, Tensor]:
    mask = _plain_codes(mask)
    call = _with_charts(mask)
    out = torch.empty_like(scores)
    weights = weights.double().contiguous()
    call.weights, call.out, call.out_at = weights.data_ptr(), out.data_ptr(), _Strides(*out.stride())
    _, mean = _expectation(call, scores, direction, lengths)
    return mean, out


def _expectation(call: _Call, scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    lengths, direction = _lengths(lengths), direction.to(scores.dtype)
    total = torch.empty(call.charts, scores.shape[0], dtype=torch.float64)
    mean = torch.empty_like(total)
    call.direction, call.direction_at = direction.data_ptr(), _Strides(*direction.stride())
    call.log_partition, call.expectation = total.data_ptr(), mean.data_ptr()
    _run("slopes", call, scores, lengths)
    return total, mean


def expectation(scores: Tensor, direction: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    total, mean = _expectation(_with_charts(), scores, direction, lengths)
    return total[0], mean[0]


def entropy(scores: Tensor, lengths: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    total, mean = expectation(scores, scores, lengths)
    return entropy_of(total, mean), _new_state(scores, 1, slopes=True)


def entropy_backward(grad: Tensor, scores: Tensor, lengths: Tensor, state: Tensor) -> Tensor:
    return slopes(-grad[None], scores, scores, lengths, ALL_TREES)[1]


def _trees(operation: str, draws: int, scores: Tensor, lengths: Tensor, uniforms: Tensor | None = None) -> Tensor:
    call = _with_charts()
    batch, n = scores.shape[:2]
    nodes = torch.empty(draws, batch, n, n, dtype=torch.int64)
    total = torch.empty(batch, dtype=torch.float64)
    call.nodes, call.draws, call.log_partition = nodes.data_ptr(), draws, total.data_ptr()
    call.uniforms = None if uniforms is None else uniforms.data_ptr()
    _run(operation, call, scores, _lengths(lengths))
    return nodes


def best_tree(scores: Tensor, lengths: Tensor) -> Tensor:
    return _trees("best_tree", 1, scores, lengths)[0]


def topk(scores: Tensor, lengths: Tensor, k: int) -> Tensor:
    return _trees("best_trees", k, scores, lengths)


def sample(scores: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    return _trees("sample", uniforms.shape[0], scores, lengths, uniforms.contiguous())


def normalize(scores: Tensor, lengths: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    out = new_normal(scores)
    if scores.dtype != out.dtype:
        scores = scores.to(out.dtype)
    scales = torch.empty(scores.shape[0], dtype=torch.float64)
    call = _with_charts()
    call.out, call.out_at = out.data_ptr(), _Strides(*out.stride())
    call.log_partition, call.rejected_weight = scales.data_ptr(), epsilon
    _run("normalize", call, scores, _lengths(lengths))
    return out, scales


def normalize_backward(grad: Tensor, scores: Tensor, normal: Tensor, scales: Tensor, lengths: Tensor) -> Tensor:
    return torch.empty_like(scores).copy_(plain.normalize_backward(grad, scores, normal, scales, lengths))


def fallbacks(scores: Tensor, lengths: Tensor) -> int:
    """How many sentences leave the scaled range and are computed in log space."""
    total = torch.empty(1, scores.shape[0], dtype=torch.float64)
    call = _with_charts()
    call.log_partition = total.data_ptr()
    return _run("inside", call, scores, _lengths(lengths))


def _new_state(scores: Tensor, charts: int, slopes: bool = False) -> Tensor:
    """Charts, and how they were computed; along a direction nothing is kept."""
    n = scores.shape[1]
    padding = 16 * (n + 1)
    if slopes:
        return scores.new_empty(0, dtype=torch.float64)
    return scores.new_empty((scores.shape[0], charts * (n * (n + 1) // 2 + padding) + 1), dtype=torch.float64)


define("cpu", _new_state, torch.preserve_format)
if library is not None:
    implement("cpu", "CPU", globals())
