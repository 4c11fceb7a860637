"""What a training run is: a corpus, an encoder, a recipe with changes, a seed. Equal runs are run once.

Experiments share runs: the baseline of one is the main result of another. So a run is named after its settings, and
not after the experiment that asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from experiments.corpora import epochs
from nestree.training import TrainConfig

Missing = Literal["open", "negative"]
Value = str | int | float | bool

RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    # The paper's model, loss and decoding, with the optimizer of the default: the paper's learning rates are for BERT.
    "paper": {"gain": 0.0, "mask": 0.0, "ema": 0.0, "dropout": 0.2, "decoding": "map"},
}
RATES: tuple[tuple[int, dict[str, Any]], ...] = (
    (512, {}),
    (768, {"encoder_lr": 5e-5, "head_lr": 5e-4}),
    (1 << 30, {"encoder_lr": 2e-5, "head_lr": 2e-4}),
)
"""Learning rates by the width of the encoder: those for the widest at most so wide."""


@dataclass(frozen=True)
class Run:
    """The settings of a training run.

    Attributes:
        corpus: its name (:mod:`experiments.corpora`).
        encoder: its short name.
        recipe: where settings start from (:data:`RECIPES`).
        changes: settings of ``nestree train`` that differ from the recipe, sorted by name.
        seed: of everything random, the choice of training data included.
        sentences: the share of training documents that is kept.
        annotated: the share of their entities that is kept.
        missing: what documents say if entities were removed: that they are incomplete ("open"), or nothing, so that
            what is missing counts as no entity ("negative").
    """

    corpus: str
    encoder: str
    recipe: str = "default"
    changes: tuple[tuple[str, Value], ...] = ()
    seed: int = 0
    sentences: float = 1.0
    annotated: float = 1.0
    missing: Missing = "open"

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise ValueError(f"there is no recipe {self.recipe!r}; known are {', '.join(RECIPES)}.")
        if self.missing not in get_args(Missing):
            raise ValueError(f"missing is {self.missing!r}; known are {', '.join(get_args(Missing))}.")
        for name in ("sentences", "annotated"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be more than 0 and at most 1.")
        object.__setattr__(self, "changes", tuple(sorted(self.changes)))
        self.config()

    def config(self, width: int = 384) -> TrainConfig:
        """All settings, for an encoder of that width; an unknown one is an error that lists the known ones."""
        rates = next(values for widest, values in RATES if width <= widest)
        usual = {"epochs": epochs(self.corpus), "seed": self.seed, "tensorboard": False}
        cut = {"missing_labels": "ignore"} if self.is_cut else {}
        values = {**usual, **rates, **RECIPES[self.recipe], **cut, **dict(self.changes)}
        return TrainConfig().updated(values, f"the run {self.corpus}, {self.recipe}")

    @property
    def is_cut(self) -> bool:
        """Whether training data are left out."""
        return self.sentences < 1 or self.annotated < 1

    @property
    def kind(self) -> str:
        """The settings in words, without the seed: runs that differ in that alone are counted together."""
        parts = [self.recipe, *(f"{name}={value}" for name, value in self.changes)]
        if self.sentences < 1:
            parts.append(f"sentences={self.sentences:g}")
        if self.annotated < 1:
            parts += [f"annotated={self.annotated:g}", f"missing={self.missing}"]
        return ",".join(parts)

    @property
    def name(self) -> str:
        """As a path: of its JSON, and of its folder."""
        return f"{self.corpus}/{self.encoder}/{self.kind},seed={self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "changes": dict(self.changes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """From JSON. Unknown keys are an error."""
        return cls(**{**values, "changes": tuple(dict(values.get("changes", {})).items())})


def changed(run: Run, **changes: Value) -> Run:
    """The run with other settings of ``nestree train``."""
    values = {**run.as_dict(), "changes": {**dict(run.changes), **changes}}
    return Run.from_dict(values)
