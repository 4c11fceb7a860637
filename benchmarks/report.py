"""Writes the measured tables into README.md, docs/performance.md and benchmarks/results/README.md.

python -m benchmarks.report
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS

ROOT = Path(__file__).parents[1]
Rows = list[dict[str, Any]]


def main() -> None:
    """One block per marker ``<!-- table: NAME -->``, up to the next ``<!-- end -->``."""
    found = load("crf-cpu")
    blocks = {
        "ratios": ratios([r for r in found["rows"] if r["threads"] == 1]),
        "ratios two threads": ratios([r for r in found["rows"] if r["threads"] == 2]),
        "milliseconds": milliseconds([r for r in found["rows"] if r["threads"] == 1]),
        "memory": memory(found["memory"]),
        "threads": by_length(found["two_threads"], lambda row: f"{row['speedup']:.2f}×"),
        "growth": growth_table(load("growth-cpu")["rows"]),
        "paper": paper_table(load("paper-algorithms")["rows"]),
        "machine": machine(found),
    }
    gpu, data = load("crf-cuda"), load("data")
    blocks |= {
        "reading": reading(data["rows"]),
        "streaming": streaming(data["streams"]),
        "reading machine": machine(data),
        "gpu ratios": ratios(gpu["rows"]),
        "gpu calling thread": ratios(gpu["calling_thread"]),
        "gpu milliseconds": milliseconds(gpu["rows"]),
        "gpu memory": memory(gpu["memory"]),
        "gpu kernels": kernels(gpu["kernels"]),
        "gpu hardware": hardware(gpu["hardware"]),
        "gpu decoding": by_length(gpu["decoding"], lambda row: f"{row['ms']:.2f} ms"),
        "gpu growth": growth_table(load("growth-cuda")["rows"]),
        "gpu machine": machine(gpu),
        "train step": train_steps(load("train-step-cuda")["rows"]),
        "train step cpu": train_steps(load("train-step-cpu")["rows"]),
        "train step machine": machine(load("train-step-cuda")),
        "train step cpu machine": machine(load("train-step-cpu")),
    }
    for path in (ROOT / "README.md", ROOT / "docs" / "performance.md", RESULTS / "README.md"):
        text = path.read_text()
        for name, block in blocks.items():
            start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
            if start in text:
                before, rest = text.split(start, 1)
                text = before + start + block + "\n" + end + rest.split(end, 1)[1]
        path.write_text(text)
        print(f"written: {path.relative_to(ROOT)}")


def load(name: str) -> dict[str, Any]:
    """One file of results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def reading(rows: Rows) -> str:
    """Ways of reading a corpus."""
    lines = ["| | ms | times `json.loads` |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {r['what']} | {r['ms']:.0f} | {r['times json.loads']:.2f} |" for r in rows)])


def streaming(rows: Rows) -> str:
    """Memory against the size of the file."""
    lines = ["| file, MB | documents | peak memory of the process, MiB | seconds |", "|---|---|---|---|"]
    cells = (f"| {r['megabytes']} | {r['documents']:,} | {r['peak_mib']:.0f} | {r['seconds']:.0f} |" for r in rows)
    return "\n".join([*lines, *cells])


def machine(found: dict[str, Any]) -> str:
    """What was measured on."""
    return ", ".join(f"{key} {value}" for key, value in found["environment"].items()) + "."


def milliseconds(rows: Rows) -> str:
    """Our own times."""
    return by_length([r for r in rows if r["peer"] == "torch-struct"], lambda row: f"{row['ours_ms']:.2f}")


def memory(rows: Rows) -> str:
    """Ours and torch-struct's."""
    mine = [row for row in rows if row["peer"] == "torch-struct"]
    return by_length(mine, lambda row: f"{row['ours_mib']:.1f} / {row['peer_mib']:.1f}")


def kernels(rows: Rows) -> str:
    """The GPU's own time, and how many times the larger of its two floors that is."""

    def cell(row: dict[str, Any]) -> str:
        return f"{row['kernel_ms']:.3f} ms, {row['gib_per_s']:.0f} GiB/s, {row['times_floor']:.0f}×"

    return by_length(rows, cell)


def hardware(found: dict[str, float]) -> str:
    """What the floors are counted with."""
    return (
        f"A large copy on this GPU moves {found['copy_gib_per_s']:.0f} GiB/s. A step (write, barrier, dependent read "
        f"of one program) takes {found['step_us']:.2f} µs. From Python and back an empty Triton kernel takes "
        f"{found['launch_ms']:.3f} ms, and a forward and backward pass through an autograd function that "
        f"computes nothing {found['round_trip_ms']:.3f} ms."
    )


def train_steps(rows: Rows) -> str:
    """Sets down, losses across: the step with (a), and how many times as long the others take."""
    losses = list(dict.fromkeys(row["loss"] for row in rows))
    lines = ["| encoder, sentences | " + " | ".join(losses) + " |", "|---" * (len(losses) + 1) + "|"]
    for encoder, name in dict.fromkeys((row["encoder"], row["set"]) for row in rows):
        mine = {row["loss"]: row for row in rows if (row["encoder"], row["set"]) == (encoder, name)}
        cells = []
        for loss, row in mine.items():
            digits = (3, 2) if row["ratio"] < 10 else (0, 0)
            ratio = f"{row['ratio']:.{digits[0]}f}× ({row['low']:.{digits[1]}f} to {row['high']:.{digits[1]}f})"
            cells.append(f"{row['step_ms']:.1f} ms" if loss == "(a) local" else ratio)
        lines.append(f"| {encoder}, {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ratios(rows: Rows) -> str:
    """How many times longer torch-struct / supar take."""

    def cell(row: dict[str, Any]) -> str:
        same = [r for r in rows if (r["op"], r["n"]) == (row["op"], row["n"])]
        values = {r["peer"]: f"{r['ratio']:.0f}×" for r in same}
        return " / ".join(values.get(peer, "–") for peer in peers)

    peers = list(dict.fromkeys(row["peer"] for row in rows))
    return by_length([row for row in rows if row["peer"] == "torch-struct"], cell)


def by_length(rows: Rows, cell: Any) -> str:
    """Operations down, lengths across."""
    lengths = sorted({row["n"] for row in rows})
    lines = ["| | " + " | ".join(f"n = {n}" for n in lengths) + " |", "|---" * (len(lengths) + 1) + "|"]
    for operation in dict.fromkeys(row["op"] for row in rows):
        cells = [cell(row) for n in lengths for row in rows if (row["op"], row["n"]) == (operation, n)]
        lines.append(f"| {operation} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def growth_table(rows: Rows) -> str:
    """Milliseconds for growing lengths and growing batches."""
    lines = []
    for grows in ("n", "batch"):
        mine = [row for row in rows if row["grows"] == grows]
        values = sorted({row[grows] for row in mine})
        lines += [f"| {grows} = | " + " | ".join(map(str, values)) + " |", "|---" * (len(values) + 1) + "|"]
        for operation in dict.fromkeys(row["op"] for row in mine):
            cells = [f"{row['ours_ms']:.2f}" for row in mine if row["op"] == operation]
            lines.append(f"| {operation}, ms | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip()


def paper_table(rows: Rows) -> str:
    """Times of the algorithms in the paper beside ours."""
    lines = ["| n | nestree, ms | as the paper writes it, ms | ratio |", "|---|---|---|---|"]
    cells = [
        (row["n"], f"{row['ours_ms']:.2f}", f"{row['peer']}: {row['peer_ms']:.0f}", f"{row['ratio']}×") for row in rows
    ]
    return "\n".join(lines + ["| " + " | ".join(map(str, line)) + " |" for line in cells])


if __name__ == "__main__":
    main()
