"""How fast an adaptation goes, and how long all of it will take."""

from __future__ import annotations

import time

import torch

from nestree.training.progress import clock

MEASURED = 3.0
"""Seconds of steps after which it is said how long all will take."""


class Pace:
    """Measures steps.

    Args:
        device: where they are computed.
        pieces: in a step.
        in_epoch: steps of a pass.
        total: steps of all passes.
        rounds: how often the held-out text is read.
    """

    def __init__(self, device: torch.device, pieces: float, in_epoch: int, total: int, rounds: int) -> None:
        self._on_gpu = device.type == "cuda"
        self._pieces, self._in_epoch, self._total, self._rounds = pieces, in_epoch, total, rounds
        self._slow_ones = 2 if self._on_gpu else 0  # a GPU gets ready in them
        self.held_out = 0.0
        """Seconds that it takes to read the held-out text."""
        self.begin(0)

    def begin(self, step: int) -> None:
        """So many steps were done before the first that is measured."""
        self._first, self._told = step, False
        self._clocked = self._round = time.monotonic(), step

    def now(self) -> float:
        """The time, when all that was asked of a GPU is done."""
        if self._on_gpu:
            torch.cuda.synchronize()
        return time.monotonic()

    def of_round(self, step: int) -> float:
        """Pieces per second since the round began."""
        then, before = self._round
        return (step - before) * self._pieces / max(1e-9, self.now() - then)

    def begin_round(self, step: int) -> None:
        """The next step is the first of a round."""
        self._round = time.monotonic(), step

    def told(self, step: int, rounds: int) -> str | None:
        """After a step: how long all will take, once that is known and was not told.

        Args:
            step: that was done.
            rounds: that are over.
        """
        if step - self._first <= self._slow_ones:
            self._clocked = self.now(), step
            return None
        then, before = self._clocked
        if self._told or step >= self._total or time.monotonic() - then < MEASURED:
            return None
        self._told = True
        seconds = (self.now() - then) / (step - before)
        left = seconds * (self._total - step) + self.held_out * (self._rounds - rounds)
        one = left / max(1, self._total - step) * self._in_epoch
        return (
            f"on this machine all passes take about {clock(left)}, one pass about {clock(one)} "
            f"({self._pieces / seconds:,.0f} pieces/s); the setting epochs makes them fewer"
        )
