"""GENIA 3.02 as its makers publish it: the XML, read into the tokens and entities that nested NER papers use.

The XML marks terms in running text (``<sentence>`` with nested ``<cons sem="...">``) and has no tokens. The files that
papers pass on were made from treebank tokens. This reader makes them from the text alone, by
rule: 99% of the sentences come out the same, the rest differ mostly in brackets inside names.

Text
    White space (spaces, tabs, line breaks, in any number) ends a token and is otherwise dropped, so ``T- cell`` and
    ``and/ or`` give the tokens of ``T-cell`` and ``and/or``. No character is changed, joined over a space, or left out.

Tokens
    * Each of ``- / , + .`` is a token, wherever it stands, as are ``% < > = "``.
    * A token ends where an entity of the five types begins or ends (not at annotations of other types).
    * ``; : ? !`` are tokens before white space, at the end and before a closing bracket; a colon also between two
      letters or two digits (``TNFR:Fc``, ``3:1``).
    * Brackets are tokens when they enclose running text, ``(IL-2)``, and stay attached when they belong to a name,
      ``M(r)``, ``[3H]dexamethasone``, ``t(8;21)``. See `_free_brackets`.
    * English and the Penn treebank: ``can not``, ``do n't``, ``Burkitt 's``, ``patients '``, quotes in pairs,
      ``factor ( s )``. Also ``CD4(-)CD8(-)`` before ``CD8``.
    * The volume, number and page of a citation come apart: ``3 ; 270 ( 44 ) : 26721``.

Entities
    * Subtypes collapse (``G#protein_molecule`` is ``protein``); other types are counted as skipped.
    * A coordinated term, ``sem="(AND G#... G#...)"`` with any operator and depth, is one contiguous span when all
      its parts collapse to one type, and is skipped otherwise. Parts without a ``sem`` are not entities.
    * Terms marked twice are listed twice, as in the papers' files.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from nestree.data.errors import DataError, shown
from nestree.data.xml import Event, events

TYPES = ("DNA", "RNA", "protein", "cell_type", "cell_line")

# What is cut off on both sides: the groups of a pattern where it has some, the whole match where it has none.
_SURROUNDED = [
    re.compile(pattern)
    for pattern in (
        r'[-/,+.%<>="]',
        r"[;:?!](?=\s|$|[)\]])",
        r"(?<=[A-Za-z]):(?=[A-Za-z])|(?<=\d):(?=\d)",  # TNFR:Fc, 3:1
        r"(?<=s)'(?=\s)",  # patients'
        r"(?<![^\s(\[])(')(?=[A-Za-z])[^']*(')(?!\w)",  # 'constitutive'
        r"(?<=[A-Za-z])(\()'?s(\))",  # factor(s)
        r"(;)?\d+(\()\d+(\))(:)\d+",  # 3;270(44):26721
    )
]
# Where one word of the text is two of the treebank's.
_BETWEEN = re.compile(r"(?<=\b[Cc]an)(?=not\b)|(?<=[a-z])(?=n't\b)|(?<=\w)(?='s\b)|(?<=[-+]\))(?=\w)")
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
# Bracketed groups that are names or parts of names even when white space stands before them: [3H], (1;14), (q22;p13).
_NAME = re.compile(r"[\[(]\d+[A-Z][a-z]?[\])]|\([\dXYpq]+;[\dXYpq]+\)")
_SPACE_FREE_WORD = re.compile(r"\S+")
_SEM_PART = re.compile(r"[()]|[^\s()]+")


class GeniaSentence(NamedTuple):
    """A sentence of a title or an abstract.

    Attributes:
        article: the abstract it is from, as in the XML: ``MEDLINE:95369245``.
        line: where it begins in the XML, counted from 1.
        words: the tokens. Empty if the XML has an empty sentence.
        entities: start, end (exclusive) in tokens and one of `TYPES`, sorted, with repetitions.
        skipped: how many annotations are of other types.
    """

    article: str
    line: int
    words: tuple[str, ...]
    entities: tuple[tuple[int, int, str], ...]
    skipped: int


def split(number_of_sentences: int) -> tuple[int, int]:
    """Where the papers' development and test parts begin, in sentences of the whole corpus in the order of the XML.

    The first 80% are for training, the next 10% for development, the rest for testing, rounded down: 14,836 and 16,691
    of the 18,546 sentences of GENIA 3.02. Articles are cut in two where that falls inside one.
    """
    return number_of_sentences * 8 // 10, number_of_sentences * 9 // 10


def sentences(stream: BinaryIO, path: str) -> Iterator[GeniaSentence]:
    """The sentences of the corpus in the order of the file, one at a time.

    Args:
        stream: the XML.
        path: its name in messages.

    Raises:
        DataError: malformed XML, a sentence outside an article with an id, sentences inside one another, a ``<cons>``
            outside a sentence or without text, or a ``sem`` with unbalanced brackets.
    """
    article: list[str] = []
    in_article_id = False
    sentence: _OpenSentence | None = None
    for event in events(stream, path):
        match event.kind, event.value:
            case "text", text:
                if sentence is not None:
                    sentence.add(text)
                elif in_article_id:
                    article.append(text)
            case _, "article":
                article.clear()
            case kind, "bibliomisc":
                in_article_id = kind == "start"
            case "start", "sentence":
                if sentence is not None:
                    raise DataError("a <sentence> inside a <sentence>", path=path, line=event.line)
                sentence = _OpenSentence(_article_id(article, event, path), event.line)
            case kind, "cons":
                if sentence is None:
                    raise DataError("a <cons> outside a <sentence>", path=path, line=event.line)
                (sentence.begin if kind == "start" else sentence.end)(event, path)
            case "end", "sentence" if sentence is not None:
                yield sentence.closed()
                sentence = None


def _article_id(pieces: list[str], event: Event, path: str) -> str:
    article = "".join(pieces).strip()
    if not article:
        advice = "In GENIA each <article> begins with an <articleinfo> that has the id in <bibliomisc>."
        raise DataError("a sentence without the id of its article", path=path, line=event.line, advice=advice)
    return article


class _OpenSentence:
    """A sentence while it is read: its text so far, and the terms found, in characters."""

    def __init__(self, article: str, line: int) -> None:
        self.article = article
        self.line = line
        self.pieces: list[str] = []
        self.length = 0
        self.visible = 0  # pieces that are not only white space
        self.open: list[tuple[int, int, str | None]] = []  # length and visible pieces where terms begin, their label
        self.found: list[tuple[int, int, str]] = []
        self.skipped = 0

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)
        self.visible += not text.isspace()

    def begin(self, event: Event, path: str) -> None:
        sem = event.attributes.get("sem")
        label = None if sem is None else _label(sem, event.line, path)
        self.skipped += sem is not None and label is None
        self.open.append((self.length, self.visible, label))

    def end(self, event: Event, path: str) -> None:
        start, visible, label = self.open.pop()
        if label is None:
            return
        if visible == self.visible:
            raise DataError("a <cons> without text", path=path, line=event.line)
        self.found.append((start, self.length, label))

    def closed(self) -> GeniaSentence:
        text = "".join(self.pieces)
        spans = _token_spans(text, {edge for start, end, _ in self.found for edge in (start, end)})
        starts = [start for start, _ in spans]
        # No token lies across the edge of an entity, so counting the tokens that begin before an edge is enough.
        spanned = ((bisect_left(starts, start), bisect_left(starts, end), label) for start, end, label in self.found)
        words = tuple(text[start:end] for start, end in spans)
        return GeniaSentence(self.article, self.line, words, tuple(sorted(spanned)), self.skipped)


def _label(sem: str, line: int, path: str) -> str | None:
    """The one type of all parts of a ``sem`` expression, or None for other types and mixtures."""
    labels: set[str | None] = set()
    depth = 0
    before = ""
    for part in _SEM_PART.findall(sem):
        depth += (part == "(") - (part == ")")
        if depth < 0:
            break
        if part not in "()" and before != "(":  # what follows an opening bracket is the operator
            labels.add(_collapsed(part))
        before = part
    if depth or not labels:
        advice = 'GENIA has sem="G#protein_molecule" or sem="(AND G#cell_type G#cell_type)".'
        raise DataError(f"the semantic class {shown(sem)} is incomplete", path=path, line=line, advice=advice)
    return labels.pop() if len(labels) == 1 else None


def _collapsed(semantic_class: str) -> str | None:
    name = semantic_class.removeprefix("G#")
    return next((label for label in TYPES if name == label or name.startswith(label + "_")), None)


def _token_spans(text: str, edges: Iterable[int]) -> list[tuple[int, int]]:
    """The tokens of a sentence as start and end (exclusive) in characters.

    Args:
        text: the sentence.
        edges: where entities begin and end: a token ends there in any case.
    """
    entity_edges = frozenset(edges)
    cuts = {0, len(text), *entity_edges}
    for pattern in _SURROUNDED:
        for match in pattern.finditer(text):
            for group in range(1, pattern.groups + 1) if pattern.groups else (0,):
                cuts.update(match.span(group))  # (-1, -1) for a group that is not there: left out below
    cuts.update(match.end() for match in _BETWEEN.finditer(text))
    for bracket in _free_brackets(text, entity_edges):
        cuts.update((bracket, bracket + 1))
    cuts.discard(-1)
    return [
        match.span() for start, end in pairwise(sorted(cuts)) for match in _SPACE_FREE_WORD.finditer(text, start, end)
    ]


def _free_brackets(text: str, entity_edges: frozenset[int]) -> set[int]:
    """The places of the brackets that are tokens. A closing bracket does what its opening one does.

    The treebank is not of one mind about ``p56(lck)`` or ``E(2)``, apart in some abstracts and one word in others.
    They are more often one word, so here they always are.
    """
    opened: list[int] = []
    partner: dict[int, int] = {}
    places = [match.start() for match in _BRACKET.finditer(text)]
    for place in places:
        if text[place] in _CLOSING:
            opened.append(place)
        elif opened and _CLOSING[text[opened[-1]]] == text[place]:
            partner[place] = opened.pop()
            partner[partner[place]] = place
    free: set[int] = set()
    for place in places:
        if text[place] not in _CLOSING:
            if place not in partner or partner[place] in free:
                free.add(place)
        elif _opens_freely(text, place, partner.get(place), free, entity_edges):
            free.add(place)
    return free


def _opens_freely(text: str, place: int, closing: int | None, free: set[int], entity_edges: frozenset[int]) -> bool:
    """Whether the opening bracket at a place is a token."""
    if place in entity_edges and place + 1 in entity_edges:
        return True  # between two entities: NF-kappa B(p50)
    before = text[place - 1 : place]
    if before.isalnum():  # a missing space, as in diphosphate(NDP), or a name
        return re.search(r"[a-z]{6}$", text[:place]) is not None and text[place + 1 : place + 3].isupper()
    if before and not before.isspace() and before not in "\"'." and place - 1 not in free:
        return False
    if _NAME.match(text, place):
        return False
    if closing is None or not text[closing + 1 : closing + 2].isalnum() or closing + 1 in entity_edges:
        return True
    # Directly before a word, [Ca2+]i and (A/T)GATA are names, (auto)immune and (Jak)1 are running text.
    inside = text[place + 1 : closing]
    return " " in inside or (text[place] == "(" and inside.isalnum())
