"""spaCy's span categorizer on the same encoder, by spacy-transformers.

    PYTHON experiments/peers/train_spancat.py SPEC.json

Runs of 1 to ``max_width`` words are suggested, so that longer entities cannot be found. Settings are those of spaCy's
own quickstart for spancat with transformers, but for learning rate, batches and epochs, which are the budget's.
"""

from __future__ import annotations

import json
import random
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

KEY = "sc"


def pipeline(spec: dict[str, Any]) -> Any:
    """An untrained pipeline of encoder and span categorizer."""
    import spacy

    nlp = spacy.blank("xx")
    transformer = {
        "@architectures": "spacy-transformers.TransformerModel.v3",
        "name": spec["encoder"],
        "tokenizer_config": {"use_fast": True},
        "get_spans": {"@span_getters": "spacy-transformers.strided_spans.v1", "window": 128, "stride": 96},
    }
    nlp.add_pipe("transformer", config={"model": transformer})
    listener = {
        "@architectures": "spacy-transformers.TransformerListener.v1",
        "grad_factor": 1.0,
        "pooling": {"@layers": "reduce_mean.v1"},
    }
    categorizer = {
        "@architectures": "spacy.SpanCategorizer.v1",
        "scorer": {"@layers": "spacy.LinearLogistic.v1", "nO": None, "nI": None},
        "reducer": {"@layers": "spacy.mean_max_reducer.v1", "hidden_size": 128},
        "tok2vec": listener,
    }
    suggester = {"@misc": "spacy.ngram_range_suggester.v1", "min_size": 1, "max_size": spec["max_width"]}
    settings = {"model": categorizer, "suggester": suggester, "spans_key": KEY, "threshold": 0.5}
    pipe: Any = nlp.add_pipe("spancat", config=settings)
    for label in spec["labels"]:
        pipe.add_label(label)
    return nlp


def document(nlp: Any, one: dict[str, Any]) -> Any:
    """A Doc with the corpus's own words."""
    from spacy.tokens import Doc

    return Doc(nlp.vocab, words=one["words"])


def example(nlp: Any, one: dict[str, Any]) -> Any:
    """A document with its annotation."""
    from spacy.tokens import Span
    from spacy.training import Example

    gold = document(nlp, one)
    gold.spans[KEY] = [Span(gold, start, end, label=label) for start, end, label in one["entities"]]
    return Example(document(nlp, one), gold)


def predicted(nlp: Any, documents: list[dict[str, Any]], batch: int) -> list[list[list[Any]]]:
    """The entities of each document: start, end, label."""
    docs = nlp.pipe((document(nlp, one) for one in documents), batch_size=batch)
    return [[[span.start, span.end, span.label_] for span in doc.spans[KEY]] for doc in docs]


def f1(documents: list[dict[str, Any]], found: list[list[list[Any]]]) -> float:
    """Micro F1, for choosing an epoch; it is scored again by nestree.evaluation."""
    correct = every = 0
    for one, entities in zip(documents, found, strict=True):
        gold, own = {tuple(e) for e in one["entities"]}, {tuple(e) for e in entities}
        correct += 2 * len(gold & own)
        every += len(gold) + len(own)
    return correct / every if every else 0.0


def is_look(epoch: int, spec: dict[str, Any]) -> bool:
    """Whether dev is predicted after this epoch, from 1: so often, evenly spread, after the last one always."""
    looks, epochs = spec["looks"], spec["epochs"]
    return bool(epoch * looks // epochs > (epoch - 1) * looks // epochs)


def main() -> None:
    """Trains, keeps the predictions of the best epoch, writes them."""
    import torch

    # By name: what their types say differs by version.
    spacy, util, thinc = (import_module(name) for name in ("spacy", "spacy.util", "thinc.api"))
    spec = json.loads(Path(sys.argv[1]).read_text())
    train, dev = (json.loads(Path(spec[name]).read_text()) for name in ("train", "dev"))
    torch.set_num_threads(spec["threads"])
    util.fix_random_seed(spec["seed"])
    if spec["device"] == "cuda":
        thinc.require_gpu()
    nlp = pipeline(spec)
    examples = [example(nlp, one) for one in train]
    nlp.initialize(lambda: examples[:64])
    steps = spec["epochs"] * -(-len(train) // spec["batch_size"])
    rates = thinc.warmup_linear(spec["encoder_lr"], max(1, steps // 20), steps)
    optimizer = thinc.Adam(rates, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=False)
    best, kept, began, curve = -1.0, [], time.monotonic(), []
    chance = random.Random(spec["seed"])
    for epoch in range(1, spec["epochs"] + 1):
        chance.shuffle(examples)
        losses: dict[str, float] = {}
        for batch in util.minibatch(examples, spec["batch_size"]):
            nlp.update(list(batch), sgd=optimizer, losses=losses, drop=0.1)
            optimizer.step_schedules()
        if not is_look(epoch, spec):
            continue
        found = predicted(nlp, dev, spec["batch_size"])
        curve.append(round(100 * f1(dev, found), 2))
        print(f"epoch {epoch}: loss {losses.get('spancat', 0):.2f}, dev F1 {curve[-1]}", flush=True)
        if curve[-1] > best:
            best, kept = curve[-1], found
    content = {
        "predicted": kept,
        "dev_f1_by_epoch": curve,
        "seconds": round(time.monotonic() - began, 1),
        "versions": {"spacy": spacy.__version__, "torch": torch.__version__},
    }
    Path(spec["output"]).write_text(json.dumps(content))


if __name__ == "__main__":
    main()
