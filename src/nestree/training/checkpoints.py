"""Checkpoints that are whole or not there: written aside, flushed, checked when read. Tensors as safetensors alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from nestree.modes import as_usual

TENSORS, STATE = "tensors.safetensors", "state.json"
KEPT = 2
"""Checkpoints that stay: the last one, and the one before it in case the last is damaged."""
PREFIX, UNFINISHED, REPLACED = "step-", ".unfinished-", ".replaced-"


class Checkpoint(NamedTuple):
    """What a run needs to go on: tensors, and everything else as plain values."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


class Damaged(NamedTuple):
    """A checkpoint that cannot be used, and why."""

    path: Path
    why: str


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Writes a checkpoint; older ones go once it is complete.

    Raises:
        OSError: it could not be written, because the disk is full, say. What was there before is there still.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    target = folder / f"{PREFIX}{step:09d}"
    aside = folder / f"{UNFINISHED}{target.name}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir()
        try:
            save_file({name: _own(value) for name, value in tensors.items()}, aside / TENSORS)
        except SafetensorError as error:  # it does not say that it is the disk
            raise OSError(f"{aside / TENSORS} cannot be written: {error}") from error
        content = {"sha256": _digest(aside / TENSORS), **state}
        (aside / STATE).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
        as_usual(aside)
        for path in (aside / TENSORS, aside / STATE, aside):
            _flush(path)
        if target.exists():  # of the same step, before the run was stopped and resumed
            target.rename(folder / f"{REPLACED}{target.name}")
        aside.rename(target)
        _flush(folder)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    for old in (*_found(folder)[KEPT:], *folder.glob(f"{REPLACED}*")):
        shutil.rmtree(old, ignore_errors=True)
    return target


def load(folder: Path) -> tuple[Checkpoint | None, list[Damaged]]:
    """The last checkpoint that is whole, or None; and those that were passed over."""
    damaged: list[Damaged] = []
    for path in _found(folder):
        try:
            return _read(path), damaged
        except (OSError, ValueError, KeyError) as error:
            damaged.append(Damaged(path, str(error) or type(error).__name__))
    return None, damaged


def clean(folder: Path) -> None:
    """Removes what a run that was killed left behind; what was about to be replaced comes back if nothing did so."""
    for path in folder.glob(f"{REPLACED}*"):
        target = folder / path.name.removeprefix(REPLACED)
        shutil.rmtree(path, ignore_errors=True) if target.exists() else path.rename(target)
    for path in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)


def clear(folder: Path) -> None:
    """Removes all checkpoints, unfinished ones too."""
    shutil.rmtree(folder, ignore_errors=True)


def there_are(folder: Path) -> bool:
    """Whether a run could go on from one."""
    return bool(_found(folder))


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*"), reverse=True)


def _read(path: Path) -> Checkpoint:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    if _digest(path / TENSORS) != state.pop("sha256"):
        raise ValueError(f"{TENSORS} is not what was written")
    try:
        return Checkpoint(load_file(path / TENSORS), state)
    except SafetensorError as error:
        raise ValueError(f"{TENSORS} cannot be read: {error}") from error


def _own(tensor: Tensor) -> Tensor:
    """The tensor on the CPU, in memory of its own: encoders may share weights, safetensors may not."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Waits until a file or folder is on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return  # folders cannot be opened on Windows
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- The state of an optimizer, flat ---------------------------------------------------------------------------------


def flat(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under names with a prefix."""
    return {f"{prefix}/{name}": value for name, value in values.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that :func:`flat` put under a prefix."""
    return {name.removeprefix(f"{prefix}/"): value for name, value in tensors.items() if name.startswith(f"{prefix}/")}


def optimizer_tensors(state: Mapping[int, Mapping[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """The state of an optimizer, parameter by parameter."""
    for number, values in state.items():
        for name, value in values.items():
            yield f"optimizer/{number}/{name}", value


def optimizer_state(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Inverse of :func:`optimizer_tensors`."""
    found: dict[int, dict[str, Tensor]] = {}
    for key, value in under("optimizer", tensors).items():
        number, _, name = key.partition("/")
        found.setdefault(int(number), {})[name] = value
    return found
