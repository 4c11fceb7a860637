"""Errors: a table against a naive recount, kinds worked by hand, and the page as those who read it find it."""

from __future__ import annotations

import builtins
import csv
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.data import DataError, Document, Entity, Source
from nestree.evaluation import error_page as module
from nestree.evaluation import score
from nestree.evaluation.error_report import Errors, error_table, errors_page, write_errors
from nestree.evaluation.error_table import ErrorTable, heat_map_png
from nestree.evaluation.errors import find_errors

WORDS = ["a", "bb", "c", "dd", "e", "ff", "g"]
SPANS = st.tuples(st.integers(0, 6), st.integers(1, 7)).filter(lambda one: one[0] < one[1])
SCORES = st.none() | st.integers(0, 10).map(lambda one: one / 10)
LISTED = st.lists(st.tuples(SPANS, st.sampled_from(["X", "Y", "Z"]), SCORES), max_size=8)
LATENT = st.sets(SPANS, max_size=8)
Listed = list[tuple[tuple[int, int], str, float | None]]
Case = tuple[Listed, Listed, set[tuple[int, int]]]
CORPUS = st.lists(st.tuples(LISTED, LISTED, LATENT), max_size=4)


def document(listed: Listed, words: list[str] = WORDS, **rest: Any) -> Document:
    made = Document.from_words(words, [(*span, label) for span, label, _ in listed], **rest)
    entities = zip(made.entities, listed, strict=True)
    return replace(made, entities=tuple(entity._replace(score=one[2]) for entity, one in entities))


def characters(span: tuple[int, int]) -> tuple[int, int]:
    tokens = document([]).tokens
    assert tokens is not None
    return tokens.characters(*span)


def parts(corpus: list[Case]) -> tuple[list[Document], list[Document], list[set[tuple[int, int]]]]:
    return (
        [document(gold) for gold, _, _ in corpus],
        [document(found) for _, found, _ in corpus],
        [set(map(characters, latent)) for _, _, latent in corpus],
    )


def cells(table: ErrorTable) -> dict[tuple[str, str], int]:
    rows = zip(table.rows, table.counts, strict=True)
    pairs = ((name, label, count) for name, row in rows for label, count in zip(table.labels, row, strict=True))
    return {(name, label): count for name, label, count in pairs if count}


# --- The table ---


@given(CORPUS)
def test_the_table_is_that_of_a_naive_recount(corpus: list[Case]) -> None:
    wanted: Counter[tuple[str, str]] = Counter()
    for gold, found, latent in corpus:
        right = {(span, label) for span, label, _ in gold}
        for span, label in right:
            there: dict[str, float] = {}
            for other, name, value in found:
                if other == span:
                    there.setdefault(name, value or 0.0)
            if label in there:
                row = label
            elif there:
                row = sorted(there, key=lambda name: ((span, name) in right, -there[name], name))[0]
            else:
                row = "Latent" if span in latent else "None"
            wanted[row, label] += 1
    table = error_table(*parts(corpus))
    assert cells(table) == wanted
    assert table.labels == tuple(sorted({label for gold, _, _ in corpus for _, label, _ in gold}))


@given(CORPUS)
def test_columns_and_prior_add_up_to_1(corpus: list[Case]) -> None:
    table = error_table(*parts(corpus))
    for column in zip(*table.column_normalised(), strict=True):
        assert sum(column) == pytest.approx(1)
    assert not table.labels or sum(table.prior.values()) == pytest.approx(1)
    assert list(table.prior) == list(table.gold) == list(table.labels)


@given(CORPUS)
def test_the_diagonal_is_what_the_metrics_call_correct(corpus: list[Case]) -> None:
    gold, predicted, latent = parts(corpus)
    scores, table = score(gold, predicted), error_table(gold, predicted, latent)
    for label, count in table.gold.items():
        assert (cells(table).get((label, label), 0), count) == (scores.labels[label].correct, scores.labels[label].gold)


@given(CORPUS)
def test_without_trees_latent_is_none(corpus: list[Case]) -> None:
    gold, predicted, latent = parts(corpus)
    table, without = error_table(gold, predicted, latent), error_table(gold, predicted)
    assert "Latent" not in without.rows
    for row in ("X", "Y", "Z"):
        assert [cells(table).get((row, one)) for one in "XYZ"] == [cells(without).get((row, one)) for one in "XYZ"]
    assert without.gold == table.gold


def worked() -> tuple[Document, Document, set[tuple[int, int]]]:
    words = ["Ann", "of", "Acme", "Inc", "met", "Bo", "in", "Old", "York"]
    gold: Listed = [
        ((0, 4), "PER", None),  # right
        ((2, 4), "ORG", None),  # predicted as another label
        ((5, 6), "PER", None),  # a latent node
        ((7, 9), "GPE", None),  # no node: the prediction goes another way
        ((7, 9), "GPE", None),  # a duplicate
        ((8, 9), "GPE", None),  # right
    ]
    found: Listed = [
        ((0, 4), "PER", 0.9),
        ((2, 4), "GPE", 0.8),
        ((6, 8), "ORG", 0.7),  # crosses Old York, and nothing is there
        ((8, 9), "GPE", 0.95),
    ]
    one = document(gold, words, source=Source("test.data", 7))
    tokens = one.tokens
    assert tokens is not None
    return one, document(found, words), {tokens.characters(5, 6), tokens.characters(0, 9)}


def test_the_worked_table() -> None:
    gold, predicted, latent = worked()
    table = error_table([gold], [predicted], [latent])
    assert table.labels == ("GPE", "ORG", "PER")
    assert table.rows == ("GPE", "ORG", "PER", "Latent", "None")
    assert table.counts == ((1, 1, 0), (0, 0, 0), (0, 0, 1), (0, 0, 1), (1, 0, 0))
    assert table.prior == {"GPE": 0.4, "ORG": 0.2, "PER": 0.4}
    assert table.as_text().split("\n") == [
        "         GPE   ORG   PER",
        "------  ----  ----  ----",
        "ρ       0.40  0.20  0.40",
        "------  ----  ----  ----",
        "GPE     0.50  1.00  0.00",
        "ORG     0.00  0.00  0.00",
        "PER     0.00  0.00  0.50",
        "Latent  0.00  0.00  0.50",
        "None    0.50  0.00  0.00",
    ]
    rows = list(csv.reader(StringIO(table.as_csv())))
    assert rows[:4] == [
        ["predicted", "GPE", "ORG", "PER"],
        ["prior", "0.4", "0.2", "0.4"],
        ["gold", "2", "1", "2"],
        ["GPE", "0.5", "1.0", "0.0"],
    ]
    assert [row[0] for row in rows[3:]] == list(table.rows)


def test_labels_that_were_only_predicted_have_a_row_and_no_column() -> None:
    table = error_table([document([((0, 1), "Y", None)])], [document([((0, 1), "A", 1.0), ((3, 4), "B", 1.0)])])
    assert (table.labels, table.rows, table.counts) == (("Y",), ("Y", "A", "None"), ((0,), (1,), (0,)))


def test_labels_may_be_called_latent_and_none() -> None:
    gold = document([((0, 1), "None", None), ((1, 2), "Latent", None), ((2, 3), "None", None)])
    table = error_table([gold], [document([((0, 1), "None", None)])], [{characters((1, 2))}])
    assert table.labels == ("Latent", "None")
    assert table.rows == ("Latent", "None", "Latent", "None")
    assert table.counts == ((0, 0), (0, 1), (1, 0), (0, 1))


def test_an_entity_in_pieces_is_no_node() -> None:
    pieces = Entity(0, 4, "X", fragments=((0, 1), (3, 4)))
    gold = Document("a b c", (pieces, Entity(0, 5, "X")))
    assert cells(error_table([gold], [Document("a b c")], [{(0, 4), (0, 5)}])) == {("Latent", "X"): 1, ("None", "X"): 1}


def test_documents_must_be_the_same() -> None:
    one, other = document([]), document([], ["other"])
    with pytest.raises(DataError, match="another text"):
        error_table([one], [other])
    with pytest.raises(DataError, match="the predictions end after 1"):
        error_table([one, one], [one], [set()])
    with pytest.raises(ValueError, match="latent nodes end after 1 documents"):
        error_table([one, one], [one, one], [set()])


# --- Kinds of errors ---


def test_the_worked_kinds() -> None:
    gold, predicted, _ = worked()
    found = [(one.kind, one.label, one.confidence) for one in find_errors(gold, predicted)]
    assert found == [
        ("wrong label", "ORG", 0.8),
        ("spurious", "ORG", 0.7),
        ("missed", "GPE", 0.7),  # no tree holds it beside the spurious one
        ("missed", "PER", None),
    ]


def test_boundaries_go_to_what_overlaps_most() -> None:
    gold = document([((0, 2), "X", None), ((1, 6), "X", None), ((6, 7), "X", None)])
    found = document([((0, 5), "X", 0.4), ((0, 6), "X", 0.6), ((3, 4), "Y", 0.9)])
    pairs = [
        (one.kind, one.gold and one.gold.tokens, one.predicted and one.predicted.tokens)
        for one in find_errors(gold, found)
    ]
    assert sorted(pairs, key=str) == [
        ("missed", (6, 7), None),
        ("spurious", None, (3, 4)),
        ("wrong boundary", (0, 2), (0, 5)),
        ("wrong boundary", (1, 6), (0, 6)),
    ]


@given(LISTED, LISTED)
def test_every_entity_that_is_not_right_belongs_to_one_error(gold: Listed, found: Listed) -> None:
    errors = find_errors(document(gold), document(found))
    some, others = ({(span, label) for span, label, _ in side} for side in (gold, found))
    missed = Counter((one.gold.tokens, one.gold.label) for one in errors if one.gold)
    extra = Counter((one.predicted.tokens, one.predicted.label) for one in errors if one.predicted)
    assert missed == Counter(some - others)
    assert extra == Counter(others - some)
    for error in errors:
        one, other = error.gold, error.predicted
        if error.kind == "wrong label":
            assert one is not None
            assert other is not None
            assert one.tokens == other.tokens
            assert one.label != other.label
        elif error.kind == "wrong boundary":
            assert one is not None
            assert other is not None
            assert one.label == other.label
            assert max(one.start, other.start) < min(one.end, other.end)
            assert one.tokens != other.tokens
        else:
            assert error.kind == ("missed" if one else "spurious")
    ranks = [error.rank for error in errors]
    assert ranks == sorted(ranks, reverse=True)
    left = [(one.gold or one.predicted, one.kind) for one in errors if one.kind in ("missed", "spurious")]
    for entity, kind in left:  # no two of them would make a pair
        for other, another in left:
            assert entity is not None
            assert other is not None
            if (kind, another) == ("missed", "spurious"):
                assert entity.tokens != other.tokens
                assert entity.label != other.label or entity.end <= other.start or other.end <= entity.start


def test_scores_that_are_no_numbers_count_as_unknown() -> None:
    errors = find_errors(document([]), document([((0, 1), "X", float("nan")), ((2, 3), "X", 0.6), ((4, 5), "X", 0.4)]))
    assert [one.confidence for one in errors] == [0.6, None, 0.4]


# --- The page ---


def parsed(page: str) -> ElementTree.Element:
    """The page, which is well-formed, and whose links all lead somewhere."""
    assert page.startswith("<!DOCTYPE html>\n")
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    names = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(names) == len(set(names))
    for link in root.iter("a"):
        assert (link.get("href") or "").removeprefix("#") in names
    return root


def text(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def drawn(article: ElementTree.Element) -> dict[str, list[tuple[str, str]]]:
    """What is above and below the words: label with score, and where."""
    found: dict[str, list[tuple[str, str]]] = {"above": [], "below": []}
    for one in article.iter("span"):
        side, *rest = (one.get("class") or "").split()[:2] or [""]
        if side in found:
            pale = " (right)" if rest == ["right"] else ""
            found[side].append((text(one) + pale, (one.get("style") or "").removeprefix("grid-area:")))
    return found


def test_the_worked_page() -> None:
    gold, predicted, latent = worked()
    root = parsed(errors_page([gold], [predicted], latent=[latent]))
    (article,) = root.iter("article")
    assert text(next(article.iter("h3"))) == "1 test.data:7 ↑ index"
    assert [text(one) for one in article.iter("li")] == [
        "wrong label ORG “Acme Inc”, predicted GPE 0.80",
        "spurious ORG “in Old” 0.70",
        "missed GPE “Old York” absent: 0.70",
        "missed PER “Bo”",
    ]
    assert drawn(article) == {
        "above": [
            ("PER (right)", "1/2/auto/6"),
            ("ORG", "2/4/auto/6"),
            ("PER", "2/7/auto/8"),
            ("GPE", "1/9/auto/11"),
            ("GPE (right)", "2/10/auto/11"),
        ],
        "below": [
            ("PER 0.90 (right)", "5/2/auto/6"),
            ("GPE 0.80", "4/4/auto/6"),
            ("ORG 0.70", "4/8/auto/10"),
            ("GPE 0.95 (right)", "4/10/auto/11"),
        ],
    }
    index, table = (one for one in root.iter("table"))
    assert [text(row) for row in index.iter("tr")] == [
        "labelmissedspuriouswrong labelwrong boundaryall",
        "ORG112",
        "GPE11",
        "PER11",
        "all21104",
    ]
    assert text(next(table.iter("tbody"))).startswith("ρ0.400.200.40GPE0.501.00ORG")
    assert "4 errors in 1 of 1 sentence." in text(root)


def test_what_users_wrote_is_escaped() -> None:
    evil = '</style><script>alert("&")</script>'
    words = ["<b>", "&amp;", '"', "\x07x"]
    gold = document([((0, 3), evil, None)], words, source=Source(f"{evil}.data", 1))
    page = errors_page([gold], [document([((1, 2), evil, 0.5), ((3, 4), "\ud800", 0.4)], words)])
    root = parsed(page)
    assert not list(root.iter("script"))
    assert f"{evil}.data:1" in text(root)
    assert evil in [text(one) for one in root.iter("b")]


def test_the_same_kind_of_errors_is_a_chain_from_the_index() -> None:
    corpus = [(document([]), document([((at, at + 1), "X", at / 10)])) for at in range(5)]
    root = parsed(errors_page(*map(list, zip(*corpus, strict=True))))
    index = next(root.iter("table"))
    (first,) = (link.get("href") for link in index.iter("a"))
    items = {one.get("id"): one for one in root.iter("li")}
    visited = [(first or "")[1:]]
    while links := list(items[visited[-1]].iter("a")):
        visited.append((links[0].get("href") or "")[1:])
    assert visited == list(items)
    assert [text(items[one]).split()[3] for one in visited] == ["0.40", "0.30", "0.20", "0.10", "0.00"]


@given(st.lists(SCORES, max_size=12), st.integers(0, 6))
def test_the_most_confident_sentences_are_kept_in_order(scores: list[float | None], most: int) -> None:
    errors = Errors(most=most)
    for at, value in enumerate(scores):
        errors.add(document([], source=Source("file", at + 1)), document([((0, 1), "X", value)]))
    ranks = sorted(range(len(scores)), key=lambda at: (-(0.5 if (one := scores[at]) is None else one), at))
    root = parsed(errors.page())
    places = [text(next(one.iter("h3"))).split()[1] for one in root.iter("article")]
    assert places == [f"file:{at + 1}" for at in ranks[:most]]
    assert ("with the most confident errors" in text(root)) == (most < len(scores))


def test_of_a_document_the_sentences_with_errors_are_drawn() -> None:
    words = [f"w{at}" for at in range(9)]
    sentences = ((0, 3), (3, 6), (6, 9))
    gold = document([((0, 1), "X", None), ((4, 5), "X", None), ((8, 9), "X", None)], words, sentences=sentences)
    found = document([((4, 5), "X", 0.9), ((8, 9), "Y", 0.8)], words, sentences=sentences)
    root = parsed(errors_page([gold], [found]))
    assert "2 errors in 2 of 3 sentences." in text(root)
    last, first = root.iter("article")
    assert text(next(last.iter("h3"))) == "1 document 1, sentence 3 ↑ index"
    assert "w6w7w8" in text(last)
    assert "w5" not in text(last)
    assert "w0w1w2" in text(first)
    assert "w3" not in text(first)


def test_an_error_across_sentences_shows_both() -> None:
    sentences = ((0, 2), (2, 4), (4, 7))
    gold = document([((1, 3), "X", None)], sentences=sentences)
    (article,) = parsed(errors_page([gold], [document([], sentences=sentences)])).iter("article")
    assert "abbcdd" in text(article)
    assert drawn(article)["above"] == [("X", "1/3/auto/5")]


def test_text_without_words_is_split_and_an_entity_of_white_space_is_named() -> None:
    gold = Document("Ann met Bo. Then Acme fell apart.", (Entity(17, 20, "ORG"), Entity(11, 12, "ORG")))
    root = parsed(errors_page([gold], [Document(gold.text)]))
    (article,) = root.iter("article")
    assert [text(one) for one in article.iter("li")] == ["missed ORG “” next ›", "missed ORG “Acm”"]
    assert drawn(article)["above"] == [("ORG", "1/3/auto/4")]
    assert "Ann" not in text(article)


def test_of_a_long_sentence_the_words_around_the_error_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 10)
    words = [f"w{at}." for at in range(100)]
    for at, (first, last) in {0: (0, 10), 50: (45, 55), 99: (90, 100)}.items():
        gold = document([((at, at + 1), "X", None), ((0, 100), "Y", None)], words)
        (article,) = parsed(errors_page([gold], [document([((0, 100), "Y", 1.0)], words)])).iter("article")
        wanted = "".join(words[first:last])
        assert ("… " if first else "") + wanted + (" …" if last < 100 else "") in text(article)
        assert {one[0] for one in drawn(article)["above"]} == {"X", "Y (right)"}


def test_a_page_without_errors_says_so() -> None:
    gold = document([((0, 1), "X", None)])
    root = parsed(errors_page([gold], [gold]))
    assert "There are no errors." in text(root)
    assert not list(root.iter("article"))
    parsed(errors_page([], []))


def test_two_thousand_sentences_are_a_page_of_a_few_megabytes() -> None:
    words = [f"word{at}" for at in range(40)]
    gold = document([((at, at + 3), f"label{at}", None) for at in range(0, 36, 3)], words)
    found = document([((at, at + 2), f"label{at}", at / 40) for at in range(0, 36, 3)], words)
    page = errors_page([gold] * 2000, [found] * 2000)
    assert page.count("<article") == 500
    assert len(page.encode()) < 5_000_000


# --- Files ---


@pytest.mark.parametrize("labels", [0, 1, 5, 30])
def test_the_heat_map_is_a_picture(labels: int, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = tuple(f"$label_{at}\ud800 東京" for at in range(labels))
    counts = tuple(tuple(int(row == column) + row % 2 for column in range(labels)) for row in range(labels + 2))
    path = heat_map_png(ErrorTable(names, (*names, "Latent", "None"), counts), tmp_path / "new" / "map.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_all_files_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    gold, predicted, latent = worked()
    paths = write_errors(tmp_path / "new", iter([gold]), iter([predicted]), iter([latent]))
    assert [path.name for path in paths] == ["errors.txt", "errors.csv", "errors.png", "errors.html"]
    assert sorted(paths) == sorted((tmp_path / "new").iterdir())
    table = error_table([gold], [predicted], [latent])
    assert paths[0].read_text(encoding="utf-8") == f"{table.as_text()}\n"
    assert paths[1].read_text(encoding="utf-8") == table.as_csv()
    assert paths[3].read_text(encoding="utf-8") == errors_page([gold], [predicted], latent=[latent])


def test_without_matplotlib_there_is_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    gold, predicted, _ = worked()
    (tmp_path / "errors.png").write_bytes(b"of another run")
    paths = write_errors(tmp_path, [gold], [predicted])
    assert [path.name for path in paths] == ["errors.txt", "errors.csv", "errors.html"]
    assert sorted(paths) == sorted(tmp_path.iterdir())
    with pytest.raises(ImportError, match=r"nestree\[plots\]"):
        heat_map_png(error_table([gold], [predicted]), tmp_path / "map.png")


def test_labels_of_any_letters_can_be_written(tmp_path: Path) -> None:
    gold = document(
        [((0, 1), "東京", None), ((1, 2), "line\nbreak", None), ((2, 3), "\ud800", None), ((3, 4), "a,b", None)]
    )
    text_file, table, *_ = write_errors(tmp_path, [gold], [document([])])
    lines = text_file.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4 + len(error_table([gold], [document([])]).rows)
    assert "東京" in lines[0]
    assert next(csv.reader(StringIO(table.read_text(encoding="utf-8"))))[1:] == ["a,b", "line\nbreak", "東京", "?"]
