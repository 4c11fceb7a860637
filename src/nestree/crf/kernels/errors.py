"""The errors that every backend raises, each naming the sentence and the span."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch import Tensor


class NoTreeError(ValueError):
    """No tree is possible for some sentences. ``sentences`` holds their indices in the batch."""

    def __init__(self, message: str, sentences: list[int]) -> None:
        super().__init__(message)
        self.sentences = sentences


def raise_not_finite(scores: Tensor) -> NoReturn:
    """Names the first NaN or +inf. Shape: ``[batch, n, n, label]``."""
    sentence, start, end, label = torch.nonzero(~(scores < float("inf")))[0].tolist()
    raise not_finite(float(scores.detach()[sentence, start, end, label]), sentence, start, end, label)


def not_finite(value: float, sentence: int, start: int, end: int, label: int) -> ValueError:
    """The error for a NaN or +inf among the potentials."""
    found = "NaN" if value != value else "+inf"
    return ValueError(
        f"log_potentials has {found} at sentence {sentence}, span ({start}, {end}), label {label}. "
        "Potentials must be finite or -inf; look for a diverged model or a division by zero before the CRF."
    )


def length_out_of_range(sentence: int, length: int, n: int) -> ValueError:
    """The error for a length that is no sentence's."""
    advice = " Leave empty sentences out of the batch." if length < 1 else ""
    return ValueError(
        f"lengths[{sentence}] is {length}, but log_potentials has room for sentences of 1 to {n} words.{advice}"
    )


def require_lengths(lengths: Tensor, n: int) -> None:
    """Raises if a length is no sentence's. Shape: ``[batch]``."""
    wrong = torch.nonzero((lengths < 1) | (lengths > n))
    if len(wrong):
        raise length_out_of_range(int(wrong[0]), int(lengths[wrong[0]]), n)


def other_length(sentence: int, length: int, of_partial: int) -> ValueError:
    """The error for partial trees that were made for other sentences."""
    return ValueError(
        f"sentence {sentence} has {length} words in lengths (all n if left out), but {of_partial} in the partial trees."
    )


def out_of_range(scores: Tensor, length: int, sentence: int, too_large: bool) -> ValueError:
    """The error for numbers beyond what the GPU kernels count with. Shape: the sentence's scores, ``[n, n, label]``."""
    inner = torch.ones(scores.shape[:2], dtype=torch.bool, device=scores.device).triu(1)
    inner[:, length:] = inner[0, length - 1] = False  # leaves and root have no limit
    extreme = -float("inf") if too_large else float("inf")
    counts = inner[..., None] & (scores > float("-inf"))
    candidates = torch.where(counts, scores, extreme)
    place = int(candidates.argmax() if too_large else candidates.argmin())
    start, end = divmod(place // scores.shape[2], scores.shape[1])
    return ValueError(
        f"log_potentials goes to {float(scores.flatten()[place]):.3g} at sentence {sentence}, span ({start}, {end}), "
        + ("which is" if too_large else "and every tree needs spans that are")
        + " beyond the range of the GPU kernels. Normalise the potentials (nestree.crf.normalize_potentials), "
        'write -inf for what is forbidden, or use nestree.crf.backend("torch").'
    )


def require_trees(masked: Tensor, plain: Tensor) -> None:
    """Raises :class:`NoTreeError` if a mask leaves a sentence without a tree. Shape: the two log sums, ``[batch]``."""
    never = float("-inf")
    impossible = torch.nonzero(masked == never)[:, 0].tolist()
    if not impossible:
        return
    hopeless = torch.nonzero(plain == never)[:, 0].tolist()
    if hopeless:
        cause = f"The potentials alone, by their -inf entries, allow no tree in {_sentences(hopeless)}: mend those,"
    else:
        cause = (
            "The potentials allow trees, but none that the mask allows as well (with latent_labels=0, latent spans "
            'have no label to take). Use smoothing > 0 with scope="all",'
        )
    raise NoTreeError(
        f"no tree is possible in {_sentences(impossible)} (of {len(masked)} in the batch). {cause} "
        'or impossible="-inf" to get -inf and zero gradients for them.',
        impossible,
    )


def _sentences(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:10])) + (", ..." if len(indices) > 10 else "")
    return f"sentence {shown}" if len(indices) == 1 else f"sentences {shown}"
