"""One tool that finds entities, in a process of its own: what `benchmarks.predict` starts and asks.

    python benchmarks/predictors.py TOOL --settings '{"data": ..., "encoder": ..., "model": ...}'

It loads, says that it is ready, and reads all documents once for every line `run` on its standard input; every answer
is a line of JSON: seconds, seconds until the first result, entities, and the peak of its memory. Tools need packages
that do not go together, so nothing but the tool asked for is imported, and every tool may have its own Python.

Tools whose head has random weights (nobody has trained one on this encoder) get the threshold, or the bias, at which
they find about as many entities as were annotated: finding none or thousands would not take its usual time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

BEGAN = time.perf_counter()
SAMPLE = 64
"""Documents on which a threshold is looked for."""

Reader = Callable[[list[dict[str, Any]]], Iterable[int]]
"""Takes documents with `text` and `sentences` (of words); gives the number of entities of each, one after the other."""


def encoder(settings: dict[str, Any]) -> Reader:
    """The bare forward pass over batches of 32 sentences, sorted by length; pieces are made before."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(settings["encoder"])
    model = AutoModel.from_pretrained(settings["encoder"], add_pooling_layer=False, dtype=torch.float32).eval()
    ready: list[Any] = []

    def read(documents: list[dict[str, Any]]) -> Iterator[int]:
        if not ready:
            sentences = [words for one in documents for words in one["sentences"]]
            pieces = tokenizer(sentences, is_split_into_words=True, truncation=True)["input_ids"]
            pieces.sort(key=len)
            for at in range(0, len(pieces), 32):
                ready.append(tokenizer.pad({"input_ids": pieces[at : at + 32]}, return_tensors="pt"))
        with torch.inference_mode():
            for batch in ready:
                model(**batch)
                yield from [0] * len(batch["input_ids"])

    return read


def nestree(settings: dict[str, Any]) -> Reader:
    """From words to entities with exact probabilities; exported folders, too."""
    from nestree import NestedNER
    from nestree.data import Document
    from nestree.prediction import annotate

    model = NestedNER.from_pretrained(settings["model"])
    ready: list[Document] = []

    def read(documents: list[dict[str, Any]]) -> Iterator[int]:
        if not ready:
            ready.extend(Document.from_words(words) for one in documents for words in one["sentences"])
        for document in annotate(model, ready):
            yield len(document.entities)

    return read


def nestree_from_text(settings: dict[str, Any]) -> Reader:
    """From text: splitting included."""
    from nestree import NestedNER

    model = NestedNER.from_pretrained(settings["model"])
    return lambda documents: map(len, model.predict_stream(one["text"] for one in documents))


def pipeline(settings: dict[str, Any]) -> Reader:
    """The token-classification pipeline of transformers, flat entities; with `stride`, text is not cut off."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer
    from transformers import pipeline as make

    torch.manual_seed(0)
    tagger = AutoModelForTokenClassification.from_pretrained(
        settings["encoder"], num_labels=2 * len(settings["labels"]) + 1, dtype=torch.float32
    ).eval()
    names = ["O", *(f"{tag}-{label}" for label in settings["labels"] for tag in "BI")]
    tagger.config.id2label = dict(enumerate(names))
    tokenizer = AutoTokenizer.from_pretrained(settings["encoder"], model_max_length=512)
    more = {"stride": settings["stride"]} if settings.get("stride") else {}
    run: Any = make("token-classification", model=tagger, tokenizer=tokenizer, aggregation_strategy="simple", **more)

    def read(documents: list[dict[str, Any]]) -> Iterator[int]:
        texts = (one["text"] for one in documents)
        return (len(found) for found in run(texts, batch_size=settings["batch"]))

    def bias(value: float) -> None:
        tagger.classifier.bias.data[0] = value

    fit(read, bias, -20.0, 20.0, settings)
    return read


def spancat(settings: dict[str, Any]) -> Reader:
    """The span categorizer of spaCy over runs of 1 to 12 words, on the same encoder by spacy-transformers."""
    import numpy
    import spacy

    numpy.random.seed(0)
    nlp = spacy.blank("en")
    transformer = {
        "@architectures": "spacy-transformers.TransformerModel.v3",
        "name": settings["encoder"],
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
    suggester = {"@misc": "spacy.ngram_range_suggester.v1", "min_size": 1, "max_size": 12}
    pipe: Any = nlp.add_pipe("spancat", config={"model": categorizer, "suggester": suggester, "spans_key": "sc"})
    for label in settings["labels"]:
        pipe.add_label(label)
    nlp.initialize()

    def read(documents: list[dict[str, Any]]) -> Iterator[int]:
        texts = (one["text"] for one in documents)
        return (len(doc.spans["sc"]) for doc in nlp.pipe(texts, batch_size=settings["batch"]))

    def threshold(value: float) -> None:
        pipe.cfg["threshold"] = value

    fit(read, threshold, 0.0, 1.0, settings)
    return read


def gliner(settings: dict[str, Any]) -> Reader:
    """GLiNER on the same encoder; nested entities. It returns all documents at once."""
    import torch
    from gliner import GLiNER
    from gliner.config import GLiNERConfig

    torch.manual_seed(0)
    config = GLiNERConfig(model_name=settings["encoder"], max_width=12, hidden_size=384, max_len=384)
    model: Any = GLiNER.from_config(config)
    at = [0.5]

    def read(documents: list[dict[str, Any]]) -> Iterator[int]:
        texts = [one["text"] for one in documents]
        found = model.inference(
            texts, settings["labels"], flat_ner=False, threshold=at[0], batch_size=settings["batch"]
        )
        return map(len, found)

    def threshold(value: float) -> None:
        at[0] = value

    fit(read, threshold, 0.0, 1.0, settings)
    return read


TOOLS = {
    "encoder": encoder,
    "nestree": nestree,
    "nestree from text": nestree_from_text,
    "transformers pipeline": pipeline,
    "spaCy spancat": spancat,
    "GLiNER": gliner,
}


def fit(read: Reader, set_to: Callable[[float], None], low: float, high: float, settings: dict[str, Any]) -> None:
    """Looks for the value at which about as many entities are found as were annotated: the more, the lower it is."""
    settings["ready"] = time.perf_counter() - BEGAN  # what follows is the benchmark's
    sample = settings["documents"][:SAMPLE]
    wanted = sum(one["entities"] for one in sample)
    if len(sample) * 50 < sum(len(words) for one in sample for words in one["sentences"]):
        sample = [{**one, "text": one["text"][:2000]} for one in sample[:4]]
        wanted = wanted * 2000 * len(sample) // sum(len(one["text"]) for one in settings["documents"][:SAMPLE])
    for _ in range(12):
        middle = (low + high) / 2
        set_to(middle)
        low, high = (middle, high) if sum(read(sample)) > wanted else (low, middle)
    set_to(high)


def peak_mib() -> float:
    """The most memory that this process has had (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Loads a tool, then answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=list(TOOLS))
    parser.add_argument("--settings", type=json.loads, required=True)
    options = parser.parse_args()
    import torch

    settings = options.settings
    torch.set_num_threads(settings["threads"])
    settings["documents"] = documents = json.loads(Path(settings["data"]).read_text())
    answers, sys.stdout = sys.stdout, sys.stderr  # what tools print is no answer
    read = TOOLS[options.tool](settings)
    say(answers, {"ready": settings.get("ready", time.perf_counter() - BEGAN), "peak_mib": peak_mib()})
    for line in sys.stdin:
        if line.strip() != "run":
            break
        began = time.perf_counter()
        entities, first = 0, None
        for number in read(documents):
            first = first if first is not None else time.perf_counter() - began
            entities += number
        seconds = time.perf_counter() - began
        say(answers, {"seconds": seconds, "first": first, "entities": entities, "peak_mib": peak_mib()})


def say(to: Any, answer: dict[str, Any]) -> None:
    """A line of JSON, at once."""
    print(json.dumps(answer), file=to, flush=True)


if __name__ == "__main__":
    main()
