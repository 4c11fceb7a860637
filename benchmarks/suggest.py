"""What `nestree suggest` brings over sentences picked at random: an annotator who knows all answers.

    python -m benchmarks.suggest genia/train.data genia/dev.data --seed 0 --output learned-0.json
    python -m benchmarks.suggest --summary learned-*.json          # means over seeds, written to benchmarks/results

Each way of picking begins with the same sentences, drawn at random. In each round the model so far picks some more of
the pool, their annotation is added, and a new model is trained. A part of dev picks the epoch, the rest is for the
scores.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS
from nestree.data import Document, Splitter, read, write
from nestree.evaluation import score
from nestree.model import NestedNER
from nestree.prediction import annotate, suggest
from nestree.training import Progress, TrainConfig, load_part, prepare, train

WAYS: dict[str, dict[str, Any] | None] = {
    "random": None,
    "tree": {"by": "tree"},
    "entities": {"by": "entities"},
    "random, as many words as tree": None,
    "tree, no diversity": {"by": "tree", "diversity": 0.0},
}
SETTINGS = {"batch_size": 16, "encoder_lr": 3e-4, "head_lr": 2e-3, "missing_labels": "ignore", "tensorboard": False}
PICKING = 100
"""Sentences of dev that pick the epoch."""


class Experiment:
    """Trains, picks, annotates.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.pool = random.Random(0).sample(list(read(options.train)), options.pool)
        dev = random.Random(0).sample(list(read(options.dev)), PICKING + options.test)
        self.folder = Path(tempfile.mkdtemp())
        self.dev, self.test = self.folder / "dev.jsonl", dev[PICKING:]
        write(dev[:PICKING], self.dev)
        self.answers = {one.text: one for one in self.pool}
        others = {"epochs": options.epochs, "device": options.device, "encoder": options.encoder, "seed": options.seed}
        self.config = TrainConfig().updated({**SETTINGS, **others})
        self.device = options.device

    def learn(self, documents: Sequence[Document]) -> tuple[NestedNER, dict[str, Any]]:
        """A model of these documents, and what it is worth."""
        file, output = self.folder / "train.jsonl", self.folder / "run"
        write(documents, file)
        corpus = prepare(load_part(file, Splitter()), load_part(self.dev, Splitter()), self.config)
        train(corpus, output, self.config, force=True, progress=Silent())
        model = NestedNER.from_pretrained(output).to(self.device)
        found = score(self.test, annotate(model, self.test)).as_dict()
        shutil.rmtree(output)
        return model, {
            "sentences": len(documents),
            "words": sum(len(one.words) for one in documents),
            "entities": sum(len(one.entities) for one in documents),
            "f1": round(100 * found["micro"]["f1"], 2),
        }

    def pick(self, options: dict[str, Any], model: NestedNER, known: list[Document], number: int) -> list[Document]:
        """So many more documents, with their annotation, that the model asks for."""
        found = suggest(model, self.pool, number, exclude=known, **options)
        return [self.answers[one.document.text] for one in found]

    def draw(self, known: list[Document], number: int, words: int | None, seed: int) -> list[Document]:
        """So many more at random, or as many as have so many words in all."""
        texts = {one.text for one in known}
        others = random.Random(seed).sample(self.pool, len(self.pool))
        others = [one for one in others if one.text not in texts]
        if words is None:
            return others[:number]
        have = sum(len(one.words) for one in known)
        totals = accumulate((len(one.words) for one in others), initial=have)
        return [one for one, total in zip(others, totals, strict=False) if total < words]


class Silent(Progress):
    """Says nothing."""

    def message(self, text: str) -> None:
        """Nothing."""


def run(options: argparse.Namespace) -> None:
    """One seed, all ways."""
    experiment = Experiment(options)
    first = random.Random(options.seed).sample(experiment.pool, options.sizes[0])
    begun = experiment.learn(first)
    rows: dict[str, list[dict[str, Any]]] = {}
    for way in WAYS:
        known, (model, found) = list(first), begun
        rows[way] = [found]
        for at, size in enumerate(options.sizes[1:], 1):
            how, number = WAYS[way], size - len(known)
            if how is not None:
                known += experiment.pick(how, model, known, number)
            else:
                words = rows["tree"][at]["words"] if way.endswith("tree") else None
                known += experiment.draw(known, number, words, options.seed + size)
            model, found = experiment.learn(known)
            rows[way].append(found)
            print(way, found, flush=True)
        options.output.write_text(
            json.dumps(
                {
                    "seed": options.seed,
                    "epochs": options.epochs,
                    "pool": options.pool,
                    "test": options.test,
                    "ways": rows,
                },
                indent=1,
            )
        )


def summarise(files: Sequence[Path]) -> None:
    """Means over seeds."""
    runs = [json.loads(path.read_text()) for path in files]
    table: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for one in runs:
        for way, rows in one["ways"].items():
            for at, row in enumerate(rows):
                table[way][at].append(row)
    summary = []
    for way, sizes in table.items():
        for at, of_size in sizes.items():
            values = [row["f1"] for row in of_size]
            deviation = round(statistics.stdev(values), 2) if len(values) > 1 else None
            counts = ("sentences", "words", "entities")
            means = {name: round(statistics.mean(row[name] for row in of_size)) for name in counts}
            found = {"way": way, "round": at, "f1": round(statistics.mean(values), 2), "f1_deviation": deviation}
            summary.append({**found, **means, "seeds": len(values)})
            print(f"{way:30} {means}  F1 {found['f1']:.2f} ± {deviation}")
    target = RESULTS / "suggest.json"
    target.write_text(json.dumps({"summary": summary, "runs": runs}, indent=1) + "\n")
    print(f"written to {target}")


def main() -> None:
    """Runs a seed, or puts seeds together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, nargs="?")
    parser.add_argument("dev", type=Path, nargs="?")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 300])
    parser.add_argument("--pool", type=int, default=2500, help="sentences to pick from (2500)")
    parser.add_argument("--test", type=int, default=500, help="sentences of dev for the scores (500)")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path, default=Path("learned.json"))
    parser.add_argument("--summary", type=Path, nargs="+", help="results of several seeds")
    options = parser.parse_args()
    if options.summary:
        summarise(options.summary)
    else:
        run(options)


if __name__ == "__main__":
    main()
