"""Annotates documents, and says which spans are latent nodes of the trees that the entities come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nestree.data import Document
from nestree.model import NestedNER, Node, Span
from nestree.prediction.documents import read_documents, with_spans
from nestree.prediction.reading import MAX_WORDS

Latent = frozenset[tuple[int, int]]
"""The latent nodes of a document's trees, as ranges of characters, half-open. Every word is a node, every sentence too:
those that are no entities are among them."""


def annotate_with_trees(
    model: NestedNER, documents: Iterable[Document], *, budget: int | None = None, max_words: int = MAX_WORDS
) -> Iterator[tuple[Document, Latent]]:
    """Each document as :func:`nestree.prediction.annotate` gives it, with the latent nodes of its trees.

    Args:
        model: a trained model, on any device.
        documents: with words and sentences, any number of them; a few thousand sentences are held at a time.
        budget: padded work of one forward pass (:func:`nestree.model.batching.work`); left out, what suits the device.
        max_words: longer sentences are read in windows that overlap.

    Raises:
        ValueError: the model has no trees (``loss = local``).
    """
    if model.config.loss == "local":
        raise ValueError("a model with loss = local has no trees; use nestree.prediction.annotate.")
    return _annotated(model, documents, budget, max_words)


def _annotated(
    model: NestedNER, documents: Iterable[Document], budget: int | None, max_words: int
) -> Iterator[tuple[Document, Latent]]:
    for document, found in read_documents(model, model.tree_steps(), documents, budget=budget, max_words=max_words):
        trees = [one.found for one in found]
        yield with_spans(document, map(entities_of, trees)), frozenset(_latent(document, trees))


def entities_of(tree: Iterable[Node]) -> list[Span]:
    """The nodes of a tree that are entities."""
    return [Span(start, end, label, score) for start, end, label, score in tree if label is not None]


def _latent(document: Document, trees: Iterable[Iterable[Node]]) -> Iterator[tuple[int, int]]:
    assert document.tokens is not None
    for (offset, _), tree in zip(document.sentences or (), trees, strict=True):
        for node in tree:
            if node.label is None:
                yield document.tokens.characters(node.start + offset, node.end + offset)
