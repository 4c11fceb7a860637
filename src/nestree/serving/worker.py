"""What each worker process of ``nestree serve`` begins with."""

from __future__ import annotations

import json
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from fastapi import FastAPI

from nestree.data.errors import DataError
from nestree.serving import logs
from nestree.serving.app import create_app
from nestree.serving.security import read_keys
from nestree.serving.settings import Settings

VARIABLE = "NESTREE_SERVE"
"""Holds what a worker has to know, as JSON. Keys are not among it: each worker reads them by itself."""
SWITCH = 0.0005
"""Seconds after which a thread of Python gives way to another: the model's have little to say, and should not wait."""
STARTUP_FAILURE = 3
"""By this exit status, uvicorn knows that it would not help to start the worker again."""


def said(model: Path, settings: Settings, *, device: str, keys: Path | None, failed: Path) -> str:
    """What :func:`make_app` needs, for the variable. A worker that cannot begin leaves the file ``failed`` behind."""
    values = {
        "model": str(model),
        "settings": settings.as_json(),
        "device": device,
        "keys": None if keys is None else str(keys),
        "failed": str(failed),
    }
    return json.dumps(values)


def make_app() -> FastAPI:
    """The application of a worker."""
    import torch

    logs.configure()
    _end_with_the_supervisor()
    values: dict[str, Any] = json.loads(os.environ[VARIABLE])
    settings = Settings.from_json(values["settings"])
    torch.set_num_threads(settings.threads)
    sys.setswitchinterval(SWITCH)
    try:
        keys = read_keys(None if values["keys"] is None else Path(values["keys"]))
        app = create_app(values["model"], settings, keys=keys, device=values["device"])
    except (DataError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        Path(values["failed"]).touch()
        _fail()
    logs.say("model loaded", model=app.state.service.name, threads=settings.threads)
    return app


def _fail() -> NoReturn:
    """Ends a worker that cannot begin.

    Its supervisor may be waiting for a sign of life, and would wait long if the worker ended over that: it gets one
    first, and then the end is sudden.
    """
    if multiprocessing.parent_process() is None:
        sys.exit(STARTUP_FAILURE)
    time.sleep(1)
    sys.stderr.flush()
    os._exit(STARTUP_FAILURE)


def _end_with_the_supervisor() -> None:
    """A worker whose supervisor was killed would go on for ever, and keep the port."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="nestree-supervisor", daemon=True).start()
