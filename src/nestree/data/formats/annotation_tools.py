"""Exports of annotation tools: Prodigy, doccano, Label Studio. All count characters, ends exclusive.

What a tool says was not accepted (rejected, skipped, cancelled) is counted and left out, unless it was a question
about spans: then the answer is known, and the rest is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from nestree.data.errors import shown
from nestree.data.formats import incomplete
from nestree.data.formats.base import Format, Options, Peek, Record, choice, kept_entities, meta_beside, note_losses
from nestree.data.formats.records import items, write_array, write_lines
from nestree.data.model import Admissible, Document, Entity, Range, Tokens
from nestree.data.report import Report

_UNKNOWN_LABEL = "label of regions in which nobody looked for entities; they are no entities"


class _Annotation(NamedTuple):
    """What regions of a text say."""

    entities: tuple[Entity, ...] = ()
    unknown: tuple[Range, ...] = ()
    admissible: tuple[Admissible, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Entity], unknown_label: str | None) -> _Annotation:
        """Entities, but for those with the label of regions that nobody looked at."""
        spans = list(spans)
        unknown = dict.fromkeys((one.start, one.end) for one in spans if one.label == unknown_label)
        return cls(tuple(one for one in spans if one.label != unknown_label), tuple(unknown))

    def refuted(self) -> _Annotation:
        """The same, after somebody said that the entity is not right."""
        excluded = tuple(Admissible(one.start, one.end, (one.label,), excluded=True) for one in self.entities)
        return self._replace(entities=(), admissible=excluded)

    def beside(self, said: dict[str, Any]) -> dict[str, Any]:
        """Fields of a document, with those that a task says by itself."""
        unknown, admissible = said["unknown"] + self.unknown, said["admissible"] + self.admissible
        return {**said, "entities": self.entities, "unknown": unknown, "admissible": admissible}


# --- Prodigy ---------------------------------------------------------------------------------------------------------


_OF_EXAMPLES = ("text", "tokens", "spans", "answer", "id", *incomplete.KEYS)
_ANSWERS = ("accept", "none")
_UNANSWERED = ("read", "ignore")


def read_prodigy(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Examples of Prodigy (``db-out``). Ends are exclusive, in characters; ``token_end`` is inclusive and not used.

    Of a binary example, a question about its spans, only the answer is known: the rest of the text is unknown.
    """
    unanswered = choice(options, "unanswered", _UNANSWERED)
    for record in items(path):
        values = record.values
        answer, is_binary = record.get("answer", str), values.get("_is_binary") is True
        if answer is None:
            if unanswered == "ignore":
                report.note("not annotated", record.place, "the question is not answered", "left out")
                continue
            answer = "accept"
        if answer != "accept" and not (answer == "reject" and is_binary):
            report.note("not accepted", record.place, f"the answer is {answer!r}", "left out")
            continue
        text = record.need("text", str)
        if not {"spans", "answer", "tokens", "_input_hash"} & set(values):
            record.refuse("there are no 'spans', and nothing else that Prodigy writes", "Is this another format?")
        spans = [
            part.entity(
                text, part.need("start", int), part.need("end", int), part.need("label", str), part.values.get("score")
            )
            for part in _parts(record, "spans")
        ]
        tokens = [(part.need("start", int), part.need("end", int)) for part in _parts(record, "tokens")]
        annotation = _Annotation.of(spans, options.get("unknown_label"))
        if answer == "reject":
            if len(annotation.entities) != 1:  # of several, one may be wrong, or all
                report.note("not accepted", record.place, f"the answer is {answer!r}", "left out")
                continue
            annotation = annotation.refuted()
        said = annotation.beside(incomplete.fields_of_task(record, values.get("meta"), text))
        if is_binary:
            said["unknown"] = ((0, len(text)),) if text else ()
        name = str(record.get("id", (str, int), ""))
        found = Document(text, **said, id=name, meta=_prodigy_meta(values), source=record.source)
        yield _with_tokens(found, tokens, record) if tokens else found


def _prodigy_meta(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an example says besides."""
    used = (*_OF_EXAMPLES, "_is_binary") if values.get("_is_binary") is True else _OF_EXAMPLES
    meta = {key: value for key, value in values.items() if key not in used}
    inner = meta.get("meta")
    if isinstance(inner, dict) and set(incomplete.KEYS) & set(inner):
        meta["meta"] = incomplete.without(inner)
        if not meta["meta"]:
            del meta["meta"]
    return meta


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
    """Writes examples for ``spans.manual``; each has its tokens where they are known.

    With ``answer=none`` they are questions that nobody answered yet.
    """
    answer = {"answer": "accept"} if choice(options, "answer", _ANSWERS) == "accept" else {}

    def objects() -> Iterator[dict[str, Any]]:
        for document in documents:
            note_losses(document, report, keeps=("text", "tokens", "scores", "id", "incomplete annotation", "meta"))
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
            yield {**_example_meta(document, report), **name, **values, **answer}

    write_lines(objects(), path)


def _example_meta(document: Document, report: Report) -> dict[str, Any]:
    """What an example says besides; in its own ``meta`` what is not complete."""
    own = (*_OF_EXAMPLES, "_is_binary") if document.meta.get("_is_binary") is True else _OF_EXAMPLES
    meta, said = meta_beside(document, own, report), incomplete.values(document)
    inner = meta.get("meta")
    if isinstance(inner, dict):
        meta["meta"] = {**meta_beside(replace(document, meta=inner), incomplete.KEYS, report), **said}
    elif said:
        if inner is not None:
            report.note("not kept", document.place, "the field 'meta', which means something else there", "meta")
        meta["meta"] = said
    return meta


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
_SEVERAL = ("entities", "admissible")
_UNANNOTATED = ("ignore", "read")
_AS = ("annotations", "predictions")
_OF_TASKS = {"id", "data", "annotations", "completions", "predictions"}


def read_label_studio(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Tasks of Label Studio, exported as JSON or JSON-MIN. Ends are exclusive, in characters.

    Offsets that only fit when UTF-16 units are counted, as browsers do, are counted like that.
    """
    choice(options, "annotation", _WHICH)
    choice(options, "several", _SEVERAL)
    choice(options, "predictions", _UNANNOTATED)
    for record in items(path):
        values = record.values
        if "annotations" in values or "completions" in values or "predictions" in values:
            found = _task(record, options, report)
        else:
            found = _minimal(record, options, report)
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
    of_task = record.values.get("meta")
    if isinstance(of_task, dict) and not incomplete.without(of_task):
        others = [name for name in others if name != "meta"]
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
    if not truth and options.get("predictions") == "read":
        truth = list(_parts(record, "predictions"))[:1] or [record.part({})]
    if not truth:
        if not annotations:
            report.note("not annotated", record.place, "the task is not annotated", "left out")
        return None
    said = _results(truth[0], text, options, report).beside(incomplete.fields_of_task(data, of_task, text))
    meta = {name: value for name, value in incomplete.without(data.values).items() if name != key}
    name = str(record.get("id", (str, int), ""))
    return Document(text, **said, id=name, meta=meta, source=record.source)


def _text_key(data: Record, options: Options) -> str:
    """The key under which a task has its text."""
    if "text" in options or "text" in data.values:
        return options.get("text", "text")
    strings = [key for key, value in data.values.items() if isinstance(value, str)]
    if len(strings) == 1:
        return strings[0]
    listed = ", ".join(map(repr, data.values)) or "nothing"
    return data.refuse(f"which key holds the text is not clear; there is {listed}", "Name it: --set text=KEY.")


class _Region(NamedTuple):
    """A region of a task; a guess is one that was sent and that nobody changed."""

    part: Record
    labels: list[Any]
    score: Any = None
    is_guess: bool = False


def _results(annotation: Record, text: str, options: Options, report: Report) -> _Annotation:
    regions: list[_Region] = []
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
        is_guess = part.values.get("origin") == "prediction"
        regions.append(_Region(part.part(value), labels, part.values.get("score"), is_guess))
    if len(targets) > 1:
        annotation.refuse(
            f"there are regions of several texts: {', '.join(map(repr, targets))}",
            "Choose one: --set to_name=NAME, and --set text=KEY for its text.",
        )
    return _annotated(regions, text, annotation, options, report)


def _minimal(record: Record, options: Options, report: Report) -> Document:
    """A task of JSON-MIN: every list of regions counts, whatever its tag was called."""
    text = record.need("text", str)
    regions: list[_Region] = []
    used = {"text", "id"}
    for key in incomplete.without(record.values):
        if _is_regions(record.values[key]):
            regions += [_Region(part, part.values.get("labels", [])) for part in _parts(record, key)]
            used.add(key)
    if len(used) == 2 and record.values.get("label") is None:
        record.refuse("there is no list of regions with start, end and labels", "Is this another format?")
    meta = {key: value for key, value in incomplete.without(record.values).items() if key not in used}
    name = str(record.get("id", (str, int), ""))
    said = _annotated(regions, text, record, options, report).beside(incomplete.fields(record, text))
    return Document(text, **said, id=name, meta=meta, source=record.source)


def _is_regions(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and isinstance(value[0], dict) and {"start", "labels"} <= set(value[0])
    )


def _annotated(regions: list[_Region], text: str, record: Record, options: Options, report: Report) -> _Annotation:
    """What regions say, which may have several labels. What offsets count is one thing for all of them."""
    units = _Units(text)
    ranges = []
    for part, labels, _, _ in regions:
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
    entities: list[Entity] = []
    admissible: list[Admissible] = []
    unlooked = [
        (start, end)
        for one, (start, end, _) in zip(regions, ranges, strict=True)
        if options.get("unknown_label") in one.labels and type(start) is int and type(end) is int
    ]
    for (part, labels, score, is_guess), (start, end, said) in zip(regions, ranges, strict=True):
        if said is not None and not _same(text, start, end, said):
            there = text[start:end] if type(start) is int and type(end) is int else ""
            part.refuse(
                f"the text at [{start}, {end}) is {shown(there)}, not {shown(said)}",
                "Offsets count characters from 0, ends are exclusive. Was the text changed after it was annotated?",
            )
        found = [part.entity(text, start, end, label, score) for label in labels]
        marks = options.get("unknown_label") in labels
        if is_guess and not marks and any(a < end and start < b for a, b in unlooked):
            report.note("guesses", part.place, f"{shown(text[start:end])} was sent, nobody looked there", "left out")
            continue
        possible = Admissible(start, end, tuple(one for one in labels if one != options.get("unknown_label")))
        if len(possible.labels) > 1 and options.get("several") == "admissible":
            wrong = incomplete.fault(possible, len(text))
            if wrong:
                part.refuse(*wrong)
            admissible.append(possible)
            found = [one for one in found if one.label not in possible.labels]
        entities += found
    return _Annotation.of(entities, options.get("unknown_label"))._replace(admissible=tuple(admissible))


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
    """Writes annotated tasks, for a labelling configuration with ``<Labels name="label" toName="text">``.

    With ``as=predictions`` they are not annotated yet: people see the entities, and accept or change them.
    """
    kind = choice(options, "as", _AS)
    version = {"model_version": "nestree"} if kind == "predictions" else {}

    def objects() -> Iterator[dict[str, Any]]:
        for number, document in enumerate(documents, 1):
            note_losses(document, report, keeps=("text", "id", "incomplete annotation", "meta", "scores"))
            result = []
            for at, entity in kept_entities(document, report, "label-studio"):
                value = {"start": entity.start, "end": entity.end, "text": document.text_of(entity)}
                one: dict[str, Any] = {"id": f"e{at}", "type": "labels", "from_name": "label", "to_name": "text"}
                one["value"] = {**value, "labels": [entity.label]}
                result.append(one | ({} if entity.score is None else {"score": entity.score}))
            if document.id and document.id != str(number):
                message = f"the name {document.id!r}: tasks are numbered"
                report.note("not kept", document.place, message, "id")
            data = {**meta_beside(document, ("text", *incomplete.KEYS), report), "text": document.text}
            said = incomplete.values(document)
            yield {
                "id": number,
                "data": data,
                **({"meta": said} if said else {}),
                kind: [{**version, "result": result}],
            }

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
    return isinstance(record.get("text"), str) and any(map(_is_regions, incomplete.without(record).values()))


def looks_like_prodigy(peek: Peek) -> bool:
    """Text with spans, or with an answer."""
    return isinstance(peek.record.get("text"), str) and bool({"spans", "answer", "_input_hash"} & set(peek.record))


PRODIGY = Format(
    "prodigy",
    "JSON Lines of Prodigy: text, spans; exclusive ends in characters",
    looks_like_prodigy,
    read_prodigy,
    write_prodigy,
    options={
        "unanswered": "examples without an answer: read (default: as accepted) or ignore (they are left out)",
        "unknown_label": _UNKNOWN_LABEL,
    },
    writing={"answer": "accept (default), or none: they are questions"},
    as_guesses={"answer": "none"},
    only_finished={"unanswered": "ignore"},
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
        "several": "labels of one region: entities (default: each is one) or admissible (it is one of them)",
        "predictions": "of tasks that nobody annotated: ignore (default: they are left out) or read",
        "unknown_label": _UNKNOWN_LABEL,
    },
    writing={"as": "annotations (default), or predictions: tasks are not annotated yet"},
    as_guesses={"as": "predictions"},
    with_guesses={"predictions": "read"},
)
