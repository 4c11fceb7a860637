"""Gold constituency trees of the GENIA treebank, matched with sentences of the corpus by their text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.brackets import GoldTree, Span

PUNCTUATION = frozenset({"COMMA", "PERIOD", "COLON", "LRB", "RRB", "LQT", "RQT", ",", ".", ":", "``", "''", "HYPH"})
"""Categories of tokens that are punctuation."""


class Parsed(NamedTuple):
    """A sentence of the treebank: its tokens with their categories, and its constituents (spans of tokens)."""

    tokens: list[tuple[str, str]]
    constituents: dict[Span, str]
    children: dict[Span, tuple[Span, ...]]


def read_treebank(archive: Path) -> Iterator[Parsed]:
    """The sentences of all files in an archive; constituents without words are left out."""
    with zipfile.ZipFile(archive) as files:
        for name in sorted(files.namelist()):
            if name.endswith(".xml"):
                for sentence in ElementTree.fromstring(files.read(name)).iter("sentence"):
                    yield parsed(sentence)


def parsed(sentence: ElementTree.Element) -> Parsed:
    """One sentence."""
    found = Parsed([], {}, {})
    _walk(sentence, found)
    return found


def _walk(node: ElementTree.Element, found: Parsed) -> Span:
    """Adds what is below a node; gives its span."""
    start = len(found.tokens)
    if node.tag == "tok":
        found.tokens.append((_joined("".join(node.itertext())), node.get("cat", "")))
        return start, start + 1
    below = [span for span in (_walk(child, found) for child in node) if span[1] > span[0]]
    span = (start, len(found.tokens))
    if node.tag == "cons" and below:
        found.constituents[span] = node.get("cat", "")  # of a chain of equal spans the outermost stays
        if len(below) > 1:
            found.children[span] = tuple(below)
    return span


def _joined(text: str) -> str:
    return "".join(text.split())


def aligned(words: Sequence[str], sentence: Parsed) -> GoldTree | None:
    """The gold tree over a corpus sentence; None unless every token is a run of words."""
    ends, at = [], 0
    for word in words:
        at += len(_joined(word))
        ends.append(at)
    border = {0: 0} | {end: number + 1 for number, end in enumerate(ends)}
    tokens, at = [], 0
    for text, _ in sentence.tokens:
        if at not in border or at + len(text) not in border:
            return None
        tokens.append((border[at], border[at + len(text)]))
        at += len(text)
    if at != (ends[-1] if ends else 0) or any(start == end for start, end in tokens):
        return None
    punctuation = frozenset(number for number, (_, kind) in enumerate(sentence.tokens) if kind in PUNCTUATION)
    return GoldTree(len(words), tuple(tokens), sentence.constituents, sentence.children, punctuation)


class Matches(NamedTuple):
    """Sentences of a corpus with their gold trees, and what could not be matched.

    Attributes:
        trees: the number of the corpus sentence, and its tree.
        sentences: how many the treebank has.
        other_text: those that no sentence of the corpus has the text of.
        other_tokens: those whose tokens are no runs of the corpus's words.
    """

    trees: list[tuple[int, GoldTree]]
    sentences: int
    other_text: int
    other_tokens: int


def match(corpus: Iterable[Sequence[str]], treebank: Iterable[Parsed]) -> Matches:
    """Matches sentences by their text without white space; of equal ones the first that is left is taken."""
    by_text: dict[str, list[tuple[int, Sequence[str]]]] = {}
    for number, words in enumerate(corpus):
        by_text.setdefault(_joined("".join(words)), []).append((number, words))
    trees, sentences, other_text, other_tokens = [], 0, 0, 0
    for sentence in treebank:
        sentences += 1
        candidates = by_text.get("".join(text for text, _ in sentence.tokens))
        if not candidates:
            other_text += 1
            continue
        number, words = candidates.pop(0)
        tree = aligned(words, sentence)
        if tree is None:
            other_tokens += 1
            continue
        trees.append((number, tree))
    return Matches(sorted(trees, key=lambda one: one[0]), sentences, other_text, other_tokens)
