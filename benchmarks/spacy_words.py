"""Which words should a model read in a spaCy pipeline: its own, or spaCy's tokens?

    python -m benchmarks.spacy_words MODEL dev.data

The corpus comes as words; they are written as close as they usually are, and the text is read in three ways: by the
model alone, and by the component with either setting of ``words``. Entities count if their characters are right.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import spacy

import nestree.integrations.spacy  # noqa: F401  (registers the component)
from benchmarks.measure import RESULTS, environment
from nestree.data import Document, read
from nestree.data.splitting import glued
from nestree.model import NestedNER

Found = set[tuple[int, int, str]]


def written(documents: Iterable[Document]) -> Iterator[tuple[str, Found]]:
    """The text of each document, and its entities."""
    for document in documents:
        text, places = glued(document.words)
        entities = ((one.tokens, one.label) for one in document.entities)
        yield text, {(places[at[0]][0], places[at[1] - 1][1], label) for at, label in entities if at is not None}


def by_component(model: Path, texts: list[str], words: str) -> Iterator[Found]:
    """What the component finds."""
    nlp = spacy.blank("en")
    nlp.add_pipe("nestree", config={"model": str(model), "words": words})
    for doc in nlp.pipe(texts):
        yield {(span.start_char, span.end_char, span.label_) for span in doc.spans["sc"]}


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sentences", type=int, default=600, help="of the first so many (600)")
    options = parser.parse_args()
    texts, gold = zip(*written(list(read(options.data))[: options.sentences]), strict=True)
    found: dict[str, list[Found]] = {
        "the model alone": [
            {(one.start, one.end, one.label) for one in prediction}
            for prediction in NestedNER.from_pretrained(options.model).predict(texts)
        ],
        'words = "model"': list(by_component(options.model, list(texts), "model")),
        'words = "spacy"': list(by_component(options.model, list(texts), "spacy")),
    }
    rows: list[dict[str, Any]] = []
    for name, predicted in found.items():
        right = sum(len(one & other) for one, other in zip(gold, predicted, strict=True))
        f1 = 200 * right / max(1, sum(map(len, gold)) + sum(map(len, predicted)))
        rows.append({"what": name, "f1": round(f1, 2), "right": right, "found": sum(map(len, predicted))})
        print(f"{name:20} F1 {f1:.2f}")
    content = {"environment": environment(), "data": options.data.name, "sentences": len(texts), "rows": rows}
    target = RESULTS / "spacy-words.json"
    target.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written to {target}")


if __name__ == "__main__":
    main()
