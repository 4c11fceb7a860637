"""Whether scores are probabilities: of entities with score 0.8, four in five should be right. How to make them so:
:mod:`nestree.evaluation.temperature`.

**Measuring** needs predictions with scores and gold, nothing else (no torch): a reliability table with bins of equal
width or of equal mass, the expected calibration error (ECE), and the Brier score, over all labels and for each.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nestree.data.errors import DataError, shown
from nestree.data.files import written_bytes
from nestree.data.model import Document
from nestree.evaluation.metrics import Key, keys

if TYPE_CHECKING:
    pass

Numbers = NDArray[np.float64]
Bins = Literal["width", "mass"]

LOWEST, HIGHEST = 1 / 16, 16.0
"""Temperatures that are looked at. A model that needs another one has other troubles."""
DRAWN = 25
"""Entities that a drawn bin has at least."""
_TINY = 1e-7  # about what float32 leaves of 1 - p


# --- How good scores are ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scored:
    """Predicted entities.

    Attributes:
        scores: between 0 and 1. Shape: ``[entity]``
        right: whether gold has them. Shape: bool ``[entity]``
        labels: Shape: ``[entity]``
    """

    scores: Numbers
    right: NDArray[np.bool_]
    labels: NDArray[np.str_]

    def __post_init__(self) -> None:
        if not len(self.scores) == len(self.right) == len(self.labels):
            sizes = f"{len(self.scores)}, {len(self.right)} and {len(self.labels)}"
            raise ValueError(f"scores, right and labels must be equally long; got {sizes}.")
        if len(self.scores) and not (self.scores.min() >= 0 and self.scores.max() <= 1):
            raise ValueError("scores are probabilities, between 0 and 1.")

    def __len__(self) -> int:
        return len(self.scores)

    def of(self, label: str) -> Scored:
        """Those of one label."""
        chosen = self.labels == label
        return Scored(self.scores[chosen], self.right[chosen], self.labels[chosen])


class Bin(NamedTuple):
    """Entities with similar scores: from, to, how many, their mean score, the share that is right."""

    low: float
    high: float
    entities: int
    confidence: float
    precision: float


@dataclass(frozen=True)
class Calibration:
    """How good scores are as probabilities.

    Attributes:
        entities: how many.
        confidence: their mean score.
        precision: the share that is right.
        ece: expected calibration error, in bins of equal width.
        ece_mass: the same in bins of equally many entities.
        brier: the mean of (score - right)².
    """

    entities: int
    confidence: float
    precision: float
    ece: float
    ece_mass: float
    brier: float

    def as_dict(self) -> dict[str, float]:
        """For JSON, rounded to 6 digits."""
        return {name: round(value, 6) for name, value in vars(self).items()}


def scored(gold: Iterable[Document], predicted: Iterable[Document]) -> Scored:
    """The scores of predictions of the same documents in the same order; what is predicted twice counts once.

    Raises:
        DataError: an entity has no score, or one that is no probability; says where.
    """
    found: list[tuple[float, bool, str]] = []
    for wanted, document in zip(gold, predicted, strict=True):
        right = keys(wanted)
        seen: set[Key] = set()
        for number, entity in enumerate(document.entities):
            key: Key = ((entity.start, entity.end, entity.fragments), entity.label)
            if entity.score is None or not 0 <= entity.score <= 1:
                fault = "has no score" if entity.score is None else f"has the score {entity.score}"
                what = f"the entity {shown(document.text_of(entity))} {entity.label} {fault}"
                advice = "Calibration needs a score between 0 and 1 for every entity."
                raise DataError(what, path=document.place_of(number) or None, advice=advice)
            if key not in seen:
                seen.add(key)
                found.append((entity.score, key in right, entity.label))
    scores, correct, labels = zip(*found, strict=True) if found else ((), (), ())
    return Scored(np.array(scores, dtype=np.float64), np.array(correct, dtype=bool), np.array(labels, dtype=np.str_))


def reliability(entities: Scored, bins: int = 10, how: Bins = "width") -> list[Bin]:
    """The reliability table, from low scores to high; empty bins are left out.

    Args:
        entities: predictions with scores.
        bins: how many, at most.
        how: bins of equal "width" between 0 and 1, or of equal "mass": equally many entities in each, as far as equal
            scores stay together.
    """
    if bins < 1 or how not in ("width", "mass"):
        raise ValueError(f"need bins >= 1 and how 'width' or 'mass', got {bins} and {how!r}.")
    order = np.argsort(entities.scores, kind="stable")
    scores, right = entities.scores[order], entities.right[order]
    if how == "width":
        edges = np.linspace(0, 1, bins + 1)
        cuts = [0, *np.searchsorted(scores, edges[1:-1], "left").tolist(), len(scores)]
    else:
        wanted = [len(scores) * at // bins for at in range(1, bins)] if len(scores) else []
        cuts = sorted({0, *np.searchsorted(scores, scores[wanted], "left").tolist(), len(scores)})
    found = []
    for number, (start, end) in enumerate(pairwise(cuts)):
        if end > start:
            inside = scores[start:end]
            low, high = (edges[number], edges[number + 1]) if how == "width" else (inside[0], inside[-1])
            share = float(right[start:end].mean())
            found.append(Bin(float(low), float(high), end - start, float(inside.mean()), share))
    return found


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """The mean distance between score and share of right ones, each bin by its number of entities; 0 of nothing."""
    total = sum(one.entities for one in bins)
    return sum(one.entities * abs(one.confidence - one.precision) for one in bins) / total if total else 0.0


def calibration(entities: Scored, bins: int = 10) -> Calibration:
    """All numbers; they are 0 where there is no entity."""
    if not len(entities):
        return Calibration(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    width, mass = (expected_calibration_error(reliability(entities, bins, how)) for how in ("width", "mass"))
    brier = float(((entities.scores - entities.right) ** 2).mean())
    return Calibration(len(entities), float(entities.scores.mean()), float(entities.right.mean()), width, mass, brier)


def calibration_by_label(entities: Scored, bins: int = 10) -> dict[str, Calibration]:
    """The same for each label, sorted by label."""
    return {str(label): calibration(entities.of(label), bins) for label in np.unique(entities.labels)}


# --- The picture -----------------------------------------------------------------------------------------------------


def reliability_png(
    entities: Mapping[str, Scored], path: str | PathLike[str], *, bins: int = 10, title: str = ""
) -> Path:
    """Draws the share of right entities by score, in bins of equal mass, and how scores are distributed.

    Args:
        entities: predictions by name, such as before and after; drawn in one picture.
        path: where the PNG goes.
        bins: how many for the ECE; drawn are fewer, if they would have fewer than 25 entities. Bars show between what
            the share could be by chance (Wilson's interval, 95 percent).
        title: stands above.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('drawing needs matplotlib: pip install "nestree[plots]"') from None
    from nestree.drawing.spans import PALETTE

    picture = BytesIO()
    with matplotlib.rc_context({"font.size": 10.5}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in letters that the typeface lacks
        figure = Figure(figsize=(6.4, 7.2), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        upper.plot([0, 1], [0, 1], color="#818b98", linewidth=1, linestyle="--", label="score = share")
        for number, (name, one) in enumerate(entities.items()):
            _curve(upper, lower, name.replace("$", r"\$"), one, bins, PALETTE[number % len(PALETTE)], number)
        upper.set(ylabel="share of them that is right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        upper.legend(frameon=False, loc="upper left", fontsize=9.5)
        lower.set(xlabel="score of predicted entities", ylabel="entities")
        if title:
            upper.set_title(title.replace("$", r"\$"), fontsize=11)
        for axis in (upper, lower):
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(axis="y", alpha=0.2, linewidth=0.8)
        figure.savefig(picture, dpi=130, format="png")
    with written_bytes(Path(path)) as stream:
        stream.write(picture.getvalue())
    return Path(path)


def _curve(upper: Any, lower: Any, name: str, entities: Scored, bins: int, colour: str, number: int) -> None:
    error = expected_calibration_error(reliability(entities, bins, "mass"))
    label = f"{name}: ECE {error:.3f}, {len(entities):,} entities" if len(entities) else f"{name}: no entities"
    found = reliability(entities, min(bins, max(1, len(entities) // DRAWN)), "mass")
    at, share = [one.confidence for one in found], [one.precision for one in found]
    upper.plot(at, share, color=colour, marker="os^v"[number % 4], linewidth=1.6, label=label)
    for one in found:
        low, high = _wilson(one.precision, one.entities)
        upper.plot([one.confidence] * 2, [low, high], color=colour, linewidth=3, alpha=0.3, solid_capstyle="butt")
    edges = np.linspace(0, 1, 21)
    lower.hist(entities.scores, bins=edges.tolist(), histtype="step", color=colour, linewidth=1.6)


def _wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return middle - half, middle + half
