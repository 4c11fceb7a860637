"""The original GENIA 3.02 corpus (XML), with the words and the five types that the nested-NER literature uses.

:mod:`nestree.data.formats.genia_xml` has the rules. Labels are written as in the files that the literature passes on:
``G#protein``, ``G#DNA``, ``G#RNA``, ``G#cell_type``, ``G#cell_line``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nestree.data import files
from nestree.data.errors import DataError
from nestree.data.formats import genia_xml
from nestree.data.formats.base import Format, Options, Peek, choice
from nestree.data.model import Document, Source
from nestree.data.report import Report

SENTENCES = 18_546
"""Sentences of the whole corpus, from which the paper's split is counted."""


def read(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Sentences of the original XML, each a document. Ends are exclusive, in words.

    ``split``: all (as they stand), or the paper's train, dev or test: the first 80, next 10 and last 10 percent of the
    sentences of the whole corpus. ``sentences``: how many that has, if it is not the usual 18,546.
    """
    part = choice(options, "split", ("all", "train", "dev", "test"))
    whole = options.get("sentences", str(SENTENCES))
    if not whole.isdecimal():
        raise DataError(f"the option sentences is {whole!r}", advice="It is a number.")
    first, second = genia_xml.split(int(whole))
    ranges = {"all": (0, None), "train": (0, first), "dev": (first, second), "test": (second, None)}
    begin, end = ranges[part]
    skipped = 0
    with files.opened(path) as stream:
        for number, sentence in enumerate(genia_xml.sentences(stream, str(path))):
            if end is not None and number >= end:
                break
            if number < begin or not sentence.words:
                continue
            skipped += sentence.skipped
            spans = [(start, last, f"G#{label}") for start, last, label in sentence.entities]
            source = Source(str(path), sentence.line)
            yield Document.from_words(sentence.words, spans, meta={"article": sentence.article}, source=source)
    if skipped:
        report.note("other types", str(path), f"{skipped} terms of other types than the five", "not read")


def looks(peek: Peek) -> bool:
    """XML with articles whose sentences hold ``<cons>`` elements."""
    return "<cons" in peek.head and "<sentence" in peek.head and peek.head.lstrip().startswith("<")


FORMAT = Format(
    "genia-xml",
    "the original GENIA 3.02 XML, words and five types as in the literature",
    looks,
    read,
    options={
        "split": "all, train, dev or test (the paper's)",
        "sentences": "sentences of the whole corpus, 18546 unless given",
    },
)
