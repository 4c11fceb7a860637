"""Logs as lines of JSON. They say what happened, never what a text says."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any

log = logging.getLogger("nestree.serve")
_NAMES = random.Random(os.urandom(16))
"""Names need not be secret; asking the system for each would give the interpreter away to the model's thread."""
_GOOD_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}\Z")


class Lines(logging.Formatter):
    """A line of JSON for each record. Of errors the kind and the place, without their message: it may quote a text."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        values: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "process": record.process,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            values["error"] = type(record.exc_info[1]).__name__
            values["at"] = [
                f"{Path(one.filename).name}:{one.lineno} {one.name}"
                for one in traceback.extract_tb(record.exc_info[2])[-8:]
            ]
        return json.dumps(values)


def configure(level: int = logging.INFO) -> None:
    """Sends the logs of the service, and of uvicorn, to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in (log.name, "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.setLevel(level)
        logger.propagate = name == "uvicorn.error"


def request_id(given: bytes | None) -> str:
    """The name of a request: the one that came with it, if it is harmless, or a new one."""
    if given is not None and _GOOD_ID.match(given):
        return given.decode("ascii")
    return f"{_NAMES.getrandbits(128):032x}"


def say(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Logs something that is no request."""
    log.log(level, event, extra={"fields": fields})
