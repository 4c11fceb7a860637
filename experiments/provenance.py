"""Where a number comes from: commit, code, encoder, machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import nestree
from nestree.encoders import resolve

COMMIT = "NESTREE_COMMIT"
"""The commit, where there is no git: on machines that get a copy of the files alone."""
HERE = Path(__file__).parent


def code() -> dict[str, str]:
    """The commit, and a SHA-256 over the files of nestree, which tells whether they are that commit's."""
    return {"commit": _commit(), "sources": _hashed(sorted(Path(nestree.__file__).parent.rglob("*.py")))}


@cache
def _commit() -> str:
    if given := os.environ.get(COMMIT):
        return given
    try:
        found = _git("rev-parse", "HEAD")
        # Results are no code, and every run changes them.
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/experiments/results")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{found}-changed" if changed else found


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()


def _hashed(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Encoder:
    """An encoder by its short name.

    Args:
        said: a folder or a name, or both: ``mpnet=carry/mp``.
    """

    def __init__(self, said: str) -> None:
        name, _, where = said.rpartition("=")
        self.where = where
        self.name = name or Path(where).name
        self.folder = Path(resolve(where))

    @cached_property
    def width(self) -> int:
        """Its hidden size, on which learning rates depend. One on the hub is downloaded for that."""
        from nestree.model.encoder import folder_of, read_settings

        return int(read_settings(folder_of(self.where)).hidden_size)

    @property
    def argument(self) -> str:
        """What ``nestree train --encoder`` is told."""
        return str(self.folder) if self.folder.is_dir() else self.where

    def as_dict(self) -> dict[str, Any]:
        """For JSON: its name, and a SHA-256 over its weights and settings."""
        if not self.folder.is_dir():
            return {"name": self.name, "from": self.where}
        files = [path for path in sorted(self.folder.iterdir()) if path.suffix in (".safetensors", ".bin", ".json")]
        return {"name": self.name, "sha256": _hashed(files)}


def machine() -> dict[str, str]:
    """The processor and, if there is one, the GPU."""
    import torch

    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    cpu = names[0] if names else platform.machine()
    found = {"cpu": f"{cpu}, {os.cpu_count()} cores", "torch": torch.__version__, "python": platform.python_version()}
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).is_file() else []
