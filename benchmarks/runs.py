"""Collects training runs: the best epoch of each, and means over seeds.

    python -m benchmarks.runs FOLDER --name genia        # FOLDER/60-open-0/training/metrics.jsonl and so on

What stands after the last hyphen of a run's folder is its seed; runs that differ in it alone are counted together.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS


def best_epoch(metrics: Path) -> dict[str, Any]:
    """Scores of the epoch with the best dev F1, in percent; macro F1 is over labels of gold."""
    lines = (json.loads(line) for line in metrics.read_text().splitlines())
    epochs = [line for line in lines if line["event"] == "epoch"]
    best = max(epochs, key=lambda epoch: float(epoch["f1"]))
    labels = {name: 100 * scores["f1"] for name, scores in best["labels"].items() if scores["gold"]}
    found = {name: round(100 * best[name], 2) for name in ("precision", "recall", "f1")}
    return {
        "epochs": len(epochs),
        "best_epoch": best["epoch"],
        **found,
        "macro_f1": round(statistics.mean(labels.values()), 2),
        "labels": {name: round(value, 1) for name, value in sorted(labels.items())},
    }


def summary(runs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Means and standard deviations over seeds."""
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, run in runs.items():
        kinds[name.rpartition("-")[0]].append(run)
    rows = []
    for kind, of_kind in kinds.items():
        row: dict[str, Any] = {"kind": kind, "seeds": len(of_kind)}
        for name in ("precision", "recall", "f1", "macro_f1"):
            values = [run[name] for run in of_kind]
            row[name] = round(statistics.mean(values), 2)
            row[f"{name}_deviation"] = round(statistics.stdev(values), 2) if len(values) > 1 else None
        rows.append(row)
    return rows


def main() -> None:
    """Reads a folder of runs, prints a table and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", required=True, help="of the file under benchmarks/results")
    options = parser.parse_args()
    files = sorted(options.folder.glob("*/training/metrics.jsonl"))
    runs = {path.parent.parent.name: best_epoch(path) for path in files}
    rows = summary(runs)
    for row in rows:
        spread = "" if row["f1_deviation"] is None else f" ± {row['f1_deviation']:.2f}"
        print(f"{row['kind']:28} {row['seeds']} runs  F1 {row['f1']:.2f}{spread}  macro {row['macro_f1']:.2f}")
    target = RESULTS / f"runs-{options.name}.json"
    target.write_text(json.dumps({"summary": rows, "runs": runs}, indent=1) + "\n")
    print(f"written to {target}")


if __name__ == "__main__":
    main()
