"""Exact inference with TreeCRFs over partially observed trees. Imports torch, numpy, and nothing else of nestree."""

from nestree.crf.distribution import TreeCRF, inside, masked_inside, normalize_potentials
from nestree.crf.kernels import backend
from nestree.crf.kernels.errors import NoTreeError
from nestree.crf.partial import Doubts, PartialTrees, Symbol, spans_of

__all__ = [
    "Doubts",
    "NoTreeError",
    "PartialTrees",
    "Symbol",
    "TreeCRF",
    "backend",
    "inside",
    "masked_inside",
    "normalize_potentials",
    "spans_of",
]
