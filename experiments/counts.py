"""Counts per sentence, packed: what significance is computed from."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nestree.data import Document
from nestree.evaluation.bootstrap import count_units

Counts = NDArray[np.int64]
"""Correct, predicted and gold of each sentence. Shape: ``[sentence, 3]``."""


def packed(gold: Sequence[Document], predicted: Sequence[Document]) -> dict[str, Any]:
    """The counts of each sentence, for JSON."""
    return pack(of_sentences(gold, predicted))


def of_sentences(gold: Sequence[Document], predicted: Sequence[Document]) -> Counts:
    """The counts of each sentence."""
    (found,) = count_units(gold, predicted, unit="sentence")
    counts: Counts = found.counts.sum(1)
    return counts


def pack(counts: Counts) -> dict[str, Any]:
    """As text: 16 bits a number, column by column, compressed, in base 64."""
    data = np.ascontiguousarray(counts.T.astype("<u2")).tobytes()
    return {"sentences": len(counts), "counts": base64.b64encode(zlib.compress(data, 9)).decode()}


def unpack(content: dict[str, Any]) -> Counts:
    """What :func:`pack` packed."""
    data = zlib.decompress(base64.b64decode(content["counts"]))
    return np.frombuffer(data, dtype="<u2").reshape(3, content["sentences"]).T.astype(np.int64)
