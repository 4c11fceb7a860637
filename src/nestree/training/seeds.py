"""Several runs that differ in their seed alone, and their mean and standard deviation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from nestree.training.config import TrainConfig
from nestree.training.data import Corpus
from nestree.training.folder import RunFolder, write_text
from nestree.training.loop import train
from nestree.training.machine import is_first_process
from nestree.training.progress import Progress
from nestree.training.state import Result

MEASURES = ("precision", "recall", "f1")


def train_seeds(
    corpus: Corpus,
    output: str | PathLike[str],
    config: TrainConfig,
    seeds: int,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> list[Result]:
    """Trains once for each seed, from the one in the settings on, into ``seed-0``, ``seed-1``, ... of a folder.

    ``seeds.json`` holds all results, mean and standard deviation. With ``resume``, finished runs are not done again.
    """
    folder = Path(output)
    first = is_first_process()
    if first and not resume:
        for path in seed_folders(folder, seeds):
            RunFolder(path).check_place(force=force)
    results = []
    for number, path in enumerate(seed_folders(folder, seeds)):
        one = config.updated({"seed": config.seed + number})
        if first:
            (progress or Progress()).message(f"seed {one.seed} ({number + 1} of {seeds}): {path}")
        results.append(train(corpus, path, one, resume=resume, force=force, progress=progress))
    content = {"seeds": [config.seed + number for number in range(seeds)], **statistics(results)}
    if first:
        write_text(folder / "seeds.json", json.dumps(content, indent=2) + "\n")
    return results


def seed_folders(folder: Path, seeds: int) -> list[Path]:
    """The folders of so many runs."""
    return [folder / f"seed-{number}" for number in range(seeds)]


def statistics(results: Sequence[Result]) -> dict[str, Any]:
    """Of precision, recall and F1 on dev: all values, mean, and standard deviation (of a sample; 0 for one run)."""
    found: dict[str, Any] = {}
    for measure in MEASURES:
        values = [result.scores["micro"][measure] for result in results]
        spread = stdev(values) if len(values) > 1 else 0.0
        found[measure] = {"values": values, "mean": round(mean(values), 6), "std": round(spread, 6)}
    return found


def summary(results: Sequence[Result]) -> str:
    """As the paper writes it: mean ± standard deviation, in percent."""
    found = statistics(results)
    lines = [f"dev, {len(results)} seeds: mean ± standard deviation (each)"]
    for measure, name in zip(MEASURES, ("P ", "R ", "F1"), strict=True):
        one = found[measure]
        each = ", ".join(f"{100 * value:.2f}" for value in one["values"])
        lines.append(f"{name}  {100 * one['mean']:.2f} ± {100 * one['std']:.2f}  ({each})")
    best = max(results, key=lambda result: result.f1)
    return "\n".join([*lines, f"the best model is in {best.folder}"])
