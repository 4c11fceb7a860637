"""From what was asked for to runs: which there are, which are done, and jobs for those that are not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments import provenance
from experiments.corpora import CorpusFiles, choose
from experiments.measures import ERRORS, SCORES, SYNTAX, TREES
from experiments.pool import Job, python
from experiments.provenance import Encoder
from experiments.runs import Run, Value
from experiments.store import Store
from nestree.training.folder import RunFolder

USUAL = frozenset({SCORES, ERRORS})
"""What is measured of every run."""


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line.

    Attributes:
        corpora: those that were found.
        encoders: to train with.
        store: where results go.
        work: where models go.
        wanted_corpora: by name; none: those that an experiment usually takes.
        seeds: of each kind of run.
        device: as ``nestree train`` knows it.
        precision: the same.
        changes: settings for all runs.
        pythons: of other tools, by their names.
        options: further options, for single experiments.
        discard: whether models are removed once they are measured.
    """

    corpora: dict[str, CorpusFiles]
    encoders: tuple[Encoder, ...]
    store: Store
    work: Path
    wanted_corpora: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    device: str = "auto"
    precision: str = "auto"
    changes: tuple[tuple[str, Value], ...] = ()
    pythons: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    discard: bool = False

    def of(self, *usual: str) -> list[CorpusFiles]:
        """The corpora for an experiment that usually takes these."""
        return choose(self.corpora, list(self.wanted_corpora), usual)


Plan = dict[Run, frozenset[str]]
"""Runs, and what is to be measured of each."""


def planned(runs: Iterable[Run], *more: str) -> Plan:
    """A plan of these runs, each measured as usual, and more."""
    return {run: USUAL | set(more) for run in runs}


def seeded(request: Request, run: Run) -> list[Run]:
    """The run with every seed, and with the settings that were given for all."""
    values = run.as_dict() | {"changes": {**dict(run.changes), **dict(request.changes)}}
    return [Run.from_dict(values | {"seed": seed}) for seed in request.seeds]


def joined(plans: Iterable[Plan]) -> Plan:
    """Several plans in one; seed by seed, so that what was stopped early has something of everything."""
    found: Plan = {}
    for plan in plans:
        for run, parts in plan.items():
            found[run] = found.get(run, frozenset()) | parts
    return dict(sorted(found.items(), key=lambda one: one[0].seed))


def state(run: Run, parts: frozenset[str], request: Request) -> str:
    """How far a run is: done, trained, begun or new."""
    if request.store.has(run, parts):
        return "done"
    folder = RunFolder(request.work / run.name)
    if folder.result() is not None:
        return "trained"
    return "begun" if folder.begun else "new"


def jobs(plan: Plan, request: Request) -> list[Job]:
    """A job for each run that is not done."""
    known = {encoder.name: encoder for encoder in request.encoders}
    told = {name: encoder.as_dict() for name, encoder in known.items()}
    code = provenance.code()
    found = []
    for run, parts in plan.items():
        before = request.store.result(run) or {}
        if parts <= set(before):
            continue
        encoder, corpus = known[run.encoder], request.corpora[run.corpus]
        # The result is written anew, and nothing is to be lost that can be measured again.
        parts |= {TREES, SYNTAX} & set(before) if corpus.treebank else {TREES} & set(before)
        folder = request.work.resolve() / run.name
        spec = {
            "run": run.as_dict(),
            "folder": str(folder),
            "output": str(request.store.path(run).resolve()),
            "train": str(corpus.train.resolve()),
            "dev": str(corpus.dev.resolve()),
            "treebank": str(corpus.treebank.resolve()) if corpus.treebank else None,
            "encoder": {"argument": encoder.argument, "width": encoder.width, "known": told[run.encoder]},
            "device": request.device,
            "precision": request.precision,
            "parts": sorted(parts),
            "discard": request.discard,
            "code": code,
        }
        path = folder.with_name(f"{folder.name}.spec.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(spec, indent=1), encoding="utf-8")
        command = python("-m", "experiments.worker", str(path))
        found.append(Job(run.name, command, folder.with_name(f"{folder.name}.log")))
    return found


__all__ = ["ERRORS", "SCORES", "SYNTAX", "TREES", "Plan", "Request", "jobs", "joined", "planned", "seeded", "state"]
