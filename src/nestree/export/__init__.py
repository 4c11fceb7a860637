"""A model as ONNX: smaller to install, quicker on CPUs, the same entities."""

from nestree.export.exported import ExportedNER, load
from nestree.export.exporting import export

__all__ = ["ExportedNER", "export", "load"]
