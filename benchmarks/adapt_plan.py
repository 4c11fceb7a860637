"""What ``benchmarks.adapt`` runs: every command of nestree, in which folder its result lies, and what it waits for."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from experiments.corpora import CorpusFiles, find
from experiments.pool import Job, python
from experiments.runs import Run
from nestree.adaptation.folder import AdaptFolder
from nestree.data import Document, read, write
from nestree.training.folder import RunFolder

STAGES = ("adapt", "plain", "adapted", "combine", "distil", "distil-annotated", "combine-students", "measure")
STUDENTS = ("student", "student-annotated")
"""Of all text, and, to compare with where there is raw text, of the annotated text alone."""
KINDS = (
    *("plain", "adapted", "plain-ensemble", "adapted-ensemble", "adapted-average"),
    *("student", "student-ensemble", "student-average", "student-annotated"),
)
SINGLE = ("ensemble", "average")
"""How kinds end that are one model made of several."""
OF_STUDENTS = ("distil", "distil-annotated", "combine-students")
"""The stages that make students; another name's teacher is made under that name."""


class Step(NamedTuple):
    """A command of nestree, what has to be done before it, and whether it was done before."""

    name: str
    command: Callable[[], list[str]]
    after: tuple[str, ...]
    done: bool


class Plan:
    """All jobs of a corpus and an encoder, and the folders of what they make.

    Args:
        options: as on the command line of ``benchmarks.adapt``.
        corpus: its name.
    """

    def __init__(self, options: argparse.Namespace, corpus: str) -> None:
        self.options = options
        # Models of more annotation are never found beside those of less: a teacher would tell what is not annotated.
        self._share = f"-first-{options.share:g}" if options.share < 1 else ""
        self.base: Path = options.work / corpus / options.encoder_name / f"{options.name}{self._share}"
        self.encoder: str = options.encoder
        self.corpus = find([options.data])[corpus]
        self.raw: list[Path] = list(options.raw)
        if options.share < 1:
            place = self.base.with_name(f"text{self._share}")
            self.corpus, rest = with_raw(self.corpus, options.share, place)
            self.raw.append(rest)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that are made here: students alone, if their teacher was made under another name."""
        return tuple(kind for kind in KINDS if kind.startswith("student") or not self.options.teacher)

    def folder(self, kind: str, number: int | None = None) -> Path:
        """Of a model, or of an encoder."""
        base = self.base
        if kind.startswith("plain") and not any(self.options.train) and self.options.share == 1:
            base = self.base.with_name("shared")
        elif not kind.startswith("student"):
            base = self.base.with_name(f"{self.options.teacher or self.options.name}{self._share}")
        return base / (kind if number is None else f"{kind}-{number}")

    def encoder_folder(self, number: int) -> Path:
        """Of the encoder of an adapted model or a student: they take turns."""
        at = number % len(self.options.adapt)
        return self.folder("encoder", at or None)

    def seeds(self, kind: str) -> range:
        """Of a kind of models."""
        return range(self.options.students if kind in STUDENTS else self.options.seeds)

    def folders(self, kind: str) -> list[Path]:
        """Of all models of a kind, whether they are there or not."""
        single = kind.endswith(SINGLE)
        return [self.folder(kind)] if single else [self.folder(kind, seed) for seed in self.seeds(kind)]

    def raw_read(self, encoder: dict[str, Any] | None) -> list[str]:
        """The names of raw text that the encoder read beside annotated text, by what it says itself."""
        return [one["file"] for one in encoder["text"]["files"]][1:] if encoder else []

    def jobs(self, stages: Collection[str], say: Callable[[str], None]) -> list[Job]:
        """What is left to do, in an order in which it can be done; without what would lack something, which is said."""
        found: list[Job] = []
        there: set[str] = set()
        for stage, steps in self._steps():
            for step in steps:
                missing = [name for name in step.after if name not in there]
                if step.done or (stage in stages and not missing):
                    there.add(step.name)
                if step.done or stage not in stages:
                    continue
                if missing:
                    say(f"left out: {self._job(step.name)}, since there is no {', '.join(missing)}")
                    continue
                log = self.base / "logs" / f"{step.name}.log"
                command, after = python("-m", "nestree", *step.command()), [self._job(name) for name in step.after]
                found.append(Job(self._job(step.name), command, log, after))
        return found

    def _job(self, step: str) -> str:
        return f"{self.corpus.name} {step}"

    def _steps(self) -> list[tuple[str, list[Step]]]:
        """All that there is to do here, by stages; of what was made under another name, what is there."""
        steps = self._all_steps()
        if not self.options.teacher:
            return steps
        return [
            (stage, found if stage in OF_STUDENTS else [step for step in found if step.done]) for stage, found in steps
        ]

    def _all_steps(self) -> list[tuple[str, list[Step]]]:
        distilled, annotated = ([self._distil(kind, seed) for seed in self.seeds(kind)] for kind in STUDENTS)
        return [
            ("adapt", [self._adapt(number) for number in range(len(self.options.adapt))]),
            ("adapted", [self._train("adapted", seed) for seed in self.seeds("adapted")]),
            ("plain", [self._train("plain", seed) for seed in self.seeds("plain")]),
            ("combine", [*self._combine("plain"), *self._combine("adapted")]),
            ("distil", distilled),
            ("distil-annotated", annotated if self.raw else []),
            ("combine-students", self._combine("student") if distilled else []),
        ]

    def _adapt(self, number: int) -> Step:
        folder = self.encoder_folder(number)
        flags = [*shlex.split(self.options.adapt[number]), "--device", self.options.device, "--resume"]
        command = ["adapt", self.encoder, str(self.corpus.train), *map(str, self.raw), "--output", str(folder), *flags]
        return Step(folder.name, lambda: command, (), AdaptFolder(folder).result() is not None)

    def _settings(self, kind: str, seed: int) -> list[str]:
        """The recipe of the experiments, with learning rates by the encoder's width, as a file; and flags."""
        number = seed + 100 if kind in STUDENTS else seed
        run = Run(self.corpus.name, "minilm", seed=number, sentences=self.options.share)
        config = run.config(self.options.width)
        encoder = self.encoder if kind == "plain" else str(self.encoder_folder(seed).resolve())
        path = self.base / f"{'plain' if kind == 'plain' else 'adapted'}-{number}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config.updated({"encoder": encoder, "device": self.options.device}).as_toml())
        given = self.options.train
        return ["--config", str(path), *shlex.split(given[seed % len(given)]), "--resume"]

    def _train(self, kind: str, seed: int) -> Step:
        folder = self.folder(kind, seed)
        command = ["train", str(self.corpus.train), "--dev", str(self.corpus.dev), "--output", str(folder)]
        after = () if kind == "plain" else (self.encoder_folder(seed).name,)
        return Step(folder.name, lambda: [*command, *self._settings(kind, seed)], after, _is_finished(folder))

    def _combine(self, kind: str) -> list[Step]:
        """By potentials; and by weights, if these models have one start."""
        folders = self.folders(kind)
        after = tuple(one.name for one in folders)

        def step(made: str, how: str) -> Step:
            output = self.folder(f"{kind}-{made}")
            command = ["combine", *map(str, folders), "--output", str(output), "--how", how]
            return Step(output.name, lambda: command, after, (output / "nestree.json").is_file())

        averaged = kind != "plain" and self._has_one_start(kind)
        return [step("ensemble", "potentials"), *([step("average", "weights")] if averaged else [])]

    def _has_one_start(self, kind: str) -> bool:
        last = self.options.distil if kind in STUDENTS else ""
        starts = set()
        for flags in self.options.train:
            words = f"{flags} {last}".replace("=", " ").split()
            starts.add(words[len(words) - words[::-1].index("--start-seed")] if "--start-seed" in words else "")
        return len(starts) == 1 and "" not in starts

    def _distil(self, kind: str, seed: int) -> Step:
        folder, teacher = self.folder(kind, seed), self.folder("adapted-ensemble")
        raw = [] if kind == "student-annotated" else [str(path) for path in self.raw]
        data = ["--train", str(self.corpus.train), "--dev", str(self.corpus.dev), "--output", str(folder)]
        said = teacher.with_name("said")
        flags = ["--answers", str(said), *shlex.split(self.options.distil)]

        def command() -> list[str]:
            return ["distil", str(teacher), *raw, *data, *self._settings(kind, seed), *flags]

        after = (teacher.name, self.encoder_folder(seed).name)
        return Step(folder.name, command, after, _is_finished(folder))


def with_raw(corpus: CorpusFiles, share: float, folder: Path) -> tuple[CorpusFiles, Path]:
    """The corpus with the first share of its training documents alone, and the text of the others, as files there.

    The first, and not any: where documents are sentences, neighbours are of one text, and whoever annotates does a
    whole text before the next.

    Raises:
        ValueError: nothing would be left of one of them.
    """
    documents = list(read(corpus.train))
    kept = round(share * len(documents))
    if not 0 < kept < len(documents):
        raise ValueError(f"of {len(documents)} documents, a share of {share:g} leaves none annotated, or none raw.")
    annotated, rest = folder / "annotated.jsonl", folder / "raw.jsonl"
    write(documents[:kept], annotated)
    write([_without_annotation(one) for one in documents[kept:]], rest)
    return replace(corpus, train=annotated), rest


def _without_annotation(document: Document) -> Document:
    source = document.source._replace(entity_lines=()) if document.source else None
    return replace(document, entities=(), source=source)


def _is_finished(folder: Path) -> bool:
    return RunFolder(folder).result() is not None
