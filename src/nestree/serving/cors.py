"""Pages of other origins: which may ask what; and a word for those that may not."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from nestree.serving.asgi import App
from nestree.serving.problems import Problem

METHODS = ("GET", "HEAD", "POST")
HEADERS = ("Authorization", "Content-Type", "X-API-Key", "X-Request-Id")
EXPOSED = ("Retry-After", "X-Request-Id")


class OtherOrigins(CORSMiddleware):
    """An application that pages of some other origins may ask.

    Args:
        app: what is inside.
        origins: such as ``https://example.org``; ``*`` for all.
    """

    def __init__(self, app: App, *, origins: Sequence[str]) -> None:
        super().__init__(
            app, allow_origins=origins, allow_methods=METHODS, allow_headers=HEADERS, expose_headers=EXPOSED
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser is told that asks whether a page may ask.

        Raises:
            Problem: it may not.
        """
        found = super().preflight_response(request_headers)
        if found.status_code < 400:
            return found
        kept = {name: value for name, value in found.headers.items() if not name.startswith("content-")}
        detail, advice = self._why(request_headers)
        raise Problem("other-origin", detail, advice=advice, headers=kept)

    def _why(self, given: Headers) -> tuple[str, str | None]:
        """Why not, and what to do about it, where that is not the same for all."""
        if not self.is_allowed_origin(given["origin"]):
            return "pages of this origin may not ask", None
        if given["access-control-request-method"] not in METHODS:
            return "the method is not among those that pages of other origins may use", f"Use {_listed(METHODS)}."
        asked = {one.strip().lower() for one in given.get("access-control-request-headers", "").split(",")}
        if asked - {"", *self.allow_headers}:
            what = "a header is not among those that pages of other origins may send"
            return what, f"Of headers that are not every browser's own, send only {_listed(HEADERS)}."
        return "the browser asks for more than pages of other origins may do", None


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
