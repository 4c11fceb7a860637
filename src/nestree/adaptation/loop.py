"""The loop of an adaptation, from top to bottom."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from nestree.adaptation.about import about, announced, text_about
from nestree.adaptation.config import AdaptConfig, budget_for
from nestree.adaptation.folder import AdaptFolder, card
from nestree.adaptation.head import load_masked
from nestree.adaptation.pace import Pace
from nestree.adaptation.prepared import prepare
from nestree.adaptation.progress import AdaptProgress, RoundResult, SilentProgress
from nestree.adaptation.state import AdaptResult, State, perplexity
from nestree.adaptation.steps import Learner, Step, Steps, diverged
from nestree.adaptation.text import Text
from nestree.model.encoder import folder_of, limit_of
from nestree.model.pieces import Pieces
from nestree.training import checkpoints, machine
from nestree.training.errors import TrainingError
from nestree.training.folder import encoder_fingerprint
from nestree.training.journal import Lines
from nestree.training.notes import Notes
from nestree.training.optimizer import Update, make_optimizer, rate_factor, set_rates
from nestree.training.recordings import recordings_for
from nestree.training.saving import Saver, Stopwatch
from nestree.training.stopping import stoppable, without_garbage


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
        self._notes = Notes(self.progress.message)
        self._lines = Lines(folder, self._notes)
        self._watch = Stopwatch()
        self._saved = time.monotonic()

    def resumed_result(self, resume: bool) -> AdaptResult | None:
        """The result of what has come to its end already."""
        found = self.folder.result() if resume else None
        if found is None:
            return None
        self.folder.check_same(self.encoder, self.config, self.text.fingerprint)
        self.progress.message(f"{self.folder.path}: this encoder is adapted already; nothing is left to do")
        return AdaptResult.of(self.folder.path, found)

    # --- The run ---

    def run(self, *, resume: bool, force: bool) -> AdaptResult:
        """From the first step, or the last checkpoint, to an encoder in a folder."""
        self.check(resume=resume, force=force)
        with self.folder.only_if_it_begins():
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
        if self._has_no_patience():  # it was over already when it was stopped
            return
        self.pace.begin(self.state.step)
        ahead = self.steps(self.state.step, self.total)
        try:
            for step in ahead:
                self._learn_from(step)
                told = self.pace.told(self.state.step, self.state.round)
                if told:
                    self.progress.message(told)
                if self._has_no_patience():
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

    def _has_no_patience(self) -> bool:
        patience = self.config.patience
        if not patience or self.state.round - self.state.best_round < patience:
            return False
        self.progress.message(f"no better perplexity for {patience} rounds: stopped")
        return True

    def _border(self, number: int) -> int:
        """The steps after which a round is over."""
        return round(self.total * number / self.rounds)

    def _after_round(self) -> None:
        loss = self._take_loss()
        speed = self.pace.of_round(self.state.step)
        cost = self._cost()
        self.pace.begin_round(self.state.step)
        best = cost < self.state.best
        number = self.state.round + 1
        step, epoch, seconds = self.state.step, self.state.step / self.steps.in_epoch, self._watch.seconds
        result = RoundResult(number, step, epoch, loss, perplexity(cost), best, speed, seconds)
        state = replace(self.state, round=number, loss=0.0, since=0)
        self.state = replace(state, best=cost, best_round=number) if best else state
        if best:
            self._best = self._weights()
        if self.first:
            self._lines.add({"event": "round", **asdict(result)})
        self.progress.round(result)
        if time.monotonic() - self._saved >= self.config.checkpoint_seconds:
            self._checkpoint()

    def _end_early(self) -> None:
        self._take_loss()
        kept = "a checkpoint was written" if self._checkpoint() else "the last checkpoint is kept"
        self.progress.message(f"stopped after step {self.state.step}; {kept}: --resume goes on from there")
        raise KeyboardInterrupt

    def _finish(self) -> AdaptResult:
        state = self.state
        assert self._best is not None
        self._load(self._best)
        if state.best_round == 0:
            self.progress.message(
                "note: held-out text is not guessed better than before, so the encoder is as it was: this text does "
                f"not help it, or the learning rate ({self.rate:.2g}) is too large"
            )
        found = {
            **about(self.encoder, self.model, self.text, self.prepared, self.accelerator),
            "lr": self.rate,
            **state.result(self._border(state.best_round) / self.steps.in_epoch, self._watch.seconds),
        }
        if self.first:
            name = self.folder.path.resolve().name
            try:
                learned = self.model.pretrained or state.best_round > 0  # else the head is as it was drawn
                save = self.model.save if learned else self.model.save_encoder
                self.folder.publish(save, card(name, found, self.config.as_dict()))
                self.folder.finish(found)
            except OSError as error:
                kept = self._checkpoint() or checkpoints.there_are(self.folder.checkpoints)
                what = "go on with --resume" if kept else "begin again with --resume: no checkpoint could be kept"
                raise TrainingError(
                    f"the encoder could not be written to {self.folder.path} ({error}). Make room, then {what}."
                ) from error
        self.accelerator.wait_for_everyone()
        return AdaptResult.of(self.folder.path, found)

    # --- Setting up ---

    def check(self, *, resume: bool, force: bool) -> None:
        """Refuses a folder that holds something else, before anything slow."""
        if not self.first:
            return
        if resume and self.folder.begun:
            own = encoder_fingerprint(folder_of(self.encoder))
            self.folder.check_same(self.encoder, self.config, self.text.fingerprint, own)
        else:
            self.folder.check_place(self.encoder, force=force)
        self.folder.check_writable()

    def build(self) -> None:
        """Makes everything that learns, and what it learns from."""
        config, accelerator = self.config, self.accelerator
        torch.manual_seed(config.seed)
        self.model = load_masked(self.encoder)
        cutter = Pieces(self.model.tokenizer, limit_of(self.model.encoder, self.model.tokenizer))
        self.prepared = prepare(self.text, cutter, config)
        self.model.to(accelerator.device).train()
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        self.rate = config.rate(self.model.width, self.prepared.pieces)
        rates = _Rates(self.rate, self.rate if self.model.pretrained else config.head_lr, config.weight_decay)
        self.optimizer = accelerator.prepare(make_optimizer(self.model, rates))
        on_gpu = accelerator.device.type == "cuda"
        process = accelerator.process_index, accelerator.num_processes
        budget = config.budget or budget_for(accelerator.device.type)
        self.steps = Steps(self.prepared.learned, config.batch_size, budget, process, for_gpu=on_gpu)
        self.passes = config.passes(self.prepared.pieces)
        self.total = self.passes * self.steps.in_epoch
        self.rounds = min(config.rounds, self.total)
        pieces = self.prepared.learned.total / self.steps.in_epoch
        self.pace = Pace(accelerator.device, pieces, self.steps.in_epoch, self.total, self.rounds)
        recordings = recordings_for(accelerator, self._notes, wanted=config.cuda_graphs)
        self.learner = Learner(self.model, accelerator, self.steps, config.seed, self._notes, recordings)
        self.update = Update(self.model, self.optimizer, accelerator, config.clip, recordings)
        self._recent = torch.zeros((), device=accelerator.device)
        self.saver = Saver(self.folder, accelerator, self.optimizer, self.progress, self._notes)

    def open(self, *, resume: bool, force: bool) -> None:
        """Makes the folder its own. Nothing that was there is touched before it can really begin."""
        if self.first and resume and self.folder.begun:
            self.folder.remember(self.encoder)
        elif self.first:
            if force:
                self.folder.replace()
            own = encoder_fingerprint(folder_of(self.encoder))
            of_text = {"text": text_about(self.text), "source": dict(self.text.source)}
            self.folder.begin(self.encoder, self.config, {"encoder_fingerprint": own, **of_text})
        if self.first:
            self.folder.clean()
        self.accelerator.wait_for_everyone()

    def _announce(self) -> None:
        what = announced(self.encoder, self.model, self.text, self.prepared, self.accelerator)
        what += f"; {self.passes} passes of {self.steps.in_epoch} steps, learning rate {self.rate:.2g}"
        self.progress.begin(self.rounds, self.total, self.state.step, what)
        for note in filter(None, (self.model.note, *self.prepared.notes)):
            self.progress.message(f"note: {note}")

    def close(self) -> None:
        """Gives back what it held."""
        self.progress.end()
        self.accelerator.free_memory()

    # --- Checkpoints ---

    def _checkpoint(self) -> bool:
        """Writes one, if it can be; whether it was."""
        assert self._best is not None
        tensors = checkpoints.flat("model", dict(self.model.named_parameters())) | checkpoints.flat("best", self._best)
        content = {"state": asdict(self.state), "seconds": self._watch.seconds, "budget": self.steps.budget}
        if not self.saver.save(self.state.step, tensors, content):
            return False
        self._saved = time.monotonic()
        return True

    def _restore(self) -> None:
        found = self.saver.restore(self.total)
        if found is None:
            return
        self._load(checkpoints.under("model", found.tensors))
        device = self.accelerator.device
        self._best = {name: value.to(device) for name, value in checkpoints.under("best", found.tensors).items()}
        self.state = State(**found.state["state"])
        self.steps.budget = min(self.steps.budget, found.state.get("budget", self.steps.budget))
        self._watch.go_on_after(found.state["seconds"])

    @torch.no_grad()
    def _load(self, weights: Mapping[str, Tensor]) -> None:
        for name, weight in self.model.named_parameters():
            weight.copy_(weights[name])

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.named_parameters()}

    # --- Numbers ---

    def _cost(self) -> float:
        """The mean cost of a guess of held-out text."""
        began = self.pace.now()
        cost = self.learner.cost(self.prepared.held)
        self.pace.held_out = self.pace.now() - began
        if not math.isfinite(cost):
            raise diverged(cost, self.state.step)
        return cost

    def _take_loss(self) -> float:
        """The mean cost of a guess in the steps of this round so far, over all processes."""
        value = float(self.accelerator.reduce(self._recent, reduction="sum"))
        if not math.isfinite(value):
            raise diverged(value, self.state.step)
        self._recent = torch.zeros_like(self._recent)
        self.state = replace(self.state, loss=self.state.loss + value)
        return self.state.loss / max(1, self.state.since)


@dataclass(frozen=True)
class _Rates:
    encoder_lr: float
    head_lr: float
    weight_decay: float
