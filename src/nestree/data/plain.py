"""Files of plain text: which ones are such, by their endings."""

from __future__ import annotations

from pathlib import Path

ENDING = ".txt"
_COMPRESSED = (".gz", ".bz2", ".xz")


def is_text(path: Path) -> bool:
    """By its ending, whether it is compressed or not."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(ENDING)


def stem(path: Path) -> str:
    """Its name without ending."""
    return Path(path.stem).stem if path.suffix.lower() in _COMPRESSED else path.stem


def text_files(folder: Path, every: bool = False) -> list[Path]:
    """The text files in a folder and below it, in order, hidden ones left out; or all files, whatever their endings."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [path for path in found if every or is_text(path)]
