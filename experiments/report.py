"""The report: ``experiments/results/report.md``, from the results alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from experiments.corpora import title
from experiments.groups import Results
from experiments.markdown import listed, table
from experiments.registry import STUDIES
from experiments.runs import Run
from experiments.store import Store
from experiments.study import NOT_RUN, Section

INTRODUCTION = """\
[Nested Named Entity Recognition with Partially-Observed TreeCRFs](https://doi.org/10.1609/aaai.v35i14.17519) (Fu, \
Tan, Chen, Huang and Huang, AAAI 2021), run again with nestree on open data: every table and figure of the paper that \
open corpora and encoders allow, beside the paper's own numbers, and one step further on each.

The paper's corpora ACE2004 and ACE2005 are not open; LitBank, fiction with the ACE types and deep nesting, stands in \
for them, and GermEval 2014 is added. There are no open test sets: **our numbers are on dev sets, the paper's on test \
sets, with larger encoders**. They stand beside each other to compare what changes what, not to compare levels. The \
best epoch is chosen on the same dev set, for every row alike.

Nothing below was typed in: tables, figures and sentences are written by `python -m experiments report` from the JSON \
files beside this page. Differences come with 95% intervals over sentences *and* seeds \
(`experiments/significance.py`)."""


def write(store: Store) -> Path:
    """Writes the report and its pictures; gives its path."""
    results = Results(store)
    bodies, findings = [], []
    for study in STUDIES.values():
        found = Section(store.folder)
        study.section(results, found)
        body = "\n\n".join(found.parts) if found.parts else NOT_RUN
        bodies.append(f"## {study.name} ({study.paper})\n\n*{study.question}*\n\n{body}")
        if found.findings:
            findings.append(f"- **[{study.name}](#{_anchor(study.name, study.paper)})**\n{_bullets(found.findings)}")
    parts = ["# The paper, re-run", INTRODUCTION]
    if findings:
        parts += ["## In short", "\n".join(findings)]
    parts += [*bodies, "## Where the numbers come from", *_provenance(results)]
    path = store.folder / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"  - {one}" for one in sentences)


def _anchor(name: str, paper: str) -> str:
    """As GitHub makes them of headings."""
    text = f"{name} ({paper})".lower()
    return "".join(one for one in text if one.isalnum() or one in " -").replace(" ", "-")


def _provenance(results: Results) -> list[str]:
    """Runs, machines, code and data."""
    if not len(results):
        return ["There are no training runs yet."]
    runs = list(results)
    hours = sum(float(result["seconds"]) for _, result in runs) / 3600
    devices = Counter(str(result["machine"]["device"]) for _, result in runs)
    commits = Counter(str(result["code"]["commit"]) for _, result in runs)
    parts = [
        f"{len(runs)} training runs, {hours:.1f} hours of training in all (several side by side), on "
        f"{_counted(devices)}. Each is a JSON under `runs/`, named after corpus, encoder, recipe, changes and seed; it "
        "holds all settings, commit and a hash of the sources, fingerprints of data and encoder, versions, device, "
        "seconds, scores and counts per sentence. The other files here belong to experiments without training.",
        f"Commits: {_counted(commits)}.",
        table(["data", "part", "sentences", "entities", "fingerprint (SHA-256)"], _data(runs)),
        table(["encoder", "fingerprint"], _encoders(runs)),
    ]
    short = sorted({run.kind for run, _ in runs if _is_trial(run)})
    if short:
        parts.append(
            f"**A trial:** {len(short)} kinds of runs have another number of epochs than their experiment asks for "
            f"({', '.join(short[:3])}{', ...' if len(short) > 3 else ''}): their numbers show that everything works, "
            "and nothing else."
        )
    return parts


def _is_trial(run: Run) -> bool:
    return "epochs" in dict(run.changes) and run.sentences == 1


def _counted(counts: Counter[str]) -> str:
    return listed([f"{name} ({count})" for name, count in counts.most_common()])


def _data(runs: list[tuple[Run, dict[str, Any]]]) -> list[list[str]]:
    found: dict[tuple[str, ...], None] = {}
    for run, result in runs:
        for part, known in result["data"].items():
            if part == "dev" or not run.is_cut:
                row = (title(run.corpus), part, f"{known['sentences']:,}", f"{known['entities']:,}")
                found[*row, f"`{known['fingerprint'][:16]}`"] = None
    return [list(row) for row in sorted(found)]


def _encoders(runs: list[tuple[Run, dict[str, Any]]]) -> list[list[str]]:
    known = {(one["encoder"]["name"], one["encoder"].get("sha256", one["encoder"].get("from", ""))) for _, one in runs}
    return [[name, f"`{digest}`" if digest else ""] for name, digest in sorted(known)]
