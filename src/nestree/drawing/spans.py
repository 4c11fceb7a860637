"""Nested spans and trees of one sentence as SVG that stands alone: for a page, a notebook, a README.

A figure is as wide as its sentence needs. Put it where it can be scrolled (:class:`nestree.drawing.page.Figure` does);
it does not shrink.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple
from zlib import crc32

from wcwidth import wcwidth

Span = tuple[int, int, str, float | None]
"""The words ``[start, end)``, the label, and the score if there is one."""
Node = tuple[int, int, str | None, float | None]
"""The same; a latent constituent has no label: None."""

PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a39000", "#24292f"]
"""Okabe and Ito's colours, told apart by colour-blind eyes; their yellow a darker one."""
ON_DARK = {0: "#2b8fd0", 6: "#f0e442", 7: "#e6e9ed"}
"""Those of them that need another shade on a dark page."""

_WORD, _LABEL = 15, 11  # sizes of type, in pixels
_MARGIN, _GAP = 12, 10
_ROW = 30  # from one nesting level to the next
_LEVEL, _BOX = 38, 20  # from one level of a tree to the next, and the height of a node
_CORNER = 6
_FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NARROW = dict.fromkeys("ijlI.,:;'|!`", 0.29) | dict.fromkeys('ftr()[]{}-/\\" *', 0.38) | dict.fromkeys("mwMW@%", 0.9)


def spans_svg(words: Sequence[str], spans: Sequence[Span], *, labels: Sequence[str] | None = None) -> str:
    """The sentence, and beneath it a coloured bracket for each span, with label and score; outer ones further below.

    Args:
        words: the sentence.
        spans: nested, crossing or twice the same: those that overlap never share a row.
        labels: all labels there are, in their order, so that a label has the same colour in every figure. Without
            them a label's name chooses its colour, and another one only where two in a figure would share it.
    """
    check(words, spans)
    captions = [_Caption.of(label, score) for _, _, label, score in spans]
    needs = [(start, end, one.width) for (start, end, _, _), one in zip(spans, captions, strict=True)]
    columns = _Columns.of(words, needs)
    colour = colours([label for _, _, label, _ in spans], labels)
    rows = levels(spans)
    parts = [_word(word, columns, at, _MARGIN + _WORD) for at, word in enumerate(words)]
    first = _MARGIN + _WORD + 12
    for (start, end, label, score), caption, row in zip(spans, captions, rows, strict=True):
        left, right, y = columns.left(start), columns.right(end), first + row * _ROW
        parts.append(
            f'<g data-start="{start}" data-end="{end}" data-level="{row}">{_tip(words, start, end, label, score)}'
            f'<path class="bracket c{colour[label]}" d="M{left + 1} {y - 5}V{y}H{right - 1}V{y - 5}"/>'
            f"{caption.drawn((left + right) / 2, y + 14)}</g>"
        )
    height = first + (max(rows) + 1) * _ROW - 8 if rows else first
    return _figure(parts, columns.width, height, _said(words, spans))


def tree_svg(words: Sequence[str], nodes: Sequence[Node], *, labels: Sequence[str] | None = None) -> str:
    """A tree, its root on top and the words at its leaves: solid lines for entities, dashed ones for latent nodes.

    A latent node of a single word is drawn as the dashed line to that word.

    Args:
        words: the sentence.
        nodes: of one tree, in any order; of two nodes with the same words the one that comes first is the outer one.
        labels: as for :func:`spans_svg`.

    Raises:
        ValueError: two nodes cross.
    """
    check(words, nodes)
    tree = _Tree.of(len(words), nodes)
    captions = {at: _Caption.of(tree.nodes[at].label or "", tree.nodes[at].score) for at in tree.shown}
    columns = _Columns.of(
        words, [(tree.nodes[at].start, tree.nodes[at].end, one.width + 16) for at, one in captions.items()]
    )
    colour = colours([label for _, _, label, _ in nodes if label is not None], labels)
    top = max((tree.heights[at] for at in tree.shown), default=0)
    bottom = _MARGIN + _WORD + 6 + top * _LEVEL if top else _MARGIN + _WORD

    def height(at: int) -> float:
        return _MARGIN + _BOX / 2 + (top - tree.heights[at]) * _LEVEL

    def middle(start: int, end: int) -> float:
        return (columns.left(start) + columns.right(end)) / 2

    latent: list[str] = []
    entities: list[str] = []
    boxes = []
    for at in tree.shown:
        node, parent = tree.nodes[at], tree.parents[at]
        x, y = middle(node.start, node.end), height(at)
        if parent is not None:
            over = tree.nodes[parent]
            edge = _edge(middle(over.start, over.end), height(parent), x, y)
            (latent if node.label is None else entities).append(_line(edge, node.label, colour))
        boxes.append(_box(words, node, captions[at], x, y, colour))
    for word, owner in enumerate(tree.owners):
        if owner is None:
            continue
        node, x = tree.nodes[owner], middle(word, word + 1)
        edge = _edge(middle(node.start, node.end), height(owner), x, bottom - _WORD)
        own = node.label if node.end - node.start == 1 else None
        (latent if own is None else entities).append(_line(edge, own, colour))
    leaves = [_word(word, columns, at, bottom) for at, word in enumerate(words)]
    observed = [(start, end, label, score) for start, end, label, score in nodes if label is not None]
    return _figure([*latent, *entities, *boxes, *leaves], columns.width, bottom + _MARGIN, _said(words, observed))


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


def colours(present: Iterable[str], labels: Sequence[str] | None = None) -> dict[str, int]:
    """For each label present, the number of its colour in the palette; see :func:`spans_svg`."""
    number = {label: at % len(PALETTE) for at, label in reversed(list(enumerate(labels or ())))}
    found: dict[str, int] = {}
    for label in sorted(set(present), key=lambda one: (one not in number, one)):
        wanted = number[label] if label in number else crc32(label.encode(errors="replace")) % len(PALETTE)
        if label not in number and len(taken := set(found.values())) < len(PALETTE):
            while wanted in taken:
                wanted = (wanted + 1) % len(PALETTE)
        found[label] = wanted
    return found


def score_text(score: float | None) -> str:
    """A score with two digits. What is not quite certain does not look so: ``>0.99`` and ``<0.01``."""
    if score is None:
        return ""
    if 0.995 <= score < 1:
        return ">0.99"
    return "<0.01" if 0 < score < 0.005 else f"{score:.2f}"


def escaped(text: str) -> str:
    """Text for HTML and XML, also in quotes; � for what XML cannot hold."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


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


class _Caption(NamedTuple):
    """A label with its score, as they stand at a bracket or in a node."""

    label: str
    score: str
    width: int

    @classmethod
    def of(cls, label: str, score: float | None) -> _Caption:
        shown = score_text(score)
        space = 0.3 * _LABEL if label and shown else 0
        return cls(label, shown, math.ceil(1.06 * _width(label, _LABEL) + space + _width(shown, _LABEL)))

    def drawn(self, x: float, y: float) -> str:
        if not self.width:
            return ""
        label = f'<tspan class="label">{escaped(self.label)}</tspan>' if self.label else ""
        score = f'<tspan class="score">{escaped(self.score)}</tspan>' if self.score else ""
        return _text("caption", x, y, self.width, " ".join(filter(None, (label, score))))


class _Columns(NamedTuple):
    """Where words stand: each in the middle of a column that has room for the word and for what stands beneath."""

    natural: list[int]
    widths: list[int]
    lefts: list[int]

    @classmethod
    def of(cls, words: Sequence[str], needs: Sequence[tuple[int, int, int]]) -> _Columns:
        natural = [max(4, math.ceil(_width(word, _WORD))) for word in words]
        widths, lefts, at = widened(natural, needs, _GAP), [], _MARGIN
        for width in widths:
            lefts.append(at)
            at += width + _GAP
        return cls(natural, widths, lefts)

    def left(self, start: int) -> int:
        return self.lefts[start]

    def right(self, end: int) -> int:
        return self.lefts[end - 1] + self.widths[end - 1]

    @property
    def width(self) -> int:
        return self.right(len(self.widths)) + _MARGIN


class _TreeNode(NamedTuple):
    start: int
    end: int
    label: str | None
    score: float | None


class _Tree(NamedTuple):
    """Nodes in preorder, with what hangs where."""

    nodes: list[_TreeNode]
    parents: list[int | None]
    heights: list[int]
    shown: list[int]  # without the latent nodes of single words
    owners: list[int | None]  # of each word, the lowest shown node

    @classmethod
    def of(cls, n: int, given: Sequence[Node]) -> _Tree:
        nodes = [_TreeNode(*node) for node in sorted(given, key=lambda one: (one[0], -one[1]))]
        parents: list[int | None] = []
        above: list[int] = []
        for at, node in enumerate(nodes):
            while above and nodes[above[-1]].end <= node.start:
                above.pop()
            if above and nodes[above[-1]].end < node.end:
                other = nodes[above[-1]]
                raise ValueError(
                    f"the nodes [{other.start}, {other.end}) and [{node.start}, {node.end}) cross: this is no tree."
                )
            parents.append(above[-1] if above else None)
            above.append(at)
        inner = set(parents)
        shown = [
            at for at, node in enumerate(nodes) if node.label is not None or node.end - node.start > 1 or at in inner
        ]
        heights = [1] * len(nodes)
        for at in reversed(shown):
            if (parent := parents[at]) is not None:
                heights[parent] = max(heights[parent], heights[at] + 1)
        owners: list[int | None] = [None] * n
        for at in shown:
            owners[nodes[at].start : nodes[at].end] = [at] * (nodes[at].end - nodes[at].start)
        return cls(nodes, parents, heights, shown, owners)


def _edge(x: float, y: float, to_x: float, to_y: float) -> str:
    """From the middle of a node down, aside, and down: it passes over nothing but what belongs to its child."""
    bus = y + _LEVEL / 2 + 1
    if x == to_x:
        return f"M{x} {y}V{to_y}"
    corner = min(_CORNER, abs(to_x - x), max(0.0, to_y - bus))
    before = to_x - math.copysign(corner, to_x - x)
    return f"M{x} {y}V{bus}H{before}Q{to_x} {bus} {to_x} {bus + corner}V{to_y}"


def _line(path: str, label: str | None, colour: dict[str, int]) -> str:
    kind = "latent" if label is None else f"entity c{colour[label]}"
    return f'<path class="edge {kind}" d="{path}"/>'


def _box(words: Sequence[str], node: _TreeNode, caption: _Caption, x: float, y: float, colour: dict[str, int]) -> str:
    """A node: its label and score in a frame; a small square for a latent one of which no score is known."""
    width, height = (caption.width + 14, _BOX) if caption.width else (8, 8)
    kind = ("latent" if caption.width else "latent square") if node.label is None else f"entity c{colour[node.label]}"
    return (
        f'<g data-start="{node.start}" data-end="{node.end}">{_tip(words, *node)}'
        f'<rect class="node {kind}" x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" '
        f'rx="{2 if height == 8 else height / 2}"/>{caption.drawn(x, y + 4)}</g>'
    )


def _word(word: str, columns: _Columns, at: int, y: float) -> str:
    x = columns.lefts[at] + columns.widths[at] / 2
    return _text("word", x, y, columns.natural[at], escaped(word)) if word.strip() else ""


def _text(kind: str, x: float, y: float, width: int, markup: str) -> str:
    """Text that is as wide as was reckoned, whichever typeface the reader has."""
    return f'<text class="{kind}" x="{x}" y="{y}" textLength="{width}" lengthAdjust="spacingAndGlyphs">{markup}</text>'


def _tip(words: Sequence[str], start: int, end: int, label: str | None, score: float | None) -> str:
    name = "latent" if label is None else label
    number = "" if score is None else f" {score:.4f}"
    return f"<title>{escaped(f'{name}{number}: ' + ' '.join(words[start:end]))}</title>"


def _said(words: Sequence[str], spans: Iterable[Span]) -> str:
    """The figure for those who do not see it."""
    entities = "; ".join(f"{label}: {' '.join(words[start:end])}" for start, end, label, _ in spans)
    return " ".join(words) + (f" ({entities})" if entities else "")


def _width(text: str, size: float) -> float:
    """About how wide text is, in pixels."""
    return size * sum(map(_share, text))


def _share(character: str) -> float:
    """A character's width in a sans-serif typeface, as a share of its size."""
    if character in _NARROW:
        return _NARROW[character]
    cells = wcwidth(character)
    if cells != 1:
        return 1.02 if cells > 1 else 0.0 if cells == 0 else 0.6
    return 0.7 if character.isupper() else 0.57 if character.islower() or character.isascii() else 0.5


def _figure(parts: Sequence[str], width: float, height: float, said: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="nestree-figure" role="img" aria-label="{escaped(said)}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<style>{_STYLE}</style><rect class="paper" width="{width}" height="{height}"/>{"".join(parts)}</svg>'
    )


def _style() -> str:
    """Rules without variables, which some viewers of SVG do not know."""
    light = {
        "": f"font-family:{_FONT}",
        " .paper": "fill:#fff",
        " text": "fill:#1f2328;text-anchor:middle",
        " .word": f"font-size:{_WORD}px",
        " .caption": f"font-size:{_LABEL}px",
        " .label": "font-weight:600",
        " .score": "fill:#59636e",
        " .bracket": "fill:none;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round",
        " .edge": "fill:none;stroke-width:2",
        " .edge.latent": "stroke:#818b98;stroke-width:1.5;stroke-dasharray:4 3",
        " .node": "fill:#fff;stroke-width:2",
        " .node.latent": "stroke:#818b98;stroke-width:1.5;stroke-dasharray:4 3",
        " .node.square": "fill:#818b98;stroke:none",
        **{f" .c{at}": f"stroke:{colour}" for at, colour in enumerate(PALETTE)},
    }
    dark = {
        " .paper": "fill:#14181d",
        " text": "fill:#e6e9ed",
        " .score": "fill:#a5afba",
        " .node": "fill:#14181d",
        " .node.square": "fill:#818b98",
        **{f" .c{at}": f"stroke:{colour}" for at, colour in ON_DARK.items()},
    }

    def rules(given: dict[str, str]) -> str:
        return "".join(f".nestree-figure{what}{{{how}}}" for what, how in given.items())

    return f"{rules(light)}@media (prefers-color-scheme:dark){{{rules(dark)}}}"


_STYLE = _style()
