"""One training run in a process of its own: ``nestree train``, then what is measured of the model.

    python -m experiments.worker SPEC.json

It goes on with a run that was stopped, and measures one that is finished. Asked to stop (SIGTERM), it writes a
checkpoint and ends with status 130.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments import measures
from experiments.runs import Run
from experiments.store import write_json
from nestree.cli.main import main as nestree
from nestree.data import Document, read, write
from nestree.training.folder import RunFolder

STOPPED = 130


def main() -> int:
    """Trains, measures, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path)
    spec: dict[str, Any] = json.loads(parser.parse_args().spec.read_text(encoding="utf-8"))
    run, folder = Run.from_dict(spec["run"]), Path(spec["folder"])
    status = train(run, spec, folder)
    if status:
        return status
    began = time.monotonic()
    result = described(run, spec, folder) | measured(spec, folder)
    write_json(Path(spec["output"]), result | {"measuring_seconds": round(time.monotonic() - began, 1)})
    if spec["discard"]:
        shutil.rmtree(folder)
    return 0


def train(run: Run, spec: dict[str, Any], folder: Path) -> int:
    """``nestree train``, from the beginning or from where it stopped."""
    begun = RunFolder(folder).begun
    settings = run.config(spec["encoder"]["width"]).updated({"encoder": spec["encoder"]["argument"]})
    settings = settings.updated({"device": spec["device"], "precision": spec["precision"]})
    config = folder.with_name(f"{folder.name}.toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(settings.as_toml(), encoding="utf-8")
    source = Path(spec["train"])
    if run.is_cut:
        source = folder.with_name(f"{folder.name}.jsonl")
        if not (begun and source.is_file()):
            write(cut(list(read(spec["train"])), run), source)
    command = ["train", str(source), "--dev", spec["dev"], "--output", str(folder), "--config", str(config)]
    return nestree([*command, "--resume" if begun else "--force"])


def cut(documents: Sequence[Document], run: Run) -> list[Document]:
    """The training documents of a run: a share of them, with a share of their entities.

    A smaller share is part of a larger one with the same seed.
    """
    order = list(range(len(documents)))
    random.Random(f"documents {run.seed}").shuffle(order)
    kept = sorted(order[: max(1, round(run.sentences * len(order)))])
    if run.annotated == 1:
        return [documents[at] for at in kept]
    found = []
    for at in kept:
        chance = random.Random(f"entities {run.seed} {at}")
        entities = tuple(one for one in documents[at].entities if chance.random() < run.annotated)
        said = () if run.missing == "open" else documents[at].complete_labels
        source = documents[at].source
        plain = source._replace(entity_lines=()) if source else None
        found.append(replace(documents[at], entities=entities, complete_labels=said, source=plain))
    return found


def described(run: Run, spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Everything that a number can be traced to."""
    ran = json.loads((folder / "training" / "run.json").read_text(encoding="utf-8"))
    ended = json.loads((folder / "training" / "result.json").read_text(encoding="utf-8"))
    lines = map(json.loads, (folder / "training" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    data = {
        part: {name: found[name] for name in ("fingerprint", "sentences", "entities")}
        for part, found in ran["data"].items()
    }
    config = RunFolder(folder).config().as_dict() | {"encoder": run.encoder}
    return {
        "run": run.as_dict(),
        "code": spec["code"],
        "config": config,
        "encoder": spec["encoder"]["known"],
        "data": data,
        "labels": ran["labels"],
        "machine": ran["machine"],
        "seconds": ended["seconds"],
        "epochs": ended["epochs"],
        "best_epoch": ended["epoch"],
        "dev_f1_by_epoch": [round(100 * line["f1"], 2) for line in lines if line["event"] == "epoch"],
    }


def measured(spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The parts that were asked for; on the device that it was trained on."""
    import torch

    from nestree import NestedNER
    from nestree.data import Splitter

    model = NestedNER.from_pretrained(folder)
    device = spec["device"]
    model.to("cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu").eval()
    gold = [one if one.tokens and one.sentences else Splitter().split(one) for one in read(spec["dev"])]
    found = measures.of_dev(model, gold)
    if measures.TREES in spec["parts"]:
        found[measures.TREES] = measures.of_drawn(model, gold)
    if measures.SYNTAX in spec["parts"]:
        found[measures.SYNTAX] = measures.of_syntax(model, Path(spec["train"]), Path(spec["treebank"]))
    return found


if __name__ == "__main__":
    sys.exit(main())
