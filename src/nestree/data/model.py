"""What every corpus becomes: documents with text, tokens, sentences and entities.

Offsets are half-open and count code points (characters as Python counts them). Everything is immutable, plain Python,
and free of torch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, overload

from nestree.data.errors import DataError, place, shown

Range = tuple[int, int]
"""Start and end, half-open."""


class Token(NamedTuple):
    """Where a word stands in the text: ``text[start:end]``."""

    start: int
    end: int


class Entity(NamedTuple):
    """A labelled span: characters ``[start, end)``, and the same in tokens where both ends are token boundaries.

    ``fragments``: of a discontinuous entity its pieces, in characters and in order; ``start`` and ``end`` then
    cover them all. Empty for all others.
    """

    start: int
    end: int
    label: str
    score: float | None = None
    token_start: int | None = None
    token_end: int | None = None
    fragments: tuple[Range, ...] = ()

    @property
    def tokens(self) -> Range | None:
        """The entity's tokens, half-open, or None if it is not on token boundaries."""
        if self.token_start is None or self.token_end is None:
            return None
        return self.token_start, self.token_end


class Admissible(NamedTuple):
    """What is known of a span that is not annotated for certain: characters ``[start, end)``.

    ``labels``: the span is an entity with one of these; None among them: or it is no entity at all.
    ``excluded``: the opposite: whatever the span is, it is not an entity with one of these labels.
    """

    start: int
    end: int
    labels: tuple[str | None, ...]
    excluded: bool = False


class Tokens(Sequence[Token]):
    """The tokens of a document, in order, without overlap. Kept as rows of numbers: corpora have many.

    ``lengths``: of words joined by spaces, how many characters there are before each word and after the last.
    """

    __slots__ = ("_rows", "lengths")

    def __init__(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        self._rows: tuple[Sequence[int], Sequence[int]] | None = (starts, ends)
        self.lengths: list[int] = []

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Tokens:
        """The tokens of words joined by single spaces. Where they stand is worked out when it is asked for."""
        tokens = cls.__new__(cls)
        tokens._rows = None
        tokens.lengths = [0, *accumulate(map(len, words))]
        return tokens

    @property
    def starts(self) -> Sequence[int]:
        """Where each token begins."""
        return (self._rows or self._worked_out())[0]

    @property
    def ends(self) -> Sequence[int]:
        """Where each token ends."""
        return (self._rows or self._worked_out())[1]

    def _worked_out(self) -> tuple[Sequence[int], Sequence[int]]:
        lengths = self.lengths
        spaces = range(len(lengths) - 1)  # before each word
        self._rows = list(map(int.__add__, lengths, spaces)), list(map(int.__add__, lengths[1:], spaces))
        return self._rows

    def characters(self, first: int, last: int) -> Range:
        """The characters of the tokens ``[first, last)``, of which there must be one."""
        if self._rows is None:
            return self.lengths[first] + first, self.lengths[last] + last - 1
        return self._rows[0][first], self._rows[1][last - 1]

    def __len__(self) -> int:
        return len(self._rows[0]) if self._rows is not None else len(self.lengths) - 1

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Token, ...]: ...
    def __getitem__(self, index: int | slice) -> Token | tuple[Token, ...]:
        if isinstance(index, slice):
            return tuple(map(Token, self.starts[index], self.ends[index]))
        return Token(self.starts[index], self.ends[index])

    def __iter__(self) -> Iterator[Token]:
        return map(Token, self.starts, self.ends)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokens):
            return NotImplemented
        return list(self.starts) == list(other.starts) and list(self.ends) == list(other.ends)

    def __hash__(self) -> int:
        return hash((tuple(self.starts), tuple(self.ends)))

    def __repr__(self) -> str:
        return f"Tokens({[tuple(token) for token in self]})"

    def exactly(self, start: int, end: int) -> Range | None:
        """The tokens that begin and end where these characters do, or None."""
        first, last = self._with_start(start), bisect_left(self.ends, end)
        if first is None or last >= len(self.ends) or self.ends[last] != end or last < first:
            return None
        return first, last + 1

    def touched(self, start: int, end: int) -> Range:
        """The tokens that share a character with these; empty if none does."""
        first = bisect_right(self.ends, start)
        return first, max(first, bisect_left(self.starts, end))

    def inside(self, start: int, end: int) -> Range:
        """The tokens that lie wholly within these characters; empty if none does."""
        first = bisect_left(self.starts, start)
        return first, max(first, bisect_right(self.ends, end))

    def _with_start(self, start: int) -> int | None:
        index = bisect_left(self.starts, start)
        return index if index < len(self.starts) and self.starts[index] == start else None


class Source(NamedTuple):
    """Where a document was read: file, its first line, and the lines of its entities where they have their own."""

    path: str
    line: int | None = None
    entity_lines: tuple[int, ...] = ()

    def of_entity(self, index: int) -> str:
        """``file:line`` of the entity with that number."""
        return place(self.path, self.entity_lines[index] if self.entity_lines else self.line)


@dataclass(frozen=True, init=False)
class Document:
    """A text with its annotation.

    Attributes:
        id: its name, or "" if it has none.
        text: as it was found; of a corpus that comes as words, the words joined by single spaces.
        entities: as annotated, in the file's order: duplicates, crossing and misplaced ones included. Policies
            (:mod:`nestree.data.policies`) turn them into what a model can learn.
        tokens: where the words stand, or None if the corpus does not say.
        sentences: ranges of tokens that together are all of them; None if the corpus does not say.
        complete_labels: the labels that were annotated completely; of others, more may be there. None: all.
        unknown: ranges of characters in which nobody looked for entities.
        admissible: spans that are not annotated for certain, with the labels that they may or cannot have.
        meta: whatever else a file says of the document.
        source: where it was read; not compared.
    """

    text: str
    entities: tuple[Entity, ...] = ()
    tokens: Tokens | None = None
    sentences: tuple[Range, ...] | None = None
    id: str = ""
    complete_labels: tuple[str, ...] | None = None
    unknown: tuple[Range, ...] = ()
    admissible: tuple[Admissible, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)
    source: Source | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        text: str,
        entities: tuple[Entity, ...] = (),
        tokens: Tokens | None = None,
        sentences: tuple[Range, ...] | None = None,
        id: str = "",  # noqa: A002  (the word that users look for)
        complete_labels: tuple[str, ...] | None = None,
        unknown: tuple[Range, ...] = (),
        admissible: tuple[Admissible, ...] = (),
        meta: Mapping[str, Any] | None = None,
        source: Source | None = None,
    ) -> None:
        if entities and type(entities[0]) is not Entity:
            raise TypeError(f"entities must be a tuple of Entity, found {type(entities[0]).__name__}.")
        if tokens is not None and type(tokens) is not Tokens:
            raise TypeError("tokens must be Tokens(starts, ends); of words there is Document.from_words.")
        if admissible and type(admissible[0]) is not Admissible:
            raise TypeError(f"admissible must be a tuple of Admissible, found {type(admissible[0]).__name__}.")
        # As the dataclass would do it, in one step: corpora have many documents.
        self.__dict__.update(
            text=text,
            entities=tuple(entities),
            tokens=tokens,
            sentences=sentences,
            id=id,
            complete_labels=complete_labels,
            unknown=unknown,
            admissible=tuple(admissible),
            meta={} if meta is None else meta,
            source=source,
        )

    @classmethod
    def from_words(
        cls,
        words: Sequence[str],
        spans: Iterable[tuple[int, int, str]] = (),
        *,
        sentences: tuple[Range, ...] | None = None,
        **rest: Any,
    ) -> Document:
        """A document of words, with entities in words: start, end (half-open), label.

        Raises:
            DataError: a word has no visible character, or a span is empty or not within the words.
        """
        tokens, count, text = Tokens.of_words(words), len(words), " ".join(words)
        if "" in words or "  " in text or not text.isprintable():
            _check_words(words, rest.get("source"))
        entities = []
        lengths, new = tokens.lengths, tuple.__new__
        for start, end, label in spans:
            if not 0 <= start < end <= count:
                raise out_of_range(start, end, label, count, "words", rest.get("source"))
            # An Entity, without the detour over its constructor.
            entities.append(new(Entity, (lengths[start] + start, lengths[end] + end - 1, label, None, start, end, ())))
        if sentences is None:
            sentences = ((0, count),) if count else ()
        return cls(text, tuple(entities), tokens, sentences, **rest)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The text of each token."""
        text = self.text
        return tuple([text[start:end] for start, end in self.tokens or ()])

    @property
    def incomplete(self) -> bool:
        """Whether it says that not everything in it is annotated, or not for certain."""
        return self.complete_labels is not None or bool(self.unknown or self.admissible)

    def text_of(self, entity: Entity) -> str:
        """What the entity says; pieces of a discontinuous one are joined by spaces."""
        if entity.fragments:
            return " ".join(self.text[start:end] for start, end in entity.fragments)
        return self.text[entity.start : entity.end]

    @property
    def place(self) -> str:
        """``file:line`` where it was read, or its name."""
        return place(self.source.path, self.source.line) if self.source else self.id

    def place_of(self, index: int) -> str:
        """``file:line`` of the entity with that number."""
        return self.source.of_entity(index) if self.source else self.id

    def with_tokens(self, tokens: Tokens, sentences: tuple[Range, ...] | None) -> Document:
        """The same document with these tokens and sentences; entities know their tokens where they fit."""
        entities = []
        for entity in self.entities:
            found = tokens.exactly(entity.start, entity.end) or (None, None)
            entities.append(entity._replace(token_start=found[0], token_end=found[1]))
        return replace(self, tokens=tokens, sentences=sentences, entities=tuple(entities))


def _check_words(words: Sequence[str], source: Source | None) -> None:
    for word in words:
        if not word or word.isspace():
            raise DataError(
                f"there is an empty word, {shown(word)}",
                path=source.path if source else None,
                line=source.line if source else None,
                advice="Every word needs a visible character.",
            )


def out_of_range(
    start: Any, end: Any, label: Any, size: int, unit: str, source: Source | None, *, what: str = "entity"
) -> DataError:
    """The error for an entity, or ``what`` else has offsets, that is not within its document."""
    found = f"[{start}, {end})"
    if isinstance(start, int) and isinstance(end, int):
        fault = "is empty" if start == end else "ends before it begins" if end < start else "does not lie within"
    else:
        fault = "is not a pair of whole numbers within"
    rest = "" if fault in ("is empty", "ends before it begins") else f" the {size} {unit} of the document"
    return DataError(
        f"the {what} {found} {shown(label)} {fault}{rest}",
        path=source.path if source else None,
        line=source.line if source else None,
        advice=f"Offsets count {unit} from 0, ends are exclusive.",
    )


def check_sentences(sentences: Sequence[Range], tokens: int) -> bool:
    """Whether ranges of tokens follow each other without gaps and are all there is."""
    before = 0
    for start, end in sentences:
        if start != before or end <= start:
            return False
        before = end
    return before == tokens
