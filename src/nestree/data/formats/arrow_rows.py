"""Rows of a table as documents: which column means what, and how a row is read.

What :mod:`nestree.data.formats.arrow` and its files have in common; this part needs rows and column types only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nestree.data.errors import DataError, shown
from nestree.data.formats import incomplete, jsonl, tags
from nestree.data.formats.base import Options, Record, choice
from nestree.data.model import Document, Range, Tokens
from nestree.data.report import Report

_SPAN_COLUMNS = ("entities", "spans", "ner")
_TAG_COLUMNS = ("ner", "tags", "labels")
_CLASSES = "classes whose names stand in the metadata of Hugging Face"


# --- What the columns are --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How the rows of a table become documents."""

    known: frozenset[str]  # columns that mean something, and
    meta: tuple[str, ...]  # those that are only kept
    text: str = "text"
    entities: str = ""  # the column with spans, or
    tags: tuple[str, ...] = ()  # the columns with tags
    fields: tuple[str, ...] = ()  # of an entity
    label: str = "label"  # its field for the label
    names: Mapping[str, list[str]] | None = None  # class names by column
    in_words: bool = False
    inclusive: bool = False

    @property
    def columns(self) -> list[str]:
        """All that are read."""
        return [*self.known, *self.meta]


class Columns:
    """Names and types of a table's columns, and the complaints about them."""

    def __init__(self, schema: Any, features: Mapping[str, Any], path: str) -> None:
        import pyarrow.types as kinds

        self.kinds = kinds
        self.path = path
        self.features = features
        self.types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        if len(self.types) < len(schema.names):
            self.refuse("two columns have the same name")

    def refuse(self, what: str) -> Any:
        """Raises an error that lists the columns."""
        listed = ", ".join(f"{name} ({shown(str(kind), 40)[1:-1]})" for name, kind in self.types.items())
        raise DataError(what, path=self.path, advice=f"The columns are: {listed or 'none'}.")

    def is_text(self, kind: Any) -> bool:
        """Whether values are strings."""
        of = self.kinds
        if of.is_dictionary(kind):
            kind = kind.value_type
        return any((of.is_string(kind), of.is_large_string(kind), of.is_string_view(kind)))

    def is_texts(self, kind: Any) -> bool:
        """Whether values are lists of strings."""
        item = self.item(kind)
        return item is not None and self.is_text(item)

    def item(self, kind: Any) -> Any:
        """The type of a list's items, or None if it is no list."""
        of = self.kinds
        lists = (of.is_list, of.is_large_list, of.is_fixed_size_list, of.is_list_view, of.is_large_list_view)
        return kind.value_type if kind is not None and any(check(kind) for check in lists) else None

    def fields(self, kind: Any) -> dict[str, Any]:
        """The fields of a list of objects, which Hugging Face may keep as an object of lists; empty for other types."""
        item = self.item(kind)
        if item is not None and self.kinds.is_struct(item):
            return {field.name: field.type for field in item}
        if kind is None or not self.kinds.is_struct(kind):
            return {}
        found = {field.name: self.item(field.type) for field in kind}
        return {} if None in found.values() else found

    def is_pairs(self, kind: Any) -> bool:
        """Whether values are lists of ranges: objects with start and end, or pairs of numbers."""
        inner = self.item(self.item(kind))
        return self.fields(kind).keys() >= {"start", "end"} or (inner is not None and self.kinds.is_integer(inner))

    def is_plain(self, kind: Any) -> bool:
        """Whether values can be JSON."""
        of, item = self.kinds, self.item(kind)
        if item is not None:
            return self.is_plain(item)
        if of.is_struct(kind):
            return all(self.is_plain(field.type) for field in kind)
        simple = (of.is_null, of.is_boolean, of.is_integer, of.is_floating, self.is_text)
        return any(check(kind) for check in simple)

    def class_names(self, column: str, field: str | None = None) -> list[str] | None:
        """The names of classes in a column, or in a field of its objects."""
        feature = _unwrapped(self.features.get(column))
        if field is not None:
            feature = _unwrapped(feature.get(field)) if isinstance(feature, dict) else None
        names = feature.get("names") if isinstance(feature, dict) else None
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        return names if is_list else None


def _unwrapped(feature: Any) -> Any:
    """What a Hugging Face list holds; they have been written in several ways."""
    while True:
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        elif isinstance(feature, dict) and "_type" in feature and "feature" in feature:
            feature = feature["feature"]
        else:
            return feature


def plan_for(columns: Columns, options: Options, report: Report) -> Plan:
    """What the columns of a table mean; an error if they cannot be documents."""
    types = columns.types
    text = options.get("text", "text")
    if text not in types and ("tokens" not in types or text != "text"):
        also = " nor a column 'tokens'" if text == "text" else ""
        columns.refuse(f"there is {'neither a' if also else 'no'} column {text!r}{also}")
    has_text = text in types
    if has_text and not columns.is_text(types[text]):
        columns.refuse(f"the column {text!r} must hold strings")
    raw = choice(options, "annotation", ("read", "ignore")) == "ignore"
    if "tokens" in types and not (raw and has_text):
        words = columns.item(types["tokens"])
        if not ((words is not None and columns.is_text(words)) or (has_text and columns.is_pairs(types["tokens"]))):
            columns.refuse("the column 'tokens' must hold lists of words, or, beside a text, of their offsets")
    if raw:
        return _raw_plan(columns, text, report)
    unit = choice(options, "unit", ("auto", "characters", "words"))
    spans = "" if "tags" in options else _span_column(columns)
    layers = () if spans else _tag_columns(columns, options)
    if (layers or unit == "words") and "tokens" not in types:
        columns.refuse("there is no column 'tokens', and entities are given in words")
    known = _known_columns(columns, {text, "tokens", spans, *layers})
    details = _span_details(columns, spans, report) if spans else _tag_details(columns, layers)
    return Plan(
        known=frozenset(known & types.keys()),
        meta=_meta_columns(columns, known, report),
        text=text,
        entities=spans,
        tags=layers,
        in_words=bool(layers) or unit == "words" or (unit == "auto" and not has_text),
        inclusive=choice(options, "ends", ("exclusive", "inclusive")) == "inclusive",
        **details,
    )


def _raw_plan(columns: Columns, text: str, report: Report) -> Plan:
    """Documents without their annotation: text, or words if there is no text."""
    known = _known_columns(columns, {text, "tokens"})
    lists = {name for name in ("tokens", "sentences", "unknown") if columns.item(columns.types.get(name)) is not None}
    annotation = {"entities", "complete_labels", "admissible", *lists}
    read = known & ({"id", text} if text in columns.types else {"id", "tokens", "sentences"})
    meta = _meta_columns(columns, read | annotation, report)
    return Plan(known=frozenset(read), meta=meta, text=text)


def _meta_columns(columns: Columns, known: set[str], report: Report) -> tuple[str, ...]:
    """The columns that are only kept; a note for each that cannot be."""
    others = [name for name in columns.types if name not in known]
    meta = tuple(name for name in others if columns.is_plain(columns.types[name]))
    for name in sorted(set(others) - set(meta)):
        report.note("not kept", columns.path, f"the column {name!r}, of the type {columns.types[name]}", "columns")
    return meta


def _known_columns(columns: Columns, known: set[str]) -> set[str]:
    """Adds the columns that our own layout has besides, where they are of its types."""
    types = columns.types
    for name in ("sentences", "unknown"):
        if columns.is_pairs(types.get(name)):
            known.add(name)
    if columns.is_texts(types.get("complete_labels")):
        known.add("complete_labels")
    fields = columns.fields(types.get("admissible"))
    labels = [kind for name, kind in fields.items() if name in ("labels", "not")]
    if fields.keys() >= {"start", "end"} and labels and all(map(columns.is_texts, labels)):
        known.add("admissible")
    if "id" in types and (columns.is_text(types["id"]) or columns.kinds.is_integer(types["id"])):
        known.add("id")
    return known


def _span_column(columns: Columns) -> str:
    for name in _SPAN_COLUMNS:
        fields = columns.fields(columns.types.get(name))
        if fields.keys() >= {"start", "end"} and fields.keys() & {"label", "type"}:
            return name
    return ""


def _span_details(columns: Columns, name: str, report: Report) -> dict[str, Any]:
    fields = columns.fields(columns.types[name])
    label = "label" if "label" in fields else "type"
    kept = ["start", "end", label]
    of = columns.kinds
    if "score" in fields and (of.is_floating(fields["score"]) or of.is_integer(fields["score"])):
        kept.append("score")
    if columns.is_pairs(fields.get("fragments")):
        kept.append("fragments")
    names = columns.class_names(name, label)
    if not columns.is_text(fields[label]) and not (of.is_integer(fields[label]) and names):
        columns.refuse(f"the labels in {name!r} must be strings, or {_CLASSES}")
    for field in sorted(fields.keys() - set(kept)):
        report.note("not kept", columns.path, f"the field {field!r} of {name!r}", "fields of entities")
    return {"fields": tuple(kept), "label": label, "names": {name: names} if names else {}}


def _is_layer(columns: Columns, name: str) -> bool:
    """Whether a column's classes are tags of entities: GermEval's inner layer is called nested_ner_tags."""
    names = columns.class_names(name)
    if not names or not all(tags.TAG.fullmatch(one) for one in names):
        return False
    labels = {one[2:] for one in names if one != "O"}
    return bool(labels) and not labels <= tags.CHUNKS


def _tag_columns(columns: Columns, options: Options) -> tuple[str, ...]:
    types = columns.types
    if "tags" in options:
        found = [name.strip() for name in options["tags"].split(",") if name.strip()]
        for name in found:
            if name not in types:
                columns.refuse(f"there is no column {name!r}")
    else:
        found = [name for name in types if "ner_tags" in name or _is_layer(columns, name)]
        found = found or [name for name in _TAG_COLUMNS if columns.item(types.get(name)) is not None][:1]
    if not found:
        columns.refuse(
            "there are no entities: no column 'entities', 'spans' or 'ner' with lists of {start, end, label}, "
            "and no 'ner_tags' (the option tags=COLUMN names others, annotation=ignore reads the text alone)"
        )
    return tuple(found)


def _tag_details(columns: Columns, layers: Iterable[str]) -> dict[str, Any]:
    found = {}
    for name in layers:
        item, names = columns.item(columns.types[name]), columns.class_names(name)
        if item is not None and columns.kinds.is_integer(item) and names:
            found[name] = names
        elif item is None or not columns.is_text(item):
            columns.refuse(f"the column {name!r} must hold lists of tags: strings, or {_CLASSES}")
    return {"names": found}


# --- Rows ------------------------------------------------------------------------------------------------------------


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
