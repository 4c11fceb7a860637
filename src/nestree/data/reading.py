"""Reading and writing, whatever the format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path

from nestree.data import files, formats
from nestree.data.errors import DataError
from nestree.data.formats.base import Format
from nestree.data.formats.incomplete import fault
from nestree.data.model import Document, out_of_range
from nestree.data.report import Report

_NAMES = 200_000
"""So many names of documents are remembered, to notice when one comes twice; memory must not grow with the corpus."""


def read(
    path: str | PathLike[str],
    format: str | None = None,  # noqa: A002  (the word that users look for)
    *,
    options: Mapping[str, str] | None = None,
    report: Report | None = None,
) -> Iterator[Document]:
    """The documents of a file or folder, one after the other, exactly as they stand there.

    Args:
        path: a file, possibly compressed (.gz, .bz2, .xz), or a folder.
        format: one of :data:`FORMATS`; recognised from the file if left out.
        options: of the format, for example ``{"ends": "inclusive"}``; a format's ``options`` lists them.
        report: gets notes about what was seen and not read (relations, rejected examples, ...).

    Raises:
        DataError: the file is not what it should be; says where, and what to do. It comes when the place is reached:
            documents before it have been handed out. Two documents of one name in a file are an error too, as far as
            the first 200,000 names go.
    """
    path = files.existing(path)
    found = formats.get(format) if format is not None else formats.detect(path)
    options = options or {}
    found.check_options(options)
    return _documents(path, found, options, Report() if report is None else report)


def _documents(path: Path, found: Format, options: Mapping[str, str], report: Report) -> Iterator[Document]:
    for one in formats.files_of(path, found, report):
        seen: dict[int, int | None] = {}
        for document in found.read(one, options, report):
            if document.id:
                key, source = hash(document.id), document.source
                if key in seen:
                    first = f", as the one in line {seen[key]}" if seen[key] else ""
                    raise DataError(
                        f"a second document is named {document.id!r}{first}",
                        path=source.path if source else one,
                        line=source.line if source else None,
                        advice="Names must be different within a file, or left out.",
                    )
                if len(seen) < _NAMES:
                    seen[key] = source.line if source else None
            yield document


def write(
    documents: Iterable[Document],
    path: str | PathLike[str],
    format: str | None = None,  # noqa: A002
    *,
    options: Mapping[str, str] | None = None,
    report: Report | None = None,
) -> None:
    """Writes documents, one after the other. The file appears when it is complete, and replaces one that is there.

    Args:
        documents: as the format can hold them; :func:`nestree.data.convert` makes them so.
        path: the file or folder.
        format: one of :data:`FORMATS`; by the file's ending if left out.
        options: of the format.
        report: gets notes about what the format could not keep.

    Raises:
        DataError: a document does not fit the format, or the file cannot be written.
    """
    path = Path(path)
    found = formats.get(format) if format is not None else formats.for_writing(path)
    if found.write is None:
        raise DataError(f"the format {found.name!r} is read, not written")
    options = options or {}
    found.check_options(options, writing=True)
    found.write(map(_checked, documents), path, options, Report() if report is None else report)


def _checked(document: Document) -> Document:
    """The document; an error if what was made by hand would not be read again."""
    size = len(document.text)
    for number, (start, end, label, *_) in enumerate(document.entities):
        if not (type(start) is int and type(end) is int and 0 <= start < end <= size):
            raise out_of_range(start, end, label, size, "characters", document.source)
        if not isinstance(label, str) or not label.strip():
            raise DataError(f"{document.place_of(number)}: a label must be a string, found {label!r}")
    for wrong in filter(None, (fault(one, size) for one in document.admissible)):
        raise DataError((f"{document.place}: " if document.place else "") + wrong[0], advice=wrong[1])
    return document
