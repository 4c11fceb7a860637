"""One module for each family of formats; this one knows them all, and tells them apart."""

from __future__ import annotations

from pathlib import Path

from nestree.data.errors import DataError
from nestree.data.formats import (
    ace,
    annotation_tools,
    arrow,
    brat,
    columns,
    genia,
    jsonl,
    spacy_docbin,
    three_line,
    token_json,
)
from nestree.data.formats.base import Format, Peek

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
        annotation_tools.LABEL_STUDIO,
        annotation_tools.PRODIGY,
        annotation_tools.DOCCANO,
        jsonl.FORMAT,
        three_line.FORMAT,
        columns.CONLL,
        columns.COLUMNS,
    )
}


def get(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
        raise DataError(f"there is no format {name!r}", advice=f"Known are: {', '.join(sorted(FORMATS))}.")
    return FORMATS[name]


def detect(path: Path) -> Format:
    """The format of a file or folder, by what it holds.

    Raises:
        DataError: there is no such file, it is empty, or it looks like none of the formats.
    """
    if not path.exists():
        raise DataError("there is no such file or folder", path=path)
    peek = Peek(path)
    for one in FORMATS.values():
        if one.looks(peek):
            return one
    if peek.is_folder:
        return _of_files(peek)
    if not peek.head.strip():
        raise DataError("the file is empty", path=path)
    raise DataError(
        "the file looks like none of the known formats",
        path=path,
        advice=f"Name its format (--format): {', '.join(sorted(FORMATS))}.",
    )


def files_of(path: Path, found: Format) -> list[Path]:
    """What is read for a path: itself, or the files of a folder one after the other."""
    if not path.is_dir() or found.whole_folder:
        return [path]
    return _files(Peek(path))


def _files(peek: Peek) -> list[Path]:
    """The files of a folder that share its most frequent ending."""
    everything = peek.names("")
    counts: dict[str, int] = {}
    for one in everything:
        counts[one.suffix] = counts.get(one.suffix, 0) + 1
    if not counts:
        raise DataError("there are no files in this folder", path=peek.path)
    suffix = max(counts, key=lambda ending: counts[ending])
    return [one for one in everything if one.suffix == suffix]


def _of_files(peek: Peek) -> Format:
    return detect(_files(peek)[0])


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
