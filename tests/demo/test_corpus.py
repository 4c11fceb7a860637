"""The demo corpus is what its source says, and shows what it should."""

from collections import defaultdict
from pathlib import Path

import pytest

from nestree.data import DataError, Document, read
from nestree.data.checks import Check
from nestree.data.statistics import count
from nestree.demo import CORPUS
from nestree.demo.build import FILES, LABELS, build, parse, read_source


def splits() -> dict[str, list[Document]]:
    return {split: list(read(CORPUS / name)) for split, name in FILES.items()}


def test_the_files_are_what_the_source_makes(tmp_path: Path) -> None:
    for path in build(CORPUS / "source.txt", tmp_path):
        assert path.read_bytes() == (CORPUS / path.name).read_bytes(), "run python -m nestree.demo.build"


def test_every_format_holds_the_words_and_entities_of_the_source() -> None:
    source = read_source(CORPUS / "source.txt")
    for split, documents in splits().items():
        assert [one.words for one in documents] == [one.words for one in source[split]]
        for ours, theirs in zip(documents, source[split], strict=True):
            assert {(one.tokens, one.label) for one in ours.entities} == {
                (one.tokens, one.label) for one in theirs.entities
            }


def test_the_training_text_reads_as_in_print() -> None:
    first = next(read(CORPUS / FILES["train"]))
    assert first.text.startswith("U.S. State Department spokesman ")
    assert first.text.endswith(" on Monday.")
    assert [first.text_of(one) for one in first.entities][1:] == ["U.S. State Department", "U.S."]


def test_the_check_passes() -> None:
    check = Check()
    for split, documents in splits().items():
        check.split(split, documents)
    assert not check.failed
    assert not check.report.counts
    assert check.as_they_are == check.entities


def test_every_split_has_every_label_and_is_nested_three_deep() -> None:
    for documents in splits().values():
        statistics = count(documents)
        assert set(statistics.labels) == set(LABELS)
        assert statistics.depth >= 3
        assert any(not one.entities for one in documents)


def test_no_sentence_is_in_two_splits() -> None:
    seen: dict[str, str] = {}
    for split, documents in splits().items():
        for document in documents:
            assert seen.setdefault(" ".join(document.words).lower(), split) == split


def test_no_seven_words_in_a_row_are_in_two_splits() -> None:
    seen: dict[tuple[str, ...], str] = {}
    for split, documents in splits().items():
        for document in documents:
            words = [word.lower() for word in document.words]
            for start in range(len(words) - 6):
                assert seen.setdefault(tuple(words[start : start + 7]), split) == split


def test_the_same_words_have_different_labels() -> None:
    labels = defaultdict(set)
    for document in splits()["train"]:
        for entity in document.entities:
            labels[document.text_of(entity)].add(entity.label)
    for name in ("Washington", "Jordan", "Lincoln", "Florence", "Paris", "Santiago", "Victoria", "Orlando"):
        assert labels[name] == {"PER", "GPE"}
    assert labels["Chelsea"] == {"PER", "GPE", "ORG"}
    assert labels["St Mary's"] == {"ORG", "FAC"}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[PER Anna Reyes left .", "is never closed"),
        ("Anna Reyes] left .", "was never opened"),
        ("[PERSON Anna Reyes] left .", "no known label"),
        ("[PER [ORG Anna Reyes]] left .", "the same words"),
        ("Anna  Reyes left .", "is not a word"),
        ("Anna Re[yes left .", "is not a word"),
        ("[PER] Anna left .", "no known label"),
        ("[PER ] Anna left .", "is not a word"),
    ],
)
def test_a_faulty_line_is_an_error(line: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        parse(line)


def test_an_error_in_the_source_names_the_line(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    for text, message in {
        "# train\n\nAnna left .\n[PER Anna stayed .\n": "source.txt:4: the bracket",
        "# train\nAnna left .\n# dev\nAnna left .\n": "source.txt:4: this sentence is in line 2 too",
        "Anna left .\n": "source.txt:1: a sentence comes before any split",
    }.items():
        source.write_text(text)
        with pytest.raises(DataError, match=message):
            read_source(source)
