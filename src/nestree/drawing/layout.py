"""Where words and spans stand: nesting levels, columns, lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from wcwidth import wcwidth

from nestree.drawing.direction import directions, in_sight, right_to_left
from nestree.drawing.text import Caption, broken, width_of

Span = tuple[int, int, str, float | None]
"""The words ``[start, end)``, the label, and the score if there is one."""
Node = tuple[int, int, str | None, float | None]
"""The same; a latent constituent has no label: None."""

SPACE, JOINED = 8, 1
"""Between two words with a space between them, and without one."""
INSET = 2
"""Between the end of a bracket and the end of its words."""
NARROWEST = 120
"""Pixels that a drawing needs."""


def check(words: Sequence[str], spans: Sequence[Span] | Sequence[Node]) -> None:
    """Raises ValueError if a span does not lie within the words."""
    if not words:
        raise ValueError("there are no words to draw; give one sentence's.")
    for start, end, label, _ in spans:
        if not 0 <= start < end <= len(words):
            raise ValueError(
                f"the span [{start}, {end}) ({label}) does not lie within the {len(words)} words; "
                "spans are half-open and count words from 0."
            )


def levels(spans: Sequence[Span] | Sequence[Node]) -> list[int]:
    """The row of each span, from 0: below those of all shorter spans that share a word with it.

    Of two spans with the same words, the one that comes first is the outer one.
    """
    rows = [0] * len(spans)
    placed: list[tuple[int, int, int]] = []
    for at in sorted(range(len(spans)), key=lambda one: (spans[one][1] - spans[one][0], -one)):
        start, end = spans[at][:2]
        rows[at] = 1 + max((row for left, right, row in placed if left < end and start < right), default=-1)
        placed.append((start, end, rows[at]))
    return rows


def widened(widths: Sequence[int], needs: Iterable[tuple[int, int, int]], gap: int) -> list[int]:
    """Widths of columns, with the space added that ``(start, end, width)`` needs over the columns ``[start, end)``."""
    widths = list(widths)
    for start, end, need in sorted(needs, key=lambda one: one[1] - one[0]):
        missing = need - sum(widths[start:end]) - gap * (end - start - 1)
        share, rest = divmod(max(0, missing), end - start)
        for at in range(start, end):
            widths[at] += share + (at - start < rest)
    return widths


def padded(widths: Sequence[int], needs: Iterable[tuple[int, int, int]], gaps: Sequence[int]) -> list[tuple[int, int]]:
    """The space before and after each column that ``(start, end, width)`` needs over the columns ``[start, end)``.

    It is added at both ends of them: what stands between, running text, is not torn apart.
    """
    before, after = [0] * len(widths), [0] * len(widths)
    for start, end, need in sorted(needs, key=lambda one: one[1] - one[0]):
        there = sum(widths[start:end]) + sum(gaps[start + 1 : end]) + sum(before[start:end]) + sum(after[start:end])
        missing = max(0, need - there)
        before[start] += missing // 2
        after[end - 1] += missing - missing // 2
    return list(zip(before, after, strict=True))


# --- Lines -----------------------------------------------------------------------------------------------------------


class Bracket(NamedTuple):
    """What a line has of a span: columns ``[first, last)``; an open side goes on elsewhere."""

    span: int
    first: int
    last: int
    opens: tuple[bool, bool]
    row: int
    caption: Caption | None


class Line(NamedTuple):
    """A line of text: which pieces of words stand where, from left to right, and the brackets under them.

    A piece has its middle in a column, which is wider where a caption needs more room than the words.
    """

    order: list[int]
    widths: list[int]
    lefts: list[int]
    middles: list[float]
    brackets: list[Bracket]
    rtl: bool

    @property
    def width(self) -> int:
        """From its left end to its right one."""
        return self.lefts[-1] + self.widths[-1]

    @property
    def rows(self) -> int:
        """How many rows of brackets it has."""
        return max((one.row + 1 for one in self.brackets), default=0)


class Lines:
    """Running text, broken into lines, with brackets.

    Args:
        words: the text.
        spans: of its words.
        width: of a line, at most; None: all in one line. Words that are wider are broken, labels that are wider cut.
        joined: the numbers of words that follow the one before them without a space.
        breaks: the numbers of words that begin a line in any case.
    """

    def __init__(
        self,
        words: Sequence[str],
        spans: Sequence[Span] | Sequence[Node],
        width: int | None,
        joined: Collection[int] = (),
        breaks: Collection[int] = (),
    ) -> None:
        for at in (*joined, *breaks):
            if not 0 <= at < len(words):
                raise ValueError(f"there is no word {at} to be joined or to begin a line; there are {len(words)}.")
        self.width = width
        pieces = [[word] if width is None else broken(word, width) for word in words]
        self.pieces = [piece for parts in pieces for piece in parts]
        firsts = [0]
        for parts in pieces:
            firsts.append(firsts[-1] + len(parts))
        self.word_of = [at for at, parts in enumerate(pieces) for _ in parts]
        self.natural = [max(3 * INSET, width_of(piece)) for piece in self.pieces]
        self._joined = {firsts[at] for at in joined}
        self._spans = [(firsts[start], firsts[end], label or "", score) for start, end, label, score in spans]
        self.ways: list[bool] = []
        self.lines: list[Line] = []
        stops = sorted({0, *(firsts[at] for at in breaks), len(self.pieces)})
        by_start = sorted(range(len(spans)), key=lambda one: self._spans[one][0], reverse=True)
        active: list[int] = []
        for begin, stop in pairwise(stops):
            rtl = right_to_left(self.pieces[begin:stop])
            self.ways += directions(self.pieces[begin:stop], rtl)
            at = begin
            while at < stop:
                active = [one for one in active if self._spans[one][1] > at]
                end = at + 1 if width is not None else stop
                while by_start and self._spans[by_start[-1]][0] < end:
                    active.append(by_start.pop())
                line = self._line(at, end, active, rtl)
                while end < stop:
                    while by_start and self._spans[by_start[-1]][0] <= end:
                        active.append(by_start.pop())
                    longer = self._line(at, end + 1, active, rtl)
                    if width is not None and longer.width > width:
                        break
                    line, end = longer, end + 1
                if end < stop and (better := self._better_end(at, end)) < end:
                    end = better
                    line = self._line(at, end, active, rtl)
                at = end
                self.lines.append(line)

    def _line(self, at: int, end: int, candidates: Sequence[int], rtl: bool) -> Line:
        chosen = sorted(one for one in candidates if self._spans[one][0] < end)
        order = in_sight(at, end, self.ways, rtl)
        gaps = [0, *(self._gap(one, other) for one, other in pairwise(order))]
        natural = [self.natural[piece] for piece in order]
        brackets = list(self._brackets(chosen, order, natural, (at, end), rtl))
        needs = [(one.first, one.last, one.caption.width + 2 * INSET) for one in brackets if one.caption]
        pads = padded(natural, needs, gaps)
        widths = [before + width + after for width, (before, after) in zip(natural, pads, strict=True)]
        lefts, left = [], 0
        for width, gap in zip(widths, gaps, strict=True):
            left += gap
            lefts.append(left)
            left += width
        middles = [one + pad + width / 2 for one, (pad, _), width in zip(lefts, pads, natural, strict=True)]
        return Line(order, widths, lefts, middles, brackets, rtl)

    def _better_end(self, at: int, end: int) -> int:
        """Where to end a line that could go on to ``end``: not between words without a space, if that can be."""
        for better in range(end, at, -1):
            before, after = self.pieces[better - 1], self.pieces[better]
            wide = all(wcwidth(one) > 1 and one.isalpha() for one in (before[-1:] or " ", after[:1] or " "))
            if better not in self._joined or wide:
                return better
        return end

    def _gap(self, one: int, other: int) -> int:
        return JOINED if abs(one - other) == 1 and max(one, other) in self._joined else SPACE

    def _brackets(
        self, chosen: Sequence[int], order: Sequence[int], natural: Sequence[int], line: tuple[int, int], rtl: bool
    ) -> Iterator[Bracket]:
        places = {piece: place for place, piece in enumerate(order)}
        rows = levels([self._spans[one] for one in chosen])
        for row, one in zip(rows, chosen, strict=True):
            start, end, label, score = self._spans[one]
            seen = sorted(places[piece] for piece in range(max(start, line[0]), min(end, line[1])))
            parts = runs(seen)
            widest = max(parts, key=lambda part: sum(natural[part[0] : part[1]]))
            for first, last in parts:
                caption = None
                if (first, last) == widest:
                    caption = Caption.of(label, score, continued=start < line[0])
                    caption = caption if self.width is None else caption.cut(self.width - 2 * INSET)
                opens = open_sides(order, (first, last), (start, end), rtl)
                yield Bracket(one, first, last, opens, row, caption if caption and caption.width else None)


def open_sides(order: Sequence[int], part: tuple[int, int], span: tuple[int, int], rtl: bool) -> tuple[bool, bool]:
    """Whether a span goes on to the left, and to the right, of one of its parts in a line.

    Args:
        order: the pieces of the line from left to right.
        part: the columns ``[first, last)`` of the part.
        span: the pieces ``[start, end)`` of the span.
        rtl: whether the line before is reached on the right, and the line after on the left.
    """
    here = set(order[part[0] : part[1]])
    left = right = False
    for piece in here:
        for other in (piece - 1, piece + 1):
            if other in here or not span[0] <= other < span[1]:
                continue
            torn = min(order) <= other <= max(order)  # in the same line, apart from this
            before = order.index(other) < part[0] if torn else (other < piece) is not rtl
            left, right = left or before, right or not before
    return left, right


def runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers in their order as ranges, half-open, of those that follow each other."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found
