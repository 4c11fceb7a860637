"""How does the time grow with the sentence's length and with the batch? Cubic and linear, as it must, and no worse.

python -m benchmarks.growth --device cpu
python -m benchmarks.growth --device cuda
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import Any

import torch

from benchmarks.measure import RESULTS, environment, interleaved_medians, table, write_json
from benchmarks.peers import Nestree, Problem

LABELS = 8
LENGTHS = (8, 16, 32, 64, 128, 256, 512)
BATCHES = (1, 4, 16, 64, 256, 1024)
OPERATIONS = ("loss forward+backward", "argmax")


def main() -> None:
    """Measures, prints, writes, draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="on a CPU")
    parser.add_argument("--seconds", type=float, default=3.0, help="time per measurement")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ours, rows = Nestree(), []
    for operation in OPERATIONS:
        by_length = [measure(ours, operation, 8, n, options) for n in LENGTHS]
        by_batch = [measure(ours, operation, batch, 30, options) for batch in BATCHES]
        rows += with_exponents(by_length, "n") + with_exponents(by_batch, "batch")
    print(table(rows, ["op", "grows", "n", "batch", "ours_ms", "exponent"]))
    print("\nexponent: how the time grew since the row above, as a power of what grew")
    print(f"written to {write_json(f'growth-{options.device}', {'environment': environment(), 'rows': rows})}")
    print(f"drawn in {draw(rows, options.device)}")


def measure(ours: Nestree, operation: str, batch: int, n: int, options: argparse.Namespace) -> dict[str, Any]:
    """One median."""
    run = partial(ours.run, operation, Problem(batch, n, LABELS, options.device))
    time = interleaved_medians({"": run}, seconds=options.seconds)[""]
    return {"op": operation, "n": n, "batch": batch, "ours_ms": time}


def with_exponents(rows: list[dict[str, Any]], grows: str) -> list[dict[str, Any]]:
    """Adds to each row how fast the time grew since the one before."""
    done = []
    for before, row in zip([None, *rows], rows, strict=False):
        ratio = None
        if before is not None:
            ratio = round(math.log(row["ours_ms"] / before["ours_ms"]) / math.log(row[grows] / before[grows]), 2)
        done.append({**row, "ours_ms": round(row["ours_ms"], 4), "grows": grows, "exponent": ratio})
    return done


def draw(rows: list[dict[str, Any]], device: str) -> str:
    """Two log-log plots side by side, with the slopes to compare with."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(10, 4))
    for axes, grows, power, title in (
        (both[0], "n", 3, "words per sentence (batch 8)"),
        (both[1], "batch", 1, "sentences per batch (30 words)"),
    ):
        for operation, marker in zip(OPERATIONS, "os", strict=True):
            mine = [row for row in rows if row["op"] == operation and row["grows"] == grows]
            x, y = [row[grows] for row in mine], [row["ours_ms"] for row in mine]
            axes.loglog(x, y, marker=marker, label=operation)
            axes.loglog(
                x, [y[-1] * (value / x[-1]) ** power for value in x], color="grey", linewidth=0.8, linestyle=":"
            )
        times = [row["ours_ms"] for row in rows if row["grows"] == grows]
        axes.set_ylim(min(times) / 2, max(times) * 2)
        axes.set_xlabel(title)
        axes.set_ylabel("milliseconds")
        axes.set_xticks(x, [str(value) for value in x])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(title=f"dotted: slope {power}")
    figure.tight_layout()
    path = RESULTS / f"growth-{device}.png"
    figure.savefig(path, dpi=120)
    return str(path)


if __name__ == "__main__":
    main()
