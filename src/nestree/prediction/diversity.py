"""The most uncertain of any number of texts, in bounded memory, and of those some that are not alike."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from nestree.data import Document


@dataclass(frozen=True)
class Candidate:
    """A text that may be chosen.

    Attributes:
        document: the text with what was found in it.
        uncertainty: how uncertain the model is.
        number: its place in the pool.
        vector: where it lies among others. Shape: ``[hidden]``
    """

    document: Document
    uncertainty: float
    number: int
    vector: np.ndarray


class Candidates:
    """The most uncertain texts of a pool, of those that are the same but for numbers, case and white space one.

    Args:
        limit: how many are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, int, bytes, Candidate]] = []
        self._kept: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def admits(self, text: str, uncertainty: float) -> bool:
        """Whether a text, which comes after all others, would be kept."""
        if len(self._heap) == self._limit and uncertainty <= self._heap[0][0]:
            return False
        return pattern_of(text) not in self._kept

    def add(self, candidate: Candidate) -> None:
        """Keeps a candidate, if it is admitted; the least uncertain one goes, if there are too many."""
        if not self.admits(candidate.document.text, candidate.uncertainty):
            return
        key = pattern_of(candidate.document.text)
        entry = candidate.uncertainty, -candidate.number, key, candidate
        self._kept.add(key)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        else:
            self._kept.remove(heapq.heapreplace(self._heap, entry)[2])

    def best(self) -> list[Candidate]:
        """All that were kept, the most uncertain first."""
        return [entry[3] for entry in sorted(self._heap, key=lambda entry: (-entry[0], -entry[1]))]


def diverse(candidates: Sequence[Candidate], k: int, diversity: float) -> list[Candidate]:
    """Some of them, one after the other: each is uncertain, and unlike those that were taken before.

    This is maximal marginal relevance (Carbonell and Goldstein, 1998): taken is what has most of (1 − diversity) ·
    worth − diversity · similarity to the most similar one taken. Worth is the rank by uncertainty, from 1 for the most
    uncertain one to 0: values would let a few outliers, which may be copies of each other, leave all else behind.
    Similarity is the cosine of vectors, seen from the candidates' mean; at right angles, and beyond, it is 0. With
    diversity 0, these are the most uncertain ones; with 1, the most uncertain one, and then always the least similar.

    Args:
        candidates: the most uncertain first.
        k: how many at most.
        diversity: from 0 to 1.
    """
    if not candidates or diversity == 0:
        return list(candidates[:k])
    vectors = _directions(np.stack([one.vector for one in candidates]))
    worth = np.linspace(1, 0, len(candidates))
    nearest = np.zeros(len(candidates))
    taken: list[int] = []
    for _ in range(min(k, len(candidates))):
        gain = (1 - diversity) * worth - diversity * nearest
        gain[taken] = -np.inf
        at = int(gain.argmax())
        taken.append(at)
        nearest = np.maximum(nearest, vectors @ vectors[at])
    return [candidates[at] for at in taken]


def key_of(text: str) -> bytes:
    """The same for texts that differ in white space alone, as formats may."""
    return blake2b("".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def pattern_of(text: str) -> bytes:
    """The same for texts that differ in numbers, case and white space alone."""
    return key_of(re.sub(r"\d+", "0", text.casefold()))


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Seen from their mean, of length 1."""
    centred = vectors.astype(np.float32) - vectors.mean(0, dtype=np.float64).astype(np.float32)
    return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12), np.float32)
