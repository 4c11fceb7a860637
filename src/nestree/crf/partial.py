"""Partial trees: what annotation says about every span of a sentence (the paper's Algorithm 1)."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nestree.crf.kernels.codes import FIRST_SET, LATENT, REJECTED, SpanCodes, span_grid

Scope = Literal["rejected", "all"]
Span = tuple[int, int, int]
"""``(start, end, label)``, both ends inclusive."""


class Doubts(NamedTuple):
    """What one sentence's annotation leaves open, by numbers of sets of labels (see :meth:`PartialTrees.from_spans`).

    Of several that fit a span, the last counts. Observed and rejected spans stay what they are.

    Attributes:
        otherwise: the set of spans of which nothing is known; negative: they are latent, as usual.
        regions: ``(first word, last word, set)``: the set of spans that share a word with these.
        spans: ``(start, end, set)``: the set of single spans.
    """

    otherwise: int = -1
    regions: tuple[Span, ...] = ()
    spans: tuple[Span, ...] = ()


class Symbol(IntEnum):
    """The kinds of nodes in a symbol tree, and what stands where a chart has no span at all."""

    PADDING = 0
    REJECTED = 1
    LATENT = 2
    OBSERVED = 3

    @property
    def glyph(self) -> str:
        """How the paper draws it."""
        return " ○□●"[self]


@dataclass(frozen=True, eq=False)
class PartialTrees:
    """A batch of partially observed trees, one small integer per span.

    Make one with :meth:`from_spans`; :meth:`TreeCRF.log_prob` takes it as it is. The label axis of the potentials holds
    the entity labels first, then the latent labels.
    """

    codes: Tensor
    """int16 ``[batch, n, n]``: the observed label, -1 for latent, -2 for rejected and for no span."""
    lengths: Tensor
    """int64 ``[batch]``"""
    entity_labels: int
    latent_labels: int = 1
    sets: Tensor | None = None
    """float ``[set, label]``: what labels weigh on spans whose code is -3 for the first set, -4 for the second, ..."""

    @classmethod
    def from_spans(
        cls,
        spans: Sequence[Sequence[Span]],
        lengths: Sequence[int] | Tensor,
        *,
        entity_labels: int,
        latent_labels: int = 1,
        n: int | None = None,
        sets: Tensor | None = None,
        doubts: Sequence[Doubts | None] | None = None,
    ) -> PartialTrees:
        """Algorithm 1: marks every span as observed, latent or rejected.

        Args:
            spans: for each sentence its annotated ``(start, end, label)``, both ends inclusive. A span given twice
                with one label counts once; with two labels it is an error, as a node has one label.
            lengths: words in each sentence.
            entity_labels: how many labels people annotate: labels ``0 ... entity_labels - 1``.
            latent_labels: how many labels latent nodes have; they follow the entity labels.
            n: size of the charts, at least the longest sentence (the default).
            sets: for annotation that is not complete or not certain: sets of labels as weights >= 0,
                ``[set, label]``, latent labels included. An observed span has a label of set s if its label here is
                ``-1 - s``.
            doubts: for each sentence, which unobserved spans have labels of a set, instead of the latent ones.
        """
        words = [_whole(length, f"lengths[{sentence}]") for sentence, length in enumerate(lengths)]
        if entity_labels < 1 or latent_labels < 0:
            raise ValueError(
                f"need entity_labels >= 1 and latent_labels >= 0, got {entity_labels} and {latent_labels}."
            )
        if entity_labels > np.iinfo(np.int16).max:
            raise ValueError(f"entity_labels is {entity_labels}; at most {np.iinfo(np.int16).max} can be told apart.")
        if len(spans) != len(words):
            raise ValueError(f"spans holds {len(spans)} sentences and lengths {len(words)}.")
        if doubts is not None and len(doubts) != len(words):
            raise ValueError(f"doubts is for {len(doubts)} sentences, and there are {len(words)}.")
        known = 0 if sets is None else _check_sets(sets, entity_labels + latent_labels)
        size = max([1, *words]) if n is None else n
        codes = np.full((len(words), size, size), REJECTED, dtype=np.int16)
        for sentence, (observed, length) in enumerate(zip(spans, words, strict=True)):
            if not 1 <= length <= size:
                raise ValueError(f"lengths[{sentence}] is {length}; sentences have 1 to {size} words here.")
            _fill(codes[sentence], observed, length, entity_labels, sentence, known)
            if doubts is not None and (open_ones := doubts[sentence]) is not None:
                _open(codes[sentence, :length, :length], open_ones, sentence, known)
        return cls(torch.from_numpy(codes), torch.tensor(words, dtype=torch.int64), entity_labels, latent_labels, sets)

    def __post_init__(self) -> None:
        batch, n = self.codes.shape[0], self.codes.shape[-1]
        if self.codes.shape != (batch, n, n) or self.lengths.shape != (batch,):
            raise ValueError(
                f"codes must be [batch, n, n] and lengths [batch]; "
                f"got {list(self.codes.shape)} and {list(self.lengths.shape)}."
            )

    def __len__(self) -> int:
        return self.codes.shape[0]

    @property
    def labels(self) -> int:
        """The size of the label axis: entity labels and latent labels."""
        return self.entity_labels + self.latent_labels

    @property
    def symbols(self) -> Tensor:
        """The symbol trees: a :class:`Symbol` for each span. Shape: int8 ``[batch, n, n]``."""
        kind = (self.codes + 3).clamp(0, int(Symbol.OBSERVED))  # rejected -2, latent -1, observed 0, 1, ...
        if self.sets is not None:
            may_be_latent = (self.sets[:, self.entity_labels :] > 0).any(1)
            of_set = torch.where(may_be_latent, int(Symbol.LATENT), int(Symbol.OBSERVED)).to(kind.dtype)
            kind = torch.where(self.codes <= FIRST_SET, of_set[self._set_numbers()], kind)
        spans = span_grid(self.lengths, self.codes.shape[1])
        return torch.where(spans, kind, int(Symbol.PADDING)).to(torch.int8)

    def span_codes(self, smoothing: float = 0.0, scope: Scope = "rejected") -> SpanCodes:
        """The mask in the form that kernels read; there is none for partial trees with sets."""
        if self.sets is not None:
            raise ValueError("span codes cannot hold sets of labels; use mask().")
        if scope not in ("rejected", "all"):
            raise ValueError(f"scope is {scope!r}; known are 'rejected' and 'all'.")
        if not 0 <= smoothing <= 1:
            raise ValueError(f"smoothing is a weight between 0 and 1, got {smoothing}.")
        return SpanCodes(self.codes, self.entity_labels, smoothing, smoothing if scope == "all" else 0.0)

    def mask(
        self,
        smoothing: float = 0.0,
        scope: Scope = "rejected",
        *,
        gumbel: bool = False,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """The dense mask M of Algorithm 1, smoothed. Shape: ``[batch, n, n, label]``.

        Args:
            smoothing: the weight ε of what the annotation rules out (the paper's structure smoothing).
            scope: what gets it: "rejected" spans alone, as the paper writes, or "all" zero entries, as its authors'
                program does: also entity labels on latent spans and other labels on observed ones.
            gumbel: multiply each ε by the exponential of a standard Gumbel number of its own, so that the masked log
                potentials of those entries are perturbed as in the stochastic softmax trick.
            generator: where the random numbers come from.
            dtype: of the mask.
        """
        codes = replace(self, sets=None).span_codes(smoothing, scope)
        mask = self._dense(codes, dtype)
        if gumbel and smoothing > 0:
            exponential = torch.empty_like(mask).exponential_(generator=generator)
            smoothed = self._dense(codes._replace(rejected_weight=0.0, other_weight=0.0), dtype) == 0
            mask = torch.where(smoothed, mask / exponential, mask)  # exp(Gumbel) = 1 / Exponential
        return torch.where((self.symbols == Symbol.PADDING)[..., None], torch.zeros_like(mask), mask)

    def _dense(self, codes: SpanCodes, dtype: torch.dtype) -> Tensor:
        mask = codes.dense(self.labels, dtype)
        if self.sets is None:
            return mask
        weights = self.sets.to(dtype)
        rows = torch.where(weights > 0, weights, codes.other_weight)[self._set_numbers()]
        return torch.where((self.codes <= FIRST_SET)[..., None], rows, mask)

    def _set_numbers(self) -> Tensor:
        """The set of each span; 0 for those that have none. Shape: ``[batch, n, n]``."""
        return (FIRST_SET - self.codes).clamp_min(0).long()

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> PartialTrees:
        """The same partial trees on another device."""
        codes = self.codes.to(device, non_blocking=non_blocking)
        lengths = self.lengths.to(device, non_blocking=non_blocking)
        sets = None if self.sets is None else self.sets.to(device, non_blocking=non_blocking)
        return replace(self, codes=codes, lengths=lengths, sets=sets)

    def spans(self) -> Iterator[list[Span]]:
        """The observed spans of each sentence, by start, then end."""
        yield from spans_of(self.codes)


@lru_cache(maxsize=128)
def _nothing_observed(length: int) -> np.ndarray:
    """The codes of a sentence without annotation; read, never written to."""
    return np.where(np.tri(length, k=-1, dtype=bool), REJECTED, LATENT).astype(np.int16)


def _check_sets(sets: Tensor, labels: int) -> int:
    """How many there are."""
    if sets.dim() != 2 or sets.shape[1] != labels or not sets.is_floating_point():
        raise ValueError(f"sets must be weights [set, {labels}], got {sets.dtype} of shape {list(sets.shape)}.")
    most = FIRST_SET - np.iinfo(np.int16).min
    if len(sets) > most:
        raise ValueError(f"there are {len(sets)} sets; at most {most} can be told apart.")
    if not bool(((sets >= 0) & (sets < float("inf"))).all()):
        raise ValueError("sets must hold weights >= 0 that are finite.")
    return len(sets)


def _open(codes: np.ndarray, doubts: Doubts, sentence: int, sets: int) -> None:
    """Writes what is left open into one sentence's codes, in place."""
    free = codes == LATENT

    def write(at: tuple[slice, slice] | tuple[int, int], number: int) -> None:
        if number >= sets:
            raise ValueError(f"sentence {sentence}: its doubts name set {number}; there are {sets}.")
        codes[at] = np.where(free[at], FIRST_SET - number, codes[at])

    if doubts.otherwise >= 0:
        write((slice(None), slice(None)), doubts.otherwise)
    for places, of_region in ((doubts.regions, True), (doubts.spans, False)):
        for start, end, number in places:
            if not 0 <= start <= end < len(codes) or number < 0:
                raise ValueError(
                    f"sentence {sentence}: its doubts hold {(start, end, number)}: not within its {len(codes)} words "
                    f"(0 to {len(codes) - 1}, both ends inclusive), or no set."
                )
            write((slice(None, end + 1), slice(start, None)) if of_region else (start, end), number)


def _fill(codes: np.ndarray, spans: Sequence[Span], length: int, entity_labels: int, sentence: int, sets: int) -> None:
    """Algorithm 1 for one sentence, in place; everything starts as rejected."""
    codes[:length, :length] = _nothing_observed(length)
    for span in spans:
        start, end, label = _triple(span, sentence)
        if not 0 <= start <= end < length:
            raise ValueError(
                f"sentence {sentence}: observed span ({start}, {end}) does not lie within its {length} words "
                f"(0 to {length - 1}, both ends inclusive)."
            )
        if not -sets <= label < entity_labels:
            and_sets = f", sets -1 to {-sets}" if sets else ""
            raise ValueError(
                f"sentence {sentence}: observed span ({start}, {end}) has label {label}; "
                f"entity labels are 0 to {entity_labels - 1}{and_sets}."
            )
        label = label if label >= 0 else FIRST_SET + 1 + label
        found = codes[start, end]
        if found == REJECTED:
            other = next((i, j) for i, j, *_ in spans if i < start <= j < end or start < i <= end < j)
            raise ValueError(
                f"sentence {sentence}: observed spans {other} and {(start, end)} cross; no tree holds both. "
                "Drop one, or move a boundary; both ends are inclusive, so a half-open end is one too far."
            )
        if found != LATENT and found != label:
            raise ValueError(
                f"sentence {sentence}: observed span ({start}, {end}) has two labels, {found} and {label}; "
                "a node has one. Make a label of its own for the pair, or give log_prob a dense mask that allows both."
            )
        codes[start, end] = label
        codes[:start, start:end] = REJECTED
        codes[start + 1 : end + 1, end + 1 : length] = REJECTED


def spans_of(nodes: Tensor, entity_labels: int | None = None) -> Iterator[list[Span]]:
    """The nodes of each chart as ``(start, end, label)``, both ends inclusive, by start, then end.

    Args:
        nodes: ``[batch, n, n]``: label ids, negative where there is no node, as ``TreeCRF.argmax`` gives.
        entity_labels: leaves out nodes with latent labels: those from here on.
    """
    wanted = nodes >= 0 if entity_labels is None else (nodes >= 0) & (nodes < entity_labels)
    # The nodes alone leave the device, not the charts.
    found = torch.cat([torch.nonzero(wanted), nodes[wanted][:, None]], 1).tolist()
    spans: list[list[Span]] = [[] for _ in range(len(nodes))]
    for sentence, start, end, label in found:
        spans[sentence].append((start, end, label))
    yield from spans


def _triple(span: Span, sentence: int) -> Span:
    try:
        start, end, label = span
    except (TypeError, ValueError):
        raise ValueError(
            f"sentence {sentence}: {span!r} is no (start, end, label); spans holds a list of such triples per sentence."
        ) from None
    where = f"sentence {sentence}: span {span!r}"
    return _whole(start, where), _whole(end, where), _whole(label, where)


def _whole(value: object, where: str) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where} holds {value!r}, which is not a whole number.") from None
