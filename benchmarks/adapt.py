"""What adapting, combining and distilling gain, what it costs, and whether that is chance; many runs side by side.

    python -m benchmarks.adapt --data DATA --corpus genia --encoder minilm --work WORK --side-by-side 6 --seconds 540

Stages: ``adapt`` (the encoder, on the training text), ``plain`` and ``adapted`` (a model for each seed), ``combine``,
``distil`` (students of the adapted ensemble, on the adapted encoder), ``distil-annotated`` (the same without raw text,
where there is some), ``combine-students``, ``measure``. What is done already is not done again, and what ``--seconds``
stopped goes on with the next call. Other settings live beside these under ``--name``; plain models are shared, unless
``--train`` changes them or ``--share`` cuts what they learn from:

    ... --name lr --adapt="--lr 3e-4 --epochs 60"  # flags of nestree adapt, train (--train) and distil (--distil)
    ... --name mixed --adapt="--seed 0" --adapt="--seed 1" --train="--word first" --train="--word mean"

Given several times, encoders and settings of taggers take turns: the first model has the first, the next the next.
Models with ``--start-seed`` have one start, and the mean of their weights is measured, too. Students of the teacher of
another name are made with ``--teacher``:

    ... --name one-start --teacher usual --distil="--start-seed 100"

``--raw`` names text without annotation, which encoders and students read besides; ``--share 0.2`` makes some: of the
training documents, the first fifth alone stay annotated.

``measure`` writes ``benchmarks/results/adapt-CORPUS-ENCODER[-NAME].json`` and prints the table: dev F1, mean ± standard
deviation of seeds; the difference to ``plain`` with a 95% interval over sentences and seeds; calibration; seconds.
Kinds of which ``--work`` holds nothing stay in that file as an earlier call left them, with what was noted there, and
with the flags and the commit of that call.

Time, on an H200 shared by nine processes (with MPS): MPNet-base (``--width 768``) on GENIA is adapted in 380 to 450 s,
two at a time; five taggers side by side take 160 to 190 s for six epochs. Of ten epochs beside up to twelve others,
MiniLM takes 80 to 170 s, MPNet 400 to 470. All of LitBank with MPNet takes seven minutes, seven side by side. Memory:
with recorded steps, an MPNet that trains holds 6 to 10 GB of the GPU, and one that is adapted 25 and sometimes 54 GB;
where memory runs out, steps go on unrecorded, far more slowly, or fail. Of 140 GB, eight trainings held 74 after a
minute, and fifteen processes all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.adapt_plan import KINDS, STAGES, Plan
from benchmarks.measure import RESULTS
from experiments import counts, provenance, significance
from experiments.pool import run
from nestree.adaptation.folder import AdaptFolder
from nestree.training.folder import RunFolder


def measured(plan: Plan) -> dict[str, Any]:
    """Scores, counts, calibration and seconds of everything that is there."""
    options = plan.options
    found: dict[str, Any] = {kind: [] for kind in KINDS}
    for kind in plan.kinds:
        there = [one for one in plan.folders(kind) if (one / "nestree.json").is_file()]
        found[kind] = [_measure(folder, plan.corpus.dev, options.device) for folder in there]
    encoders = [AdaptFolder(plan.encoder_folder(number)).result() for number in range(len(options.adapt))]
    flags = {name: getattr(options, name) for name in ("adapt", "train", "distil", "teacher", "share")}
    how = {"flags": flags, "raw": plan.raw_read(encoders[0]), "code": provenance.code()}
    made = {kind: how for kind, runs in found.items() if runs}
    return {"encoder": encoders[0], "more_encoders": encoders[1:], "made": made, "kinds": found}


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
    pairs = zip_longest(found["more_encoders"], earlier.get("more_encoders", []))
    more = [now or before for now, before in pairs]
    encoder = found["encoder"] or earlier["encoder"]
    made = {**earlier.get("made", {}), **found["made"]}
    return {**found, "encoder": encoder, "more_encoders": more, "made": made, "notes": notes, "kinds": kinds}


def table(found: dict[str, Any], compared_with: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of Markdown. ``compared_with``: plain models, these or those of the usual settings."""
    lines = ["| | seeds | dev F1 | against plain | ECE | Brier | training s |", "|---|---|---|---|---|---|---|"]
    plain = [counts.unpack(one["per_sentence"]) for one in compared_with]
    for kind, runs in found["kinds"].items():
        if not runs:
            continue
        own = [counts.unpack(one["per_sentence"]) for one in runs]
        against = str(significance.compared(plain, own)) if plain and kind != "plain" else ""
        spent = [one["training_seconds"] for one in runs if one["training_seconds"]]
        cells = [kind, str(len(runs)), _mean([one["f1"] for one in runs], 2), against]
        cells += [f"{statistics.mean(one[name] for one in runs):.3f}" for name in ("ece", "brier")]
        lines.append("| " + " | ".join([*cells, f"{statistics.mean(spent):.0f}" if spent else ""]) + " |")
    for one in filter(None, [found["encoder"], *found["more_encoders"]]):
        lines.append(
            f"\nencoder: {one['seconds']:.0f} s, {one['epochs']:.0f} passes, perplexity of held-out text "
            f"{one['perplexity_after']:.2f}"
        )
    return lines


def _mean(values: Sequence[float], digits: int) -> str:
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def main() -> int:
    """Runs stages; 1 if something was not done."""
    options = _options()
    try:
        plans = [Plan(options, corpus) for corpus in options.corpus]
    except ValueError as error:
        sys.exit(str(error))
    wanted = options.stages.split(",")
    left_out: list[str] = []
    jobs = [job for plan in plans for job in plan.jobs(wanted, left_out.append)]
    print("\n".join(left_out), end="\n" * bool(left_out), flush=True)
    outcome = run(jobs, side_by_side=options.side_by_side, seconds=options.seconds)
    for what, names in (
        ("failed", [*outcome.failed]),
        ("not begun, for lack of time or of what they come after", outcome.waiting),
        ("stopped, the next call goes on", outcome.stopped),
    ):
        if names:
            print(f"{what}: {', '.join(names)}")
    undone = {name.split()[0] for name in (*outcome.failed, *outcome.waiting, *outcome.stopped)}
    if "measure" in wanted:
        for plan in plans:
            if plan.corpus.name not in undone:
                _write(plan)
    return int(bool(undone or left_out))


def _options() -> argparse.Namespace:
    """The command line; what cannot be meant ends here, and not after an hour."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of corpora, as of experiments")
    parser.add_argument("--corpus", nargs="+", default=["genia"])
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
    parser.add_argument("--teacher", default="", metavar="NAME", help="name of the settings that made the teacher")
    parser.add_argument("--raw", type=Path, nargs="*", default=[], help="raw text for encoders and students")
    parser.add_argument("--share", type=float, default=1.0, help="of the training documents that stay annotated")
    parser.add_argument("--adapt", action="append", help="more flags of nestree adapt, in quotes; given again: another")
    parser.add_argument("--train", action="append", help="of nestree train, likewise")
    parser.add_argument("--distil", default="", help="of nestree distil")
    options = parser.parse_args()
    options.adapt, options.train = options.adapt or [""], options.train or [""]
    options.encoder_name = options.encoder_name or Path(options.encoder).name
    unknown = set(options.stages.split(",")) - set(STAGES)
    if unknown:
        parser.error(f"there is no stage {', '.join(sorted(unknown))}; known are {', '.join(STAGES)}")
    if not 0 < options.share <= 1:
        parser.error(f"--share is {options.share:g}; it must be more than 0 and at most 1")
    if missing := [str(path) for path in options.raw if not path.exists()]:
        parser.error(f"--raw: there is no {', '.join(missing)}")
    if options.teacher == options.name:
        parser.error("--teacher names other settings than --name; leave it out")
    if options.name == "usual" and (options.share < 1 or options.raw):
        parser.error("--share and --raw are not the usual settings; give them a --name")
    return options


def _write(plan: Plan) -> None:
    """Measures, writes JSON, prints the table."""
    found, options = measured(plan), plan.options
    stem = f"adapt-{plan.corpus.name}-{options.encoder_name}"
    usual = RESULTS / f"{stem}.json"
    target = usual if options.name == "usual" else RESULTS / f"{stem}-{options.name}.json"
    if target.is_file():
        found = with_earlier(found, json.loads(target.read_text()))
    target.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join([*table(found, found["kinds"]["plain"] or _plain(stem, options)), f"written to {target}"]))


def _plain(stem: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Plain models of other settings to compare with: those of the teacher's name, else the usual ones.

    Where annotation was cut, only models that had no more of it will do.
    """
    names = [f"{stem}-{options.teacher}"] if options.teacher else []
    for name in [*names, *([stem] if options.share == 1 else [])]:
        path = RESULTS / f"{name}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        plain: list[dict[str, Any]] = found.get("kinds", {}).get("plain", [])
        cut = found.get("made", {}).get("plain", {}).get("flags", {}).get("share", 1)
        if plain and cut == options.share:
            return plain
    return []


if __name__ == "__main__":
    sys.exit(main())
