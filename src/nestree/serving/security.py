"""Who may ask, and what browsers are told."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from nestree.data.errors import DataError

VARIABLE = "NESTREE_API_KEYS"
SHORTEST = 16
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Keys:
    """The API keys of a service. None: anybody may ask.

    Args:
        keys: as they are sent.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def admit(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the headers of a request hold a key, and no wrong one. All are compared, to the end."""
        if not self._digests:
            return True
        given = [sha256(one).digest() for one in _given(headers)]
        right = [sum(hmac.compare_digest(one, key) for key in self._digests) for one in given]
        return bool(right) and all(right)


def _given(headers: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    found = []
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            found.append(value[7:].strip())
        elif name == b"x-api-key":
            found.append(value.strip())
    return found


def read_keys(file: Path | None) -> list[str]:
    """Keys from a file, one a line, and from ``NESTREE_API_KEYS``, with commas between them; # begins a remark.

    Raises:
        DataError: a key is too short, or cannot be sent; or the file holds none.
    """
    lines = [(one, str(VARIABLE), None) for one in os.environ.get(VARIABLE, "").split(",")]
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(f"the keys cannot be read: {error.strerror or error}", path=file) from None
        lines += [(one, str(file), number) for number, one in enumerate(text.splitlines(), 1)]  # type: ignore[misc]
    keys = []
    for line, path, number in lines:
        key = line.partition("#")[0].strip()
        if not key:
            continue
        if len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
            advice = 'Make one: python -c "import secrets; print(secrets.token_urlsafe(32))"'
            what = f"a key has {SHORTEST} characters at least, all of them ASCII, without spaces"
            raise DataError(what, path=path, line=number, advice=advice)
        keys.append(key)
    if file is not None and not keys:
        raise DataError("there is no key in it", path=file, advice="Write one key a line.")
    return keys
