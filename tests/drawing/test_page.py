from __future__ import annotations

import base64
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.drawing.page import Figure, Image, Part, Section, Table, Text, html, page
from nestree.drawing.spans import escaped, spans_svg

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
NASTY = """<script>alert("x")</script> & 'y' \x00\ud800"""


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


@given(st.text(), st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=3))
def test_whatever_the_text_the_page_is_well_formed_and_holds_it(
    title: str, text: str, rows: list[tuple[str, str]]
) -> None:
    made = page(title, [Section(title, [Text(text), Table([text, title], rows, caption=text)])])
    made.encode()
    root = parsed(made)
    cells = [cell.text or "" for cell in root.iter("td")]
    assert cells == [ElementTree.fromstring(f"<a>{escaped(one)}</a>").text or "" for row in rows for one in row]


def test_text_is_escaped_everywhere() -> None:
    svg = spans_svg(["a"], [])
    parts: list[Part] = [Text(NASTY), Table([NASTY], [[NASTY]], NASTY), Figure(svg, NASTY), Image(PNG, NASTY, NASTY)]
    made = page(NASTY, [Section(NASTY, parts)])
    assert "<script" not in made
    shown = NASTY.replace("\x00", "�").replace("\ud800", "�")
    root = parsed(made)
    assert [one.text for tag in ("title", "h1", "h2", "p", "th", "td", "caption") for one in root.iter(tag)] == [
        shown
    ] * 7
    assert [one.get("alt") for one in root.iter("img")] == [shown]
    assert [one.text for one in root.iter("figcaption")] == [shown] * 2


def test_a_page_needs_nothing_from_elsewhere() -> None:
    made = page("t", [Section("s", [Image(PNG, "curves", dark=PNG), Figure(spans_svg(["a"], [(0, 1, "X", 1.0)]))])])
    for one in parsed(made).iter():
        for key, value in one.items():
            assert key not in ("href", "action")
            assert key not in ("src", "srcset") or value.startswith("data:image/png;base64,")
    assert "url(" not in made
    assert "@import" not in made
    (image,) = parsed(made).iter("img")
    assert base64.b64decode(image.get("src", "").partition(",")[2]) == PNG


def test_a_wide_figure_is_scrolled_rather_than_shrunk() -> None:
    part = html(Figure(spans_svg(["word"] * 200, [])))
    (box,) = (one for one in ElementTree.fromstring(part).iter("div") if "overflow-x:auto" in one.get("style", ""))
    (svg,) = box
    assert float(svg.get("width", "0")) > 5000


def test_columns_of_numbers_are_flush_right() -> None:
    table = html(Table(["name", "F1", "n"], [["1", "71.2%", "1,000"], ["x", "–", ""]], marked=[1]))
    rows = list(ElementTree.fromstring(table).iter("tr"))
    assert [[cell.get("class") for cell in row] for row in rows] == [[None, "number", "number"]] * 3
    assert [row.get("class") for row in rows] == [None, None, "marked"]


def test_empty_lines_part_paragraphs() -> None:
    assert html(Text("one\ntwo\n\n \nthree\n")) == "<p>one\ntwo</p>\n<p>three</p>"


def test_what_is_no_table_figure_or_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 of the table has 1 cells under 2 columns"):
        Table(["a", "b"], [["1", "2"], ["3"]])
    with pytest.raises(ValueError, match="begins with <svg"):
        Figure("<script>")
    with pytest.raises(ValueError, match="a picture is PNG"):
        Image(b"GIF89a", "")
