"""The report: ``experiments/results/report.md``, from the results alone."""

from __future__ import annotations

from pathlib import Path

from experiments.groups import Results
from experiments.registry import STUDIES
from experiments.store import Store
from experiments.study import NOT_RUN, Section


def write(store: Store) -> Path:
    """Writes the report and its pictures; gives its path."""
    results = Results(store)
    bodies, findings = [], []
    for study in STUDIES.values():
        found = Section(store.folder)
        study.section(results, found)
        body = "\n\n".join(found.parts) if found.parts else NOT_RUN
        bodies.append(f"## {study.name} ({study.paper})\n\n{study.question}\n\n{body}")
        findings += [f"- {study.name}: {sentence}" for sentence in found.findings]
    path = store.folder / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(["# The paper, re-run", "\n".join(findings), *bodies]) + "\n", encoding="utf-8")
    return path
