"""A model as an HTTP service: ``nestree serve``. Needs the extra ``serve``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nestree.serving.settings import Limits, Settings

if TYPE_CHECKING:
    from nestree.serving.app import create_app

__all__ = ["Limits", "Settings", "create_app"]


def __getattr__(name: str) -> object:
    if name == "create_app":
        from nestree.serving.extra import require

        require()
        from nestree.serving.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
