"""Timing and memory, measured so that a noisy machine does little harm."""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def interleaved_medians(
    contenders: Mapping[str, Callable[[], Any]], *, seconds: float = 4.0, rounds: tuple[int, int] = (5, 40)
) -> dict[str, float]:
    """Median milliseconds of each contender, measured in turns."""
    times = interleaved_times(contenders, seconds=seconds, rounds=rounds)
    return {name: statistics.median(found) for name, found in times.items()}


def interleaved_times(
    contenders: Mapping[str, Callable[[], Any]], *, seconds: float = 4.0, rounds: tuple[int, int] = (5, 40)
) -> dict[str, list[float]]:
    """All times of each contender in milliseconds, measured in turns: A B C A B C ...

    A quick contender runs several times in its turn, so that every turn lasts about as long as a few clock ticks of
    noise. Rounds go on until ``seconds`` are spent, within ``rounds``.
    """
    repeats = {}
    for name, run in contenders.items():
        run()  # warm-up
        repeats[name] = max(1, min(20, int(0.02 / max(_seconds(run), 1e-6))))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    began = time.perf_counter()
    while len(next(iter(times.values()))) < rounds[0] or (
        time.perf_counter() - began < seconds and len(next(iter(times.values()))) < rounds[1]
    ):
        for name, run in contenders.items():
            times[name].extend(_seconds(run) for _ in range(repeats[name]))
    return {name: [time * 1000 for time in found] for name, found in times.items()}


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def peak_extra_mib(run: Callable[[], Any]) -> float:
    """How far the process grows, at its peak, while ``run`` runs (Linux: the kernel's own count, so nothing hides).

    Call it in a process of its own, after :func:`return_memory_eagerly`.
    """
    run()  # what is allocated once and kept is not the operation's
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = _status_mib("VmRSS")
    run()
    return max(0.0, _status_mib("VmHWM") - before)


def peak_extra_cuda_mib(run: Callable[[], Any]) -> float:
    """How much more GPU memory torch has handed out, at its peak, while ``run`` runs, the result included."""
    run()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def graph_ms(run: Callable[[], Any], *, replays: int = 20, rounds: int = 15) -> float:
    """Median milliseconds of the GPU's own work in ``run``: captured as a CUDA graph and replayed, without Python."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    times = []
    for _ in range(rounds):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(replays):
            graph.replay()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) / replays)
    return statistics.median(times)


def return_memory_eagerly() -> None:
    """Makes the C allocator hand freed blocks back at once, so that a peak is not hidden by blocks kept for reuse."""
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(-3, 65536)  # M_MMAP_THRESHOLD
    mallopt(-1, 65536)  # M_TRIM_THRESHOLD


def _status_mib(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {field} in /proc/self/status; memory is measured on Linux only")


def environment() -> dict[str, str]:
    """What a figure depends on beside the code."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    found = {
        "cpu": f"{cpu}, {os.cpu_count()} cores",
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "system": platform.system(),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = str(torch.version.cuda)
        if importlib.util.find_spec("triton"):
            found["triton"] = importlib.metadata.version("triton")
    return found


def write_json(name: str, content: Any) -> Path:
    """Writes ``benchmarks/results/NAME.json``, one row a line."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            rows = ",\n".join("    " + json.dumps(row) for row in value)
            parts.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    return path


def table(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """Rows as aligned text."""
    cells = [columns] + [[_text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return (
        f"{value:.3g}"
        if isinstance(value, float) and value < 100
        else str(round(value) if isinstance(value, float) else value)
    )
