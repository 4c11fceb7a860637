"""What people see while a model is trained: a bar in a terminal, a line for each epoch everywhere else."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, TextIO

from nestree.evaluation import Scores


@dataclass(frozen=True)
class EpochResult:
    """How an epoch went: mean loss, scores on dev, sentences per second in training, seconds since the start."""

    epoch: int
    step: int
    loss: float
    scores: Scores
    best: bool
    sentences_per_second: float
    seconds: float


class Progress:
    """Shows a run. All methods can be overridden by whoever wants to show it in another way.

    Args:
        stream: where to; stderr if left out.
        terminal: whether a bar can be drawn there; found out if left out.
    """

    def __init__(self, stream: TextIO | None = None, terminal: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty() if terminal is None else terminal
        self._bar: Any = None
        self._began = 0.0
        self._epochs = 0
        self._scores = ""
        self._done = 0

    def start(self, epochs: int, steps: int, at: int, what: str) -> None:
        """A run of so many epochs of so many steps begins, or goes on at a step."""
        self._epochs, self._began, self._done, self._scores = epochs, time.monotonic(), 0, ""
        self.message(what)
        if self._terminal:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            shape = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps, {remaining} left{postfix}"
            self._bar = tqdm(total=epochs * steps, initial=at, file=self._stream, bar_format=shape, leave=False)

    def step(self, epoch: int, loss: float | None, speed: float | None) -> None:
        """A step was done; of some the loss is known."""
        self._advance(f"epoch {epoch}/{self._epochs}", loss, f", {speed:.0f} sentences/s" if speed else "")

    def _advance(self, where: str, loss: float | None, fast: str) -> None:
        """The bar goes on by a step."""
        if self._bar is None:
            return
        self._bar.set_description_str(where, refresh=False)
        if loss is not None:
            self._bar.set_postfix_str(f"loss {loss:.3f}{fast}{self._scores}", refresh=False)
        self._bar.update()

    def epoch(self, result: EpochResult) -> None:
        """An epoch is over."""
        micro = result.scores.micro
        scores = f"dev P {micro.precision:.2%} R {micro.recall:.2%} F1 {micro.f1:.2%}".replace("%", "")
        self._scores = f", {scores}"
        left = ""
        if result.epoch < self._epochs and self._bar is None:
            spent = time.monotonic() - self._began
            self._done += 1
            left = f"  {clock(spent / self._done * (self._epochs - result.epoch))} left"
        width = len(str(self._epochs))
        self.message(
            f"epoch {result.epoch:{width}}/{self._epochs}  loss {result.loss:8.4f}  {scores}"
            f"  {result.sentences_per_second:6.0f} sentences/s{left}{'  best so far' if result.best else ''}"
        )

    def message(self, text: str) -> None:
        """Something to tell."""
        if self._bar is not None:
            self._bar.clear()
        print(text, file=self._stream, flush=True)
        if self._bar is not None:
            self._bar.refresh()

    def end(self) -> None:
        """The run is over, or was stopped."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Silent(Progress):
    """Shows nothing; for processes beside the first."""

    def __init__(self) -> None:
        super().__init__(terminal=False)

    def message(self, text: str) -> None:
        """Nothing is told."""


def clock(seconds: float) -> str:
    """As hours, minutes and seconds: 1:02:03, 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
