"""From one format to another: lossless where both can hold it, and a note for everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

from nestree.data import formats
from nestree.data.formats.base import Format
from nestree.data.model import Document
from nestree.data.policies import Policies, aligned, contiguous, with_joined_sentences
from nestree.data.reading import read, write
from nestree.data.report import Report
from nestree.data.splitting import Splitter, without_surrogates


def convert(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    source_options: Mapping[str, str] | None = None,
    target_options: Mapping[str, str] | None = None,
    policies: Policies | None = None,
    splitter: Splitter | None = None,
    report: Report | None = None,
) -> int:
    """Converts a corpus; returns the number of documents.

    Policies are used where the target format needs them: ``alignment`` where it counts in words, ``discontinuous``
    where an entity is one run. Text without words is split by ``splitter`` for formats that need words.
    """
    report = Report() if report is None else report
    found = formats.get(target_format) if target_format is not None else formats.for_writing(Path(target))
    documents = read(source, source_format, options=source_options, report=report)
    counted = Counted(fit(documents, found, policies or Policies(), splitter or Splitter(), report))
    write(counted, target, found.name, options=target_options, report=report)
    return counted.number


def fit(
    documents: Iterable[Document], target: Format, policies: Policies, splitter: Splitter, report: Report
) -> Iterator[Document]:
    """Documents as a format can hold them: with words, on words, in one piece, as far as it needs that."""
    for document in documents:
        if not target.surrogates:
            document = _without_surrogates(document, report)
        if not target.pieces:
            document = contiguous(document, policies, report)
        if target.words:
            if document.tokens is None or document.sentences is None:
                document = splitter.split(document)
            document = aligned(document, policies, report)
            if not target.across:
                document = with_joined_sentences(document, report)
            if not document.tokens:
                report.note("empty document", document.place, "it has no words", "left out")
                continue
        yield document


def _without_surrogates(document: Document, report: Report) -> Document:
    """The document, of as many characters, in which halves of characters are replaced: UTF-8 has none."""
    text = without_surrogates(document.text)
    if text == document.text:
        return document
    report.note("not kept", document.place, "lone surrogates, written as U+FFFD", "text")
    return replace(document, text=text)


class Counted:
    """Counts what passes."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = documents
        self.number = 0

    def __iter__(self) -> Iterator[Document]:
        for document in self._documents:
            self.number += 1
            yield document
