"""What each worker process of ``nestree serve`` begins with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from nestree.serving import logs
from nestree.serving.app import create_app
from nestree.serving.security import read_keys
from nestree.serving.settings import Settings

VARIABLE = "NESTREE_SERVE"
"""Holds what a worker has to know, as JSON. Keys are not among it: each worker reads them by itself."""


def said(model: Path, settings: Settings, *, device: str, threads: int, keys: Path | None) -> str:
    """What :func:`make_app` needs, for the variable."""
    values = {
        "model": str(model),
        "settings": settings.as_json(),
        "device": device,
        "threads": threads,
        "keys": None if keys is None else str(keys),
    }
    return json.dumps(values)


def make_app() -> FastAPI:
    """The application of a worker."""
    import torch

    logs.configure()
    values: dict[str, Any] = json.loads(os.environ[VARIABLE])
    torch.set_num_threads(values["threads"])
    keys = read_keys(None if values["keys"] is None else Path(values["keys"]))
    app = create_app(values["model"], Settings.from_json(values["settings"]), keys=keys, device=values["device"])
    logs.say("ready", model=app.state.service.name, threads=values["threads"])
    return app
