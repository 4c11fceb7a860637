"""A page of errors, drawn: gold above the words, predictions below."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from nestree.data.model import Document, Entity, Range
from nestree.evaluation.error_table import ErrorTable
from nestree.evaluation.errors import KINDS, MISSED, SPURIOUS, WRONG_BOUNDARY, Error, entities_of, score_of
from nestree.evaluation.metrics import Key

LONGEST = 160
"""Of longer sentences, so many words around the most confident error are drawn."""


class Bracket(NamedTuple):
    """An entity as it is drawn, over words ``[start, end)``."""

    start: int
    end: int
    label: str
    score: float | None
    right: bool
    text: str


class Drawn(NamedTuple):
    """All that the page says of a sentence with errors."""

    place: str
    words: Sequence[str]
    cut: tuple[bool, bool]  # whether there are more words before and after these
    gold: list[Bracket]
    predicted: list[Bracket]
    errors: list[tuple[Error, str, str]]  # each with the texts of its entities


class Sentences:
    """The sentences of a document, and what stands in them."""

    def __init__(self, split: Document) -> None:
        assert split.tokens is not None
        self.document, self.tokens = split, split.tokens
        self.ranges = split.sentences or ((0, len(split.tokens)),)
        self.starts = [start for start, _ in self.ranges]

    def of(self, start: int, end: int) -> Range:
        """The first and the last of the sentences that these characters touch."""
        first, last = self.tokens.touched(start, end)
        return self._with(first), self._with(max(first, last - 1))

    def _with(self, word: int) -> int:
        return max(0, bisect_right(self.starts, word) - 1)

    def brackets(self, document: Document, right: Collection[Key]) -> dict[int, list[Bracket]]:
        """The entities of a document by the sentences that they touch."""
        found: dict[int, list[Bracket]] = defaultdict(list)
        for key, entity in entities_of(document).items():
            words = self.tokens.touched(entity.start, entity.end)
            bracket = Bracket(*words, entity.label, score_of(entity), key in right, self._text(entity))
            first, last = self.of(entity.start, entity.end)
            for sentence in range(first, last + 1):
                found[sentence].append(bracket)
        return found

    def drawn(
        self, where: Range, place: str, errors: list[Error], brackets: Sequence[dict[int, list[Bracket]]]
    ) -> Drawn:
        """These sentences, first and last; of long ones, the words around the first error."""
        start, end = self.ranges[where[0]][0], self.ranges[where[1]][1]
        first, last = start, end
        if end - start > LONGEST:
            middle = sum(self.tokens.touched(*errors[0].characters)) // 2
            first = min(max(start, middle - LONGEST // 2), end - LONGEST)
            last = first + LONGEST
        gold, predicted = (
            [
                one._replace(start=max(one.start, first) - first, end=min(one.end, last) - first)
                for one in dict.fromkeys(one for at in range(where[0], where[1] + 1) for one in side.get(at, ()))
                if max(one.start, first) < min(one.end, last)
            ]
            for side in brackets
        )
        number = f", sentence {where[0] + 1}" if len(self.ranges) > 1 else ""
        listed = [(error, self._text(error.gold), self._text(error.predicted)) for error in errors]
        words, cut = self.document.words[first:last], (start < first, last < end)
        return Drawn(place + number, words, cut, gold, predicted, listed)

    def _text(self, entity: Entity | None, most: int = 200) -> str:
        """What an entity says, on one line, not too long."""
        text = "" if entity is None else " ".join(self.document.text_of(entity)[: most + 1].split())
        return text if len(text) <= most else f"{text[:most]}…"


# --- The page --------------------------------------------------------------------------------------------------------

_ABOUT_TABLE = "Rows: predicted. Columns: gold. Shares of each column; ρ is the share of each label in gold."
_ABOUT = """
Above the words stands what gold has, below them what was predicted, with its score. What is right is pale.
A sentence stands where its most confident error does.

The confidence of an error is the score of the predicted entity. Of a missed entity it is the highest score of a
predicted one that cannot be in a tree with it; where there is none, it counts as ½.
"""


def draw_page(
    title: str, table: ErrorTable, kinds: Counter[tuple[str, str]], sentences: Sequence[Drawn], wrong: str
) -> str:
    """The page: how many errors of which kinds, the table, and the sentences."""
    from nestree.drawing.page import Table, Text, html, page  # brings torch along: loaded when a page is drawn
    from nestree.drawing.spans import ON_DARK, PALETTE, colours

    shown_errors = [error for sentence in sentences for error, *_ in sentence.errors]
    says = f"{number_of(kinds.total(), 'error')} in {wrong}." if kinds else "There are no errors."
    if len(shown_errors) < kinds.total():
        says += f" The {number_of(len(sentences), 'sentence')} with the most confident errors are below."
    anchors: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, error in enumerate(shown_errors):
        anchors[error.label, error.kind].append(number)
    rows = zip(("ρ", *table.rows), (table.prior.values(), *table.column_normalised()), strict=True)
    shares = Table(
        ["", *table.labels], [[name, *(f"{share:.2f}" if share else "" for share in row)] for name, row in rows]
    )
    labels = {bracket.label for one in sentences for side in (one.gold, one.predicted) for bracket in side}
    colour = colours(labels, sorted(labels))
    sections = {
        "Errors by label and kind": html(Text(says)) + _index(kinds, anchors),
        "What became of the entities of gold": html(Text(_ABOUT_TABLE)) + html(shares),
        "Sentences": html(Text(_ABOUT)) + "".join(_drawn(sentences, anchors, colour)),
    }
    body = "".join(f"<section>\n<h2>{name}</h2>\n{content}\n</section>\n" for name, content in sections.items())
    style = _STYLE + "".join(f".c{at}{{--line:{one}}}" for at, one in enumerate(PALETTE))
    dark = "".join(f".c{at}{{--line:{one}}}" for at, one in ON_DARK.items())
    style += f"\n@media (prefers-color-scheme:dark){{{dark}}}\n"
    return page(title, []).replace("</style>", f"{style}</style>", 1).replace("</main>", f"{body}</main>", 1)


def _index(kinds: Counter[tuple[str, str]], anchors: dict[tuple[str, str], list[int]]) -> str:
    """How many errors of each label and kind there are; each number leads to the first of those."""
    from nestree.drawing.spans import escaped

    def cell(text: str, tag: str = "td", kind: str = ' class="number"') -> str:
        return f"<{tag}{kind}>{text}</{tag}>"

    def count(label: str, kind: str) -> str:
        text = f"{kinds[label, kind]:,}" if kinds[label, kind] else ""
        first = anchors.get((label, kind))
        return f'<a href="#e{first[0]}">{text}</a>' if first else text

    if not kinds:
        return ""
    sums = {label: sum(kinds[label, kind] for kind in KINDS) for label, _ in kinds}
    head = cell("label", "th", "") + "".join(cell(kind, "th") for kind in (*KINDS, "all"))
    rows = [
        cell(escaped(label), kind="") + "".join(cell(count(label, kind)) for kind in KINDS) + cell(f"{of:,}")
        for label, of in sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    ]
    whole = (sum(kinds[label, kind] for label in sums) for kind in KINDS)
    rows.append(cell("all", kind="") + "".join(cell(f"{of:,}") for of in (*whole, kinds.total())))
    inner = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll" id="index"><table><thead><tr>{head}</tr></thead><tbody>{inner}</tbody></table></div>'


def _drawn(
    sentences: Sequence[Drawn], anchors: dict[tuple[str, str], list[int]], colour: dict[str, int]
) -> Iterator[str]:
    """Each sentence: where it stands, its errors, and gold above and predicted below its words."""
    from nestree.drawing.spans import escaped

    after = {one: following for same in anchors.values() for one, following in pairwise(same)}
    number = 0
    for at, sentence in enumerate(sentences, 1):
        lines = []
        for error, *texts in sentence.errors:
            following = f' <a href="#e{after[number]}">next ›</a>' if number in after else ""
            kind = error.kind.replace(" ", "-")
            lines.append(
                f'<li id="e{number}"><span class="kind {kind}">{error.kind}</span> '
                f"{_says(error, *texts)}<small>{following}</small></li>"
            )
            number += 1
        yield (
            f'<article id="s{at}">\n<h3><a href="#s{at}">{at}</a> {escaped(sentence.place)} '
            f'<a class="up" href="#index">↑ index</a></h3>\n<ul>{"".join(lines)}</ul>\n{_figure(sentence, colour)}'
            "\n</article>\n"
        )


def _says(error: Error, gold: str, predicted: str) -> str:
    """What is wrong, in words."""
    from nestree.drawing.spans import escaped, score_text

    label, gold, predicted = (escaped(text) for text in (error.label, gold, predicted))
    label = f"<b>{label}</b>"
    before = "absent: " if error.kind == MISSED else ""
    sure = f' <span class="score">{before}{score_text(error.confidence)}</span>' if error.confidence is not None else ""
    if error.kind == MISSED:
        return f"{label} “{gold}”{sure}"
    if error.kind == SPURIOUS:
        return f"{label} “{predicted}”{sure}"
    if error.kind == WRONG_BOUNDARY:
        return f"{label} “{gold}”, predicted “{predicted}”{sure}"
    assert error.predicted is not None
    return f"{label} “{gold}”, predicted <b>{escaped(error.predicted.label)}</b>{sure}"


def _figure(sentence: Drawn, colour: dict[str, int]) -> str:
    """A grid with a column for each word: the brackets of gold above, those of the prediction below."""
    from nestree.drawing.spans import escaped, levels, score_text

    above, below = (levels([one[:4] for one in side]) for side in (sentence.gold, sentence.predicted))
    middle = max(above, default=-1) + 2  # the row of the words
    cells = [f'<i class="side" style="grid-area:1/1/{middle}">gold</i>'] if above else []

    def bracket(one: Bracket, row: int, side: str) -> str:
        score = f" <small>{score_text(one.score)}</small>" if one.score is not None else ""
        kind = f"{side}{' right' if one.right else ''} c{colour[one.label]}"
        return (
            f'<span class="{kind}" style="grid-area:{row}/{one.start + 2}/auto/{one.end + 2}" '
            f'title="{escaped(one.text)}"><b>{escaped(one.label)}</b>{score}</span>'
        )

    cells += [bracket(one, middle - 1 - row, "above") for one, row in zip(sentence.gold, above, strict=True)]
    words = [*sentence.words]
    if words and sentence.cut[0]:
        words[0] = f"… {words[0]}"
    if words and sentence.cut[1]:
        words[-1] += " …"
    cells += [f'<span style="grid-area:{middle}/{at}">{escaped(word)}</span>' for at, word in enumerate(words, 2)]
    cells += [bracket(one, middle + 1 + row, "below") for one, row in zip(sentence.predicted, below, strict=True)]
    if below:
        cells.append(f'<i class="side" style="grid-area:{middle + 1}/1/{middle + 2 + max(below)}">predicted</i>')
    return f'<div class="scroll"><div class="sentence">{"".join(cells)}</div></div>'


_STYLE = """
:root{--missed:#8250df;--spurious:#bc4c00;--label:#0969da;--boundary:#1a7f37}
@media (prefers-color-scheme:dark){:root{--missed:#c297ff;--spurious:#f0883e;--label:#6cb6ff;--boundary:#57c26e}}
a{color:inherit}
#index a{text-underline-offset:.2em}
#index tr:last-child td{font-weight:600;border-bottom:0}
article{margin:0 0 1.6rem;padding:.9rem 0 0;border-top:1px solid var(--rule)}
h3{font-size:.875rem;font-weight:400;color:var(--muted);margin:0 0 .3rem;overflow-wrap:anywhere}
h3 a:first-child{font-weight:600;color:var(--ink);text-decoration:none;margin-right:.4rem}
h3 .up{float:right;text-decoration:none;margin-left:1rem}
article ul{list-style:none;margin:0;padding:0;font-size:.9rem}
article li{padding:.1rem .3rem .1rem 0;overflow-wrap:anywhere}
li:target{background:var(--marked)}
.kind{font-weight:600}
.missed{color:var(--missed)}.spurious{color:var(--spurious)}
.wrong-label{color:var(--label)}.wrong-boundary{color:var(--boundary)}
.score,small{color:var(--muted)}
small a{text-decoration:none;margin-left:.5rem}
.sentence{display:grid;grid-auto-columns:max-content;justify-content:start;column-gap:.6rem;white-space:nowrap;
padding:.6rem 0 .4rem;font-size:15px;line-height:1.45;width:max-content}
.sentence>span{text-align:center}
.side{position:sticky;left:0;align-self:stretch;background:var(--paper);color:var(--muted);font-size:11px;
font-style:normal;padding-right:.4rem;z-index:1}
.above,.below{font-size:11px;border:2.5px solid var(--line);padding:0 .2rem}
.above{border-bottom:0;border-radius:5px 5px 0 0;margin-top:3px;align-self:end}
.below{border-top:0;border-radius:0 0 5px 5px;margin-bottom:3px;align-self:start}
.above small,.below small{font-size:11px}
.right{opacity:.4}
"""


def number_of(number: int, one: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"
