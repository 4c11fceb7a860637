"""One module for each family of formats; this one knows them all, and tells them apart."""

from __future__ import annotations

from difflib import get_close_matches
from os import PathLike
from pathlib import Path

from nestree.data import files
from nestree.data.errors import DataError, UnknownFormatError, shown
from nestree.data.formats import (
    ace,
    arrow,
    brat,
    columns,
    doccano,
    genia,
    jsonl,
    label_studio,
    prodigy,
    spacy_docbin,
    three_line,
    token_json,
)
from nestree.data.formats.base import Format, Peek
from nestree.data.report import Report

# In the order in which they are tried: those with unmistakable marks first.
FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        arrow.PARQUET,
        arrow.DATASETS,
        spacy_docbin.FORMAT,
        ace.FORMAT,
        genia.FORMAT,
        brat.FORMAT,
        token_json.GLINER,
        token_json.CNN_NER,
        token_json.DYGIE,
        label_studio.FORMAT,
        prodigy.FORMAT,
        doccano.FORMAT,
        jsonl.FORMAT,
        columns.CONLL,
        columns.COLUMNS,
        three_line.FORMAT,
    )
}


def get(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
        close = get_close_matches(name.replace("_", "-"), FORMATS, 1)
        advice = (f"Did you mean {close[0]}? " if close else "") + f"Known are: {', '.join(sorted(FORMATS))}."
        raise DataError(f"there is no format {name!r}", advice=advice)
    return FORMATS[name]


def detect(path: str | PathLike[str]) -> Format:
    """The format of a file or folder, by what it holds.

    Raises:
        DataError: there is no such file, it is empty, or it looks like none of the formats.
    """
    path = files.existing(path)
    peek = Peek(path)
    for one in FORMATS.values():
        if one.looks(peek):
            return one
    if peek.is_folder:
        return _of_files(peek)
    if not peek.head.strip():
        raise DataError("the file is empty", path=path)
    if "\ufffd" in peek.head:
        for _ in files.lines(path):  # says where it is not UTF-8, if that is the reason
            pass
    keys = f"an object with the keys {', '.join(map(repr, list(peek.record)[:8]))}" if peek.record else ""
    raise UnknownFormatError(
        f"the file looks like none of the known formats; it begins with {keys or shown(peek.lines[0])}",
        path=path,
        advice=f"Name its format (--format): {', '.join(sorted(FORMATS))}.",
    )


def files_of(path: Path, found: Format, report: Report) -> list[Path]:
    """What is read for a path: itself, or the files of a folder one after the other; a note for others in it."""
    if not path.is_dir() or found.whole_folder:
        return [path]
    everything = _everything(Peek(path))
    mine = [one for one in everything if found.looks(Peek(one))]
    for other in everything if mine else ():
        if other not in mine:
            report.note("other file", str(other), f"it does not look like {found.name}", "not read")
    return mine or everything


def _everything(peek: Peek) -> list[Path]:
    everything = peek.names("")
    if not everything:
        raise UnknownFormatError("there are no files in this folder", path=peek.path)
    return everything


def _of_files(peek: Peek) -> Format:
    """The one format of a folder's files."""
    found: dict[str, Path] = {}
    for path in _everything(peek):
        one = next((one for one in FORMATS.values() if one.looks(Peek(path))), None)
        if one is not None:
            found.setdefault(one.name, path)
    if len(found) == 1:
        return FORMATS[next(iter(found))]
    if not found:
        raise UnknownFormatError("no file in this folder looks like a known format", path=peek.path)
    listed = ", ".join(f"{name} ({path.name})" for name, path in found.items())
    raise DataError(
        f"the folder holds files of several formats: {listed}",
        path=peek.path,
        advice="Name one of the files, or the format (--format).",
    )


def for_writing(path: Path) -> Format:
    """The format that the ending of a file to be written means."""
    suffix = Peek(path).suffix
    for one in FORMATS.values():
        if one.write is not None and one.suffix and one.suffix == suffix:
            return one
    endings = ", ".join(f"{one.suffix} ({one.name})" for one in FORMATS.values() if one.suffix and one.write)
    raise DataError(
        f"the ending {suffix!r} does not say which format is meant" if suffix else "no format is named",
        path=path,
        advice=f"Name it (--to), or use one of the endings {endings}.",
    )
