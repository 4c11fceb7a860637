"""Gold and predictions that come as different files: the same characters, other white space, other documents.

A system that reads words writes words: *IL-2 gene* comes back as *IL - 2 gene*, a document as one sentence after the
other. What counts is that the characters that are not white space are the same, in the same order; then every offset
of one text has its place in the other. Nothing is guessed: texts that differ in a character are an error. No torch
here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from nestree.data.errors import DataError, shown
from nestree.data.model import Document, Entity, Range, Source, Tokens

_GOLD, _PREDICTIONS = "gold", "the predictions"
_ADVICE = (
    "Gold and predictions must be the same text in the same order; they may differ in white space, and in where one "
    "document ends and the next begins."
)


def paired(gold: Iterable[Document], predicted: Iterable[Document]) -> Iterator[tuple[Document, Document]]:
    """Gold documents, each with its prediction, whose offsets are brought to the gold text.

    Documents are taken from both sides until they hold the same characters: usually one and one; one and all its
    sentences if predictions come by sentence. Where several gold documents are one of the predictions, they are joined
    into one. Documents without characters need no counterpart. Only the documents of a pair are in memory.

    Raises:
        DataError: the texts differ in a character that is not white space, or one side ends before the other; says
            in which document and where.
    """
    some, others = _Side(gold, _GOLD), _Side(predicted, _PREDICTIONS)
    while some.next is not None or others.next is not None:
        if some.blank and not others.blank:
            document = some.take()
            yield document, Document(document.text)
        elif others.blank and not some.blank:
            others.take()  # of nothing, nothing was said
        else:
            wanted, found = _same_characters(some, others)
            document = joined(wanted)
            yield document, aligned(joined(found), document.text)


def aligned(document: Document, text: str) -> Document:
    """The document with the same annotation on another text, which must differ from its own in white space only.

    White space at the edges of an entity stays with it as far as the other text has it there.
    """
    if document.text == text:
        return document
    old, new = _Places(document.text), _Places(text)

    def moved(start: int, end: int) -> Range:
        first, last = old.before(start), old.before(end)
        start = max(new.gap(first)[1] - (old.gap(first)[1] - start), new.gap(first)[0])
        end = min(new.gap(last)[0] + (end - old.gap(last)[0]), new.gap(last)[1])
        return start, max(start, end)

    def moved_entity(entity: Entity) -> Entity:
        start, end = moved(entity.start, entity.end)
        return entity._replace(start=start, end=end, fragments=tuple(moved(*piece) for piece in entity.fragments))

    moved_spans = [(one, moved(one.start, one.end)) for one in document.admissible]
    tokens = None
    if document.tokens is not None:
        places = [moved(*token) for token in document.tokens]
        tokens = Tokens([start for start, _ in places], [end for _, end in places])
    return replace(
        document,
        text=text,
        entities=tuple(map(moved_entity, document.entities)),
        tokens=tokens,
        unknown=tuple(moved(*one) for one in document.unknown),
        admissible=tuple(one._replace(start=start, end=end) for one, (start, end) in moved_spans),
    )


class _Places:
    """Where the characters of a text are that are not white space."""

    def __init__(self, text: str) -> None:
        self._places = [at for at, character in enumerate(text) if not character.isspace()]
        self._size = len(text)

    def before(self, offset: int) -> int:
        """How many of them are before an offset."""
        return bisect_left(self._places, offset)

    def gap(self, number: int) -> Range:
        """The white space before the character of that number; it may be empty."""
        places = self._places
        return places[number - 1] + 1 if number else 0, places[number] if number < len(places) else self._size


def joined(documents: Sequence[Document]) -> Document:
    """Documents as one, each on a line of its own. It has words, and sentences, if all of them have."""
    if len(documents) == 1:
        return documents[0]
    offsets = list(accumulate((len(one.text) + 1 for one in documents), initial=0))[:-1]
    words = list(accumulate((len(one.tokens or ()) for one in documents), initial=0))[:-1]
    places = list(zip(documents, offsets, words, strict=True))
    split = all(one.tokens is not None for one in documents)
    tokens = Tokens(
        [start + offset for one, offset, _ in places for start in (one.tokens.starts if one.tokens else ())],
        [end + offset for one, offset, _ in places for end in (one.tokens.ends if one.tokens else ())],
    )
    sentences = tuple((a + before, b + before) for one, _, before in places for a, b in one.sentences or ())
    complete = [set(one.complete_labels) for one in documents if one.complete_labels is not None]
    return Document(
        "\n".join(one.text for one in documents),
        tuple(
            _later(entity, offset, before if split else None)
            for one, offset, before in places
            for entity in one.entities
        ),
        tokens if split else None,
        sentences if split and all(one.sentences is not None for one in documents) else None,
        documents[0].id,
        tuple(sorted(set.intersection(*complete))) if complete else None,
        tuple((start + offset, end + offset) for one, offset, _ in places for start, end in one.unknown),
        tuple(
            one._replace(start=one.start + offset, end=one.end + offset)
            for document, offset, _ in places
            for one in document.admissible
        ),
        documents[0].meta,
        _common_source([one.source for one in documents]),
    )


def _later(entity: Entity, offset: int, words: int | None) -> Entity:
    """An entity of a document that others are put before."""
    first, last = (None, None) if words is None or entity.tokens is None else entity.tokens
    return entity._replace(
        start=entity.start + offset,
        end=entity.end + offset,
        token_start=None if first is None else first + (words or 0),
        token_end=None if last is None else last + (words or 0),
        fragments=tuple((start + offset, end + offset) for start, end in entity.fragments),
    )


def _common_source(sources: Sequence[Source | None]) -> Source | None:
    first = sources[0]
    if first is None:
        return None
    lines: list[int] = []
    for source in sources:
        if source is None or source.path != first.path or not source.entity_lines:
            return first._replace(entity_lines=())
        lines += source.entity_lines
    return first._replace(entity_lines=tuple(lines))


# --- Which documents belong together ---------------------------------------------------------------------------------


class _Side:
    """Gold or predictions: the documents that are still to come, and the one that was taken last."""

    def __init__(self, documents: Iterable[Document], name: str) -> None:
        self._documents = iter(documents)
        self.name = name
        self.number = 0
        self.last: Document | None = None
        self.next: Document | None = next(self._documents, None)

    @property
    def blank(self) -> bool:
        """Whether there is a next document, with white space only."""
        return self.next is not None and not self.next.text.strip()

    def take(self) -> Document:
        """The next document, which must be there."""
        assert self.next is not None
        self.last, self.next = self.next, next(self._documents, None)
        self.number += 1
        return self.last

    def offset(self, seen: int) -> tuple[int, str]:
        """Where in the last document that character is, not counting white space; and the text from there on."""
        assert self.last is not None
        offset = _Places(self.last.text).gap(seen)[1]
        return offset, shown(self.last.text[offset : offset + 40])

    @property
    def place(self) -> str:
        """Which document was taken last, and where it was read."""
        where = self.last.place if self.last is not None else ""
        return f"document {self.number} of {self.name}" + (f" ({where})" if where else "")


def _same_characters(some: _Side, others: _Side) -> tuple[list[Document], list[Document]]:
    """Documents from both sides until they have the same characters."""
    for side, other in ((some, others), (others, some)):
        if side.next is None:
            raise _no_counterpart(other, side)
    taken: dict[_Side, list[Document]] = {some: [some.take()], others: []}
    ahead, behind = some, others
    rest, at = _characters(taken[some][0]), 0  # of the document that is ahead, and how many of them were seen again
    while True:
        if behind.next is None:
            raise _ends_within(ahead, behind, at)
        taken[behind].append(behind.take())
        characters = _characters(taken[behind][-1])
        both = min(len(characters), len(rest) - at)
        if not rest.startswith(characters[:both], at):
            raise _other_text({ahead: (rest, at), behind: (characters, 0)}, some, others)
        if both == len(characters) == len(rest) - at:
            return taken[some], taken[others]
        if both == len(characters):
            at += both
        else:
            ahead, behind, rest, at = behind, ahead, characters, both


def _characters(document: Document) -> str:
    return "".join(document.text.split())


def _no_counterpart(side: _Side, ended: _Side) -> DataError:
    """The error for a document that the other side does not have."""
    side.take()
    number = f"{ended.number} document" + ("" if ended.number == 1 else "s")
    have = "has" if ended.name == _GOLD else "have"
    return DataError(f"{side.place} has no counterpart: {ended.name} {have} only {number}", advice=_ADVICE)


def _ends_within(ahead: _Side, behind: _Side, seen: int) -> DataError:
    """The error for a side that ends before a document of the other does."""
    offset, text = ahead.offset(seen)
    where = f"character {offset} of {ahead.place}, before {text}"
    return DataError(f"the texts differ: the last document of {behind.name} ends at {where}", advice=_ADVICE)


def _other_text(rests: dict[_Side, tuple[str, int]], some: _Side, others: _Side) -> DataError:
    """The error for two documents that are not the same; ``rests``: what is left of each, and from where on."""
    (one, first), (other, second) = rests[some], rests[others]
    same = next(at for at, (a, b) in enumerate(zip(one[first:], other[second:], strict=False)) if a != b)
    places = []
    for side, seen in ((some, first + same), (others, second + same)):
        offset, text = side.offset(seen)
        places.append(f"{text} at character {offset} of {side.place}")
    return DataError(f"the texts differ: {places[0]}, {places[1]}", advice=_ADVICE)
