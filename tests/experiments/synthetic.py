"""Results of runs that nobody ran: as the worker writes them, with scores drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.counts import pack
from experiments.runs import Run
from experiments.store import Store, write_json

LABELS = ("ORG", "PER")
SENTENCES = 200
GOLD = np.random.default_rng(7).integers(1, 4, SENTENCES)


def scored(share: float, chance: np.random.Generator) -> dict[str, Any]:
    """Scores of a system that finds this share of the entities, and as many others as it misses."""
    correct = chance.binomial(GOLD, share)
    counts = np.stack([correct, GOLD, GOLD], 1)
    right, gold = int(correct.sum()), int(GOLD.sum())
    value = round(right / gold, 6)
    one = {"precision": value, "recall": value, "f1": value, "correct": right, "predicted": gold, "gold": gold}
    return {
        "micro": one,
        "macro": {"precision": value, "recall": value, "f1": value},
        "unlabelled": one,
        "labels": dict.fromkeys(LABELS, one),
        "breakdowns": {},
        "per_sentence": pack(counts),
    }


def result(run: Run, share: float, **more: Any) -> dict[str, Any]:
    """A result; ``more``: further parts of it."""
    chance = np.random.default_rng([run.seed, round(1e6 * share)])
    ways = ("map",) if dict(run.changes).get("loss") == "local" else ("map", "mbr")
    own = run.config().decoding if len(ways) > 1 else "map"
    every = int(GOLD.sum())
    part = {"fingerprint": "f" * 64, "sentences": SENTENCES, "entities": every}
    rows = [*LABELS, "Latent", "None"]
    return {
        "run": run.as_dict(),
        "code": {"commit": "c" * 40, "sources": "s" * 16},
        "config": run.config().as_dict(),
        "encoder": {"name": run.encoder},
        "data": {"train": part, "dev": part},
        "labels": list(LABELS),
        "machine": {"device": "cpu (x86_64)", "torch": "2"},
        "seconds": 12.5,
        "epochs": run.config().epochs,
        "best_epoch": 1,
        "dev_f1_by_epoch": [100 * share],
        "scores": {"decoding": own, **{way: scored(share, chance) for way in ways}},
        "errors": {
            "labels": list(LABELS),
            "rows": rows,
            "counts": [[70, 5], [4, 60], [10, 20], [16, 15]],
            "kinds": {"missed": 30, "spurious": 20},
        },
        **more,
    }


def put(store: Store, share: float, run: Run, seeds: int = 3, **more: Any) -> None:
    """Writes the results of a kind of run, with several seeds."""
    for seed in range(seeds):
        one = Run.from_dict(run.as_dict() | {"seed": seed})
        write_json(store.path(one), result(one, share, **more))
