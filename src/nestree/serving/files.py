"""The files of the page and of the documentation: a fixed list, read at the start."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath
from typing import NamedTuple

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class File(NamedTuple):
    """A file as it is sent."""

    content: bytes
    type: str
    tag: str


def folder(name: str) -> dict[str, File]:
    """The files of a folder of this package, by name. Files of other types are left alone."""
    found = {}
    for item in files("nestree.serving").joinpath(name).iterdir():
        kind = TYPES.get(PurePath(item.name).suffix)
        if kind is not None and item.is_file():
            found[item.name] = file(item.read_bytes(), kind)
    return found


def file(content: bytes, kind: str) -> File:
    """A file of some content."""
    return File(content, kind, f'"{sha256(content).hexdigest()[:16]}"')
