"""What a GPU cannot do without: the bytes that have to move, and the steps that have to follow one another.

Used by ``python -m benchmarks.crf --device cuda``.

- *bytes*: the scores of all spans read once and the result written once, at the bandwidth that a large copy reaches on
  this GPU.
- *steps*: a chart of n words has n - 1 widths, and each needs the one before. A step can be no shorter than one write,
  one barrier and one dependent read of a program; a kernel that does only this is timed.
- *launch* and *round trip*: what torch and Triton take for nothing: an empty kernel, and a forward and backward pass
  through an autograd function that computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from benchmarks.measure import graph_ms, interleaved_medians
from benchmarks.peers import OPERATIONS, Nestree, Problem

COLUMNS = ["op", "n", "kernel_ms", "bytes_mib", "gib_per_s", "bytes_floor_ms", "steps_floor_ms", "times_floor"]

# How often an operation must go through the widths, and whether its result is as large as the scores.
_PASSES = {
    "log_partition forward": (1, False),
    "log_partition forward+backward": (2, True),
    "loss forward+backward": (2, True),
    "argmax": (1, False),
    "marginals": (2, True),
    "entropy forward+backward": (2, True),
}


@triton.jit
def _steps(numbers, count, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    lane = tl.arange(0, WIDTH)
    numbers += tl.program_id(0) * WIDTH
    for _ in range(0, count):
        value = tl.load(numbers + (lane + 1) % WIDTH)
        tl.debug_barrier()
        tl.store(numbers + lane, value * 0.5 + 1.0)
        tl.debug_barrier()


@triton.jit
def _nothing(numbers):  # type: ignore[no-untyped-def]
    pass


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


def measure(lengths: list[int], batch: int, labels: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The hardware's rates, and a row for each operation and length."""
    x = torch.ones(batch, device="cuda", requires_grad=True)
    waits = interleaved_medians(
        {
            "launch_ms": lambda: _nothing[1,](x),
            "round_trip_ms": lambda: torch.autograd.grad(_Identity.apply(x).sum(), x),  # type: ignore[no-untyped-call]
        },
        seconds=1.0,
    )
    hardware = {"copy_gib_per_s": round(copy_rate()), "step_us": round(step_ms() * 1000, 4)}
    hardware |= {name: round(value, 4) for name, value in waits.items()}
    ours, rows = Nestree(), []
    for n in lengths:
        problem = Problem(batch, n, labels, "cuda")
        for operation in OPERATIONS:
            passes, large = _PASSES[operation]
            moved = 4 * labels * batch * (n * (n + 1) // 2 + (n * n if large else 0))
            moved += batch * n * (n + 1) if operation.startswith("loss") else 0  # span codes
            moved += 8 * batch * n * n if operation == "argmax" else 0
            kernel = graph_ms(partial(ours.run, operation, problem))
            by_bytes = moved / 2**30 / hardware["copy_gib_per_s"] * 1000
            by_steps = passes * (n - 1) * hardware["step_us"] / 1000
            row = {"op": operation, "n": n, "kernel_ms": round(kernel, 4), "bytes_mib": round(moved / 2**20, 2)}
            row |= {"gib_per_s": round(moved / 2**30 / kernel * 1000, 1), "bytes_floor_ms": round(by_bytes, 5)}
            row |= {"steps_floor_ms": round(by_steps, 4), "times_floor": round(kernel / max(by_bytes, by_steps), 1)}
            rows.append(row)
    return hardware, rows


def copy_rate(gib: int = 2) -> float:
    """Bandwidth of a large copy within the GPU, bytes read and written, GiB/s."""
    source = torch.randn(gib * 2**28, device="cuda")
    target = torch.empty_like(source)
    return 2 * gib / graph_ms(lambda: target.copy_(source), replays=3) * 1000


def step_ms(count: int = 1000) -> float:
    """A write, a barrier and a dependent read of a program of four warps."""
    numbers = torch.ones(64, 128, device="cuda")
    return graph_ms(lambda: _steps[64,](numbers, count, WIDTH=128, num_warps=4)) / count
