"""JSON of research systems that counts in words: DyGIE++ and PURE, CNN-NER, GLiNER.

| format | a record | ends |
|---|---|---|
| dygie | ``{"doc_key", "sentences": [[word]], "ner": [[[start, end, label]]]}`` | inclusive, through the document |
| cnn-ner | ``{"tokens": [word], "entity_mentions": [{"start", "end", "entity_type"}]}`` | exclusive |
| gliner | ``{"tokenized_text": [word], "ner": [[start, end, label]]}`` | inclusive |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nestree.data.errors import shown
from nestree.data.formats.base import Format, Options, Record, meta_beside, note_losses, on_words, spans_by_sentence
from nestree.data.formats.records import items, write_array, write_lines
from nestree.data.model import Document, Range
from nestree.data.report import Report


def _inclusive(record: Record, items: Any, words: int) -> Iterator[tuple[int, int, str]]:
    """Entities from ``[start, end, label]`` with inclusive ends; more fields (a score) may follow in DyGIE++."""
    if not isinstance(items, list):
        record.refuse(f"'ner' must hold lists of [start, end, label], found {shown(items)}")
    for item in items:
        if not isinstance(item, list) or len(item) < 3:
            record.refuse(f"an entity must be [start, end, label] with an inclusive end, found {shown(item)}")
        start, end, label = item[:3]
        if type(start) is not int or type(end) is not int or not 0 <= start <= end < words:
            record.refuse(
                f"the entity {shown(item[:3])} does not lie within the {words} words of the document",
                "Offsets count words from 0, and ends are inclusive in this format.",
            )
        yield record.span(words, start, end + 1, label)


def _meta(values: Mapping[str, Any], used: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in used}


# --- DyGIE++ and PURE ------------------------------------------------------------------------------------------------


def read_dygie(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of DyGIE++ and PURE. Ends are inclusive in the file, and count words through the document."""
    for record in items(path):
        words: list[str] = []
        sentences: list[Range] = []
        values = record.values
        for sentence in record.need("sentences", list):
            first = len(words)
            words += record.words(sentence, "sentences")
            if len(words) > first:
                sentences.append((first, len(words)))
        listed = record.get("ner", list, [])
        if listed and len(listed) != len(values["sentences"]):
            record.refuse(f"'ner' has {len(listed)} lists for {len(values['sentences'])} sentences")
        spans = []
        at = 0
        for sentence, entities in zip(values["sentences"], listed, strict=False):
            for start, end, label in _inclusive(record, entities, len(words)):
                if not at <= start < at + len(sentence):
                    record.refuse(
                        f"the entity [{start}, {end - 1}, {label!r}] does not begin in the sentence it is listed with, "
                        f"which has the words {at} to {at + len(sentence) - 1}",
                        "DyGIE++ counts words through the document.",
                    )
                spans.append((start, end, label))
            at += len(sentence)
        if any(len(item) > 3 for entities in listed for item in entities):
            report.note("scores", record.place, "entities have more fields than start, end and label", "not read")
        meta = _meta(values, ("doc_key", "sentences", "ner"))
        name = str(record.get("doc_key", (str, int), ""))
        yield Document.from_words(words, spans, sentences=tuple(sentences), id=name, meta=meta, source=record.source)


def write_dygie(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes documents for DyGIE++ and PURE; each entity with the sentence it begins in."""

    def objects() -> Iterator[dict[str, Any]]:
        for number, document in enumerate(documents, 1):
            note_losses(document, report, keeps=("tokens", "sentences", "id", "meta"))
            spans = on_words(document, "dygie", across=True)
            sentences = document.sentences or ()
            entities = [
                [[start, end - 1, label] for start, end, label in mine] for mine in spans_by_sentence(document, spans)
            ]
            words = [list(document.words[first:last]) for first, last in sentences]
            kept = meta_beside(document, ("doc_key", "sentences", "ner"), report)
            yield {"doc_key": document.id or f"document-{number}", "sentences": words, "ner": entities, **kept}

    write_lines(objects(), path)


# --- CNN-NER ---------------------------------------------------------------------------------------------------------


def read_cnn_ner(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Sentences of CNN-NER and its relatives, each a document. Ends are exclusive, in words."""
    for record in items(path):
        words = record.words(record.need("tokens", list))
        spans = []
        for item in record.get("entity_mentions", list, []):
            if not isinstance(item, dict):
                record.refuse(f"an entity must be an object, found {shown(item)}")
            part = record.part(item)
            start, end = part.need("start", int), part.need("end", int)
            span = part.span(len(words), start, end, part.need("entity_type", str))
            said = part.get("text", str)
            if said is not None and said.split() != " ".join(words[start:end]).split():
                part.refuse(f"the words [{start}, {end}) are {shown(' '.join(words[start:end]))}, not {shown(said)}")
            spans.append(span)
        meta = _meta(record.values, ("tokens", "entity_mentions", "id"))
        name = str(record.get("id", (str, int), ""))
        yield Document.from_words(words, spans, id=name, meta=meta, source=record.source)


def write_cnn_ner(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes sentences for CNN-NER, one a line."""

    def objects() -> Iterator[dict[str, Any]]:
        for document in documents:
            note_losses(document, report, keeps=("tokens", "id", "meta"))
            kept = meta_beside(document, ("tokens", "entity_mentions", "id"), report)
            for number, (words, spans) in enumerate(by_sentence(document, "cnn-ner"), 1):
                mentions = [
                    {"entity_type": label, "start": start, "end": end, "text": " ".join(words[start:end])}
                    for start, end, label in spans
                ]
                several = len(document.sentences or ()) > 1
                name = {"id": f"{document.id}.{number}" if several else document.id} if document.id else {}
                yield {**name, "tokens": words, "entity_mentions": mentions, **kept}

    write_lines(objects(), path)


# --- GLiNER ----------------------------------------------------------------------------------------------------------


def read_gliner(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Records of GLiNER, each a document of one sentence. Ends are inclusive in the file, in words."""
    for record in items(path):
        words = record.words(record.need("tokenized_text", list), "tokenized_text")
        spans = list(_inclusive(record, record.get("ner", list, []), len(words)))
        meta = _meta(record.values, ("tokenized_text", "ner"))
        yield Document.from_words(words, spans, meta=meta, source=record.source)


def write_gliner(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes records for GLiNER, a JSON array; each sentence is one."""

    def objects() -> Iterator[dict[str, Any]]:
        for document in documents:
            note_losses(document, report, keeps=("tokens", "meta"))
            kept = meta_beside(document, ("tokenized_text", "ner"), report)
            for words, spans in by_sentence(document, "gliner"):
                yield {"tokenized_text": words, "ner": [[start, end - 1, label] for start, end, label in spans], **kept}

    write_array(objects(), path)


def by_sentence(document: Document, format_name: str) -> Iterator[tuple[list[str], list[tuple[int, int, str]]]]:
    """Words and entities of each sentence, counted from its beginning.

    Raises:
        DataError: an entity runs over the end of its sentence; policies join such sentences.
    """
    found = spans_by_sentence(document, on_words(document, format_name))
    for (first, last), spans in zip(document.sentences or (), found, strict=True):
        yield list(document.words[first:last]), [(start - first, end - first, label) for start, end, label in spans]


DYGIE = Format(
    "dygie",
    "JSON of DyGIE++ and PURE: sentences, ner; inclusive ends in words",
    lambda peek: isinstance(peek.record.get("sentences"), list) and "tokens" not in peek.record,
    read_dygie,
    write_dygie,
    words=True,
    surrogates=True,
    across=True,
)
CNN_NER = Format(
    "cnn-ner",
    "JSON of CNN-NER: tokens, entity_mentions; exclusive ends in words",
    lambda peek: "entity_mentions" in peek.record and "tokens" in peek.record,
    read_cnn_ner,
    write_cnn_ner,
    words=True,
    surrogates=True,
)
GLINER = Format(
    "gliner",
    "JSON of GLiNER: tokenized_text, ner; inclusive ends in words",
    lambda peek: "tokenized_text" in peek.record,
    read_gliner,
    write_gliner,
    words=True,
    surrogates=True,
)
