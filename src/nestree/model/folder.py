"""A model as a folder: its files, and what it says of itself; :mod:`saving` writes it, :mod:`loading` reads it.

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

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nestree import __version__
from nestree.model.config import ModelConfig
from nestree.model.errors import ModelError, NoModelError, first_line

WEIGHTS, SETTINGS, ENCODER = "model.safetensors", "nestree.json", "encoder"
METRICS, CARD, EXPORTED, MEMBERS = "metrics.json", "README.md", "model.onnx", "members"
_OF_MODEL = (SETTINGS, WEIGHTS, METRICS, CARD, *(f"{ENCODER}/*.{ending}" for ending in ("json", "txt", "model")))
FILES = (*_OF_MODEL, *(f"{MEMBERS}/*/{name}" for name in _OF_MODEL))
"""All files that a model can have, unless it is exported: what is downloaded of it."""
FORMAT = 1
KEYS = ("format", "nestree", "fingerprint", "model", "training")
AGAIN = "Was it saved or downloaded to the end? Save or download the model again."


class Settings(NamedTuple):
    """What a folder says of its model."""

    config: ModelConfig
    fingerprint: str
    training: dict[str, Any]
    metrics: dict[str, Any]


def read_folder(path: Path) -> Settings:
    """All that a folder holds but the encoder and the weights, checked."""
    values = read_nestree_json(path)
    metrics = _read_json(path / METRICS) if (path / METRICS).is_file() else {}
    config = _config(values["model"], path / SETTINGS, str(values["nestree"]))
    return Settings(config, values["fingerprint"], values["training"], metrics)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"this is no JSON ({first_line(error)})", path=path, advice=AGAIN) from None
    if not isinstance(values, dict):
        raise ModelError(f"an object was expected, not {type(values).__name__}", path=path, advice=AGAIN)
    return values


def read_nestree_json(path: Path) -> dict[str, Any]:
    """What ``nestree.json`` of a folder says, checked."""
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
    for faulty, what in ((set(values) - set(KEYS), "unknown key"), (set(KEYS) - set(values), "missing key")):
        if faulty:
            advice = _newer(str(values.get("nestree"))) or f"Known are {', '.join(KEYS)}."
            raise ModelError(f"{what} {min(faulty)!r}", path=file, advice=advice)
    for name in ("model", "training"):
        if not isinstance(values[name], dict):
            raise ModelError(f"{name!r} should be an object", path=file, advice=AGAIN)
    return values


def _newer(version: str) -> str | None:
    """What to do about a model that a newer version saved; None if it is none."""
    theirs, ours = (tuple(map(int, re.findall(r"\d+", one)[:3])) for one in (version, __version__))
    if theirs <= ours:
        return None
    return f"nestree {version} saved it, and this is nestree {__version__}: pip install --upgrade nestree"


def _config(values: dict[str, Any], file: Path, version: str) -> ModelConfig:
    try:
        return ModelConfig.from_dict(values)
    except (AttributeError, TypeError, ValueError) as error:
        advice = _newer(version) or "Correct it, or save the model again."
        raise ModelError(
            f"the settings of the model are wrong: {first_line(error)}", path=file, advice=advice
        ) from None


# --- What stands for a model ------------------------------------------------------------------------------------------


def fingerprint_of(settings: dict[str, Any], encoder: Path) -> str:
    """Stands for everything but the weights. They carry it too, so that a mixture of two models is noticed."""
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for file in sorted(encoder.iterdir()):
        found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()[:16]


def fingerprint_of_members(settings: dict[str, Any], path: Path) -> str:
    """Stands for the settings of a combined model and all its members: a mixture of two is noticed."""
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for folder in members_of(path):
        found.update(folder.name.encode() + str(read_nestree_json(folder)["fingerprint"]).encode())
    return found.hexdigest()[:16]


def members_of(path: Path) -> list[Path]:
    """The folders of a combined model's members, in their order; those that hold nothing are none."""
    folders = sorted(one for one in (path / MEMBERS).iterdir() if one.is_dir() and not one.name.startswith("."))
    return [one for one in folders if any(map(Path.is_file, one.rglob("*")))]


def shared_members(folders: Sequence[Path]) -> tuple[Path, Path] | None:
    """Two of these that hold the same model, by itself or among others: it would count twice."""
    seen: dict[str, Path] = {}
    for folder in folders:
        models = members_of(folder) if (folder / MEMBERS).is_dir() else [folder]
        own = {_digest_of_weights(one / WEIGHTS) for one in models if (one / WEIGHTS).is_file()}
        for digest in own & seen.keys():
            return seen[digest], folder
        seen |= dict.fromkeys(own, folder)
    return None


def _digest_of_weights(file: Path) -> str:
    """SHA-256 over the weights of a file, without what it says of them: settings may differ."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        stream.seek(8 + int.from_bytes(stream.read(8), "little"))  # of safetensors: the size of the header, and it
        while some := stream.read(1 << 20):
            digest.update(some)
    return digest.hexdigest()


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
