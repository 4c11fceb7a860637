"""A model into its folder, so that nobody ever reads half of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nestree import __version__
from nestree.model.card import MARKER, model_card
from nestree.model.encoder import quiet
from nestree.model.errors import ModelError, writing
from nestree.model.folder import (
    CARD,
    ENCODER,
    EXPORTED,
    FORMAT,
    KEYS,
    MEMBERS,
    METRICS,
    SETTINGS,
    WEIGHTS,
    fingerprint_of,
    fingerprint_of_members,
)
from nestree.model.weights import write_weights
from nestree.modes import as_usual

ANOTHER = "Name another one."

if TYPE_CHECKING:
    from nestree.model.saved import Saved


def save_model(
    model: Saved,
    folder: str | PathLike[str],
    *,
    metrics: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    weights: Mapping[str, Tensor] | None = None,
    name: str | None = None,
) -> None:
    """Writes a model into a folder, where it takes the place of another one only when it is complete.

    All is written beside its place first, in the same folder and so on the same disk, and then moved, file by file. If
    that fails, what was there before is put back.

    Args:
        model: the model.
        folder: where to; it may hold other files, which stay.
        metrics: scores; those the model was loaded with, if None.
        training: data and settings of the training; likewise.
        weights: others than the model has now, by the names of ``state_dict()``.
        name: what the model card calls the model; the name of the folder, if None.
    """

    def write(file: Path, fingerprint: str) -> None:
        write_weights(model, weights, fingerprint, file)

    save_folder(model, folder, WEIGHTS, write, metrics=metrics, training=training, name=name)


def save_folder(
    model: Saved,
    folder: str | PathLike[str],
    weights: str,
    write: Callable[[Path, str], None],
    *,
    metrics: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> None:
    """As :func:`save_model`; ``write`` gets the path of the file with the weights, and the fingerprint for it."""

    def parts(new: Path) -> str:
        encoder: Any = model.encoder.model
        with quiet(), writing("the encoder's settings", new / ENCODER):
            encoder.config.save_pretrained(new / ENCODER)
            model.tokenizer.save_pretrained(new / ENCODER)
        fingerprint = fingerprint_of(model.config.as_dict(), new / ENCODER)
        write(new / weights, fingerprint)
        return fingerprint

    _save(model, Path(folder), weights, parts, metrics, training, name)


def save_members(
    model: Saved,
    members: Sequence[Saved],
    folder: str | PathLike[str],
    *,
    metrics: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> None:
    """Writes a combined model and its members, as :func:`save_model` writes one."""
    path = Path(folder)
    if (path / WEIGHTS).exists() or (path / EXPORTED).exists():
        raise ModelError("there is a model in this folder that is not combined", path=path, advice=ANOTHER)

    def parts(new: Path) -> str:
        for number, member in enumerate(members):
            member.save_pretrained(new / MEMBERS / f"{number:02d}")
        return fingerprint_of_members(model.config.as_dict(), new)

    _save(model, path, None, parts, metrics, training, name)


def _save(
    model: Saved,
    path: Path,
    weights: str | None,
    parts: Callable[[Path], str],
    metrics: Mapping[str, Any] | None,
    training: Mapping[str, Any] | None,
    name: str | None,
) -> None:
    """Writes everything; ``parts`` writes what only this kind of model has, and returns the fingerprint."""
    if path.exists() and not path.is_dir():
        raise ModelError("this is a file, and a model is saved into a folder", path=path)
    if (path / "config.json").exists() and not (path / SETTINGS).exists():
        raise ModelError("this folder holds an encoder, and a model would replace it", path=path, advice=ANOTHER)
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    scores: dict[str, Any] = _plain(model.metrics if metrics is None else metrics)
    trained_with: dict[str, Any] = _plain(model.trained_with if training is None else training)
    new = Path(tempfile.mkdtemp(prefix=".saving-", dir=path))
    try:
        values = (FORMAT, __version__, parts(new), model.config.as_dict(), trained_with)
        _write_json(new / SETTINGS, dict(zip(KEYS, values, strict=True)))
        if scores:
            _write_json(new / METRICS, scores)
        if may_write_card(path / CARD):
            text = model_card(model.config, name=name or path.resolve().name, metrics=scores, training=trained_with)
            (new / CARD).write_text(text, encoding="utf-8")
        _sync(new)
        move_files(new, path, weights)
    except OSError as error:
        if isinstance(error, ModelError) or error.filename:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None  # says where, too
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # there is something in it, as there should be
                path.rmdir()


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def may_write_card(path: Path) -> bool:
    """Whether there is no model card, or one that nobody wrote themselves."""
    return not path.exists() or MARKER in path.read_text(encoding="utf-8", errors="replace")


def _sync(folder: Path) -> None:
    """Returns when all files are on the disk, for all to read who may."""
    as_usual(folder)
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())


def move_files(new: Path, path: Path, weights: str | None = WEIGHTS) -> None:
    """Moves files to their places, weights and settings last, and takes away what the model before had besides."""
    files = {file.relative_to(new) for file in new.rglob("*") if file.is_file()}
    ours = [path / METRICS, *(path / ENCODER).glob("*"), *(path / MEMBERS).rglob("*")]
    if not (path / SETTINGS).exists():  # there was none, and these are somebody else's
        ours = []
    files |= {file.relative_to(path) for file in ours if file.is_file()}
    last = [Path(one) for one in (weights, SETTINGS) if one is not None]
    kept = new / "before"
    moved: list[Path] = []
    try:
        for file in [*sorted(files - set(last)), *last]:
            _keep(path / file, kept / file)
            moved.append(file)
            if (new / file).exists():
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(new / file, path / file)  # noqa: PTH105 (atomic, also where the file exists)
            else:
                (path / file).unlink()
    except BaseException:
        for file in reversed(moved):
            with contextlib.suppress(OSError):
                if os.path.lexists(kept / file):
                    os.replace(kept / file, path / file)  # noqa: PTH105
                else:
                    (path / file).unlink(missing_ok=True)
        raise
    for folder in sorted((path / MEMBERS).rglob("*/"), reverse=True):  # of members that are no more
        with contextlib.suppress(OSError):  # most have something in them
            folder.rmdir()
    with contextlib.suppress(OSError):  # not every system can do this with folders
        for folder in (path / ENCODER, path):
            opened = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)


def _keep(file: Path, kept: Path) -> None:
    """A second name for a file, or a copy where a disk knows no second names."""
    if not os.path.lexists(file):
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, kept, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(file, kept)


def _plain(value: Any) -> Any:
    """As JSON can have it: numbers of other libraries as Python's, what is no number as null, all else as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        with contextlib.suppress(ValueError, RuntimeError):
            value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
