"""What a model is made of: everything that is saved beside its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from nestree.data import Policies, Splitter, split_label

Scorer = Literal["biaffine", "bilinear", "biaffine-separate"]
Word = Literal["first", "last", "mean"]
Loss = Literal["treecrf", "local"]
Scope = Literal["rejected", "all"]
Decoding = Literal["map", "mbr"]

CHOICES: dict[str, tuple[str, ...]] = {
    "scorer": get_args(Scorer),
    "word": get_args(Word),
    "loss": get_args(Loss),
    "smoothing_scope": get_args(Scope),
    "decoding": get_args(Decoding),
}


@dataclass(frozen=True)
class ModelConfig:
    """The settings of a model.

    Attributes:
        labels: the entity labels, in the order of their scores; joined ones (``DNA|protein``) among them.
        encoder: a name or folder of a Hugging Face encoder; ``minilm`` is the embedded default.
        latent_labels: how many labels latent nodes can take; they follow the entity labels.
        word: which of a word's pieces stands for it: the first, the last, or the mean of all.
        dropout: after the encoder.
        scorer: "biaffine" is the paper's Equation 2; "bilinear" leaves out its linear term and bias;
            "biaffine-separate" has own feed-forward layers for the start and the end of a span.
        normalize: potential normalisation (PN): each sentence's scores to mean 0 and variance 1, over its spans.
        gain: where a learned factor of the normalised scores starts; 0: there is none, as in the paper.
        loss: "treecrf", or "local": one softmax per span, the paper's "without TreeCRF".
        smoothing: weight of what the annotation rules out (structure smoothing).
        smoothing_scope: what gets that weight: the "rejected" spans, or "all" that is ruled out.
        gumbel: whether the smoothing weights are drawn anew in each step (see :meth:`PartialTrees.mask`).
        entropy_weight: reward for the entropy of the tree.
        decoding: "map", the entities of the best tree, or "mbr" (minimum Bayes risk), those that are more probable than
            not: the fewest errors to be expected.
        temperature: divides the log potentials when the model predicts, never when it learns: above 1, probabilities
            are less extreme. The best tree stays the same; what "mbr" finds can change. ``nestree calibrate`` fits it.
        policies: how annotation was made to fit.
        splitter: how raw text is split.
    """

    labels: tuple[str, ...]
    encoder: str = "minilm"
    latent_labels: int = 1
    word: Word = "first"
    dropout: float = 0.2
    scorer: Scorer = "biaffine"
    normalize: bool = True
    gain: float = 0.0
    loss: Loss = "treecrf"
    smoothing: float = 0.02
    smoothing_scope: Scope = "rejected"
    gumbel: bool = False
    entropy_weight: float = 0.0
    decoding: Decoding = "map"
    temperature: float = 1.0
    policies: Policies = field(default_factory=Policies)
    splitter: Splitter = field(default_factory=Splitter)

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} is {value!r}; known are {', '.join(map(repr, known))}.")
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError(f"labels must be some, each once; got {list(self.labels)}.")
        if self.latent_labels < 1:
            raise ValueError(f"latent_labels is {self.latent_labels}; latent nodes need at least one.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not 0 <= self.gain < math.inf:
            raise ValueError(f"gain is {self.gain}; it must be a number, 0 or more.")
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing is {self.smoothing}; it must be between 0 and 1.")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature is {self.temperature}; it must be finite and more than 0.")

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """What people annotate, of each label: several labels of a joined one."""
        joined = self.policies.same_span == "composite"
        return tuple(split_label(label) if joined else (label,) for label in self.labels)

    @property
    def single_labels(self) -> tuple[str, ...]:
        """The labels that people annotate, and that predictions have."""
        return tuple(sorted({part for parts in self.parts for part in parts}))

    @property
    def has_joined_labels(self) -> bool:
        """Whether a label stands for several, or for one of another name."""
        return self.single_labels != self.labels

    @property
    def has_gain(self) -> bool:
        """Whether scores are normalised and then multiplied by a learned factor."""
        return self.gain > 0 and self.normalize and self.loss == "treecrf"

    @property
    def all_labels(self) -> int:
        """Entity and latent labels together."""
        return len(self.labels) + self.latent_labels

    def as_dict(self) -> dict[str, Any]:
        """As it stands in ``nestree.json``."""
        return {**asdict(self), "labels": list(self.labels)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelConfig:
        """From ``nestree.json``. Unknown keys are an error that lists the known ones."""
        known = [one.name for one in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(known)}.")
        found = dict(values)
        found["labels"] = tuple(found.get("labels", ()))
        if "policies" in found:
            found["policies"] = Policies.from_dict(found["policies"])
        if "splitter" in found:
            found["splitter"] = Splitter(**found["splitter"])
        return cls(**found)
