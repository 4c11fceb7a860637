"""The report: ``experiments/results/report.md``, from the results alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from experiments.corpora import of_encoder, title
from experiments.groups import Results
from experiments.markdown import listed, table
from experiments.registry import STUDIES
from experiments.runs import Run
from experiments.store import Store
from experiments.study import NOT_RUN, Claim, Section

INTRODUCTION = """\
[Nested Named Entity Recognition with Partially-Observed TreeCRFs](https://doi.org/10.1609/aaai.v35i14.17519) (Fu, \
Tan, Chen, Huang and Huang, AAAI 2021), run again with nestree on open data: every table and figure of the paper that \
open corpora and encoders allow, beside the paper's own numbers, and one step further on each.

The paper's corpora ACE2004 and ACE2005 are not open; LitBank (Bamman, Popat and Shen 2019), fiction annotated with \
six of the seven ACE types, stands in for them, and GermEval 2014 (Benikova et al. 2014), German news, is added. The \
copies of the corpora used here have no test part: **our numbers are on dev \
sets, the paper's on test sets, with other encoders** (on ACE a larger one, on GENIA one that was pretrained on \
biomedical text). They stand beside each other to compare what changes what, not to compare levels. The best epoch is \
chosen on the same dev set, by each model's own decoding; where a model is decoded in another way too, it is the model \
of that same epoch, which may be a disadvantage to the other way.

Encoders: *MiniLM-L6* is all-MiniLM-L6-v2 (6 layers, 22.7 million parameters), *MPNet-base* is all-mpnet-base-v2 (12 \
layers, 109 million). Both are uncased and were made for English sentences; on GermEval they read German all the same, \
so that its level says little.

Tables, figures and sentences are written by `python -m experiments report` from the JSON files beside this page and, \
where it says so, of `benchmarks/results`; notes on how runs came about, marked as such, were written by hand. \
Differences come with 95% intervals over sentences and seeds (`experiments/significance.py`); **†** marks those where \
one side has a single seed: such an interval knows of sentences alone, and is too narrow. Of few seeds intervals are \
rather too narrow still where seeds vary more than sentences do. p values are of single \
comparisons, but for `ablation`, which corrects them for the number of rows in a table; intervals are never corrected.

Words used throughout: *the best tree* is the paper's decoding (CKY, also called MAP); *MBR*, minimum Bayes risk, is \
nestree's, which keeps the entities that are at least as probable as not; *PN* is potential normalisation."""


def write(store: Store) -> Path:
    """Writes the report and its pictures; gives its path."""
    results = Results(store)
    bodies, contents, claims, short, shown = [], [], [], [], []
    for study in STUDIES.values():
        found = Section(store.folder)
        study.section(results, found)
        link = f"[{study.name}](#{_anchor(study.name, study.paper)})"
        contents.append(f"- {link} ({study.paper}): {study.question}")
        body = "\n\n".join([*found.parts, *_note(store, study.name)]) if found.parts else NOT_RUN
        bodies.append(f"## {study.name} ({study.paper})\n\n*{study.question}*\n\n{body}")
        claims += _claims(link, found.claims)
        short += [f"- {topic}: {'; '.join(told)}." for topic, told in found.short.items()]
        shown += found.shown
    parts = ["# The paper, re-run", INTRODUCTION]
    if short:
        parts += ["## In short", "\n".join(short), *shown]
    if claims:
        head = ["experiment", "the paper says", "paper", "here (does it hold?)"]
        parts += ["## The paper's claims", table(head, claims)]
    parts += ["## Contents", "\n".join(contents)]
    parts += [*bodies, "## Where the numbers come from", *_provenance(results), *_note(store, "provenance")]
    path = store.folder / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _note(store: Store, name: str) -> list[str]:
    """What people have to say of how the runs of an experiment came about: ``notes/NAME.md`` beside the results."""
    path = store.folder / "notes" / f"{name}.md"
    return [f"### A note on these runs\n\n{path.read_text(encoding='utf-8').strip()}"] if path.is_file() else []


def _claims(link: str, claims: list[Claim]) -> list[list[str]]:
    """A row for each claim; a line in it for each place where it was looked at."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.text, []).append(claim)
    return [
        [
            link,
            text,
            "<br>".join(dict.fromkeys(one.theirs for one in own)),
            "<br>".join(f"{one.ours} **({one.verdict})**" for one in own),
        ]
        for text, own in found.items()
    ]


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
        table(["encoder", "fingerprint of its files", "runs"], _encoders(runs)),
        "A copy of an encoder has another fingerprint if its weights are in half precision, or its files were written "
        "by another program.",
    ]
    short = sorted(
        {
            f"{of_encoder(run.corpus, run.encoder)}, {'local' if dict(run.changes).get('loss') else 'TreeCRF'} "
            f"({dict(run.changes)['epochs']})"
            for run, _ in runs
            if _has_other_epochs(run)
        }
    )
    if short:
        parts.append(
            f"**Other numbers of epochs** than their experiment asks for have {'; '.join(short)}. They are compared "
            "with each other alone, and stand in a table only where there are none with the usual number."
        )
    return parts


def _has_other_epochs(run: Run) -> bool:
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
    known = Counter(
        (one["encoder"]["name"], one["encoder"].get("sha256", one["encoder"].get("from", ""))) for _, one in runs
    )
    return [[name, f"`{digest}`" if digest else "", str(count)] for (name, digest), count in sorted(known.items())]
