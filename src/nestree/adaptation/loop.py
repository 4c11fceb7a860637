"""The loop of an adaptation, from top to bottom."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nestree.adaptation.config import AdaptConfig, budget_for
from nestree.adaptation.folder import AdaptFolder, card, encoder_fingerprint
from nestree.adaptation.head import load_masked
from nestree.adaptation.prepared import prepare
from nestree.adaptation.progress import AdaptProgress, RoundResult, SilentProgress
from nestree.adaptation.steps import Learner, Step, Steps, cost_of
from nestree.adaptation.text import Text
from nestree.model.card import base_model
from nestree.model.encoder import folder_of, limit_of
from nestree.model.pieces import Pieces
from nestree.training import checkpoints, machine
from nestree.training.errors import TrainingError
from nestree.training.optimizer import Update, make_optimizer, rate_factor, set_rates
from nestree.training.progress import clock
from nestree.training.recordings import Recordings
from nestree.training.stopping import stoppable, without_garbage

MEASURED = 3.0
"""Seconds of steps after which it is said how long all will take."""


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


def adapt(
    encoder: str,
    text: Text,
    output: str | PathLike[str],
    config: AdaptConfig | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    progress: AdaptProgress | None = None,
) -> AdaptResult:
    """Trains an encoder further on text, by guessing hidden words, and leaves the best one in a folder.

    Args:
        encoder: its name, or folder.
        text: to learn from (:func:`nestree.adaptation.read_text`).
        output: the folder for the adapted encoder; under ``adaptation/`` everything about how it came to be.
        config: all settings.
        resume: go on with what was begun in the folder, if there is something.
        force: replace what is in the folder.
        progress: shows how it goes.

    Raises:
        ModelError: the encoder cannot be used.
        TrainingError: it cannot start or go on.
        KeyboardInterrupt: it was stopped; a checkpoint was written first.
    """
    config = config or AdaptConfig()
    with machine.same_every_time(config.deterministic):
        adapter = Adapter(encoder, text, AdaptFolder(Path(output)), config, progress)
        try:
            return adapter.resumed_result(resume) or adapter.run(resume=resume, force=force)
        finally:
            adapter.close()


class Adapter:
    """One adaptation. :func:`adapt` is the way to use it."""

    def __init__(
        self, encoder: str, text: Text, folder: AdaptFolder, config: AdaptConfig, progress: AdaptProgress | None
    ) -> None:
        self.encoder, self.text, self.folder, self.config = encoder, text, folder, config
        self.accelerator = machine.start(config)
        self.first = bool(self.accelerator.is_main_process)
        self.progress = (progress or AdaptProgress()) if self.first else SilentProgress()
        self.state = State()
        self._best: dict[str, Tensor] | None = None
        self._stop = threading.Event()
        self._said: set[str] = set()
        self._began = time.monotonic()
        self._saved = time.monotonic()
        self._round_began = time.monotonic(), 0
        self._held_out_seconds = 0.0

    def resumed_result(self, resume: bool) -> AdaptResult | None:
        """The result of what has come to its end already."""
        found = self.folder.result() if resume else None
        if found is None:
            return None
        self.folder.check_same(self.encoder, self.config, self.text.fingerprint)
        self.progress.message(f"{self.folder.path}: this encoder is adapted already; nothing is left to do")
        return self._result(found)

    def _result(self, found: dict[str, Any]) -> AdaptResult:
        return AdaptResult(
            str(self.folder.path),
            found["perplexity_before"],
            found["perplexity_after"],
            found["round"],
            found["steps"],
            found["seconds"],
        )

    # --- The run ---

    def run(self, *, resume: bool, force: bool) -> AdaptResult:
        """From the first step, or the last checkpoint, to an encoder in a folder."""
        self.check(resume=resume, force=force)
        self.build()
        self.open(resume=resume, force=force)
        if resume:
            self._restore()
        self._announce()
        if math.isnan(self.state.before):
            before = self._cost()
            self.state = replace(self.state, before=before, best=before)
            self._best = self._weights()
            self.progress.message(f"held out: perplexity {perplexity(before):,.2f} before")
        alone = self.accelerator.num_processes == 1
        with stoppable(self._stop, self.progress.message, alone=alone), without_garbage():
            self._learn()
        return self._finish()

    def _learn(self) -> None:
        config, first = self.config, self.state.step
        clocked = self._round_began = time.monotonic(), first
        told, slow_ones = False, 2 if self.accelerator.device.type == "cuda" else 0  # a GPU gets ready in them
        ahead = self.steps(first, self.total)
        try:
            for step in ahead:
                self._learn_from(step)
                if self.state.step - first <= slow_ones:
                    clocked = self._clock(), self.state.step
                elif not told and self._is_time_to_tell(clocked):
                    self._tell_time(clocked)
                    told = True
                if config.patience and self.state.round - self.state.best_round >= config.patience:
                    self.progress.message(f"no better perplexity for {config.patience} rounds: stopped")
                    return
                if self._stop.is_set():
                    self._end_early()
        finally:
            ahead.close()

    def _learn_from(self, step: Step) -> None:
        """One step of the optimizer, and what comes after it."""
        set_rates(self.optimizer, rate_factor(self.state.step, self.total, self.config))
        self._recent += self.learner.add(step, self.state.step)
        machine.sum_over_processes(self.accelerator, self.parameters)
        self.update()
        self.state = replace(self.state, step=self.state.step + 1, since=self.state.since + 1)
        self.progress.stepped(self.state.round + 1, None, None)
        if self.state.step >= self._border(self.state.round + 1):
            self._after_round()

    def _is_time_to_tell(self, clocked: tuple[float, int]) -> bool:
        return self.state.step < self.total and time.monotonic() - clocked[0] >= MEASURED

    def _clock(self) -> float:
        """The time, when all that was asked of a GPU is done."""
        if self.accelerator.device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic()

    def _tell_time(self, clocked: tuple[float, int]) -> None:
        then, step = clocked
        seconds = (self._clock() - then) / (self.state.step - step)
        left = seconds * (self.total - self.state.step) + self._held_out_seconds * (self.rounds - self.state.round)
        one = left / max(1, self.total - self.state.step) * self.steps.in_epoch
        self.progress.message(
            f"on this machine all passes take about {clock(left)}, one pass about {clock(one)} "
            f"({self._pieces_per_step / seconds:,.0f} pieces/s); fewer: --epochs N"
        )

    def _border(self, number: int) -> int:
        """The steps after which a round is over."""
        return round(self.total * number / self.rounds)

    def _after_round(self) -> None:
        loss = self._take_loss()
        then, step = self._round_began
        speed = (self.state.step - step) * self._pieces_per_step / max(1e-9, self._clock() - then)
        cost = self._cost()
        self._round_began = time.monotonic(), self.state.step
        best = cost < self.state.best
        number = self.state.round + 1
        result = RoundResult(
            number,
            self.state.step,
            self.state.step / self.steps.in_epoch,
            loss,
            perplexity(cost),
            best,
            speed,
            self._seconds(),
        )
        state = replace(self.state, round=number, loss=0.0, since=0)
        self.state = replace(state, best=cost, best_round=number) if best else state
        if best:
            self._best = self._weights()
        if self.first:
            try:
                self.folder.log([{"event": "round", **asdict(result)}])
            except OSError as error:
                self._say_once("journal", f"metrics could not be written ({error}); the run goes on")
        self.progress.round(result)
        if time.monotonic() - self._saved >= self.config.checkpoint_seconds:
            self._checkpoint()

    def _end_early(self) -> None:
        self._take_loss()
        kept = "a checkpoint was written" if self._checkpoint() else "the last checkpoint is kept"
        self.progress.message(f"stopped after step {self.state.step}; {kept}: --resume goes on from there")
        raise KeyboardInterrupt

    def _finish(self) -> AdaptResult:
        config, state = self.config, self.state
        assert self._best is not None
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                weight.copy_(self._best[name])
        if state.best_round == 0:
            self.progress.message(
                "note: held-out text is not guessed better than before, so the encoder is as it was: this text does "
                "not help it"
            )
        found = {
            **self._about(),
            "perplexity_before": perplexity(state.before),
            "perplexity_after": perplexity(state.best),
            "round": state.best_round,
            "epochs": self._border(state.best_round) / self.steps.in_epoch,
            "steps": state.step,
            "seconds": round(self._seconds(), 1),
        }
        if self.first:
            name = self.folder.path.resolve().name
            try:
                self.folder.publish(self.model.save, card(name, found, config.as_dict()))
                self.folder.finish(found)
            except OSError as error:
                self._checkpoint()
                raise TrainingError(
                    f"the encoder could not be written to {self.folder.path} ({error}). Make room, then go on with "
                    "--resume."
                ) from error
        self.accelerator.wait_for_everyone()
        return self._result(found)

    # --- Setting up ---

    def check(self, *, resume: bool, force: bool) -> None:
        """Refuses a folder that holds something else, before anything slow."""
        if not self.first:
            return
        if resume and self.folder.begun:
            self.folder.check_same(self.encoder, self.config, self.text.fingerprint)
        else:
            self.folder.check_place(self.encoder, force=force)
        self.folder.check_writable()

    def build(self) -> None:
        """Makes everything that learns, and what it learns from."""
        config, accelerator = self.config, self.accelerator
        torch.manual_seed(config.seed)
        self.model = load_masked(self.encoder)
        pieces = Pieces(self.model.tokenizer, limit_of(self.model.encoder, self.model.tokenizer))
        self.prepared = prepare(self.text, pieces, config)
        self.model.to(accelerator.device).train()
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        rate = config.rate(self.model.width, self.prepared.pieces)
        rates = _Rates(rate, rate if self.model.pretrained else config.head_lr, config.weight_decay)
        self.optimizer = accelerator.prepare(make_optimizer(self.model, rates))
        on_gpu = accelerator.device.type == "cuda"
        process = accelerator.process_index, accelerator.num_processes
        budget = config.budget or budget_for(accelerator.device.type)
        self.steps = Steps(self.prepared.learned, config.batch_size, budget, process, for_gpu=on_gpu)
        self.passes = config.passes(self.prepared.pieces)
        self.total = self.passes * self.steps.in_epoch
        self.rounds = min(config.rounds, self.total)
        self._pieces_per_step = self.prepared.learned.total / self.steps.in_epoch
        recorded = on_gpu and config.cuda_graphs and not accelerator.scaler
        recordings = Recordings(accelerator.device, self._say_what_is_not_recorded) if recorded else None
        self.learner = Learner(self.model, accelerator, self.steps, config.seed, self._say_once, recordings)
        self.update = Update(self.model, self.optimizer, accelerator, config.clip, recordings)
        self._recent = torch.zeros((), device=accelerator.device)

    def open(self, *, resume: bool, force: bool) -> None:
        """Makes the folder its own. Nothing that was there is touched before it can really begin."""
        if self.first and not (resume and self.folder.begun):
            if force:
                self.folder.replace()
            self.folder.begin(
                self.encoder, self.config, {"text": self._about()["text"], "source": dict(self.text.source)}
            )
        if self.first:
            self.folder.clean()
        self.accelerator.wait_for_everyone()

    def _about(self) -> dict[str, Any]:
        """What there is to know of encoder, text and machine."""
        return {
            "encoder": base_model(self.encoder) or Path(self.encoder).resolve().name,
            "encoder_fingerprint": encoder_fingerprint(folder_of(self.encoder)),
            "head": "pretrained" if self.model.pretrained else "new",
            "text": {"files": [dict(one) for one in self.text.files], "fingerprint": self.text.fingerprint},
            "sentences": len(self.text.sentences),
            "words": self.text.words,
            "pieces": self.prepared.pieces,
            "held_out": self.prepared.held_sentences,
            "machine": machine.described(self.accelerator),
        }

    def _announce(self) -> None:
        found = machine.described(self.accelerator)
        count = sum(one.numel() for one in self.parameters)
        head = "the head it was pretrained with" if self.model.pretrained else "a new head"
        self.progress.begin(
            self.rounds,
            self.total,
            self.state.step,
            f"adapting {self.encoder} ({count / 1e6:.1f} million weights, {head}) on {found['device']}, "
            f"{found['precision']}, {found['threads']} threads: {len(self.text.sentences):,} sentences, "
            f"{self.text.words:,} words, {self.prepared.pieces:,} pieces in {len(self.prepared.learned):,} windows, "
            f"{self.prepared.held_sentences:,} sentences held out; {self.passes} passes of "
            f"{self.steps.in_epoch} steps",
        )
        for note in self.prepared.notes:
            self.progress.message(f"note: {note}")

    def close(self) -> None:
        """Gives back what it held."""
        self.progress.end()
        self.accelerator.free_memory()

    # --- Checkpoints ---

    def _checkpoint(self) -> bool:
        """Writes one, if it can be; a full disk does not end the run."""
        if not self.first:
            return False
        assert self._best is not None
        tensors = checkpoints.flat("model", dict(self.model.named_parameters()))
        tensors |= dict(checkpoints.optimizer_tensors(self.optimizer.state_dict()["state"]))
        tensors |= checkpoints.flat("best", self._best)
        scaler = self.accelerator.scaler.state_dict() if self.accelerator.scaler else None
        content = {"state": asdict(self.state), "seconds": self._seconds(), "scaler": scaler}
        try:
            checkpoints.save(self.folder.checkpoints, self.state.step, tensors, content)
        except OSError as error:
            self._say_once("checkpoint", f"a checkpoint could not be written ({error}); the run goes on")
            return False
        self._saved = time.monotonic()
        return True

    def _restore(self) -> None:
        found, damaged = checkpoints.load(self.folder.checkpoints)
        for path, why in damaged:
            self.progress.message(f"{path} is damaged ({why}); it is passed over")
        if found is None:
            self.progress.message(f"{self.folder.path}: no checkpoint yet; beginning at the first step")
            if self.first:
                self.folder.forget_after(-1)
            return
        saved = checkpoints.under("model", found.tensors)
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                weight.copy_(saved[name])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": checkpoints.optimizer_state(found.tensors), "param_groups": groups})
        device = self.accelerator.device
        self._best = {name: value.to(device) for name, value in checkpoints.under("best", found.tensors).items()}
        if self.accelerator.scaler and found.state["scaler"]:
            self.accelerator.scaler.load_state_dict(found.state["scaler"])
        self.state = State(**found.state["state"])
        self._began = time.monotonic() - found.state["seconds"]
        if self.first:
            self.folder.forget_after(self.state.step)
        self.progress.message(f"going on after step {self.state.step} of {self.total}")

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.named_parameters()}

    # --- Numbers ---

    def _cost(self) -> float:
        """The mean cost of a guess of held-out text."""
        began = self._clock()
        cost = cost_of(self.model, self.prepared.held, self.accelerator, self.steps.budget)
        self._held_out_seconds = self._clock() - began
        if not math.isfinite(cost):
            raise _diverged(cost, self.state.step)
        return cost

    def _take_loss(self) -> float:
        """The mean cost of a guess in the steps of this round so far, over all processes."""
        value = float(self.accelerator.reduce(self._recent, reduction="sum"))
        if not math.isfinite(value):
            raise _diverged(value, self.state.step)
        self._recent = torch.zeros_like(self._recent)
        self.state = replace(self.state, loss=self.state.loss + value)
        return self.state.loss / max(1, self.state.since)

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _say_what_is_not_recorded(self, why: str) -> None:
        self._say_once("recording", f"this encoder cannot be recorded for the GPU, so steps take longer ({why})")

    def _say_once(self, kind: str, text: str) -> bool:
        if kind in self._said:
            return False
        self._said.add(kind)
        self.progress.message(f"note: {text}")
        return True


@dataclass(frozen=True)
class _Rates:
    encoder_lr: float
    head_lr: float
    weight_decay: float


def perplexity(cost: float) -> float:
    """Of a mean cost in nats."""
    return math.exp(min(cost, 100.0))


def _diverged(value: float, step: int) -> TrainingError:
    return TrainingError(
        f"the loss is {value} at step {step}: the adaptation diverged. Lower lr and head_lr, or use precision = fp32."
    )
