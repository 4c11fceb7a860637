"""``python -m experiments``: the paper, re-run.

python -m experiments list
python -m experiments run main --data DATA --encoder minilm --encoder mpnet=models/mpnet --jobs 12
python -m experiments run ablation latent-labels --data DATA --encoder minilm --seeds 3 --plan
python -m experiments report
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from experiments import pool, provenance, report
from experiments.corpora import find
from experiments.planning import Plan, Request, jobs, joined, state
from experiments.provenance import Encoder
from experiments.registry import STUDIES
from experiments.store import RESULTS, Store
from experiments.study import Study


def main() -> int:
    """Parses, and does it; 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("list", help="the experiments").set_defaults(do=_list)
    one = commands.add_parser("report", help="writes report.md from the results")
    one.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="experiments/results")
    one.set_defaults(do=_report)
    _add_run(commands.add_parser("run", help="runs experiments; goes on with what was stopped"))
    options = parser.parse_args()
    try:
        status: int = options.do(options)
    except (LookupError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return status


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", choices=[*STUDIES, "all"], help="of experiments, or all")
    parser.add_argument("--data", type=Path, action="append", default=[], metavar="DIR", help="folder of corpora")
    parser.add_argument(
        "--encoder", action="append", default=[], metavar="E", help="minilm (default), a folder, or NAME=FOLDER"
    )
    parser.add_argument("--corpora", nargs="+", default=[], metavar="NAME", help="these alone, instead of the usual")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="5")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="0")
    parser.add_argument("--epochs", type=int, metavar="N", help="instead of the usual ones, to try things out")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16", "fp16"), help="of training")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings side by side (1)")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="runs whose name holds one of these")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin nothing later, stop what runs; it can go on")
    parser.add_argument("--plan", action="store_true", help="list the runs and how far they are; run nothing")
    parser.add_argument("--work", type=Path, default=Path("runs/experiments"), metavar="DIR", help="for models")
    parser.add_argument("--no-training", action="store_true", help="only what needs no training run")
    parser.add_argument("--discard", action="store_true", help="remove models once they are measured")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="experiments/results")
    parser.add_argument("--commit", help="of the code, where there is no git")
    parser.add_argument(
        "--python", action="append", default=[], metavar="TOOL=EXECUTABLE", help="for tools of other packages (peers)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="options of single experiments")
    parser.set_defaults(do=_run)


def _list(options: argparse.Namespace) -> int:
    for study in STUDIES.values():
        print(f"{study.name:16} {study.paper:22} {study.question}")
    return 0


def _report(options: argparse.Namespace) -> int:
    path = report.write(Store(options.results))
    print(f"written to {path}")
    return 0


def _request(options: argparse.Namespace) -> Request:
    if options.commit:
        os.environ[provenance.COMMIT] = options.commit
    encoders = tuple(Encoder(said) for said in options.encoder or ["minilm"])
    return Request(
        corpora=find(options.data),
        encoders=encoders,
        store=Store(options.results),
        work=options.work,
        wanted_corpora=tuple(options.corpora),
        seeds=tuple(range(options.first_seed, options.first_seed + options.seeds)),
        device=options.device,
        precision=options.precision,
        changes=(("epochs", options.epochs),) if options.epochs else (),
        pythons=_pairs(options.python, "--python"),
        options=_pairs(options.set, "--set"),
        discard=options.discard,
    )


def _pairs(said: list[str], flag: str) -> dict[str, str]:
    for one in said:
        if "=" not in one:
            raise ValueError(f"{flag} is {one!r}; it must be NAME=VALUE.")
    return dict(one.split("=", 1) for one in said)


def _run(options: argparse.Namespace) -> int:
    request = _request(options)
    studies = [STUDIES[name] for name in (STUDIES if "all" in options.names else dict.fromkeys(options.names))]
    plan = joined(study.plan(request) for study in studies)
    if options.only:
        plan = {run: parts for run, parts in plan.items() if any(text in run.name for text in options.only)}
    if options.plan:
        return _show(plan, request)
    failed = False
    if plan and not options.no_training:
        failed = _train(plan, request, options)
    for study in studies:
        failed |= _measure(study, request)
    return int(failed)


def _show(plan: Plan, request: Request) -> int:
    states = [state(run, parts, request) for run, parts in plan.items()]
    for run, how in zip(plan, states, strict=True):
        print(f"{how:8} {run.name}")
    counted = ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))
    print(f"{len(plan)} runs{': ' if plan else ''}{counted}")
    return 0


def _train(plan: Plan, request: Request, options: argparse.Namespace) -> bool:
    waiting = jobs(plan, request)
    print(f"{len(plan)} runs, {len(plan) - len(waiting)} done before; {options.jobs} side by side", flush=True)

    def say(text: str) -> None:
        print(text, flush=True)

    outcome = pool.run(waiting, side_by_side=options.jobs, seconds=options.seconds, say=say)
    print(
        f"{len(outcome.done)} done, {len(outcome.stopped)} stopped, {len(outcome.waiting)} not begun, "
        f"{len(outcome.failed)} failed{''.join(f'; failed: {name}' for name in outcome.failed)}",
        flush=True,
    )
    return bool(outcome.failed)


def _measure(study: Study, request: Request) -> bool:
    if study.measure is None:
        return False
    try:
        for name in study.measure(request):
            print(f"{study.name}: {name}", flush=True)
    except (LookupError, OSError, RuntimeError, ValueError) as error:
        print(f"FAILED: {study.name}: {error}", file=sys.stderr)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
