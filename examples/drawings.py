"""Draws the pictures of docs/drawing.md and the README: the paper's example, deep nesting, lines, other scripts.

python examples/drawings.py [FOLDER]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from paper_example import ENTITIES, LABELS, WORDS

from nestree.drawing import sentence_svg, spans_svg
from nestree.drawing.layout import Node, Span

LATENT: list[Node] = [(3, 6, None, None), (1, 3, None, None), (4, 6, None, None)]
"""Constituents that complete the paper's entities to a tree; two of them are those that its text names."""

DEEP = "an aide to the deputy head of the Leeds City Council 's parks department"
DEEP_SPANS: list[Span] = [
    (0, 14, "PER", 0.71),
    (3, 14, "PER", 0.84),
    (7, 14, "ORG", 0.92),
    (7, 11, "ORG", 0.96),
    (8, 10, "GPE", 0.9),
    (8, 9, "GPE", 0.998),
]
LONG = (
    "The former chairman of the National Audit Office of the Republic of Malta , who had moved to Leeds , "
    "said that the committee of the Parliament of Malta would meet in Valletta ."
)
LONG_SPANS: list[Span] = [
    (0, 13, "PER", 0.88),
    (4, 13, "ORG", 0.95),
    (9, 13, "GPE", 0.97),
    (12, 13, "GPE", 0.99),
    (18, 19, "GPE", 0.99),
    (22, 29, "ORG", 0.81),
    (25, 29, "ORG", 0.93),
    (28, 29, "GPE", 0.99),
    (32, 33, "GPE", 0.98),
]
ARABIC = "قال وزير خارجية جمهورية مصر العربية سامح شكري إن الاجتماع سيعقد في القاهرة ."
ARABIC_SPANS: list[Span] = [(1, 8, "PER", 0.9), (3, 6, "GPE", 0.95), (6, 8, "PER", 0.97), (12, 13, "GPE", 0.99)]
HEBREW = "נציג ממשלת ישראל דיבר עם The New York Times בשנת 2023 בירושלים ."
HEBREW_SPANS: list[Span] = [
    (0, 3, "PER", 0.86),
    (1, 3, "ORG", 0.94),
    (2, 3, "GPE", 0.99),
    (5, 9, "ORG", 0.97),
    (6, 8, "GPE", 0.62),
    (11, 12, "GPE", 0.98),
]
JAPANESE = "東京 大学 の 教授 が 京都 で 話 し た 。"
JAPANESE_SPANS: list[Span] = [(0, 4, "PER", 0.83), (0, 2, "ORG", 0.98), (0, 1, "GPE", 0.91), (5, 6, "GPE", 0.99)]


def main() -> None:
    """Writes them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/images"))
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(folder / f"{name}.svg")


def pictures() -> dict[str, str]:
    """SVG by name."""
    observed: list[Span] = [(start, last + 1, label, None) for start, last, label in ENTITIES]
    return {
        "example": sentence_svg(WORDS, observed, [*observed, *LATENT], labels=LABELS),
        "five-levels": _spans(DEEP, DEEP_SPANS),
        "lines": _spans(LONG, LONG_SPANS, width=560),
        "arabic": _spans(ARABIC, ARABIC_SPANS, width=420),
        "hebrew": _spans(HEBREW, HEBREW_SPANS),
        "japanese": spans_svg(JAPANESE.split(), JAPANESE_SPANS, labels=LABELS, joined=range(1, 11)),
    }


def _spans(text: str, spans: list[Span], width: int | None = None) -> str:
    words = text.split()
    joined = [at for at, word in enumerate(words) if word in {",", ".", "'s"}]
    return spans_svg(words, spans, labels=LABELS, width=width, joined=joined)


if __name__ == "__main__":
    main()
