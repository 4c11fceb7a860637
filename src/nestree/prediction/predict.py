"""From texts, or words, to predictions: what the methods of a model do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nestree.data import Document
from nestree.data.splitting import without_surrogates
from nestree.model import NestedNER
from nestree.model.config import ModelConfig
from nestree.prediction.documents import read_documents, with_spans
from nestree.prediction.reading import MAX_WORDS, Read
from nestree.prediction.results import FLAT, Flat, Prediction, Threshold, check_threshold, flattened, nested, trees_of
from nestree.prediction.trees import entities_of


@dataclass(frozen=True)
class Options:
    """How to predict; the arguments of ``NestedNER.predict``."""

    threshold: Threshold | None = None
    flat: Flat | None = None
    trees: bool = False
    max_words: int = MAX_WORDS
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.flat is not None and self.flat not in FLAT:
            raise ValueError(f"flat is {self.flat!r}; known are {', '.join(map(repr, FLAT))}, or None for nested.")
        if self.max_words < 8:
            raise ValueError(f"max_words is {self.max_words}; it must be 8 at least.")
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget is {self.budget}; it must be 1 at least.")


def texts_as_documents(model: NestedNER, texts: Iterable[str]) -> Iterator[Document]:
    """Texts, split as the model was trained to read them."""
    for text in checked_texts(texts):
        yield model.config.splitter.split(Document(text))


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """The same texts.

    Raises:
        TypeError: one of them, which is named by its number, is not a string.
    """
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"text {number} is a {type(text).__name__}, not a string; for words there is predict_tokens."
            )
        yield text


def words_as_documents(token_lists: Iterable[Sequence[str]]) -> Iterator[Document]:
    """Lists of words, each a sentence, as they are."""
    for number, words in enumerate(token_lists):
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"item {number} is not a list of words; for text there is predict.")
        yield Document.from_words(list(words))


def predictions(
    model: NestedNER, documents: Iterable[Document], options: Options, *, in_words: bool = False
) -> Iterator[Prediction]:
    """A prediction for each document, in their order. Documents have words and sentences.

    Raises:
        ValueError: a threshold makes no sense, or trees are asked of a model that has none.
    """
    thresholds = check_options(options, model.config)
    return _predictions(model, documents, options, thresholds, in_words)


def check_options(options: Options, config: ModelConfig) -> dict[str, float] | None:
    """Refuses, with a ValueError, what does not go with a model; returns the thresholds by label."""
    thresholds = check_threshold(options.threshold, config.single_labels)
    if options.trees and config.loss == "local":
        raise ValueError("a model with loss = local has no trees.")
    return thresholds


def _predictions(
    model: NestedNER,
    documents: Iterable[Document],
    options: Options,
    thresholds: dict[str, float] | None,
    in_words: bool,
) -> Iterator[Prediction]:
    of_labels = None if thresholds is None else [thresholds.get(label) for label in model.config.single_labels]
    find: Any = model.tree_steps(of_labels) if options.trees else model.decode_steps(of_labels)
    read: Iterable[tuple[Document, list[Read[Any]]]]
    read = read_documents(model, find, documents, budget=options.budget, max_words=options.max_words)
    for document, found in read:
        spans = [entities_of(one.found) if options.trees else one.found for one in found]
        annotated = with_spans(document, spans)
        if options.flat:
            annotated = replace(annotated, entities=flattened(annotated.entities, options.flat))
        trees = None
        if options.trees:
            trees = tuple(trees_of(document, (one.found for one in found), in_words=in_words))
        yield Prediction(
            annotated,
            nested(annotated, annotated.entities, in_words=in_words),
            tuple(_windowed(document, found, in_words)),
            trees,
            in_words=in_words,
        )


def _windowed(document: Document, found: list[Read[Any]], in_words: bool) -> Iterator[tuple[int, int]]:
    assert document.tokens is not None
    for (start, end), one in zip(document.sentences or (), found, strict=True):
        if one.windowed:
            yield (start, end) if in_words else document.tokens.characters(start, end)


def count_tokens(model: NestedNER, text: str) -> int:
    """How many pieces the encoder reads of a text, its special ones not counted."""
    document = model.config.splitter.split(Document(without_surrogates(text)))
    return sum(len(pieces) for pieces in model.pieces.of_words(document.words)) if document.words else 0
