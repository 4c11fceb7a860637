"""Parquet files, and folders of Hugging Face ``datasets`` (``save_to_disk``): tables with a document a row.

Two kinds of tables are read. Spans: ``text`` or ``tokens``, and ``entities`` (or ``spans``, ``ner``), a list of
``{start, end, label}``; offsets count characters if there is a text, else words. Tags: ``tokens``, and columns with a
tag for each (``ner_tags``, ``ner_tags_inner``, ...), each of them a layer. Labels and tags are strings, or classes
whose names Hugging Face keeps beside the table. Other columns become ``meta``.

Our own layout is that of nestree JSON Lines, always with the text and with offsets in characters; it keeps everything.
Rows are read and written a batch at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats import jsonl, tags
from nestree.data.formats.base import Format, Options, Peek, Record, choice
from nestree.data.formats.records import dumped
from nestree.data.model import Document, Range, Tokens
from nestree.data.report import Report

_BATCH_ROWS = 256  # as Python objects at one time
_GROUP_ROWS, _GROUP_CHARACTERS = 1000, 1 << 24  # of a row group that we write
_SPAN_COLUMNS = ("entities", "spans", "ner")
_TAG_COLUMNS = ("ner", "tags", "labels")
_CLASSES = "classes whose names stand in the metadata of Hugging Face"
_OPTIONS = {
    "ends": "of entities: exclusive (default) or inclusive",
    "unit": "what offsets count: auto (default: characters if there is a text), characters or words",
    "tags": "columns with tags, separated by commas; each is a layer",
}


# --- What the columns are --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """How the rows of a table become documents."""

    known: frozenset[str]  # columns that mean something, and
    meta: tuple[str, ...]  # those that are only kept
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


class _Columns:
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


def _plan(columns: _Columns, options: Options, report: Report) -> _Plan:
    types = columns.types
    if not ({"text", "tokens"} & types.keys()):
        columns.refuse("there is neither a column 'text' nor a column 'tokens'")
    has_text = "text" in types
    if has_text and not columns.is_text(types["text"]):
        columns.refuse("the column 'text' must hold strings")
    if "tokens" in types:
        words = columns.item(types["tokens"])
        if not ((words is not None and columns.is_text(words)) or (has_text and columns.is_pairs(types["tokens"]))):
            columns.refuse("the column 'tokens' must hold lists of words, or, beside a text, of their offsets")
    unit = choice(options, "unit", ("auto", "characters", "words"))
    spans = "" if "tags" in options else _span_column(columns)
    layers = () if spans else _tag_columns(columns, options)
    if (layers or unit == "words") and "tokens" not in types:
        columns.refuse("there is no column 'tokens', and entities are given in words")
    known = _known_columns(columns, {"text", "tokens", spans, *layers})
    others = [name for name in types if name not in known]
    meta = tuple(name for name in others if columns.is_plain(types[name]))
    for name in sorted(set(others) - set(meta)):
        report.note("not kept", columns.path, f"the column {name!r}, of the type {types[name]}", "columns")
    details = _span_details(columns, spans, report) if spans else _tag_details(columns, layers)
    return _Plan(
        known=frozenset(known & types.keys()),
        meta=meta,
        entities=spans,
        tags=layers,
        in_words=bool(layers) or unit == "words" or (unit == "auto" and not has_text),
        inclusive=choice(options, "ends", ("exclusive", "inclusive")) == "inclusive",
        **details,
    )


def _known_columns(columns: _Columns, known: set[str]) -> set[str]:
    """Adds the columns that our own layout has besides, where they are of its types."""
    types = columns.types
    for name in ("sentences", "unknown"):
        if columns.is_pairs(types.get(name)):
            known.add(name)
    labels = columns.item(types.get("complete_labels"))
    if labels is not None and columns.is_text(labels):
        known.add("complete_labels")
    if "id" in types and (columns.is_text(types["id"]) or columns.kinds.is_integer(types["id"])):
        known.add("id")
    return known


def _span_column(columns: _Columns) -> str:
    for name in _SPAN_COLUMNS:
        fields = columns.fields(columns.types.get(name))
        if fields.keys() >= {"start", "end"} and fields.keys() & {"label", "type"}:
            return name
    return ""


def _span_details(columns: _Columns, name: str, report: Report) -> dict[str, Any]:
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


def _tag_columns(columns: _Columns, options: Options) -> tuple[str, ...]:
    types = columns.types
    if "tags" in options:
        found = [name.strip() for name in options["tags"].split(",") if name.strip()]
        for name in found:
            if name not in types:
                columns.refuse(f"there is no column {name!r}")
    else:
        found = [name for name in types if name.startswith("ner_tags")]
        found = found or [name for name in _TAG_COLUMNS if columns.item(types.get(name)) is not None][:1]
    if not found:
        columns.refuse(
            "there are no entities: no column 'entities', 'spans' or 'ner' with lists of {start, end, label}, "
            "and no 'ner_tags' (the option tags=COLUMN names others)"
        )
    return tuple(found)


def _tag_details(columns: _Columns, layers: Iterable[str]) -> dict[str, Any]:
    found = {}
    for name in layers:
        item, names = columns.item(columns.types[name]), columns.class_names(name)
        if item is not None and columns.kinds.is_integer(item) and names:
            found[name] = names
        elif item is None or not columns.is_text(item):
            columns.refuse(f"the column {name!r} must hold lists of tags: strings, or {_CLASSES}")
    return {"names": found}


# --- Rows ------------------------------------------------------------------------------------------------------------


def documents_of(
    dataset: Iterable[Mapping[str, Any]],
    features: Any = None,
    *,
    options: Options | None = None,
    report: Report | None = None,
    name: str = "dataset",
) -> Iterator[Document]:
    """The documents of a ``datasets.Dataset``, or of any rows whose columns are known.

    Args:
        dataset: rows as dictionaries.
        features: ``datasets.Features`` or an Arrow schema; None: the dataset's own.
        options: as of the format "parquet": ends, unit, tags.
        report: where to note what is not read.
        name: what errors call it.

    Raises:
        DataError: a column is missing or of the wrong type, or a row is wrong.
    """
    _pyarrow()
    features = getattr(dataset, "features", None) if features is None else features
    schema = getattr(features, "arrow_schema", features)
    if not hasattr(schema, "names"):
        raise DataError(f"the columns of {name} are not known", advice="Pass `features=`.")
    plain: Any = getattr(dataset, "with_format", lambda _: dataset)(None)
    options = options or {}
    unknown = sorted(options.keys() - _OPTIONS.keys())
    if unknown:
        raise DataError(f"there is no option {unknown[0]!r}", advice=f"Known are: {', '.join(_OPTIONS)}.")
    plan = _plan(_Columns(schema, _features(schema), name), options, Report() if report is None else report)
    yield from _documents(plain, plan, name)


def _documents(rows: Iterable[Mapping[str, Any]], plan: _Plan, path: str) -> Iterator[Document]:
    for number, row in enumerate(rows, 1):
        try:
            found = _document(plan, Record(row, path, number))
        except DataError as error:
            raise DataError(f"row {number}: {error.what}", path=path, advice=error.advice) from None
        yield found


def _document(plan: _Plan, record: Record) -> Document:
    """A row, turned into an object of nestree JSON Lines, which is where it is checked."""
    row = record.values
    values: dict[str, Any] = {key: row.get(key) for key in ("id", "complete_labels") if key in plan.known}
    for key in ("sentences", "unknown"):
        if key in plan.known and row.get(key) is not None:
            values[key] = _pairs(record, key, row[key])
    text, listed = row.get("text"), row.get("tokens")
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
    meta = _meta(plan, record)
    if meta:
        values["meta"] = meta
    return jsonl.document(values, record.path, record.line or 0)


def _entities(plan: _Plan, record: Record) -> list[dict[str, Any]]:
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


def _tagged(plan: _Plan, record: Record, count: int) -> list[dict[str, Any]]:
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


def _meta(plan: _Plan, record: Record) -> dict[str, Any]:
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


# --- Files -----------------------------------------------------------------------------------------------------------


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        advice = 'Install it with `pip install "nestree[parquet]"`.'
        raise DataError("Parquet files and datasets need pyarrow", advice=advice) from None
    return pa


@contextmanager
def _arrow_at_work(path: Path, what: str) -> Iterator[None]:
    """Turns what pyarrow raises over a broken file into an error with a place."""
    pa = _pyarrow()
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError) as error:
        fault = shown(str(error).split("\n")[0].rstrip("."), 100)[1:-1]
        raise DataError(f"this is not {what}, or it is broken: {fault}", path=path, advice="Is it complete?") from None


def _rows(batches: Iterable[Any], columns: list[str], path: Path, what: str) -> Iterator[dict[str, Any]]:
    with _arrow_at_work(path, what):
        for batch in batches:
            batch.validate(full=True)  # pyarrow trusts offsets in a file; wrong ones would be read from elsewhere
            chosen = batch.select(columns)
            for start in range(0, chosen.num_rows, _BATCH_ROWS):
                yield from chosen.slice(start, _BATCH_ROWS).to_pylist()


def _features(schema: Any, info: Any = None) -> Mapping[str, Any]:
    """Hugging Face's description of the columns, from the table or from the file beside it."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"null"))
    except ValueError:
        stored = None
    for found in (stored.get("info") if isinstance(stored, dict) else None, info):
        if isinstance(found, dict) and isinstance(found.get("features"), dict):
            return found["features"]
    return {}


def read_parquet(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of a Parquet file. Ends are exclusive unless the option ``ends`` says otherwise."""
    pa, what = _pyarrow(), "a Parquet file"
    with files.opened(path) as stream:
        with _arrow_at_work(path, what):
            # Without these, all of a row group is read at once, and some files are one row group.
            table = pa.parquet.ParquetFile(stream, pre_buffer=False, buffer_size=1 << 16)
            schema = table.schema_arrow
            plan = _plan(_Columns(schema, _features(schema), str(path)), options, report)
        rows = _rows(table.iter_batches(batch_size=_BATCH_ROWS), plan.columns, path, what)
        yield from _documents(rows, plan, str(path))


def read_datasets(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of a folder written by ``save_to_disk``; of several splits the one that the option names."""
    pa, what = _pyarrow(), "a stream of Arrow batches"
    folder = _split_folder(path, options)
    parts = _data_files(folder)
    info = _json(folder / "dataset_info.json") if (folder / "dataset_info.json").exists() else {}
    with files.opened(parts[0]) as stream, _arrow_at_work(parts[0], what):
        schema = pa.ipc.open_stream(stream).schema
        plan = _plan(_Columns(schema, _features(schema, info), str(folder)), options, report)

    def rows() -> Iterator[dict[str, Any]]:
        for part in parts:
            with files.opened(part) as stream:
                with _arrow_at_work(part, what):
                    batches = pa.ipc.open_stream(stream)
                yield from _rows(batches, plan.columns, part, what)

    yield from _documents(rows(), plan, str(folder))


def _split_folder(path: Path, options: Options) -> Path:
    """The folder of the one split that is meant."""
    wanted = options.get("split")
    listing = path / "dataset_dict.json"
    if not listing.exists():
        if wanted is not None:
            raise DataError(f"there is no split {wanted!r}: the folder is one dataset", path=path)
        return path
    splits = _json(listing).get("splits")
    if not isinstance(splits, list) or not splits or not all(map(_is_name, splits)):
        raise DataError(f"'splits' must be a list of names, found {shown(splits)}", path=listing)
    if wanted is None and len(splits) > 1:
        advice = f"Choose one with the option split: {', '.join(splits)}."
        raise DataError("the folder holds several splits", path=path, advice=advice)
    if wanted is not None and wanted not in splits:
        raise DataError(f"there is no split {wanted!r}", path=path, advice=f"There are: {', '.join(splits)}.")
    return path / (wanted or splits[0])


def _data_files(folder: Path) -> list[Path]:
    """The files with the rows, in order."""
    state_path = folder / "state.json"
    if state_path.exists():
        state = _json(state_path)
        if state.get("_indices_data_files"):
            advice = "Load it with `datasets`, and save it again."
            raise DataError("the dataset is a selection of rows, which old versions saved", path=folder, advice=advice)
        listed = state.get("_data_files")
        names = [item.get("filename") if isinstance(item, dict) else None for item in listed or ()]
        if not all(map(_is_name, names)):
            raise DataError(f"'_data_files' must name files of the folder, found {shown(listed)}", path=state_path)
        found = [folder / str(name) for name in names]
    else:
        found = Peek(folder).names(".arrow")
    if not found:
        raise DataError("there are no .arrow files with rows", path=folder)
    return found


def _is_name(name: Any) -> bool:
    """Whether it names something in the folder, and nothing elsewhere."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(files.text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"this is not JSON: {error}", path=path) from None
    if not isinstance(found, dict):
        raise DataError(f"a JSON object was expected, found {shown(found)}", path=path)
    return found


# --- Writing ---------------------------------------------------------------------------------------------------------


def write_parquet(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes documents in our own layout; everything is kept."""
    pa = _pyarrow()
    with files.written_bytes(path) as stream, pa.parquet.ParquetWriter(stream, _schema(pa)) as writer:
        for batch in _batches(documents, pa):
            writer.write_batch(batch)


def write_datasets(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes a folder that ``datasets.load_from_disk`` reads, in our own layout; everything is kept."""
    pa = _pyarrow()
    if (path / "dataset_dict.json").exists():
        raise DataError("the folder holds a dataset with splits", path=path, advice="Write to another folder.")
    data = path / "data-00000-of-00001.arrow"
    with files.written_bytes(data) as stream, pa.ipc.new_stream(stream, _schema(pa)) as writer:
        for batch in _batches(documents, pa):
            writer.write_batch(batch)
    with data.open("rb") as finished:
        # `datasets` tells cached results apart by it: other rows need another one.
        fingerprint = hashlib.file_digest(finished, "sha256").hexdigest()[:16]
    state: dict[str, Any] = {
        "_data_files": [{"filename": data.name}],
        "_fingerprint": fingerprint,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    info = {"citation": "", "description": "", "features": None, "homepage": "", "license": ""}
    for name, values in (("dataset_info.json", info), ("state.json", state)):
        with files.written(path / name) as text:
            text.write(json.dumps(values, indent=2) + "\n")


def _schema(pa: Any) -> Any:
    ranges = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))
    entity = [("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]
    entity += [("score", pa.float64()), ("fragments", ranges)]
    return pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("tokens", ranges),
            ("sentences", ranges),
            ("entities", pa.list_(pa.struct(entity))),
            ("complete_labels", pa.list_(pa.string())),
            ("unknown", ranges),
            ("meta", pa.string()),
        ]
    )


def _batches(documents: Iterable[Document], pa: Any) -> Iterator[Any]:
    packed = partial(pa.RecordBatch.from_pylist, schema=_schema(pa))
    rows: list[dict[str, Any]] = []
    characters = 0
    for document in documents:
        rows.append(_row(document))
        characters += len(document.text)
        if len(rows) >= _GROUP_ROWS or characters >= _GROUP_CHARACTERS:
            yield packed(rows)
            rows, characters = [], 0
    if rows:
        yield packed(rows)


def _row(document: Document) -> dict[str, Any]:
    def ranges(found: Iterable[Range] | None) -> list[dict[str, int]] | None:
        return None if found is None else [{"start": start, "end": end} for start, end in found]

    try:
        meta = dumped(dict(document.meta)) if document.meta else None
    except (TypeError, ValueError) as error:
        raise DataError(f"{document.place or 'a document'}: 'meta' cannot be written as JSON: {error}") from None
    return {
        "id": document.id or None,
        "text": document.text,
        "tokens": ranges(document.tokens),
        "sentences": ranges(document.sentences),
        "entities": [
            {**entity._asdict(), "fragments": ranges(entity.fragments) if entity.fragments else None}
            for entity in document.entities
        ],
        "complete_labels": None if document.complete_labels is None else list(document.complete_labels),
        "unknown": ranges(document.unknown) if document.unknown else None,
        "meta": meta,
    }


def looks_parquet(peek: Peek) -> bool:
    """The mark that every Parquet file begins with."""
    return peek.head.startswith("PAR1")


def looks_datasets(peek: Peek) -> bool:
    """A folder with the files that ``save_to_disk`` writes."""
    return (peek.path / "dataset_dict.json").is_file() or (
        (peek.path / "state.json").is_file() and bool(peek.names(".arrow"))
    )


PARQUET = Format(
    "parquet",
    "Parquet; spans (exclusive ends) or tags in columns; written so that everything is kept",
    looks_parquet,
    read_parquet,
    write_parquet,
    ".parquet",
    options=_OPTIONS,
    pieces=True,
)
DATASETS = Format(
    "datasets",
    "folder of Hugging Face datasets (save_to_disk); columns as for parquet; written so that everything is kept",
    looks_datasets,
    read_datasets,
    write_datasets,
    options={**_OPTIONS, "split": "of several splits, the one to read"},
    whole_folder=True,
    pieces=True,
)
__all__ = ["DATASETS", "PARQUET", "documents_of"]
