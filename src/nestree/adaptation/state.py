"""How far an adaptation has come, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any


@dataclass(frozen=True)
class AdaptResult:
    """How an adaptation ended.

    Attributes:
        folder: of the encoder.
        before: perplexity of held-out text before.
        after: and after.
        round: the best one; 0: none was better than what was there before.
        steps: that were done.
        seconds: it took.
    """

    folder: str
    before: float
    after: float
    round: int
    steps: int
    seconds: float

    @classmethod
    def of(cls, folder: str | PathLike[str], found: Mapping[str, Any]) -> AdaptResult:
        """As ``result.json`` has it."""
        before, after = found["perplexity_before"], found["perplexity_after"]
        return cls(str(folder), before, after, found["round"], found["steps"], found["seconds"])


@dataclass(frozen=True)
class State:
    """How far it has come: steps and rounds that are done, costs of held-out text, and the sum of losses of a round."""

    step: int = 0
    round: int = 0
    before: float = math.nan
    best: float = math.inf
    best_round: int = 0
    loss: float = 0.0
    since: int = 0

    def result(self, epochs: float, seconds: float) -> dict[str, Any]:
        """As ``result.json`` has it, after so many passes to the best round, and so many seconds in all."""
        return {
            "perplexity_before": perplexity(self.before),
            "perplexity_after": perplexity(self.best),
            "round": self.best_round,
            "epochs": epochs,
            "steps": self.step,
            "seconds": round(seconds, 1),
        }


def perplexity(cost: float) -> float:
    """Of a mean cost in nats."""
    return math.exp(min(cost, 100.0))
