"""What the demo needs: a small corpus of nested entities, written for this package.

``corpus/README.md`` says what is annotated; :mod:`nestree.demo.build` makes the three splits of its source.
"""

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
"""The folder with ``train.jsonl``, ``dev.conll`` and ``test.data``."""
