"""Drawings of sentences, and the figures that hold them: SVG that stands alone, or a part of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nestree.drawing.layout import Node, Span
from nestree.drawing.style import Theme, check_theme, rules
from nestree.drawing.text import WORD, escaped, number

MARGIN, APART = 12, 20
"""Around a drawing, and between sentences."""

Key = tuple[int, int, str | None]
Keys = dict[Key, int]
"""The words ``[start, end)`` and the label of a part of a sentence, and its number: what has the same lights up
together."""


class Drawn(NamedTuple):
    """A piece of SVG with its size, the margin around it included."""

    markup: str
    width: float
    height: float


def keys_of(parts: Iterable[Span] | Iterable[Node]) -> Keys:
    """Numbers for all parts of a sentence."""
    keys: Keys = {}
    for start, end, label, _ in parts:
        keys.setdefault((start, end, label), len(keys))
    return keys


def item(key: int | None, more: str = "") -> str:
    """The classes of what lights up and steps back."""
    return " ".join(filter(None, ("item", f"k{key}" if key is not None else "", more)))


def tip(words: Sequence[str], start: int, end: int, label: str | None, score: float | None) -> str:
    """What is said of a part when it is pointed at, or read aloud."""
    name = "latent" if label is None else label
    shown = "" if score is None else f" {score:.4f}"
    return f"<title>{escaped(f'{name}{shown}: ' + ' '.join(words[start:end]))}</title>"


def mark(left: float, right: float, top: float) -> str:
    """What lights up behind words, which begin at this height; to point at the words is to point at it."""
    place = f'x="{number(left - 1)}" y="{number(top - 3)}" width="{number(right - left + 2)}" height="{WORD + 9}"'
    return f'<rect class="mark" {place} rx="3"/>'


def said(words: Sequence[str], spans: Iterable[Span] | Iterable[Node]) -> str:
    """The figure for those who do not see it."""
    entities = "; ".join(
        f"{label}: {' '.join(words[start:end])}" for start, end, label, _ in spans if label is not None
    )
    return " ".join(words) + (f" ({entities})" if entities else "")


def stacked(sentences: Sequence[Sequence[Drawn]], spoken: str, theme: Theme, keys: int) -> str:
    """SVG that stands alone, with sentences one below the other, each of one drawing or several."""
    check_theme(theme)
    drawings = [drawn for sentence in sentences for drawn in sentence]
    width = max(one.width for one in drawings)
    height = sum(one.height for one in drawings) + APART * (len(sentences) - 1)
    parts, y = [], 0.0
    for sentence in sentences:
        parts.append('<g class="nestree-sentence">')
        for drawn in sentence:
            parts.append(f'<g transform="translate(0 {number(y)})">{drawn.markup}</g>' if y else drawn.markup)
            y += drawn.height
        parts.append("</g>")
        y += APART
    size = f'width="{number(width)}" height="{number(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="nestree-figure nestree-{theme}" role="group" '
        f'aria-label="{escaped(spoken)}" {size} viewBox="0 0 {number(width)} {number(height)}">'
        f'<style>{rules(theme, keys=keys)}</style><rect class="paper" {size}/>{"".join(parts)}</svg>'
    )


def as_part(sentences: Sequence[Sequence[Drawn]], spoken: Sequence[str], theme: Theme, keys: int) -> str:
    """The same for a page or a notebook: what is wider than the page can be scrolled by itself."""
    check_theme(theme)
    inner = []
    for sentence, text in zip(sentences, spoken, strict=True):
        drawings = (
            f'<div style="overflow-x:auto"><svg xmlns="http://www.w3.org/2000/svg" '
            f'style="display:block;max-width:none" width="{number(one.width)}" height="{number(one.height)}" '
            f'viewBox="0 0 {number(one.width)} {number(one.height)}" role="group" aria-label="{escaped(text)}">'
            f'<rect class="paper" width="{number(one.width)}" height="{number(one.height)}"/>{one.markup}</svg></div>'
            for one in sentence
        )
        inner.append(f'<div class="nestree-sentence" style="margin-bottom:{APART}px">{"".join(drawings)}</div>')
    style = rules(theme, keys=keys, notebook=True)
    return f'<div class="nestree-figure nestree-{theme}"><style>{style}</style>{"".join(inner)}</div>'
