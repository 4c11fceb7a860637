"""From a pool of raw text to a better model: suggest, annotate, train, and again.

    python examples/annotation_loop.py [--rounds 1] [--first 60] [-k 60] [--epochs 8] [--random] [--output FOLDER]

The annotator is simulated: she knows the answers of the demo corpus, works in Label Studio's format, skips every tenth
task, and leaves one unfinished, with the model's guesses in it. Every step is a command that you would run; the files
stay in the folder that is named at the end. With --random, sentences are picked at random instead, for comparison.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from nestree.cli.main import main as nestree
from nestree.data import Document, read, write
from nestree.demo import CORPUS

SETTINGS = ["--batch-size", "4", "--encoder-lr", "3e-4", "--head-lr", "2e-3", "--no-tensorboard", "--device", "cpu"]
UNFINISHED = "not looked at"
"""The label with which the annotator marks what she did not read."""


def main() -> None:
    """Runs the loop."""
    options = _options()
    folder = options.output or Path(tempfile.mkdtemp(prefix="annotation-loop-"))
    folder.mkdir(exist_ok=True)
    answers = {document.text: document for document in read(CORPUS / "train.jsonl")}
    texts = random.Random(options.seed).sample(sorted(answers), len(answers))
    write([answers[text] for text in texts[: options.first]], folder / "first.jsonl")
    (folder / "pool.txt").write_text("\n".join(texts[options.first :]) + "\n", encoding="utf-8")

    annotated, suggested = [folder / "first.jsonl"], list[Path]()
    for number in range(options.rounds + 1):
        model = folder / f"model-{number}"
        dev = ["--dev", CORPUS / "dev.conll", "--output", model]
        unfinished = ["--set", f"unknown_label={UNFINISHED}"] if number else []
        training = ["--encoder", options.encoder, "--epochs", options.epochs, *SETTINGS]
        _run("train", *annotated, *dev, *unfinished, *training)
        if number == options.rounds:
            break
        tasks, back = folder / f"round-{number + 1}.json", folder / f"returned-{number + 1}.json"
        out = ["--to", "label-studio", "--output", tasks]
        pool = folder / "pool.txt"
        if options.random:
            pool = _at_random(pool, tasks, options)
        _run("suggest", model, pool, "--lines", "-k", options.k, "--exclude", *annotated, *suggested, *out)
        suggested.append(tasks)  # what she skipped is not suggested again
        _annotate(tasks, back, answers)
        annotated.append(back)
    _run("evaluate", folder / f"model-{options.rounds}", CORPUS / "test.data", "--device", "cpu")
    print(f"\neverything is in {folder}")


def _annotate(tasks: Path, back: Path, answers: dict[str, Document]) -> None:
    """What the annotator does in Label Studio."""
    returned: list[dict[str, Any]] = json.loads(tasks.read_text(encoding="utf-8"))
    for number, task in enumerate(returned, 1):
        document = answers[task["data"]["text"]]
        entities = [(one.start, one.end, one.label) for one in document.entities]
        if number == 1:  # she was called away: the second half says nothing
            middle = next(one.start for one in document.tokens or () if 2 * one.start >= len(document.text))
            entities = [one for one in entities if one[1] < middle] + [(middle, len(document.text), UNFINISHED)]
        result = [_region(document.text, *one) for one in entities]
        if number == 1:  # where the guesses stay as they came
            guesses = task["predictions"][0]["result"]
            result += [{**one, "origin": "prediction"} for one in guesses if one["value"]["end"] > middle]
        task["annotations"] = [{"result": result, "was_cancelled": number % 10 == 0}]
    back.write_text(json.dumps(returned, ensure_ascii=False), encoding="utf-8")


def _region(text: str, start: int, end: int, label: str) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": text[start:end], "labels": [label]}
    return {"type": "labels", "from_name": "label", "to_name": "text", "value": value}


def _at_random(pool: Path, tasks: Path, options: argparse.Namespace) -> Path:
    """A part of the pool, drawn without looking."""
    drawn = tasks.with_suffix(".txt")
    texts = pool.read_text(encoding="utf-8").splitlines()
    chosen = random.Random(f"{options.seed} {tasks.name}").sample(texts, min(len(texts), options.k))
    drawn.write_text("\n".join(chosen) + "\n", encoding="utf-8")
    return drawn


def _run(*arguments: object) -> None:
    command = [str(one) for one in arguments]
    print(f"\n$ nestree {' '.join(command)}", flush=True)
    if nestree(command):
        raise SystemExit(2)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=1, help="default: 1")
    parser.add_argument("--first", type=int, default=60, help="sentences to begin with (60)")
    parser.add_argument("-k", type=int, default=60, help="sentences of a round (60)")
    parser.add_argument("--epochs", type=int, default=8, help="of each training (8)")
    parser.add_argument("--encoder", default="minilm", help="default: minilm")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where to; a new one, if left out")
    parser.add_argument("--random", action="store_true", help="pick at random")
    return parser.parse_args()


if __name__ == "__main__":
    main()
