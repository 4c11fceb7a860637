"""Exports of annotation tools: Prodigy, doccano, Label Studio. All count characters, ends exclusive.

What a tool says was not accepted (rejected, skipped, cancelled) is counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nestree.data.errors import shown
from nestree.data.formats.base import Format, Options, Peek, Record, choice, kept_entities, note_losses
from nestree.data.formats.records import items, write_array, write_lines
from nestree.data.model import Document, Entity, Tokens
from nestree.data.report import Report

# --- Prodigy ---------------------------------------------------------------------------------------------------------


def read_prodigy(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Examples of Prodigy (``db-out``). Ends are exclusive, in characters; ``token_end`` is inclusive and not used."""
    for record in items(path):
        values = record.values
        answer = record.get("answer", str, "accept")
        if answer != "accept":
            report.note("not accepted", record.place, f"the answer is {answer!r}", "left out")
            continue
        text = record.need("text", str)
        if not {"spans", "answer", "tokens", "_input_hash"} & set(values):
            record.refuse("there are no 'spans', and nothing else that Prodigy writes", "Is this another format?")
        entities = [
            part.entity(
                text, part.need("start", int), part.need("end", int), part.need("label", str), part.values.get("score")
            )
            for part in _parts(record, "spans")
        ]
        tokens = [(part.need("start", int), part.need("end", int)) for part in _parts(record, "tokens")]
        meta = {key: value for key, value in values.items() if key not in ("text", "spans", "tokens", "answer", "id")}
        name = str(record.get("id", (str, int), ""))
        found = Document(text, tuple(entities), id=name, meta=meta, source=record.source)
        yield _with_tokens(found, tokens, record) if tokens else found


def _with_tokens(document: Document, tokens: list[tuple[int, int]], record: Record) -> Document:
    """With the tool's tokens, without those that are white space."""
    at = 0
    for start, end in tokens:
        if not at <= start < end <= len(document.text):
            record.refuse(f"the token [{start}, {end}) is not after the one before it, or not within the text")
        at = end
    kept = [(start, end) for start, end in tokens if not document.text[start:end].isspace()]
    return document.with_tokens(Tokens([start for start, _ in kept], [end for _, end in kept]), None)


def write_prodigy(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes examples for ``spans.manual``; each has its tokens where they are known."""

    def objects() -> Iterator[dict[str, Any]]:
        for document in documents:
            note_losses(document, report, keeps=("text", "tokens", "scores", "id", "meta"))
            values: dict[str, Any] = {"text": document.text}
            if document.tokens is not None:
                values["tokens"] = [
                    {"text": document.text[start:end], "start": start, "end": end, "id": number}
                    for number, (start, end) in enumerate(document.tokens)
                ]
            values["spans"] = []
            for _, entity in kept_entities(document, report, "prodigy"):
                span: dict[str, Any] = {"start": entity.start, "end": entity.end, "label": entity.label}
                if entity.token_start is not None and entity.token_end is not None:
                    span |= {"token_start": entity.token_start, "token_end": entity.token_end - 1}
                values["spans"].append(span | ({} if entity.score is None else {"score": entity.score}))
            name = {"id": document.id} if document.id else {}
            yield {**document.meta, **name, **values, "answer": "accept"}

    write_lines(objects(), path)


# --- doccano ---------------------------------------------------------------------------------------------------------


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
    """Writes examples for doccano, entities under the key that the project reads (``--set key=label``)."""
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
            yield {**document.meta, **name, "text": document.text, key: entities}

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
            return key != "entities" or isinstance(first, list)
    return False


# --- Label Studio ----------------------------------------------------------------------------------------------------


_WHICH = ("error", "first", "last")
_OF_TASKS = {"id", "data", "annotations", "completions", "predictions"}


def read_label_studio(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Tasks of Label Studio, exported as JSON or JSON-MIN. Ends are exclusive, in characters.

    Offsets that only fit when UTF-16 units are counted, as browsers do, are counted like that.
    """
    choice(options, "annotation", _WHICH)
    for record in items(path):
        values = record.values
        if "annotations" in values or "completions" in values or "predictions" in values:
            found = _task(record, options, report)
        else:
            found = _minimal(record)
        if found is not None:
            yield found


def _task(record: Record, options: Options, report: Report) -> Document | None:
    data = record.part(record.need("data", dict))
    key = options.get("text", "text" if "text" in data.values else next(iter(data.values), "text"))
    text = data.need(key, str)
    annotations = [*_parts(record, "annotations"), *_parts(record, "completions")]
    finished = [part for part in annotations if not part.values.get("was_cancelled")]
    for _ in range(len(annotations) - len(finished)):
        report.note("not accepted", record.place, "the annotation was cancelled", "left out")
    others = sorted(set(record.values) - _OF_TASKS)
    if others and not report.counts["other fields"]:
        report.note("other fields", record.place, f"tasks also say {', '.join(others)}", "not read")
    truth = [part for part in finished if part.values.get("ground_truth")] or finished
    if len(truth) > 1:
        which = choice(options, "annotation", _WHICH)
        if which == "error":
            record.refuse(
                f"the task was annotated {len(truth)} times", "Choose: --set annotation=first or annotation=last."
            )
        report.note("several annotations", record.place, f"there are {len(truth)}", f"{which} taken")
        truth = [truth[0] if which == "first" else truth[-1]]
    if not truth:
        if not annotations:
            report.note("not annotated", record.place, "the task is not annotated", "left out")
        return None
    entities = _results(truth[0], text, report)
    meta = {name: value for name, value in data.values.items() if name != key}
    name = str(record.get("id", (str, int), ""))
    return Document(text, entities, id=name, meta=meta, source=record.source)


def _results(annotation: Record, text: str, report: Report) -> tuple[Entity, ...]:
    entities: list[Entity] = []
    for part in _parts(annotation, "result"):
        value = part.get("value", dict, {})
        labels = value.get("labels", value.get("hypertextlabels"))
        if labels is None:
            report.note("other annotation", part.place, f"a result of type {part.values.get('type')!r}", "not read")
            continue
        entities += _labelled(part.part(value), text, labels, part.values.get("score"))
    return tuple(entities)


def _minimal(record: Record) -> Document:
    text = record.need("text", str)
    entities: list[Entity] = []
    for part in _parts(record, "label"):
        entities += _labelled(part, text, part.values.get("labels"), None)
    meta = {key: value for key, value in record.values.items() if key not in ("text", "label", "id")}
    name = str(record.get("id", (str, int), ""))
    return Document(text, tuple(entities), id=name, meta=meta, source=record.source)


def _labelled(part: Record, text: str, labels: Any, score: Any) -> list[Entity]:
    """The entities of one region, which may have several labels."""
    if not isinstance(labels, list) or not labels:
        part.refuse(f"'labels' must be a list of labels, found {shown(labels)}")
    start, end = part.need("start", (int, str)), part.need("end", (int, str))
    start, end = (int(one) if isinstance(one, str) and one.isdigit() else one for one in (start, end))
    said = part.get("text", str)
    if said is not None and type(start) is int and type(end) is int and text[start:end].strip() != said.strip():
        units = (_from_utf16(text, start), _from_utf16(text, end))
        if units[0] is None or units[1] is None or text[units[0] : units[1]].strip() != said.strip():
            part.refuse(
                f"the text at [{start}, {end}) is {shown(text[start:end])}, not {shown(said)}",
                "Offsets count characters from 0, ends are exclusive. Was the text changed after it was annotated?",
            )
        start, end = units
    return [part.entity(text, start, end, label, score) for label in labels]


def _from_utf16(text: str, offset: int) -> int | None:
    """The offset in characters of one in UTF-16 units; None if it is within a character or not in the text."""
    at = 0
    for number, character in enumerate(text):
        if at >= offset:
            return number if at == offset else None
        at += 2 if ord(character) > 0xFFFF else 1
    return len(text) if at == offset else None


def write_label_studio(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes annotated tasks, for a labelling configuration with ``<Labels name="label" toName="text">``."""

    def objects() -> Iterator[dict[str, Any]]:
        for number, document in enumerate(documents, 1):
            note_losses(document, report, keeps=("text", "id", "meta", "scores"))
            result = []
            for at, entity in kept_entities(document, report, "label-studio"):
                value = {"start": entity.start, "end": entity.end, "text": document.text_of(entity)}
                one: dict[str, Any] = {"id": f"e{at}", "type": "labels", "from_name": "label", "to_name": "text"}
                one["value"] = {**value, "labels": [entity.label]}
                result.append(one | ({} if entity.score is None else {"score": entity.score}))
            identifier = int(document.id) if document.id.isdecimal() and document.id.isascii() else number
            if document.id and str(identifier) != document.id:
                report.note("not kept", document.place, "the document's name, which must be a number", "id")
            data = {**document.meta, "text": document.text}
            yield {"id": identifier, "data": data, "annotations": [{"result": result}]}

    write_array(objects(), path)


def _parts(record: Record, key: str) -> Iterator[Record]:
    """The objects of a list."""
    for item in record.get(key, list, []):
        if not isinstance(item, dict):
            record.refuse(f"{key!r} must hold objects, found {shown(item)}")
        yield record.part(item)


def looks_like_label_studio(peek: Peek) -> bool:
    """Tasks with data and annotations, or JSON-MIN with regions under ``label``."""
    record = peek.record
    if isinstance(record.get("data"), dict) and {"annotations", "completions", "predictions"} & set(record):
        return True
    regions = record.get("label")
    return isinstance(regions, list) and bool(regions) and isinstance(regions[0], dict) and "labels" in regions[0]


def looks_like_prodigy(peek: Peek) -> bool:
    """Text with spans, or with an answer."""
    return isinstance(peek.record.get("text"), str) and bool({"spans", "answer", "_input_hash"} & set(peek.record))


PRODIGY = Format(
    "prodigy",
    "JSON Lines of Prodigy: text, spans; exclusive ends in characters",
    looks_like_prodigy,
    read_prodigy,
    write_prodigy,
)
DOCCANO = Format(
    "doccano",
    "JSON Lines of doccano: text, and label, labels or entities; exclusive ends in characters",
    looks_like_doccano,
    read_doccano,
    write_doccano,
    options={"key": "for writing: label, labels or entities"},
)
LABEL_STUDIO = Format(
    "label-studio",
    "JSON of Label Studio (JSON and JSON-MIN); exclusive ends in characters",
    looks_like_label_studio,
    read_label_studio,
    write_label_studio,
    options={
        "annotation": "of several annotations of a task: error, first or last",
        "text": "key of the text in a task's data",
    },
)
