"""Complaints that can wait: a forward pass on a GPU does not wait for its kernels, the backward pass does.

To learn what a kernel found wrong, one has to wait for it. Where a gradient will be asked for, the next thing to do can
be prepared meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Check = Callable[[], None]
"""Waits for a kernel and raises what it found wrong."""


def is_recorded(scores: Tensor) -> bool:
    """Whether what is done now is captured in a CUDA graph: then nothing can be waited for, and nothing looked at."""
    return scores.is_cuda and torch.cuda.is_current_stream_capturing()


class _Here(threading.local):
    checks: list[Check] | None = None


_here = _Here()


def collecting(operation: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Check]]:
    """What an operation returns, and the checks it put off."""
    checks: list[Check] = []
    before, _here.checks = _here.checks, checks
    try:
        return operation(*arguments), checks
    finally:
        _here.checks = before


def check(do: Check, *, can_wait: bool) -> None:
    """Does a check: now, or when someone who collects them asks for it."""
    if can_wait and _here.checks is not None:
        _here.checks.append(do)
    else:
        do()
