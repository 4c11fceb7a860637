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

    They are matched by their text, whatever became of its white space. A document that was not sent is kept. Of a text
    that nobody looked at as a whole (answers to binary questions), there may be any number of documents. Where a part
    was not looked at (``unknown``), guesses are left out.

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
    missing, finished = dict.fromkeys(waiting), set[str]()
    for found in back:
        key, single_answers = _letters(found.text), _is_open(found)
        if key not in waiting:
            yield _not_sent(found, partial, report)
            continue
        if key in finished and not single_answers:
            report.note("twice", found.place, "this text came back before", "left out")
            continue
        if key in missing:
            returns.back += 1
            del missing[key]
        before, after = waiting[key], _moved(found, waiting[key], report)
        added, removed = _changes(before, after)
        returns.added += len(added)
        returns.removed += len(removed)
        if single_answers:  # each says something of its own
            yield after
            continue
        finished.add(key)
        if not added and not removed and not _says_more(before, after):
            returns.unchanged += 1
            if partial or not keep:
                report.note("unchanged", found.place, "it came back as it was sent", "left out")
                continue
        yield _differences(before, after, removed) if partial else _looked_at(before, after, report)
    for key in missing:
        report.note("not back", waiting[key].place or waiting[key].id, "it did not come back", "left out")


def _not_sent(found: Document, partial: bool, report: Report) -> Document:
    """What to make of a document that people have from elsewhere."""
    taken = "kept: what is not annotated is open" if partial or found.incomplete else "kept, as complete annotation"
    report.note("not sent", found.place, "this text was not sent", taken)
    return replace(found, unknown=_all_of(found)) if partial else found


def _all_of(document: Document) -> tuple[Range, ...]:
    return ((0, len(document.text)),) if document.text else ()


def _is_open(document: Document) -> bool:
    """Whether nobody looked at the text as a whole: what is known are single answers."""
    reached = 0
    for start, end in sorted(document.unknown):
        if document.text[reached:start].strip():
            return False
        reached = max(reached, end)
    return bool(document.unknown) and not document.text[reached:].strip()


def _is_unlooked(document: Document, start: int, end: int) -> bool:
    """Whether a span touches what nobody looked at."""
    return any(first < end and start < last for first, last in document.unknown)


def _changes(before: Document, after: Document) -> tuple[set[_Key], set[_Key]]:
    """What people added, and took away. A guess that is gone where nobody looked was not taken away by anybody."""
    guesses, entities = _keys(before), _keys(after)
    refuted = {(one.start, one.end, label) for one in after.admissible if one.excluded for label in one.labels}
    gone = {one for one in guesses - entities if one[:3] in refuted or not _is_unlooked(after, one[0], one[1])}
    return entities - guesses, gone


def _says_more(before: Document, after: Document) -> bool:
    """Whether people said what is open, and that was not said before."""
    return (
        set(after.complete_labels or ()) != set(before.complete_labels or ())
        or (after.complete_labels is None) != (before.complete_labels is None)
        or not set(after.unknown) <= set(before.unknown)
        or not set(after.admissible) <= set(before.admissible)
    )


def _looked_at(before: Document, after: Document, report: Report) -> Document:
    """Without the guesses where nobody looked: annotation tools hand them back with all else."""
    guesses = _keys(before)
    left = [one for one in after.entities if _key(one) in guesses and _is_unlooked(after, one.start, one.end)]
    for one in left:
        report.note("guesses", after.place, f"{after.text_of(one)!r} was sent, and nobody looked there", "left out")
    return replace(after, entities=tuple(one for one in after.entities if one not in left)) if left else after


def _letters(text: str) -> str:
    return "".join(text.split())


def _key(one: Entity) -> _Key:
    return one.start, one.end, one.label, one.fragments


def _keys(document: Document) -> set[_Key]:
    return set(map(_key, document.entities))


def _moved(found: Document, sent: Document, report: Report) -> Document:
    """What came back, on the text that was sent; without scores, as people are not probable."""
    starts, ends = _places(found.text, sent.text)

    def moved(start: int, end: int) -> Range:
        return starts[start], ends[end]

    def has_letters(start: int, end: int) -> bool:
        if starts[start] < ends[end]:
            return True
        report.note("white space", found.place, f"the characters [{start}, {end}) are white space", "left out")
        return False

    def pieces(one: Entity) -> tuple[Range, ...]:
        kept = tuple(moved(*piece) for piece in one.fragments if has_letters(*piece))
        return kept if len(kept) > 1 else ()

    entities = [
        Entity(*moved(one.start, one.end), one.label, fragments=pieces(one))
        for one in found.entities
        if has_letters(one.start, one.end)
    ]
    document = replace(
        sent,
        entities=tuple(entities),
        complete_labels=sent.complete_labels if found.complete_labels is None else found.complete_labels,
        unknown=tuple(moved(*part) for part in found.unknown if has_letters(*part)),
        admissible=tuple(
            Admissible(*moved(one.start, one.end), *one[2:])
            for one in found.admissible
            if has_letters(one.start, one.end)
        ),
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


def _differences(before: Document, after: Document, removed: set[_Key]) -> Document:
    """What people changed is known; nothing else is."""
    guesses = _keys(before)
    refuted = [
        Admissible(start, end, (label,), excluded=True) for start, end, label, pieces in sorted(removed) if not pieces
    ]
    kept = tuple(one for one in after.entities if _key(one) not in guesses)
    return replace(after, entities=kept, unknown=_all_of(after), admissible=(*after.admissible, *refuted))
