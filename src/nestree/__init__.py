"""nestree finds nested named entities with partially-observed TreeCRFs.

``nestree.NestedNER`` is the model people hold. The algorithm alone lives in :mod:`nestree.crf`. Importing this package
imports nothing else; what it offers is loaded when it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nestree.model import NestedNER

__version__ = "0.1.0.dev0"
__all__ = ["NestedNER", "__version__"]


def __getattr__(name: str) -> Any:
    """Loads the model, and torch with it, when it is first asked for."""
    if name == "NestedNER":
        from nestree.model import NestedNER

        return NestedNER
    raise AttributeError(f"module 'nestree' has no attribute {name!r}")
