"""A service in a thread, on a port of its own, and somebody who asks it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.model import NestedNER
from nestree.serving import Settings, create_app

if TYPE_CHECKING:
    import httpx

    Client = httpx.Client
else:
    Client = Any


@contextmanager
def served(model: NestedNER | Path, settings: Settings | None = None, **options: Any) -> Iterator[Client]:
    """A service of a model; a client of it."""
    import httpx
    import uvicorn

    app = create_app(model, settings, **options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            client.app = app  # type: ignore[attr-defined]
            yield client
    finally:
        server.should_exit = True
        thread.join()


def post(client: Client, content: Any, **headers: str) -> Any:
    """Asks for a prediction."""
    body = content if isinstance(content, bytes | str) else json.dumps(content)
    return client.post("/v1/predict", content=body, headers={"content-type": "application/json", **headers})
