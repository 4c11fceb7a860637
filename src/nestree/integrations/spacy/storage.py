"""A model within a pipeline that is saved: as a folder, or as the files of one in bytes. Weights are never pickled."""

from __future__ import annotations

import gc
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import srsly  # type: ignore[import-untyped]

from nestree.modes import as_usual

if TYPE_CHECKING:
    from nestree.model import NestedNER


def save(model: NestedNER, folder: Path, origin: Path | None) -> None:
    """Writes a model into a folder, which is then one of any model.

    Args:
        model: what to save.
        folder: where to.
        origin: where it was loaded from: an exported model cannot be written anew, so its files are copied.
    """
    from nestree.export import ExportedNER

    if isinstance(model, ExportedNER):
        _copy_exported(folder, origin)
    else:
        model.save_pretrained(folder)


def _copy_exported(folder: Path, origin: Path | None) -> None:
    from nestree.model.errors import NoModelError
    from nestree.model.folder import CARD, ENCODER, EXPORTED, METRICS, SETTINGS, WEIGHTS
    from nestree.model.saving import may_write_card, move_files

    if origin is None or not (origin / EXPORTED).is_file():
        advice = "The files of an exported model must stay where it was loaded from."
        raise NoModelError("the exported model is not there any more", path=origin, advice=advice)
    if folder.exists() and folder.samefile(origin):
        return
    folder.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".saving-", dir=folder))
    try:
        card = (CARD,) if may_write_card(folder / CARD) else ()
        for name in (SETTINGS, EXPORTED, METRICS, *card):
            if (origin / name).is_file():
                shutil.copy2(origin / name, new / name)
        shutil.copytree(origin / ENCODER, new / ENCODER)
        as_usual(new)
        move_files(new, folder, EXPORTED)
        (folder / WEIGHTS).unlink(missing_ok=True)  # of a model before, which would be loaded instead
    finally:
        shutil.rmtree(new, ignore_errors=True)


def to_bytes(model: NestedNER, origin: Path | None) -> bytes:
    """The files of a model, packed."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        save(model, folder, origin)
        files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    packed: bytes = srsly.msgpack_dumps(files)
    return packed


def from_bytes(data: bytes, folder: Path) -> None:
    """Unpacks the files of a model into a folder.

    Raises:
        ModelError: these are not the files of a model.
    """
    from nestree.model.errors import ModelError

    collecting = gc.isenabled()
    try:
        files = srsly.msgpack_loads(data)
        fine = bool(files) and all(_is_name(name) and isinstance(file, bytes) for name, file in files.items())
    except Exception:  # whatever msgpack raises, which does not check what it unpacks
        fine = False
    finally:
        if collecting:  # srsly switches it off while it unpacks, and forgets about it if that fails
            gc.enable()
    if not fine:
        raise ModelError("these bytes are no model", advice="Are they complete, and from to_bytes?")
    for name, file in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(file)


def _is_name(name: object) -> bool:
    """Whether this names a file of a model's folder, and none elsewhere."""
    return isinstance(name, str) and re.fullmatch(r"(\w[\w.-]*/)?\w[\w.-]*", name) is not None
