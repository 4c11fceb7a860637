"""Which column of a table means what: the plan by which its rows become documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nestree.data.errors import DataError, shown
from nestree.data.formats import tags
from nestree.data.formats.base import Options, choice
from nestree.data.report import Report

_SPAN_COLUMNS = ("entities", "spans", "ner")
_TAG_COLUMNS = ("ner", "tags", "labels")
_CLASSES = "classes whose names stand in the metadata of Hugging Face"


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
