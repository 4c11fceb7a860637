"""How fast is ``nestree.crf`` beside torch-struct and supar, and how much memory does it take?

    python -m benchmarks.crf --device cpu
    python -m benchmarks.crf --device cuda

All contenders run in one process, in turns, on the same batches; medians are compared. Before anything is timed, values
and gradients of all contenders are checked against each other. On a GPU also: the GPU's own work without Python, and
how far that is from what the hardware allows (``benchmarks.floors``).
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from benchmarks.measure import (
    environment,
    interleaved_medians,
    interleaved_times,
    peak_extra_cuda_mib,
    peak_extra_mib,
    return_memory_eagerly,
    table,
    write_json,
)
from benchmarks.peers import OPERATIONS, Contender, Nestree, Problem, contenders
from nestree.crf import TreeCRF

BATCH, LABELS = 32, 8
LENGTHS = (20, 30, 60, 100)
PASSES = 5

BARS = {  # against torch-struct, at every n; on a CPU with one thread
    "cpu": {
        "loss forward+backward": 12.0,
        "log_partition forward+backward": 10.0,
        "argmax": 25.0,
        "entropy forward+backward": 5.0,
    },
    "cuda": {"loss forward+backward": 40.0, "argmax": 40.0, "entropy forward+backward": 20.0},
}
MEMORY_BARS = {"cpu": 3.0, "cuda": 4.0}
THREADS_BAR = 1.6
DECODING_BAR_MS = 1.0


def main() -> None:
    """Parses, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS), help="words per sentence")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="on a CPU")
    parser.add_argument("--seconds", type=float, default=4.0, help="time per row of the table")
    parser.add_argument("--output", help="name of the file under benchmarks/results (default: crf-DEVICE)")
    options = parser.parse_args()
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU here, or this build of torch cannot use it")

    everyone = contenders()
    for n in options.lengths:
        check_agreement(everyone, Problem(4, n, LABELS, device, torch.float64))
    print("all contenders agree in values and gradients\n")

    rows = []
    for threads in options.threads if device == "cpu" else [torch.get_num_threads()]:
        torch.set_num_threads(threads)
        rows += measure(everyone, OPERATIONS, options.lengths, device, options.seconds)
    print(table(rows, ["op", "n", "threads", "ours_ms", "peer", "peer_ms", "ratio"]))
    content: dict[str, Any] = {"environment": environment(), "rows": rows}

    content["memory"] = measure_memory(options.lengths, device)
    print("\nPeak extra memory, MiB")
    print(table(content["memory"], ["op", "n", "ours_mib", "peer", "peer_mib", "ratio"]))

    if device == "cpu":
        content["two_threads"] = measure_threads(options.lengths, min(1.0, options.seconds))
        print("\nTwo threads against one, nestree alone")
        print(table(content["two_threads"], ["op", "n", "one_ms", "two_ms", "speedup"]))
    else:
        from benchmarks import floors  # needs Triton

        content["hardware"], content["kernels"] = floors.measure(options.lengths, BATCH, LABELS)
        print("\nThe GPU's own work, without Python; and what it cannot do without")
        print(table(content["kernels"], floors.COLUMNS))
        print(", ".join(f"{name} {value:g}" for name, value in content["hardware"].items()))
        content["calling_thread"] = measure_calling_thread(everyone[:2], options.lengths, options.seconds)
        print("\nWith autograd in the calling thread (torch.autograd.set_multithreading_enabled(False))")
        print(table(content["calling_thread"], ["op", "n", "ours_ms", "peer", "peer_ms", "ratio"]))
        content["decoding"] = [measure_decoding(n, options.seconds) for n in options.lengths]
        print("\nBest trees (argmax), and their nodes on the host")
        print(table(content["decoding"], ["op", "n", "batch", "ms"]))
    print("\nBars: " + judge(content, device))
    print(f"\nwritten to {write_json(options.output or f'crf-{device}', content)}")


def check_agreement(everyone: list[Contender], problem: Problem) -> None:
    """Values and gradients of all contenders are the same. In float64: in float32 a peer is off by up to 0.01."""
    for operation in OPERATIONS:
        wanted = everyone[0].run(operation, problem)
        assert wanted is not None
        for peer in everyone[1:]:
            found = peer.run(operation, problem)
            for ours, theirs in zip(wanted, found or (), strict=False):
                if not torch.allclose(ours, theirs, rtol=1e-6, atol=1e-6):
                    raise SystemExit(f"{operation}: nestree and {peer.name} disagree; nothing was timed.")


def measure(
    everyone: list[Contender], operations: Sequence[str], lengths: list[int], device: str, seconds: float
) -> list[dict[str, Any]]:
    """One row for each operation, length and peer, from several passes over all: noise comes and goes by the second."""
    times: dict[tuple[int, str], dict[str, list[float]]] = {}
    for number in range(PASSES):
        for n in lengths:
            problem = Problem(BATCH, n, LABELS, device)
            for operation in operations:
                print(f"pass {number + 1} of {PASSES}, n = {n}: {operation}", file=sys.stderr)
                able = [c for c in everyone if c.run(operation, problem) is not None]
                runs = {c.name: partial(c.run, operation, problem) for c in able}
                found = interleaved_times(runs, seconds=seconds / PASSES, rounds=(3, 40))
                before = times.setdefault((n, operation), {name: [] for name in found})
                for name, more in found.items():
                    before[name] += more
    rows = []
    for (n, operation), by_name in times.items():
        medians = {name: statistics.median(found) for name, found in by_name.items()}
        ours = medians.pop("nestree")
        for peer, theirs in medians.items():
            row = {"op": operation, "n": n, "threads": torch.get_num_threads(), "ours_ms": round(ours, 4), "peer": peer}
            rows.append({**row, "peer_ms": round(theirs, 3), "ratio": round(theirs / ours, 2)})
    return rows


def measure_memory(lengths: list[int], device: str) -> list[dict[str, Any]]:
    """Peak extra memory; on a CPU in a process of its own."""
    if device == "cuda":
        return _memory_rows(lengths, device)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory_rows, (lengths, device))


def _memory_rows(lengths: list[int], device: str) -> list[dict[str, Any]]:
    peak = peak_extra_cuda_mib
    if device == "cpu":
        peak = peak_extra_mib
        return_memory_eagerly()
        torch.set_num_threads(1)
    rows = []
    everyone = contenders()
    for n in lengths:
        problem = Problem(BATCH, n, LABELS, device)
        for operation in OPERATIONS:
            used = {}
            for contender in everyone:
                if contender.run(operation, problem) is not None:
                    used[contender.name] = peak(partial(contender.run, operation, problem))
            ours = used.pop("nestree")
            for peer, theirs in used.items():
                ratio = round(theirs / ours, 1) if ours else None
                row = {"op": operation, "n": n, "ours_mib": round(ours, 2), "peer": peer}
                rows.append({**row, "peer_mib": round(theirs, 2), "ratio": ratio})
    return rows


def measure_threads(lengths: list[int], seconds: float) -> list[dict[str, Any]]:
    """Our own time with one thread and with two, in turns."""
    ours, rows = Nestree(), []

    def with_threads(threads: int, operation: str, problem: Problem) -> None:
        torch.set_num_threads(threads)
        ours.run(operation, problem)

    for n in lengths:
        problem = Problem(BATCH, n, LABELS)
        for operation in OPERATIONS:
            runs = {str(threads): partial(with_threads, threads, operation, problem) for threads in (1, 2)}
            times = interleaved_medians(runs, seconds=seconds)
            row = {"op": operation, "n": n, "one_ms": round(times["1"], 4), "two_ms": round(times["2"], 4)}
            rows.append({**row, "speedup": round(times["1"] / times["2"], 2)})
    return rows


def measure_calling_thread(everyone: list[Contender], lengths: list[int], seconds: float) -> list[dict[str, Any]]:
    """The same without the hand-over to autograd's own thread and back, whose time depends on the system."""
    with torch.autograd.set_multithreading_enabled(False):
        return measure(everyone, [op for op in OPERATIONS if "backward" in op], lengths, "cuda", seconds)


def measure_decoding(n: int, seconds: float) -> dict[str, Any]:
    """From scores on the GPU to the nodes of the best trees on the host."""
    problem = Problem(BATCH, n, LABELS, "cuda")

    def decode() -> tuple[torch.Tensor, torch.Tensor]:
        chart = TreeCRF(problem.scores, problem.lengths).argmax
        where = chart >= 0
        return torch.nonzero(where).cpu(), chart[where].cpu()

    return {
        "op": "argmax, nodes on the host",
        "n": n,
        "batch": BATCH,
        "ms": round(interleaved_medians({"": decode}, seconds=seconds)[""], 4),
    }


def judge(content: dict[str, Any], device: str) -> str:
    """Which of the project's bars hold in this run."""
    verdicts = []

    def verdict(bar: str, holds: bool, found: str) -> None:
        verdicts.append(f"\n  {bar}: {'held' if holds else 'MISSED'}, {found}")

    rows = [r for r in content["rows"] if r["peer"] == "torch-struct" and (device == "cuda" or r["threads"] == 1)]
    for operation, bar in BARS[device].items():
        mine = [row for row in rows if row["op"] == operation]
        if mine:
            worst = min(mine, key=lambda r: r["ratio"])
            where = f"{worst['ratio']:g}x at n = {worst['n']}"
            verdict(f"{operation} at least {bar:g}x", worst["ratio"] >= bar, where)
    bar = MEMORY_BARS[device]
    heavy = [m for m in content["memory"] if m["peer"] == "torch-struct" and m["ratio"] is not None]
    for operation in dict.fromkeys(m["op"] for m in heavy):
        worst = min((m for m in heavy if m["op"] == operation), key=lambda m: m["ratio"])
        where = f"1/{worst['ratio']:g} at n = {worst['n']}"
        verdict(f"{operation}: peak extra memory at most 1/{bar:g}", worst["ratio"] >= bar, where)
    long = [s for s in content.get("two_threads", []) if s["n"] >= 60]
    if long:
        worst = min(long, key=lambda s: s["speedup"])
        where = f"{worst['speedup']:g}x ({worst['op']}, n = {worst['n']})"
        verdict(f"two threads at least {THREADS_BAR}x one from n = 60", worst["speedup"] >= THREADS_BAR, where)
    for row in content.get("decoding", []):
        if row["n"] == 100:
            verdict(
                f"decoding at n = 100 within {DECODING_BAR_MS:g} ms", row["ms"] <= DECODING_BAR_MS, f"{row['ms']:g} ms"
            )
    return "".join(verdicts)


if __name__ == "__main__":
    main()
