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
