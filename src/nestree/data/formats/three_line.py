"""Three lines a sentence: words, tags of words, entities; then an empty line. GENIA and ACE are passed on like this.

Entities are ``start,end label`` in words, separated by ``|``; ends are exclusive (``--set ends=inclusive`` for files
that count the other way)::

    IL - 2 gene expression
    NN NN NN NN NN
    0,3 G#protein|0,4 G#DNA

Files without the line of tags are read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats.base import Format, Options, Peek, choice, note_losses, on_words, spans_by_sentence
from nestree.data.model import Document, Source, out_of_range
from nestree.data.report import Report

_ENTITIES = re.compile(r"\d+,\d+ \S[^|]*(\|\d+,\d+ \S[^|]*)*")
_ENTITY = re.compile(r" *(-?[0-9]{1,9}),(-?[0-9]{1,9}) +([^\s|](?:[^|]*[^\s|])?)\s*")


def read(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Sentences of a three-line file, each a document. Ends are exclusive unless ``ends=inclusive``."""
    after = choice(options, "ends", ("exclusive", "inclusive")) == "inclusive"
    size = 2 if _without_tags(Peek(path)) else 3
    block: list[str] = []
    first = 1
    name = str(path)
    for number, line in files.lines(path):
        if len(block) == size:
            if line and line.strip():
                raise DataError(
                    f"an empty line was expected after {size} lines, found {shown(line)}", path=path, line=number
                )
            yield _document(block, name, first, after)
            block = []
        elif block:
            block.append(line)
        elif line and line.strip():  # there may be further empty lines between sentences
            first = number
            block.append(line)
    if len(block) == size - 1:  # the last line is empty, and its end was cut off
        block.append("")
    if len(block) == size:
        yield _document(block, name, first, after)
    elif block:
        raise DataError(f"the file ends within a sentence, after {shown(block[-1])}", path=path, line=first)


def _document(block: list[str], path: str, line: int, inclusive: bool) -> Document:
    words = block[0].split(" ")
    if "" in words:  # some files have two spaces between words
        words = [word for word in words if word]
    tags = block[1] if len(block) == 3 else ""
    if tags.count(" ") + 1 != len(words) and tags and len(tags.split()) != len(words):
        raise DataError(f"there are {len(words)} words and {len(tags.split())} tags", path=path, line=line + 1)
    spans = []
    at = line + len(block) - 1
    match, count = _ENTITY.fullmatch, len(words)
    for part in block[-1].split("|") if block[-1].strip() else ():
        found = match(part)
        if found is None:
            raise DataError(
                f"an entity must be `start,end label`, found {shown(part)}",
                path=path,
                line=at,
                advice="Entities are separated by |.",
            )
        first, last, label = found.groups()
        start, end = int(first), int(last) + inclusive
        if not 0 <= start < end <= count:
            raise out_of_range(start, end, label, count, "words", Source(path, at))
        spans.append((start, end, label))
    meta = {"tags": tags} if tags else {}
    return Document.from_words(words, spans, meta=meta, source=Source(path, line))


def write(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes sentences; tags of words that are not known are written as ``_``."""
    inclusive = choice(options, "ends", ("exclusive", "inclusive")) == "inclusive"
    with files.written(path) as stream:
        for document in documents:
            tags = document.meta.get("tags", "")
            only_tags = set(document.meta) <= {"tags"} and isinstance(tags, str)
            note_losses(document, report, keeps=("tokens", "meta") if only_tags else ("tokens",))
            spans = on_words(document, "three-line")
            known = tags.split() if only_tags else []
            found = spans_by_sentence(document, spans)
            for (start, end), mine in zip(document.sentences or (), found, strict=True):
                words = document.words[start:end]
                if any(word.split() != [word] for word in words):
                    raise DataError(f"{document.place}: a word holds white space, which three-line files cannot")
                listed = []
                for first, last, label in mine:
                    if "|" in label or "\n" in label or label != label.strip():
                        raise DataError(f"{document.place}: the label {label!r} cannot stand in a three-line file")
                    listed.append(f"{first - start},{last - start - inclusive} {label}")
                of_words = known[start:end] if len(known) == len(document.words) else ["_"] * len(words)
                stream.write(f"{' '.join(words)}\n{' '.join(of_words)}\n{'|'.join(listed)}\n\n")


def _without_tags(peek: Peek) -> bool:
    """Whether entities stand in the second line of each sentence."""
    lines = [line.strip() for line in peek.lines]
    seconds = [lines[at + 1] for at in range(len(lines) - 1) if lines[at] and (at == 0 or not lines[at - 1])]
    listed = sum(bool(_ENTITIES.fullmatch(line)) for line in seconds)
    return listed > 0 and not any(
        _ENTITIES.fullmatch(lines[at]) and not _ENTITIES.fullmatch(lines[at - 1]) and lines[at - 2]
        for at in range(2, len(lines))
        if lines[at - 1]
    )


def looks(peek: Peek) -> bool:
    """Some third line lists entities."""
    if peek.is_folder:
        return False
    return sum(bool(_ENTITIES.fullmatch(line.strip())) for line in peek.lines[:400]) > 0


FORMAT = Format(
    "three-line",
    "words, tags, `start,end label|...` and an empty line; exclusive ends in words",
    looks,
    read,
    write,
    ".data",
    {"ends": "exclusive (usual) or inclusive"},
    words=True,
    writing={"ends": "exclusive (usual) or inclusive"},
)
