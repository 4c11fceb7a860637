"""The corpora beside a development checkout: counts that the literature gives, two formats of one corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from nestree.data import Document, Policies, Report, Splitter, read
from nestree.data.policies import aligned
from nestree.data.statistics import count

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the development corpora are not in {DATA}")


def test_genia_dev_has_the_papers_counts() -> None:
    found = count(read(DATA / "genia" / "dev.data"))
    assert (found.sentences, found.nested_sentences, found.entities, found.nested_entities) == (1855, 362, 5014, 903)


@pytest.mark.parametrize(("part", "least"), [("train", 0.99), ("dev", 0.98)])
def test_the_original_genia_gives_the_same_words_and_entities(part: str, least: float) -> None:
    xml = DATA / "genia" / "GENIAcorpus3.02.train-dev.xml"
    listed = list(read(DATA / "genia" / f"{part}.data"))
    found = list(read(xml, options={"split": part}))
    listed = listed[: len(found)]
    assert len(found) >= len(listed) > 1800
    same = sum(
        _spans(one) == _spans(other) and one.words == other.words for one, other in zip(found, listed, strict=True)
    )
    assert same / len(listed) >= least
    numbers = [sum(len(document.entities) for document in documents) for documents in (found, listed)]
    assert abs(numbers[0] - numbers[1]) <= 0.001 * numbers[1]


def _spans(document: Document) -> Counter[tuple[object, str]]:
    return Counter((entity.tokens, entity.label) for entity in document.entities)


def test_germeval_train_has_24000_sentences() -> None:
    found = count(read(DATA / "germeval2014" / "train.tsv"))
    assert (found.sentences, len(found.labels)) == (24_000, 12)


def _visible(text: str) -> str:
    return re.sub(r"\s", "", text)


def _places(documents: Iterable[Document]) -> Counter[tuple[int, int, str]]:
    """Entities by visible characters: columns have no white space of their own."""
    found, offset = Counter[tuple[int, int, str]](), 0
    for document in documents:
        for entity in document.entities:
            start, end = (offset + len(_visible(document.text[:at])) for at in (entity.start, entity.end))
            found[start, end, entity.label] += 1
        offset += len(_visible(document.text))
    return found


def test_litbank_says_the_same_in_brat_and_in_columns() -> None:
    """But for 19 entities that end within a word in brat, and at its end in the columns."""
    entities, off_words = 0, 0
    words = Splitter("whitespace", "en", "lines")
    for split in ("train", "dev"):
        for book in read(DATA / "litbank" / split / "brat"):
            entities += len(book.entities)
            columns = _places(read(next((DATA / "litbank" / split / "tsv").glob(book.id.replace("_brat", "") + "*"))))
            off_words += (_places([book]) - columns).total()
            expanded = aligned(words.split(book), Policies(alignment="expand"), Report())
            assert _places([expanded]) == columns
    assert (entities, off_words) == (11_041, 19)
