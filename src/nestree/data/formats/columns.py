"""One word a line, tags in columns: layers of BIO, or several tags in one column ("multi-label CoNLL").

Columns are separated by tabs or spaces, sentences by empty lines, documents by ``-DOCSTART-`` lines if there are any;
lines that begin with ``#`` and are no words are comments. Columns of tags are found by what they hold. GermEval,
LitBank and DaN+ come like this::

    My      B-PER   O
    father  I-PER   O
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats import tags
from nestree.data.formats.base import Format, Options, Peek, choice, note_losses, on_words
from nestree.data.formats.tags import TAG, Span, TagError
from nestree.data.model import Document, Range, Source
from nestree.data.report import Report

_START = "-DOCSTART-"
_NAME = re.compile(r"(?![A-Za-z]-)[A-Za-z][\w ./-]*")  # of a column, and nothing that could be meant as a tag
_BETWEEN = "|"  # several tags of one word


@dataclass(frozen=True)
class Layout:
    """Which column holds what."""

    word: int
    tags: tuple[int, ...]
    scheme: str
    several: bool  # several tags in a column
    columns: int  # of every line
    header: bool = False  # the first line names the columns

    @property
    def unread(self) -> list[int]:
        """Columns that are neither words nor tags, counted from 1."""
        return [at + 1 for at in range(self.columns) if at != self.word and at not in self.tags]


def _cells(line: str) -> list[str]:
    """The columns of a line, without empty ones at its end."""
    cells = line.split("\t") if "\t" in line else line.split()
    while cells and not cells[-1].strip():
        cells.pop()
    return [cell.strip() for cell in cells]


def _may_be_comment(cells: list[str]) -> bool:
    """Whether a line begins with # by itself, or holds nothing else: a hashtag with columns is a word."""
    return cells[0] == "#" or cells[0].startswith("# ") or (len(cells) == 1 and cells[0].startswith("#"))


def _is_tags(cell: str) -> bool:
    return all(TAG.fullmatch(tag) for tag in cell.split(_BETWEEN))


def find_layout(lines: Iterable[str]) -> Layout | None:
    """The layout of lines like these; None if they are not words with tags."""
    rows = [cells for line in lines if (cells := _cells(line)) and cells[0] != _START]
    rows = [cells for cells in rows if not (_may_be_comment(cells) and not any(map(_is_tags, cells[1:])))]
    found = _layout_of(rows)
    if len(rows) > 2 and (found is None or not any(map(_is_tags, rows[0][1:]))):
        below = _layout_of(rows[1:])
        if below is not None and len(rows[0]) == below.columns and all(map(_NAME.fullmatch, rows[0])):
            return replace(below, header=True)
    return found


def _layout_of(rows: list[list[str]]) -> Layout | None:
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    rows = [cells for cells in rows if len(cells) == width]
    if width < 2:
        return None
    word = int(width > 2 and all(cells[0].isdigit() for cells in rows) and not _are_tags(rows, 1))
    columns = [at for at in range(word + 1, width) if _are_tags(rows, at)]
    found = {at: [tag for cells in rows for tag in cells[at].split(_BETWEEN) if TAG.fullmatch(tag)] for at in columns}
    labels = {at: {tag[2:] for tag in found[at] if tag != "O"} for at in columns}
    columns = [at for at in columns if not labels[at] or not labels[at] <= tags.CHUNKS]
    if not columns:
        return None
    several = any(_BETWEEN in cells[at] and _is_tags(cells[at]) for cells in rows for at in columns)
    scheme = tags.scheme_of(tag for at in columns for tag in found[at])
    return Layout(word, tuple(columns), scheme, several, width)


def _are_tags(rows: list[list[str]], at: int) -> bool:
    """Whether a column holds tags. A few that are none are mistakes, which are an error when they are read."""
    right = sum(_is_tags(cells[at]) for cells in rows)
    return (right > 1 and len(rows) - right <= max(1, len(rows) // 20)) or right == len(rows)


def _layout(path: Path, options: Options) -> Layout:
    found = find_layout(Peek(path).lines)
    if found is None and not {"word", "tags"} <= set(options):
        raise DataError(
            "no column holds tags (O, B-..., I-...) in the first lines",
            path=path,
            advice="Name the columns: --set word=1 --set tags=2,3.",
        )
    found = found or Layout(0, (1,), "bio", False, 0)
    try:
        word = int(options.get("word", found.word + 1)) - 1
        columns = tuple(int(one) - 1 for one in options["tags"].split(",")) if "tags" in options else found.tags
    except ValueError:
        raise DataError("the options word and tags are numbers of columns, counted from 1") from None
    if word < 0 or min(columns) < 0:
        raise DataError("the options word and tags are numbers of columns, counted from 1")
    scheme = choice({key: value.lower() for key, value in options.items()}, "scheme", ("auto", *tags.SCHEMES))
    width = found.columns or max(word, *columns) + 1
    if max(word, *columns) >= width or word in columns:
        raise DataError(
            f"the file has {width} columns; the word is to be in column {word + 1}, tags in {options.get('tags')}",
            path=path,
            advice="Columns are counted from 1.",
        )
    return Layout(word, columns, found.scheme if scheme == "auto" else scheme, found.several, width, found.header)


# --- Reading ---------------------------------------------------------------------------------------------------------


@dataclass
class _Block:
    """The lines of a sentence."""

    line: int
    words: list[str]
    tags: list[list[str]]  # a list for each column
    lines: list[int]


def read(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of a file with layers of tags: its sentences, or what stands between ``-DOCSTART-`` lines.

    An entity ends after its last tagged word: ends are exclusive, in words.
    """
    yield from _read(path, _layout(path, options), report)


def read_several(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """The same for files in which a column may hold several tags (``B-PER|I-ORG``). Ends are exclusive, in words."""
    yield from _read(path, replace(_layout(path, options), several=True), report)


def _read(path: Path, layout: Layout, report: Report) -> Iterator[Document]:
    if layout.unread:
        columns = f"words in column {layout.word + 1}, tags in {', '.join(str(at + 1) for at in layout.tags)}"
        message = f"{columns}; not in {', '.join(map(str, layout.unread))}"
        report.note("columns", str(path), message, "the others not read")
    blocks: list[_Block] = []
    identifier, marked = "", False
    for part in _parts(path, layout, report):
        if isinstance(part, str):
            if blocks:
                yield _document(blocks, layout, path, identifier)
            blocks, identifier = [], ""
            marked = marked or part == _START
            if part != _START:
                identifier = part
            continue
        blocks.append(part)
        if not marked:
            yield _document(blocks, layout, path, identifier)
            blocks, identifier = [], ""
    if blocks:
        yield _document(blocks, layout, path, identifier)


def _parts(path: Path, layout: Layout, report: Report) -> Iterator[_Block | str]:
    """Sentences, ``-DOCSTART-``, and names of documents (comments ``# id = NAME``)."""
    block = _Block(0, [], [[] for _ in layout.tags], [])
    header = layout.header
    for number, line in files.lines(path):
        cells = _cells(line)
        if header and cells and not _is_comment(cells, layout):
            header = False
            report.note("header", f"{path}:{number}", f"names of columns: {shown(' '.join(cells))}", "no word")
            continue
        starts = bool(cells) and cells[0] == _START
        if not cells or starts:
            if block.words:
                yield block
            block = _Block(0, [], [[] for _ in layout.tags], [])
            if starts:
                yield _START
            continue
        if _is_comment(cells, layout):
            name, _, value = line[1:].partition("=")
            if name.strip() == "id" and value.strip():
                yield value.strip()
            else:
                report.note("comment", f"{path}:{number}", shown(line), "not read")
            continue
        _add(block, cells, layout, path, number)
    if block.words:
        yield block


def _is_comment(cells: list[str], layout: Layout) -> bool:
    if not _may_be_comment(cells):
        return False
    return len(cells) != layout.columns or not all(_is_tags(cells[at]) for at in layout.tags)


def _add(block: _Block, cells: list[str], layout: Layout, path: Path, number: int) -> None:
    if len(cells) != layout.columns:
        raise DataError(
            f"the line has {len(cells)} columns, {layout.columns} were expected: {shown(' '.join(cells))}",
            path=path,
            line=number,
            advice="Every line is a word with its tags, or empty between sentences.",
        )
    block.line = block.line or number
    word = cells[layout.word]
    if not word:
        raise DataError("the word is empty", path=path, line=number)
    block.words.append(word)
    block.lines.append(number)
    for layer, at in zip(block.tags, layout.tags, strict=True):
        if not layout.several and _BETWEEN in cells[at] and _is_tags(cells[at]):
            raise DataError(
                f"there are several tags in one column, {shown(cells[at])}, and none were before",
                path=path,
                line=number,
                advice="If every column may hold several tags, read it with --format conll.",
            )
        layer.append(cells[at])


def _document(blocks: list[_Block], layout: Layout, path: Path, identifier: str) -> Document:
    words: list[str] = []
    spans: list[Span] = []
    lines: list[int] = []
    sentences: list[Range] = []
    for block in blocks:
        first = len(words)
        words += block.words
        for start, end, label in _spans(block, layout, path):
            spans.append((first + start, first + end, label))
            lines.append(block.lines[start])
        sentences.append((first, len(words)))
    source = Source(str(path), blocks[0].line, tuple(lines))
    return Document.from_words(words, spans, sentences=tuple(sentences), id=identifier, source=source)


def _spans(block: _Block, layout: Layout, path: Path) -> list[Span]:
    try:
        if layout.several:
            joined = [
                [tag for cell in cells for tag in cell.split(_BETWEEN)] for cells in zip(*block.tags, strict=True)
            ]
            return tags.decode_sets(joined, layout.scheme)
        return [span for layer in block.tags for span in tags.decode(layer, layout.scheme)]
    except TagError as error:
        advice = f"Entities are read as {layout.scheme.upper()}; the option scheme can be bio, bioes or iob1."
        if "not begun" in error.what:
            advice = "In BIO entities begin with B. If they begin with I, as in IOB1: --set scheme=iob1."
        elif "not a tag" in error.what:
            advice = "Is this the right column? They can be named: --set word=1 --set tags=2,3."
        raise DataError(error.what, path=path, line=block.lines[error.index], advice=advice) from None


# --- Writing ---------------------------------------------------------------------------------------------------------


def write(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes words with as many columns of tags as the corpus needs, the longest entities in the first ones."""
    scheme = choice(options, "scheme", ("bio", "bioes"))
    # How many layers there are, and whether documents have to be marked, is known at the end: hence twice.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as first:
        width, marked = 1, False
        for document in documents:
            note_losses(document, report, keeps=("tokens", "sentences", "id"))
            spans = _plain_labels(document, on_words(document, "columns"))
            words = list(map(_plain, document.words))
            found = tags.layers(spans, len(words), scheme)
            width = max(width, len(found))
            sentences = [list(sentence) for sentence in document.sentences or ((0, len(words)),)]
            marked = marked or len(sentences) > 1
            first.write(json.dumps([document.id, words, found, sentences]) + "\n")
        first.seek(0)
        with files.written(path) as stream:
            for line in first:
                name, words, found, sentences = json.loads(line)
                _write_document(
                    stream, name, words, found + [["O"] * len(words)] * (width - len(found)), sentences, marked
                )


def _write_document(
    stream: Any, name: str, words: list[str], layers: list[list[str]], sentences: list[Range], marked: bool
) -> None:
    if marked:
        stream.write("\t".join([_START, *["O"] * len(layers)]) + "\n\n")
    if name:
        stream.write(f"# id = {' '.join(name.split())}\n")
    for start, end in sentences:
        for at in range(start, end):
            stream.write("\t".join([words[at], *(layer[at] for layer in layers)]) + "\n")
        stream.write("\n")


def write_several(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes words with all their tags in one column."""
    scheme = choice(options, "scheme", ("bio", "bioes"))
    with files.written(path) as stream:
        for document in documents:
            note_losses(document, report, keeps=("tokens",))
            spans = _plain_labels(document, on_words(document, "conll"))
            cells = tag_sets(spans, len(document.words), scheme)
            if sorted(tags.decode_sets(cells, scheme)) != sorted(spans):
                report.note("ambiguous", document.place, "entities of one label cross", "not kept by conll")
            for start, end in document.sentences or ():
                for at in range(start, end):
                    stream.write(f"{_plain(document.words[at])}\t{_BETWEEN.join(cells[at])}\n")
                stream.write("\n")


def tag_sets(spans: Iterable[Span], words: int, scheme: str) -> list[list[str]]:
    """All tags of each word, those of longer entities first."""
    cells: list[list[str]] = [[] for _ in range(words)]
    for start, end, label in sorted(spans, key=lambda span: (span[0] - span[1], span[0], span[2])):
        for at, tag in zip(range(start, end), tags.spelled(start, end, label, scheme), strict=True):
            cells[at].append(tag)
    return [cell or ["O"] for cell in cells]


def _plain_labels(document: Document, spans: list[Span]) -> list[Span]:
    for _, _, label in spans:
        if any(character in label for character in "\t\n\r|") or label != label.strip():
            raise DataError(f"{document.place}: the label {shown(label)} cannot stand in a column")
    return spans


def _plain(word: str) -> str:
    if any(character in word for character in "\t\n\r") or word != word.strip():
        raise DataError(f"the word {shown(word)} holds white space, which columns cannot")
    if word == _START:
        raise DataError(f"the word {_START} begins a document in columns, and cannot stand there itself")
    return word


def looks(peek: Peek) -> bool:
    """Words with columns of tags, one tag in each."""
    layout = None if peek.is_folder else find_layout(peek.lines)
    return layout is not None and not layout.several


def looks_several(peek: Peek) -> bool:
    """Words with a column of several tags."""
    layout = None if peek.is_folder else find_layout(peek.lines)
    return layout is not None and layout.several


_OPTIONS = {
    "word": "column of the word, from 1",
    "tags": "columns of the tags, from 1, separated by commas",
    "scheme": "auto, bio, bioes or iob1",
}
_WRITING = {"scheme": "bio or bioes"}
COLUMNS = Format(
    "columns",
    "one word a line, layers of BIO/IOB2/BIOES tags in columns",
    looks,
    read,
    write,
    ".tsv",
    _OPTIONS,
    words=True,
    writing=_WRITING,
)
CONLL = Format(
    "conll",
    "one word a line, several BIO/BIOES tags in one column: B-PER|I-ORG",
    looks_several,
    read_several,
    write_several,
    ".conll",
    _OPTIONS,
    words=True,
    writing=_WRITING,
)
