"""Trees and spans as people look at them: text for a terminal, SVG, and pages of HTML (:mod:`nestree.drawing.page`)."""

from nestree.drawing.spans import spans_svg, tree_svg
from nestree.drawing.terminal import draw_marginals, draw_nodes, draw_spans, draw_symbols, draw_tree

__all__ = ["draw_marginals", "draw_nodes", "draw_spans", "draw_symbols", "draw_tree", "spans_svg", "tree_svg"]
