"""What a service allows, and how it works: all settings, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Limits:
    """What a request may ask for; told by ``GET /v1/model``.

    Attributes:
        request_bytes: of the body of a request.
        texts: in one request, or lists of words.
        characters: of one text.
        words: of one list of words.
        alternatives: next best trees of a sentence.
        alternative_words: of a sentence that has next best trees; longer ones have none, as it would take long.
        queue_words: that wait or are being read; a request that would make it more, or more than can be read in a third
            of the time, is refused, unless none waits.
        seconds: from the last byte of a request to its answer.
    """

    request_bytes: int = 1 << 20
    texts: int = 256
    characters: int = 100_000
    words: int = 10_000
    alternatives: int = 5
    alternative_words: int = 64
    queue_words: int = 16_384
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            least = 0 if one.name == "alternatives" else 1
            if one.name == "seconds":
                if not 0 < value < math.inf:
                    raise ValueError(f"seconds is {value}; it must be more than 0.")
            elif value < least:
                raise ValueError(f"{one.name} is {value}; it must be {least} at least.")


@dataclass(frozen=True)
class Settings:
    """How a service works.

    Attributes:
        limits: what a request may ask for.
        threads: how many cores the model may use.
        batching: whether sentences of several requests are read together; without it, one request at a time.
        batch_work: most padded work of one forward pass; left out, what suits the device.
        max_words: longer sentences are read in windows that overlap.
        cors: origins whose pages may call the service, such as ``https://example.org``; ``*`` for all.
        page: whether there is a page at ``/``.
        name: what the model is called; left out, as its folder is.
        drain_seconds: how long it goes on at least after it was told to stop, so that a load balancer sees that it is
            not ready any more.
    """

    limits: Limits = field(default_factory=Limits)
    threads: int = 1
    batching: bool = True
    batch_work: int | None = None
    max_words: int = 256
    cors: tuple[str, ...] = ()
    page: bool = True
    name: str | None = None
    drain_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"threads is {self.threads}; it must be 1 at least.")
        if self.batch_work is not None and self.batch_work < 1:
            raise ValueError(f"batch_work is {self.batch_work}; it must be 1 at least.")
        if self.max_words < 8:
            raise ValueError(f"max_words is {self.max_words}; it must be 8 at least.")
        if self.name is not None and not (self.name.strip() and self.name.isprintable()):
            raise ValueError(f"name is {self.name!r}; it must have a character at least, and only printable ones.")
        if not 0 <= self.drain_seconds < math.inf:
            raise ValueError(f"drain_seconds is {self.drain_seconds}; it must be 0 or more.")
        for origin in self.cors:
            _check_origin(origin)

    def as_json(self) -> str:
        """For a process that is to work in the same way."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """What :meth:`as_json` wrote. Unknown keys are an error that lists the known ones."""
        values: dict[str, Any] = json.loads(text)
        _check_keys(values, cls)
        limits = values.get("limits", {})
        _check_keys(limits, Limits)
        return cls(**{**values, "limits": Limits(**limits), "cors": tuple(values.get("cors", ()))})


def _check_keys(values: Mapping[str, Any], kind: type[Limits] | type[Settings]) -> None:
    known = [one.name for one in fields(kind)]
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(known)}.")


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    if origin != "*" and (parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}"):
        raise ValueError(
            f"{origin!r} is no origin; one is a scheme and a host, such as 'https://example.org' "
            "or 'http://localhost:3000', without a path."
        )
