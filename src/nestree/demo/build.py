"""Makes the demo corpus of its source: ``python -m nestree.demo.build``.

The source has one sentence a line, words between spaces, entities in brackets::

    # train
    [PER [ORG [GPE U.S.] State Department] spokesman Richard Boucher] resigned .

Each split is written in another format, so that the demo shows several.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from nestree.data import DataError, Document, Tokens, write
from nestree.data.splitting import glued
from nestree.demo import CORPUS

LABELS = ("PER", "ORG", "GPE", "FAC")
FILES = {"train": "train.jsonl", "dev": "dev.conll", "test": "test.data"}
"""The splits, and the file of each; its ending says the format."""

_SOURCE = "source.txt"


def parse(line: str) -> Document:
    """A sentence in brackets as a document of words.

    Raises:
        DataError: a bracket is not closed or not open, has no word or no known label, or is there twice.
    """
    words: list[str] = []
    opened: list[tuple[int, str]] = []
    spans: list[tuple[int, int, str]] = []
    for piece in line.split(" "):
        if piece.startswith("["):
            if piece[1:] not in LABELS:
                raise DataError(f"{piece!r} has no known label", advice=f"Known are {', '.join(LABELS)}.")
            opened.append((len(words), piece[1:]))
            continue
        word = piece.rstrip("]")
        if not word or "[" in word or "]" in word:
            raise DataError(f"{piece!r} is not a word", advice="Words are separated by one space, brackets hug them.")
        words.append(word)
        for _ in range(len(piece) - len(word)):
            if not opened:
                raise DataError(f"the bracket after {word!r} was never opened")
            start, label = opened.pop()
            spans.append((start, len(words), label))
    if opened:
        start, label = opened[-1]
        raise DataError(f"the bracket [{label} {' '.join(words[start : start + 3])} ... is never closed")
    if len({span[:2] for span in spans}) < len(spans):
        raise DataError("two entities have the same words")
    return Document.from_words(words, sorted(spans, key=lambda span: (span[0], -span[1])))


def read_source(path: Path) -> dict[str, list[Document]]:
    """The sentences of each split.

    Raises:
        DataError: a line is not as it should be, stands in no split, or is there twice; says which.
    """
    splits: dict[str, list[Document]] = {name: [] for name in FILES}
    current: list[Document] | None = None
    seen: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("#"):
            current = splits.get(line[1:].strip(), current)
            continue
        if not line:
            continue
        if current is None:
            raise DataError("a sentence comes before any split", path=path, line=number, advice="Begin with '# train'.")
        try:
            document = parse(line)
        except DataError as error:
            raise DataError(error.what, path=path, line=number, advice=error.advice) from None
        if document.text in seen:
            raise DataError(f"this sentence is in line {seen[document.text]} too", path=path, line=number)
        seen[document.text] = number
        current.append(document)
    return splits


def running_text(document: Document, name: str) -> Document:
    """The document with its words written as in print: no space before a full stop."""
    text, spans = glued(document.words)
    starts, ends = zip(*spans, strict=True)
    entities = tuple(
        entity._replace(start=starts[first], end=ends[last - 1])
        for entity in document.entities
        for first, last in [entity.tokens or (0, 0)]
    )
    return Document(text, entities, Tokens(starts, ends), document.sentences, id=name)


def build(source: Path, folder: Path) -> list[Path]:
    """Writes every split of the source into the folder; returns the files."""
    written = []
    for split, documents in read_source(source).items():
        path = folder / FILES[split]
        if path.suffix == ".jsonl":
            documents = [running_text(one, f"{split}-{number:03}") for number, one in enumerate(documents, start=1)]
        write(documents, path)
        written.append(path)
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m nestree.demo.build", description="Makes the demo corpus.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS, help="where to write; the package, if left out")
    for path in build(CORPUS / _SOURCE, parser.parse_args(arguments).folder):
        print(path)


if __name__ == "__main__":
    main()
