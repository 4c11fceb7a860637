"""Text as drawings need it: escaped, measured, and cut to a width."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from html import escape
from typing import NamedTuple
from unicodedata import bidirectional, normalize

from wcwidth import wcwidth

WORD, LABEL = 15, 11
"""Sizes of type, in pixels."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WIDTHS = {
    0.19: "'",
    0.22: "ijl‘’",
    0.26: "|",
    0.28: " !,./:;I[\\]ft·",
    0.34: '()-`r“”{}"',
    0.39: "*",
    0.48: "^Jcksvxyz",
    0.56: "#$0123456789?L_abdeghnopqu–+<=>~",
    0.61: "FTZ",
    0.67: "&ABEKPSVXY",
    0.72: "CDHNRUw",
    0.78: "GOQ",
    0.83: "Mm",
    0.89: "%",
    0.94: "W",
    1.0: "—…@",
    # Hebrew and Arabic, in the forms that most letters of a word have
    0.25: "יוןاأإآ",
    0.32: "ل",
    0.36: "بتثنيئپזג",
    0.5: "دذرزطظعغفقكمهوىةءؤک",
    0.58: "אבדהחטכךלנסעפףצץקרجحخچ",
    0.68: "מםת",
    0.8: "שسشصض",
}
"""What Arial, and all typefaces that were made as wide as it, take for a character, as a share of their size."""
_TAILED, _TAIL = frozenset("بتثنيئپسشصض"), 0.35
"""Arabic letters that are wider at the end of a word."""
_SHARES = {character: share for share, characters in _WIDTHS.items() for character in characters}


def escaped(text: str) -> str:
    """Text for HTML and XML, also in quotes; � for what XML cannot hold."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def score_text(score: float | None) -> str:
    """A score with two digits. What is not quite certain does not look so: ``>0.99`` and ``<0.01``."""
    if score is None:
        return ""
    if 0.995 <= score < 1:
        return ">0.99"
    return "<0.01" if 0 < score < 0.005 else f"{score:.2f}"


def width_of(text: str, size: float = WORD, *, bold: bool = False) -> int:
    """How wide text is drawn, in pixels."""
    tail = _TAIL if text and text[-1] in _TAILED else 0
    return math.ceil(size * (sum(map(_bold_share if bold else _share, text)) + tail))


@lru_cache(4096)
def _share(character: str) -> float:
    """A character's width in a sans-serif typeface, as a share of its size."""
    found = _SHARES.get(character)
    if found is None:
        cells = wcwidth(character)
        if cells != 1:
            return 1.02 if cells > 1 else 0.0 if cells == 0 else 0.8
        found = _SHARES.get(normalize("NFD", character)[0])  # é is as wide as e
    if found is None:
        found = 0.7 if character.isupper() else 0.55
    return found


def _bold_share(character: str) -> float:
    return _share(character) * (1.02 if character.isupper() else 1.1)


class Caption(NamedTuple):
    """A label with its score, as they stand at a bracket or in a node."""

    label: str
    score: str
    width: int

    @classmethod
    def of(cls, label: str, score: float | None, *, continued: bool = False) -> Caption:
        """Of a bracket that goes on in another line, the label alone, after dots."""
        name, shown = (f"… {label}", "") if continued else (label, score_text(score))
        space = 0.28 * LABEL if name and shown else 0
        return cls(name, shown, math.ceil(width_of(name, LABEL, bold=True) + space + width_of(shown, LABEL)))

    def cut(self, width: int) -> Caption:
        """The same if it is no wider than this; else without score, and the label cut (…)."""
        if self.width <= width:
            return self
        label = self.label
        while label and width_of(label + "…", LABEL, bold=True) > width:
            label = label[:-1]
        return Caption(label + "…", "", min(width, width_of(label + "…", LABEL, bold=True)))

    def drawn(self, x: float, y: float) -> str:
        """As SVG, its middle at x."""
        if not self.width:
            return ""
        label = f'<tspan class="label">{escaped(self.label)}</tspan>' if self.label else ""
        score = f'<tspan class="score">{escaped(self.score)}</tspan>' if self.score else ""
        return text_svg("caption", x, y, self.width, " ".join(filter(None, (label, score))))


def word_svg(word: str, x: float, y: float, width: int, *, rtl: bool = False) -> str:
    """A word; its class says of some scripts which it is, for those who have to choose a typeface themselves."""
    if not word.strip():
        return ""
    kinds = {bidirectional(character) for character in word}
    script = " arabic" if "AL" in kinds else " hebrew" if "R" in kinds else ""
    if not script and any(wcwidth(character) > 1 for character in word):
        script = " wide"
    return text_svg(f"word{script}", x, y, width, escaped(word), rtl=rtl)


def text_svg(kind: str, x: float, y: float, width: int, markup: str, *, rtl: bool = False) -> str:
    """Text that is as wide as was reckoned, whichever typeface the reader has."""
    way = ' direction="rtl"' if rtl else ""
    length = f'textLength="{width}" lengthAdjust="spacingAndGlyphs"'
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}" {length}{way}>{markup}</text>'


def number(value: float) -> str:
    """A coordinate, without needless digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def broken(word: str, width: int) -> list[str]:
    """The word in pieces no wider than this, of one character at least; marks stay with what they stand on."""
    if width_of(word) <= width:
        return [word]
    pieces, room = [""], 0.0
    for character in word:
        share = WORD * _share(character)
        if pieces[-1] and share and room + share > width:
            pieces.append("")
            room = 0.0
        pieces[-1] += character
        room += share
    return pieces
