"""Who may read what is written: whoever the umask lets, however it was written.

What goes through a temporary file or folder of Python's, or of a library's, is its owner's alone. A model that is
saved in that way could not be read by a service that runs as another user.
"""

from __future__ import annotations

import stat
import uuid
from contextlib import suppress
from pathlib import Path


def as_usual(folder: Path) -> None:
    """Gives a folder, and all that is in it, the modes that new files and folders have there.

    What those are is asked of the disk. The umask can be asked only by changing it, for all threads, and it is not all
    there is to say: a folder may have rules of its own. On disks that know no modes nothing happens.
    """
    with suppress(OSError):
        files, folders = _modes(folder)
        for path in folder.rglob("*"):
            if not path.is_symlink():
                _change(path, folders if path.is_dir() else files)
        _change(folder, folders)


def _modes(folder: Path) -> tuple[int, int]:
    """Of a new file and of a new folder in it."""
    new = folder / f".{uuid.uuid4().hex}.mode"
    new.touch(exist_ok=False)
    try:
        file = stat.S_IMODE(new.stat().st_mode)
    finally:
        new.unlink()
    new.mkdir()
    try:
        return file, stat.S_IMODE(new.stat().st_mode)
    finally:
        new.rmdir()


def _change(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)
