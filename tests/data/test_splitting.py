"""Splitting text into sentences and words."""

from __future__ import annotations

import pytest

from nestree.data import Document, Splitter, best_words, read, splitter_like
from tests.data.cases import CORPORA


def test_sentences_and_words_of_a_text() -> None:
    text = "Dr. Okafor met E. coli (5.3%) in St. Ives. It's fine!\n\nNext: 😀 cafe\u0301."
    document = Splitter().split(Document(text))
    assert document.sentences is not None
    first = [document.words[start:end] for start, end in document.sentences]
    assert [sentence[0] for sentence in first] == ["Dr", "It", "Next"]
    assert first[2] == ("Next", ":", "😀", "cafe\u0301", ".")


def test_the_splitter_that_reproduces_a_corpus_is_found() -> None:
    agreements = best_words([document.words for document in read(CORPORA / "words.jsonl")])
    assert agreements[0].words == "punctuation"
    assert agreements[0].same_words == 1
    assert str(agreements[0]) == "punctuation: 100.0% of the words, 100.0% of the sentences"
    assert [one.same_words for one in agreements] == sorted((one.same_words for one in agreements), reverse=True)


def test_a_model_gets_the_splitter_of_its_corpus() -> None:
    splitter, agreements = splitter_like(read(CORPORA / "words.jsonl"))
    assert splitter == Splitter("punctuation", "en")
    assert agreements[0].same_sentences == 1
    assert splitter_like(read(CORPORA / "text.jsonl"), "de") == (Splitter("punctuation", "de"), [])
    spaced = [Document.from_words(["co-op,", "(a)"])] * 3
    assert splitter_like(spaced)[0].words == "whitespace"


def test_words_that_are_there_are_kept_and_sentences_are_added() -> None:
    text = "One two. Three."
    document = Splitter("whitespace", "en", "none").split(Document(text))
    assert document.tokens is not None
    bare = Document(text).with_tokens(document.tokens, None)
    assert Splitter().split(bare).sentences == ((0, 2), (2, 3))


def test_spacy_splits_as_spacy_does() -> None:
    pytest.importorskip("spacy")
    words = Splitter("spacy", "en", "none").split(Document("I don't know, Mr. X.")).words
    assert words == ("I", "do", "n't", "know", ",", "Mr.", "X.")


def test_lone_surrogates_and_control_characters_are_words_like_others() -> None:
    document = Splitter().split(Document("a \ud800 b\x00"))
    assert document.words == ("a", "\ud800", "b\x00")


def test_unknown_ways_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="words is 'moses'; known are 'punctuation', 'whitespace', 'spacy'"):
        Splitter("moses")
