"""A sentence with its nested spans, and its tree beneath it, in one figure: to point at one is to see the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nestree.drawing.figure import Drawn, Keys, keys_of, said, stacked
from nestree.drawing.layout import Node, Span, check
from nestree.drawing.spans import drawn_spans
from nestree.drawing.style import Theme, colours
from nestree.drawing.tree import drawn_tree


def sentence_svg(
    words: Sequence[str],
    spans: Sequence[Span],
    nodes: Sequence[Node],
    *,
    labels: Sequence[str] | None = None,
    width: int | None = None,
    theme: Theme = "auto",
    joined: Collection[int] = (),
) -> str:
    """The sentence with a bracket for each span, as :func:`nestree.drawing.spans_svg` draws it; beneath it its tree,
    as :func:`nestree.drawing.tree_svg` does.

    Point at a span, or reach it with the tab key, and its node lights up, and the other way round; a latent node has
    its words light up. There is no script in it: browsers that know ``:has()`` do it.

    Args:
        words: the sentence.
        spans: its entities.
        nodes: its tree. The node of a span has the same words and the same label.
        labels: all labels there are, as for the others.
        width: of the sentence in pixels, if it shall be broken into lines; the tree is as wide as it needs.
        theme: "light", "dark", or "auto" for what the reader's system has.
        joined: the numbers of words that follow the one before them without a space.
    """
    check(words, spans)
    check(words, nodes)
    colour = colours([label for _, _, label, _ in [*spans, *nodes] if label is not None], labels)
    drawings, keys = drawn_sentence(words, spans, nodes, colour, width=width, joined=joined)
    return stacked([drawings], said(words, spans), theme, len(keys))


def drawn_sentence(
    words: Sequence[str],
    spans: Sequence[Span],
    nodes: Sequence[Node],
    colour: dict[str, int],
    *,
    width: int | None = None,
    joined: Collection[int] = (),
) -> tuple[list[Drawn], Keys]:
    """The two drawings without the figure around them, and which of their parts light up together."""
    keys = keys_of([*spans, *nodes])
    latent = [node for node in nodes if node[2] is None and node[1] - node[0] > 1]
    above = drawn_spans(words, spans, keys, colour, latent=latent, width=width, joined=joined)
    return [above, drawn_tree(words, nodes, keys, colour)], keys
