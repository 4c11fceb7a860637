"""The paper's error table (its Table 3), as text, CSV and heat map: what was predicted where gold has an entity."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from os import PathLike
from pathlib import Path
from typing import Any

from wcwidth import wcswidth

from nestree.data.errors import shown
from nestree.data.files import written_bytes

LATENT, NONE = "Latent", "None"
"""Rows of the table: the entity's span is a latent node of the predicted tree; it is no node at all."""
LONGEST_LABEL = 24
"""Longer labels are cut in the picture (…)."""


@dataclass(frozen=True)
class ErrorTable:
    """What became of the entities of gold, as in Table 3 of the paper: rows are predicted, columns are gold.

    As there, spurious entities are in no column: each column is about the entities of gold with that label, and its
    shares add up to 1.

    Attributes:
        labels: the columns: the labels of gold, sorted.
        rows: the same labels, then those that were only predicted, then Latent where trees are known, and None.
        counts: a row of numbers for each of ``rows``.
    """

    labels: tuple[str, ...]
    rows: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def gold(self) -> dict[str, int]:
        """How many entities each label has in gold."""
        columns = zip(*self.counts, strict=True)
        return dict(zip(self.labels, map(sum, columns), strict=True))

    @property
    def prior(self) -> dict[str, float]:
        """ρ: the share that each label has in gold."""
        gold = self.gold
        total = sum(gold.values())
        return {label: count / total for label, count in gold.items()}

    def column_normalised(self) -> list[list[float]]:
        """Of the entities of each column, the share of each row. The columns add up to 1."""
        sums = list(self.gold.values())
        return [[count / of for count, of in zip(row, sums, strict=True)] for row in self.counts]

    def as_text(self) -> str:
        """The table as the paper has it: ρ, then the shares, all with two digits."""
        lines = [["", *map(_plain, self.labels)], ["ρ", *(f"{share:.2f}" for share in self.prior.values())]]
        for name, shares in zip(self.rows, self.column_normalised(), strict=True):
            lines.append([_plain(name), *(f"{share:.2f}" for share in shares)])
        widths = [max(_width(line[at]) for line in lines) for at in range(len(lines[0]))]

        def drawn(line: list[str]) -> str:
            spaces = [" " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)]
            return "  ".join([line[0] + spaces[0], *map(str.__add__, spaces[1:], line[1:])]).rstrip()

        rule = "  ".join("-" * width for width in widths)
        return "\n".join([drawn(lines[0]), rule, drawn(lines[1]), rule, *map(drawn, lines[2:])])

    def as_csv(self) -> str:
        """The same for programs: the shares with six digits, after ``prior`` and ``gold``, the number of entities."""
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["predicted", *self.labels])
        writer.writerow(["prior", *(round(share, 6) for share in self.prior.values())])
        writer.writerow(["gold", *self.gold.values()])
        for name, shares in zip(self.rows, self.column_normalised(), strict=True):
            writer.writerow([name, *(round(share, 6) for share in shares)])
        return text.getvalue()


# --- The picture -----------------------------------------------------------------------------------------------------


def heat_map_png(table: ErrorTable, path: str | PathLike[str]) -> Path:
    """Draws the table: what is right in blue, errors in orange, ρ in grey; no number where there is no entity.

    Raises:
        ImportError: matplotlib is not installed.
    """
    return write_bytes(Path(path), _heat_map(table))


def _heat_map(table: ErrorTable) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('drawing needs matplotlib: pip install "nestree[plots]"') from None
    from matplotlib.collections import PolyCollection

    columns, tops = len(table.labels), _tops(len(table.labels), len(table.rows))
    side = 0.62 if columns <= 10 else max(0.4, 6.2 / columns)  # of a cell, in inches
    type_size = 10.5 if columns <= 10 else max(7.0, 17 * side)
    cells = [*_cells(table, tops)]
    picture = BytesIO()
    with matplotlib.rc_context({"font.size": type_size}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a label in letters that the typeface lacks
        figure = Figure(figsize=(side * max(columns, 1), side * (tops[-1] + 1)), facecolor="white")
        axis = figure.add_axes((0, 0, 1, 1), xlim=(0, max(columns, 1)), ylim=(tops[-1] + 1, 0))
        corners = [[(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)] for x, y, *_ in cells]
        fill = [colour for *_, colour in cells]
        axis.add_collection(PolyCollection(corners, facecolors=fill, edgecolors="white", linewidths=1.2))
        for x, y, text, ink, _ in cells:
            if text:
                axis.text(x + 0.5, y + 0.5, text, ha="center", va="center_baseline", color=ink)
        axis.set_xticks([at + 0.5 for at in range(columns)], [_drawable(label) for label in table.labels])
        axis.set_yticks([top + 0.5 for top in tops], ["ρ", *map(_drawable, table.rows)])
        axis.set(xlabel="gold" if columns else "gold has no entities", ylabel="predicted")
        axis.xaxis.set_label_position("top")
        axis.tick_params(length=0, top=True, labeltop=True, labelbottom=False, bottom=False)
        if max(map(len, table.labels), default=0) * type_size / 110 > side:
            axis.tick_params(axis="x", rotation=90)
        axis.spines[:].set_visible(False)
        figure.savefig(picture, dpi=150, format="png", bbox_inches="tight", pad_inches=0.15)
    return picture.getvalue()


def _tops(columns: int, rows: int) -> list[float]:
    """Where the rows begin, ρ first; there is a gap below it, and one above what is no label of gold."""
    return [0.0, *(1.3 + at + (0.3 if at >= columns else 0) for at in range(rows))]


def _cells(table: ErrorTable, tops: Sequence[float]) -> Iterator[tuple[int, float, str, str, Any]]:
    """Of each cell: left and top, text and its colour, and the colour of the cell."""
    from matplotlib import colormaps

    shares = table.column_normalised()
    worst = max([0.25, *(one for at, row in enumerate(shares) for other, one in enumerate(row) if at != other)])
    for at, (top, row) in enumerate(zip(tops, [table.prior.values(), *shares], strict=True)):
        for column, share in enumerate(row):
            if at == 0:
                depth, scale = 0.5 * share, "Greys"
            elif at - 1 == column:
                depth, scale = 0.85 * share, "Blues"
            else:
                depth, scale = 0.85 * share / worst, "Oranges"
            text = "" if not share else "<.01" if share < 0.005 else f"{share:.2f}"
            ink = "#ffffff" if depth > 0.55 else "#1f2328"
            yield column, top, text, ink, colormaps[scale](depth) if text else "#f6f8fa"


def _drawable(label: str) -> str:
    """A label as matplotlib takes it: $ would begin a formula, and lone surrogates have no shape."""
    label = label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
    return _plain(label).encode(errors="replace").decode().replace("$", r"\$")


def _plain(label: str) -> str:
    """A label on one line."""
    return label if label.isprintable() else shown(label)


def _width(text: str) -> int:
    return max(0, wcswidth(text))


def write_bytes(path: Path, content: bytes) -> Path:
    """Writes a file that is there whole or not at all."""
    with written_bytes(path) as stream:
        stream.write(content)
    return path
