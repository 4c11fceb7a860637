"""The tree of a sentence in SVG: solid lines for entities, dashed ones for latent constituents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from nestree.drawing.direction import right_to_left
from nestree.drawing.figure import MARGIN, Drawn, Keys, item, keys_of, mark, said, stacked, tip
from nestree.drawing.layout import Node, check, widened
from nestree.drawing.style import Theme, colours
from nestree.drawing.text import WORD, Caption, number, width_of, word_svg

GAP = 10
_LEVEL, _BOX = 38, 20  # from one level of a tree to the next, and the height of a node
_SQUARE, _CORNER = 8, 6


def tree_svg(
    words: Sequence[str], nodes: Sequence[Node], *, labels: Sequence[str] | None = None, theme: Theme = "auto"
) -> str:
    """A tree, its root on top and the words at its leaves: solid lines for entities, dashed ones for latent nodes.

    A latent node of a single word is drawn as the dashed line to that word. A sentence that begins with letters of a
    right-to-left script has its first word on the right; all its words follow in that direction, so that no lines
    cross.

    Args:
        words: the sentence.
        nodes: of one tree, in any order; of two nodes with the same words the one that comes first is the outer one.
        labels: as for :func:`nestree.drawing.spans_svg`.
        theme: as there.

    Raises:
        ValueError: two nodes cross.
    """
    check(words, nodes)
    keys = keys_of(nodes)
    colour = colours([label for _, _, label, _ in nodes if label is not None], labels)
    return stacked([[drawn_tree(words, nodes, keys, colour)]], said(words, nodes), theme, len(keys))


def drawn_tree(words: Sequence[str], nodes: Sequence[Node], keys: Keys, colour: dict[str, int]) -> Drawn:
    """The same without the figure around it."""
    tree = _Tree.of(len(words), nodes)
    captions = {at: Caption.of(tree.nodes[at].label or "", tree.nodes[at].score) for at in tree.shown}
    needs = [(tree.nodes[at].start, tree.nodes[at].end, one.width + 16) for at, one in captions.items()]
    columns = _Columns.of(words, needs)
    top = max((tree.heights[at] for at in tree.shown), default=0)
    bottom = MARGIN + WORD + 6 + top * _LEVEL if top else MARGIN + WORD

    def height(at: int) -> float:
        return MARGIN + _BOX / 2 + (top - tree.heights[at]) * _LEVEL

    def half(at: int) -> float:
        return (_BOX if captions[at].width else _SQUARE) / 2

    latent: list[str] = []
    entities: list[str] = []
    boxes = []
    for at in tree.shown:
        node, parent = tree.nodes[at], tree.parents[at]
        x, y, key = columns.middle(node.start, node.end), height(at), keys.get(node[:3])
        if parent is not None:
            over = tree.nodes[parent]
            edge = _edge(columns.middle(over.start, over.end), height(parent), half(parent), x, y - half(at))
            (latent if node.label is None else entities).append(_line(edge, node.label, colour, key))
        marked = mark(*columns.ends(node.start, node.end), bottom - WORD)
        boxes.append(_box(words, node, captions[at], x, y, colour, key, marked))
    for word, owner in enumerate(tree.owners):
        if owner is None:
            continue
        node, x = tree.nodes[owner], columns.middle(word, word + 1)
        edge = _edge(columns.middle(node.start, node.end), height(owner), half(owner), x, bottom - WORD - 1)
        single = node.end - node.start == 1
        own = node.label if single else None
        key = keys.get(node[:3] if single else (word, word + 1, None))
        (latent if own is None else entities).append(_line(edge, own, colour, key))
    leaves = [columns.word(word, at, bottom) for at, word in enumerate(words)]
    return Drawn("".join([*latent, *entities, *leaves, *boxes]), columns.width, bottom + MARGIN)


class _Columns(NamedTuple):
    """Where words stand: each in the middle of a column that has room for the word and for the nodes above it."""

    natural: list[int]
    widths: list[int]
    lefts: list[int]
    width: int
    rtl: bool

    @classmethod
    def of(cls, words: Sequence[str], needs: Sequence[tuple[int, int, int]]) -> _Columns:
        natural = [max(4, width_of(word)) for word in words]
        widths, lefts, at = widened(natural, needs, GAP), [], MARGIN
        for width in widths:
            lefts.append(at)
            at += width + GAP
        whole, rtl = at - GAP + MARGIN, right_to_left(words)
        if rtl:
            lefts = [whole - left - width for left, width in zip(lefts, widths, strict=True)]
        return cls(natural, widths, lefts, whole, rtl)

    def ends(self, start: int, end: int) -> tuple[int, int]:
        first, last = (end - 1, start) if self.rtl else (start, end - 1)
        return self.lefts[first], self.lefts[last] + self.widths[last]

    def middle(self, start: int, end: int) -> float:
        return sum(self.ends(start, end)) / 2

    def word(self, word: str, at: int, y: float) -> str:
        return word_svg(word, self.middle(at, at + 1), y, self.natural[at], rtl=right_to_left([word]))


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


def _edge(x: float, y: float, half: float, to_x: float, to_y: float) -> str:
    """From a node, half of whose height is given, down, aside, and down: it passes over nothing but what belongs to
    its child.
    """
    bus = y + _LEVEL / 2 + 1
    if x == to_x:
        return f"M{number(x)} {number(y + half)}V{number(to_y)}"
    corner = min(_CORNER, abs(to_x - x), max(0.0, to_y - bus))
    before = to_x - math.copysign(corner, to_x - x)
    bend = f"{number(to_x)} {number(bus)} {number(to_x)} {number(bus + corner)}"
    return f"M{number(x)} {number(y + half)}V{number(bus)}H{number(before)}Q{bend}V{number(to_y)}"


def _line(path: str, label: str | None, colour: dict[str, int], key: int | None) -> str:
    kind = "latent" if label is None else f"entity c{colour[label]}"
    return f'<path class="edge {kind} {item(key)}" d="{path}"/>'


def _box(
    words: Sequence[str],
    node: _TreeNode,
    caption: Caption,
    x: float,
    y: float,
    colour: dict[str, int],
    key: int | None,
    marked: str,
) -> str:
    """A node: its label and score in a frame; a small square for a latent one of which no score is known."""
    width, height = (caption.width + 14, _BOX) if caption.width else (_SQUARE, _SQUARE)
    kind = ("latent" if caption.width else "latent square") if node.label is None else f"entity c{colour[node.label]}"
    place = f'x="{number(x - width / 2)}" y="{number(y - height / 2)}" width="{width}" height="{height}"'
    return (
        f'<g class="{item(key)}" tabindex="0" role="img" data-start="{node.start}" data-end="{node.end}">'
        f'{tip(words, *node)}{marked}<rect class="node {kind}" {place} '
        f'rx="{2 if height == _SQUARE else number(height / 2)}"/>{caption.drawn(x, y + 4)}</g>'
    )
