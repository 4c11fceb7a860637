"""The weights of a model in its folder: safetensors, checked before any of them is used."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nestree.model.errors import ModelError, NoModelError, first_line, writing
from nestree.model.folder import AGAIN, ENCODER, SETTINGS

if TYPE_CHECKING:
    from nestree.model.saved import Saved


def write_weights(model: Saved, weights: Mapping[str, Tensor] | None, fingerprint: str, file: Path) -> None:
    """Writes the weights of a model, or others for it, each once."""
    from safetensors.torch import save_file

    state = model.state_dict()
    if weights is not None:
        _check_fit(state, {name: tuple(value.shape) for name, value in weights.items()}, "the weights to be saved")
    found = state if weights is None else weights
    owners = dict.fromkeys(_owners(state).values())
    own = {name: found[name].detach().cpu().contiguous() for name in owners}
    with writing("the weights", file):
        save_file(own, file, metadata={"fingerprint": fingerprint})


def fill_weights(model: Saved, file: Path, fingerprint: str) -> None:
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


def _owners(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Of each name the first name of the same tensor: what an encoder shares is written once."""
    first: dict[tuple[object, ...], str] = {}
    return {
        name: first.setdefault((value.data_ptr() or name, value.shape, value.stride()), name)
        for name, value in state.items()
    }


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
