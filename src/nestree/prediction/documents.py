"""Annotates documents that have words, in their order, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import torch

from nestree.data import Document, Entity, split_label
from nestree.model import ModelConfig, NestedNER, Span
from nestree.model.batching import by_work
from nestree.model.pieces import Batch

Found = TypeVar("Found")

AHEAD = 2048
"""Sentences that are looked at together, so that those of similar length meet in a batch."""


def annotate(model: NestedNER, documents: Iterable[Document], *, budget: int = 16384) -> Iterator[Document]:
    """Each document with its entities replaced by predicted ones: characters, label, score (exact marginal).

    Documents need words and sentences (:meth:`Splitter.split` gives them). Joined labels come out as several entities.

    Args:
        model: a trained model, on any device.
        documents: any number of them; a few thousand sentences are held at a time.
        budget: padded work of one forward pass (:func:`nestree.model.batching.work`).
    """
    for some in in_groups(documents):
        yield from Pages(model, some).annotated(model, budget)


def in_groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in their order, as many at a time as are looked at together."""
    waiting: list[Document] = []
    sentences = 0
    for document in documents:
        waiting.append(document)
        sentences += len(document.sentences or ())
        if sentences >= AHEAD:
            yield waiting
            waiting, sentences = [], 0
    if waiting:
        yield waiting


class Pages:
    """Documents in pieces, to be annotated any number of times.

    Args:
        model: whose pieces; any model with the same encoder can annotate them.
        documents: with words and sentences.
    """

    def __init__(self, model: NestedNER, documents: Sequence[Document]) -> None:
        for document in documents:
            if document.tokens is None or document.sentences is None:
                raise ValueError(f"{document.place or 'a document'} has no words yet; split its text first.")
        self.documents = tuple(documents)
        self._cuts = model.pieces.cut(
            [document.words[start:end] for document in self.documents for start, end in document.sentences or ()]
        )

    def annotated(self, model: NestedNER, budget: int = 16384) -> Iterator[Document]:
        """Each document with its entities replaced by predicted ones."""
        yield from self.with_spans(self.read(model, model.decode, budget), model.config)

    def with_spans(self, spans: Iterable[Iterable[Span]], config: ModelConfig) -> Iterator[Document]:
        """Each document with its entities replaced by the spans of its sentences, which come in the same order."""
        following = iter(spans)
        for document in self.documents:
            entities: list[Entity] = []
            for start, _ in document.sentences or ():
                for span in next(following):
                    entities += _entities(document, span, start, config)
            source = document.source._replace(entity_lines=()) if document.source else None
            yield replace(document, entities=tuple(entities), source=source)

    def read(self, model: NestedNER, find: Callable[[Batch], list[list[Found]]], budget: int) -> list[list[Found]]:
        """What a method of the model (``model.decode``, ``model.trees``) finds in each sentence of all documents.

        Sentences are read in batches of similar length, which are halved where memory does not suffice.
        """
        found: list[list[Found]] = [[] for _ in self._cuts]
        waiting = by_work(self._cuts, budget)
        while waiting:
            numbers = waiting.pop()
            try:
                result = find(model.pieces.together([self._cuts[number] for number in numbers]))
            except torch.OutOfMemoryError:
                if len(numbers) == 1:
                    raise
                waiting += [numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]]
                continue
            for number, one in zip(numbers, result, strict=True):
                found[number] = one
        return found


def _entities(document: Document, span: Span, offset: int, config: ModelConfig) -> Iterator[Entity]:
    assert document.tokens is not None
    first, last = span.start + offset, span.end + offset
    start, end = document.tokens.characters(first, last)
    joined = config.policies.same_span == "composite"
    for label in split_label(span.label) if joined else (span.label,):
        yield Entity(start, end, label, span.score, first, last)
