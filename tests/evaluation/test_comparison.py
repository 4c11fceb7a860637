"""Two systems side by side, in Python and as ``nestree compare``."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nestree.cli.main import main
from nestree.data import DataError, Document, Entity, read, write
from nestree.evaluation import comparison as module
from nestree.evaluation.comparison import Comparison, compare, differences_page, heading, rows, verdict
from tests.model import tiny

Capture = pytest.CaptureFixture[str]
Listed = list[tuple[int, int, str]]

WORDS = ["ann", "of", "acme", "west", "met", "bob"]
SPANS = st.sampled_from([(start, end, label) for start, end in combinations(range(7), 2) for label in ("ORG", "PER")])
LISTED = st.lists(SPANS, max_size=5)


def document(listed: Listed) -> Document:
    return Document.from_words(WORDS, listed, sentences=((0, 4), (4, 6)))


GOLD: list[Listed] = [[(0, 1, "PER"), (2, 4, "ORG"), (5, 6, "PER")], [(0, 1, "PER")], []]
ONE: list[Listed] = [[(0, 1, "PER"), (2, 4, "PER")], [(0, 1, "PER")], []]
OTHER: list[Listed] = [[(0, 1, "PER"), (2, 4, "ORG"), (5, 6, "PER")], [(0, 1, "PER")], [(1, 2, "ORG")]]


def compared(gold: list[Listed] = GOLD, one: list[Listed] = ONE, other: list[Listed] = OTHER) -> Comparison:
    return compare(*(map(document, side) for side in (gold, one, other)), resamples=200)


# --- What is found ---


def test_sentences_that_differ_are_found_with_what_either_side_says() -> None:
    found = compared()
    assert [(one.document, one.sentence) for one in found.differing] == [(1, 1), (1, 2), (3, 1)]
    first, second, third = found.differing
    assert first.words == ("ann", "of", "acme", "west")
    assert first.gold == ((0, 1, "PER", None), (2, 4, "ORG", None))
    assert first.found == (((0, 1, "PER", None), (2, 4, "PER", None)), first.gold)
    assert second.gold == second.found[1] == ((1, 2, "PER", None),)  # in words of the sentence
    assert [one.errors for one in found.differing] == [(2, 0), (1, 0), (0, 1)]
    assert found.better == (1, 2)
    assert (found.sentences, found.unit, found.units) == (6, "sentence", 6)
    assert [one.micro.f1 for one in found.scores] == pytest.approx([2 * 2 / (3 + 4), 2 * 4 / (5 + 4)])
    assert found.paired.difference.f1.value == pytest.approx(8 / 9 - 4 / 7)
    assert third.place == ""
    assert heading(third, ("A", "B")).startswith("document 3, sentence 1 (A: 0 right, 0 wrong, 0 missed; B: 0 right, 1")


@settings(max_examples=40)
@given(st.lists(st.tuples(LISTED, LISTED, LISTED), min_size=1, max_size=4))
def test_sentences_that_do_not_differ_have_equal_entities_and_every_drawing_succeeds(
    corpus: list[tuple[Listed, Listed, Listed]],
) -> None:
    gold, one, other = (list(side) for side in zip(*corpus, strict=True))
    found = compared(gold, one, other)
    differing = {(sentence.document, sentence.sentence) for sentence in found.differing}
    for number, (_, some, rest) in enumerate(corpus, 1):
        for sentence, (start, end) in enumerate(((0, 4), (4, 6)), 1):
            sides = [{span for span in side if start <= span[0] < end} for side in (some, rest)]
            assert (sides[0] != sides[1]) == ((number, sentence) in differing)
    text = differences_page(found, ("A", "B"))
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert json.loads(json.dumps(found.as_dict()))["differing_sentences"] == len(differing)


def test_what_is_the_same_does_not_differ() -> None:
    found = compared(other=ONE)
    assert (found.differing, found.paired.p_value) == ((), 1.0)
    assert verdict(found, ("A", "B"))[-1] == "they find the same in all sentences"
    assert "Where they differ" not in differences_page(found, ("A", "B"))


def test_the_table_has_percentages_with_intervals_and_signs() -> None:
    found = rows(compared(other=ONE))
    assert [row[0] for row in found] == ["P", "R", "F1", "macro F1"]
    assert found[0][1].startswith("66.67 [")
    assert found[2][3] == "+0.00 [+0.00, +0.00]"


def test_entities_off_the_words_across_sentences_or_in_pieces_are_drawn_as_far_as_they_go() -> None:
    gold = document([])
    pieces = Entity(0, 11, "ORG", fragments=((0, 3), (7, 11)))
    strange = replace(gold, entities=(Entity(1, 5, "PER"), pieces, Entity(12, 20, "ORG", 0.5)))
    (found,) = compare([gold], [gold], [strange], resamples=100).differing
    assert found.found[1] == ((0, 3, "ORG (in pieces)", None), (0, 2, "PER", None), (3, 4, "ORG", 0.5))


def test_gold_without_words_is_split() -> None:
    gold = Document("Ann met Bob. He left.", (Entity(0, 3, "PER", None),))
    (found,) = compare([gold], [gold], [replace(gold, entities=())], resamples=100).differing
    assert (found.words, found.gold) == (("Ann", "met", "Bob", "."), ((0, 1, "PER", None),))


def test_a_page_has_room_for_so_many_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DRAWN", 2)
    text = differences_page(compared(), ("A", "<B>"), "gold.jsonl")
    assert text.count("<svg") == 6
    assert "1 more are not drawn" in text
    assert "&lt;B&gt;" in text


def test_other_documents_are_refused_with_the_name_of_the_system() -> None:
    with pytest.raises(DataError, match="B does not go with gold: document 1 has another text"):
        compare([document([])], [document([])], [Document("other")])
    with pytest.raises(DataError, match="A does not go with gold: document 2 has no counterpart"):
        compare([document([])] * 2, [document([])], [document([])] * 2)
    with pytest.raises(DataError, match="nothing to compare"):
        compare([], [], [])


# --- The command ---


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    paths = []
    for name, side in (("gold.jsonl", GOLD), ("one.jsonl", ONE), ("other.conll", OTHER)):
        write(map(document, side), tmp_path / name)
        paths.append(str(tmp_path / name))
    return paths[1], paths[2], paths[0]


def test_files_of_any_format_are_compared(files: tuple[str, str, str], tmp_path: Path, capsys: Capture) -> None:
    one, other, gold = files
    page = tmp_path / "new" / "differences.html"
    assert main(["compare", one, other, "--gold", gold, "--show", "1", "--output", str(page)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["one.jsonl", "other.conll", "difference"]
    assert lines[4].split()[0] == "F1"
    assert "+31.75 [" in lines[4]
    assert "difference in micro F1 (other.conll less one.jsonl): +31.75, p = 0." in out
    assert "they differ in 3 of 6 sentences: one.jsonl makes fewer errors in 1, other.conll in 2" in out
    assert out.count("of acme west\n") == 3
    assert "└PER┘" in out
    assert page.read_text().count("<svg") == 9
    assert f"{page}: page of 3 differing sentences written" in err
    assert "note: 6 sentences are few" in err


def test_json_is_all_there_is_on_stdout(files: tuple[str, str, str], capsys: Capture) -> None:
    one, other, gold = files
    assert main(["compare", one, other, "--gold", gold, "--json", "--unit", "document", "--level", "0.9"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files"] == {"a": one, "b": other, "gold": gold}
    assert (found["unit"], found["units"], found["level"], found["differing_sentences"]) == ("document", 3, 0.9, 3)
    assert found["a"]["micro"]["f1"] == pytest.approx(4 / 7, abs=1e-6)
    assert found["difference"]["f1"]["value"] == pytest.approx(8 / 9 - 4 / 7, abs=1e-6)
    assert found["differing"][0]["b"][1] == {"start": 2, "end": 4, "label": "ORG"}


def test_models_predict_on_gold(files: tuple[str, str, str], tmp_path: Path, capsys: Capture) -> None:
    model = tmp_path / "model"
    tiny.model(tmp_path).save_pretrained(model)
    predicted = tmp_path / "predicted.jsonl"
    assert main(["evaluate", str(model), files[2], "--output", str(predicted)]) == 0
    capsys.readouterr()
    assert main(["compare", str(model), str(predicted), "--gold", files[2], "--device", "cpu"]) == 0
    out, _ = capsys.readouterr()
    assert "they find the same in all sentences" in out
    assert "p = 1.000" in out


def test_two_files_of_one_name_are_told_apart(files: tuple[str, str, str], tmp_path: Path, capsys: Capture) -> None:
    again = tmp_path / "again"
    write(read(files[1]), again / "one.jsonl")
    assert main(["compare", files[0], str(again / "one.jsonl"), "--gold", files[2]]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:2] == [files[0], str(again / "one.jsonl")]


def test_what_is_wrong_is_said_in_one_line(files: tuple[str, str, str], tmp_path: Path, capsys: Capture) -> None:
    def refused(*arguments: str) -> str:
        assert main(["compare", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Traceback" not in err
        assert err.splitlines()[-1].startswith("error: ")
        return err.splitlines()[-1]

    one, other, gold = files
    assert "there is no such file" in refused(one, str(tmp_path / "none.jsonl"), "--gold", gold)
    assert "Use the ending .html" in refused(one, other, "--gold", gold, "--output", "page.txt")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "nestree.json").write_text("{}")
    assert "there is no model.safetensors in it" in refused(str(tmp_path / "broken"), other, "--gold", gold)
    write([document([])], tmp_path / "short.jsonl")
    assert "short.jsonl does not go with gold: " in refused(str(tmp_path / "short.jsonl"), other, "--gold", gold)
    (tmp_path / "empty.jsonl").write_text("\n")
    assert "the file is empty" in refused(one, other, "--gold", str(tmp_path / "empty.jsonl"))


def test_predictions_that_join_documents_of_gold_are_refused(
    files: tuple[str, str, str], tmp_path: Path, capsys: Capture
) -> None:
    joined = tmp_path / "joined.jsonl"
    write([Document(" ".join([" ".join(WORDS)] * 3))], joined)
    assert main(["compare", files[0], str(joined), "--gold", files[2]]) == 2
    assert "there is a document in it that is several in gold" in capsys.readouterr().err


def test_comparing_files_needs_no_torch() -> None:
    code = "import sys, nestree.evaluation.comparison, nestree.cli.compare; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
