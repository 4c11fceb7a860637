"""The demo: trains on the corpus that ships with the package, with the TreeCRF and without, and shows what it learned.

    python -m nestree.demo [--output FOLDER] [--epochs N]

It runs the same commands that a user would, and says which.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nestree.cli.main import main as nestree
from nestree.data import Document, read
from nestree.demo import CORPUS
from nestree.drawing import draw_nodes, draw_spans, sentence_svg
from nestree.drawing.page import Figure, Image, Part, Section, Table, Text, page
from nestree.evaluation import score
from nestree.model import NestedNER
from nestree.prediction import annotate
from nestree.training.folder import write_text
from nestree.training.report import curves_png, read_metrics

SHOWN = 5
SETTINGS = ["--batch-size", "16", "--encoder-lr", "3e-4", "--head-lr", "2e-3", "--no-tensorboard"]
"""A few hundred sentences are few steps: smaller batches and larger rates than the defaults for thousands."""
MODELS = {"treecrf": "TreeCRF", "local": "without trees (loss = local)"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m nestree.demo", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), metavar="FOLDER", help="default: demo")
    parser.add_argument("--epochs", type=int, default=8, metavar="N", help="default: 8")
    parser.add_argument("--encoder", default="minilm", metavar="NAME", help="default: minilm")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    _heading("The data: nested entities in three formats")
    _run("data", "check", *(str(CORPUS / name) for name in ("train.jsonl", "dev.conll", "test.data")))
    results: dict[str, dict[str, Any]] = {}
    for loss, name in MODELS.items():
        _heading(f"Training: {name}")
        train = [
            str(CORPUS / "train.jsonl"),
            "--dev",
            str(CORPUS / "dev.conll"),
            "--output",
            str(options.output / loss),
        ]
        chosen = ["--encoder", options.encoder, "--epochs", str(options.epochs), "--loss", loss]
        _run("train", *train, *chosen, *SETTINGS, "--force")
    for loss, name in MODELS.items():
        _heading(f"On sentences that were held out: {name}")
        _run("evaluate", str(options.output / loss), str(CORPUS / "test.data"))
        model = NestedNER.from_pretrained(options.output / loss)
        gold = list(read(CORPUS / "test.data"))
        results[loss] = score(gold, annotate(model, gold)).as_dict()
    predictions = list(_predictions(NestedNER.from_pretrained(options.output / "treecrf")))
    _heading(f"{SHOWN} predictions: entities with their probabilities, then the tree (╌ latent constituents)")
    for document, spans, nodes, note in predictions:
        print(draw_spans(document.words, spans, width=110))
        print(f"\n{draw_nodes(document.words, nodes, leaves=False, width=110)}\n({note})\n")
    where = _write_page(options.output, results, predictions)
    tree, local = (100 * results[loss]["micro"]["f1"] for loss in MODELS)
    print(f"F1 on held-out sentences: TreeCRF {tree:.2f}, without trees {local:.2f} (the same epochs and settings)")
    print(f"The demo's page, with curves and drawings: {where}")
    print(f"All of it took {time.monotonic() - began:.0f} seconds.")
    print(
        f"See it live, as you type: nestree serve {options.output / 'treecrf'}, then open http://127.0.0.1:8000/ "
        "(.venv/bin/nestree after make setup; elsewhere it needs: pip install 'nestree[serve]')"
    )
    print(
        "Next, on your own annotation: nestree train train.jsonl --dev dev.jsonl --output runs/mine (docs/training.md)"
    )
    return 0


def _heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def _run(*arguments: str) -> None:
    """Runs a command of nestree, as a user would type it."""
    print(f"$ nestree {' '.join(arguments)}", flush=True)
    status = nestree(arguments)
    if status:
        sys.exit(status)


Prediction = tuple[Document, list[tuple[int, int, str, float]], list[tuple[int, int, str | None, float]], str]


def _predictions(model: NestedNER) -> Iterator[Prediction]:
    """Of the held-out sentences, those with the most entities within entities; and how they compare with gold."""
    documents = sorted(read(CORPUS / "test.data"), key=lambda one: (-_nested(one), len(one.words)))[:SHOWN]
    batch = model.pieces([document.words for document in documents])
    for document, spans, nodes in zip(documents, model.decode(batch), model.trees(batch), strict=True):
        gold = {(*(one.tokens or (0, 0)), one.label) for one in document.entities}
        found = {(one.start, one.end, one.label) for one in spans}
        note = "as annotated" if found == gold else "; ".join(_differences(document, gold, found))
        yield document, [tuple(one) for one in spans], [tuple(one) for one in nodes], note  # type: ignore[misc]


def _nested(document: Document) -> int:
    pairs = [(one, other) for one in document.entities for other in document.entities if one is not other]
    return sum(one.start <= other.start and other.end <= one.end for one, other in pairs)


def _differences(
    document: Document, gold: set[tuple[int, int, str]], found: set[tuple[int, int, str]]
) -> Iterator[str]:
    for which, name in ((gold - found, "missed"), (found - gold, "not annotated")):
        for start, end, label in sorted(which):
            yield f"{name}: {label} {' '.join(document.words[start:end])!r}"


def _write_page(output: Path, results: dict[str, dict[str, Any]], predictions: Sequence[Prediction]) -> Path:
    rows = [_row(MODELS[loss], found["micro"]) for loss, found in results.items()]
    by_label = [
        [label, *(f"{100 * results[loss]['labels'].get(label, {'f1': 0})['f1']:.2f}" for loss in MODELS)]
        for label in results["treecrf"]["labels"]
    ]
    labels = list(results["treecrf"]["labels"])
    drawn: list[Part] = []
    for document, spans, nodes, note in predictions:
        drawn.append(Figure(sentence_svg(document.words, spans, nodes, labels=labels, width=1000), caption=note))
    sections = [
        Section(
            "Scores on sentences that were held out",
            [
                Table(["", "P", "R", "F1"], rows, marked=[0]),
                Table(["F1 by label", *MODELS.values()], by_label),
                Text("Both were trained on the same sentences, for as many epochs, with the same settings."),
            ],
        ),
        Section("Learning curves", _curves(output)),
        Section(f"{SHOWN} predictions of the TreeCRF, with exact probabilities", drawn),
    ]
    path = output / "index.html"
    write_text(path, page("nestree: nested entities, with and without trees", sections))
    write_text(output / "scores.json", json.dumps(results, indent=2) + "\n")
    return path


def _row(name: str, micro: dict[str, float]) -> list[str]:
    return [name, *(f"{100 * micro[one]:.2f}" for one in ("precision", "recall", "f1"))]


def _curves(output: Path) -> list[Part]:
    tree, local = (read_metrics(output / loss / "training" / "metrics.jsonl") for loss in MODELS)
    try:
        path = curves_png(tree, output / "curves.png", {"without trees": local}, name="TreeCRF")
    except ImportError as error:
        return [Text(f"There is no picture of the curves: {error}")]
    return [Image(path.read_bytes(), "Loss by step, and scores on dev by epoch, with and without trees.")]


if __name__ == "__main__":
    sys.exit(main())
