"""Sentences per second from text to entities, beside the bare encoder and other tools with the same encoder weights.

    python -m benchmarks.predict MODEL dev.data          # MODEL: any model on the embedded MiniLM

All read the same sentences on the same machine, in turns. `encoder` is the bare forward pass over batches of 32, sorted
by length, with everything made ready before; the others begin with text or words and end with entities. Tools that are
not installed are left out, and that is said.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import RESULTS, environment
from nestree.data import Document, read
from nestree.model import NestedNER
from nestree.prediction import annotate

Run = Callable[[], object]


def bare_encoder(model: NestedNER, sentences: list[list[str]]) -> Run:
    """The encoder's forward pass alone."""
    cuts = sorted(model.pieces.cut(sentences), key=lambda cut: cut.width)
    batches = [model.pieces.together(cuts[at : at + 32]) for at in range(0, len(cuts), 32)]
    encoder = model.encoder.model

    @torch.inference_mode()
    def run() -> None:
        for batch in batches:
            encoder(input_ids=batch.pieces, attention_mask=batch.attention)

    return run


def nestree(model: NestedNER, documents: list[Document]) -> Run:
    """From words to entities with exact probabilities."""
    return lambda: sum(len(document.entities) for document in annotate(model, documents))


def nestree_text(model: NestedNER, documents: list[Document]) -> Run:
    """From text: splitting included."""
    texts = [document.text for document in documents]
    return lambda: sum(len(prediction) for prediction in model.predict_stream(texts))


def pipeline(model: NestedNER, documents: list[Document]) -> Run:
    """The token-classification pipeline of transformers: the same encoder, under a linear layer of random weights."""
    from transformers import AutoModelForTokenClassification
    from transformers import pipeline as make

    settings: Any = model.encoder.model.config
    settings.num_labels = 2 * len(model.config.labels) + 1
    tagger = AutoModelForTokenClassification.from_config(settings).eval()
    tagger.base_model.load_state_dict(model.encoder.model.state_dict(), strict=False)
    tagger.base_model.to(torch.float32)
    run = make("token-classification", model=tagger, tokenizer=model.tokenizer, aggregation_strategy="simple")
    texts = [document.text for document in documents]
    return lambda: run(texts, batch_size=32)


def exported(model: NestedNER, documents: list[Document], folder: Path) -> Run:
    """An exported model, by ONNX Runtime."""
    from nestree.export import load

    found = load(folder)
    return lambda: sum(len(document.entities) for document in annotate(found, documents))


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--exported", type=Path, action="append", default=[], help="folders of `nestree export`")
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = NestedNER.from_pretrained(options.model).eval()
    documents = [one for one in read(options.data) if one.words]
    step = max(1, len(documents) // options.sentences)
    documents = documents[::step][: options.sentences]
    runs: dict[str, Run] = {
        "encoder": bare_encoder(model, [list(one.words) for one in documents]),
        "nestree": nestree(model, documents),
        "nestree, from text": nestree_text(model, documents),
        "transformers pipeline": pipeline(model, documents),
    }
    for folder in options.exported:
        runs[f"nestree, {folder.name}"] = exported(model, documents, folder)
    times = measured(runs, options.turns)
    rows = []
    for name, seconds in times.items():
        ratios = [bare / own for bare, own in zip(times["encoder"], seconds, strict=True)]
        row: dict[str, Any] = {
            "what": name,
            "sentences_per_second": round(len(documents) / statistics.median(seconds), 1),
            "of_the_encoder": round(statistics.median(ratios), 3),
            "quartiles": [round(one, 3) for one in statistics.quantiles(ratios, n=4)] if len(ratios) > 1 else None,
        }
        rows.append(row)
        print(f"{name:28} {row['sentences_per_second']:8.1f} sentences/s   {row['of_the_encoder']:.3f} of the encoder")
    content = {
        "environment": environment(),
        "sentences": len(documents),
        "threads": options.threads,
        "turns": options.turns,
        "rows": rows,
    }
    target = RESULTS / "predict-cpu.json"
    target.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written to {target}")


def measured(runs: dict[str, Run], turns: int) -> dict[str, list[float]]:
    """Seconds of each, in turns; the first turn is for getting ready, and not counted."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns + 1):
        for name, run in runs.items():
            print(f"turn {turn} of {turns}: {name}", file=sys.stderr)
            began = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    main()
