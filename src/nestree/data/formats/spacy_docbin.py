"""spaCy's DocBin files (``.spacy``): entities of all span groups and of ``doc.ents``.

A DocBin is packed as a whole, so a file is held in memory while it is read or written. It is msgpack in zlib; nothing
in it is unpickled, user data included. What spaCy has no place for (the document's name, ``meta``, which labels are
complete, where nobody looked, what a span may be) stands as JSON in ``doc.user_data["nestree"]``.

Empty and one-token documents always have known sentences: spaCy cannot say otherwise.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats import incomplete
from nestree.data.formats.base import Format, Options, Peek, choice, kept_entities
from nestree.data.formats.jsonl import document as checked_document
from nestree.data.formats.records import dumped
from nestree.data.model import Document, Token
from nestree.data.report import Report

if TYPE_CHECKING:
    from spacy.tokens import Doc, DocBin, SpanGroup
    from spacy.vocab import Vocab

_USER_KEY = "nestree"
_USER_KEYS = ("id", *incomplete.KEYS, "meta")
_OPTIONS = {
    "spans_key": "reading: only this span group, and doc.ents; writing: the span group to write (sc)",
    "ents": "reading: whether entities of doc.ents are read too (yes, no)",
}


# --- Reading ---------------------------------------------------------------------------------------------------------


def read(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of a DocBin file; each (start, end, label) once. Ends of spaCy's spans are exclusive, in its tokens."""
    vocab = new_vocab()
    spans_key, with_ents = options.get("spans_key"), choice(options, "ents", ("yes", "no")) == "yes"
    with files.opened(path) as stream:
        data = stream.read()
    with _spacy_at_work(path):
        packed, keys = _unpacked(data)
    if spans_key is not None and spans_key not in keys:
        there = f"There are: {', '.join(map(repr, keys))}." if keys else "There are no span groups at all."
        raise DataError(f"there is no span group {spans_key!r}", path=path, advice=there)
    if spans_key is None and len(keys) > 1:
        listed = ", ".join(map(repr, keys))
        report.note("span groups", str(path), f"the file has {len(keys)}: {listed}", "all read")
    docs = packed.get_docs(vocab)
    for number in range(1, len(packed) + 1):
        # Never across the yield: a consumer's own errors are not spaCy's.
        with _spacy_at_work(path, number):
            found = document_of(
                next(docs), spans_key=spans_key, with_ents=with_ents, path=str(path), number=number, report=report
            )
        yield found


def document_of(
    doc: Doc,
    *,
    spans_key: str | None = None,
    with_ents: bool = True,
    path: str | None = None,
    number: int | None = None,
    report: Report | None = None,
) -> Document:
    """A spaCy Doc as a document: its words are the tokens that are not white space.

    Args:
        doc: the Doc.
        spans_key: of the span groups only this one; a Doc without it has none. None: all of them.
        with_ents: whether ``doc.ents`` are read too.
        path: the file it comes from, if any.
        number: its number there, from 1.
        report: where to note what is not read.

    Raises:
        DataError: an entity is empty, or not within the text.
    """
    place = f"{path}:{number}" if path else doc.text[:20]
    note = _noter(report, place)
    groups = [group for key, group in doc.spans.items() if spans_key in (None, key)]
    values = _user_values(doc, note)
    values |= {
        "text": doc.text,
        "tokens": [[token.idx, token.idx + len(token.text)] for token in doc if token.text.strip()],
        "sentences": sentences_of(doc) if doc.has_annotation("SENT_START") else None,
        "entities": _entities(doc, groups, with_ents, note),
    }
    try:
        found = checked_document(values, path or "", number or 0)
    except DataError as error:
        raise DataError(error.what, path=path, line=number, advice=error.advice) from None
    return found if path else replace(found, source=None)


def _entities(
    doc: Doc, groups: Iterable[SpanGroup], with_ents: bool, note: Callable[..., None]
) -> list[dict[str, Any]]:
    found: dict[tuple[int, int, str], float | None] = {}
    text = doc.text
    for group in groups:
        of_group = set()
        for span, score in zip(group, _scores(group, note), strict=True):
            key = span.start_char, span.end_char, span.label_
            says = shown(text[key[0] : key[1]])  # not span.text: spaCy does not check offsets that it unpacked
            if not span.label_:
                note("no label", f"a span of the group {group.name!r}, {says}", "not read")
                continue
            if key in of_group:
                note("duplicate", f"{says} {key[2]}", "read once")
            of_group.add(key)
            if found.get(key) is None:
                found[key] = score
    for span in doc.ents if with_ents else ():
        found.setdefault((span.start_char, span.end_char, span.label_), None)
    return [{"start": key[0], "end": key[1], "label": key[2], "score": score} for key, score in found.items()]


def _scores(group: SpanGroup, note: Callable[..., None]) -> list[float | None]:
    """What spaCy's span categorizer keeps in the group's attributes, as a list or an array."""
    found = group.attrs.get("scores")
    if found is None:
        return [None] * len(group)
    try:
        scores = [None if score is None else float(score) for score in found]
    except (TypeError, ValueError):
        scores = []
    if len(scores) != len(group):
        note("scores", f"those of the span group {group.name!r} do not fit its {len(group)} spans", "not read")
        return [None] * len(group)
    return scores


def sentences_of(doc: Doc) -> list[list[int]]:
    """The sentences of a Doc in words: tokens that are not white space. Sentences without any are left out."""
    words_before = [0, *accumulate(1 if token.text.strip() else 0 for token in doc)]
    found = ([words_before[sentence.start], words_before[sentence.end]] for sentence in doc.sents)
    return [[start, end] for start, end in found if start < end]


def _user_values(doc: Doc, note: Callable[..., None]) -> dict[str, Any]:
    """What we keep in the user data; of other programs' data what is about the document and can be JSON, as meta."""
    ours = _our_values(doc.user_data.get(_USER_KEY))
    others: dict[str, Any] = {"cats": doc.cats} if doc.cats else {}
    user_data: Mapping[Any, Any] = doc.user_data  # spaCy's own keys are tuples, whatever its types say
    for key, value in user_data.items():
        if key == _USER_KEY:
            continue
        if isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[2:] == (None, None):
            key = key[1]  # doc._.name
        try:
            if not isinstance(key, str):
                raise TypeError
            others[key] = json.loads(json.dumps(value))  # msgpack gives tuples for lists
        except (TypeError, ValueError):
            note("not kept", f"user data {shown(key)}", "user data")
    if others:
        ours["meta"] = {**others, **(ours.get("meta") or {})}
    return ours


def _our_values(stored: Any) -> dict[str, Any]:
    if stored is None:
        return {}
    try:
        values = json.loads(stored)
    except (TypeError, ValueError):
        values = None
    if not isinstance(values, dict) or not values.keys() <= set(_USER_KEYS):
        raise DataError(f"the user data {_USER_KEY!r} is not what nestree writes, found {shown(stored)}")
    return values


def _unpacked(data: bytes) -> tuple[DocBin, list[str]]:
    """A DocBin, and the keys of all its span groups."""
    import srsly  # type: ignore[import-untyped]
    from spacy.tokens import DocBin

    packed = DocBin().from_bytes(data)
    keys: dict[str, None] = {}
    for groups in packed.span_groups:
        found = srsly.msgpack_loads(groups) if groups else []
        if isinstance(found, dict):
            keys |= dict.fromkeys(key for names in found.values() for key in names)
        else:  # as spaCy wrote them before 3.4: without keys, names only
            keys |= dict.fromkeys(srsly.msgpack_loads(group)["name"] for group in found)
    return packed, list(keys)


@contextmanager
def _spacy_at_work(path: Path, number: int | None = None) -> Iterator[None]:
    """Turns whatever spaCy raises over a broken file into an error with a place."""
    collecting = gc.isenabled()
    where = "" if number is None else f"document {number}: "
    try:
        yield
    except DataError as error:
        raise DataError(where + error.what, path=path, advice=error.advice) from None
    except Exception as error:  # spaCy does not check what it unpacks: anything from KeyError to AssertionError comes
        what = (
            f"{where}this is not a DocBin file of spaCy, or it is broken ({type(error).__name__}: {shown(str(error))})"
        )
        raise DataError(what, path=path, advice="Is it complete, and written by `DocBin.to_disk`?") from None
    finally:
        if collecting:  # srsly switches it off while it unpacks, and forgets about it if that fails
            gc.enable()


def _noter(report: Report | None, place: str) -> Callable[..., None]:
    def note(kind: str, message: str, action: str) -> None:
        if report is not None:
            report.note(kind, place, message, action)

    return note


def new_vocab() -> Vocab:
    """An empty vocabulary of no language in particular.

    Raises:
        DataError: spaCy is not installed.
    """
    try:
        import spacy
    except ImportError:
        advice = 'Install it with `pip install "nestree[spacy]"`.'
        raise DataError("DocBin files need spaCy", advice=advice) from None
    return spacy.blank("xx").vocab


# --- Writing ---------------------------------------------------------------------------------------------------------


def write(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes one Doc per document: entities in a span group, and as many as do not overlap in ``doc.ents``."""
    vocab = new_vocab()
    from spacy.tokens import DocBin

    packed = DocBin(store_user_data=True)
    with files.written_bytes(path) as stream:
        for document in documents:
            packed.add(doc_of(document, vocab, report, spans_key=options.get("spans_key", "sc")))
        stream.write(packed.to_bytes())


def doc_of(document: Document, vocab: Vocab, report: Report, *, spans_key: str = "sc") -> Doc:
    """A document as a spaCy Doc with the same text.

    Raises:
        DataError: the document has no words, visible characters stand between them, or an entity is not on them.
    """
    from spacy.tokens import Doc, Span, SpanGroup
    from spacy.util import filter_spans

    words, spaces, positions = _pieces(document)
    sentence_starts: list[bool | int | None] | None = None
    if document.sentences is not None and words:
        first = {positions[start] for start, _ in document.sentences[1:]} | {0}
        sentence_starts = [index in first for index in range(len(words))]
    doc = Doc(vocab, words=words, spaces=spaces, sent_starts=sentence_starts, user_data=_user_data(document))
    starts = {token.idx: token.i for token in doc}
    ends = {token.idx + len(token.text): token.i + 1 for token in doc}
    spans, scores = [], []
    for number, entity in kept_entities(document, report, "spacy"):
        if entity.start not in starts or entity.end not in ends:
            raise DataError(
                f"{_before(document.place_of(number))}the entity {shown(document.text_of(entity))} "
                "is not on token boundaries, and spaCy counts in words",
                advice="Choose a policy for it (alignment).",
            )
        spans.append(Span(doc, starts[entity.start], ends[entity.end], label=entity.label))
        scores.append(entity.score)
    attributes = {} if all(score is None for score in scores) else {"scores": scores}
    doc.spans[spans_key] = SpanGroup(doc, name=spans_key, spans=spans, attrs=attributes)
    doc.ents = filter_spans(spans)
    return doc


def _pieces(document: Document) -> tuple[list[str], list[bool], list[int]]:
    """Words and whether a space follows each, white space among them, and the position of each of our own."""
    if document.tokens is None:
        raise DataError(
            f"{document.place or 'a document'} has no words, and spaCy needs them", advice="Split it first."
        )
    words: list[str] = []
    spaces: list[bool] = []
    positions: list[int] = []
    before, size = 0, len(document.text)
    for start, end in (*document.tokens, Token(size, size)):
        gap, word = document.text[before:start], document.text[start:end]
        if gap.strip() or (word and word.isspace()):
            at = _before(document.place)
            wrong = f"the token {shown(word)} is white space" if not gap.strip() else f"{shown(gap)} is in no token"
            raise DataError(f"{at}{wrong}, and a spaCy Doc is made of words and white space between them")
        if gap.startswith(" ") and words:  # spaCy's way of saying that a single space follows
            spaces[-1], gap = True, gap[1:]
        for piece in filter(None, (gap, word)):
            words.append(piece)
            spaces.append(False)
        positions.append(len(words) - 1)
        before = end
    return words, spaces, positions


def _before(place: str) -> str:
    return f"{place}: " if place else ""


def _user_data(document: Document) -> dict[str, str]:
    kept: dict[str, Any] = {"id": document.id} if document.id else {}
    kept |= incomplete.values(document)
    if document.meta:
        kept["meta"] = dict(document.meta)
    try:
        return {_USER_KEY: dumped(kept)} if kept else {}
    except (TypeError, ValueError) as error:
        raise DataError(f"{document.place or 'a document'}: 'meta' cannot be written as JSON: {error}") from None


def looks(peek: Peek) -> bool:
    """A file with spaCy's own ending; its content says little."""
    return not peek.is_folder and peek.suffix == ".spacy"


FORMAT = Format(
    "spacy",
    "spaCy DocBin; span groups and doc.ents, exclusive ends; keeps all but discontinuous entities",
    looks,
    read,
    write,
    ".spacy",
    options=_OPTIONS,
    writing={"spans_key": _OPTIONS["spans_key"]},
    words=True,
)
__all__ = ["FORMAT", "doc_of", "document_of", "new_vocab", "sentences_of"]
