"""Small corpora in every format, and documents at random."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from nestree.data import Document, Entity, Splitter

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
    return Document.from_words(words, spans, sentences=borders)


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
    return Splitter().split(document) if tokens else document
