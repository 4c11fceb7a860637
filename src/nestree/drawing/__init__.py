"""Trees and spans as people look at them: text for a terminal, SVG, and pages of HTML (:mod:`nestree.drawing.page`)."""

from nestree.drawing.png import as_png
from nestree.drawing.predictions import draw
from nestree.drawing.sentence import sentence_svg
from nestree.drawing.spans import spans_svg
from nestree.drawing.terminal import draw_marginals, draw_nodes, draw_spans, draw_symbols, draw_tree
from nestree.drawing.tree import tree_svg

__all__ = [
    "as_png",
    "draw",
    "draw_marginals",
    "draw_nodes",
    "draw_spans",
    "draw_symbols",
    "draw_tree",
    "sentence_svg",
    "spans_svg",
    "tree_svg",
]
