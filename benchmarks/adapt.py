"""What adapting, combining and distilling gain, what it costs, and whether that is chance; many runs side by side.

    python -m benchmarks.adapt --data DATA --corpus genia --encoder minilm --work WORK --side-by-side 6 --seconds 540

Stages: ``adapt`` (the encoder, on the training text), ``plain`` and ``adapted`` (a model for each seed), ``combine``,
``distil`` (students of the adapted ensemble, on the adapted encoder), ``combine-students``, ``measure``. What is done
already is not done again, and what ``--seconds`` stopped goes on with the next call. Other settings live beside these
under ``--name``; plain models are shared, unless ``--train`` changes them:

    ... --name lr --adapt "--lr 3e-4 --epochs 60"        # flags of nestree adapt, train (--train) and distil (--distil)

``measure`` writes ``benchmarks/results/adapt-CORPUS-ENCODER[-NAME].json`` and prints the table: dev F1, mean ± standard
deviation of seeds; the difference to ``plain`` with a 95% interval over sentences and seeds; calibration; seconds.
Kinds of which ``--work`` holds nothing stay in that file as an earlier call left them, with what was noted there.

Time, estimated and not measured: experiments/results has 87 to 127 s for a MiniLM run on GENIA on an H200, so that all
stages with 5 seeds and 3 students, 6 side by side, should take two or three calls of ``--seconds 540``; MPNet-base
(``--width 768``) about three times as many.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS
from experiments import counts, significance
from experiments.corpora import find
from experiments.pool import Job, python, run
from experiments.runs import Run
from nestree.adaptation.folder import AdaptFolder
from nestree.training.folder import RunFolder

STAGES = ("adapt", "plain", "adapted", "combine", "distil", "combine-students", "measure")
KINDS = ("plain", "adapted", "plain-ensemble", "adapted-ensemble", "student", "student-ensemble")


class Plan:
    """All jobs of a corpus and an encoder, and the folders of what they make."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.corpus = find([options.data])[options.corpus]
        self.base: Path = options.work / options.corpus / options.encoder_name / options.name
        self.encoder: str = options.encoder

    def folder(self, kind: str, seed: int | None = None) -> Path:
        """Of a model, or of the encoder."""
        shared = kind.startswith("plain") and not self.options.train
        base = self.base.parent / "shared" if shared else self.base
        return base / (kind if seed is None else f"{kind}-{seed}")

    def seeds(self, kind: str) -> range:
        """Of a kind of models."""
        return range(self.options.students if kind == "student" else self.options.seeds)

    def jobs(self, stage: str) -> list[Job]:
        """What is left to do of a stage."""
        found: list[tuple[str, list[str], bool]] = []
        if stage == "adapt":
            found = [self._adapt()]
        elif stage in ("plain", "adapted"):
            found = [self._train(stage, seed) for seed in self.seeds(stage)]
        elif stage == "combine":
            found = [self._combine(kind) for kind in ("plain", "adapted") if self._all_there(kind)]
        elif stage == "distil":
            found = [self._distil(seed) for seed in self.seeds("student")]
        elif stage == "combine-students":
            found = [self._combine("student")] if self._all_there("student") else []
        return [
            Job(name, python("-m", "nestree", *command), self.base / "logs" / f"{name}.log")
            for name, command, done in found
            if not done
        ]

    def _adapt(self) -> tuple[str, list[str], bool]:
        folder = self.folder("encoder")
        flags = [*shlex.split(self.options.adapt), "--device", self.options.device, "--resume"]
        command = ["adapt", self.encoder, str(self.corpus.train), "--output", str(folder), *flags]
        return "encoder", command, AdaptFolder(folder).result() is not None

    def _settings(self, seed: int, adapted: bool) -> Path:
        """The recipe of the experiments, with learning rates by the encoder's width, as a file."""
        config = Run(self.options.corpus, "minilm", seed=seed).config(self.options.width)
        encoder = str(self.folder("encoder").resolve()) if adapted else self.encoder
        path = self.base / f"{'adapted' if adapted else 'plain'}-{seed}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config.updated({"encoder": encoder, "device": self.options.device}).as_toml())
        return path

    def _train(self, kind: str, seed: int) -> tuple[str, list[str], bool]:
        folder = self.folder(kind, seed)
        config = self._settings(seed, kind == "adapted")
        command = ["train", str(self.corpus.train), "--dev", str(self.corpus.dev), "--output", str(folder)]
        flags = ["--config", str(config), *shlex.split(self.options.train), "--resume"]
        return folder.name, [*command, *flags], RunFolder(folder).result() is not None

    def _all_there(self, kind: str) -> bool:
        return all((self.folder(kind, seed) / "nestree.json").is_file() for seed in self.seeds(kind))

    def _combine(self, kind: str) -> tuple[str, list[str], bool]:
        folder = self.folder(f"{kind}-ensemble")
        members = [str(self.folder(kind, seed)) for seed in self.seeds(kind)]
        return folder.name, ["combine", *members, "--output", str(folder)], (folder / "nestree.json").is_file()

    def _distil(self, seed: int) -> tuple[str, list[str], bool]:
        folder = self.folder("student", seed)
        data = ["--train", str(self.corpus.train), "--dev", str(self.corpus.dev), "--output", str(folder)]
        config = ["--config", str(self._settings(100 + seed, adapted=True)), *shlex.split(self.options.train)]
        raw = [str(path) for path in self.options.raw]
        command = ["distil", str(self.folder("adapted-ensemble")), *raw, *data, *config]
        flags = [*shlex.split(self.options.distil), "--resume"]
        return folder.name, [*command, *flags], RunFolder(folder).result() is not None

    # --- What came out ---

    def measured(self) -> dict[str, Any]:
        """Scores, counts, calibration and seconds of everything that is there."""
        found: dict[str, Any] = {}
        for kind in KINDS:
            single = kind.endswith("ensemble")
            folders = [self.folder(kind)] if single else [self.folder(kind, seed) for seed in self.seeds(kind)]
            there = [one for one in folders if (one / "nestree.json").is_file()]
            found[kind] = [_measure(folder, self.corpus.dev, self.options.device) for folder in there]
        encoder = AdaptFolder(self.folder("encoder")).result()
        return {"encoder": encoder, "kinds": found}


def _measure(folder: Path, dev: Path, device: str) -> dict[str, Any]:
    import torch

    from nestree import NestedNER
    from nestree.data import read
    from nestree.evaluation import score
    from nestree.evaluation.calibration import calibration, scored
    from nestree.prediction import annotate

    model = NestedNER.from_pretrained(folder).eval()
    model.to("cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu")
    gold = [model.config.splitter.split(document) for document in read(dev)]
    began = time.monotonic()
    predicted = list(annotate(model, gold))
    seconds = time.monotonic() - began
    micro, scores = score(gold, predicted).micro, calibration(scored(gold, predicted))
    ran = RunFolder(folder).result() or {}
    return {
        "f1": round(100 * micro.f1, 3),
        "precision": round(100 * micro.precision, 3),
        "recall": round(100 * micro.recall, 3),
        "ece": round(scores.ece_mass, 4),
        "brier": round(scores.brier, 4),
        "mean_score": round(scores.confidence, 4),
        "right": round(scores.precision, 4),
        "predicting_seconds": round(seconds, 1),
        "training_seconds": ran.get("seconds"),
        "per_sentence": counts.packed(gold, predicted),
    }


def with_earlier(found: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """What was found, and of an earlier call what is not there any more."""
    kinds = {kind: found["kinds"][kind] or earlier["kinds"].get(kind, []) for kind in KINDS}
    notes = {kind: note for kind, note in earlier.get("notes", {}).items() if not found["kinds"][kind]}
    return {"encoder": found["encoder"] or earlier["encoder"], "notes": notes, "kinds": kinds}


def table(found: dict[str, Any]) -> list[str]:
    """Lines of Markdown."""
    lines = ["| | seeds | dev F1 | against plain | ECE | Brier | training s |", "|---|---|---|---|---|---|---|"]
    plain = [counts.unpack(one["per_sentence"]) for one in found["kinds"].get("plain", [])]
    for kind, runs in found["kinds"].items():
        if not runs:
            continue
        own = [counts.unpack(one["per_sentence"]) for one in runs]
        against = str(significance.compared(plain, own)) if plain and kind != "plain" else ""
        spent = [one["training_seconds"] for one in runs if one["training_seconds"]]
        cells = [kind, str(len(runs)), _mean([one["f1"] for one in runs], 2), against]
        cells += [f"{statistics.mean(one[name] for one in runs):.3f}" for name in ("ece", "brier")]
        lines.append("| " + " | ".join([*cells, f"{statistics.mean(spent):.0f}" if spent else ""]) + " |")
    if found["encoder"]:
        one = found["encoder"]
        lines.append(
            f"\nencoder: {one['seconds']:.0f} s, {one['epochs']:.0f} passes, perplexity of held-out text "
            f"{one['perplexity_after']:.2f}"
        )
    return lines


def _mean(values: Sequence[float], digits: int) -> str:
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def main() -> None:
    """Runs stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of corpora, as of experiments")
    parser.add_argument("--corpus", default="genia")
    parser.add_argument("--encoder", default="minilm", help="name or folder")
    parser.add_argument("--encoder-name", default="", help="what it is called in files; default: as --encoder")
    parser.add_argument("--width", type=int, default=384, help="of the encoder, for learning rates")
    parser.add_argument("--work", type=Path, required=True, help="folder for models")
    parser.add_argument("--name", default="usual", help="of a set of settings")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--students", type=int, default=3)
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="stop after so long; the next call goes on")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--raw", type=Path, nargs="*", default=[], help="raw text for students")
    for name in ("adapt", "train", "distil"):
        parser.add_argument(f"--{name}", default="", help=f"more flags of nestree {name}, in quotes")
    options = parser.parse_args()
    options.encoder_name = options.encoder_name or Path(options.encoder).name
    plan, began = Plan(options), time.monotonic()
    wanted = options.stages.split(",")
    # Plain runs wait for nothing: they go beside the adaptation.
    for stages in (("adapt", "plain"), ("adapted",), ("combine",), ("distil",), ("combine-students",)):
        jobs = [job for stage in stages if stage in wanted for job in plan.jobs(stage)]
        left = None if options.seconds is None else options.seconds - (time.monotonic() - began)
        if jobs and (left is None or left > 0):
            outcome = run(jobs, side_by_side=options.side_by_side, seconds=left)
            if outcome.failed or outcome.stopped or outcome.waiting:
                print(f"not done: {', '.join([*outcome.failed, *outcome.stopped, *outcome.waiting])}; call again")
                return
    if "measure" in wanted:
        found = plan.measured()
        suffix = "" if options.name == "usual" else f"-{options.name}"
        target = RESULTS / f"adapt-{options.corpus}-{options.encoder_name}{suffix}.json"
        if target.is_file():
            found = with_earlier(found, json.loads(target.read_text()))
        target.write_text(json.dumps(found, indent=1) + "\n")
        print("\n".join([*table(found), f"written to {target}"]))


if __name__ == "__main__":
    main()
