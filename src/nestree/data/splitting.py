"""From raw text to sentences and words, with exact offsets: the same code when a model is trained and when it reads.

Sentences come from sentencex, words from the pre-tokenizers of Hugging Face ``tokenizers`` or from spaCy. The choice is
two names (:class:`Splitter`), which are stored with a model. For corpora that come as words, :func:`best_words` finds
the way of splitting that gives their words back.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nestree.data.errors import DataError
from nestree.data.model import Document, Range, Tokens

Spans = list[Range]


@dataclass(frozen=True)
class Splitter:
    """How text is split.

    Attributes:
        words: "punctuation" (at white space, every punctuation mark by itself), "whitespace", or "spacy" (the rules of
            spaCy for the language; needs spaCy).
        language: ISO 639 code; sentences and spaCy's rules depend on it.
        sentences: "sentencex", "lines" (each line is a sentence) or "none" (the text is one sentence).
    """

    words: str = "punctuation"
    language: str = "en"
    sentences: str = "sentencex"

    def __post_init__(self) -> None:
        for name, known in (("words", WORDS), ("sentences", SENTENCES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; known are {', '.join(map(repr, known))}.")
        if not re.fullmatch("[a-z]{2,3}", self.language):
            raise ValueError(f"language is {self.language!r}; it is a code of two or three letters, such as 'en'.")

    def split(self, document: Document) -> Document:
        """The document with tokens and sentences; as it is, if it has them."""
        if document.tokens is not None and document.sentences is not None:
            return document
        if document.tokens is not None:
            return document.with_tokens(document.tokens, self._sentences(document.text, document.tokens))
        tokens, sentences = self(document.text)
        return document.with_tokens(tokens, sentences)

    def __call__(self, text: str) -> tuple[Tokens, tuple[Range, ...]]:
        """Tokens, and sentences as ranges of tokens."""
        words = WORDS[self.words](self.language)
        starts: list[int] = []
        ends: list[int] = []
        sentences = []
        for sentence_start, sentence_end in SENTENCES[self.sentences](text, self.language):
            first = len(starts)
            for start, end in words(text[sentence_start:sentence_end]):
                start, end = sentence_start + start, sentence_start + end
                if not text[start:end].isspace():  # some control characters are white space to Python alone
                    starts.append(start)
                    ends.append(end)
            if len(starts) > first:
                sentences.append((first, len(starts)))
        return Tokens(starts, ends), tuple(sentences)

    def _sentences(self, text: str, tokens: Tokens) -> tuple[Range, ...]:
        """Sentences over tokens that are there already: a token belongs where it begins."""
        sentences, first = [], 0
        for _, end in SENTENCES[self.sentences](text, self.language):
            last = first
            while last < len(tokens) and tokens[last].start < end:
                last += 1
            if last > first:
                sentences.append((first, last))
            first = last
        return tuple(sentences)


# --- Sentences -------------------------------------------------------------------------------------------------------


def _sentencex(text: str, language: str) -> Spans:
    from sentencex import get_sentence_boundaries  # a compiled library; loaded when text is split

    clean = without_surrogates(text)
    spans, reached = [], 0
    for found in get_sentence_boundaries(language, clean):
        start, end = max(reached, found["start_index"]), min(len(text), found["end_index"])
        if start > reached:  # nothing may be lost between sentences
            spans.append((reached, start))
        if end > start:
            spans.append((start, end))
            reached = end
    if reached < len(text):
        spans.append((reached, len(text)))
    return spans


def _lines(text: str, language: str) -> Spans:
    spans, start = [], 0
    for line in text.splitlines(keepends=True):
        spans.append((start, start + len(line)))
        start += len(line)
    return spans


SENTENCES: dict[str, Callable[[str, str], Spans]] = {
    "sentencex": _sentencex,
    "lines": _lines,
    "none": lambda text, language: [(0, len(text))],
}

# --- Words -----------------------------------------------------------------------------------------------------------


def _pre_tokenizer(name: str) -> Callable[[str], Spans]:
    from tokenizers import pre_tokenizers

    split = getattr(pre_tokenizers, name)().pre_tokenize_str
    return lambda text: [span for _, span in split(without_surrogates(text))]


@lru_cache
def _punctuation(language: str) -> Callable[[str], Spans]:
    return _pre_tokenizer("BertPreTokenizer")


@lru_cache
def _whitespace(language: str) -> Callable[[str], Spans]:
    return _pre_tokenizer("WhitespaceSplit")


@lru_cache
def _spacy(language: str) -> Callable[[str], Spans]:
    if not has_spacy():
        raise ImportError('splitting words as spaCy does needs spaCy: pip install "nestree[spacy]"')
    import spacy

    try:
        tokenizer = spacy.blank(language).tokenizer
    except ImportError:
        raise DataError(f"spaCy has no rules for the language {language!r}", advice="'xx' is for any.") from None

    def split(text: str) -> Spans:
        tokens = tokenizer(without_surrogates(text))
        return [(token.idx, token.idx + len(token)) for token in tokens if not token.is_space]

    return split


WORDS: dict[str, Callable[[str], Callable[[str], Spans]]] = {
    "punctuation": _punctuation,
    "whitespace": _whitespace,
    "spacy": _spacy,
}


def has_spacy() -> bool:
    """Whether spaCy is installed."""
    return importlib.util.find_spec("spacy") is not None


def without_surrogates(text: str) -> str:
    """Lone surrogates cannot be handed to compiled libraries; a replacement of the same length can."""
    if text.isascii():
        return text
    return text if text.isprintable() else "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


# --- Finding out how a corpus was split ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """How well a way of splitting gives the words of a corpus back: shares of words, and of whole sentences."""

    words: str
    language: str
    same_words: float
    same_sentences: float

    def __str__(self) -> str:
        return f"{self.words}: {self.same_words:.1%} of the words, {self.same_sentences:.1%} of the sentences"


def best_words(sentences: Iterable[Sequence[str]], language: str = "en") -> list[Agreement]:
    """Ways of splitting words, the one that best reproduces these sentences first.

    The corpus does not say where there was white space between its words, so it is guessed: none between a word and a
    mark that is written close to it (:func:`glued`). Splitting that text should give the words back.
    """
    ways = [name for name in WORDS if name != "spacy" or has_spacy()]
    split = {name: WORDS[name](language) for name in ways}
    right, whole = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)
    words_seen = sentences_seen = 0
    for words in sentences:
        text, spans = glued(words)
        words_seen += len(spans)
        sentences_seen += 1
        wanted = set(spans)
        for name in ways:
            found = split[name](text)
            right[name] += sum(span in wanted for span in found)
            whole[name] += found == spans
    agreements = [
        Agreement(name, language, right[name] / max(1, words_seen), whole[name] / max(1, sentences_seen))
        for name in ways
    ]
    return sorted(agreements, key=lambda agreement: -agreement.same_words)


_CLOSE_LEFT = {"Pe", "Pf"}
_CLOSE_RIGHT = {"Ps", "Pi"}
_CLOSE_BOTH = {"-", "/", "'", "\u2019"}


def glued(words: Sequence[str]) -> tuple[str, Spans]:
    """Words as they were probably written, and where each stands: ``GATA - 1 , ( CD28 )`` is ``GATA-1, (CD28)``."""
    text = ""
    spans = []
    tight = True  # whether the next word follows without a space
    open_quotes: set[str] = set()
    for word in words:
        left, right = _closeness(word, open_quotes)
        if not (tight or left):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
        tight = right
    return text, spans


def _closeness(word: str, open_quotes: set[str]) -> tuple[bool, bool]:
    """Whether a word is written close to the one before it, and to the one after it."""
    if word in _CLOSE_BOTH:
        return True, True
    if word in {'"', "``", "''", "“", "”", "„"}:
        closing = word in open_quotes or word in {"''", "”"}
        open_quotes ^= {word}
        return closing, not closing
    kind = unicodedata.category(word[0]) if word else ""
    if len(word) == 1 and kind in _CLOSE_RIGHT:
        return False, True
    close_left = kind in _CLOSE_LEFT or word[:1] in set(",.;:!?%'\u2019") or word == "n't"
    return close_left, False


def splitter_like(
    documents: Iterable[Document], language: str = "en", most: int = 2000
) -> tuple[Splitter, list[Agreement]]:
    """The splitter that a model for such a corpus needs to read raw text as it was trained, and how well others agree.

    Looks at the first ``most`` sentences that come as words; of a corpus of texts, the usual splitter is the one.
    """
    sample: list[Sequence[str]] = []
    for document in documents:
        if document.tokens and document.text == " ".join(document.words):
            sample += [document.words[start:end] for start, end in document.sentences or ()]
        if len(sample) >= most:
            break
    agreements = best_words(sample[:most], language) if sample else []
    return Splitter(agreements[0].words if agreements else "punctuation", language), agreements
