"""Exports of annotation tools: Prodigy, doccano, Label Studio. All count characters, ends exclusive.

What a tool says was not accepted (rejected, skipped, cancelled) is counted and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from nestree.data.errors import shown
from nestree.data.formats.base import Format, Options, Peek, Record, choice, kept_entities, meta_beside, note_losses
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
            own = ("text", "tokens", "spans", "answer", "id")
            yield {**meta_beside(document, own, report), **name, **values, "answer": "accept"}

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
            found = _minimal(record, report)
        if found is not None:
            yield found


def _task(record: Record, options: Options, report: Report) -> Document | None:
    data = record.part(record.need("data", dict))
    key = _text_key(data, options)
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
    entities = _results(truth[0], text, options, report)
    meta = {name: value for name, value in data.values.items() if name != key}
    name = str(record.get("id", (str, int), ""))
    return Document(text, entities, id=name, meta=meta, source=record.source)


def _text_key(data: Record, options: Options) -> str:
    """The key under which a task has its text."""
    if "text" in options or "text" in data.values:
        return options.get("text", "text")
    strings = [key for key, value in data.values.items() if isinstance(value, str)]
    if len(strings) == 1:
        return strings[0]
    listed = ", ".join(map(repr, data.values)) or "nothing"
    return data.refuse(f"which key holds the text is not clear; there is {listed}", "Name it: --set text=KEY.")


def _results(annotation: Record, text: str, options: Options, report: Report) -> tuple[Entity, ...]:
    regions: list[tuple[Record, list[Any], Any]] = []
    targets: dict[str, int] = {}
    for part in _parts(annotation, "result"):
        value = part.get("value", dict, {})
        labels = value.get("labels", value.get("hypertextlabels"))
        if labels is None:
            report.note("other annotation", part.place, f"a result of type {part.values.get('type')!r}", "not read")
            continue
        target = str(part.values.get("to_name", ""))
        if options.get("to_name", target) != target:
            report.note("other annotation", part.place, f"a region of {target!r}", "not read")
            continue
        targets[target] = targets.get(target, 0) + 1
        regions.append((part.part(value), labels, part.values.get("score")))
    if len(targets) > 1:
        annotation.refuse(
            f"there are regions of several texts: {', '.join(map(repr, targets))}",
            "Choose one: --set to_name=NAME, and --set text=KEY for its text.",
        )
    return _entities(regions, text, annotation, report)


def _minimal(record: Record, report: Report) -> Document:
    """A task of JSON-MIN: every list of regions counts, whatever its tag was called."""
    text = record.need("text", str)
    regions: list[tuple[Record, list[Any], Any]] = []
    used = {"text", "id"}
    for key in record.values:
        if _is_regions(record.values[key]):
            regions += [(part, part.values.get("labels", []), None) for part in _parts(record, key)]
            used.add(key)
    if len(used) == 2 and record.values.get("label") is None:
        record.refuse("there is no list of regions with start, end and labels", "Is this another format?")
    meta = {key: value for key, value in record.values.items() if key not in used}
    name = str(record.get("id", (str, int), ""))
    return Document(text, _entities(regions, text, record, report), id=name, meta=meta, source=record.source)


def _is_regions(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and isinstance(value[0], dict) and {"start", "labels"} <= set(value[0])
    )


def _entities(
    regions: list[tuple[Record, list[Any], Any]], text: str, record: Record, report: Report
) -> tuple[Entity, ...]:
    """The entities of regions, which may have several labels. What offsets count is one thing for all of them."""
    units = _Units(text)
    ranges = []
    for part, labels, _ in regions:
        if not isinstance(labels, list) or not labels:
            part.refuse(f"'labels' must be a list of labels, found {shown(labels)}")
        ends = (part.need("start", (int, str)), part.need("end", (int, str)))
        start, end = (int(one) if isinstance(one, str) and re.fullmatch("[0-9]{1,9}", one) else one for one in ends)
        ranges.append((start, end, part.get("text", str)))
    fits = all(said is None or _same(text, start, end, said) for start, end, said in ranges)
    if not fits:
        in_utf16 = [(units.characters(start), units.characters(end), said) for start, end, said in ranges]
        if all(said is None or _same(text, start, end, said) for start, end, said in in_utf16):
            ranges = in_utf16
    elif units.differ and any(said is None for _, _, said in ranges):
        report.note("offsets", record.place, "nothing says whether they count characters or UTF-16 units", "characters")
    found = []
    for (part, labels, score), (start, end, said) in zip(regions, ranges, strict=True):
        if said is not None and not _same(text, start, end, said):
            there = text[start:end] if type(start) is int and type(end) is int else ""
            part.refuse(
                f"the text at [{start}, {end}) is {shown(there)}, not {shown(said)}",
                "Offsets count characters from 0, ends are exclusive. Was the text changed after it was annotated?",
            )
        found += [part.entity(text, start, end, label, score) for label in labels]
    return tuple(found)


def _same(text: str, start: Any, end: Any, said: str) -> bool:
    """Whether a text stands there; line ends may be written as a backslash and an n."""
    if type(start) is not int or type(end) is not int or start < 0:
        return False
    there = text[start:end]
    return there == said or there.split() == said.split() or there.split() == said.replace("\\n", "\n").split()


class _Units:
    """Offsets in UTF-16 units, as browsers count them."""

    def __init__(self, text: str) -> None:
        self.differ = not text.isascii() and max(text) > "\uffff"
        self._places: dict[int, int] = {}
        if self.differ:
            units = accumulate((2 if character > "\uffff" else 1 for character in text), initial=0)
            self._places = {unit: at for at, unit in enumerate(units)}

    def characters(self, offset: Any) -> Any:
        """The same in characters; as it is, if it is within a character or not in the text."""
        return self._places.get(offset, offset) if self.differ and type(offset) is int else offset


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
            if document.id and document.id != str(number):
                message = f"the name {document.id!r}: tasks are numbered"
                report.note("not kept", document.place, message, "id")
            data = {**meta_beside(document, ("text",), report), "text": document.text}
            yield {"id": number, "data": data, "annotations": [{"result": result}]}

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
    return isinstance(record.get("text"), str) and any(map(_is_regions, record.values()))


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
    writing={"key": "label, labels or entities"},
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
        "to_name": "of several texts of a task, the one whose regions are read",
    },
)
