"""Text that runs from right to left, or has words of such scripts in it: in which order words are seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import bidirectional


def right_to_left(words: Iterable[str]) -> bool:
    """Whether the first letter with a direction is one of those that are read from right to left."""
    strong = (_strong(word) for word in words)
    return next((one for one in strong if one is not None), False)


def _strong(word: str) -> bool | None:
    kinds = (bidirectional(character) for character in word)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), None)


def directions(words: Sequence[str], rtl: bool) -> list[bool]:
    """Whether each word of a text is read from right to left, as Unicode has it for whole words.

    Numbers go with the letters before them; other words without letters with those on both sides if these agree, and
    else with the text.
    """
    found: list[bool | None] = []
    before = rtl
    for word in words:
        strong = _strong(word)
        if strong is None and any(bidirectional(character) in ("EN", "AN") for character in word):
            strong = before
        found.append(strong)
        before = before if strong is None else strong
    resolved: list[bool] = []
    after = [rtl] * (len(words) + 1)
    for at in reversed(range(len(words))):
        after[at] = after[at + 1] if (one := found[at]) is None else one
    for at, one in enumerate(found):
        last = resolved[-1] if resolved else rtl
        resolved.append(one if one is not None else last if last == after[at] else rtl)
    return resolved


def in_sight(first: int, last: int, ways: Sequence[bool], rtl: bool) -> list[int]:
    """The words ``[first, last)`` of a line from left to right, as they are seen."""
    order: list[int] = []
    run: list[int] = []
    for word in range(first, last):
        if run and ways[word] != ways[run[-1]]:
            order += _against(run, ways, rtl)
            run = []
        run.append(word)
    order += _against(run, ways, rtl)
    return order[::-1] if rtl else order


def _against(run: list[int], ways: Sequence[bool], rtl: bool) -> list[int]:
    return run[::-1] if run and ways[run[0]] != rtl else run
