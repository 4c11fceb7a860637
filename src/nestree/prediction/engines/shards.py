"""Shards: the input files of a bulk prediction, and what their outputs are called."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nestree.data.errors import DataError

ENDINGS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
"""Endings of files, and the formats they mean."""
COMPRESSIONS = (".gz", ".bz2", ".xz")
_EDGE = 1 << 16  # bytes of the beginning and the end of a file that tell it from others


@dataclass(frozen=True)
class Shard:
    """One input file, and its output.

    Attributes:
        source: the input.
        format: what it is read as, "parquet" or "jsonl".
        name: of the output, within the output folder, with "/" between folders.
        size: of the input, in bytes.
        fingerprint: changes if the input does: of its size, its first and its last 64 KiB.
    """

    source: str
    format: str
    name: str
    size: int
    fingerprint: str

    @property
    def output_format(self) -> str:
        """What the output is written as."""
        return "parquet" if self.name.endswith(".parquet") else "jsonl"


def sources(inputs: Iterable[Path], output: Path, form: str | None = None) -> list[Path]:
    """All input files, each once: those named, and of folders those with a known ending.

    Files that are links keep the names of the links: what they point to is often called by its checksum. In folders,
    names that begin with "_" or "." are passed over, as other tools do, and so is the output.

    Args:
        inputs: files and folders.
        output: the output folder.
        form: the format of the files; left out, their endings say it.
    """
    found: dict[str, Path] = {}  # by where they really are; links in a circle are somewhere too
    for path in inputs:
        if path.is_dir():
            inside = list(_files(_absolute(path), output.resolve()))
            if not inside:
                endings = ", ".join(ENDINGS)
                raise DataError("there are no shards in this folder", path=path, advice=f"Shards end in {endings}.")
            for one in inside:
                found.setdefault(os.path.realpath(one), one)
        elif path.is_file():
            if form is None and not format_of(path):
                advice = f"Known are {', '.join(ENDINGS)}, also with {', '.join(COMPRESSIONS)}; or use --format."
                raise DataError("the ending does not say which format it is", path=path, advice=advice)
            found.setdefault(os.path.realpath(path), _absolute(path))
        else:
            raise DataError("there is no such file or folder", path=path)
    return list(found.values())


def common_folder(files: Sequence[Path]) -> Path:
    """The folder that all files lie in, itself or in folders of it: names of outputs begin there."""
    return Path(os.path.commonpath([file.parent for file in files]))


def shards(files: Iterable[Path], root: Path, form: str | None = None, to: str | None = None) -> Iterator[Shard]:
    """The shards of input files.

    Args:
        files: as :func:`sources` found them.
        root: the folder that names begin in.
        form: the format of all inputs; left out, their endings say it.
        to: the format of all outputs; left out, that of the input.

    Raises:
        DataError: a file is not in that folder, or two would have the same output.
    """
    names: dict[str, Path] = {}
    for file in files:
        found = form or format_of(file)
        name = _output_name(file.relative_to(root), found, to or found)
        if name in names:
            what = f"the output of this file and of {names[name]} would be the same, {name}"
            raise DataError(what, path=file, advice="Rename one, or write to two folders.")
        names[name] = file
        size, fingerprint = fingerprint_of(file)
        yield Shard(str(file), found, name, size, fingerprint)


def _files(folder: Path, output: Path) -> Iterator[Path]:
    """In folders that are links too, each folder once, so that links in a circle come to an end."""
    seen = {folder.resolve(), output}
    for place, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        inside = [Path(place, one) for one in folders if one[0] not in "_."]
        folders.clear()
        for one in sorted(inside, key=Path.is_symlink):
            if (real := one.resolve()) not in seen:
                seen.add(real)
                folders.append(one.name)
        folders.sort()
        yield from (Path(place, one) for one in sorted(names) if one[0] not in "_." and format_of(Path(one)))


def _refuse(error: OSError) -> None:
    """Passed over, a folder that cannot be read would be missing from the output without a word."""
    what = f"this folder cannot be read: {error.strerror or error}"
    raise DataError(what, path=error.filename, advice="Make it readable, or name the folders beside it.") from None


def _absolute(path: Path) -> Path:
    """As it is given; only ".." after a link needs to know where that leads."""
    return path.resolve() if ".." in path.parts else path.absolute()


def format_of(path: Path) -> str:
    """The format of a file, by its ending; "" if it says nothing. Parquet files compress what is in them."""
    bare = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    found = ENDINGS.get(bare.suffix, "")
    return "" if found == "parquet" and bare != path else found


def _output_name(name: Path, form: str, to: str) -> str:
    """The same name, if its ending fits what is written."""
    bare = name.with_suffix("") if name.suffix in COMPRESSIONS else name
    compression = name.name.removeprefix(bare.name) if to == form else ""
    stem = bare.with_suffix("") if bare.suffix in ENDINGS else bare
    return f"{stem.as_posix()}.{to}{compression}"


def fingerprint_of(file: Path) -> tuple[int, str]:
    """Its size, and what tells it from others. Quick, and the same for a copy.

    Nothing of a file that cannot be opened: whoever reads the shard will say so.
    """
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            found = hashlib.sha256(f"{size} ".encode() + stream.read(_EDGE))
            stream.seek(max(0, size - _EDGE))
            found.update(stream.read(_EDGE))
    except OSError:
        return 0, ""
    return size, found.hexdigest()[:16]
