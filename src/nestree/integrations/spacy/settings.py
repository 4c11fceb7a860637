"""What can be set of the spaCy component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CHOICES: dict[str, tuple[str | None, ...]] = {
    "ents": (None, "outermost", "innermost", "best"),
    "words": ("model", "spacy"),
    "sentences": ("spacy", "model"),
}


@dataclass(frozen=True)
class Settings:
    """The settings of the component, as they stand in a pipeline's ``config.cfg``.

    Attributes:
        model: the model's folder, or its name on the hub. A pipeline that is saved carries its model along.
        spans_key: entities go to ``doc.spans[spans_key]``, their scores to its ``attrs["scores"]``.
        ents: which of them also become ``doc.ents``, where no two may share a token: the "outermost", the "innermost"
            or the "best"-scoring ones, in place of those that are there; None: ``doc.ents`` stay as they are.
        threshold: the least probability of an entity, for all labels or by label; None: the model decides.
        words: what the model reads as words: those that the "model" itself splits the text into, and entities then grow
            to whole tokens; or the tokens of "spacy", one by one.
        sentences: those of "spacy", if a component has found them, and the model's otherwise; or always the "model"'s.
        overwrite: whether spans of others under this key may be replaced.
        device: where the model computes: "cpu", "cuda", "cuda:1", "mps"; "auto": an NVIDIA GPU if there is one.
    """

    model: str | None = None
    spans_key: str = "sc"
    ents: Any = None
    threshold: float | dict[str, float] | None = None
    words: str = "model"
    sentences: str = "spacy"
    overwrite: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} is {value!r}; known are {', '.join(map(repr, known))}.")
        if not self.spans_key:
            raise ValueError("spans_key is empty; it is a key of doc.spans, such as 'sc'.")
