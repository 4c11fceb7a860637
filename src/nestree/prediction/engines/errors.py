"""What is wrong with an engine, and what to do."""

from __future__ import annotations


class EngineError(OSError):
    """An engine that cannot be used: it is not there, it does not fit, or it is gone. Says what to do."""
