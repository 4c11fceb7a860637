"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from wcwidth import wcswidth


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    """Rows under a head, in columns. ``right``: all columns but the first are flush right."""
    lines = [[_on_one_line(cell) for cell in line] for line in (head, *rows)]
    widths = [max(_width(line[at]) for line in lines) for at in range(len(head))]

    def cell(text: str, at: int) -> str:
        space = " " * (widths[at] - _width(text))
        return space + text if right and at else text + space

    text = ["  ".join(cell(one, at) for at, one in enumerate(line)).rstrip() for line in lines]
    return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]])


def _on_one_line(text: str) -> str:
    """A label may hold anything; a table has one line for it."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "�" for one in text)


def _width(text: str) -> int:
    return max(0, wcswidth(text)) if text.isprintable() else len(text)
