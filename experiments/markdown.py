"""Tables of Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\*?~?[<+−]?\s?\d[\d,.]*( |%|\*|$|×)|$")
"""How a cell with a number begins; an empty one may stand among them."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns of numbers are flush right."""
    for at, row in enumerate(rows):
        if len(row) != len(head):
            raise ValueError(f"row {at} of the table has {len(row)} cells under {len(head)} columns.")
    numbers = [bool(rows) and all(_NUMBER.match(row[at]) for row in rows) for at in range(len(head))]
    line = "|".join("---:" if one else "---" for one in numbers)
    return "\n".join(
        [_row(head), f"|{line}|", *(_row([cell if cell else "–" for cell in row]) for row in rows)],
    )


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def number(value: float) -> str:
    """With thousands apart; whole numbers without a point."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def signed(value: float, digits: int = 2) -> str:
    """With its sign, and a minus that is one."""
    return f"{value:+.{digits}f}".replace("-", "−")


def p_text(p: float) -> str:
    """A p value as it is printed."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
