"""The number of latent labels (the paper's Table 7), and whether recall rises and precision falls with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments import paper, plots
from experiments.corpora import CorpusFiles, encoder_title, title
from experiments.groups import Group, Results
from experiments.markdown import p_text, signed, table
from experiments.planning import Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.significance import LEVEL
from experiments.study import Section, Study
from nestree.data import read

CORPORA = ("genia", "litbank")
SMALL = (1, 2, 3, 4, 5, 6)
MULTIPLES = (1, 2, 3)
DRAWS = 20_000


def sizes(labels: int) -> list[int]:
    """How many latent labels are tried, if there are so many entity labels."""
    return sorted({*SMALL, *(times * labels for times in MULTIPLES)})


def labels_of(corpus: CorpusFiles) -> int:
    """How many entity labels people annotated."""
    return len({entity.label for document in read(corpus.train) for entity in document.entities})


def variant(corpus: str, encoder: str, latent: int) -> Run:
    """One latent label is the recipe itself."""
    return Run(corpus, encoder, "paper", (("latent_labels", latent),) if latent > 1 else ())


def plan(request: Request) -> Plan:
    """The paper's setting with every number of latent labels and every seed, on the first encoder."""
    encoder = request.encoders[0]
    return joined(
        planned(seeded(request, variant(corpus.name, encoder.name, latent)))
        for corpus in request.of(*CORPORA)
        for latent in sizes(labels_of(corpus))
    )


class Trend(NamedTuple):
    """A line through all runs: the change of a score when the number of latent labels doubles, and its p value."""

    slope: float
    p: float


def trend(sizes_: list[int], values: list[float]) -> Trend:
    """Least squares on the logarithm of the number; p by permuting the runs (two-sided, 20,000 draws)."""
    x = np.log2(np.array(sizes_, dtype=np.float64))
    y = np.array(values)
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    if spread == 0:
        return Trend(0.0, 1.0)
    slope = float(x @ y) / spread
    generator = np.random.default_rng(0)
    shuffled = generator.permuted(np.broadcast_to(y, (DRAWS, len(y))), axis=1) @ x / spread
    hits = int((np.abs(shuffled) >= abs(slope) - 1e-12).sum())
    return Trend(slope, (hits + 1) / (DRAWS + 1))


def section(results: Results, found: Section) -> None:
    """A table and a plot for each corpus, and whether the trend is there."""
    for corpus in results.corpora(*CORPORA):
        for encoder in results.encoders():
            groups = _groups(results, corpus, encoder)
            if len(groups) > 1:
                _one_corpus(found, corpus, encoder, groups)


def _groups(results: Results, corpus: str, encoder: str) -> dict[int, Group]:
    numbers = {dict(run.changes).get("latent_labels", 1) for run, _ in results if run.corpus == corpus}
    found = {}
    for latent in sorted(int(one) for one in numbers):
        group = results.group(corpus, encoder, "paper", {"latent_labels": latent} if latent > 1 else {})
        if group:
            found[latent] = group
    return found


def _one_corpus(found: Section, corpus: str, encoder: str, groups: dict[int, Group]) -> None:
    labels = _annotated_labels(groups)
    theirs = paper.LATENT_LABELS.get(corpus, {})
    head = ["latent labels", "P", "R", "F1", "seeds", *(["paper: P", "R", "F1"] if theirs else [])]
    rows = []
    for latent, group in groups.items():
        names = [
            str(latent) if latent in SMALL else "",
            *(_multiple(times) for times in MULTIPLES if times * labels == latent),
        ]
        row = [" = ".join(filter(None, names)) or str(latent)]
        row += [*(group.text(one) for one in ("precision", "recall", "f1")), str(len(group.runs))]
        known = next((theirs[name] for name in reversed(names) if name in theirs), None)
        rows.append([*row, *([f"{one}" for one in known] if known else [""] * 3 if theirs else [])])
    found.add(
        f"### {title(corpus)}, {encoder_title(encoder)} ({labels} entity labels), the paper's setting",
        table(head, rows),
    )
    trends = {}
    for measure in ("precision", "recall", "f1"):
        points = [(latent, value) for latent, group in groups.items() for value in group.values(measure)]
        trends[measure] = trend([one for one, _ in points], [value for _, value in points])
    found.find(_sentence(f"{title(corpus)}, {encoder_title(encoder)}", trends))
    picture = plots.latent_labels(found.folder / f"latent-labels-{corpus}-{encoder}.svg", groups, theirs, labels)
    found.add(f"![Precision, recall and F1 against the number of latent labels]({picture})")


def _annotated_labels(groups: dict[int, Group]) -> int:
    labels = next(iter(groups.values())).results[0]["labels"]
    return len({part for label in labels for part in label.split("|")})


def _multiple(times: int) -> str:
    return "label size" if times == 1 else f"{times} × label size"


def _sentence(where: str, trends: dict[str, Trend]) -> str:
    def told(measure: str) -> str:
        one = trends[measure]
        change = signed(one.slope)
        if one.p >= LEVEL:
            return f"{measure} has no trend ({change} per doubling, {p_text(one.p)})"
        return f"{measure} {'rises' if one.slope > 0 else 'falls'} ({change} per doubling, {p_text(one.p)})"

    falls = trends["precision"].p < LEVEL and trends["precision"].slope < 0
    rises = trends["recall"].p < LEVEL and trends["recall"].slope > 0
    verdict = {
        (True, True): "the paper's trend is there",
        (True, False): "half of the paper's trend is there",
        (False, True): "half of the paper's trend is there",
        (False, False): "the paper's trend is not there",
    }[falls, rises]
    return f"{where}: {verdict}: {told('precision')}, {told('recall')}, {told('f1').replace('f1', 'F1')}."


STUDY = Study("latent-labels", "Table 7", "Does the number of latent labels trade precision for recall?", section, plan)
