"""From a Doc of spaCy to what a model reads, and from what it finds to spans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.tokens import Span, SpanGroup

from nestree.data import Document, Entity, Splitter, Tokens
from nestree.data.formats.spacy_docbin import sentences_of
from nestree.integrations.spacy.settings import Settings

if TYPE_CHECKING:
    from spacy.tokens import Doc

COMPONENT = "component"
"""Says, among the attributes of a span group, which component wrote it."""


class _Found(NamedTuple):
    """An entity in spaCy's tokens."""

    start: int
    end: int
    label: str
    score: float


def document_of(doc: Doc, settings: Settings, splitter: Splitter) -> Document:
    """A Doc with words and sentences, as the settings want them. White space is no word."""
    known = settings.sentences == "spacy" and doc.has_annotation("SENT_START")
    if settings.words == "model":
        return _split_within(doc, splitter) if known else splitter.split(Document(doc.text))
    visible = [token for token in doc if token.text.strip()]
    tokens = Tokens([token.idx for token in visible], [token.idx + len(token.text) for token in visible])
    sentences = tuple((start, end) for start, end in sentences_of(doc)) if known else None
    return splitter.split(Document(doc.text, tokens=tokens, sentences=sentences))


def _split_within(doc: Doc, splitter: Splitter) -> Document:
    """The model's words within spaCy's sentences."""
    text, whole = doc.text, replace(splitter, sentences="none")
    starts: list[int] = []
    ends: list[int] = []
    sentences = []
    for sentence in doc.sents:
        first, offset = len(starts), sentence.start_char
        for start, end in whole(text[offset : sentence.end_char])[0]:
            starts.append(offset + start)
            ends.append(offset + end)
        if len(starts) > first:
            sentences.append((first, len(starts)))
    return Document(text, tokens=Tokens(starts, ends), sentences=tuple(sentences))


def check_free(doc: Doc, settings: Settings, name: str) -> None:
    """Raises a ValueError if the Doc has spans of another component where ours would go."""
    key = settings.spans_key
    if settings.overwrite or key not in doc.spans:
        return
    there = doc.spans[key]
    if len(there) and there.attrs.get(COMPONENT) != name:
        raise ValueError(
            f"doc.spans[{key!r}] holds {len(there)} spans already, which the component {name!r} would replace. "
            "Set another spans_key, or overwrite = True."
        )


def write_entities(doc: Doc, entities: Iterable[Entity], settings: Settings, name: str) -> None:
    """Sets ``doc.spans``, and ``doc.ents`` if they are asked for."""
    found = _in_tokens(doc, entities)
    spans = {one: Span(doc, one.start, one.end, label=one.label) for one in found}
    attributes = {"scores": np.array([one.score for one in found], dtype=np.float64), COMPONENT: name}
    key = settings.spans_key
    doc.spans[key] = SpanGroup(doc, name=key, attrs=attributes, spans=list(spans.values()))
    if settings.ents is not None:
        from nestree.prediction.results import flattened

        flat = flattened([Entity(*one) for one in found], settings.ents)
        doc.ents = [spans[_Found(one.start, one.end, one.label, one.score or 0.0)] for one in flat]


def _in_tokens(doc: Doc, entities: Iterable[Entity]) -> list[_Found]:
    """Entities in whole tokens, outer ones first. Of those that become one, the better score counts."""
    best: dict[tuple[int, int, str], float] = {}
    for entity in entities:
        span = doc.char_span(entity.start, entity.end, alignment_mode="expand")
        assert span is not None, "entities lie within the text"
        place = span.start, span.end, entity.label
        best[place] = max(best.get(place, 0.0), entity.score or 0.0)
    found = [_Found(*place, score) for place, score in best.items()]
    return sorted(found, key=lambda one: (one.start, -one.end, -one.score, one.label))
