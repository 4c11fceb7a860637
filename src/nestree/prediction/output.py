"""Predictions as they are written: objects of nestree JSON Lines, or documents for any other writer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nestree.data import Document, Entity
from nestree.prediction.results import Prediction


def as_object(found: Prediction) -> dict[str, Any]:
    """A prediction as a line of nestree JSON Lines; entities say their text, depth and parent as well."""
    document = found.document
    values: dict[str, Any] = {"id": document.id} if document.id else {}
    values["text"] = document.text
    values["entities"] = [
        {
            "start": entity.start,
            "end": entity.end,
            "label": entity.label,
            "score": round(entity.score, 6),
            "text": entity.text,
            "depth": entity.depth,
            "parent": entity.parent,
        }
        for entity in found
    ]
    meta = _meta(found)
    if meta:
        values["meta"] = meta
    return values


def as_document(found: Prediction) -> Document:
    """A prediction as a document that says the same as that line: entities in their order, no words."""
    entities = tuple(Entity(one.start, one.end, one.label, round(one.score, 6)) for one in found)
    return replace(found.document, entities=entities, tokens=None, sentences=None, meta=_meta(found))


def with_meta(found: Prediction) -> Document:
    """The document of a prediction, words included, which says under meta what was read in windows."""
    document = found.document
    return document if found.windowed == () and found.trees is None else replace(document, meta=_meta(found))


def _meta(found: Prediction) -> dict[str, Any]:
    meta = dict(found.document.meta)
    if found.windowed:
        meta["windowed"] = [list(one) for one in found.windowed]
    if found.trees is not None:
        meta["trees"] = [[[*node[:3], round(node.score, 6)] for node in tree] for tree in found.trees]
    return meta
