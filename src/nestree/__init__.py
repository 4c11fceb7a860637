"""nestree finds nested named entities with partially-observed TreeCRFs.

The algorithm alone lives in :mod:`nestree.crf`; importing this package imports nothing else.
"""

__version__ = "0.1.0.dev0"
