"""Predictions as people draw them, and as notebooks show them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree import NestedNER
from nestree.data import Document, Splitter
from nestree.drawing import draw
from nestree.drawing.layout import Span
from nestree.drawing.predictions import EMPTY, FORMS, Form
from nestree.prediction import PredictedEntity, Prediction, TreeNode
from tests.drawing.test_layout import read
from tests.drawing.test_spans import SVG, groups

TEXT = "The mayor of Leeds, Anna, resigned.\nNobody <b>knows</b> why."
NASTY = ["<script>alert(1)</script>", '"><b onload="x">', "'&amp;", "]]>", "a\x00b\ud800 \x1b[31mred", "\u202eabc"]


def predicted(text: str, found: list[Span], trees: bool = False, in_words: bool = False) -> Prediction:
    """A prediction with entities in words; each sentence has a tree that branches to the right."""
    document = Splitter().split(Document(text))
    tokens = document.tokens
    assert tokens is not None

    def place(first: int, last: int) -> tuple[int, int]:
        return (first, last) if in_words else tokens.characters(first, last)

    entities = []
    for start, end, label, score in found:
        first, last = tokens.characters(start, end)
        where = place(start, end)
        entities.append(PredictedEntity(text[first:last], label, *where, score or 0.0, 1, None, start, end))
    grown = [
        tuple(
            [TreeNode(*place(at, end), None, 0.5) for at in range(start, end - 1)]
            + [TreeNode(*place(at, at + 1), None, 0.5) for at in range(start, end)]
        )
        for start, end in document.sentences or ()
    ]
    return Prediction(document, tuple(entities), (), tuple(grown) if trees else None, in_words=in_words)


FOUND = predicted(TEXT, [(0, 4, "PER", 0.9), (3, 4, "GPE", 0.99), (5, 6, "PER", 0.8)])


def parsed(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawn.removeprefix("<!DOCTYPE html>\n"))


@given(st.text() | st.sampled_from(NASTY), st.text(max_size=8), st.booleans(), st.sampled_from(["svg", "html", "part"]))
def test_whatever_the_text_every_form_is_well_formed(text: str, label: str, trees: bool, form: Form) -> None:
    n = len(predicted(text, []).words)
    found = predicted(text, [(0, max(1, n // 2), label, 0.5)] if n else [], trees)
    drawn = draw(found, form)
    drawn.encode()
    names = {one.tag.removeprefix(SVG) for one in parsed(drawn).iter()}
    assert not names & {"script", "b", "a", "image", "foreignObject", "iframe", "use"}


@pytest.mark.parametrize("text", NASTY)
def test_no_text_gets_through_as_it_is(text: str) -> None:
    for form in FORMS[:3]:
        for trees in (False, True):
            drawn = draw(predicted(text, [(0, 1, text, 0.5)], trees), form)  # type: ignore[arg-type]
            assert "<script" not in drawn
            assert "<b " not in drawn
            assert "\x00" not in drawn
            assert "\x1b" not in drawn
    shown = draw(predicted(text, [(0, 1, text, 0.5)], True), "text", width=80)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]", shown)


def test_running_text_is_as_it_was_written() -> None:
    svg = draw(FOUND)
    assert [" ".join(line) for line in read(svg)] == [
        "The mayor of Leeds , Anna , resigned .",
        "Nobody < b > knows < / b > why .",
    ]
    assert len(groups(svg)) == 3
    narrow = read(draw(FOUND, width=200))
    assert len(narrow) > 3
    assert [word for line in narrow for word in line] == list(FOUND.words)


def test_each_sentence_stands_over_its_tree() -> None:
    found = predicted(TEXT, [(0, 4, "PER", 0.9)], trees=True)
    for form in ("svg", "html", "part"):
        drawn = draw(found, form)  # type: ignore[arg-type]
        assert len(re.findall(r'class="nestree-sentence"', drawn)) == 2
        assert len(re.findall(r'<rect class="node', drawn)) == len(found.words) - 2
        without = draw(found, form, tree=False)  # type: ignore[arg-type]
        assert '<rect class="node' not in without


def test_offsets_in_words_or_characters_draw_the_same_tree() -> None:
    one, other = (predicted(TEXT, [(0, 4, "PER", 0.9)], trees=True, in_words=in_words) for in_words in (False, True))
    assert one.trees != other.trees
    for form in FORMS:
        assert draw(one, form) == draw(other, form)  # type: ignore[arg-type]


def test_labels_have_one_colour_in_all_sentences() -> None:
    found = predicted(TEXT, [(3, 4, "GPE", 0.9), (9, 10, "GPE", 0.9), (5, 6, "PER", 0.9)], trees=True)
    assert len(set(re.findall(r'class="bracket (c\d)"', draw(found)))) == 2
    assert re.findall(r'class="bracket (c\d)"', draw(found, labels=["PER", "GPE"])) == ["c1", "c0", "c1"]


def test_a_page_has_a_table_of_entities_and_takes_a_theme() -> None:
    rows = [[cell.text for cell in row] for row in parsed(draw(FOUND, "html")).iter("tr")]
    assert rows[1] == ["PER", "The mayor of Leeds", "0.9000"]
    assert len(rows) == 4
    assert "prefers-color-scheme" not in draw(FOUND, "html", theme="dark")
    assert 'content="dark"' in draw(FOUND, "html", theme="dark")


def test_a_terminal_has_sentences_and_trees() -> None:
    found = predicted("Anna left. Bo stayed.", [(0, 1, "PER", 0.9)], trees=True)
    assert draw(found, "text", width=60).splitlines() == [
        "Anna       left .",
        "└PER 0.90┘",
        "",
        "· Anna left .  0.500",
        "└╌ · left .    0.500",
        "",
        "Bo stayed .",
        "",
        "· Bo stayed .  0.500",
        "└╌ · stayed .  0.500",
    ]
    assert "·" not in draw(found, "text", tree=False, width=60)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["", " \n "])
def test_text_without_words_is_drawn_too(form: Form, text: str) -> None:
    assert EMPTY in draw(predicted(text, []), form)
    assert EMPTY in draw(predicted(text, [], trees=True), form)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="'pdf'; known are 'svg', 'html', 'part', 'text'"):
        draw(FOUND, "pdf")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'blue'; known are"):
        draw(FOUND, theme="blue")  # type: ignore[arg-type]


def test_a_notebook_shows_predictions_that_do_not_disturb_each_other() -> None:
    shown = [predicted(TEXT, [(0, 4, "PER", 0.9)], trees)._repr_html_() for trees in (False, True)]
    assert all(one.startswith('<div class="nestree-figure nestree-auto">') for one in shown)
    root = ElementTree.fromstring(f"<body>{shown[0]}{shown[1]}{shown[1]}</body>")
    assert not [one.get("id") for one in root.iter() if one.get("id")]
    assert not list(root.iter("script"))
    for one in shown:
        assert '[data-jp-theme-light="false"] .nestree-figure.nestree-auto' in one
        assert "vscode-dark" in one


def test_a_notebook_shows_a_models_predictions(model: Path) -> None:
    ner = NestedNER.from_pretrained(model)
    found = ner.predict("Anna of the acme club. Bo runs <b>fast</b>.", trees=True)
    root = ElementTree.fromstring(found._repr_html_())
    groups_drawn = [one for one in root.iter(f"{SVG}g") if one.get("data-span")]
    assert len(groups_drawn) == len(found)
    assert escape("<") in found._repr_html_()
    (tokens,) = ner.predict_tokens([["Anna", "of", "the", "acme", "club"]], trees=True)
    assert tokens.in_words
    ElementTree.fromstring(tokens._repr_html_())
    ElementTree.fromstring(replace(tokens, trees=None)._repr_html_())


def test_drawing_does_not_know_models() -> None:
    code = "import sys, nestree.drawing; print([name for name in sys.modules if name.startswith('nestree.model')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
