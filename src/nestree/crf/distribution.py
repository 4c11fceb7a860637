"""The distribution over labelled binary trees that everything else uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from nestree.crf.kernels import choose, errors, later
from nestree.crf.kernels.codes import SpanCodes, mask_scores, span_grid
from nestree.crf.partial import PartialTrees, Scope

NEVER = float("-inf")


class TreeCRF:
    """A CRF over binary trees whose every node carries one label.

    A tree over m words has 2m - 1 nodes; its log potential is the sum of ``log_potentials[b, i, j, k]`` over its nodes
    (span ``(i, j)``, both ends inclusive, with label ``k``). All quantities are exact, differentiable where that makes
    sense, and independent of the rest of the batch. Properties are computed once and kept: copy before you change one
    in place.

    Every method takes time ``O(n^3)`` per sentence (``topk``: times ``k log k``), and memory ``O(n^2)`` on a CPU.

    Args:
        log_potentials: ``[batch, n, n, label]``, of any floating type; the upper triangle counts. -inf forbids a
            labelled span; NaN and +inf are errors. Computed in float32 or better, whatever comes in.
        lengths: words in each sentence, 1 to n; all n if left out.
    """

    def __init__(self, log_potentials: Tensor, lengths: Tensor | Sequence[int] | None = None) -> None:
        _check_potentials(log_potentials)
        self.log_potentials = log_potentials
        self.backend, self._kernels = choose(log_potentials.device)
        self.lengths = _check_lengths(lengths, log_potentials, self.backend)
        wide = log_potentials.dtype in (torch.float32, torch.float64)
        self._scores = log_potentials if wide else log_potentials.float()
        self._known: dict[tuple[str, bool], Tensor] = {}

    def __repr__(self) -> str:
        batch, n, _, labels = self.log_potentials.shape
        return f"TreeCRF(batch={batch}, n={n}, labels={labels}, backend={self.backend!r})"

    # --- Probabilities ---

    @property
    def log_partition(self) -> Tensor:
        """Inside: the log-sum over all trees; -inf where none is possible. Shape: ``[batch]``."""
        return self._once("log_partition", lambda: self._inside(self._scores))

    def log_prob(
        self,
        observed: PartialTrees | Tensor,
        *,
        smoothing: float = 0.0,
        scope: Scope = "rejected",
        impossible: Literal["raise", "-inf"] = "raise",
    ) -> Tensor:
        """The log probability of the trees that agree with what was observed: Masked Inside − Inside.

        Args:
            observed: partial trees, or a dense mask ``[batch, n, n, label]`` of booleans or weights >= 0 (a span may
                allow any set of labels).
            smoothing: with partial trees: the weight ε of what they rule out; see :meth:`PartialTrees.mask`.
            scope: with partial trees: what gets that weight.
            impossible: what happens when no tree agrees: ``"raise"`` a :class:`NoTreeError` that names the sentences
                (on a GPU, where gradients are wanted, the backward pass raises it), or return ``"-inf"``, with zero
                gradients.

        Shape: ``[batch]``
        """
        if impossible not in ("raise", "-inf"):
            raise ValueError(f"impossible is {impossible!r}; known are 'raise' and '-inf'.")
        strict = impossible == "raise"
        codes = self._codes(observed, smoothing, scope)
        if isinstance(codes, SpanCodes):
            return self._kernels.log_prob(self._scores, self.lengths, codes, strict)
        # Both in float64, so that weights of 1 give a log probability of 0.
        masked = self._kernels.inside(mask_scores(self._scores.double(), codes), self.lengths)
        everything = self._kernels.inside(self._scores.double(), self.lengths)
        if strict and not torch.compiler.is_compiling() and not later.is_recorded(self._scores):
            errors.require_trees(masked.detach(), everything.detach())
        return self._out(torch.where(masked == NEVER, masked, masked - everything))

    def masked_log_partition(
        self, observed: PartialTrees | Tensor, *, smoothing: float = 0.0, scope: Scope = "rejected"
    ) -> Tensor:
        """Masked Inside: the log-sum over the trees that a mask allows. Shape: ``[batch]``."""
        codes = self._codes(observed, smoothing, scope)
        if isinstance(codes, SpanCodes):
            return self._inside(self._scores, codes)
        return self._inside(mask_scores(self._scores.double(), codes))

    @property
    def marginals(self) -> Tensor:
        """The probability that span ``(i, j)`` is a node with label ``k``. Shape: ``[batch, n, n, label]``."""
        return self._once("marginals", lambda: self._kernels.marginals(self._scores, self.lengths))

    def score(self, nodes: Tensor) -> Tensor:
        """The log potential of whole trees, given as charts of label ids with -1 for no node.

        Shape: ``[..., batch, n, n]`` to ``[..., batch]``
        """
        shape, labels = self._scores.shape[:3], self._scores.shape[3]
        if nodes.shape[-3:] != shape or nodes.is_floating_point():
            raise ValueError(
                f"charts of label ids are whole numbers [..., {', '.join(map(str, shape))}]; "
                f"got {nodes.dtype} of shape {list(nodes.shape)}."
            )
        if not torch.compiler.is_compiling() and nodes.numel() and nodes.max() >= labels:
            raise ValueError(f"a chart holds label {int(nodes.max())}, but there are {labels} labels.")
        scores = self._scores.expand(*nodes.shape, labels)
        at_nodes = scores.gather(-1, nodes.clamp_min(0)[..., None])[..., 0]
        return self._out(torch.where(nodes >= 0, at_nodes, 0.0).double().sum((-1, -2)))

    # --- Trees ---

    @property
    def argmax(self) -> Tensor:
        """CKY: the label at each node of the best tree, -1 elsewhere (everywhere, if no tree is possible).

        Shape: ``[batch, n, n]``
        """
        return self._once("argmax", lambda: self._kernels.best_tree(self._scores, self.lengths))

    @property
    def max(self) -> Tensor:
        """The log potential of the best tree. Shape: ``[batch]``."""
        return self._once("max", lambda: self._score_or_never(self._kernels.best_tree(self._scores, self.lengths)))

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best trees, best first; score -inf and chart -1 where fewer trees exist.

        Shape: ``[k, batch]`` and ``[k, batch, n, n]``
        """
        if k < 1:
            raise ValueError(f"topk needs k >= 1, got {k}.")
        nodes = self._kernels.topk(self._scores, self.lengths, k)
        return self._score_or_never(nodes), nodes

    def sample(self, k: int = 1, *, generator: torch.Generator | None = None) -> Tensor:
        """Trees drawn from the distribution; all -1 where no tree is possible. Shape: ``[k, batch, n, n]``."""
        if k < 0:
            raise ValueError(f"sample needs k >= 0, got {k}.")
        return self._kernels.sample(self._scores, self.lengths, k, generator)

    def mbr(self, label_weights: Tensor | Sequence[float] | None = None) -> Tensor:
        """Minimum-risk decoding: among the possible trees, the one with the most labelled nodes expected to be right.

        Args:
            label_weights: ``[label]``: what a right node of each label counts; 1 if left out. With 0 for latent labels,
                only entities count, and a node takes any entity label that has a chance at all: drop improbable
                entities afterwards by their marginals.

        Shape: ``[batch, n, n]``, as :attr:`argmax`
        """
        with torch.no_grad():
            worth = self._kernels.marginals(self._scores.detach(), self.lengths)
            if label_weights is not None:
                weights = torch.as_tensor(label_weights, dtype=worth.dtype, device=worth.device)
                if weights.shape != worth.shape[-1:] or not bool(weights.isfinite().all()):
                    raise ValueError(
                        f"label_weights must be [{worth.shape[-1]}] finite numbers, got shape {list(weights.shape)}."
                    )
                worth = worth * weights
            worth = worth.masked_fill(self._scores == NEVER, NEVER)
            return self._kernels.best_tree(worth, self.lengths)

    # --- Information ---

    @property
    def entropy(self) -> Tensor:
        """In nats; 0 where no tree is possible. Differentiable, its gradient too. Shape: ``[batch]``."""
        return self._once("entropy", lambda: self._kernels.entropy(self._scores, self.lengths, self._scores.dtype))

    def cross_entropy(self, other: TreeCRF) -> Tensor:
        """``-E[log q(T)]`` for trees of this distribution and q = ``other``; inf where q forbids what this allows.

        Shape: ``[batch]``
        """
        self._check_other(other)
        return self._out(self._divergence(other, other._scores, subtract_own=False))

    def kl(self, other: TreeCRF) -> Tensor:
        """``KL(self || other)``; inf where the other distribution forbids what this one allows. Shape: ``[batch]``."""
        self._check_other(other)
        return self._out(self._divergence(other, other._scores - self._scores, subtract_own=True))

    def surprise(self, marginals: Tensor) -> Tensor:
        """``-E[log q(T)]`` of this distribution q, for trees of a distribution with these marginals.

        ``p.cross_entropy(q)`` is ``q.surprise(p.marginals)``: the mean of a sum over nodes depends on nothing else.
        Less p's entropy it is ``p.kl(q)``, and its gradient is this distribution's marginals less those. Where p stays
        the same, as a teacher does, p's marginals and entropy are computed once, and q takes one inside pass.

        Args:
            marginals: as :attr:`marginals` of the other distribution; what stands outside sentences does not count.

        Shape: ``[batch, n, n, label]`` to ``[batch]``; inf where this distribution forbids what the other one allows
        """
        if marginals.shape != self._scores.shape:
            raise ValueError(
                f"the marginals have shape {list(marginals.shape)}, but log_potentials {list(self._scores.shape)}; "
                "both must be the same."
            )
        spans = span_grid(self.lengths, self._scores.shape[1])[..., None]
        counted = spans & (marginals > 0)
        products = torch.where(counted, self._scores, 0.0) * torch.where(counted, marginals, 0.0)
        total = self._kernels.inside(self._scores, self.lengths)
        value = total - products.sum((1, 2, 3), dtype=torch.float64)
        nothing = torch.where(counted.flatten(1).any(1), float("inf"), 0.0).to(value.dtype)
        return self._out(torch.where(total == NEVER, nothing, value))

    def _divergence(self, other: TreeCRF, direction: Tensor, subtract_own: bool) -> Tensor:
        """``other.log_partition - E[direction]``, less this distribution's log partition if wanted."""
        # What is -inf in the other distribution is dealt with below; in both, it counts for nothing.
        direction = torch.where(direction.isfinite(), direction, 0.0)
        own, mean = self._kernels.expectation(self._scores, direction, self.lengths)
        theirs = other._kernels.inside(other._scores, other.lengths)
        value = theirs - mean - own if subtract_own else theirs - mean
        forbidden = (self._scores > NEVER) & (other._scores == NEVER)
        if torch.compiler.is_compiling() or bool(forbidden.any()):
            missed = self._kernels.marginals(self._scores.detach(), self.lengths) * forbidden
            value = torch.where(missed.amax((1, 2, 3)) > 0, float("inf"), value)
        return torch.where(own == NEVER, 0.0, value)

    # --- Inside this class ---

    def _once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """Computes a property when it is first asked for: once with gradients and once without, as wanted."""
        key = (name, torch.is_grad_enabled())
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def _inside(self, scores: Tensor, codes: SpanCodes | None = None) -> Tensor:
        return self._kernels.inside(scores, self.lengths, codes, self._scores.dtype)

    def _out(self, value: Tensor) -> Tensor:
        """Sums are made in float64 and handed out in the type that the potentials are computed in."""
        return value.to(self._scores.dtype)

    def _score_or_never(self, nodes: Tensor) -> Tensor:
        return torch.where((nodes < 0).all(-1).all(-1), NEVER, self.score(nodes))

    def _check_mask(self, mask: object) -> Tensor:
        if not isinstance(mask, Tensor):
            raise TypeError(f"what was observed must be PartialTrees or a torch.Tensor, got {_name(mask)}.")
        if mask.shape != self.log_potentials.shape:
            raise ValueError(
                f"the mask has shape {list(mask.shape)}, but log_potentials {list(self.log_potentials.shape)}; "
                "both must be the same."
            )
        unseen = torch.compiler.is_compiling() or later.is_recorded(mask)
        if not unseen and mask.dtype != torch.bool:
            wrong = ~((mask >= 0) & (mask < float("inf")))
            if bool(wrong.any()):
                self._refuse_weights(mask, wrong)
        return mask

    def _refuse_weights(self, mask: Tensor, wrong: Tensor) -> None:
        """Weights that are no weights are an error, unless they stand where there is no span."""
        found = torch.nonzero(wrong & span_grid(self.lengths, mask.shape[1])[..., None])
        if len(found):
            sentence, start, end, label = found[0].tolist()
            raise ValueError(
                f"the mask has weight {float(mask[sentence, start, end, label])} at sentence {sentence}, "
                f"span ({start}, {end}), label {label}; weights are finite and not negative."
            )

    def _codes(self, observed: PartialTrees | Tensor, smoothing: float, scope: Scope) -> SpanCodes | Tensor:
        """The mask in its small form if it has one, else dense. A dense one has no use for the other arguments."""
        if isinstance(observed, PartialTrees):
            self._check_partial(observed)
            if observed.sets is not None:
                return observed.mask(smoothing, scope, dtype=torch.float64)
            return observed.span_codes(smoothing, scope)
        if smoothing or scope != "rejected":
            raise ValueError("smoothing and scope go with PartialTrees; a dense mask holds its own weights.")
        return self._check_mask(observed)

    def _check_other(self, other: TreeCRF) -> None:
        if not isinstance(other, TreeCRF):
            raise TypeError(f"the other distribution must be a TreeCRF, got {_name(other)}.")
        same = "both distributions must be over the same trees"
        if other.log_potentials.shape != self.log_potentials.shape:
            shapes = f"{list(self.log_potentials.shape)} and {list(other.log_potentials.shape)}"
            raise ValueError(f"{same}; their shapes are {shapes}.")
        if not torch.compiler.is_compiling() and not torch.equal(self.lengths, other.lengths):
            sentence = int(torch.nonzero(self.lengths != other.lengths)[0])
            lengths = f"{int(self.lengths[sentence])} and {int(other.lengths[sentence])}"
            raise ValueError(f"{same}; sentence {sentence} has {lengths} words.")

    def _check_partial(self, partial: PartialTrees) -> None:
        if partial.codes.shape != self.log_potentials.shape[:3] or partial.labels != self.log_potentials.shape[3]:
            found = [*partial.codes.shape, partial.labels]
            raise ValueError(
                f"the partial trees are for potentials of shape {found}, these are {list(self.log_potentials.shape)}. "
                "The label axis holds entity_labels + latent_labels; from_spans(n=...) sets the size of the charts."
            )
        if partial.codes.device != self.log_potentials.device:
            raise ValueError(
                f"the partial trees are on {partial.codes.device}, the potentials on {self.log_potentials.device}: "
                "call partial.to(device)."
            )
        # The Triton kernels compare lengths themselves, without a wait.
        known = torch.compiler.is_compiling() or self.backend == "triton"
        if not known and not torch.equal(partial.lengths, self.lengths):
            sentence = int(torch.nonzero(partial.lengths != self.lengths)[0])
            raise errors.other_length(sentence, int(self.lengths[sentence]), int(partial.lengths[sentence]))


def _check_potentials(log_potentials: object) -> None:
    if not isinstance(log_potentials, Tensor):
        raise TypeError(f"log_potentials must be a torch.Tensor, got {_name(log_potentials)}.")
    shape = log_potentials.shape
    if len(shape) != 4 or shape[1] != shape[2] or shape[1] < 1 or shape[3] < 1:
        raise ValueError(f"log_potentials must be [batch, n, n, label] with n, label >= 1; got {list(shape)}.")
    if not log_potentials.is_floating_point():
        raise TypeError(f"log_potentials must be floating point, got {log_potentials.dtype}.")


def _check_lengths(lengths: Tensor | Sequence[int] | None, log_potentials: Tensor, backend: str) -> Tensor:
    batch, n = log_potentials.shape[:2]
    device = log_potentials.device
    if lengths is None:
        return torch.full((batch,), n, dtype=torch.int64, device=device)
    if not isinstance(lengths, Tensor):
        lengths = torch.as_tensor(lengths, device="cpu") if batch else torch.zeros(len(lengths), dtype=torch.int64)
    if lengths.shape != (batch,) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be {batch} whole numbers, got {lengths.dtype} of shape {list(lengths.shape)}.")
    # On a GPU a look at the numbers would wait for everything under way: the kernels look themselves.
    if batch and not torch.compiler.is_compiling() and (lengths.device.type == "cpu" or backend == "torch"):
        errors.require_lengths(lengths, n)
    if lengths.dtype is torch.int64 and lengths.device == device and lengths.is_contiguous():
        return lengths
    return lengths.to(device, torch.int64).contiguous()


def _name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def normalize_potentials(
    log_potentials: Tensor, lengths: Tensor | Sequence[int] | None = None, *, epsilon: float = 1e-5
) -> Tensor:
    """Potential normalisation (PN): shifts and scales each sentence's potentials to mean 0 and variance 1.

    Counted are the labelled spans of the sentence, without those that are -inf, which stay. What stands outside it
    becomes 0: a sentence's potentials do not depend on what it is batched with.

    Args:
        log_potentials: ``[batch, n, n, label]``, of any floating type.
        lengths: words in each sentence; all n if left out.
        epsilon: added to the variance.

    Shape: ``[batch, n, n, label]``, float32 at least
    """
    _check_potentials(log_potentials)
    name, kernels = choose(log_potentials.device)
    return kernels.normalize(log_potentials, _check_lengths(lengths, log_potentials, name), epsilon)


def inside(log_potentials: Tensor, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
    """The log-sum over all trees. Shape: ``[batch, n, n, label]`` and ``[batch]`` to ``[batch]``."""
    return TreeCRF(log_potentials, lengths).log_partition


def masked_inside(
    log_potentials: Tensor,
    observed: PartialTrees | Tensor,
    lengths: Tensor | Sequence[int] | None = None,
    *,
    smoothing: float = 0.0,
    scope: Scope = "rejected",
) -> Tensor:
    """The log-sum over the trees that a mask allows (Algorithm 3). Shape: as :func:`inside`.

    ``lengths`` may be left out with partial trees, which know theirs.
    """
    if lengths is None and isinstance(observed, PartialTrees):
        lengths = observed.lengths
    return TreeCRF(log_potentials, lengths).masked_log_partition(observed, smoothing=smoothing, scope=scope)
