"""Trees and charts as people look at them. So far: text for a terminal."""

from nestree.drawing.terminal import draw_marginals, draw_symbols, draw_tree

__all__ = ["draw_marginals", "draw_symbols", "draw_tree"]
