"""Errors as problem JSON (RFC 9457): what went wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import to_json

MEDIA_TYPE = "application/problem+json"


class Kind(NamedTuple):
    """A kind of problem: its status, its title, and what to do about it."""

    status: int
    title: str
    advice: str


KINDS: dict[str, Kind] = {
    "not-json": Kind(400, "The body is not JSON", "Send JSON in UTF-8, without lone surrogates, not nested deeply."),
    "no-key": Kind(401, "An API key is needed", "Send the header Authorization: Bearer KEY, or X-API-Key: KEY."),
    "other-origin": Kind(
        403, "Pages of another origin may not ask this", "Whoever runs the service can allow it: --cors ORIGIN."
    ),
    "not-found": Kind(404, "There is nothing here", "/docs lists what there is."),
    "wrong-method": Kind(405, "This cannot be done here", "The header Allow names the methods that can."),
    "too-slow": Kind(408, "The body did not arrive in time", "Send it again, all at once."),
    "too-large": Kind(413, "The body is too large", "Send fewer or shorter texts; /v1/model tells all limits."),
    "not-application-json": Kind(
        415, "The body is of another kind", "Send it uncompressed, with the header Content-Type: application/json."
    ),
    "not-valid": Kind(422, "The request does not make sense", "/docs describes requests; /v1/model tells the limits."),
    "unexpected": Kind(500, "Something went wrong here", "Tell whoever runs the service, with the X-Request-Id."),
    "queue-full": Kind(
        503, "Too many requests wait already", "Send it again after as many seconds as Retry-After says."
    ),
    "shutting-down": Kind(503, "The service is shutting down", "Send it again: another one may be there by then."),
    "broken": Kind(503, "The service is broken", "It has to be started again; its log says why."),
    "took-too-long": Kind(504, "It took too long", "Send less at a time, or again when less is going on."),
}


class Problem(Exception):  # noqa: N818  (as RFC 9457 calls it)
    """An answer that is an error.

    Args:
        name: one of :data:`KINDS`.
        detail: what was found.
        where: JSON pointer into the request; None if it is not about a place in it.
        advice: instead of what is said of the kind.
        headers: of the answer.
    """

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        where: str | None = None,
        advice: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name)
        self.name = name
        self.kind = KINDS[name]
        self.detail = detail
        self.where = where
        self.advice = advice or self.kind.advice
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """Of the answer."""
        return self.kind.status

    def body(self) -> bytes:
        """The answer."""
        content = {
            "type": f"/docs/errors#{self.name}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail.encode("utf-8", "replace").decode(),
            "where": self.where,
            "advice": self.advice,
        }
        return to_json(content)


def pointer(place: Sequence[int | str]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)


def of_validation(error: ValidationError, known: Iterable[str]) -> Problem:
    """What pydantic found, the first of it; ``known`` are the keys that there are."""
    found = error.errors(include_url=False, include_input=False)
    first: Any = _most_telling(found)
    if first["type"] == "json_invalid":
        return Problem("not-json", first["msg"])
    place = _place(first["loc"])
    others = len(found) - 1
    more = f" ({others} more of its kind)" if others and place[:1] != ("threshold",) else ""
    if first["type"] == "extra_forbidden":
        return Problem("not-valid", f"this key is not known; known are {', '.join(known)}", where=pointer(place))
    if first["type"] == "list_type" and place[0] == "tokens":
        what = "tokens is a list of sentences, each of which is a list of words, and this is no list"
        return Problem("not-valid", what, where=pointer(place))
    return Problem("not-valid", f"{first['msg'].removeprefix('Value error, ')}{more}", where=pointer(place))


def _most_telling(found: Sequence[Any]) -> Any:
    """Of a union, what is said of its last part: the first are tried for what is plainly something else."""
    return next((one for one in found if len(one["loc"]) > 2 and one["loc"][0] == "threshold"), found[0])


def _place(loc: Sequence[int | str]) -> tuple[int | str, ...]:
    """Without the names that pydantic gives to the parts of a union."""
    if loc[:1] == ("threshold",):
        return ("threshold", *(part for part in loc[2:] if part != "[key]"))
    return tuple(loc)
