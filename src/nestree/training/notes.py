"""What people are told once, however often it happens."""

from __future__ import annotations

from collections.abc import Callable


class Notes:
    """Tells about each kind of thing the first time that it happens.

    Args:
        say: tells people something.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    def __call__(self, kind: str, text: str) -> bool:
        """Says something, if nothing of its kind was said before; whether it was said."""
        if kind in self._said:
            return False
        self._said.add(kind)
        self._say(f"note: {text}")
        return True
