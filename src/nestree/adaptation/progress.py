"""What people see while an encoder is adapted."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nestree.training.progress import Progress, clock


@dataclass(frozen=True)
class RoundResult:
    """How a round went: mean loss of its guesses, perplexity of held-out text, pieces per second, seconds in all."""

    number: int
    step: int
    epoch: float
    loss: float
    perplexity: float
    best: bool
    pieces_per_second: float
    seconds: float


class AdaptProgress(Progress):
    """Shows an adaptation: a bar in a terminal, a line for each round everywhere."""

    def begin(self, rounds: int, steps: int, at: int, what: str) -> None:
        """So many steps in so many rounds begin, or go on at a step."""
        self._rounds, self._steps, self._at = rounds, steps, at
        self.start(1, steps, at, what)

    def stepped(self, number: int, loss: float | None, speed: float | None) -> None:
        """A step of a round was done; of some the loss is known."""
        self._advance(f"round {number}/{self._rounds}", loss, f", {speed:,.0f} pieces/s" if speed else "")

    def round(self, result: RoundResult) -> None:
        """A round is over."""
        self._scores = f", perplexity {result.perplexity:.2f}"
        left = ""
        if self._bar is None and result.step < self._steps:
            spent = time.monotonic() - self._began
            seconds = spent / max(1, result.step - self._at) * (self._steps - result.step)
            left = f"  {clock(seconds)} left"
        width = len(str(self._rounds))
        self.message(
            f"round {result.number:{width}}/{self._rounds}  pass {result.epoch:6.2f}  loss {result.loss:7.4f}  "
            f"held out: perplexity {result.perplexity:9.2f}  {result.pieces_per_second:8,.0f} pieces/s"
            f"{left}{'  best so far' if result.best else ''}"
        )


class SilentProgress(AdaptProgress):
    """Shows nothing; for processes beside the first."""

    def __init__(self) -> None:
        super().__init__(terminal=False)

    def message(self, text: str) -> None:
        """Nothing is told."""
