from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.drawing import spans_svg
from nestree.drawing.direction import directions, in_sight, right_to_left
from nestree.drawing.layout import INSET, NARROWEST, Lines, Span
from nestree.drawing.text import Caption, broken, width_of
from tests.drawing.test_spans import SVG, WORDS, groups, overlap, plain, sentences, shown

HEBREW = ["ראש", "ממשלת", "ישראל", "ביקר", "ב", "New", "York", "בשנת", "2023", "."]


def placed(svg: str) -> list[tuple[float, float, str]]:
    """Where the words stand: their height, their middle."""
    texts = (one for one in ElementTree.fromstring(svg).iter(f"{SVG}text") if "word" in one.get("class", ""))
    return [(float(one.get("y", "")), float(one.get("x", "")), one.text or "") for one in texts]


def read(svg: str) -> list[list[str]]:
    """The words of each line, from left to right."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for y, x, word in placed(svg):
        lines.setdefault(y, []).append((x, word))
    return [[word for _, word in sorted(lines[y])] for y in sorted(lines)]


@given(sentences() | sentences(nested=False), st.integers(NARROWEST, 700), st.data())
def test_lines_hold_every_word_once_and_keep_the_width(
    sentence: tuple[list[str], list[Span]], width: int, data: st.DataObject
) -> None:
    words, spans = sentence
    some = st.sets(st.integers(0, len(words) - 1))
    breaks = data.draw(some)
    lines = Lines(words, spans, width - 24, data.draw(some), breaks)
    pieces = [sorted(line.order) for line in lines.lines]
    assert [piece for line in pieces for piece in line] == list(range(len(lines.pieces)))
    for at, word in enumerate(words):
        assert "".join(piece for piece, of in zip(lines.pieces, lines.word_of, strict=True) if of == at) == word
    assert all(line.width <= width - 24 for line in lines.lines)
    assert {0, *breaks} <= {lines.word_of[line[0]] for line in pieces}


@given(sentences() | sentences(nested=False), st.integers(NARROWEST, 700))
def test_brackets_cover_the_words_of_their_span_and_never_each_other(
    sentence: tuple[list[str], list[Span]], width: int
) -> None:
    words, spans = sentence
    lines = Lines(words, spans, width)
    covered: list[list[int]] = [[] for _ in spans]
    closed, parts = [0] * len(spans), [0] * len(spans)
    captions = [0] * len(spans)
    for line in lines.lines:
        for one in line.brackets:
            covered[one.span] += [lines.word_of[piece] for piece in line.order[one.first : one.last]]
            closed[one.span] += 2 - sum(one.opens)
            parts[one.span] += 1
            captions[one.span] += one.caption is not None
            room = line.lefts[one.last - 1] + line.widths[one.last - 1] - line.lefts[one.first]
            assert one.caption is None or one.caption.width + 2 * INSET <= room
        for one, other in combinations(line.brackets, 2):
            apart = one.last <= other.first or other.last <= one.first
            assert one.row != other.row or apart
            assert one.span == other.span or one.row != other.row or not overlap(spans[one.span], spans[other.span])
    for at, (start, end, label, score) in enumerate(spans):
        assert set(covered[at]) == set(range(start, end))
        assert closed[at] >= 2
        assert closed[at] == 2 or parts[at] > 1
        assert captions[at] >= 1 or not (label or score is not None)


def test_five_levels_have_five_rows() -> None:
    words = list("abcdefghi")
    spans: list[Span] = [(at, 9 - at, "PER", 0.5) for at in range(5)]
    svg = spans_svg(words, spans)
    heights = [re.findall(r"V(\d+)H", ElementTree.tostring(one, encoding="unicode"))[0] for one in groups(svg)]
    captions = [float(one.get("y", "")) for one in ElementTree.fromstring(svg).iter(f"{SVG}text") if one.get("y")][-5:]
    rows = sorted(map(float, heights))
    assert all(below - above >= 25 for above, below in pairwise(rows))
    # Each caption stands between its own bracket and the next one.
    assert all(row + 8 < y < row + 20 for row, y in zip(rows, sorted(captions), strict=True))


def test_an_entity_over_lines_says_that_it_goes_on() -> None:
    svg = spans_svg(WORDS, [(1, 6, "PER", 0.91)], width=200)
    lines = read(svg)
    assert len(lines) > 1
    assert [word for line in lines for word in line] == WORDS
    (group,) = groups(svg)
    paths = [path.get("d", "") for path in group.iter(f"{SVG}path")]
    assert len(paths) == len(lines)
    assert [path.count("L") for path in paths] == [2, *[4] * (len(paths) - 2), 2]  # arrows where it goes on
    captions = [text for text in shown(svg) if "PER" in text]
    assert captions == ["PER 0.91", *["… PER"] * (len(paths) - 1)]


def test_words_and_labels_wider_than_the_figure_are_broken_and_cut() -> None:
    svg = spans_svg(["x" * 200], [(0, 1, "A" * 90, 0.5)], width=200)
    assert float(ElementTree.fromstring(svg).get("width", "")) == 200
    assert "".join(word for _, _, word in placed(svg)) == "x" * 200
    assert max(map(len, (text for text in shown(svg) if "A" in text))) < 40
    assert any(text.endswith("…") for text in shown(svg))
    with pytest.raises(ValueError, match="120 pixels or more, not 60"):
        spans_svg(WORDS, [], width=60)


@given(st.text(min_size=1), st.integers(20, 90))
def test_pieces_are_the_word(word: str, width: int) -> None:
    pieces = broken(word, width)
    assert "".join(pieces) == word
    assert all(pieces)
    assert all(width_of(piece) <= width + 6 for piece in pieces)  # a tail of the last letter is not counted


@given(st.text(), st.floats(0, 1) | st.none(), st.integers(20, 200))
def test_a_cut_caption_fits(label: str, score: float | None, width: int) -> None:
    assert Caption.of(label, score).cut(width).width <= width


def test_lines_end_at_spaces_where_they_can() -> None:
    words = ["by", "5", "-", "lipoxygenase", ".", "Then", "so"]
    lines = [
        line for width in range(160, 300, 10) for line in read(spans_svg(words, [], width=width, joined=[2, 3, 4]))
    ]
    assert {line[0] for line in lines} <= {"by", "5", "Then", "so"}
    wide = read(spans_svg(["東京", "大学", "の", "教授", "が", "京都", "。"] * 2, [], width=150, joined=range(1, 14)))
    assert len(wide) > 1
    assert all(line[0] != "。" for line in wide)


def test_a_label_does_not_tear_its_words_apart() -> None:
    words = ["the", "IL", "-", "2", "gene"]
    plain_one, labelled = (placed(spans_svg(words, spans, joined=[2, 3])) for spans in ([], [(1, 4, "protein", 0.9)]))
    assert labelled[3][1] - labelled[1][1] == plain_one[3][1] - plain_one[1][1]
    assert labelled[4][1] - labelled[0][1] > plain_one[4][1] - plain_one[0][1]


def test_words_that_are_not_there_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="there is no word 9"):
        spans_svg(WORDS, [], joined=[9])


# --- Right to left ---------------------------------------------------------------------------------------------------


def test_text_of_a_right_to_left_script_is_seen_in_that_order() -> None:
    assert right_to_left(HEBREW)
    ways = directions(HEBREW, True)
    assert [word for word, way in zip(HEBREW, ways, strict=True) if not way] == ["New", "York"]
    seen = [HEBREW[at] for at in in_sight(0, len(HEBREW), ways, True)]
    assert seen == [".", "2023", "בשנת", "New", "York", "ב", "ביקר", "ישראל", "ממשלת", "ראש"]


def test_a_few_such_words_in_other_text() -> None:
    words = ["The", "word", "שלום", ",", "עולם", "5", "means", "hello", "."]
    seen = [words[at] for at in in_sight(0, len(words), directions(words, False), False)]
    assert seen == ["The", "word", "5", "עולם", ",", "שלום", "means", "hello", "."]


def test_right_to_left_lines_are_flush_right_and_brackets_are_under_their_words() -> None:
    spans: list[Span] = [(0, 3, "PER", 0.9), (2, 3, "GPE", 0.9), (5, 7, "GPE", 0.9)]
    svg = spans_svg(HEBREW, spans, width=210)
    lines = read(svg)
    assert len(lines) > 1
    assert lines[0][-1] == "ראש"
    where = {word: (x, y) for y, x, word in placed(svg)}
    first_line = [x for x, y in where.values() if y == where["ראש"][1]]
    assert where["ראש"][0] == max(first_line)
    (left, right) = map(float, re.findall(r"M([\d.]+) .*H([\d.]+)V", path_of(svg, 1))[0])
    assert left < where["ישראל"][0] < right
    assert not left < where["ממשלת"][0] < right


def path_of(svg: str, span: int) -> str:
    return next(groups(svg)[span].iter(f"{SVG}path")).get("d", "")


def test_a_span_that_is_torn_apart_in_sight_has_a_bracket_for_each_part() -> None:
    words = ["The", "word", "שלום", "עולם", "means", "hello"]
    svg = spans_svg(words, [(1, 3, "X", 0.5)])
    (group,) = groups(svg)
    assert len(list(group.iter(f"{SVG}path"))) == 2
    assert shown(svg).count("X 0.50") == 1


def test_a_span_that_is_seen_in_one_piece_has_both_its_corners() -> None:
    words = ["ב", "New", "York"]  # seen as: New York ב
    for span in ((0, 3), (1, 3)):
        assert path_of(spans_svg(words, [(*span, "X", None)]), 0).count("V") == 2


@given(st.lists(st.text(max_size=4), min_size=1, max_size=9))
def test_every_word_is_seen_whatever_its_script(words: list[str]) -> None:
    rtl = right_to_left(words)
    assert sorted(in_sight(0, len(words), directions(words, rtl), rtl)) == list(range(len(words)))
    assert {plain(word) for _, _, word in placed(spans_svg(words, []))} == {
        plain(word) for word in words if word.strip()
    }


def test_words_without_a_space_between_them_stand_close() -> None:
    loose, close = (placed(spans_svg(["東京", "都"], [], joined=joined)) for joined in ((), [1]))
    assert close[1][1] - close[0][1] < loose[1][1] - loose[0][1]
