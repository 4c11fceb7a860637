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
from functools import partial
from pathlib import Path
from typing import Any

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats import incomplete
from nestree.data.formats.arrow_plan import Columns, plan_for
from nestree.data.formats.arrow_rows import documents_in
from nestree.data.formats.base import Format, Options, Peek
from nestree.data.formats.records import dumped
from nestree.data.model import Document, Range
from nestree.data.report import Report

_BATCH_ROWS = 256  # as Python objects at one time
_GROUP_ROWS, _GROUP_CHARACTERS = 1000, 1 << 24  # of a row group that we write
_OPTIONS = {
    "ends": "of entities: exclusive (default) or inclusive",
    "unit": "what offsets count: auto (default: characters if there is a text), characters or words",
    "tags": "columns with tags, separated by commas; each is a layer",
    "text": "the column with the text (default: text)",
    "annotation": "read (default), or ignore: text (or tokens) and id alone are read, other columns are kept as meta",
}


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
            plan = plan_for(Columns(schema, _features(schema), str(path)), options, report)
        rows = _rows(table.iter_batches(batch_size=_BATCH_ROWS), plan.columns, path, what)
        yield from documents_in(rows, plan, str(path))


def read_datasets(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of a folder written by ``save_to_disk``; of several splits the one that the option names.

    Ends are exclusive unless the option ``ends`` says otherwise.
    """
    pa, what = _pyarrow(), "a stream of Arrow batches"
    folder = _split_folder(path, options)
    parts = _data_files(folder)
    info = _json(folder / "dataset_info.json") if (folder / "dataset_info.json").exists() else {}
    with files.opened(parts[0]) as stream, _arrow_at_work(parts[0], what):
        schema = pa.ipc.open_stream(stream).schema
        plan = plan_for(Columns(schema, _features(schema, info), str(folder)), options, report)

    def rows() -> Iterator[dict[str, Any]]:
        for part in parts:
            with files.opened(part) as stream:
                with _arrow_at_work(part, what):
                    batches = pa.ipc.open_stream(stream)
                yield from _rows(batches, plan.columns, part, what)

    yield from documents_in(rows(), plan, str(folder))


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
    plan = plan_for(Columns(schema, _features(schema), name), options, Report() if report is None else report)
    yield from documents_in(plain, plan, name)


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
    admissible = [("start", pa.int64()), ("end", pa.int64())]
    admissible += [("labels", pa.list_(pa.string())), ("not", pa.list_(pa.string()))]
    return pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("tokens", ranges),
            ("sentences", ranges),
            ("entities", pa.list_(pa.struct(entity))),
            ("complete_labels", pa.list_(pa.string())),
            ("unknown", ranges),
            ("admissible", pa.list_(pa.struct(admissible))),
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
        "admissible": incomplete.values(document).get("admissible"),
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
