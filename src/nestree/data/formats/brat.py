"""brat standoff: a folder with ``NAME.txt`` and ``NAME.ann``.

Ends are exclusive and count characters. ``T1<tab>protein 0 4<tab>IL-2`` is an entity, ``T2<tab>virus 0 5;10 14<tab>``
and its text one in several pieces. Relations, events, attributes and notes are counted, not read.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from nestree.data import files
from nestree.data.errors import DataError, shown
from nestree.data.formats.base import Format, Options, Peek, note_losses
from nestree.data.model import Document, Entity, Range, Source
from nestree.data.report import Report
from nestree.modes import as_usual

_ENTITY = re.compile(r"(\S+) (-?\d+ -?\d+(?:;-?\d+ -?\d+)*)")
_OTHER = re.compile(r"[REAMN]\d+\t|\*\t|#\d*\S*\t")


def read(path: Path, options: Options, report: Report) -> Iterator[Document]:
    """Documents of a folder, or of one ``.txt`` or ``.ann`` file. Ends are exclusive, in characters."""
    if path.is_dir():
        texts = {found.with_suffix("") for found in Peek(path).names(".txt")}
        annotations = {found.with_suffix("") for found in Peek(path).names(".ann")}
        names = sorted(texts | annotations)
        for folder in sorted(found for found in path.iterdir() if found.is_dir() and Peek(found).names(".ann")):
            report.note("other folder", str(folder), "it holds .ann files too", "not read")
        if not names:
            raise DataError("there are no .txt and .ann files in this folder", path=path)
    elif path.suffix in (".txt", ".ann"):
        names = [path.with_suffix("")]
    else:
        raise DataError("brat is a folder, or a file that ends in .txt or .ann", path=path)
    for name in names:
        yield _document(name, report)


def _document(name: Path, report: Report) -> Document:
    text_path, annotation_path = (name.with_name(name.name + suffix) for suffix in (".txt", ".ann"))
    for wanted, there in ((text_path, annotation_path), (annotation_path, text_path)):
        if not wanted.exists():
            raise DataError(
                f"there is no {wanted.name} beside it",
                path=there,
                advice="brat keeps an .ann file, perhaps empty, beside every .txt.",
            )
    text = files.text(text_path)
    entities, lines, seen = [], [], set()
    for number, line in files.lines(annotation_path):
        if not line.strip():
            continue
        if not line.startswith("T"):
            if not _OTHER.match(line):
                raise DataError(
                    f"this is not a line of brat's: {shown(line)}",
                    path=annotation_path,
                    line=number,
                    advice="Fields are separated by tabs: T1, label and offsets, text.",
                )
            report.note("other annotation", f"{annotation_path}:{number}", shown(line), "not read")
            continue
        identifier, entity = _entity(line, text, annotation_path, number)
        if entity.fragments and is_one_run(text, entity.fragments):  # brat cuts entities at line ends
            report.note("line end", f"{annotation_path}:{number}", shown(line), "pieces joined")
            entity = entity._replace(fragments=())
        if identifier in seen:
            raise DataError(f"there are two entities {identifier}", path=annotation_path, line=number)
        seen.add(identifier)
        entities.append(entity)
        lines.append(number)
    return Document(text, tuple(entities), id=name.name, source=Source(str(annotation_path), 1, tuple(lines)))


def is_one_run(text: str, pieces: Sequence[Range]) -> bool:
    """Whether nothing but line ends and white space around them stands between pieces."""
    gaps = [text[one[1] : other[0]] for one, other in pairwise(pieces)]
    return all(gap.isspace() and ("\n" in gap or "\r" in gap) for gap in gaps)


def _entity(line: str, text: str, path: Path, number: int) -> tuple[str, Entity]:
    fields = line.split("\t", 2)
    found = _ENTITY.fullmatch(fields[1]) if len(fields) > 1 else None
    if found is None:
        raise DataError(
            f"an entity must be T1, label and offsets, text, separated by tabs; found {shown(line)}",
            path=path,
            line=number,
        )
    pieces: list[Range] = []
    for piece in found[2].split(";"):
        start, end = map(int, piece.split(" "))
        if not 0 <= start < end <= len(text):
            raise DataError(
                f"the entity [{start}, {end}) does not lie within the {len(text)} characters of the text, or is empty",
                path=path,
                line=number,
                advice="Offsets count characters from 0, ends are exclusive.",
            )
        pieces.append((start, end))
    pieces.sort()
    if any(one[1] > other[0] for one, other in pairwise(pieces)):
        raise DataError(f"the pieces of {fields[0]} overlap", path=path, line=number)
    there = " ".join(text[start:end] for start, end in pieces)
    if len(fields) > 2 and there.split() != fields[2].split():
        raise DataError(
            f"the text at {found[2]} is {shown(there)}, not {shown(fields[2])}",
            path=path,
            line=number,
            advice="Was the text changed after it was annotated? Offsets count characters, not bytes.",
        )
    fragments = tuple(pieces) if len(pieces) > 1 else ()
    return fields[0], Entity(pieces[0][0], pieces[-1][1], found[1], fragments=fragments)


# --- Writing ---------------------------------------------------------------------------------------------------------


def write(documents: Iterable[Document], path: Path, options: Options, report: Report) -> None:
    """Writes a folder; files are named after the documents. It appears when it is complete."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError("there is something already", path=path, advice="Name a folder that is new or empty.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise DataError(f"the folder cannot be written: {error.strerror or error}", path=path) from None
    try:
        names: set[str] = set()
        for number, document in enumerate(documents, 1):
            note_losses(document, report, keeps=("text", "id"))
            name = _file_name(document.id, number, names)
            if document.id and name != document.id:
                report.note("not kept", document.place, f"the name {document.id!r}, written as {name!r}", "id")
            with files.written(folder / f"{name}.txt") as stream:
                stream.write(document.text)
            with files.written(folder / f"{name}.ann") as stream:
                stream.writelines(
                    f"T{at}\t{_line(document, entity)}\n" for at, entity in enumerate(document.entities, 1)
                )
        as_usual(folder)
        if path.exists():
            path.rmdir()
        folder.rename(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _file_name(identifier: str, number: int, taken: set[str]) -> str:
    name = re.sub(r"[^\w.-]+", "_", identifier).strip("._")[:100] or f"document-{number:05}"
    unique, again = name, 1
    while unique.lower() in taken:
        again += 1
        unique = f"{name}-{again}"
    taken.add(unique.lower())
    return unique


def _line(document: Document, entity: Entity) -> str:
    if not re.fullmatch(r"\S+", entity.label):
        raise DataError(f"{document.place}: brat's labels hold no white space, {entity.label!r} does")
    pieces = entity.fragments or ((entity.start, entity.end),)
    text = re.sub(r"\s", " ", document.text_of(entity))
    return f"{entity.label} {';'.join(f'{start} {end}' for start, end in pieces)}\t{text}"


def looks(peek: Peek) -> bool:
    """A folder with ``.ann`` files, or one of them."""
    if peek.is_folder:
        return bool(peek.names(".ann")) and not peek.names(".apf.xml")
    return peek.suffix == ".ann"


FORMAT = Format(
    "brat",
    "a folder of .txt and .ann files; exclusive ends in characters, pieces allowed",
    looks,
    read,
    write,
    whole_folder=True,
    pieces=True,
)
