"""Exports of doccano."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nestree.data.errors import shown
from nestree.data.formats.base import Format, Options, Peek, Record, choice, kept_entities, meta_beside, note_losses
from nestree.data.formats.records import items, write_lines
from nestree.data.model import Document, Entity
from nestree.data.report import Report


def read_doccano(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Examples of doccano: entities under ``label``, ``labels`` or ``entities``. Ends are exclusive, in characters."""
    for record in items(path):
        values = record.values
        text = record.get("text", str)
        if text is None:
            text = record.need("data", str)
        if not {"label", "labels", "entities"} & set(values):
            record.refuse("there are no entities under 'label', 'labels' or 'entities'", "Is this another format?")
        if values.get("relations"):
            count = len(record.get("relations", list, []))
            report.note("other annotation", record.place, f"{count} relations", "not read")
        present = [key for key in ("label", "labels", "entities") if values.get(key)]
        if len(present) > 1:
            record.refuse(f"there are entities under {present[0]!r} and under {present[1]!r}", "Keep one of them.")
        entities = [_doccano_entity(record, text, item) for key in present for item in record.get(key, list, [])]
        used = ("text", "data", "label", "labels", "entities", "id", "relations")
        meta = {key: value for key, value in values.items() if key not in used}
        name = str(record.get("id", (str, int), ""))
        yield Document(text, tuple(entities), id=name, meta=meta, source=record.source)


def _doccano_entity(record: Record, text: str, item: Any) -> Entity:
    if isinstance(item, list) and len(item) == 3:
        return record.entity(text, *item)
    if isinstance(item, dict):
        part = record.part(item)
        start, end = part.need("start_offset", int), part.need("end_offset", int)
        return part.entity(text, start, end, part.need("label", str))
    return record.refuse(f"an entity must be [start, end, label] or an object, found {shown(item)}")


def write_doccano(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes examples for doccano, entities under the key that the project reads (``key=label``)."""
    key = choice(options, "key", ("label", "labels", "entities"))

    def objects() -> Iterator[dict[str, Any]]:
        for document in documents:
            note_losses(document, report, keeps=("text", "id", "meta"))
            entities: list[Any] = []
            for number, entity in kept_entities(document, report, "doccano"):
                values = {"id": number, "start_offset": entity.start, "end_offset": entity.end, "label": entity.label}
                entities.append(values if key == "entities" else [entity.start, entity.end, entity.label])
            number = document.id.isascii() and document.id.isdecimal()
            name = {"id": int(document.id) if number else document.id} if document.id else {}
            own = ("text", "data", "label", "labels", "entities", "id", "relations")
            yield {**meta_beside(document, own, report), **name, "text": document.text, key: entities}

    write_lines(objects(), path)


def looks_like_doccano(peek: Peek) -> bool:
    """Text, with lists of three or objects with ``start_offset`` under one of the three keys."""
    record = peek.record
    if not isinstance(record.get("text", record.get("data")), str):
        return False
    for key in ("label", "labels", "entities"):
        items = record.get(key)
        if isinstance(items, list):
            first = items[0] if items else None
            if isinstance(first, dict):
                return "start_offset" in first
            return key != "entities" or isinstance(first, list) or "relations" in record
    return False


FORMAT = Format(
    "doccano",
    "JSON Lines of doccano: text, and label, labels or entities; exclusive ends in characters",
    looks_like_doccano,
    read_doccano,
    write_doccano,
    surrogates=True,
    writing={"key": "label, labels or entities"},
)
