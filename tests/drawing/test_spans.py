from __future__ import annotations

import random
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from nestree.drawing.spans import (
    PALETTE,
    Node,
    Span,
    colours,
    escaped,
    levels,
    score_text,
    spans_svg,
    widened,
)
from nestree.drawing.terminal import NARROWEST, draw_nodes, draw_spans
from nestree.drawing.tree import tree_svg

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["U.S.", "State", "Department", "spokesman", "Richard", "Boucher"]
SPANS: list[Span] = [(0, 6, "PER", 0.91), (0, 3, "ORG", 0.97), (0, 1, "GPE", 0.9961)]
NODES: list[Node] = [
    *SPANS,
    (0, 4, None, 0.8),
    (4, 6, None, None),
    (1, 3, None, 0.7),
    *((i, i + 1, None, 0.9) for i in range(6)),
]
TEXT = st.text(max_size=12)
SCORES = st.none() | st.floats(0, 1)


@st.composite
def sentences(draw: st.DrawFn, *, nested: bool = True) -> tuple[list[str], list[Span]]:
    """Words and spans of them; nested ones are nodes of one random tree, some with two labels."""
    words = draw(st.lists(TEXT, min_size=1, max_size=12))
    order = random.Random(draw(st.integers(0, 999)))
    places: list[tuple[int, int]] = []

    def grow(start: int, end: int) -> None:
        places.append((start, end))
        if end - start > 1:
            split = order.randrange(start + 1, end)
            grow(start, split)
            grow(split, end)

    if nested:
        grow(0, len(words))
        places = order.sample(places, order.randint(0, len(places))) + places[: order.randint(0, 2)]
    else:
        pairs = [(start, end) for start in range(len(words)) for end in range(start + 1, len(words) + 1)]
        places = draw(st.lists(st.sampled_from(pairs), max_size=8))
    return words, [(start, end, draw(TEXT), draw(SCORES)) for start, end in places]


def overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def groups(svg: str) -> list[ElementTree.Element]:
    """What is drawn of each span, in the order in which they were given."""
    found = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}g") if one.get("data-span")]
    return sorted(found, key=lambda one: int(one.get("data-span", "")))


def brackets(svg: str) -> list[tuple[float, float, float]]:
    """The left end, the right end and the height of each bracket, read from the drawing itself."""
    paths = (path.get("d", "") for group in groups(svg) for path in group.iter(f"{SVG}path"))
    found = [re.fullmatch(r"M([\d.]+) [\d.]+V([\d.]+)H([\d.]+)V[\d.]+", path) for path in paths]
    return [(float(one[1]), float(one[3]), float(one[2])) for one in found if one]


def shown(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@given(sentences() | sentences(nested=False))
def test_spans_that_overlap_never_share_a_row_and_outer_ones_lie_below(sentence: tuple[list[str], list[Span]]) -> None:
    words, spans = sentence
    drawn = brackets(spans_svg(words, spans))
    rows = levels(spans)
    assert len(drawn) == len(spans)
    for (one, a, x), (other, b, y) in combinations(zip(spans, drawn, rows, strict=True), 2):
        if overlap(one, other):
            assert a[2] != b[2]
            if one[1] - one[0] != other[1] - other[0]:
                longer = one[1] - one[0] > other[1] - other[0]
                assert (a[2] > b[2]) is longer
                assert (x > y) is longer
        elif a[2] == b[2]:
            assert a[1] < b[0] or b[1] < a[0]


def test_nested_spans_take_no_more_rows_than_they_are_deep() -> None:
    assert levels(SPANS) == [2, 1, 0]
    assert levels([(0, 1, "A", None), (1, 2, "B", None), (0, 2, "C", None), (3, 4, "D", None)]) == [0, 0, 1, 0]


def test_of_two_spans_with_the_same_words_the_first_is_the_outer_one() -> None:
    assert levels([(0, 2, "A", None), (0, 2, "B", None)]) == [1, 0]


@given(sentences())
def test_whatever_the_text_the_drawings_are_xml_with_every_word_and_label(
    sentence: tuple[list[str], list[Span]],
) -> None:
    words, spans = sentence
    for svg in (spans_svg(words, spans), tree_svg(words, spans)):
        svg.encode()
        texts = shown(svg)
        for word in words:
            assert not word.strip() or any(plain(word) == plain(text) for text in texts)
        for _, _, label, score in spans:
            caption = " ".join(filter(None, (plain(label), score_text(score))))
            assert not caption.strip() or any(caption == plain(text) for text in texts)


def plain(text: str) -> str:
    """As XML hands it back: what it cannot hold replaced, line ends made one."""
    return ElementTree.fromstring(f"<a>{escaped(text)}</a>").text or ""


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><b onload="x">', "'&amp;", "]]>", "a\x00b\ud800"])
def test_text_is_escaped(text: str) -> None:
    for svg in (spans_svg([text], [(0, 1, text, 0.5)]), tree_svg([text], [(0, 1, text, 0.5)])):
        names = {one.tag.removeprefix(SVG) for one in ElementTree.fromstring(svg).iter()}
        assert names <= {"svg", "style", "rect", "g", "title", "path", "text", "tspan"}
        assert plain(text) in shown(svg)


@given(sentences())
def test_captions_have_room_over_their_spans(sentence: tuple[list[str], list[Span]]) -> None:
    words, spans = sentence
    svg = spans_svg(words, spans)
    right = float(ElementTree.fromstring(svg).get("width", "0"))
    for group, (left, end, _) in zip(groups(svg), brackets(svg), strict=True):
        assert 0 < left < end < right
        for text in group.iter(f"{SVG}text"):
            assert float(text.get("textLength", "0")) <= end - left


@given(sentences())
def test_nodes_of_a_tree_do_not_touch_each_other(sentence: tuple[list[str], list[Span]]) -> None:
    words, spans = sentence
    latent = [(start, end, None if at % 2 else label, score) for at, (start, end, label, score) in enumerate(spans)]
    root = ElementTree.fromstring(tree_svg(words, latent))
    boxes = [
        tuple(float(one.get(key, "")) for key in ("x", "y", "width", "height"))
        for one in root.iter(f"{SVG}rect")
        if "node" in one.get("class", "")
    ]
    for (x, y, width, height), (u, v, wide, high) in combinations(boxes, 2):
        assert x + width < u or u + wide < x or y + height < v or v + high < y
    for x, y, width, height in boxes:
        assert x > 0
        assert y > 0
        assert x + width < float(root.get("width", "0"))
        assert y + height < float(root.get("height", "0"))


def test_a_tree_has_solid_lines_for_entities_and_dashed_ones_for_latent_constituents() -> None:
    edges = [
        one.get("class", "").split()[:2] for one in ElementTree.fromstring(tree_svg(WORDS, NODES)).iter(f"{SVG}path")
    ]
    assert edges.count(["edge", "entity"]) == 3  # ORG, GPE, and from GPE to its word
    assert edges.count(["edge", "latent"]) == 3 + 5  # the latent constituents; the other words
    assert re.search(r"\.edge\.latent\{[^}]*stroke-dasharray", tree_svg(WORDS, NODES))
    assert not re.search(r"\.edge\.entity\{[^}]*stroke-dasharray", tree_svg(WORDS, NODES))


def test_a_tree_as_deep_as_its_sentence_is_long_is_drawn() -> None:
    n = 2000
    nodes: list[Node] = [(start, n, None, None) for start in range(n - 1)]
    assert tree_svg(["w"] * n, nodes).count('<rect class="node') == n - 1


def test_crossing_nodes_are_no_tree() -> None:
    with pytest.raises(ValueError, match=r"\[0, 2\) and \[1, 3\) cross"):
        tree_svg(WORDS, [(0, 2, "A", None), (1, 3, None, None)])


@pytest.mark.parametrize("span", [(0, 7), (-1, 2), (2, 2), (3, 1)])
def test_spans_outside_the_words_are_refused(span: tuple[int, int]) -> None:
    for draw in (spans_svg, tree_svg, draw_spans):
        with pytest.raises(ValueError, match="does not lie within the 6 words"):
            draw(WORDS, [(*span, "A", None)])
        with pytest.raises(ValueError, match="no words"):
            draw([], [])


@given(st.lists(TEXT, max_size=20), st.sets(TEXT, max_size=len(PALETTE)))
def test_a_label_keeps_its_colour(labels: list[str], present: set[str]) -> None:
    assert len(set(colours(present).values())) == len(present)
    assert all(colours([one], labels)[one] == colours({*present, one}, labels)[one] for one in labels)
    assert colours(sorted(present)) == colours(sorted(present, reverse=True))


def test_labels_are_coloured_in_their_order() -> None:
    assert colours(["b", "a"], ["a", "b", "c"]) == {"a": 0, "b": 1}
    assert set(colours(map(str, range(50))).values()) <= set(range(len(PALETTE)))


def test_an_uncertain_score_does_not_look_certain() -> None:
    assert [score_text(one) for one in (None, 0.0, 0.001, 0.5, 0.994, 0.9999, 1.0)] == [
        "", "0.00", "<0.01", "0.50", "0.99", ">0.99", "1.00",
    ]  # fmt: skip


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_columns_are_widened_until_everything_fits(widths: list[int], data: st.DataObject) -> None:
    starts = st.integers(0, len(widths) - 1)
    needs = [
        (start, data.draw(st.integers(start + 1, len(widths))), data.draw(st.integers(0, 60)))
        for start in data.draw(st.lists(starts, max_size=5))
    ]
    wide = widened(widths, needs, 2)
    assert all(after >= before for before, after in zip(widths, wide, strict=True))
    assert all(sum(wide[start:end]) + 2 * (end - start - 1) >= need for start, end, need in needs)


def test_a_terminal_shows_one_row_for_each_level() -> None:
    assert draw_spans(WORDS, SPANS, width=80).splitlines() == [
        "U.S.        State Department spokesman Richard Boucher",
        "└GPE >0.99┘",
        "└─────────ORG 0.97─────────┘",
        "└──────────────────────PER 0.91──────────────────────┘",
    ]


def test_a_bracket_goes_on_in_the_next_line() -> None:
    assert draw_spans(WORDS, SPANS[:2], width=32).splitlines() == [
        "U.S. State Department spokesman",
        "└─────ORG 0.97──────┘",
        "└───────────PER 0.91───────────",
        "",
        "Richard Boucher",
        "───PER 0.91───┘",
    ]


def test_a_terminal_pads_wide_characters() -> None:
    assert draw_spans(["東京", "都", "庁"], [(1, 2, "GPE", None), (0, 2, "LOC", 0.5)], width=40).splitlines() == [
        "東京 都    庁",
        "     └GPE┘",
        "└LOC 0.50┘",
    ]


def test_what_does_not_fit_a_line_is_broken_or_cut_for_all_to_see() -> None:
    assert draw_spans(["abcdefghij", "k"], [(0, 1, "protein", None)], width=8).splitlines() == [
        "abcdefgh",
        "└prote…─",
        "",
        "ij k",
        "─┘",
    ]
    with pytest.raises(ValueError, match="8 columns or more, not 3"):
        draw_spans(WORDS, SPANS, width=3)


def test_text_cannot_steer_the_terminal() -> None:
    words = ["\x1b[31mred", "a\nb", "\ud800", "\x00", "\u202e", "\u2028"]
    drawn = draw_spans(words, [(0, 1, "\x07", None)], width=40)
    assert drawn.split("\n")[0] == "�[31mred a�b � � � �"
    for one in (drawn, draw_nodes(words, [(0, 6, "\x07", None)])):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff\u202e\u2028]", one)


def test_right_to_left_words_stay_over_their_brackets() -> None:
    words = ["ראש", "ממשלת", "ישראל", "ביקר", "ב", "New", "York"]
    lines = draw_spans(words, [(0, 3, "PER", None), (2, 3, "GPE", None), (5, 7, "GPE", None)], width=80).splitlines()
    marks = re.compile("[\u200e\u200f]")
    assert [marks.sub("", line) for line in lines] == [
        "New York ב ביקר ישראל ממשלת ראש",
        "└─GPE──┘        └GPE┘",
        "                └─────PER─────┘",
    ]
    assert lines[0].startswith("New York \u200e\u200fב\u200f\u200e ")  # a terminal leaves them where they are


def test_a_score_does_not_slip_among_right_to_left_words() -> None:
    assert draw_nodes(["ראש", "ממשלת"], [(0, 2, "PER", 0.5)]) == "PER ראש ממשלת\u200e  0.500"


@given(sentences() | sentences(nested=False), st.integers(NARROWEST, 100))
def test_a_terminal_drawing_never_exceeds_the_width(sentence: tuple[list[str], list[Span]], width: int) -> None:
    words, spans = sentence
    assert all(0 <= wcswidth(line) <= width for line in draw_spans(words, spans, width=width).splitlines())


@given(sentences(), st.integers(40, 100))
def test_a_terminal_drawing_holds_every_word_and_label(sentence: tuple[list[str], list[Span]], width: int) -> None:
    words, spans = sentence
    words = [f"w{at}" for at in range(len(words))]
    spans = [(start, end, f"L{at}", score) for at, (start, end, _, score) in enumerate(spans)]
    drawn = draw_spans(words, spans, width=width)
    assert re.findall(r"w\d+", drawn) == words
    for _, _, label, score in spans:
        assert f"{label} {score_text(score)}".strip() in drawn
    assert drawn.count("└") == drawn.count("┘") == len(spans)
