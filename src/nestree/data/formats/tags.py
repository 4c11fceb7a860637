"""Tags that spell entities out over words: BIO (IOB2), IOB1, BIOES and BILOU; one per word, or several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Span = tuple[int, int, str]

SCHEMES = ("bio", "bioes", "iob1")
CHUNKS = frozenset(["NP", "VP", "PP", "ADVP", "SBAR", "ADJP", "PRT", "CONJP", "INTJ", "LST", "UCP", "NC", "VC", "PC"])
"""Labels of phrases, which stand in tags like those of entities; a column of these is none of entities."""
TAG = re.compile(r"O|[BIESLU]-\S.*")
_ENDS = {"E": "E", "L": "E", "S": "S", "U": "S", "B": "B", "I": "I"}  # BILOU in the letters of BIOES


class TagError(ValueError):
    """Tags that spell nothing: ``what`` is wrong at the word with number ``index``."""

    def __init__(self, index: int, what: str) -> None:
        self.index = index
        self.what = what
        super().__init__(f"{what} (word {index})")


def split_tag(tag: str, index: int) -> tuple[str, str]:
    """The letter and the label of a tag; ``O`` has no label."""
    if tag == "O":
        return "O", ""
    if not TAG.fullmatch(tag):
        raise TagError(index, f"{tag!r} is not a tag")
    return _ENDS[tag[0]], tag[2:]


def decode(tags: Sequence[str], scheme: str) -> list[Span]:
    """The entities that one layer of tags spells, ends exclusive.

    In "bio" an entity begins with B and goes on with I; in "iob1" it may begin with I; in "bioes" it begins with B and
    ends with E (or L), or is a single S (or U).

    Raises:
        TagError: the tags cannot come from entities.
    """
    spans: list[Span] = []
    start, label = -1, ""  # of the entity that is open, if start >= 0
    for index, tag in enumerate(tags):
        letter, name = split_tag(tag, index)
        goes_on = letter in "IE" and start >= 0 and name == label
        if start >= 0 and not goes_on:
            if scheme == "bioes":
                raise TagError(index, f"the entity {label!r} is not ended before {tag!r}")
            spans.append((start, index, label))
            start = -1
        if letter in "ES" and scheme != "bioes":
            raise TagError(index, f"{tag!r} does not occur in the scheme {scheme.upper()}")
        if letter in "IE" and not goes_on:
            if scheme != "iob1":
                raise TagError(index, f"{tag!r} goes on with an entity that was not begun")
            start, label = index, name
        if letter == "B":
            start, label = index, name
        elif letter == "S":
            spans.append((index, index + 1, name))
        elif letter == "E":
            spans.append((start, index + 1, name))
            start = -1
    if start >= 0:
        if scheme == "bioes":
            raise TagError(len(tags) - 1, f"the entity {label!r} is not ended before the sentence ends")
        spans.append((start, len(tags), label))
    return spans


def decode_sets(tags: Sequence[Sequence[str]], scheme: str) -> list[Span]:
    """The entities that several tags per word spell; their order within a word does not matter.

    Of entities with one label that are open at the same time, the one that was begun last ends first.
    """
    spans: list[Span] = []
    open_starts: dict[str, list[int]] = {}
    for index, names in enumerate(tags):
        counts: dict[str, dict[str, int]] = {}
        for tag in names:
            letter, label = split_tag(tag, index)
            if letter != "O":
                count = counts.setdefault(label, {})
                count[letter] = count.get(letter, 0) + 1
        for label in {**open_starts, **counts}:
            _one_word(index, label, counts.get(label, {}), open_starts.setdefault(label, []), spans, scheme)
    for label, starts in open_starts.items():
        if starts and scheme == "bioes":
            raise TagError(len(tags) - 1, f"the entity {label!r} is not ended before the sentence ends")
        spans += [(start, len(tags), label) for start in starts]
    return sorted(spans, key=lambda span: (span[0], -span[1], span[2]))


def _one_word(index: int, label: str, count: dict[str, int], starts: list[int], spans: list[Span], scheme: str) -> None:
    """What the tags of one label at one word do to its open entities."""
    going_on, ending = count.get("I", 0), count.get("E", 0)
    if scheme != "bioes" and (ending or count.get("S")):
        raise TagError(index, f"E-{label} or S-{label} does not occur in the scheme {scheme.upper()}")
    if going_on + ending > len(starts):
        if scheme != "iob1":
            raise TagError(index, f"I-{label} goes on with an entity that was not begun")
        starts += [index] * (going_on - len(starts))
    elif going_on + ending < len(starts) and scheme == "bioes":
        raise TagError(index, f"the entity {label!r} is not ended before this word")
    while len(starts) > going_on:
        end = index + 1 if scheme == "bioes" else index
        spans.append((starts.pop(), end, label))
    starts += [index] * count.get("B", 0)
    spans += [(index, index + 1, label)] * count.get("S", 0)


def layers(spans: Iterable[Span], words: int, scheme: str = "bio") -> list[list[str]]:
    """Layers of tags that spell entities, as few as it takes; the longest entities stand in the first ones."""
    found: list[list[str]] = []
    for start, end, label in sorted(spans, key=lambda span: (span[0] - span[1], span[0], span[2])):
        for layer in found:
            if all(tag == "O" for tag in layer[start:end]):
                break
        else:
            layer = ["O"] * words
            found.append(layer)
        layer[start:end] = spelled(start, end, label, scheme)
    return found


def spelled(start: int, end: int, label: str, scheme: str) -> list[str]:
    """The tags of one entity."""
    if scheme == "bioes":
        if end - start == 1:
            return [f"S-{label}"]
        return [f"B-{label}", *[f"I-{label}"] * (end - start - 2), f"E-{label}"]
    return [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]


def scheme_of(tags: Iterable[str]) -> str:
    """The scheme that these tags are written in, as far as letters tell."""
    return "bioes" if any(tag[:2] in ("E-", "S-", "L-", "U-") for tag in tags) else "bio"
