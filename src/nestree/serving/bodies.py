"""The body of a request, read with a limit that holds while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from nestree.serving.asgi import Receive, Scope
from nestree.serving.predicting import ClientLeftError
from nestree.serving.problems import Problem

CLOSE = {"Connection": "close"}
"""What is left of a body is not read."""


async def read_body(scope: Scope, receive: Receive, most: int, seconds: float) -> bytes:
    """The body of a request, which is JSON by its own account.

    Args:
        scope: of the request.
        receive: gives its parts.
        most: how many bytes there may be, whatever the headers say.
        seconds: how long it may take to arrive.

    Raises:
        Problem: it is too large, too slow, compressed or of another type.
        ClientLeftError: it does not come to its end.
    """
    _check_headers(scope["headers"], most)
    try:
        async with asyncio.timeout(seconds):  # of its first byte, too: it may never come
            return await _read_parts(receive, most)
    except TimeoutError:
        what = f"after {seconds:g} s the body was not complete"
        raise Problem("too-slow", what, headers=CLOSE) from None


async def _read_parts(receive: Receive, most: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(len(body), most)
        if not message.get("more_body"):
            return bytes(body)


def _check_headers(headers: Iterable[tuple[bytes, bytes]], most: int) -> None:
    kind = None
    for name, value in headers:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower()
        elif name == b"content-length" and value.isdigit() and int(value[:20]) > most:
            raise _too_large(int(value[:20]), most)
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise Problem("not-application-json", "the body is compressed, and only plain ones are read", headers=CLOSE)
    if kind != b"application/json":
        what = "the body has no Content-Type" if kind is None else "the body has another Content-Type"
        raise Problem("not-application-json", f"{what}; it must be application/json", headers=CLOSE)


def _too_large(size: int, most: int) -> Problem:
    return Problem("too-large", f"the body has {size} bytes or more, and {most} are allowed", headers=CLOSE)
