"""Rows of a table as documents, by the plan that its columns gave.

What :mod:`nestree.data.formats.arrow` and its files have in common; this part needs rows only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nestree.data.errors import DataError, shown
from nestree.data.formats import incomplete, jsonl, tags
from nestree.data.formats.arrow_plan import Plan
from nestree.data.formats.base import Record
from nestree.data.model import Document, Range, Tokens


def documents_in(rows: Iterable[Mapping[str, Any]], plan: Plan, path: str) -> Iterator[Document]:
    """The documents of rows; errors name the row, counted from 1."""
    for number, row in enumerate(rows, 1):
        try:
            found = _document(plan, Record(row, path, number))
        except DataError as error:
            raise DataError(f"row {number}: {error.what}", path=path, advice=error.advice) from None
        yield found


def _document(plan: Plan, record: Record) -> Document:
    """A row, turned into an object of nestree JSON Lines, which is where it is checked."""
    row = record.values
    values: dict[str, Any] = {key: row.get(key) for key in ("id", "complete_labels") if key in plan.known}
    for key in ("sentences", "unknown"):
        if key in plan.known and row.get(key) is not None:
            values[key] = _pairs(record, key, row[key])
    if "admissible" in plan.known and row.get("admissible") is not None:
        values["admissible"] = _admissible(record, row["admissible"])
    text, listed = row.get(plan.text), row.get("tokens") if "tokens" in plan.known else None
    if listed is not None:
        listed = _pairs(record, "tokens", listed)
    elif text is None:
        record.refuse("there is neither a text nor tokens")
    tokens = None
    if text is None:
        words = record.words(listed)
        text, tokens = " ".join(words), Tokens.of_words(words)
        values.setdefault("sentences", [(0, len(words))] if words else [])
    elif listed is not None:
        tokens = jsonl.tokens_in(record, text, listed)
    values["text"] = text
    if tokens is not None:
        values["tokens"] = [tuple(token) for token in tokens]
    spans = _entities(plan, record) if plan.entities else _tagged(plan, record, 0 if tokens is None else len(tokens))
    values["entities"] = [_in_characters(record, span, tokens) for span in spans] if plan.in_words else spans
    if plan.in_words and tokens is not None:  # the rest is counted like the entities
        said = incomplete.fields(record.part(values), text, tokens)
        values |= incomplete.values(Document(text, **said))
    meta = _meta(plan, record)
    if meta:
        values["meta"] = meta
    return jsonl.document(values, record.path, record.line or 0)


def _entities(plan: Plan, record: Record) -> list[dict[str, Any]]:
    names = (plan.names or {}).get(plan.entities)
    found = []
    for item in _objects(record, plan.entities, record.values.get(plan.entities) or [], plan.fields):
        if not isinstance(item, Mapping):
            record.refuse(f"{plan.entities!r} must hold objects, found {shown(item)}")
        label = item.get(plan.label)
        end = item.get("end")
        span = {
            "start": item.get("start"),
            "end": end + 1 if plan.inclusive and type(end) is int else end,
            "label": label if names is None else _class_name(record, names, label, plan.entities),
        }
        if "score" in plan.fields and item.get("score") is not None:
            span["score"] = item["score"]
        if "fragments" in plan.fields and item.get("fragments"):
            span["fragments"] = _pairs(record, "fragments", item["fragments"])
        found.append(span)
    return found


def _admissible(record: Record, value: Any) -> list[Any]:
    """Admissible spans as objects, without the fields that say nothing."""
    found = _objects(record, "admissible", value, value if isinstance(value, Mapping) else ())
    return [
        {key: field for key, field in item.items() if field is not None} if isinstance(item, Mapping) else item
        for item in found
    ]


def _tagged(plan: Plan, record: Record, count: int) -> list[dict[str, Any]]:
    found = []
    for column in plan.tags:
        layer, names = record.need(column, list), (plan.names or {}).get(column)
        if len(layer) != count:
            record.refuse(f"{column!r} has {len(layer)} tags for {count} tokens")
        written = layer if names is None else [_class_name(record, names, value, column) for value in layer]
        if None in written:
            record.refuse(f"{column!r} has no tag for the word {written.index(None)}")
        try:
            spans = tags.decode(written, tags.scheme_of(written if names is None else names))
        except tags.TagError as error:
            record.refuse(f"{column!r}, word {error.index}: {error.what}")
        found += [{"start": start, "end": end, "label": label} for start, end, label in spans]
    return found


def _class_name(record: Record, names: list[str], value: Any, column: str) -> str:
    if type(value) is not int or not 0 <= value < len(names):
        record.refuse(f"{column!r} holds the class {shown(value)}, and there are names for 0 to {len(names) - 1}")
    return names[value]


def _in_characters(record: Record, span: dict[str, Any], tokens: Tokens | None) -> dict[str, Any]:
    if tokens is None:
        record.refuse("there are no tokens, and entities are given in words")

    def placed(start: Any, end: Any) -> Range:
        start, end, _ = record.span(len(tokens), start, end, span["label"])
        return tokens[start].start, tokens[end - 1].end

    start, end = placed(span["start"], span["end"])
    moved = {**span, "start": start, "end": end}
    if "fragments" in span:
        moved["fragments"] = [placed(*piece) for piece in span["fragments"]]
    return moved


def _objects(record: Record, what: str, value: Any, fields: Iterable[str]) -> list[Any]:
    """A list of objects, also from an object of lists."""
    if isinstance(value, Mapping):
        rows = {field: value.get(field) for field in fields}
        sizes = {len(row) if isinstance(row, list) else -1 for row in rows.values()}
        if len(sizes) > 1 or -1 in sizes:
            record.refuse(f"the lists in {what!r} must be of the same length, found {shown(value)}")
        return [dict(zip(rows, items, strict=True)) for items in zip(*rows.values(), strict=True)]
    if not isinstance(value, list):
        record.refuse(f"{what!r} must be a list, found {shown(value)}")
    return value


def _pairs(record: Record, what: str, value: Any) -> list[Any]:
    """Ranges as pairs, from objects; others stay as they are and are checked later."""
    found = _objects(record, what, value, ("start", "end"))
    return [(item.get("start"), item.get("end")) if isinstance(item, Mapping) else item for item in found]


def _meta(plan: Plan, record: Record) -> dict[str, Any]:
    found = {name: record.values[name] for name in plan.meta if record.values.get(name) is not None}
    inner = found.get("meta")
    if isinstance(inner, str):
        try:
            inner = json.loads(inner)
        except (ValueError, RecursionError):
            return found  # somebody else's column, and just a string
    if not isinstance(inner, dict):
        return found
    del found["meta"]
    both = sorted(inner.keys() & found.keys())
    if both:
        record.refuse(f"{both[0]!r} stands in 'meta', and is a column too")
    return {**inner, **found}
