"""Symbol trees, trees and marginals as plain text, one sentence at a time."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import pairwise
from unicodedata import bidirectional, category

import torch
from torch import Tensor
from wcwidth import wcswidth, wcwidth

from nestree.crf import Symbol
from nestree.drawing.direction import directions, in_sight, right_to_left
from nestree.drawing.layout import Node, Span, check, levels, open_sides, runs, widened
from nestree.drawing.text import score_text

BAR = 24
NARROWEST = 8

LTR, RTL = "\N{LEFT-TO-RIGHT MARK}", "\N{RIGHT-TO-LEFT MARK}"

_Bracket = tuple[int, int, str, int]  # its pieces of words [start, end), its caption, its row


def draw_symbols(symbols: Tensor, words: Sequence[str]) -> str:
    """A symbol tree: row = first word, column = last word; ● observed, □ latent, ○ rejected. Shape: ``[n, n]``."""
    _check(symbols, words)
    words = list(map(_clean, words))
    margin = max(map(_width, words))
    columns = [max(_width(word), 1) for word in words]
    lines = [" " * margin + "  " + "  ".join(words)]
    for i, word in enumerate(words):
        cells = [Symbol(int(symbols[i, j])).glyph.center(columns[j]) for j in range(len(words))]
        lines.append(_pad(word, margin) + "  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def draw_tree(
    nodes: Tensor, words: Sequence[str], labels: Sequence[str], *, entity_labels: int, marginals: Tensor | None = None
) -> str:
    """A tree with one node a line, its probability behind it; latent nodes are drawn with dashed branches.

    Args:
        nodes: ``[n, n]``: the label at each node, -1 elsewhere, as ``TreeCRF.argmax`` gives for a sentence.
        words: the sentence's n words.
        labels: the names of all labels, entity labels first.
        entity_labels: how many of them are entity labels.
        marginals: ``[n, n, label]``, to show how probable each labelled node is.
    """
    _check(nodes, words)
    if int(nodes[0, len(words) - 1]) < 0:
        return "(no tree)"
    found: list[Node] = []
    for start, last in torch.nonzero(nodes[: len(words), : len(words)] >= 0).tolist():
        label = int(nodes[start, last])
        score = None if marginals is None else float(marginals[start, last, label])
        found.append((start, last + 1, labels[label] if label < entity_labels else None, score))
    return draw_nodes(words, found)


def draw_nodes(words: Sequence[str], nodes: Sequence[Node], *, leaves: bool = True, width: int | None = None) -> str:
    """The same from a list of nodes, half-open in words; a label of None is latent.

    Args:
        words: the sentence.
        nodes: ``(start, end, label or None, score or None)``, as :meth:`NestedNER.trees` gives.
        leaves: whether single words that are no entities have lines of their own.
        width: longer lines are cut (…); if not given, none is.
    """
    check(words, [(start, end, label or "", score) for start, end, label, score in nodes])
    shown = [node for node in nodes if leaves or node[2] is not None or node[1] - node[0] > 1]
    shown.sort(key=lambda node: (node[0], -node[1]))
    ends: list[int] = []  # of the nodes around the one that is drawn
    parents: list[list[int]] = [[] for _ in shown]  # which of them have more to come, as numbers of nodes
    open_: list[int] = []
    for at, (start, end, _, _) in enumerate(shown):
        while ends and ends[-1] < end:
            ends.pop()
            open_.pop()
        while ends and ends[-1] <= start:
            ends.pop()
            open_.pop()
        parents[at] = list(open_)
        ends.append(end)
        open_.append(at)
    last_child = {chain[-1]: at for at, chain in enumerate(parents) if chain}
    lines: list[tuple[str, float | None]] = []
    for at, (start, end, label, score) in enumerate(shown):
        chain = parents[at]
        stem = "".join("   " if last_child[one] == child else "│  " for one, child in pairwise(chain))
        branch = ""
        if chain:
            branch = ("└" if last_child[chain[-1]] == at else "├") + ("╌ " if label is None else "─ ")
        text = _clean(f"{label or '·'} {' '.join(words[start:end])}")
        text = f"{stem}{branch}{text}"
        text = text if width is None else _cut(text, max(NARROWEST, width - 7))
        # What follows words of a right-to-left script shall not be drawn among them.
        lines.append((text + LTR if _has_rtl(text) else text, score))
    widest = max((_width(text) for text, _ in lines), default=0)
    return "\n".join(text if p is None else f"{_pad(text, widest)}  {p:5.3f}" for text, p in lines)


def draw_marginals(marginals: Tensor, words: Sequence[str], labels: Sequence[str], *, at_least: float = 0.05) -> str:
    """The most probable labelled spans, with bars. Shape: ``[n, n, label]``."""
    _check(marginals, words)
    n = len(words)
    found = [
        (float(marginals[i, j, k]), _clean(" ".join(words[i : j + 1])), name)
        for i in range(n)
        for j in range(i, n)
        for k, name in enumerate(labels)
        if float(marginals[i, j, k]) >= at_least
    ]
    if not found:
        return f"(no labelled span has a probability of {at_least} or more)"
    found.sort(key=lambda row: -row[0])
    width, of_label = max(_width(text) for _, text, _ in found), max(map(_width, labels))
    return "\n".join(
        f"{_pad(label, of_label)}  {_pad(text, width)}  {p:5.3f}  {'█' * round(p * BAR)}".rstrip()
        for p, text, label in found
    )


def draw_spans(words: Sequence[str], spans: Sequence[Span], *, width: int | None = None) -> str:
    """The sentence, wrapped, and under each of its lines a bracket for each span, with label and score.

    Each nesting level has a row of its own, outer ones further below. A bracket without a corner at one end goes on
    in another line. A word that is wider than a line is broken, a label that is wider is cut (…). Words of
    right-to-left scripts stand in the order in which they are seen, with marks that keep terminals from changing it.

    Args:
        words: the sentence.
        spans: ``(start, end, label, score)``, half-open in words; score may be None.
        width: columns of the terminal; if not given, those of this one.
    """
    check(words, spans)
    width = shutil.get_terminal_size().columns if width is None else width
    if width < NARROWEST:
        raise ValueError(f"a drawing needs {NARROWEST} columns or more, not {width}.")
    text = _Text(words, spans, width)
    blocks, at = [], 0
    while at < len(text.pieces):
        end = text.end_of_line(at)
        blocks.append(text.line(at, end))
        at = end
    widest = max(_width(line) for block in blocks for line in block)
    if text.rtl:  # flush right
        blocks = [_moved(block, widest - max(map(_width, block))) for block in blocks]
    return ("\n\n" if spans else "\n").join("\n".join(block) for block in blocks)


class _Text:
    """Words in pieces no wider than a line, with brackets over pieces."""

    def __init__(self, words: Sequence[str], spans: Sequence[Span], width: int) -> None:
        self._width = width
        parts = [_broken(_clean(word), width) for word in words]
        firsts = [0]
        for pieces in parts:
            firsts.append(firsts[-1] + len(pieces))
        self.pieces = [piece for pieces in parts for piece in pieces]
        self.rtl = right_to_left(words)
        self._ways = directions(self.pieces, self.rtl)
        self._brackets: list[_Bracket] = []
        for (start, end, label, score), row in zip(spans, levels(spans), strict=True):
            caption = " ".join(filter(None, (_clean(label), score_text(score))))
            self._brackets.append((firsts[start], firsts[end], _cut(caption, width - 2), row))

    def end_of_line(self, at: int) -> int:
        """Where the line that begins with piece ``at`` ends: as many as fit, with their brackets; one at least."""
        end = at + 1
        while end < len(self.pieces) and sum(self._columns(at, end + 1)) + (end - at) <= self._width:
            end += 1
        return end

    def _parts(self, one: _Bracket, order: Sequence[int]) -> list[tuple[int, int]]:
        """The columns of a bracket, as ranges."""
        return runs([place for place, piece in enumerate(order) if one[0] <= piece < one[1]])

    def _columns(self, at: int, end: int) -> list[int]:
        """How wide the pieces ``[at, end)`` are on a line of their own, so that the captions that begin there fit."""
        order = in_sight(at, end, self._ways, self.rtl)
        needs = []
        for one in self._brackets:
            if at <= one[0] < end:
                first, last = max(self._parts(one, order), key=lambda part: part[1] - part[0])
                needs.append((first, last, _width(one[2]) + 2))
        return widened([max(1, _width(self.pieces[piece])) for piece in order], needs, 1)

    def line(self, at: int, end: int) -> list[str]:
        """A line of text, and the rows of brackets under it."""
        columns = self._columns(at, end)
        lefts = [sum(columns[:one]) + one for one in range(len(columns))]
        order = in_sight(at, end, self._ways, self.rtl)
        words = [_kept(self.pieces[piece], self._ways[piece]) for piece in order]
        lines = [" ".join(map(_pad, words, columns)).rstrip()]
        here = [one for one in self._brackets if one[0] < end and one[1] > at]
        for level in sorted({row for *_, row in here}):
            parts = [(part, one) for one in here if one[3] == level for part in self._parts(one, order)]
            line = ""
            for (first, last), (start, stop, caption, _) in sorted(parts):
                left, right = lefts[first], lefts[last - 1] + columns[last - 1]
                opens = open_sides(order, (first, last), (start, stop), self.rtl)
                line = _pad(line, left) + _bracket(right - left, caption, begins=not opens[0], ends=not opens[1])
            lines.append(line)
        return lines


def _kept(word: str, rtl: bool) -> str:
    """A word that stays where it is put, whatever is beside it."""
    return f"{LTR}{RTL}{word}{RTL}{LTR}" if rtl else word


def _has_rtl(text: str) -> bool:
    return any(bidirectional(character) in ("R", "AL") for character in text)


def _moved(block: Sequence[str], by: int) -> list[str]:
    return [" " * by + line for line in block]


def _bracket(width: int, caption: str, *, begins: bool, ends: bool) -> str:
    inner = width - begins - ends
    text = caption if _width(caption) <= inner else ""
    before = (inner - _width(text)) // 2
    rule = "─" * before + text + "─" * (inner - _width(text) - before)
    return ("└" if begins else "") + rule + ("┘" if ends else "")


def _clean(text: str) -> str:
    """Without what moves the cursor, turns the direction of what follows, or cannot be printed."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _steers(character) else character for character in text)


def _steers(character: str) -> bool:
    return (
        wcwidth(character) < 0
        or category(character) in ("Cc", "Cs", "Zl", "Zp")
        or bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    )


def _broken(word: str, width: int) -> list[str]:
    """The word in pieces no wider than a line."""
    pieces = [""]
    for character in word:
        if _width(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _check(chart: Tensor, words: Sequence[str]) -> None:
    n = len(words)
    if n == 0 or chart.dim() not in (2, 3) or chart.shape[0] < n or chart.shape[1] < n:
        raise ValueError(f"{n} words do not fit a chart of shape {list(chart.shape)}; give one sentence's [n, n, ...].")


def _width(text: str) -> int:
    """Columns on screen; wide and combining characters count as a terminal shows them."""
    return max(wcswidth(text), 0)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
