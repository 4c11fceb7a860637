"""The training loop, from top to bottom."""

from __future__ import annotations

import math
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields, replace
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from nestree.evaluation import Scores
from nestree.model import NestedNER
from nestree.training import checkpoints, machine
from nestree.training.batching import Loader, Step
from nestree.training.best import Best
from nestree.training.config import TrainConfig
from nestree.training.data import Corpus, label_shift
from nestree.training.dev import Dev
from nestree.training.errors import TrainingError
from nestree.training.folder import RunFolder
from nestree.training.gradients import Gradients, diverged
from nestree.training.journal import Journal
from nestree.training.notes import Notes
from nestree.training.objective import Objective
from nestree.training.optimizer import Average, Update, make_optimizer, rate_factor, rates_of, set_rates
from nestree.training.progress import EpochResult, Progress, Silent
from nestree.training.recordings import recordings_for
from nestree.training.reporting import report_run
from nestree.training.saving import Saver, Stopwatch
from nestree.training.state import Result, State
from nestree.training.stopping import stoppable, without_garbage


def train(
    corpus: Corpus,
    output: str | PathLike[str],
    config: TrainConfig | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    objective: Objective | None = None,
) -> Result:
    """Trains a model and leaves the best one, by dev F1, in a folder.

    Args:
        corpus: what to learn from (:func:`nestree.training.prepare`).
        output: the run's folder: the model, and under ``training/`` everything about the run.
        config: all settings.
        resume: go on with the run that is in the folder, if there is one.
        force: replace a run that is in the folder.
        progress: shows how it goes.
        objective: what is to be made small; the loss of the model, if left out.

    Raises:
        TrainingError: the run cannot start or go on.
        KeyboardInterrupt: it was stopped; a checkpoint was written first.
    """
    config = config or TrainConfig()
    with machine.same_every_time(config.deterministic):
        trainer = Trainer(corpus, RunFolder(Path(output)), config, progress, objective)
        try:
            return trainer.resumed_result(resume) or trainer.run(resume=resume, force=force)
        finally:
            trainer.close()


class Trainer:
    """One run. :func:`train` is the way to use it."""

    def __init__(
        self,
        corpus: Corpus,
        folder: RunFolder,
        config: TrainConfig,
        progress: Progress | None,
        objective: Objective | None = None,
    ) -> None:
        self.objective = objective or Objective()
        self.config = config
        self.corpus = corpus
        self.folder = folder
        self.accelerator = machine.start(config)
        self.first = bool(self.accelerator.is_main_process)
        self.progress = (progress or Progress()) if self.first else Silent()
        self.state = State()
        self._stop = threading.Event()
        self._notes = Notes(self.progress.message)
        self._watch = Stopwatch()
        self.journal: Journal | None = None  # of the first process

    def resumed_result(self, resume: bool) -> Result | None:
        """The result of a run that has come to its end already."""
        found = self.folder.finished() if resume else None
        if found is None:
            return None
        self.folder.check_same(self.config, self.corpus, self.objective.described())
        self.progress.message(f"{self.folder.path}: this run is finished; nothing is left to do")
        return found

    # --- The run ---

    def run(self, *, resume: bool, force: bool) -> Result:
        """From the first step, or from the last checkpoint, to the best model."""
        config = self.config
        self.check(resume=resume, force=force)
        self.build()
        if force and self.folder.begun:  # what cannot be prepared must not cost the run that is here
            self._prepare()
        self.open(resume=resume, force=force)
        if resume:
            self._restore()
        self._prepare()
        self._announce()
        if self.journal:
            self.journal.begin(self.state.step, tensorboard=config.tensorboard)
        alone = self.accelerator.num_processes == 1
        with stoppable(self._stop, self.progress.message, alone=alone), without_garbage():
            for epoch in range(self.state.epoch, config.epochs + 1):
                if config.patience and epoch - 1 - self.state.best_epoch >= config.patience:
                    self.progress.message(f"no better dev F1 for {config.patience} epochs: stopped")
                    break
                began, before = time.monotonic(), self.state.in_epoch
                for step in self.loader.epoch(epoch, skip=self.state.in_epoch):
                    self.learn(step)
                    self.after_step()
                sentences = max(0, len(self.corpus.sentences) - before * config.batch_size)
                speed = sentences / max(1e-9, time.monotonic() - began)
                self._after_epoch(self.dev.scores(self._averaged(), self.loader.budget), speed)
        return self._finish()

    def learn(self, step: Step) -> None:
        """One step of the optimizer."""
        set_rates(self.optimizer, rate_factor(self.state.step, self.steps, self.config))
        self._recent += self.gradients.add(step, self.state.step, self.state.epoch)
        machine.sum_over_processes(self.accelerator, self.parameters)
        self.update()
        if self.average:
            self.average.update(self.state.step)
        self.state = replace(self.state, step=self.state.step + 1, in_epoch=self.state.in_epoch + 1)

    def after_step(self) -> None:
        """Metrics, checkpoints, and the wish to stop."""
        state, config = self.state, self.config
        loss = speed = None
        if state.step % config.log_every == 0 or state.in_epoch == self.loader.steps:
            loss = self._take_loss()
            if self.journal:
                rates = rates_of(self.optimizer)
                speed = self.journal.step(state.step, state.epoch, loss, rates, self._watch.seconds)
        self.progress.step(state.epoch, loss, speed)
        due = config.checkpoint_every and state.step % config.checkpoint_every == 0
        if self._stop.is_set() or (due and state.in_epoch < self.loader.steps):
            if self.accelerator.num_processes > 1:
                self._take_loss()
            saved = self.best.save(self.state) and self._checkpoint()
            if self._stop.is_set():
                kept = "a checkpoint was written" if saved else "the last checkpoint is kept"
                self.progress.message(f"stopped after step {state.step}; {kept}: --resume goes on from there")
                raise KeyboardInterrupt

    def _after_epoch(self, scores: Scores, speed: float) -> None:
        """The best model so far is saved, then a checkpoint."""
        state, f1 = self.state, scores.micro.f1
        best = f1 > state.best
        if best:
            state = replace(state, best=f1, best_epoch=state.epoch, best_scores=scores.as_dict())
        result = EpochResult(
            epoch=state.epoch,
            step=state.step,
            loss=state.loss / max(1, state.in_epoch),
            scores=scores,
            best=best,
            sentences_per_second=speed,
            seconds=self._watch.seconds,
        )
        self.state = replace(state, epoch=state.epoch + 1, in_epoch=0, loss=0.0)
        if self.journal:
            self.journal.epoch(result)
            if best:
                self.best.keep(self._weights())
            if self.best.save(self.state):
                self._checkpoint()
        self.progress.epoch(result)

    def _finish(self) -> Result:
        if self.first and not (self.best.save(self.state) and (self.folder.path / "nestree.json").is_file()):
            raise TrainingError(
                f"the best model could not be written to {self.folder.path}. Make room on the disk, then go on with "
                "--resume."
            )
        state = self.state
        assert state.best_scores is not None
        seconds = round(self._watch.seconds, 1)
        result = Result(str(self.folder.path), state.best_epoch, state.epoch - 1, state.best_scores, seconds)
        if self.first:
            report_run(self.folder, self.corpus, self.config, self.progress.message)
            self.folder.finish(asdict(result))
            self.objective.finish(self.folder.training)
        self.accelerator.wait_for_everyone()
        return result

    # --- Setting up ---

    def check(self, *, resume: bool, force: bool) -> None:
        """Refuses a folder that holds something else, before anything slow."""
        if not self.first:
            return
        if resume and self.folder.begun:
            self.folder.check_same(self.config, self.corpus, self.objective.described())
        else:
            self.folder.check_place(force=force)
        self.objective.check(self.folder.training)
        self.folder.check_writable()

    def _prepare(self) -> None:
        self.objective.prepare(self.folder.training, self.accelerator, self.progress.message)

    def open(self, *, resume: bool, force: bool) -> None:
        """Makes the run's folder its own. Nothing that was there is touched before the run can really begin."""
        if self.first and resume and self.folder.begun:
            self.folder.remember(self.config, self.corpus, self.objective.described())
        elif self.first:
            if force:
                self.folder.replace()
            self.folder.begin(self.config, self.corpus, machine.described(self.accelerator), self.objective.described())
        if self.first:
            self.folder.clean()
            self.journal = Journal(self.folder, sentences=self.config.batch_size, notes=self._notes)
        self.accelerator.wait_for_everyone()

    def build(self) -> None:
        """Makes everything that learns, and what it learns from."""
        config, accelerator = self.config, self.accelerator
        process = accelerator.process_index, accelerator.num_processes
        torch.manual_seed(config.seed if config.start_seed < 0 else config.start_seed)
        self.model = NestedNER.create(config.model(self.corpus.labels)).to(accelerator.device).train()
        if config.balance:
            shift = label_shift(self.corpus, config.balance, config.latent_labels)
            self.model.label_shift = torch.tensor(shift, device=accelerator.device)
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        self.optimizer = accelerator.prepare(make_optimizer(self.model, config))
        self.average = Average(self.model, config.ema) if config.ema else None
        on_gpu = accelerator.device.type == "cuda"
        self.loader = Loader(
            self.model,
            self.corpus.sentences,
            config,
            process=process,
            sets=self.corpus.sets,
            for_gpu=on_gpu,
            objective=self.objective,
        )
        self.dev = Dev(self.model, self.corpus.dev.documents, accelerator)
        self.steps = config.epochs * self.loader.steps
        wanted = config.cuda_graphs and self.objective.recordable
        recordings = recordings_for(accelerator, self._notes, wanted=wanted)
        self.gradients = Gradients(
            self.model, accelerator, self.loader, config, self._notes, recordings, self.objective
        )
        self.update = Update(self.model, self.optimizer, accelerator, config.clip, recordings)
        self._recent = torch.zeros((), device=accelerator.device)
        self.saver = Saver(self.folder, accelerator, self.optimizer, self.progress, self._notes)
        self.best = Best(self.model, self.folder.path, self.corpus, config, self.objective, self._notes)

    def _announce(self) -> None:
        found = machine.described(self.accelerator)
        count = sum(one.numel() for one in self.parameters)
        where = f"{found['device']}, {found['precision']}"
        if found["processes"] > 1:
            where += f", {found['processes']} processes"
        self.progress.start(
            self.config.epochs,
            self.loader.steps,
            self.state.step,
            f"training {count / 1e6:.1f} million weights ({self.config.encoder}, loss = {self.config.loss}) on {where}:"
            f" {self.config.epochs} epochs of {self.loader.steps} steps",
        )
        for note in self.loader.notes:
            self.progress.message(note)

    def close(self) -> None:
        """Gives back what the run held."""
        self.progress.end()
        if self.journal:
            self.journal.close()
        self.accelerator.free_memory()

    # --- Checkpoints ---

    def _checkpoint(self) -> bool:
        """Writes one, if it can be; whether it was."""
        tensors = checkpoints.flat("model", self.model.state_dict())
        if self.average:
            tensors |= checkpoints.flat("average", self.average.tensors())
        recent = self.state.recent + float(self._recent)
        state = asdict(replace(self.state, seconds=self._watch.seconds, recent=recent))
        return self.saver.save(self.state.step, tensors, {"state": state, "budget": self.loader.budget})

    def _restore(self) -> None:
        found = self.saver.restore(self.steps)
        if found is None:
            return
        self.model.load_state_dict(checkpoints.under("model", found.tensors))
        if self.average:
            self.average.load(checkpoints.under("average", found.tensors))
        known = {one.name for one in fields(State)}
        self.state = State(**{name: value for name, value in found.state["state"].items() if name in known})
        self.loader.budget = min(found.state["budget"], self.config.budget)
        self._watch.go_on_after(self.state.seconds)

    def _averaged(self) -> AbstractContextManager[None]:
        """Puts the weights that count in place: averaged ones, if there are."""
        return self.average.in_place() if self.average else nullcontext()

    def _weights(self) -> dict[str, Tensor]:
        """A copy of them."""
        with self._averaged():
            return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    # --- Numbers ---

    def _take_loss(self) -> float:
        """The mean loss of the steps since this was last asked, over all processes; counted into the epoch."""
        steps = self.state.step - self.state.counted
        value = float(self.accelerator.reduce(self._recent, reduction="sum")) + self.state.recent
        if not math.isfinite(value):
            raise diverged(str(value), self.state.step)
        self._recent = torch.zeros_like(self._recent)
        loss = self.state.loss + value
        self.state = replace(self.state, loss=loss, recent=0.0, counted=self.state.step)
        return value / max(1, steps)
