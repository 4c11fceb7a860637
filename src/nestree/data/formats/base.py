"""What every format is made of, and the checks that readers share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from nestree.data import files
from nestree.data.errors import DataError, place, shown
from nestree.data.model import Document, Entity, Range, Source, Tokens, out_of_range
from nestree.data.report import Report

Options = Mapping[str, str]


@dataclass(frozen=True)
class Peek:
    """A first look at a file or folder, to see what it is."""

    path: Path

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path.is_dir()

    @cached_property
    def suffix(self) -> str:
        """The ending, in lower case, without that of a compression."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes if suffix.lower() not in (".gz", ".bz2", ".xz")]
        return suffixes[-1] if suffixes else ""

    @cached_property
    def head(self) -> str:
        """The first 64 KiB as text."""
        return "" if self.is_folder else files.head(self.path)

    @cached_property
    def lines(self) -> list[str]:
        """The first lines, without one that may be cut off."""
        return [line.removesuffix("\r") for line in self.head.split("\n")]

    @cached_property
    def record(self) -> dict[str, Any]:
        """The first object of a JSON Lines file or a JSON array; empty if it is neither."""
        from nestree.data.formats.records import records

        if self.is_folder or self.head.lstrip()[:1] not in ("{", "["):
            return {}
        try:
            return next(records(self.path))[1]
        except (DataError, StopIteration):
            return {}

    def names(self, suffix: str) -> list[Path]:
        """Files of a folder with that ending, in order, without those whose names begin with a dot."""
        if not self.is_folder:
            return []
        found = (path for path in self.path.iterdir() if path.name.endswith(suffix) and not path.name.startswith("."))
        return sorted(path for path in found if path.is_file())


Reader = Callable[[Path, Options, Report], Iterator[Document]]
Writer = Callable[[Iterable[Document], Path, Options, Report], None]


@dataclass(frozen=True)
class Format:
    """One way of writing annotated text down.

    Attributes:
        name: as on the command line.
        summary: one line about it, the meaning of its ends included.
        looks: whether a file or folder looks like it.
        read: the documents of a file or folder, one after the other.
        write: writes documents; None if the format is only read.
        suffix: the ending by which the format is meant when a file is to be written; "" if none is its own.
        options: names of what can be set for reading, with what that does.
        writing: the same for writing.
        as_guesses: options for writing what a model found, and nobody looked at yet.
        with_guesses: options for reading that, too.
        only_finished: options for reading what people finished alone.
        whole_folder: whether a folder is read as one thing; others are read file by file.
        words: whether it counts in words, so that entities must be on them.
        pieces: whether it can hold an entity of several pieces.
        across: whether an entity may run over the end of a sentence, in a format that counts in words.
        surrogates: whether it can hold lone surrogates, which UTF-8 cannot: JSON can, by its escapes.
    """

    name: str
    summary: str
    looks: Callable[[Peek], bool]
    read: Reader
    write: Writer | None = None
    suffix: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    whole_folder: bool = False
    words: bool = False
    pieces: bool = False
    across: bool = False
    surrogates: bool = False
    writing: Mapping[str, str] = field(default_factory=dict)
    as_guesses: Mapping[str, str] = field(default_factory=dict)
    with_guesses: Mapping[str, str] = field(default_factory=dict)
    only_finished: Mapping[str, str] = field(default_factory=dict)

    def check_options(self, options: Options, *, writing: bool = False) -> None:
        """Raises if an option is not one of this format, for reading or writing."""
        known_ones = self.writing if writing else self.options
        unknown = sorted(set(options) - set(known_ones))
        if unknown:
            known = ", ".join(known_ones) or "none"
            raise DataError(f"the format {self.name!r} has no option {unknown[0]!r}", advice=f"It knows: {known}.")


def choice(options: Options, name: str, known: Sequence[str]) -> str:
    """The value of an option; the first of the known ones if it was not given."""
    value = options.get(name, known[0])
    if value not in known:
        raise DataError(f"the option {name} is {value!r}", advice=f"It can be: {', '.join(known)}.")
    return value


# --- Checks of what JSON and its relatives hold ----------------------------------------------------------------------


class Record:
    """An object of a file, with what its checks need to complain."""

    __slots__ = ("item", "line", "path", "values")

    def __init__(self, values: Mapping[str, Any], path: str, line: int | None, item: int | None = None) -> None:
        self.values = values
        self.path = path
        self.line = line
        self.item = item  # its number in an array, whose items may all stand on one line

    def refuse(self, what: str, advice: str | None = None) -> NoReturn:
        """Raises an error at this record."""
        name = self.values.get("id") if self.item is not None else None
        item = "" if self.item is None else f"item {self.item}" + (f" (id {shown(name)}): " if name else ": ")
        raise DataError(item + what, path=self.path, line=self.line, advice=advice)

    def part(self, values: Mapping[str, Any]) -> Record:
        """An object within this one, which complains at the same place."""
        return Record(values, self.path, self.line, self.item)

    @property
    def place(self) -> str:
        """``file:line``, and the number in an array."""
        return place(self.path, self.line) + ("" if self.item is None else f", item {self.item}")

    @property
    def source(self) -> Source:
        """Where the record stands."""
        return Source(self.path, self.line)

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A value of the given kind, or the default if it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = " or ".join(_KINDS.get(one, one.__name__) for one in kinds)
            self.refuse(f"{key!r} must be {wanted}, found {shown(value)}")
        return value

    def need(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """The same; missing is an error."""
        value = self.get(key, kind)
        if value is None:
            there = ", ".join(map(repr, list(self.values)[:12])) or "nothing"
            self.refuse(f"the key {key!r} is missing; there is {there}")
        return value

    def known(self, keys: Iterable[str], what: str) -> None:
        """Raises if there is a key that nobody would read: a misspelt one loses annotation."""
        unknown = [key for key in self.values if key not in keys]
        if unknown:
            self.refuse(f"{what} has the unknown key {unknown[0]!r}", f"Known are: {', '.join(keys)}.")

    def words(self, value: Any, what: str = "tokens") -> list[str]:
        """A list of words, checked."""
        if not isinstance(value, list):
            self.refuse(f"{what!r} must be a list of words, found {shown(value)}")
        for word in value:
            if not isinstance(word, str):
                self.refuse(f"{what!r} must hold strings only, found {shown(word)}")
            if not word or word.isspace():
                self.refuse(f"{what!r} holds an empty word, {shown(word)}", "Every token needs a visible character.")
        return value

    def label(self, value: Any) -> str:
        """A label, checked."""
        if not isinstance(value, str) or not value.strip():
            self.refuse(f"a label must be a string that is not empty, found {shown(value)}")
        return value

    def entity(self, text: str, start: Any, end: Any, label: Any, score: Any = None) -> Entity:
        """An entity in characters, checked."""
        if not _is_range(start, end, len(text)):
            error = out_of_range(start, end, label, len(text), "characters", None)
            self.refuse(error.what, error.advice)
        return Entity(start, end, self.label(label), self.score(score))

    def score(self, value: Any) -> float | None:
        """A score, checked; None if there is none."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
            self.refuse(f"a score must be a number, found {shown(value)}")
        return float(value)

    def span(self, words: int, start: Any, end: Any, label: Any) -> tuple[int, int, str]:
        """An entity in words, checked."""
        if not _is_range(start, end, words):
            error = out_of_range(start, end, label, words, "words", None)
            self.refuse(error.what, error.advice)
        return start, end, self.label(label)

    def pair(self, item: Any, what: str, size: int) -> Range:
        """A range, checked."""
        if isinstance(item, (list, tuple)) and len(item) == 2 and type(item[0]) is int and type(item[1]) is int:
            start, end = item
            if _is_range(start, end, size):
                return start, end
            error = out_of_range(start, end, what, size, "characters or tokens", None)
            self.refuse(error.what, error.advice)
        return self.refuse(f"{what!r} must hold pairs [start, end], found {shown(item)}")

    def ranges(self, key: str, size: int) -> Iterator[Range]:
        """A list of ranges, checked; none if it is missing."""
        for item in self.get(key, list, ()):
            yield self.pair(item, key, size)


_KINDS = {str: "a string", list: "a list", dict: "an object", int: "a whole number", float: "a number"}


def _is_range(start: Any, end: Any, size: int) -> bool:
    return type(start) is int and type(end) is int and 0 <= start < end <= size


def on_words(document: Document, format_name: str, *, across: bool = False) -> list[tuple[int, int, str]]:
    """The entities in words, for formats that hold words only; entities elsewhere are an error.

    ``across``: whether an entity may run over the end of a sentence.

    Raises:
        DataError: the document has no words, or an entity is not on them. ``fit`` takes care of both before.
    """
    if document.tokens is None:
        raise DataError(f"{document.place or 'a document'} has no words", advice="Split it first.")
    spans = []
    for number, entity in enumerate(document.entities):
        if entity.token_start is None or entity.token_end is None or entity.fragments:
            where = "is in several pieces" if entity.fragments else "is not on token boundaries"
            raise DataError(
                f"{document.place_of(number)}: the entity {shown(document.text_of(entity))} {where}, "
                f"and {format_name} counts in words",
                advice="Choose a policy for it (alignment, discontinuous).",
            )
        spans.append((entity.token_start, entity.token_end, entity.label))
    if not across and len(document.sentences or ()) > 1:
        ends = [end for _, end in document.sentences or ()]
        for number, (start, last, _) in enumerate(spans):
            if last > ends[bisect_right(ends, start)]:
                said = shown(document.text_of(document.entities[number]))
                raise DataError(f"{document.place_of(number)}: the entity {said} runs over the end of its sentence")
    return spans


def counted(tokens: Tokens | None, start: int, end: int) -> Range:
    """A range of characters, in tokens if there are any to count."""
    if tokens is None:
        return start, end
    found = tokens.exactly(start, end)
    assert found is not None
    return found


def spans_by_sentence(document: Document, spans: Iterable[tuple[int, int, str]]) -> list[list[tuple[int, int, str]]]:
    """The entities that begin in each sentence."""
    ends = [end for _, end in document.sentences or ()]
    found: list[list[tuple[int, int, str]]] = [[] for _ in ends]
    for span in spans:
        found[bisect_right(ends, span[0])].append(span)
    return found


def note_losses(document: Document, report: Report, *, keeps: Sequence[str] = ()) -> None:
    """Notes what a format cannot hold of a document: what it does have and the format does not ``keep``."""
    joined = document.tokens is not None and document.text == " ".join(document.words)
    there = {
        "scores": any(entity.score is not None for entity in document.entities),
        "text": not joined,
        "tokens": document.tokens is not None,
        "sentences": document.sentences is not None and len(document.sentences) > 1,
        "id": bool(document.id),
        "incomplete annotation": document.complete_labels is not None or bool(document.unknown or document.admissible),
        "meta": bool(document.meta),
    }
    for what, is_there in there.items():
        if is_there and what not in keeps:
            report.note("not kept", document.place, _LOSSES.get(what, what), what)


_LOSSES = {
    "text": "white space between words",
    "scores": "scores of entities",
    "tokens": "where the words stand",
    "sentences": "borders of sentences",
    "id": "the document's name",
    "meta": "further fields of the file",
}


def meta_beside(document: Document, own: Iterable[str], report: Report) -> dict[str, Any]:
    """The meta that can stand beside a format's own keys; a note for what cannot."""
    own = set(own)
    for key in sorted(own & set(document.meta)):
        report.note("not kept", document.place, f"the field {key!r}, which means something else there", "meta")
    return {key: value for key, value in document.meta.items() if key not in own}


def kept_entities(document: Document, report: Report, format_name: str) -> Iterator[tuple[int, Entity]]:
    """The contiguous entities; a note for each discontinuous one, which the format cannot hold."""
    for number, entity in enumerate(document.entities):
        if entity.fragments:
            message = f"{shown(document.text_of(entity))} {entity.label} is in {len(entity.fragments)} pieces"
            report.note("discontinuous", document.place_of(number), message, f"not kept by {format_name}")
        else:
            yield number, entity
