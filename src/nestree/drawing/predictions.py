"""A prediction as SVG, as a page or a part of one, or as text for a terminal."""

from __future__ import annotations

import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from nestree.data import Document
from nestree.drawing.figure import MARGIN, Drawn, as_part, said, stacked
from nestree.drawing.layout import Node, Span
from nestree.drawing.page import Drawing, Section, Table, page
from nestree.drawing.sentence import drawn_sentence
from nestree.drawing.spans import drawn_spans
from nestree.drawing.style import Theme, check_theme, colours
from nestree.drawing.terminal import draw_nodes, draw_spans
from nestree.drawing.text import WORD, text_svg, width_of

if TYPE_CHECKING:
    from nestree.prediction import Prediction, TreeNode

Form = Literal["svg", "html", "part", "text"]
FORMS: tuple[str, ...] = get_args(Form)
WIDTH = 900
"""Pixels of running text, if nothing else is asked for."""
EMPTY = "(no words)"


def draw(
    prediction: Prediction,
    form: Form = "svg",
    *,
    tree: bool = True,
    width: int | None = None,
    theme: Theme = "auto",
    labels: Sequence[str] | None = None,
) -> str:
    """A drawing of what was found in a text.

    With trees, each sentence stands by itself with its tree beneath it. Without, the text runs on as it was written.

    Args:
        prediction: what ``NestedNER.predict`` returned; trees are drawn if it was asked for them.
        form: "svg" or "html", either of which stands alone; "part", HTML to put into a page or a notebook; "text" for
            a terminal.
        tree: whether to draw the trees that there are.
        width: of the running text, in pixels (900), or of the terminal, in columns (those of this one).
        theme: "light", "dark", or "auto" for what the reader's system has; of no matter in a terminal.
        labels: all labels there are, in their order, so that a label has the same colour in every drawing.

    Raises:
        ValueError: there is no such form or theme, or the width is too small.
    """
    if form not in FORMS:
        raise ValueError(f"the form is {form!r}; known are {', '.join(map(repr, FORMS))}.")
    check_theme(theme)
    if form == "text":
        return _text(prediction, tree, width)
    pieces = list(_drawn(prediction, tree, WIDTH if width is None else width, labels))
    drawings, spoken = [one.drawings for one in pieces], [one.spoken for one in pieces]
    keys = max(one.keys for one in pieces)
    if form == "svg":
        return stacked(drawings, " ".join(spoken), theme, keys)
    part = as_part(drawings, spoken, theme, keys)
    return part if form == "part" else _page(prediction, part, theme)


class _Piece(NamedTuple):
    """What is drawn in one go: a sentence with its tree, or the whole text."""

    drawings: list[Drawn]
    spoken: str
    keys: int


def _drawn(prediction: Prediction, tree: bool, width: int, labels: Sequence[str] | None) -> Iterator[_Piece]:
    document = prediction.document
    words, spans = document.words, _spans(prediction)
    if not words:
        room = width_of(EMPTY) + 2 * MARGIN
        note = text_svg("word note", room / 2, MARGIN + WORD, width_of(EMPTY), EMPTY)
        yield _Piece([Drawn(note, room, WORD + 2 * MARGIN)], EMPTY, 0)
        return
    joined, breaks = _spacing(document)
    trees = prediction.trees if tree else None
    present = {label for _, _, label, _ in spans} | {node.label for nodes in trees or () for node in nodes}
    colour = colours([label for label in present if label is not None], labels)
    if trees is None:
        drawn = drawn_spans(words, spans, {}, colour, width=width, joined=joined, breaks=breaks)
        yield _Piece([drawn], said(words, spans), 0)
        return
    for (start, end), nodes in zip(_sentences(document), trees, strict=True):
        here = _within(spans, start, end)
        close = [at - start for at in joined if start < at < end]
        drawings, keys = drawn_sentence(
            words[start:end], here, _nodes(prediction, nodes, start), colour, width=width, joined=close
        )
        yield _Piece(drawings, said(words[start:end], here), len(keys))


def _text(prediction: Prediction, tree: bool, width: int | None) -> str:
    document = prediction.document
    words, spans = document.words, _spans(prediction)
    width = shutil.get_terminal_size().columns if width is None else width
    drawn = []
    for at, (start, end) in enumerate(_sentences(document)):
        parts = [draw_spans(words[start:end], _within(spans, start, end), width=width)]
        if tree and prediction.trees is not None:
            nodes = _nodes(prediction, prediction.trees[at], start)
            parts.append(draw_nodes(words[start:end], nodes, leaves=False, width=width))
        drawn.append("\n\n".join(parts))
    return "\n\n".join(drawn) or EMPTY


def _page(prediction: Prediction, part: str, theme: Theme) -> str:
    title = shorten(prediction.document.text, 70, placeholder=" …")
    sections = [Section("", [Drawing(part)])]
    rows = [[one.label, one.text, f"{one.score:.4f}"] for one in prediction.entities]
    if rows:
        sections.append(Section("Entities", [Table(["label", "text", "score"], rows)]))
    return page(title or EMPTY, sections, theme=theme)


def _sentences(document: Document) -> Sequence[tuple[int, int]]:
    n = len(document.words)
    return document.sentences if document.sentences is not None else ((0, n),) if n else ()


def _spans(prediction: Prediction) -> list[Span]:
    return [(one.token_start, one.token_end, one.label, one.score) for one in prediction.entities]


def _within(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """What the sentence ``[start, end)`` has of the spans, in its own words."""
    return [
        (max(first, start) - start, min(last, end) - start, label, score)
        for first, last, label, score in spans
        if first < end and start < last
    ]


def _nodes(prediction: Prediction, nodes: Sequence[TreeNode], offset: int) -> list[Node]:
    """In words of the sentence that begins there."""
    tokens = prediction.document.tokens
    found: list[Node] = []
    for one in nodes:
        start, end = one.start, one.end
        if not prediction.in_words and tokens is not None:
            start, end = bisect_right(tokens.starts, start) - 1, bisect_left(tokens.ends, end) + 1
        found.append((start - offset, end - offset, one.label, one.score))
    return found


def _spacing(document: Document) -> tuple[list[int], list[int]]:
    """Which words follow the one before them without a space, and which begin a line."""
    if document.tokens is None:
        return [], []
    starts, ends = document.tokens.starts, document.tokens.ends
    joined = [at for at in range(1, len(starts)) if starts[at] == ends[at - 1]]
    breaks = [at for at in range(1, len(starts)) if "\n" in document.text[ends[at - 1] : starts[at]]]
    return joined, breaks
