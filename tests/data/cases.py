"""Small corpora in every format, and documents at random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from nestree.data import Admissible, Document, Entity, Splitter

CORPORA = Path(__file__).parent / "corpora"
SHIPPED = {
    "jsonl": "text.jsonl",
    "brat": "brat",
    "prodigy": "prodigy.jsonl",
    "doccano": "doccano.jsonl",
    "label-studio": "label-studio.json",
    "columns": "columns.tsv",
    "conll": "words.conll",
    "three-line": "three-line.data",
    "dygie": "dygie.json",
    "cnn-ner": "cnn-ner.json",
    "gliner": "gliner.json",
    "genia-xml": "genia.xml",
    "ace": "ace",
    "spacy": "words.spacy",
    "parquet": "text.parquet",
}
OF_TEXT = ("jsonl", "brat", "prodigy", "doccano", "label-studio", "parquet")
OF_WORDS = ("columns", "conll", "three-line", "dygie", "cnn-ner", "gliner", "spacy")

Said = tuple[str, str, int, int]


def said(document: Document) -> list[tuple[int, int, str, tuple[tuple[int, int], ...]]]:
    """What is annotated, in characters, whatever the order."""
    return sorted((one.start, one.end, one.label, one.fragments) for one in document.entities)


LABELS = st.sampled_from(["PER", "ORG", "cell-line", "B-x", "Größe", "😀", "a.b", "O"])
LETTERS = st.sampled_from([*"aBz09.,-#|()'\"/é\u0301😀東ß", "\u200b", "\u05d0"])
WORDS = st.text(LETTERS, min_size=1, max_size=6).filter(lambda word: word == word.strip() and word != "")


@st.composite
def admissibles(draw: st.DrawFn, size: int) -> Admissible:
    """Admissible spans of something that long."""
    start = draw(st.integers(0, size - 1))
    end, excluded = draw(st.integers(start + 1, size)), draw(st.booleans())
    labels = draw(st.lists(LABELS if excluded else st.none() | LABELS, min_size=1, max_size=3, unique=True))
    return Admissible(start, end, tuple(labels), excluded)


@st.composite
def incomplete(draw: st.DrawFn, document: Document) -> Document:
    """A document that says that it is not annotated completely, or says nothing of it; on words, if it has any."""
    words = document.tokens is not None and draw(st.booleans())
    size = len(document.words) if words else len(document.text)
    if not size:
        return document
    admissible = draw(st.lists(admissibles(size), max_size=2))
    unknown = [(one.start, one.end) for one in draw(st.lists(admissibles(size), max_size=1))]
    if words and document.tokens is not None:
        admissible = [Admissible(*document.tokens.characters(*one[:2]), *one[2:]) for one in admissible]
        unknown = [document.tokens.characters(*one) for one in unknown]
    complete = draw(st.none() | st.lists(LABELS, max_size=2, unique=True).map(tuple))
    return replace(document, admissible=tuple(admissible), unknown=tuple(unknown), complete_labels=complete)


@st.composite
def word_documents(draw: st.DrawFn, *, crossing: bool = True, sentences: bool = True) -> Document:
    """Documents of words, with entities on them."""
    words = draw(st.lists(WORDS, min_size=1, max_size=12))
    count = len(words)
    spans = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, count - 1))
        spans.append((start, draw(st.integers(start + 1, count)), draw(LABELS)))
    if not crossing:
        spans = _nested(spans)
    cuts = sorted(set(draw(st.lists(st.integers(1, count - 1), max_size=2)))) if sentences and count > 1 else []
    borders = tuple(zip([0, *cuts], [*cuts, count], strict=True))
    return draw(incomplete(Document.from_words(words, spans, sentences=borders)))


def _nested(spans: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    kept: list[tuple[int, int, str]] = []
    for start, end, label in spans:
        if not any(a < start < b < end or start < a < end < b for a, b, _ in kept):
            kept.append((start, end, label))
    return kept


TEXTS = st.text(
    st.one_of(st.sampled_from([*"ab .,'-\n\t😀é", "\u0301", "\r", "\u2028"]), st.characters(codec="utf-8")),
    min_size=1,
    max_size=40,
)


@st.composite
def text_documents(draw: st.DrawFn, *, pieces: bool = False, tokens: bool = False) -> Document:
    """Documents of text, with entities anywhere."""
    text = draw(TEXTS)
    entities = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        fragments: tuple[tuple[int, int], ...] = ()
        if pieces and end - start >= 3 and draw(st.booleans()):
            cut = draw(st.integers(start + 1, end - 2))
            fragments = ((start, cut), (draw(st.integers(cut + 1, end - 1)), end))
        entities.append(Entity(start, end, draw(LABELS), fragments=fragments))
    document = Document(text, tuple(entities))
    return draw(incomplete(Splitter().split(document) if tokens else document))
