"""Exports of Prodigy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nestree.data.formats import incomplete
from nestree.data.formats.annotated import UNKNOWN_LABEL, Annotation, parts
from nestree.data.formats.base import Format, Options, Peek, Record, choice, kept_entities, meta_beside, note_losses
from nestree.data.formats.records import items, write_lines
from nestree.data.model import Document, Tokens
from nestree.data.report import Report

_OF_EXAMPLES = ("text", "tokens", "spans", "answer", "id", *incomplete.KEYS)
_ANSWERS = ("accept", "none")
_UNANSWERED = ("read", "ignore")


def read_prodigy(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Examples of Prodigy (``db-out``). Ends are exclusive, in characters; ``token_end`` is inclusive and not used.

    Of a binary example, a question about its spans, only the answer is known: the rest of the text is unknown.
    """
    unanswered = choice(options, "unanswered", _UNANSWERED)
    for record in items(path):
        values = record.values
        answer, is_binary = record.get("answer", str), values.get("_is_binary") is True
        if answer is None:
            if unanswered == "ignore":
                report.note("not annotated", record.place, "the question is not answered", "left out")
                continue
            answer = "accept"
        if answer != "accept" and not (answer == "reject" and is_binary):
            report.note("not accepted", record.place, f"the answer is {answer!r}", "left out")
            continue
        text = record.need("text", str)
        if not {"spans", "answer", "tokens", "_input_hash"} & set(values):
            record.refuse("there are no 'spans', and nothing else that Prodigy writes", "Is this another format?")
        spans = [
            part.entity(
                text, part.need("start", int), part.need("end", int), part.need("label", str), part.values.get("score")
            )
            for part in parts(record, "spans")
        ]
        tokens = [(part.need("start", int), part.need("end", int)) for part in parts(record, "tokens")]
        annotation = Annotation.of(spans, options.get("unknown_label"))
        if answer == "reject":
            if len(annotation.entities) != 1:  # of several, one may be wrong, or all
                report.note("not accepted", record.place, f"the answer is {answer!r}", "left out")
                continue
            annotation = annotation.refuted()
        said = annotation.beside(incomplete.fields_of_task(record, values.get("meta"), text))
        if is_binary:
            said["unknown"] = ((0, len(text)),) if text else ()
        name = str(record.get("id", (str, int), ""))
        found = Document(text, **said, id=name, meta=_prodigy_meta(values), source=record.source)
        yield _with_tokens(found, tokens, record) if tokens else found


def _prodigy_meta(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an example says besides."""
    used = (*_OF_EXAMPLES, "_is_binary") if values.get("_is_binary") is True else _OF_EXAMPLES
    meta = {key: value for key, value in values.items() if key not in used}
    inner = meta.get("meta")
    if isinstance(inner, dict) and set(incomplete.KEYS) & set(inner):
        meta["meta"] = incomplete.without(inner)
        if not meta["meta"]:
            del meta["meta"]
    return meta


def _with_tokens(document: Document, tokens: list[tuple[int, int]], record: Record) -> Document:
    """With the tool's tokens, without those that are white space."""
    at = 0
    for start, end in tokens:
        if not at <= start < end <= len(document.text):
            record.refuse(f"the token [{start}, {end}) is not after the one before it, or not within the text")
        at = end
    kept = [(start, end) for start, end in tokens if not document.text[start:end].isspace()]
    return document.with_tokens(Tokens([start for start, _ in kept], [end for _, end in kept]), None)


def write_prodigy(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes examples for ``spans.manual``; each has its tokens where they are known.

    With ``answer=none`` they are questions that nobody answered yet.
    """
    answer = {"answer": "accept"} if choice(options, "answer", _ANSWERS) == "accept" else {}

    def objects() -> Iterator[dict[str, Any]]:
        for document in documents:
            note_losses(document, report, keeps=("text", "tokens", "scores", "id", "incomplete annotation", "meta"))
            values: dict[str, Any] = {"text": document.text}
            if document.tokens is not None:
                values["tokens"] = [
                    {"text": document.text[start:end], "start": start, "end": end, "id": number}
                    for number, (start, end) in enumerate(document.tokens)
                ]
            values["spans"] = []
            for _, entity in kept_entities(document, report, "prodigy"):
                span: dict[str, Any] = {"start": entity.start, "end": entity.end, "label": entity.label}
                if entity.token_start is not None and entity.token_end is not None:
                    span |= {"token_start": entity.token_start, "token_end": entity.token_end - 1}
                values["spans"].append(span | ({} if entity.score is None else {"score": entity.score}))
            name = {"id": document.id} if document.id else {}
            yield {**_example_meta(document, report), **name, **values, **answer}

    write_lines(objects(), path)


def _example_meta(document: Document, report: Report) -> dict[str, Any]:
    """What an example says besides; in its own ``meta`` what is not complete."""
    own = (*_OF_EXAMPLES, "_is_binary") if document.meta.get("_is_binary") is True else _OF_EXAMPLES
    meta, said = meta_beside(document, own, report), incomplete.values(document)
    inner = meta.get("meta")
    if isinstance(inner, dict):
        meta["meta"] = {**meta_beside(replace(document, meta=inner), incomplete.KEYS, report), **said}
    elif said:
        if inner is not None:
            report.note("not kept", document.place, "the field 'meta', which means something else there", "meta")
        meta["meta"] = said
    return meta


def looks_like_prodigy(peek: Peek) -> bool:
    """Text with spans, or with an answer."""
    return isinstance(peek.record.get("text"), str) and bool({"spans", "answer", "_input_hash"} & set(peek.record))


FORMAT = Format(
    "prodigy",
    "JSON Lines of Prodigy: text, spans; exclusive ends in characters",
    looks_like_prodigy,
    read_prodigy,
    write_prodigy,
    surrogates=True,
    options={
        "unanswered": "examples without an answer: read (default: as accepted) or ignore (they are left out)",
        "unknown_label": UNKNOWN_LABEL,
    },
    writing={"answer": "accept (default), or none: they are questions"},
    as_guesses={"answer": "none"},
    only_finished={"unanswered": "ignore"},
)
