"""Annotation that is not complete: the same three keys in every format that carries it.

``complete_labels`` is a list of labels, ``unknown`` a list of ``[start, end]``, ``admissible`` a list of objects with
``start``, ``end``, and ``labels`` (one of these; null: or no entity) or ``not`` (none of these).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nestree.data.errors import shown
from nestree.data.formats.base import Record, counted
from nestree.data.model import Admissible, Document, Tokens, out_of_range

KEYS = ("complete_labels", "unknown", "admissible")
_SPAN_KEYS = ("start", "end", "labels", "not")


def fields(record: Record, text: str, tokens: Tokens | None = None) -> dict[str, Any]:
    """The three fields of a document, checked. Offsets count the tokens, if there are any, else characters."""
    size, unit = (len(text), "characters") if tokens is None else (len(tokens), "words")
    labels = record.get("complete_labels", list)
    unknown = tuple(record.ranges("unknown", size))
    admissible = tuple(_admissible(record, item, size, unit) for item in record.get("admissible", list, ()))
    if tokens is not None:
        unknown = tuple(tokens.characters(*part) for part in unknown)
        admissible = tuple(Admissible(*tokens.characters(*one[:2]), *one[2:]) for one in admissible)
    return {
        "complete_labels": None if labels is None else tuple(map(record.label, labels)),
        "unknown": unknown,
        "admissible": admissible,
    }


def fields_of_task(record: Record, meta: Any, text: str) -> dict[str, Any]:
    """The same of a tool's task, which says it by itself or in its ``meta``."""
    said = {key: record.values[key] for key in KEYS if record.values.get(key) is not None}
    within = {key: meta[key] for key in KEYS if meta.get(key) is not None} if isinstance(meta, dict) else {}
    for key in within:
        if key in said:
            record.refuse(f"there is {key!r} beside the text, and in 'meta' too", "Keep one of them.")
    return fields(record.part({**said, **within}), text)


def values(document: Document, tokens: Tokens | None = None) -> dict[str, Any]:
    """What a document says of it, under the three keys; in tokens, if they are given."""
    found: dict[str, Any] = {}
    if document.complete_labels is not None:
        found["complete_labels"] = list(document.complete_labels)
    if document.unknown:
        found["unknown"] = [list(counted(tokens, *part)) for part in document.unknown]
    if document.admissible:
        found["admissible"] = [_span(one, tokens) for one in document.admissible]
    return found


def without(values: Mapping[str, Any]) -> dict[str, Any]:
    """The other keys of an object."""
    return {key: value for key, value in values.items() if key not in KEYS}


def fault(one: Admissible, size: int, unit: str = "characters") -> tuple[str, str | None] | None:
    """What is wrong with an admissible span, and what to do about it; None if nothing is."""
    start, end, excluded = one.start, one.end, one.excluded
    labels: Any = one.labels  # made by hand, it may be anything
    key = "not" if excluded else "labels"
    if not isinstance(labels, tuple):
        return f"the labels of an admissible span must be a tuple, found {shown(labels)}", None
    if not (type(start) is int and type(end) is int and 0 <= start < end <= size):
        error = out_of_range(start, end, list(labels), size, unit, None, what="admissible span")
        return error.what, error.advice
    if not labels:
        return f"{key!r} of an admissible span is empty", "It must name at least one label."
    for label in labels:
        if label is None and not excluded:
            continue
        if label is None:
            return "'not' of an admissible span holds null", "If it must be an entity, leave null out of its 'labels'."
        if not isinstance(label, str) or not label.strip():
            return f"a label must be a string that is not empty, found {shown(label)}", None
    twice = next((label for at, label in enumerate(labels) if label in labels[:at]), ...)
    if twice is not ...:
        return f"{key!r} of an admissible span holds {'null' if twice is None else shown(twice)} twice", None
    return None


def _admissible(record: Record, item: Any, size: int, unit: str) -> Admissible:
    if not isinstance(item, dict):
        record.refuse(f"'admissible' must hold objects, found {shown(item)}")
    part = record.part(item)
    part.known(_SPAN_KEYS, "an admissible span")
    labels, excluded = part.get("labels", list), part.get("not", list)
    if (labels is None) == (excluded is None):
        there = "has neither 'labels' nor 'not'" if labels is None else "has both 'labels' and 'not'"
        record.refuse(f"an admissible span {there}", "It needs one of them.")
    listed = excluded if labels is None else labels
    found = Admissible(part.need("start", int), part.need("end", int), tuple(listed), labels is None)
    wrong = fault(found, size, unit)
    if wrong:
        record.refuse(*wrong)
    return found


def _span(one: Admissible, tokens: Tokens | None) -> dict[str, Any]:
    start, end = counted(tokens, one.start, one.end)
    return {"start": start, "end": end, "not" if one.excluded else "labels": list(one.labels)}
