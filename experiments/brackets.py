"""Binary trees as sets of spans: baselines, the oracle, and how well they agree with gold constituents.

Spans are ``(start, end)`` in words, half-open. **Words and tokens.** Corpora cut words finer than treebanks do
("IL - 2" is one token). Spans are therefore compared in tokens: what lies within one token is no bracket for either
side, and a span that begins or ends within a token is a bracket that no gold constituent equals.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Span = tuple[int, int]


@dataclass(frozen=True)
class GoldTree:
    """The constituency tree of a sentence.

    Attributes:
        words: how many words the corpus has.
        tokens: the words of each token of the treebank, half-open, one after the other.
        constituents: spans in tokens with their categories, the outermost category of each; all of them.
        children: of each constituent the spans of its children, tokens included, in their order.
        punctuation: the tokens that are punctuation.
    """

    words: int
    tokens: tuple[Span, ...]
    constituents: dict[Span, str]
    children: dict[Span, tuple[Span, ...]]
    punctuation: frozenset[int] = frozenset()

    @property
    def wanted(self) -> set[Span]:
        """The brackets that count: more than one token, and not the whole sentence."""
        return nontrivial(self.constituents, len(self.tokens))

    def in_tokens(self, spans: Iterable[Span]) -> list[Span | None]:
        """Spans of words in tokens: None if one begins or ends within a token; what lies within one is left out."""
        starts = {start: at for at, (start, _) in enumerate(self.tokens)}
        ends = {end: at + 1 for at, (_, end) in enumerate(self.tokens)}
        owner = [at for at, (start, end) in enumerate(self.tokens) for _ in range(start, end)]
        found: list[Span | None] = []
        for start, end in spans:
            if owner[start] == owner[end - 1]:
                continue
            known = start in starts and end in ends
            found.append((starts[start], ends[end]) if known else None)
        return found


def nontrivial(spans: Iterable[Span], length: int) -> set[Span]:
    """Without single words and the whole sentence, which every tree has."""
    return {(start, end) for start, end in spans if 1 < end - start < length}


# --- Trees -----------------------------------------------------------------------------------------------------------


def left_branching(length: int) -> set[Span]:
    """Of ((a b) c) d: all spans begin at the first word."""
    return {(0, end) for end in range(2, length + 1)}


def right_branching(length: int) -> set[Span]:
    """Of a (b (c d)): all spans end at the last word."""
    return {(start, length) for start in range(length - 1)}


def random_tree(length: int, chance: random.Random, within: Sequence[Span] = ()) -> set[Span]:
    """Every span is split where chance will have it, each place being as likely; spans ``within`` are never crossed."""
    return _split(length, chance.choice, within)


def right_branching_around(length: int, within: Sequence[Span]) -> set[Span]:
    """Every span is split as far to the left as can be without crossing one of ``within``."""
    return _split(length, min, within)


def _split(length: int, choose: Callable[[list[int]], int], within: Sequence[Span]) -> set[Span]:
    found: set[Span] = set()
    waiting = [(0, length)]
    while waiting:
        start, end = waiting.pop()
        if end - start < 2:
            continue
        found.add((start, end))
        blocked = {
            at
            for low, high in within
            if start <= low and high <= end and (low, high) != (start, end)
            for at in range(low + 1, high)
        }
        split = choose([at for at in range(start + 1, end) if at not in blocked])
        waiting += [(start, split), (split, end)]
    return found


def left_binarised(tree: GoldTree) -> set[Span]:
    """The gold tree made binary, always to the left: of children a b c, (a b) becomes a node. In tokens."""
    found = set()
    for span, children in tree.children.items():
        found.add(span)
        found |= {(span[0], end) for _, end in children[1:]}
    return nontrivial(found, len(tree.tokens)) | {(0, len(tree.tokens))}


# --- Agreement -------------------------------------------------------------------------------------------------------


def percent(part: float, whole: float) -> float:
    """A share in percent; 0 of nothing."""
    return round(100 * part / whole, 3) if whole else 0.0


@dataclass
class Agreement:
    """How well trees agree with gold ones, added up over sentences.

    Attributes:
        right: brackets that are gold constituents.
        guessed: brackets of the trees.
        gold: gold constituents.
        sentences: how many.
        sentence_f1: the sum of the F1 of sentences that have gold brackets.
        scored: how many sentences that sum is of.
    """

    right: int = 0
    guessed: int = 0
    gold: int = 0
    sentences: int = 0
    sentence_f1: float = 0.0
    scored: int = 0

    def add(self, gold: set[Span], guessed: Sequence[Span | None]) -> None:
        """Counts a sentence. ``guessed``: None is a bracket that cannot be right."""
        known = {one for one in guessed if one is not None}
        number = len(known) + sum(one is None for one in guessed)
        right = len(gold & known)
        self.right += right
        self.guessed += number
        self.gold += len(gold)
        self.sentences += 1
        if gold:
            self.sentence_f1 += 2 * right / (number + len(gold))
            self.scored += 1

    def as_dict(self) -> dict[str, float]:
        """For JSON; shares in percent."""
        return {
            "precision": percent(self.right, self.guessed),
            "recall": percent(self.right, self.gold),
            "f1": percent(2 * self.right, self.guessed + self.gold),
            "sentence_f1": percent(self.sentence_f1, self.scored),
            "right": self.right,
            "guessed": self.guessed,
            "gold": self.gold,
            "sentences": self.sentences,
        }


def without_punctuation(tree: GoldTree, spans: Iterable[Span | None]) -> list[Span | None]:
    """Spans of tokens, counted in the tokens that are no punctuation; what becomes trivial is left out."""
    before = [0]
    for at in range(len(tree.tokens)):
        before.append(before[-1] + (at not in tree.punctuation))
    found: dict[Span | None, None] = {}
    unknown = 0
    for span in spans:
        if span is None:
            unknown += 1
            continue
        start, end = before[span[0]], before[span[1]]
        if 1 < end - start < before[-1]:
            found[start, end] = None
    return [*found, *[None] * unknown]


@dataclass
class Comparison:
    """A kind of trees against gold: by the paper's metric, and as brackets are usually counted.

    **The paper's metric** ("UAS") is not defined there. It may be the share of a tree's brackets that are gold
    constituents, or F1, over the corpus or of sentences; with punctuation as words in any case, since its
    right-branching trees have 0.15: every suffix of a sentence ends in its full stop. All are counted.

    **Brackets as usual**: precision, recall and F1 over the corpus, punctuation left out. In both, single words and
    whole sentences are no brackets.
    """

    plain: Agreement = field(default_factory=Agreement)
    usual: Agreement = field(default_factory=Agreement)

    def add(self, tree: GoldTree, brackets: Iterable[Span | None]) -> None:
        """Counts a tree's brackets, in tokens."""
        whole = (0, len(tree.tokens))
        listed = [one for one in brackets if one is None or (one != whole and one[1] - one[0] > 1)]
        self.plain.add(tree.wanted, listed)
        gold = {one for one in without_punctuation(tree, tree.wanted) if one is not None}
        self.usual.add(gold, without_punctuation(tree, listed))

    def as_dict(self) -> dict[str, dict[str, float]]:
        """For JSON."""
        return {"paper": self.plain.as_dict(), "brackets": self.usual.as_dict()}
