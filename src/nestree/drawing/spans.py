"""Nested spans of a text as coloured brackets, in SVG that stands alone: for a page, a notebook, a README.

Without a width, a figure is as wide as its sentence needs: put it where it can be scrolled
(:class:`nestree.drawing.page.Figure` does); it does not shrink. With one, the text is broken into lines.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nestree.drawing.figure import MARGIN, Drawn, Keys, item, mark, said, stacked, tip
from nestree.drawing.layout import INSET, NARROWEST, Bracket, Line, Lines, Node, Span, check, levels, runs, widened
from nestree.drawing.style import ON_DARK, PALETTE, Theme, colours
from nestree.drawing.text import WORD, escaped, score_text, word_svg

__all__ = [
    "ON_DARK",
    "PALETTE",
    "Node",
    "Span",
    "check",
    "colours",
    "drawn_spans",
    "escaped",
    "levels",
    "score_text",
    "spans_svg",
    "widened",
]

ROW = 28
"""From one nesting level to the next."""
_BELOW, _BETWEEN = 12, 10  # from the words to the first bracket, and from one line to the next
_TICK, _ARROW = 5, 4


def spans_svg(
    words: Sequence[str],
    spans: Sequence[Span],
    *,
    labels: Sequence[str] | None = None,
    width: int | None = None,
    theme: Theme = "auto",
    joined: Collection[int] = (),
    breaks: Collection[int] = (),
) -> str:
    """The text, and beneath it a coloured bracket for each span, with label and score; outer ones further below.

    A bracket that goes on in another line has an arrow instead of a corner, and there dots before its label. Text
    that begins with letters of a right-to-left script runs from right to left.

    Args:
        words: a sentence, or a longer text.
        spans: nested, crossing or twice the same: those that overlap never share a row.
        labels: all labels there are, in their order, so that a label has the same colour in every figure. Without
            them a label's name chooses its colour, and another one only where two in a figure would share it.
        width: of the figure in pixels, if the text shall be broken into lines; words that are wider are broken, too.
        theme: "light", "dark", or "auto" for what the reader's system has.
        joined: the numbers of words that follow the one before them without a space.
        breaks: the numbers of words that begin a new line in any case; they need no width.

    Raises:
        ValueError: a span does not lie within the words, or the width is too small.
    """
    check(words, spans)
    colour = colours([label for _, _, label, _ in spans], labels)
    drawn = drawn_spans(words, spans, {}, colour, width=width, joined=joined, breaks=breaks)
    return stacked([[drawn]], said(words, spans), theme, 0)


def drawn_spans(
    words: Sequence[str],
    spans: Sequence[Span],
    keys: Keys,
    colour: dict[str, int],
    *,
    latent: Sequence[Node] = (),
    width: int | None = None,
    joined: Collection[int] = (),
    breaks: Collection[int] = (),
) -> Drawn:
    """The same without the figure around it; words of the ``latent`` nodes light up when these are pointed at."""
    if width is not None and width < NARROWEST:
        raise ValueError(f"a drawing needs {NARROWEST} pixels or more, not {width}.")
    lines = Lines(words, spans, None if width is None else width - 2 * MARGIN, joined, breaks)
    text = _Text(lines, MARGIN if width is None else max(MARGIN, *_free(lines, width)))
    parts = list(text.words())
    brackets: list[list[str]] = [[] for _ in spans]
    for at, line in enumerate(lines.lines):
        for one in line.brackets:
            brackets[one.span].append(text.bracket(at, one, f"bracket c{colour[spans[one.span][2]]}"))
    marks = text.marks([*spans, *latent])
    for at in range(len(spans), len(marks)):
        start, end, label, _ = latent[at - len(spans)]
        parts.append(f'<g class="{item(keys.get((start, end, label)), "still")}">{marks[at]}</g>')
    rows = {one.span: one.row for line in lines.lines for one in reversed(line.brackets)}
    for at in sorted(range(len(spans)), key=lambda one: (spans[one][0], -spans[one][1], one)):
        start, end, label, score = spans[at]
        parts.append(
            f'<g class="{item(keys.get((start, end, label)))}" tabindex="0" role="img" '
            f'data-span="{at}" data-start="{start}" data-end="{end}" data-level="{rows[at]}">'
            f"{tip(words, start, end, label, score)}{marks[at]}{''.join(brackets[at])}</g>"
        )
    return Drawn("".join(parts), text.width if width is None else max(width, text.width), text.height)


def _free(lines: Lines, width: int) -> tuple[int, int]:
    """What is left of a width for the margins, as wide as the lines are; right-to-left text is flush right."""
    rtl = any(line.rtl for line in lines.lines)
    return MARGIN, (width - MARGIN - max(line.width for line in lines.lines)) if rtl else MARGIN


class _Text:
    """Lines of text on a figure."""

    def __init__(self, lines: Lines, left: int) -> None:
        self._lines = lines
        self._widest = max(line.width for line in lines.lines)
        self._left = left
        self.width = left + self._widest + MARGIN
        self._tops = [MARGIN]
        for line in lines.lines:
            self._tops.append(self._tops[-1] + WORD + (_BELOW - 6 + line.rows * ROW if line.rows else 6) + _BETWEEN)
        self.height = self._tops[-1] - _BETWEEN + 2

    def _x(self, line: Line) -> int:
        return self._left + (self._widest - line.width if line.rtl else 0)

    def _ends(self, line: Line, first: int, last: int) -> tuple[int, int]:
        return self._x(line) + line.lefts[first], self._x(line) + line.lefts[last - 1] + line.widths[last - 1]

    def words(self) -> list[str]:
        """The words, line by line."""
        found = []
        for top, line in zip(self._tops, self._lines.lines, strict=False):
            for at in sorted(range(len(line.order)), key=line.order.__getitem__):
                piece = line.order[at]
                text, width = self._lines.pieces[piece], self._lines.natural[piece]
                x = self._x(line) + line.middles[at]
                found.append(word_svg(text, x, top + WORD, width, rtl=self._lines.ways[piece]))
        return found

    def bracket(self, at: int, one: Bracket, kind: str) -> str:
        """A bracket with its caption."""
        line = self._lines.lines[at]
        left, right = self._ends(line, one.first, one.last)
        y = self._tops[at] + WORD + _BELOW + one.row * ROW
        begin = (
            f"{_arrow(left + INSET, y, 1)}M{left + INSET} {y}" if one.opens[0] else f"M{left + INSET} {y - _TICK}V{y}"
        )
        finish = _arrow(right - INSET, y, -1) if one.opens[1] else f"V{y - _TICK}"
        path = f'<path class="{kind}" d="{begin}H{right - INSET}{finish}"/>'
        hit = f'<rect class="hit" x="{left}" y="{y - _TICK}" width="{right - left}" height="{ROW - 4}"/>'
        return hit + path + (one.caption.drawn((left + right) / 2, y + 14) if one.caption else "")

    def marks(self, spans: Sequence[Span | Node]) -> list[str]:
        """For each span what lights up behind its words."""
        found = [""] * len(spans)
        by_word: list[list[int]] = [[] for _ in range(max(self._lines.word_of) + 1)]
        for at, (start, end, _, _) in enumerate(spans):
            for word in range(start, end):
                by_word[word].append(at)
        for top, line in zip(self._tops, self._lines.lines, strict=False):
            places: dict[int, list[int]] = {}
            for place, piece in enumerate(line.order):
                for at in by_word[self._lines.word_of[piece]]:
                    places.setdefault(at, []).append(place)
            for at, seen in places.items():
                for first, last in runs(seen):
                    left, right = self._ends(line, first, last)
                    found[at] += mark(left, right, top)
        return found


def _arrow(x: int, y: int, back: int) -> str:
    """A tip at x, its wings to the right (1) or left (-1) of it."""
    return f"M{x + back * _ARROW} {y - _ARROW}L{x} {y}L{x + back * _ARROW} {y + _ARROW}"
