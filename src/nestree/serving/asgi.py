"""Around all else: security headers, errors as problem JSON, metrics, one line of log a request; and who may ask."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from nestree.serving.logs import log, request_id
from nestree.serving.metrics import Metrics
from nestree.serving.predicting import ClientLeftError
from nestree.serving.problems import MEDIA_TYPE, Problem
from nestree.serving.security import HEADERS, Keys

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
CLIENT_LEFT = 499
"""In logs and metrics, the status of what nobody waited for."""


def path_of(scope: Scope) -> str:
    """The path of a request within the application, wherever that is mounted."""
    path: str = scope["path"]
    root = scope.get("root_path", "")
    within = bool(root) and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/")
    return path[len(root) :] or "/" if within else path


class Around:
    """An application with all of this around it.

    Args:
        app: what is inside.
        metrics: where requests are counted.
        paths: those that have a name in logs and metrics; all others are "other", as they may hold anything.
    """

    def __init__(self, app: App, *, metrics: Metrics, paths: frozenset[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        name = request_id(given)
        told: dict[str, Any] = {}
        scope["nestree"] = told
        status = 0

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", name.encode()), *HEADERS]
            await send(message)

        try:
            await self._app(scope, receive, dressed)
        except Problem as problem:
            told["problem"] = problem.name
            await answer(dressed, problem)
        except ClientLeftError:
            self._metrics.left.inc()
            status = CLIENT_LEFT
        except Exception:
            log.exception("unexpected error", extra={"fields": {"request": name}})
            if status:  # an answer has begun: it can only be broken off
                raise
            told["problem"] = "unexpected"
            await answer(dressed, Problem("unexpected", "the request could not be answered"))
        self._count(scope, status, time.perf_counter() - began, name, told)

    def _count(self, scope: Scope, status: int, seconds: float, name: str, told: dict[str, Any]) -> None:
        path = path_of(scope)
        path = path if path in self._paths else "other"
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        if log.isEnabledFor(logging.INFO):
            fields = {
                "request": name,
                "method": scope["method"] if scope["method"] in METHODS else "other",
                "path": path,
                "status": status,
                "ms": round(seconds * 1000, 1),
                **told,
            }
            log.info("request", extra={"fields": fields})


class Heads:
    """An application that answers HEAD as it answers GET, without the body.

    Args:
        app: what is inside; it sees GET alone.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def headless(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, headless)


class Direct:
    """An application of which one path is answered without the way through its routes, a quarter of the cost.

    Args:
        app: what is inside.
        path: that is answered here, if the method is POST.
        answer: gives the body of the answer, which is JSON.
    """

    def __init__(self, app: App, *, path: str, answer: Callable[[Scope, Receive], Awaitable[bytes]]) -> None:
        self._app = app
        self._path = path
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or scope["method"] != "POST" or path_of(scope) != self._path:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._answer(scope, receive)
        except Problem as problem:
            scope["nestree"]["problem"] = problem.name
            await answer(send, problem)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Locked:
    """An application that needs a key, but for some paths.

    Args:
        app: what is inside.
        keys: who may ask.
        is_open: tells of a path that it needs none.
    """

    def __init__(self, app: App, *, keys: Keys, is_open: Callable[[str], bool]) -> None:
        self._app = app
        self._keys = keys
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or self._is_open(path_of(scope)) or self._keys.admit(scope["headers"]):
            await self._app(scope, receive, send)
            return
        scope["nestree"]["problem"] = "no-key"
        what = "there is no API key in the request, or not the right one"
        await answer(send, Problem("no-key", what, headers={"WWW-Authenticate": 'Bearer realm="nestree"'}))


async def answer(send: Send, problem: Problem) -> None:
    """Sends a problem."""
    body = problem.body()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
