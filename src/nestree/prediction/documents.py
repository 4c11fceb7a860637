"""Annotates documents that have words, in their order, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from nestree.data import Document, Entity
from nestree.model import NestedNER, Span
from nestree.prediction.reading import MAX_WORDS, Find, Found, Merge, Read, read, read_cuts

Pausing = Callable[[], bool]
"""Whether no further document comes for now, so that those before should not wait for it."""


def annotate(
    model: NestedNER, documents: Iterable[Document], *, budget: int | None = None, max_words: int = MAX_WORDS
) -> Iterator[Document]:
    """Each document with its entities replaced by predicted ones: characters, label, score (exact marginal).

    Documents need words and sentences (:meth:`Splitter.split` gives them). Several labels on a span come out as several
    entities.

    Args:
        model: a trained model, on any device.
        documents: any number of them; a few thousand sentences are held at a time.
        budget: padded work of one forward pass (:func:`nestree.model.batching.work`); left out, what suits the device.
        max_words: longer sentences are read in windows that overlap.
    """
    for document, found in read_documents(model, model.decode_steps(), documents, budget=budget, max_words=max_words):
        yield with_spans(document, [one.found for one in found])


def read_documents(
    model: NestedNER,
    find: Find[Found],
    documents: Iterable[Document],
    *,
    budget: int | None,
    max_words: int,
    merge: Merge | None = None,
    pausing: Pausing | None = None,
) -> Iterator[tuple[Document, list[Read[Found]]]]:
    """Each document, and what is found in each of its sentences."""
    waiting: deque[Document] = deque()

    def sentences() -> Iterator[Sequence[str] | None]:
        for document in documents:
            check_split(document)
            waiting.append(document)
            for start, end in document.sentences or ():
                yield words_of(document, start, end)
            if pausing is not None and pausing():
                yield None

    found: list[Read[Found]] = []
    for one in read(model, find, sentences(), budget=budget, max_words=max_words, merge=merge):
        while not waiting[0].sentences:
            yield waiting.popleft(), []
        found.append(one)
        if len(found) == len(waiting[0].sentences or ()):
            yield waiting.popleft(), found
            found = []
    while waiting:
        yield waiting.popleft(), []


def check_split(document: Document) -> None:
    """Refuses a document without words or sentences."""
    if document.tokens is None or document.sentences is None:
        raise ValueError(f"{document.place or 'a document'} has no words yet; split its text first.")


def words_of(document: Document, start: int, end: int) -> list[str]:
    """The words ``[start, end)`` of a document, which may have many more."""
    assert document.tokens is not None
    text, tokens = document.text, document.tokens
    return [text[first:last] for first, last in zip(tokens.starts[start:end], tokens.ends[start:end], strict=True)]


class Pages:
    """Documents in pieces, to be annotated any number of times, as they are in training. Sentences are read whole.

    Args:
        model: whose pieces; any model with the same encoder can annotate them.
        documents: with words and sentences.
    """

    def __init__(self, model: NestedNER, documents: Sequence[Document]) -> None:
        for document in documents:
            check_split(document)
        self.documents = tuple(documents)
        self._cuts = model.pieces.cut(
            [document.words[start:end] for document in self.documents for start, end in document.sentences or ()]
        )

    def annotated(self, model: NestedNER, budget: int | None = None) -> Iterator[Document]:
        """Each document with its entities replaced by predicted ones."""
        following = iter(self.read(model, model.decode_steps(), budget))
        for document in self.documents:
            yield with_spans(document, [next(following) for _ in document.sentences or ()])

    def read(self, model: NestedNER, find: Find[Found], budget: int | None = None) -> list[list[Found]]:
        """What is found in each sentence of all documents."""
        return read_cuts(model, find, self._cuts, budget)


def with_spans(document: Document, spans: Iterable[Iterable[Span]]) -> Document:
    """A document with its entities replaced by the spans of its sentences."""
    entities = [
        _entity(document, span, start)
        for (start, _), of_sentence in zip(document.sentences or (), spans, strict=True)
        for span in of_sentence
    ]
    source = document.source._replace(entity_lines=()) if document.source else None
    # Nothing of what was said of entities that are not there any more.
    return Document(
        document.text,
        tuple(entities),
        document.tokens,
        document.sentences,
        document.id,
        meta=document.meta,
        source=source,
    )


def _entity(document: Document, span: Span, offset: int) -> Entity:
    assert document.tokens is not None
    first, last = span.start + offset, span.end + offset
    start, end = document.tokens.characters(first, last)
    return Entity(start, end, span.label, span.score, first, last)
