"""ACE 2004 and ACE 2005 as the LDC ships them: pairs of a text, ``NAME.sgm``, and its annotation, ``NAME.apf.xml``.

Text
    The ``.sgm`` without its tags, of which nothing remains: offsets count what is left, line ends outside tags and what
    stands before ``<TEXT>`` included. SGML entities stay as they stand: ``&amp;`` is five characters. A line end is one
    character, also in files that went through Windows.

Mentions
    Every ``<entity_mention>`` with the type of its entity, whether name, noun or pronoun. ``END`` is inclusive. The
    annotation repeats the text of each mention; where that is not what stands there, reading stops: a wrong offset
    would go unnoticed otherwise. White space at the edges of a mention is cut off, with a note.

Files
    In ACE 2005 a document lies in one folder for each stage of annotation (fp1, fp2, adj, timex2norm). It is read once,
    from the last stage that is there.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, NoReturn

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats.base import Format, Options, Peek, choice
from nestree.data.model import Document, Entity, Range, Source
from nestree.data.report import Report
from nestree.data.xml import Event, events

TYPES = ("PER", "ORG", "GPE", "LOC", "FAC", "VEH", "WEA")
"""The types of entities in ACE 2004 and ACE 2005."""

_TEXT, _ANNOTATION = ".sgm", ".apf.xml"
_STAGES = ("timex2norm", "adj")  # the last one first
_TAG = re.compile(r"<[^<>]+>")  # also over several lines: ACE 2005 has quoted posts in attributes
_NUMBER = re.compile(r"[0-9]{1,12}")
_XML_DECLARATION = re.compile(r"\A<\?xml\s[^>]*\?>")
_PARTS = {"extents": "extent", "heads": "head"}


def read(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """The documents of a folder tree, by name, or in the order of the list in the option ``files``.

    A single ``.sgm`` or ``.apf.xml`` file is read with its partner. Ends are inclusive in the files, in characters.

    Raises:
        DataError: a listed document or one file of a pair is missing, a file is not UTF-8 or not well-formed, or an
            annotation does not fit the text.
    """
    part = _PARTS[choice(options, "mentions", tuple(_PARTS))]
    whole = choice(options, "texts", ("body", "all")) == "all"
    for pair in _pairs(path, options.get("files"), report):
        yield _document(pair, part, whole, report)


# --- Files -----------------------------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    name: str
    folder: Path

    @property
    def text(self) -> Path:
        return self.folder / (self.name + _TEXT)

    @property
    def annotation(self) -> Path:
        return self.folder / (self.name + _ANNOTATION)


def _pairs(path: Path, list_of_files: str | None, report: Report) -> list[_Pair]:
    """The pairs to be read; what is missing is found before anything is read."""
    found = _by_name(path)
    if not found:
        advice = f"A document is a pair of files, NAME{_TEXT} and NAME{_ANNOTATION}; give the folder that has them."
        raise DataError("there are no documents of ACE", path=path, advice=advice)
    names = sorted(found) if list_of_files is None else _listed(Path(list_of_files), found, path, report)
    return [_chosen(name, found[name], report) for name in names]


def _by_name(path: Path) -> dict[str, dict[Path, set[str]]]:
    """Of each document its folders, and which of the two files they have."""
    if not path.exists():
        raise DataError("there is no such file or folder", path=path)
    if path.is_dir():
        there = [file for file in path.rglob("*") if not file.name.startswith(".")]
    else:
        there = [path.with_name(_name(path.name) + ending) for ending in (_TEXT, _ANNOTATION)]
        if path not in there:
            raise DataError(f"the name ends neither in {_TEXT} nor in {_ANNOTATION}", path=path)
    found: dict[str, dict[Path, set[str]]] = {}
    for file in there:
        name = _name(file.name)
        if name != file.name and file.is_file():
            found.setdefault(name, {}).setdefault(file.parent, set()).add(file.name.removeprefix(name))
    return found


def _name(file: str) -> str:
    return file.removesuffix(_TEXT if file.endswith(_TEXT) else _ANNOTATION)


def _listed(path: Path, found: dict[str, dict[Path, set[str]]], corpus: Path, report: Report) -> list[str]:
    """The names on the lines of a file. Folders do not matter: lists of ACE 2005 are made for one stage or another."""
    names: dict[str, int] = {}
    for number, line in files.lines(path):
        name = _name(line.split("#")[0].strip().replace("\\", "/").rpartition("/")[2])
        if not name:
            continue
        if name in names:
            report.note("listed twice", f"{path}:{number}", f"{name} is also in line {names[name]}", "read once")
        elif name not in found:
            advice = "A list has one document a line, with or without folder and ending."
            raise DataError(f"the document {shown(name)} is not in {corpus}", path=path, line=number, advice=advice)
        names.setdefault(name, number)
    if not names:
        raise DataError("the list of documents is empty", path=path)
    return list(names)


def _chosen(name: str, folders: dict[Path, set[str]], report: Report) -> _Pair:
    """The pair that is read, of all that have this name."""
    halves = sorted(folder / (name + min(endings)) for folder, endings in folders.items() if len(endings) < 2)
    pairs = sorted((_stage(folder), folder) for folder, endings in folders.items() if len(endings) == 2)
    if not pairs:
        missing = name + (_TEXT if halves[0].name.endswith(_ANNOTATION) else _ANNOTATION)
        raise DataError(f"the other file of the pair, {missing}, is missing", path=halves[0])
    for half in halves:
        report.note("file without partner", str(half), "there is a complete pair elsewhere", "not read")
    chosen = _Pair(name, pairs[0][1])
    if len(pairs) > 1:
        others = ", ".join(str(folder) for _, folder in pairs[1:])
        report.note("in several folders", str(chosen.annotation), f"also in {others}", f"{chosen.folder.name} read")
    return chosen


def _stage(folder: Path) -> int:
    return _STAGES.index(folder.name) if folder.name in _STAGES else len(_STAGES)


# --- Documents -------------------------------------------------------------------------------------------------------


def _document(pair: _Pair, part: str, whole: bool, report: Report) -> Document:
    text, body = _without_tags(pair.text, whole)
    annotation = _Annotation(str(pair.annotation), part, report)
    annotation.read(pair.annotation)
    entities, lines = [], []
    for mention in annotation.mentions:
        start, end = _placed(mention, text, pair, report)
        if start < body[0] or end > body[1]:
            message = f"{shown(text[start:end])} {mention.label} is not in the body of the text"
            report.note("outside the body", f"{pair.annotation}:{mention.line}", message, "left out")
            continue
        entities.append(Entity(start - body[0], end - body[0], mention.label))
        lines.append(mention.line)
    source = Source(str(pair.annotation), annotation.line, tuple(lines))
    return Document(text[slice(*body)], tuple(entities), id=pair.name, meta=annotation.meta, source=source)


def _without_tags(path: Path, whole: bool) -> tuple[str, Range]:
    """The text without its tags, and which part of it is wanted."""
    marked = files.text(path).replace("\r\n", "\n")
    pieces: list[str] = []
    after = length = 0
    borders: dict[str, Range] = {}  # place and line of the first opening tag, place of the last closing one
    for tag in _TAG.finditer(marked):
        pieces.append(marked[after : tag.start()])
        length += tag.start() - after
        after = tag.end()
        name = (tag.group()[1:-1].split() or [""])[0].upper()
        if name in ("BODY", "TEXT") and name not in borders:
            borders[name] = length, marked.count("\n", 0, tag.start()) + 1
        elif name[:1] == "/" and name[1:] in borders:
            borders[name] = length, 0
    pieces.append(marked[after:])
    text = "".join(pieces)
    return text, (0, len(text)) if whole else _body(borders, path)


def _body(borders: dict[str, Range], path: Path) -> Range:
    """Where the body begins and ends: headline and text in files that have a ``<BODY>``, else the text."""
    name = next((name for name in ("BODY", "TEXT") if name in borders), None)
    if name is None:
        advice = "The option texts=all reads all there is."
        raise DataError("there is neither a <BODY> nor a <TEXT>", path=path, line=1, advice=advice)
    start, line = borders[name]
    if f"/{name}" not in borders:
        raise DataError(f"the <{name}> does not end", path=path, line=line, advice="Is the file complete?")
    return start, borders[f"/{name}"][0]


# --- Annotation ------------------------------------------------------------------------------------------------------


class _Mention(NamedTuple):
    label: str
    start: str
    end: str
    text: str
    line: int


class _Annotation:
    """What an ``.apf.xml`` file says; ``part`` is what is read of mentions, "extent" or "head"."""

    def __init__(self, path: str, part: str, report: Report) -> None:
        self.mentions: list[_Mention] = []
        self.meta: dict[str, str] = {}
        self.line: int | None = None
        self._path = path
        self._part = part
        self._report = report
        self._tags: list[str] = []  # from the root to where we are
        self._label = ""
        self._before = 0  # mentions found before the one we are in
        self._text: list[str] = []
        self._charseq: Event | None = None

    def read(self, path: Path) -> None:
        # The bytes are checked to be UTF-8, so what the file calls them does not matter; expat would believe it.
        text = _XML_DECLARATION.sub(lambda found: "\n" * found.group().count("\n"), files.text(path))
        for event in events(BytesIO(text.encode()), self._path):
            if event.kind == "start":
                self._tags.append(event.value)
                self._begin(event)
            elif event.kind == "end":
                self._end(event)
                self._tags.pop()
            elif self._charseq is not None:
                self._text.append(event.value)
        if self.line is None:
            self._refuse("there is no <document> in the <source_file>", 1)

    def _begin(self, event: Event) -> None:
        match self._tags:
            case [root]:
                if root != "source_file":
                    self._refuse(f"annotation of ACE begins with <source_file>, found <{root}>", event.line)
                self._keep(event, "SOURCE")
            case ["source_file", "document"]:
                if self.line is not None:
                    self._refuse("there is more than one <document>", event.line)
                self.line = event.line
                self._keep(event, "DOCID")
            case ["source_file", "document", "entity"]:
                self._label = self._type(event)
            case ["source_file", "document", other]:
                name = event.attributes.get("ID", "")
                self._report.note("other annotation", self._place(event), f"{other} {name}".strip(), f"{other} skipped")
            case [_, _, "entity", "entity_mention"]:
                self._before = len(self.mentions)
            case [_, _, "entity", "entity_mention", part, "charseq"] if part == self._part:
                self._charseq = event
                self._text.clear()

    def _end(self, event: Event) -> None:
        match self._tags:
            case [_, _, "entity", "entity_mention", part, "charseq"] if part == self._part and self._charseq:
                start, end = (self._needed(self._charseq, name) for name in ("START", "END"))
                mention = _Mention(self._label, start, end, "".join(self._text), self._charseq.line)
                self.mentions.append(mention)
                self._charseq = None
            case [_, _, "entity", "entity_mention"]:
                found = len(self.mentions) - self._before
                if found != 1:
                    what = f"a mention must have one <{self._part}> with one <charseq>, this has {found or 'none'}"
                    self._refuse(what, event.line)

    def _type(self, event: Event) -> str:
        label = self._needed(event, "TYPE").strip()
        if not label:
            self._refuse("the TYPE of the entity is empty", event.line)
        if label not in TYPES:
            message = f"{shown(label)} is none of {', '.join(TYPES)}"
            self._report.note("unusual type", self._place(event), message, "kept")
        return label

    def _needed(self, event: Event, name: str) -> str:
        if name not in event.attributes:
            self._refuse(f"the <{event.value}> has no {name}", event.line)
        return event.attributes[name]

    def _keep(self, event: Event, name: str) -> None:
        if name in event.attributes:
            self.meta[name.lower()] = event.attributes[name]

    def _place(self, event: Event) -> str:
        return f"{self._path}:{event.line}"

    def _refuse(self, what: str, line: int) -> NoReturn:
        raise DataError(what, path=self._path, line=line)


def _placed(mention: _Mention, text: str, pair: _Pair, report: Report) -> Range:
    """Where a mention stands in the text without tags, half-open and without white space at its edges."""

    def refuse(what: str, advice: str | None = None) -> NoReturn:
        raise DataError(what, path=pair.annotation, line=mention.line, advice=advice)

    for name, value in (("START", mention.start), ("END", mention.end)):
        if not _NUMBER.fullmatch(value):
            refuse(f"{name} must be a whole number, found {shown(value)}")
    start, end = int(mention.start), int(mention.end) + 1
    if start >= end:
        refuse(f"START, {start}, is greater than END, {end - 1}", "END is the place of the last character.")
    if end > len(text):
        refuse(f"END, {end - 1}, is not within the {len(text)} characters of {pair.text.name} without its tags")
    found = text[start:end]
    if not _agree(mention.text, found):
        refuse(
            f"the annotation says {shown(mention.text)}, and the text has {shown(found)} from {start} to {end - 1}",
            f"Was {pair.text.name} changed? Its characters are counted, without tags, with line ends.",
        )
    if not found.strip():
        refuse("the mention is white space only")
    trimmed = start + len(found) - len(found.lstrip()), end - len(found) + len(found.rstrip())
    if trimmed != (start, end):
        report.note("white space at the edge", f"{pair.annotation}:{mention.line}", shown(found), "cut off")
    return trimmed


def _agree(said: str, found: str) -> bool:
    """Whether both are the same but for white space, and for SGML entities, which the annotation may resolve."""
    squeezed = "".join(said.split())
    return squeezed in ("".join(found.split()), "".join(html.unescape(found).split()))


def looks(peek: Peek) -> bool:
    """A folder with ``.apf.xml`` files in it or below, or one file of a pair."""
    if peek.is_folder:
        return any(not file.name.startswith(".") for file in peek.path.rglob(f"*{_ANNOTATION}"))
    name = peek.path.name
    return name.endswith(_ANNOTATION) or (
        name.endswith(_TEXT) and peek.path.with_name(_name(name) + _ANNOTATION).is_file()
    )


FORMAT = Format(
    "ace",
    "ACE 2004 and ACE 2005 from the LDC, pairs of .sgm and .apf.xml files; inclusive ends",
    looks,
    read,
    options={
        "mentions": "extents (all of a mention, the default) or heads",
        "files": "a text file with the names of the documents to read, one a line, # begins a comment",
        "texts": "body (headline and text, without what stands around them, the default) or all",
    },
    whole_folder=True,
)
__all__ = ["FORMAT", "TYPES", "looks", "read"]
