"""How fast is ``nestree.crf`` beside torch-struct and supar, and how much memory does it take?

    python -m benchmarks.crf --device cpu

All contenders run in one process, in turns, on the same batches; medians are compared. Before anything is timed, values
and gradients of all contenders are checked against each other.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from functools import partial
from typing import Any

import torch

from benchmarks.measure import (
    environment,
    interleaved_medians,
    peak_extra_mib,
    return_memory_eagerly,
    table,
    write_json,
)
from benchmarks.peers import OPERATIONS, Contender, Nestree, Problem, Supar, TorchStruct

BATCH, LABELS = 32, 8
LENGTHS = (20, 30, 60, 100)

BARS = {  # against torch-struct, one thread, at every n
    "loss forward+backward": 12.0,
    "log_partition forward+backward": 10.0,
    "argmax": 25.0,
    "entropy forward+backward": 5.0,
}


def main() -> None:
    """Parses, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu"], default="cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS), help="words per sentence")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=4.0, help="time per row of the table")
    parser.add_argument("--output", default="crf-cpu", help="name of the file under benchmarks/results")
    options = parser.parse_args()

    contenders: list[Contender] = [Nestree(), TorchStruct(), Supar()]
    for n in options.lengths:
        check_agreement(contenders, Problem(4, n, LABELS, dtype=torch.float64))
    print("all contenders agree in values and gradients\n")

    rows = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for n in options.lengths:
            for operation in OPERATIONS:
                print(f"{threads} threads, n = {n}: {operation}", file=sys.stderr)
                rows += measure(contenders, operation, Problem(BATCH, n, LABELS), n, threads, options.seconds)
    memory = measure_memory(options.lengths)

    print(table(rows, ["op", "n", "threads", "ours_ms", "peer", "peer_ms", "ratio"]))
    print("\nPeak extra memory, MiB, one thread")
    print(table(memory, ["op", "n", "ours_mib", "peer", "peer_mib", "ratio"]))
    speedups = measure_threads(options.lengths, min(1.0, options.seconds))
    print("\nTwo threads against one, nestree alone")
    print(table(speedups, ["op", "n", "one_ms", "two_ms", "speedup"]))
    print("\nBars: " + judge(rows, memory, speedups))
    content = {"environment": environment(), "rows": rows, "memory": memory, "two_threads": speedups}
    print(f"\nwritten to {write_json(options.output, content)}")


def check_agreement(contenders: list[Contender], problem: Problem) -> None:
    """Values and gradients of all contenders are the same. In float64: in float32 a peer is off by up to 0.01."""
    for operation in OPERATIONS:
        wanted = contenders[0].run(operation, problem)
        assert wanted is not None
        for peer in contenders[1:]:
            found = peer.run(operation, problem)
            for ours, theirs in zip(wanted, found or (), strict=False):
                if not torch.allclose(ours, theirs, rtol=1e-6, atol=1e-6):
                    raise SystemExit(f"{operation}: nestree and {peer.name} disagree; nothing was timed.")


def measure(
    contenders: list[Contender], operation: str, problem: Problem, n: int, threads: int, seconds: float
) -> list[dict[str, Any]]:
    """One row for each peer."""
    able = [c for c in contenders if c.run(operation, problem) is not None]
    times = interleaved_medians({c.name: partial(c.run, operation, problem) for c in able}, seconds=seconds)
    ours = times.pop("nestree")
    return [
        {
            "op": operation,
            "n": n,
            "threads": threads,
            "ours_ms": round(ours, 4),
            "peer": peer,
            "peer_ms": round(theirs, 3),
            "ratio": round(theirs / ours, 2),
        }
        for peer, theirs in times.items()
    ]


def measure_memory(lengths: list[int]) -> list[dict[str, Any]]:
    """Peak extra memory, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory_rows, (lengths,))


def _memory_rows(lengths: list[int]) -> list[dict[str, Any]]:
    return_memory_eagerly()
    torch.set_num_threads(1)
    rows = []
    contenders: list[Contender] = [Nestree(), TorchStruct(), Supar()]
    for n in lengths:
        problem = Problem(BATCH, n, LABELS)
        for operation in OPERATIONS:
            used = {}
            for contender in contenders:
                if contender.run(operation, problem) is not None:
                    used[contender.name] = peak_extra_mib(partial(contender.run, operation, problem))
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
            contenders = {str(threads): partial(with_threads, threads, operation, problem) for threads in (1, 2)}
            times = interleaved_medians(contenders, seconds=seconds)
            row = {"op": operation, "n": n, "one_ms": round(times["1"], 4), "two_ms": round(times["2"], 4)}
            rows.append({**row, "speedup": round(times["1"] / times["2"], 2)})
    return rows


def judge(rows: list[dict[str, Any]], memory: list[dict[str, Any]], speedups: list[dict[str, Any]]) -> str:
    """Which of the project's bars hold in this run."""
    verdicts = []
    for operation, bar in BARS.items():
        mine = [r for r in rows if r["op"] == operation and r["threads"] == 1 and r["peer"] == "torch-struct"]
        if mine:
            worst = min(mine, key=lambda r: r["ratio"])
            held = "held" if worst["ratio"] >= bar else "MISSED"
            verdicts.append(f"\n  {operation} at least {bar:g}x: {held}, {worst['ratio']:g}x at n = {worst['n']}")
    heavy = [m for m in memory if m["peer"] == "torch-struct" and m["ratio"] is not None]
    if heavy:
        worst = min(heavy, key=lambda m: m["ratio"])
        held = "held" if worst["ratio"] >= 3 else "MISSED"
        where = f"{worst['op']}, n = {worst['n']}"
        verdicts.append(f"\n  peak extra memory at most 1/3: {held}, 1/{worst['ratio']:g} ({where})")
    long = [s for s in speedups if s["n"] >= 60]
    if long:
        worst = min(long, key=lambda s: s["speedup"])
        held = "held" if worst["speedup"] >= 1.6 else "MISSED"
        where = f"{worst['op']}, n = {worst['n']}"
        verdicts.append(f"\n  two threads at least 1.6x one from n = 60: {held}, {worst['speedup']:g}x ({where})")
    return "".join(verdicts)


if __name__ == "__main__":
    main()
