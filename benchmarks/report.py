"""Writes the measured tables into README.md and docs/performance.md, between their markers.

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
    found = json.loads((RESULTS / "crf-cpu.json").read_text())
    growth = json.loads((RESULTS / "growth-cpu.json").read_text())
    blocks = {
        "ratios": ratios(found["rows"], 1),
        "ratios two threads": ratios(found["rows"], 2),
        "milliseconds": by_length(
            [r for r in found["rows"] if r["peer"] == "torch-struct" and r["threads"] == 1],
            lambda row: f"{row['ours_ms']:.2f}",
        ),
        "memory": by_length(
            [r for r in found["memory"] if r["peer"] == "torch-struct"],
            lambda row: f"{row['ours_mib']:.1f} / {row['peer_mib']:.1f}",
        ),
        "threads": by_length(found["two_threads"], lambda row: f"{row['speedup']:.2f}×"),
        "growth": growth_table(growth["rows"]),
        "paper": paper_table(json.loads((RESULTS / "paper-algorithms.json").read_text())["rows"]),
        "machine": ", ".join(f"{key} {value}" for key, value in found["environment"].items()) + ".",
    }
    for path in (ROOT / "README.md", ROOT / "docs" / "performance.md"):
        text = path.read_text()
        for name, block in blocks.items():
            start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
            if start in text:
                before, rest = text.split(start, 1)
                text = before + start + block + "\n" + end + rest.split(end, 1)[1]
        path.write_text(text)
        print(f"written: {path.relative_to(ROOT)}")


def ratios(rows: Rows, threads: int) -> str:
    """How many times slower torch-struct / supar are."""
    mine = [row for row in rows if row["threads"] == threads]

    def cell(row: dict[str, Any]) -> str:
        same = [r for r in mine if (r["op"], r["n"]) == (row["op"], row["n"])]
        values = {r["peer"]: f"{r['ratio']:.0f}×" for r in same}
        return f"{values['torch-struct']} / {values.get('supar', '–')}"

    return by_length([row for row in mine if row["peer"] == "torch-struct"], cell)


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
