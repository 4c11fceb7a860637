"""Annotates documents, and says which spans are latent nodes of the trees that the entities come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nestree.data import Document
from nestree.model import NestedNER, Node, Span
from nestree.prediction.documents import Pages, in_groups

Latent = frozenset[tuple[int, int]]
"""The latent nodes of a document's trees, as ranges of characters, half-open. Every word is a node, every sentence too:
those that are no entities are among them."""


def annotate_with_trees(
    model: NestedNER, documents: Iterable[Document], *, budget: int = 16384
) -> Iterator[tuple[Document, Latent]]:
    """Each document as :func:`nestree.prediction.annotate` gives it, with the latent nodes of its trees.

    Args:
        model: a trained model, on any device.
        documents: with words and sentences, any number of them; a few thousand sentences are held at a time.
        budget: padded work of one forward pass (:func:`nestree.model.batching.work`).

    Raises:
        ValueError: the model has no trees (``loss = local``).
    """
    if model.config.loss == "local":
        raise ValueError("a model with loss = local has no trees; use nestree.prediction.annotate.")
    return _annotated(model, documents, budget)


def _annotated(model: NestedNER, documents: Iterable[Document], budget: int) -> Iterator[tuple[Document, Latent]]:
    for some in in_groups(documents):
        pages = Pages(model, some)
        trees = pages.read(model, model.trees, budget)
        following = iter(trees)
        for document in pages.with_spans(map(_entities, trees), model.config):
            yield document, frozenset(_latent(document, following))


def _entities(tree: list[Node]) -> list[Span]:
    return [Span(start, end, label, score) for start, end, label, score in tree if label is not None]


def _latent(document: Document, trees: Iterator[list[Node]]) -> Iterator[tuple[int, int]]:
    assert document.tokens is not None
    for offset, _ in document.sentences or ():
        for node in next(trees):
            if node.label is None:
                yield document.tokens.characters(node.start + offset, node.end + offset)
