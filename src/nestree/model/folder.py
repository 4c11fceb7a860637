"""A model as a folder: how it is written so that nobody ever reads half of it, and how it is read and checked.

::

    nestree.json        format, version, all settings of the model, what it was trained with
    model.safetensors   all weights
    encoder/            the encoder's configuration and its tokenizer
    metrics.json        scores, if there are any
    README.md           the model card

An exported model (:mod:`nestree.export`) has ``model.onnx`` in place of ``model.safetensors``. A combined one
(:mod:`nestree.model.ensemble`) has no weights and no encoder of its own, and a folder for each model in ``members/``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from nestree import __version__
from nestree.model.card import MARKER, model_card
from nestree.model.config import ModelConfig
from nestree.model.encoder import NoRandomWeights, empty_encoder, quiet, read_settings, read_tokenizer
from nestree.model.errors import ModelError, NoModelError, first_line, writing
from nestree.modes import as_usual

if TYPE_CHECKING:
    from nestree.model.saved import Saved

Kind = TypeVar("Kind", bound="Saved")

WEIGHTS, SETTINGS, ENCODER = "model.safetensors", "nestree.json", "encoder"
METRICS, CARD, EXPORTED, MEMBERS = "metrics.json", "README.md", "model.onnx", "members"
_OF_MODEL = (SETTINGS, WEIGHTS, METRICS, CARD, *(f"{ENCODER}/*.{ending}" for ending in ("json", "txt", "model")))
FILES = (*_OF_MODEL, *(f"{MEMBERS}/*/{name}" for name in _OF_MODEL))
"""All files that a model can have, unless it is exported: what is downloaded of it."""
FORMAT = 1
_KEYS = ("format", "nestree", "fingerprint", "model", "training")
AGAIN = "Was it saved or downloaded to the end? Save or download the model again."

# --- Writing ---------------------------------------------------------------------------------------------------------


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
        _write_weights(model, weights, fingerprint, file)

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
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ModelError("this is a file, and a model is saved into a folder", path=path)
    path.mkdir(parents=True, exist_ok=True)
    scores: dict[str, Any] = _plain(model.metrics if metrics is None else metrics)
    trained_with: dict[str, Any] = _plain(model.trained_with if training is None else training)
    new = Path(tempfile.mkdtemp(prefix=".saving-", dir=path))
    try:
        fingerprint = _write(model, new, scores, trained_with)
        write(new / weights, fingerprint)
        if may_write_card(path / CARD):
            called = name or path.resolve().name
            text = model_card(model.config, name=called, metrics=scores, training=trained_with)
            (new / CARD).write_text(text, encoding="utf-8")
        _sync(new)
        move_files(new, path, weights)
    finally:
        shutil.rmtree(new, ignore_errors=True)


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
        raise ModelError("there is a model in this folder that is not combined", path=path, advice="Name another one.")
    path.mkdir(parents=True, exist_ok=True)
    scores: dict[str, Any] = _plain(model.metrics if metrics is None else metrics)
    trained_with: dict[str, Any] = _plain(model.trained_with if training is None else training)
    new = Path(tempfile.mkdtemp(prefix=".saving-", dir=path))
    try:
        for number, member in enumerate(members):
            member.save_pretrained(new / MEMBERS / f"{number:02d}")
        settings = model.config.as_dict()
        fingerprint = _fingerprint_of_members(settings, new)
        values = (FORMAT, __version__, fingerprint, settings, trained_with)
        _write_json(new / SETTINGS, dict(zip(_KEYS, values, strict=True)))
        if scores:
            _write_json(new / METRICS, scores)
        if may_write_card(path / CARD):
            text = model_card(model.config, name=name or path.resolve().name, metrics=scores, training=trained_with)
            (new / CARD).write_text(text, encoding="utf-8")
        _sync(new)
        move_files(new, path, None)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _fingerprint_of_members(settings: dict[str, Any], path: Path) -> str:
    """Stands for the settings of a combined model and all its members: a mixture of two is noticed."""
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for folder in _members(path):
        found.update(folder.name.encode() + str(_read_nestree_json(folder)["fingerprint"]).encode())
    return found.hexdigest()[:16]


def _members(path: Path) -> list[Path]:
    return sorted(one for one in (path / MEMBERS).iterdir() if one.is_dir() and not one.name.startswith("."))


def _write(model: Saved, new: Path, metrics: dict[str, Any], training: dict[str, Any]) -> str:
    """Writes all but the weights; returns the fingerprint of it."""
    encoder: Any = model.encoder.model
    with quiet(), writing("the encoder's settings", new / ENCODER):
        encoder.config.save_pretrained(new / ENCODER)
        model.tokenizer.save_pretrained(new / ENCODER)
    settings = model.config.as_dict()
    fingerprint = _fingerprint(settings, new / ENCODER)
    values = (FORMAT, __version__, fingerprint, settings, training)
    _write_json(new / SETTINGS, dict(zip(_KEYS, values, strict=True)))
    if metrics:
        _write_json(new / METRICS, metrics)
    return fingerprint


def _write_weights(model: Saved, weights: Mapping[str, Tensor] | None, fingerprint: str, file: Path) -> None:
    from safetensors.torch import save_file

    state = model.state_dict()
    if weights is not None:
        _check_fit(state, {name: tuple(value.shape) for name, value in weights.items()}, "the weights to be saved")
    found = state if weights is None else weights
    owners = dict.fromkeys(_owners(state).values())
    own = {name: found[name].detach().cpu().contiguous() for name in owners}
    with writing("the weights", file):
        save_file(own, file, metadata={"fingerprint": fingerprint})


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def may_write_card(path: Path) -> bool:
    """Whether there is no model card, or one that nobody wrote themselves."""
    return not path.exists() or MARKER in path.read_text(encoding="utf-8", errors="replace")


def _fingerprint(settings: dict[str, Any], encoder: Path) -> str:
    """Stands for everything but the weights. They carry it too, so that a mixture of two models is noticed."""
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for file in sorted(encoder.iterdir()):
        found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _owners(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Of each name the first name of the same tensor: what an encoder shares is written once."""
    first: dict[tuple[object, ...], str] = {}
    return {
        name: first.setdefault((value.data_ptr() or name, value.shape, value.stride()), name)
        for name, value in state.items()
    }


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


def model_fingerprint(folder: Path) -> str:
    """Of the settings, the tokenizer and the weights; not of the model card and the scores."""
    names = ["nestree.json", "model.safetensors", "model.onnx"]
    members = sorted(folder.glob("members/*"))
    found = hashlib.sha256()
    paths = [one / name for one in (folder, *members) for name in names]
    paths += [path for one in (folder, *members) for path in sorted((one / "encoder").glob("*"))]
    for path in paths:
        if path.is_file():
            with path.open("rb") as stream:
                found.update(path.name.encode() + hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()[:16]


# --- Reading ---------------------------------------------------------------------------------------------------------


def load_model(kind: type[Kind], path: Path) -> Kind:
    """A model from its folder, checked, in float32, ready to predict."""
    settings = read_folder(path)
    if (path / EXPORTED).is_file() and not (path / WEIGHTS).is_file():
        return _load_exported(kind, path)
    if (path / MEMBERS).is_dir() and not (path / WEIGHTS).is_file():
        return _load_combined(kind, path, settings)
    encoder = empty_encoder(read_settings(path / ENCODER))
    tokenizer = read_tokenizer(path / ENCODER)
    with NoRandomWeights():
        model = kind(settings.config, encoder, tokenizer)
    _fill(model, path / WEIGHTS, settings.fingerprint)
    model.trained_with, model.metrics = settings.training, settings.metrics
    return model.eval()


def _load_exported(kind: type[Kind], path: Path) -> Kind:
    from nestree.export import load

    found = load(path)
    if not isinstance(found, kind):
        raise ModelError(f"this model is exported, and no {kind.__name__}", path=path)
    return found


def _load_combined(kind: type[Kind], path: Path, settings: Settings) -> Kind:
    from nestree.model.ensemble import EnsembleNER
    from nestree.model.ner import NestedNER

    if _fingerprint_of_members(settings.config.as_dict(), path) != settings.fingerprint:
        what = f"these members belong to other settings than those in {SETTINGS}"
        raise ModelError(what, path=path / MEMBERS, advice="Are these files of two models? " + AGAIN)
    found = EnsembleNER([load_model(NestedNER, folder) for folder in _members(path)])
    if not isinstance(found, kind):
        raise ModelError(f"this model is combined, and no {kind.__name__}", path=path)
    found.config, found.trained_with, found.metrics = settings.config, settings.training, settings.metrics
    return found


class Settings(NamedTuple):
    """What a folder says of its model."""

    config: ModelConfig
    fingerprint: str
    training: dict[str, Any]
    metrics: dict[str, Any]


def read_folder(path: Path) -> Settings:
    """All that a folder holds but the encoder and the weights, checked."""
    values = _read_nestree_json(path)
    metrics = _read_json(path / METRICS) if (path / METRICS).is_file() else {}
    return Settings(_config(values["model"], path / SETTINGS), values["fingerprint"], values["training"], metrics)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"this is no JSON ({first_line(error)})", path=path, advice=AGAIN) from None
    if not isinstance(values, dict):
        raise ModelError(f"an object was expected, not {type(values).__name__}", path=path, advice=AGAIN)
    return values


def _read_nestree_json(path: Path) -> dict[str, Any]:
    file = path / SETTINGS
    if not file.is_file():
        what = f"this folder holds no model of nestree: there is no {SETTINGS} in it"
        raise NoModelError(what, path=path, advice="Name a folder that save_pretrained wrote.")
    values = _read_json(file)
    found = values.get("format")
    if not isinstance(found, int) or found < 1:
        raise ModelError(f"its format is {found!r}, and should be {FORMAT}", path=file, advice=AGAIN)
    if found > FORMAT:
        what = f"the model is in format {found}, written by nestree {values.get('nestree')}"
        advice = f"This is nestree {__version__}, which reads format {FORMAT}: pip install --upgrade nestree"
        raise ModelError(what, path=file, advice=advice)
    for faulty, what in ((set(values) - set(_KEYS), "unknown key"), (set(_KEYS) - set(values), "missing key")):
        if faulty:
            raise ModelError(f"{what} {min(faulty)!r}", path=file, advice=f"Known are {', '.join(_KEYS)}.")
    for name in ("model", "training"):
        if not isinstance(values[name], dict):
            raise ModelError(f"{name!r} should be an object", path=file, advice=AGAIN)
    return values


def _config(values: dict[str, Any], file: Path) -> ModelConfig:
    try:
        return ModelConfig.from_dict(values)
    except (AttributeError, TypeError, ValueError) as error:
        advice = "Correct it, or save the model again."
        raise ModelError(
            f"the settings of the model are wrong: {first_line(error)}", path=file, advice=advice
        ) from None


def _fill(model: Saved, file: Path, fingerprint: str) -> None:
    """Copies the weights into the model, one by one, after all were checked."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        raise NoModelError("there are no weights", path=file, advice=AGAIN)
    if not os.access(file, os.R_OK):  # safetensors would say that there is no such file
        raise PermissionError(
            errno.EACCES, "the weights may not be read by this user; chmod a+r lets everybody", str(file)
        )
    state = model.state_dict()
    try:
        with safe_open(str(file), "pt") as opened:
            if (opened.metadata() or {}).get("fingerprint", fingerprint) != fingerprint:
                what = f"these weights belong to other settings than those in {SETTINGS}"
                advice = "Is the model being saved just now, or are these files of two models? " + AGAIN
                raise ModelError(what, path=file, advice=advice)
            names = opened.keys()
            _check_fit(state, {name: tuple(opened.get_slice(name).get_shape()) for name in names}, file)
            with torch.no_grad():
                for name in dict.fromkeys(_owners(state).values()):
                    state[name].copy_(opened.get_tensor(name))
    except SafetensorError as error:
        raise ModelError(f"the weights are damaged ({first_line(error)})", path=file, advice=AGAIN) from None


def _check_fit(state: Mapping[str, Tensor], found: Mapping[str, tuple[int, ...]], file: str | Path) -> None:
    """Raises a ModelError if weights are not those of the model, in name and shape; of two names, one is enough."""
    wanted = {name: tuple(state[name].shape) for name in dict.fromkeys(_owners(state).values())}
    wrong = [
        f"{name} is {list(found[name])} instead of {list(shape)}"
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    faults = {
        "missing": [name for name in wanted if name not in found],
        "unexpected": [name for name in found if name not in state],
        "of another shape": wrong,
    }
    told = [f"{fault}: {_few(names)}" for fault, names in faults.items() if names]
    if told:
        what = f"the weights do not fit {SETTINGS} and {ENCODER}/config.json; " + "; ".join(told)
        raise ModelError(what, path=file, advice="Are these files of two models, or was one of them changed?")


def _few(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
