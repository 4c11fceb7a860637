"""Encoders that read on a GPU: recorded for each shape of windows, then replayed.

To ask for the kernels of a small encoder one by one takes Python longer than the GPU needs to compute them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from nestree.recordings import Recordings

LARGEST = 200_000_000
"""Encoders with more parameters keep a GPU busy without this, and would need much memory for it."""
ALIKE = 0.02
"""By how much of the largest number a recording may differ from what was computed kernel by kernel."""

Compute = Callable[[Tensor, Tensor], Tensor]
"""From pieces and attention to vectors. Shape: ``[window, piece]`` both, to ``[window, piece, hidden]``"""

_replays: WeakKeyDictionary[nn.Module, Replays] = WeakKeyDictionary()
_lock = threading.Lock()


def replays_of(model: nn.Module, pieces: Tensor) -> Replays | None:
    """The recordings of an encoder, where they are of use: on a GPU, without gradients, without dropout."""
    if not pieces.is_cuda or not torch.is_inference_mode_enabled() or model.training:
        return None
    if torch.cuda.current_stream(pieces.device) != torch.cuda.default_stream(pieces.device):
        return None  # recordings share memory, so they have to come one after the other
    with _lock:
        if model not in _replays:
            _replays[model] = Replays(model, pieces.device)
        return _replays[model]


def forget(model: nn.Module) -> None:
    """Gives back what recordings of an encoder, or of those within a model, hold of a GPU's memory."""
    with _lock:
        found = [_replays.pop(part, None) for part in model.modules()]
    for one in found:
        if one is not None:
            one.clear()


class Replays:
    """Recordings of one encoder."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._lock = threading.Lock()
        self._small = sum(one.numel() for one in model.parameters()) <= LARGEST
        self._recordings = Recordings(device, cannot=lambda why: None)
        self._weights: tuple[int, ...] = ()

    def clear(self) -> None:
        """Forgets all recordings."""
        with self._lock:
            self._recordings.clear()

    def __call__(self, model: nn.Module, compute: Compute, pieces: Tensor, attention: Tensor) -> Tensor | None:
        """What ``compute`` gives; None if it has to be computed kernel by kernel.

        It is to be read before the next call; there may be more rows than were asked for.
        """
        weights = self._small and _weights(model)
        if not weights:
            return None
        rows = rounded(len(pieces))
        casts = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda")
        key = (rows, pieces.shape[1], casts)
        with self._lock:
            if weights != self._weights:  # they were moved, or are others
                self._recordings.clear()
                self._weights = weights
            if not self._recordings.has(key):
                pieces, attention = (_filled(one, rows) for one in (pieces, attention))
            return self._recordings.run(key, _without_cache(compute), pieces, attention, checked=ALIKE)


def rounded(rows: int) -> int:
    """Up to one of eight numbers between each power of two and the next, so that shapes are few."""
    step = max(1, 1 << (rows.bit_length() - 4)) if rows > 8 else 1
    return -(-rows // step) * step


def _filled(rows: Tensor, number: int) -> Tensor:
    """With the first row in place of those that are missing."""
    return torch.cat([rows, rows[:1].expand(number - len(rows), -1)]) if number > len(rows) else rows


def _weights(model: nn.Module) -> tuple[int, ...] | None:
    """Where all weights lie; None if somebody looks on as they are used, which nobody could in a recording."""
    found: list[int] = []
    for part in model.modules():
        if part._forward_hooks or part._forward_pre_hooks:
            return None
        found += [one.data_ptr() for one in part._parameters.values() if one is not None]
        found += [one.data_ptr() for one in part._buffers.values() if one is not None]
    return tuple(found)


def _without_cache(compute: Compute) -> Compute:
    """Under autocast, weights in the other type that were kept from before would not outlive this."""

    def computed(pieces: Tensor, attention: Tensor) -> Tensor:
        before = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            return compute(pieces, attention)
        finally:
            torch.set_autocast_cache_enabled(before)

    return computed
