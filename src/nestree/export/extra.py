"""What only an export needs, and what to do if it is not there."""

from __future__ import annotations

import importlib
from typing import Any

FOR_RUNNING = ("onnxruntime",)
FOR_EXPORTING = ("onnx", "onnxscript", "onnxruntime")


def require(*names: str) -> None:
    """Raises an ImportError that says what to install, if one of these packages cannot be imported."""
    for name in names:
        module(name)


def module(name: str) -> Any:
    """A module of one of these packages."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f'ONNX needs {name.partition(".")[0]}: pip install "nestree[onnx]"') from None
