"""Reading and writing, whatever the format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path

from nestree.data import formats
from nestree.data.errors import DataError
from nestree.data.formats.base import Format
from nestree.data.model import Document
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
        DataError: the file is not what it should be; says where, and what to do.
    """
    path = Path(path)
    found = formats.get(format) if format is not None else formats.detect(path)
    if not path.exists():
        raise DataError("there is no such file or folder", path=path)
    options = options or {}
    found.check_options(options)
    return _documents(path, found, options, Report() if report is None else report)


def _documents(path: Path, found: Format, options: Mapping[str, str], report: Report) -> Iterator[Document]:
    seen: set[int] = set()
    for one in formats.files_of(path, found):
        for document in found.read(one, options, report):
            if document.id:
                key = hash(document.id)
                if key in seen:
                    source = document.source
                    raise DataError(
                        f"a second document is named {document.id!r}",
                        path=source.path if source else one,
                        line=source.line if source else None,
                        advice="Names must be different, or left out.",
                    )
                if len(seen) < _NAMES:
                    seen.add(key)
            yield document


def write(
    documents: Iterable[Document],
    path: str | PathLike[str],
    format: str | None = None,  # noqa: A002
    *,
    options: Mapping[str, str] | None = None,
    report: Report | None = None,
) -> None:
    """Writes documents, one after the other. The file appears when it is complete.

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
    found.check_options(options)
    found.write(documents, path, options, Report() if report is None else report)
