"""Exports of Label Studio, JSON and JSON-MIN."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from nestree.data.errors import shown
from nestree.data.formats import incomplete
from nestree.data.formats.annotated import UNKNOWN_LABEL, Annotation, parts
from nestree.data.formats.base import Format, Options, Peek, Record, choice, kept_entities, meta_beside, note_losses
from nestree.data.formats.records import items, write_array
from nestree.data.model import Admissible, Document, Entity
from nestree.data.report import Report

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
    annotations = [*parts(record, "annotations"), *parts(record, "completions")]
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
        truth = list(parts(record, "predictions"))[:1] or [record.part({})]
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


def _results(annotation: Record, text: str, options: Options, report: Report) -> Annotation:
    regions: list[_Region] = []
    targets: dict[str, int] = {}
    for part in parts(annotation, "result"):
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
            regions += [_Region(part, part.values.get("labels", [])) for part in parts(record, key)]
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


def _annotated(regions: list[_Region], text: str, record: Record, options: Options, report: Report) -> Annotation:
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
    return Annotation.of(entities, options.get("unknown_label"))._replace(admissible=tuple(admissible))


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


def looks_like_label_studio(peek: Peek) -> bool:
    """Tasks with data and annotations, or JSON-MIN with regions under ``label``."""
    record = peek.record
    if isinstance(record.get("data"), dict) and {"annotations", "completions", "predictions"} & set(record):
        return True
    return isinstance(record.get("text"), str) and any(map(_is_regions, incomplete.without(record).values()))


FORMAT = Format(
    "label-studio",
    "JSON of Label Studio (JSON and JSON-MIN); exclusive ends in characters",
    looks_like_label_studio,
    read_label_studio,
    write_label_studio,
    surrogates=True,
    options={
        "annotation": "of several annotations of a task: error, first or last",
        "text": "key of the text in a task's data",
        "to_name": "of several texts of a task, the one whose regions are read",
        "several": "labels of one region: entities (default: each is one) or admissible (it is one of them)",
        "predictions": "of tasks that nobody annotated: ignore (default: they are left out) or read",
        "unknown_label": UNKNOWN_LABEL,
    },
    writing={"as": "annotations (default), or predictions: tasks are not annotated yet"},
    as_guesses={"as": "predictions"},
    with_guesses={"predictions": "read"},
)
