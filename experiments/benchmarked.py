"""What ``benchmarks/`` measured of the same things, for the report: what takes hours on a GPU is not done twice.

``benchmarks.adapt`` trains its plain models with the settings and seeds of ``main``, so they are runs of ``main``.
Only the report of this project's own results reads these files; one of other results knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.groups import Group
from experiments.runs import Run
from experiments.store import Store, read_json


@dataclass(frozen=True)
class Adapted:
    """What adapting, combining and distilling gave, for a corpus and an encoder.

    Attributes:
        corpus: its name.
        encoder: its short name.
        kinds: models of each kind, as ``benchmarks.adapt`` names them; behind ``with raw text`` if encoders and
            students read some besides the training text.
        notes: what is to be known of a kind.
    """

    corpus: str
    encoder: str
    kinds: dict[str, Group]
    notes: dict[str, str]


RAW = "with raw text: "
"""Before the names of kinds that read raw text."""
READS_RAW = ("adapted", "adapted-ensemble", "student", "student-average", "student-ensemble")


def folder(store: Store) -> Path:
    """Where the benchmarks' results of a project with these results are; it need not be there."""
    return store.folder.resolve().parent.parent / "benchmarks" / "results"


def adapted(store: Store) -> Iterator[Adapted]:
    """All that ``benchmarks.adapt`` measured with its usual settings, and beside it what raw text gave.

    Of several settings with raw text, those with most models: teachers and students of one name belong together.
    """
    for path in sorted(folder(store).glob("adapt-*-*.json")):
        _, corpus, encoder, *name = path.stem.split("-")
        if not name:
            found = read_json(path) or {}
            kinds = {kind: _group(corpus, encoder, runs) for kind, runs in found["kinds"].items() if runs}
            others = sorted(path.parent.glob(f"{path.stem}-*.json"))
            with_raw = [_with_raw(corpus, encoder, read_json(one) or {}) for one in others]
            most = max(with_raw, key=_models, default={})
            kinds |= most
            yield Adapted(corpus, encoder, kinds, found.get("notes", {}))


def training_steps(store: Store) -> dict[str, Any] | None:
    """Steps on a GPU, as ``benchmarks.train_step`` measured them, or None."""
    return read_json(folder(store) / "train-step-cuda.json")


def growth(store: Store) -> dict[str, dict[int, tuple[float, float | None]]]:
    """By device, the milliseconds of our loss and its exponent since the last length, by the words of a sentence."""
    found = {}
    for device, kind in (("GPU", "cuda"), ("CPU", "cpu")):
        rows = (read_json(folder(store) / f"growth-{kind}.json") or {"rows": []})["rows"]
        own = {
            row["n"]: (row["ours_ms"], row["exponent"])
            for row in rows
            if row["grows"] == "n" and row["op"] == "loss forward+backward"
        }
        if own:
            found[device] = own
    return found


def balance(store: Store, corpus: str) -> dict[str, dict[str, float]]:
    """Means of runs with several strengths of the remedy for rare labels, with an earlier recipe; by strength."""
    found = read_json(folder(store) / "runs-balance.json") or {"summary": []}
    start = f"{corpus}-balance-"
    return {one["kind"].removeprefix(start): one for one in found["summary"] if one["kind"].startswith(start)}


def _models(kinds: dict[str, Group]) -> int:
    return sum(len(group.runs) for group in kinds.values())


def _with_raw(corpus: str, encoder: str, found: dict[str, Any]) -> dict[str, Group]:
    """The models that had raw text beside all of the annotated text."""
    kinds = {}
    for kind in READS_RAW:
        made = found.get("made", {}).get(kind, {})
        if made.get("raw") and made["flags"]["share"] == 1:
            kinds[f"{RAW}{kind}"] = _group(corpus, encoder, found["kinds"][kind])
    return kinds


def _group(corpus: str, encoder: str, runs: list[dict[str, Any]]) -> Group:
    epochs = Run(corpus, encoder).config().epochs
    return Group(
        tuple(
            (Run(corpus, encoder, seed=seed), {"config": {"epochs": epochs}, "scores": _scores(one)})
            for seed, one in enumerate(runs)
        )
    )


def _scores(one: dict[str, Any]) -> dict[str, Any]:
    micro = {measure: one[measure] / 100 for measure in ("precision", "recall", "f1")}
    return {"decoding": "own", "own": {"micro": micro, "per_sentence": one["per_sentence"]}}
