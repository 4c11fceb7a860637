"""Learning from other models: the exact Kullback-Leibler divergence between two TreeCRFs, beside the ordinary loss.

The loss of a sentence is ``(1 - alpha) · L + alpha · T² · KL(teacher || student)``, both distributions over trees at
temperature T; of raw text, which has no L, the second term alone. Latent labels are summed out on both sides. With the
teacher's marginals μ and entropy H, the divergence is ``log Z - Σ μ·s - H`` for the student's log potentials s
(:meth:`nestree.crf.TreeCRF.surprise`): the teacher is asked once for each sentence, and what it says is kept in a file,
as long as that is not too large.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nestree.adaptation.text import fingerprint as text_fingerprint
from nestree.crf import PartialTrees, TreeCRF
from nestree.model import NestedNER
from nestree.model.batching import by_work
from nestree.model.ensemble import aligned_potentials, check_together
from nestree.model.folder import model_fingerprint, read_folder
from nestree.model.pieces import Batch, Cut
from nestree.prediction.reading import budget_for, readable
from nestree.settings import Settings, key
from nestree.training.answers import Answers
from nestree.training.config import TrainConfig
from nestree.training.data import Sentence
from nestree.training.errors import TrainingError
from nestree.training.folder import ABOUT, MARGINALS
from nestree.training.objective import Objective
from nestree.training.progress import clock

UNITS = {"GB": 1e9, "MB": 1e6, "kB": 1e3}
MEASURED = 10.0
"""Seconds of asking after which it is said how long all of it will take."""
MOST_WORDS = 256
"""Longer sentences of raw text are left out: their charts would take most of the time and room."""


@dataclass(frozen=True)
class DistilConfig(Settings):
    """The settings of a distillation; ``nestree distil --help`` says what each means."""

    alpha: float = key(0.5, "distillation", "weight of what the teacher says; the annotation has the rest")
    temperature: float = key(1.0, "distillation", "divides the log potentials of teacher and student: more is softer")
    cache_gb: float = key(8.0, "distillation", "keep what the teacher says in a file if it is no larger; else ask anew")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.not_negative("cache_gb")
        if not 0 < self.alpha <= 1:
            less = " With 0 nothing is distilled: use nestree train" if self.alpha == 0 else ""
            raise ValueError(f"alpha is {self.alpha}; it must be more than 0 and at most 1.{less}")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature is {self.temperature}; it must be finite and more than 0.")


class Distillation(Objective):
    """The loss of a model, and how far it is from a teacher.

    Args:
        teachers: folders of models; several are combined (:meth:`NestedNER.ensemble`).
        annotated: the sentences of the corpus.
        raw: sentences without annotation, which follow them.
        labels: of the student.
        config: all settings.
        answers: a folder where what the teacher says is kept, for other students too; else it is kept in the run's
            folder, until the run is over.

    Raises:
        TrainingError: a teacher has other labels than the student, or no trees.
    """

    def __init__(
        self,
        teachers: Sequence[str | PathLike[str]],
        annotated: Sequence[Sentence],
        raw: Sequence[Sequence[str]],
        labels: Sequence[str],
        config: DistilConfig,
        answers: str | PathLike[str] | None = None,
    ) -> None:
        self._answers = Path(answers) if answers else None
        self._teachers = [Path(one) for one in teachers]
        self._words = [one.words for one in annotated] + [tuple(one) for one in raw]
        self._annotated, self._raw = len(annotated), len(raw)
        self._labels = tuple(labels)
        self._config = config
        for path in self._teachers:
            _check_teacher(path, self._labels)
        if len(self._teachers) > 1:
            check_together([read_folder(path).config for path in self._teachers])
        self._kinds = len(self._labels) + 1
        sizes = np.array([len(words) * (len(words) + 1) // 2 for words in self._words], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.bytes = int(self._starts[-1]) * self._kinds * 4
        self.recordable = self.bytes <= config.cache_gb * 1e9  # a teacher that is asked in steps has many shapes
        self._fingerprints = [model_fingerprint(path) for path in self._teachers]
        self._text = text_fingerprint(self._words[self._annotated :])
        self._marginals: np.ndarray | None = None
        self._entropies = np.zeros(len(self._words), dtype=np.float32)
        self._asked: Teacher | None = None
        self.source: dict[str, Any] = {}
        """What ``run.json`` keeps besides, for whoever goes on with the run."""

    def described(self) -> dict[str, Any]:
        """Where the teachers are, and what must stay as it is."""
        same = {"teachers": self._fingerprints, "raw": self._text, "alpha": self._config.alpha}
        same |= {"temperature": self._config.temperature}
        same |= {} if self.recordable else {"asked_in_each_step": True}  # which gives the same to rounding alone
        return {"teachers": [str(path.resolve()) for path in self._teachers], "same": same, **self.source}

    def told(self) -> dict[str, Any]:
        """For the model card."""
        names = [path.resolve().name for path in self._teachers]
        found = {"teachers": names, "alpha": self._config.alpha, "temperature": self._config.temperature}
        return {"distillation": found | {"raw_sentences": self._raw}}

    # --- What the teacher says ---

    def check(self, folder: Path) -> None:
        """Refuses a folder for answers that has none and can have none, before a run that is there is replaced."""
        if self.recordable and self._answers:
            self._kept(folder).check_place()

    def prepare(self, folder: Path, accelerator: Any, say: Callable[[str], None]) -> None:
        """Asks the teacher about every sentence, unless that was done before; or gets ready to ask in each step."""
        if self._marginals is not None or self._asked:  # it was done before a run was replaced
            return
        who = f"{len(self._teachers)} teachers say" if len(self._teachers) > 1 else "the teacher says"
        what = f"what {who} of {len(self._words):,} sentences ({self._raw:,} of raw text)"
        size = next(f"{self.bytes / of:.1f} {unit}" for unit, of in UNITS.items() if self.bytes >= of or of == 1e3)
        if not self.recordable:
            kept = (
                f", more than cache_gb = {self._config.cache_gb:g}: it is not kept in {self._answers}, but"
                if self._answers
                else ":"
            )
            say(f"{what} would take {size}{kept} it is asked for anew in each step, which takes longer")
            self._asked = self._teacher(accelerator.device)
            super().prepare(folder, accelerator, say)
            return
        answers = self._kept(folder)
        if accelerator.is_main_process:
            self._see_to(answers, f"{what} is kept in {answers.file} ({size})", accelerator.device, say)
        accelerator.wait_for_everyone()
        self._marginals, self._entropies = answers.read()

    def _see_to(self, answers: Answers, what: str, device: torch.device, say: Callable[[str], None]) -> None:
        """Asks the teacher, unless it was asked before, perhaps by another student."""
        if answers.are_whole():
            if answers.shared:
                say(f"{what} already")
            return
        with answers.alone(say):
            if answers.are_whole():
                say(f"{what} by now")
                return
            say(f"{what} {'for other students too' if answers.shared else 'as long as the run lasts'}")
            teacher = self._teacher(device)
            answers.write(lambda marginals, entropies: self._ask(teacher, marginals, entropies, say))
        if device.type == "cuda":
            torch.cuda.empty_cache()

    def _kept(self, folder: Path) -> Answers:
        """Where what the teacher says is kept: in the run's folder, or where other students find it."""
        of = {
            "teachers": self._fingerprints,
            "sentences": text_fingerprint(self._words),
            "temperature": self._config.temperature,
        }
        file, about = folder / MARGINALS, folder / ABOUT
        if self._answers:
            name = hashlib.sha256(json.dumps([of, self._labels]).encode()).hexdigest()[:16]
            file, about = self._answers / f"{name}.f32", self._answers / f"{name}.json"
        shape = int(self._starts[-1]), self._kinds
        return Answers(file, about, of, shape, len(self._words), self._answers is not None)

    def _teacher(self, device: torch.device) -> Teacher:
        models = [NestedNER.from_pretrained(path) for path in self._teachers]
        model = models[0] if len(models) == 1 else NestedNER.ensemble(models)
        return Teacher(model.to(device).eval(), self._words, self._labels, self._config.temperature)

    def _ask(self, teacher: Teacher, marginals: np.ndarray, entropies: np.ndarray, say: Callable[[str], None]) -> None:
        began, told, done = time.monotonic(), False, 0
        for numbers in teacher.batches():
            for number, own, entropy in zip(numbers, *teacher.says(numbers), strict=True):
                marginals[self._starts[number] : self._starts[number + 1]] = own[_upper(len(self._words[number]))]
                entropies[number] = entropy
                done += int(self._starts[number + 1] - self._starts[number])
            spent = time.monotonic() - began
            if not told and spent > MEASURED and done < len(marginals):
                say(f"asking takes about {clock(spent * (len(marginals) - done) / done)} more")
                told = True

    def tensors(self, numbers: np.ndarray, n: int) -> tuple[Tensor, ...]:
        """The teacher's marginals and entropies, and which sentences are annotated.

        Shape: ``[batch, n, n, label]``, ``[batch]``, ``[batch]``
        """
        marginals = np.zeros((len(numbers), n, n, self._kinds), dtype=np.float32)
        if self._asked is not None:
            found, entropies = self._asked.says(numbers.tolist())
            for at, own in enumerate(found):
                marginals[at, : len(own), : len(own)] = own
        else:
            assert self._marginals is not None
            entropies = self._entropies[numbers]
            for at, number in enumerate(numbers.tolist()):
                rows, columns = _upper(len(self._words[number]))
                marginals[at, rows, columns] = self._marginals[self._starts[number] : self._starts[number + 1]]
        annotated = (numbers < self._annotated).astype(np.float32)
        return (
            torch.from_numpy(marginals),
            torch.from_numpy(np.asarray(entropies, dtype=np.float32)),
            torch.from_numpy(annotated),
        )

    # --- The loss ---

    def loss(self, model: NestedNER, batch: Batch, observed: PartialTrees, *more: Tensor) -> Tensor:
        """The mean over sentences, annotated or not. Shape: ``[]``."""
        marginals, entropies, annotated = more
        scores = model(batch)
        values = self._config.alpha * self.divergence(scores, batch.lengths, marginals, entropies)
        if self._config.alpha < 1:
            values = values + (1 - self._config.alpha) * annotated * model.losses(scores, batch.lengths, observed)
        return values.mean()

    def divergence(self, scores: Tensor, lengths: Tensor, marginals: Tensor, entropies: Tensor) -> Tensor:
        """``T² · KL(teacher || student)``. Shape: ``[batch]``."""
        temperature = self._config.temperature
        aligned = aligned_potentials(scores, range(len(self._labels)))
        crf = TreeCRF(aligned if temperature == 1 else aligned / temperature, lengths)
        return temperature**2 * (crf.surprise(marginals) - entropies)

    def finish(self, folder: Path) -> None:
        """The file is not needed any more, but by others where they share it."""
        self._marginals = None
        super().finish(folder)


class Teacher:
    """A model that is asked about sentences.

    Args:
        model: on the device where it is to compute.
        sentences: as words.
        labels: in whose order it answers.
        temperature: divides its log potentials.
    """

    def __init__(
        self, model: NestedNER, sentences: Sequence[Sequence[str]], labels: Sequence[str], temperature: float
    ) -> None:
        self._model = model
        self._order = [model.config.labels.index(label) for label in labels]
        self._temperature = temperature
        self._cuts: list[Cut] = [
            cut
            for first in range(0, len(sentences), 4096)
            for cut in model.pieces.cut([readable(one) for one in sentences[first : first + 4096]])
        ]

    def batches(self) -> list[list[int]]:
        """Numbers of sentences that are read together."""
        return by_work(self._cuts, budget_for(self._model.device), 0.85)

    @torch.inference_mode()
    def says(self, numbers: Sequence[int]) -> tuple[list[np.ndarray], list[float]]:
        """Marginals of each sentence, latent labels summed out, and entropies. Shape: ``[n, n, label]`` each."""
        batch = self._model.pieces.together([self._cuts[number] for number in numbers]).to(self._model.device)
        scores = aligned_potentials(self._model.potentials(batch), self._order) / self._temperature
        crf = TreeCRF(scores, batch.lengths)
        marginals = crf.marginals.float().cpu().numpy()
        lengths = batch.lengths.tolist()
        entropies: list[float] = crf.entropy.float().cpu().tolist()
        return [marginals[at, :n, :n] for at, n in enumerate(lengths)], entropies


@cache
def _upper(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the spans of n words are in a square."""
    return np.triu_indices(n)


def check_reads_alike(path: Path, config: TrainConfig) -> None:
    """Raises a TrainingError if a teacher takes other words, or several labels on one span, otherwise than a student.

    It would be asked about words that it never saw, or about labels that mean something else. Where sentences end may
    differ: raw text is laid out as it is.
    """
    teacher = read_folder(path).config
    for name, value, own in (
        ("words", teacher.splitter.words, config.words),
        ("same_span", teacher.policies.same_span, config.same_span),
    ):
        if value != own:
            raise TrainingError(
                f"{path}: this teacher was trained with {name} = {value!r}, and the student would be with {own!r}. "
                f"Add --{name.replace('_', '-')} {value}."
            )


def _check_teacher(path: Path, labels: tuple[str, ...]) -> None:
    """Raises a TrainingError if a student with these labels cannot learn from a model."""
    config = read_folder(path).config
    if config.loss != "treecrf":
        raise TrainingError(f"{path}: a model with loss = {config.loss} has no trees to teach. Name another teacher.")
    missing, more = sorted(set(labels) - set(config.labels)), sorted(set(config.labels) - set(labels))
    if missing or more:
        said = [f"does not know {', '.join(missing)}"] if missing else []
        said += [f"knows {', '.join(more)}, which the training data does not have"] if more else []
        raise TrainingError(
            f"{path}: this teacher {' and '.join(said)}. A teacher has the labels of the annotated text, in any order."
        )
