"""nestree JSON Lines: one document a line, everything kept.

Ends are exclusive. With ``text``, offsets count characters (code points); without it the document is its ``tokens``,
and offsets count those::

    {"tokens": ["IL-2", "gene"], "entities": [{"start": 0, "end": 1, "label": "protein"}]}
    {"id": "a1", "text": "IL-2 gene", "entities": [{"start": 0, "end": 4, "label": "protein", "score": 0.9}]}

``docs/data.md`` describes every key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nestree.data.errors import shown
from nestree.data.formats import incomplete
from nestree.data.formats.base import Format, Options, Peek, Record, choice, counted
from nestree.data.formats.records import records, write_lines
from nestree.data.model import Document, Entity, Range, Source, Tokens, check_sentences
from nestree.data.report import Report

_KEYS = ("id", "text", "tokens", "sentences", "entities", *incomplete.KEYS, "meta")
_KNOWN = frozenset(_KEYS)
_ENTITY_KEYS = ("start", "end", "label", "score", "fragments", "text", "depth", "parent")
"""The last three say again what the others say; `nestree predict` writes them for people."""
_OPTIONS = {
    "text": "the key with the text (default: text)",
    "annotation": "read (default), or ignore: text (or tokens) and id alone are read, other keys are kept as meta",
}


def read(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of a nestree JSON Lines file. Ends are exclusive."""
    name, text = str(path), options.get("text", "text")
    ignored = choice(options, "annotation", ("read", "ignore")) == "ignore"
    for line, values in records(path):
        if text != "text":
            values = _renamed(Record(values, name, line), text)
        yield document(_raw(values) if ignored else values, name, line)


def _renamed(record: Record, text: str) -> dict[str, Any]:
    """The same object, its text under the key "text"; what was there becomes meta."""
    values = dict(record.values)
    found = record.need(text, str)
    del values[text]
    if "text" in values:
        values["meta"] = {"text": values["text"], **record.get("meta", dict, {})}
    return {**values, "text": found}


def _raw(values: dict[str, Any]) -> dict[str, Any]:
    """What a document is without annotation; keys that mean nothing to us are its meta."""
    own = [key for key in ("id", "text", "meta") if values.get(key) is not None]
    if "text" not in own:
        own += [key for key in ("tokens", "sentences") if key in values]
    left_out = {"entities", *incomplete.KEYS}
    left_out |= {key for key in ("tokens", "sentences") if isinstance(values.get(key), list)}
    others = {key: value for key, value in values.items() if key not in own and key not in left_out}
    found = {key: values[key] for key in own}
    if others:
        meta = found.get("meta", {})
        found["meta"] = {**others, **(meta if isinstance(meta, dict) else {"meta": meta})}
    return found


def document(values: dict[str, Any], path: str, line: int) -> Document:
    """A document from the object on its line."""
    if not values.keys() <= _KNOWN:
        Record(values, path, line).known(_KEYS, "the document")
    if values.get("text") is None:
        return _of_words(values, path, line)
    return _of_text(Record(values, path, line))


def _of_words(values: dict[str, Any], path: str, line: int) -> Document:
    """The quick way for what most lines hold; whatever is unusual goes through all checks."""
    record, source = Record(values, path, line), Source(path, line)
    words: Any = values.get("tokens")
    if type(words) is not list:
        record.need("tokens", list)
    try:
        text = " ".join(words)
    except TypeError:
        record.words(words)
    if "" in words or "  " in text or not text.isprintable():
        record.words(words)
    tokens, count = Tokens.of_words(words), len(words)
    lengths, new = tokens.lengths, tuple.__new__
    entities = []
    listed = values.get("entities") or ()
    if type(listed) is not list:
        listed = record.get("entities", list, ())
    for found in listed:
        try:
            start, end, label = found["start"], found["end"], found["label"]
            usual = len(found) == 3 and type(start) is int and type(end) is int and 0 <= start < end <= count
        except (KeyError, TypeError):
            usual = False
        if usual and type(label) is str and label.strip():
            # An Entity, without the detour over its constructor.
            fields = (lengths[start] + start, lengths[end] + end - 1, label, None, start, end, ())
            entities.append(new(Entity, fields))
        else:
            entities.append(_entity_of_words(record, found, tokens))
    sentences = _sentences(record, count) if "sentences" in values else ((0, count),) if count else ()
    if len(values) == 1 + ("entities" in values):
        return Document(text, tuple(entities), tokens, sentences, source=source)
    rest = {**_rest(record), **incomplete.fields(record, text, tokens)}
    return Document(text, tuple(entities), tokens, sentences, **rest, source=source)


def _entity_of_words(record: Record, values: Any, tokens: Tokens) -> Entity:
    part = _entity_record(record, values)
    start, end, label = part.span(len(tokens), part.need("start", int), part.need("end", int), part.need("label", str))
    score = part.score(part.values.get("score"))
    fragments = tuple(part.ranges("fragments", len(tokens)))
    _check_fragments(part, fragments, start, end)
    in_characters = tuple(tokens.characters(first, last) for first, last in fragments)
    return Entity(*tokens.characters(start, end), label, score, start, end, in_characters)


def _of_text(record: Record) -> Document:
    text = record.need("text", str)
    entities = []
    for values in record.get("entities", list, ()):
        part = _entity_record(record, values)
        start, end, label = part.need("start", int), part.need("end", int), part.need("label", str)
        entity = part.entity(text, start, end, label, part.values.get("score"))
        fragments = tuple(part.ranges("fragments", len(text)))
        _check_fragments(part, fragments, entity.start, entity.end)
        entities.append(entity._replace(fragments=fragments))
    rest = {**_rest(record), **incomplete.fields(record, text)}
    found = Document(text, tuple(entities), **rest, source=record.source)
    listed = record.get("tokens", list)
    if listed is None:
        if record.values.get("sentences") is not None:
            record.refuse("'sentences' are ranges of tokens, and there are no 'tokens'")
        return found
    tokens = tokens_in(record, text, listed)
    sentences = _sentences(record, len(tokens)) if record.values.get("sentences") is not None else None
    return found.with_tokens(tokens, sentences)


def _entity_record(record: Record, values: Any) -> Record:
    if not isinstance(values, dict):
        record.refuse(f"an entity must be an object, found {shown(values)}")
    part = Record(values, record.path, record.line)
    part.known(_ENTITY_KEYS, "an entity")
    return part


def _check_fragments(record: Record, fragments: Sequence[Range], start: int, end: int) -> None:
    if not fragments:
        return
    before = start
    for number, (first, last) in enumerate(fragments):
        if first < before or (number == 0 and first != start):
            record.refuse("'fragments' must be in order, and begin where the entity does")
        before = last
    if before != end or len(fragments) < 2:
        record.refuse("'fragments' must be two or more, and end where the entity does")


def tokens_in(record: Record, text: str, listed: list[Any]) -> Tokens:
    """Tokens of a text, given as pairs of offsets or as words in the order of the text."""
    starts, ends, at = [], [], 0
    for item in listed:
        if isinstance(item, str):
            start = text.find(item, at)
            if start < 0 or not item or item.isspace():
                record.refuse(f"the token {shown(item)} is not in the text after character {at}")
            if text[at:start].strip():
                record.refuse(f"no token holds {shown(text[at:start].strip())}, which stands before {shown(item)}")
            end = start + len(item)
        else:
            start, end = record.pair(item, "tokens", len(text))
            if start < at:
                record.refuse(f"the token [{start}, {end}) begins before the end of the one before it, {at}")
            if text[start:end].isspace():
                record.refuse(f"the token [{start}, {end}) is white space only")
        starts.append(start)
        ends.append(end)
        at = end
    return Tokens(starts, ends)


def _sentences(record: Record, tokens: int) -> tuple[Range, ...]:
    found = tuple(record.ranges("sentences", tokens))
    if not check_sentences(found, tokens):
        record.refuse("'sentences' must follow each other without gaps and hold all tokens")
    return found


def _rest(record: Record) -> dict[str, Any]:
    identifier = record.get("id", (str, int), "")
    return {"id": str(identifier), "meta": record.get("meta", dict, {})}


# --- Writing ---------------------------------------------------------------------------------------------------------


def write(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes documents; everything is kept."""
    write_lines(map(as_object, documents), path)


def as_object(document: Document) -> dict[str, Any]:
    """A document as the object on its line: of words where that says it all, else of text."""
    values: dict[str, Any] = {"id": document.id} if document.id else {}
    tokens, in_words = document.tokens, _is_words(document)
    values["tokens" if in_words else "text"] = list(document.words) if in_words else document.text
    if not in_words and tokens is not None:
        values["tokens"] = [list(token) for token in tokens]
    if document.sentences is not None and (not in_words or len(document.sentences) > 1):
        values["sentences"] = [list(sentence) for sentence in document.sentences]
    values["entities"] = [_entity_object(entity, tokens if in_words else None) for entity in document.entities]
    values |= incomplete.values(document, tokens if in_words else None)
    if document.meta:
        values["meta"] = dict(document.meta)
    return values


def _is_words(document: Document) -> bool:
    """Whether words alone say where everything is."""
    tokens = document.tokens
    if tokens is None or document.sentences is None or document.text != " ".join(document.words):
        return False
    pieces = [piece for entity in document.entities for piece in entity.fragments]
    placed = all(entity.token_start is not None for entity in document.entities)
    pieces += [*document.unknown, *((one.start, one.end) for one in document.admissible)]
    return placed and all(tokens.exactly(*piece) for piece in pieces)


def _entity_object(entity: Entity, tokens: Tokens | None) -> dict[str, Any]:
    start, end = counted(tokens, entity.start, entity.end)
    values: dict[str, Any] = {"start": start, "end": end, "label": entity.label}
    if entity.score is not None:
        values["score"] = entity.score
    if entity.fragments:
        values["fragments"] = [list(counted(tokens, *piece)) for piece in entity.fragments]
    return values


def looks(peek: Peek) -> bool:
    """An object with nothing but our keys, and text or words."""
    keys = set(peek.record)
    return bool(keys & {"text", "tokens"}) and keys <= _KNOWN and _not_doccano(peek.record)


def _not_doccano(record: dict[str, Any]) -> bool:
    entities = record.get("entities") or []
    first = entities[0] if isinstance(entities, list) and entities else {}
    return not (isinstance(first, dict) and "start_offset" in first)


FORMAT = Format(
    "jsonl",
    "nestree JSON Lines; text or tokens, exclusive ends; keeps everything",
    looks,
    read,
    write,
    ".jsonl",
    options=_OPTIONS,
    pieces=True,
    surrogates=True,
)
