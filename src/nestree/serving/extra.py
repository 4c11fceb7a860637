"""What only a service needs, and what to do if it is not there."""

from __future__ import annotations

import importlib.util

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


def require() -> None:
    """Raises an ImportError that says what to install, if something is missing."""
    for name in PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise ImportError(f'a service needs {name}: pip install "nestree[serve]"')
