"""What annotators send back, beside what they were sent.

Label Studio and Prodigy say which tasks people finished. Most other formats do not: a text that comes back as it was
sent may be right, or nobody may have looked at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, get_args

from nestree.data.model import Admissible, Document, Entity, Range
from nestree.data.report import Report

Unchanged = Literal["keep", "drop"]
UNCHANGED: tuple[str, ...] = get_args(Unchanged)

_Key = tuple[int, int, str, tuple[Range, ...]]


@dataclass
class Returns:
    """How much came back.

    Attributes:
        sent: texts that were sent.
        back: how many of them came back,
        unchanged: how many of those with the entities that were sent.
        added: entities that people added,
        removed: and took away.
    """

    sent: int = 0
    back: int = 0
    unchanged: int = 0
    added: int = 0
    removed: int = 0

    def __str__(self) -> str:
        return (
            f"{self.back} of {self.sent} came back, {self.unchanged} as sent; "
            f"people added {self.added} entities and took {self.removed} away"
        )


def returned(
    sent: Iterable[Document],
    back: Iterable[Document],
    *,
    unchanged: Unchanged = "keep",
    partial: bool = False,
    report: Report | None = None,
    returns: Returns | None = None,
) -> Iterator[Document]:
    """The documents that came back, as training takes them: all that was sent, and people's entities.

    They are matched by their text, whatever became of its white space. A document that was not sent is kept as it is.

    Args:
        sent: with the entities that people saw; held in memory.
        back: what people made of them.
        unchanged: whether to "keep" a document that comes back as it was sent, as somebody found it right, or to "drop"
            it, as nobody may have looked at it.
        partial: people did not finish the documents. Then only what they changed is known: what they added is there,
            what they took away is not, and all else is open (``unknown``). Unchanged documents say nothing.
        report: gets notes about what did not come back, and what was left out.
        returns: gets counted.

    Raises:
        ValueError: ``unchanged`` is not known.
    """
    if unchanged not in UNCHANGED:
        raise ValueError(f"unchanged is {unchanged!r}; known are {', '.join(map(repr, UNCHANGED))}.")
    report = Report() if report is None else report
    returns = Returns() if returns is None else returns
    waiting = {_letters(document.text): document for document in sent}
    returns.sent = len(waiting)
    return _returned(waiting, back, unchanged == "keep", partial, report, returns)


def _returned(
    waiting: dict[str, Document],
    back: Iterable[Document],
    keep: bool,
    partial: bool,
    report: Report,
    returns: Returns,
) -> Iterator[Document]:
    missing = dict.fromkeys(waiting)
    for found in back:
        key = _letters(found.text)
        if key not in waiting:
            report.note("not sent", found.place, "this text was not sent", "kept as it is")
            yield found
            continue
        if key not in missing:
            report.note("twice", found.place, "this text came back before", "left out")
            continue
        del missing[key]
        before, after = waiting[key], _moved(found, waiting[key])
        guesses, entities = _keys(before), _keys(after)
        returns.back += 1
        returns.added += len(entities - guesses)
        returns.removed += len(guesses - entities)
        says_more = bool(after.unknown or after.admissible)
        if entities == guesses and not says_more:
            returns.unchanged += 1
            if partial or not keep:
                report.note("unchanged", found.place, "it came back as it was sent", "left out")
                continue
        yield _differences(before, after) if partial else after
    for key in missing:
        report.note("not back", waiting[key].place or waiting[key].id, "it did not come back", "left out")


def _letters(text: str) -> str:
    return "".join(text.split())


def _keys(document: Document) -> set[_Key]:
    return {(one.start, one.end, one.label, one.fragments) for one in document.entities}


def _moved(found: Document, sent: Document) -> Document:
    """What came back, on the text that was sent; without scores, as people are not probable."""
    starts, ends = _places(found.text, sent.text)

    def moved(start: int, end: int) -> Range:
        return starts[start], ends[end]

    entities = [
        Entity(*moved(one.start, one.end), one.label, fragments=tuple(moved(*piece) for piece in one.fragments))
        for one in found.entities
    ]
    document = replace(
        sent,
        entities=tuple(entities),
        complete_labels=found.complete_labels,
        unknown=tuple(moved(*part) for part in found.unknown),
        admissible=tuple(Admissible(*moved(one.start, one.end), *one[2:]) for one in found.admissible),
        meta={**found.meta, **sent.meta},
        source=found.source,
    )
    return document if sent.tokens is None else document.with_tokens(sent.tokens, sent.sentences)


def _places(found: str, sent: str) -> tuple[list[int], list[int]]:
    """Where each character of a text begins in another, and what is before it ends; white space may differ."""
    letters = [at for at, character in enumerate(sent) if not character.isspace()]
    before = list(accumulate((not character.isspace() for character in found), initial=0))
    starts = [letters[number] if number < len(letters) else len(sent) for number in before]
    return starts, [letters[number - 1] + 1 if number else 0 for number in before]


def _differences(before: Document, after: Document) -> Document:
    """What people changed is known; nothing else is."""
    guesses, entities = _keys(before), _keys(after)
    refuted = [
        Admissible(start, end, (label,), excluded=True)
        for start, end, label, pieces in sorted(guesses - entities)
        if not pieces
    ]
    kept = [one for one in after.entities if (one.start, one.end, one.label, one.fragments) not in guesses]
    return replace(
        after, entities=tuple(kept), unknown=((0, len(after.text)),), admissible=(*after.admissible, *refuted)
    )
