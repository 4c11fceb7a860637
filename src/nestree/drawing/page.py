"""A page of HTML that stands alone: text, tables, figures and pictures; no script, nothing fetched from elsewhere."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nestree.drawing.style import Theme, check_theme
from nestree.drawing.text import escaped

_NUMBER = re.compile(r"[-−+<>]?[\d.,]*\d[\d.,]*\s?%?|nan|-?inf|[–—]?")
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Text:
    """A paragraph; an empty line begins another."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows under a head. Columns of numbers are flush right.

    Args:
        head: the names of the columns.
        rows: each as long as the head.
        caption: stands above the table.
        marked: the numbers of rows to bring out, from 0.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    marked: Collection[int] = ()

    def __post_init__(self) -> None:
        for at, row in enumerate(self.rows):
            if len(row) != len(self.head):
                raise ValueError(f"row {at} of the table has {len(row)} cells under {len(self.head)} columns.")


@dataclass(frozen=True)
class Figure:
    """An SVG drawing, as :mod:`nestree.drawing.spans` makes them; it is taken into the page as it is.

    Wider than the page, it can be scrolled.
    """

    svg: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.svg.startswith("<svg"):
            raise ValueError(f"a figure is SVG and begins with <svg; this begins with {self.svg[:20]!r}.")


@dataclass(frozen=True)
class Drawing:
    """Sentences as :func:`nestree.drawing.draw` gives them for a part of a page; taken into the page as they are."""

    part: str

    def __post_init__(self) -> None:
        if not self.part.startswith('<div class="nestree-figure'):
            raise ValueError(f"a drawing is what draw(…, 'part') returns; this begins with {self.part[:20]!r}.")


@dataclass(frozen=True)
class Image:
    """A picture, kept within the page.

    Args:
        png: the bytes of a PNG file.
        alt: what it shows, for those who do not see it.
        caption: stands beneath it.
        dark: the same picture for dark pages, if there is one.
    """

    png: bytes
    alt: str
    caption: str = ""
    dark: bytes | None = None

    def __post_init__(self) -> None:
        for data in (self.png, self.dark):
            if data is not None and not data.startswith(_PNG):
                raise ValueError(f"a picture is PNG; these bytes begin with {data[:8]!r}.")


Part = Text | Table | Figure | Drawing | Image


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    parts: Sequence[Part]


def page(title: str, sections: Sequence[Section], *, theme: Theme = "auto") -> str:
    """The page, complete. What users wrote is escaped; it is well-formed XML, too.

    A section without a title has no heading. ``theme``: "light", "dark", or "auto" for what the reader's system has.
    """
    check_theme(theme)
    body = "\n".join(
        "<section>\n"
        + (f"<h2>{escaped(section.title)}</h2>\n" if section.title else "")
        + "\n".join(map(html, section.parts))
        + "\n</section>"
        for section in sections
    )
    scheme = "light dark" if theme == "auto" else theme
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f'<meta name="color-scheme" content="{scheme}"/>\n'
        f"<title>{escaped(title)}</title>\n<style>{_THEMES[theme]}{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escaped(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def html(part: Part) -> str:
    """One part alone, to put into a page of one's own or a notebook."""
    if isinstance(part, Text):
        paragraphs = filter(None, (one.strip() for one in re.split(r"\n\s*\n", part.text)))
        return "\n".join(f"<p>{escaped(one)}</p>" for one in paragraphs)
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Figure):
        return _captioned(part.svg, part.caption)
    if isinstance(part, Drawing):
        return part.part
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{_data(part.dark)}"/>' if part.dark else ""
    image = f'<img class="{"both" if dark else "light"}" src="{_data(part.png)}" alt="{escaped(part.alt)}"/>'
    return _captioned(f"<picture>{dark}{image}</picture>", part.caption)


def _table(table: Table) -> str:
    numbers = [
        bool(table.rows) and all(_NUMBER.fullmatch(row[at].strip()) for row in table.rows)
        for at in range(len(table.head))
    ]

    def row(cells: Sequence[str], tag: str, kind: str = "") -> str:
        inner = "".join(
            f'<{tag} class="number">{escaped(cell)}</{tag}>' if number else f"<{tag}>{escaped(cell)}</{tag}>"
            for cell, number in zip(cells, numbers, strict=True)
        )
        return f"<tr{kind}>{inner}</tr>"

    caption = f"<caption>{escaped(table.caption)}</caption>" if table.caption else ""
    rows = (row(cells, "td", ' class="marked"' if at in table.marked else "") for at, cells in enumerate(table.rows))
    return (
        f'<div class="scroll" style="overflow-x:auto"><table>{caption}<thead>{row(table.head, "th")}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _captioned(inner: str, caption: str) -> str:
    below = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="scroll" style="overflow-x:auto">{inner}</div>{below}</figure>'


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode()}"


_LIGHT = "--paper:#fff;--ink:#1f2328;--muted:#59636e;--rule:#d1d9e0;--marked:#ddf4e4"
_DARK = "--paper:#14181d;--ink:#e6e9ed;--muted:#a5afba;--rule:#3a424c;--marked:#173526"
_THEMES = {
    "light": f":root{{color-scheme:light;{_LIGHT}}}",
    "dark": f":root{{color-scheme:dark;{_DARK}}}",
    "auto": f":root{{color-scheme:light dark;{_LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}",
}
_STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif}
main{max-width:68rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem;padding-bottom:.25rem;border-bottom:1px solid var(--rule)}
p{max-width:46rem;overflow-wrap:anywhere}
figure{margin:1rem 0}
figcaption,caption{color:var(--muted);font-size:.875rem;text-align:left}
caption{padding-bottom:.3rem}
figcaption{margin-top:.3rem}
.scroll{overflow-x:auto}
svg,img{display:block}
svg{max-width:none}
img{max-width:100%;height:auto}
img.light{background:#fff;border-radius:6px}
table{border-collapse:collapse;font-size:.9rem}
th,td{padding:.3rem .9rem .3rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th{color:var(--muted);font-weight:600;white-space:nowrap}
td{overflow-wrap:anywhere}
td:not(.number){min-width:4rem}
th:first-child,td:first-child{padding-left:.4rem;overflow-wrap:normal}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.marked td{background:var(--marked);font-weight:600}
"""
