"""Ctrl-C that is not lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


class Interrupts:
    """Within it, a Ctrl-C that Python dropped is remembered.

    An error cannot leave a destructor, of whatever package it is. If Ctrl-C comes there, Python prints it and goes on,
    and whoever pressed the keys waits for nothing. So long work asks between its steps.
    """

    def __init__(self) -> None:
        self._came = False
        self._before = sys.unraisablehook

    def __enter__(self) -> Self:
        self._before, sys.unraisablehook = sys.unraisablehook, self._dropped
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._before

    def _dropped(self, what: UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            self._came = True
        else:
            self._before(what)

    def check(self) -> None:
        """Raises a KeyboardInterrupt if one was dropped."""
        if self._came:
            raise KeyboardInterrupt
