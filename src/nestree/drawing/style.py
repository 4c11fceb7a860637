"""Colours and rules of the drawings: for light pages and dark ones, and which parts light up together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args
from zlib import crc32

from nestree.drawing.text import LABEL, WORD

Theme = Literal["auto", "light", "dark"]
THEMES: tuple[str, ...] = get_args(Theme)

PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a39000", "#24292f"]
"""Okabe and Ito's colours, told apart by colour-blind eyes; their yellow a darker one."""
ON_DARK = {0: "#2b8fd0", 6: "#f0e442", 7: "#e6e9ed"}
"""Those of them that need another shade on a dark page."""

FONT = "Arial,'Liberation Sans',Helvetica,'Noto Sans','DejaVu Sans',sans-serif"
LATENT = "stroke:#818b98;stroke-width:1.5;stroke-dasharray:4 3"

_LIGHT = {
    "": f"font-family:{FONT};background:#fff",
    " .paper": "fill:#fff",
    " text": "fill:#1f2328;fill-opacity:1;text-anchor:middle",
    " .word": f"font-size:{WORD}px",
    " .caption": f"font-size:{LABEL}px",
    " .label": "font-weight:600",
    " .score": "fill:#59636e",
    " .note": "fill:#59636e",
    " .bracket": "fill:none;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round",
    " .edge": "fill:none;stroke-width:2",
    " .edge.latent": LATENT,
    " .node": "fill:#fff;fill-opacity:1;stroke-width:2",
    " .node.latent": LATENT,
    " .node.square": "fill:#818b98;stroke:none",
    " .mark": "fill:#6e7781;stroke:none;pointer-events:all",
    " .hit": "fill:none;stroke:none;pointer-events:all",
    " .still .mark": "pointer-events:none",
    " .item": "fill-opacity:0;outline:none",
    **{f" .c{at}": f"stroke:{colour}" for at, colour in enumerate(PALETTE)},
}
_DARK = {
    "": "background:#14181d",
    " .paper": "fill:#14181d",
    " text": "fill:#e6e9ed",
    " .score": "fill:#a5afba",
    " .note": "fill:#a5afba",
    " .node": "fill:#14181d",
    " .node.square": "fill:#818b98",
    " .mark": "fill:#a5afba",
    **{f" .c{at}": f"stroke:{colour}" for at, colour in ON_DARK.items()},
}
_DARK_NOTEBOOKS = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast", 'html[theme="dark"]')
_LIGHT_NOTEBOOKS = ('[data-jp-theme-light="true"]', ".vscode-light", 'html[theme="light"]')


def colours(present: Iterable[str], labels: Sequence[str] | None = None) -> dict[str, int]:
    """For each label present, the number of its colour in the palette; see :func:`nestree.drawing.spans_svg`."""
    number = {label: at % len(PALETTE) for at, label in reversed(list(enumerate(labels or ())))}
    found: dict[str, int] = {}
    for label in sorted(set(present), key=lambda one: (one not in number, one)):
        wanted = number[label] if label in number else crc32(label.encode(errors="replace")) % len(PALETTE)
        if label not in number and len(taken := set(found.values())) < len(PALETTE):
            while wanted in taken:
                wanted = (wanted + 1) % len(PALETTE)
        found[label] = wanted
    return found


def check_theme(theme: str) -> None:
    """Raises ValueError if there is no such theme."""
    if theme not in THEMES:
        raise ValueError(f"the theme is {theme!r}; known are {', '.join(map(repr, THEMES))}.")


def rules(theme: Theme, *, keys: int = 0, notebook: bool = False) -> str:
    """The rules of a figure of this theme, within ``.nestree-figure`` alone, without variables, which some viewers of
    SVG do not know.

    Args:
        theme: "auto" follows the reader's system.
        keys: parts of a sentence with the class ``k0``, ``k1``, … up to this many light up together.
        notebook: whether "auto" follows the notebook, where that says what it is.
    """
    check_theme(theme)
    made = _scoped(_LIGHT, [".nestree-figure"])
    figure = f".nestree-figure.nestree-{theme}"  # more special than the light rules of figures that come later
    if theme == "dark":
        made += _scoped(_DARK, [figure])
    elif theme == "auto":
        within = figure
        if notebook:
            within = f"{figure}:not({','.join(f'{one} *' for one in _LIGHT_NOTEBOOKS)})"
            made += _scoped(_DARK, [f"{one} {figure}" for one in _DARK_NOTEBOOKS])
        made += f"@media (prefers-color-scheme:dark){{{_scoped(_DARK, [within])}}}"
    return made + linked(keys)


def linked(keys: int) -> str:
    """What lights up in a sentence, and what steps back, while one of its parts is pointed at or has the focus."""
    here = ":is(:hover,:focus)"
    any_of = f".nestree-sentence:has(.item{here}) .item"
    lit = "{opacity:1;fill-opacity:.2}"
    by_key = (f".nestree-sentence:has(.k{key}{here}) .k{key}{lit}" for key in range(keys))
    return f"{any_of}{{opacity:.35}}{any_of}{here}{lit}{''.join(by_key)}"


def _scoped(given: dict[str, str], scopes: Sequence[str]) -> str:
    return "".join(f"{','.join(scope + what for scope in scopes)}{{{how}}}" for what, how in given.items())
