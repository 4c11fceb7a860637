"""The number of latent labels (the paper's Table 7), and whether recall rises and precision falls with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments import paper, plots
from experiments.corpora import CorpusFiles, of_encoder
from experiments.groups import Group, Results
from experiments.markdown import p_text, signed, table
from experiments.planning import Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.significance import LEVEL, quantile
from experiments.study import Section, Study
from nestree.data import read

CORPORA = ("genia", "litbank")
SMALL = (1, 2, 3, 4, 5, 6)
MULTIPLES = (1, 2, 3)
DRAWS = 20_000
MEASURES = ("precision", "recall", "f1")


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
    """A line through all runs: the change of a score when the number of latent labels doubles.

    Attributes:
        slope: that change.
        error: half of its 95% interval (least squares).
        p: two-sided, by permuting the runs.
    """

    slope: float
    error: float
    p: float

    def __str__(self) -> str:
        return f"{signed(self.slope)} ± {self.error:.2f} per doubling, {p_text(self.p)}"


def trend(sizes_: list[int], values: list[float]) -> Trend:
    """Least squares on the logarithm of the number; 20,000 permutations."""
    x = np.log2(np.array(sizes_, dtype=np.float64))
    y = np.array(values)
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    if spread == 0 or len(y) < 3:
        return Trend(0.0, float("inf"), 1.0)
    slope = float(x @ y) / spread
    degrees = len(y) - 2
    error = quantile(degrees) * (float(((y - slope * x) ** 2).sum()) / degrees / spread) ** 0.5
    generator = np.random.default_rng(0)
    shuffled = generator.permuted(np.broadcast_to(y, (DRAWS, len(y))), axis=1) @ x / spread
    hits = int((np.abs(shuffled) >= abs(slope) - 1e-12).sum())
    return Trend(slope, error, (hits + 1) / (DRAWS + 1))


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
        f"### {of_encoder(corpus, encoder)} ({labels} entity labels), the paper's setting",
        table(head, rows),
    )
    where = of_encoder(corpus, encoder)
    trends = _trends(groups)
    several = _trends({latent: group for latent, group in groups.items() if latent > 1})
    _slopes(found, where, trends, several)
    _judge(found, where, corpus, trends, several)
    _beyond(found, where, corpus, groups, labels)
    _few(found, where, groups, paper.beside(corpus))
    shown = corpus if theirs else "ace2004" if corpus in paper.STAND_INS else ""
    picture = plots.latent_labels(
        found.folder / f"latent-labels-{corpus}-{encoder}.svg", groups, _curve(shown), paper.CORPORA.get(shown, "")
    )
    found.add(f"![Precision, recall and F1 against the number of latent labels]({picture})")


def _annotated_labels(groups: dict[int, Group]) -> int:
    labels = next(iter(groups.values())).results[0]["labels"]
    return len({part for label in labels for part in label.split("|")})


def _multiple(times: int) -> str:
    return "label size" if times == 1 else f"{times} × label size"


def _of_paper(corpus: str) -> dict[str, Trend]:
    """The same of the paper's own numbers, one run each."""
    rows = _curve(corpus)
    return {one: trend(list(rows), [getattr(value, one) for value in rows.values()]) for one in MEASURES}


def _curve(corpus: str) -> dict[int, paper.PRF]:
    """The paper's numbers by the number of latent labels; nothing of other corpora."""
    labels = {"genia": 5}.get(corpus, 7)
    return {_number(name, labels): value for name, value in paper.LATENT_LABELS.get(corpus, {}).items()}


def _number(name: str, labels: int) -> int:
    """What the paper's row "2 × label size" is as a number."""
    if name.isdigit():
        return int(name)
    return labels * (int(name.split()[0]) if name[0].isdigit() else 1)


def _trends(groups: dict[int, Group]) -> dict[str, Trend]:
    """Of every measure, over all runs."""
    found = {}
    for measure in MEASURES:
        points = [(latent, value) for latent, group in groups.items() for value in group.values(measure)]
        found[measure] = trend([one for one, _ in points], [value for _, value in points])
    return found


def _slopes(found: Section, where: str, trends: dict[str, Trend], several: dict[str, Trend]) -> None:
    rows = [[where, *(str(trends[one]) for one in MEASURES)]]
    rows.append([f"{where}, from 2 latent labels on", *(str(several[one]) for one in MEASURES)])
    for corpus in paper.LATENT_LABELS:
        rows.append([f"*paper, {paper.CORPORA[corpus]}*", *(f"*{_of_paper(corpus)[one]}*" for one in MEASURES)])
    found.add(
        "A line through all runs, ± half of its 95% interval, and the same fitted to the paper's numbers; it knows of "
        "chance by seeds, and not by sentences. One latent label is "
        "the recipe itself, with more seeds than the others, and weighs most; so there is a line without it, too:",
        table(["", "precision", "recall", "F1"], rows),
    )


def _judge(found: Section, where: str, corpus: str, trends: dict[str, Trend], several: dict[str, Trend]) -> None:
    """The paper's trend, in the direction that it claims; and F1, which falls in its own numbers."""
    told = []
    for measure, sign, word in (("precision", -1, "falls"), ("recall", 1, "rises")):
        one = trends[measure]
        theirs = {
            name: _of_paper(name)[measure] for name in paper.LATENT_LABELS if name == corpus or corpus not in paper.MAIN
        }
        theirs = {name: value for name, value in theirs.items() if name != "genia" or corpus == "genia"}
        holds = one.p < LEVEL and one.slope * sign > 0
        beyond_one = several[measure].p < LEVEL and several[measure].slope * sign > 0
        open_ = "" if beyond_one else ", from two labels on not beyond chance"
        told.append(f"{measure} {word + open_ if holds else f'does not {word[:-1]}'} ({one})")
        slopes = [
            f"{signed(value.slope)} per doubling, {p_text(value.p)} ({paper.CORPORA[name]})"
            for name, value in theirs.items()
        ]
        open_verdict = "open: not from two labels on, and one label has most of the runs"
        found.judge(
            f"with more latent labels {measure} {word}",
            ", ".join(slopes),
            f"{where}: {one}",
            ("yes" if beyond_one else open_verdict) if holds else "not beyond chance" if one.p >= LEVEL else "no",
        )
    f1 = trends["f1"]
    change = "has no trend" if f1.p >= LEVEL else "rises" if f1.slope > 0 else "falls"
    said = f"F1 {change} ({f1})"
    if corpus in paper.LATENT_LABELS:
        theirs_f1 = _of_paper(corpus)["f1"]
        inside = abs(theirs_f1.slope - f1.slope) <= f1.error
        said += f", where the paper's falls by {abs(theirs_f1.slope):.2f} per doubling, "
        said += "which the interval holds" if inside else "which lies outside the interval"
    found.find(f"{where}, with more latent labels: {', '.join(told)}; {said}.")


def _beyond(found: Section, where: str, corpus: str, groups: dict[int, Group], labels: int) -> None:
    """The paper's second claim: that F1 drops if there are more latent labels than labels."""
    told, drops, excluded = [], [], []
    for latent, group in groups.items():
        if latent > labels and 1 in groups:
            difference = group.better_than(groups[1])
            told.append(f"with {latent} {difference}, {p_text(difference.p)}")
            drops.append(difference.significant and difference.value < 0)
            theirs_here = paper.LATENT_LABELS.get(corpus, {})
            if latent % labels == 0 and _multiple(latent // labels) in theirs_here:
                excluded.append(theirs_here[_multiple(latent // labels)].f1 - theirs_here["1"].f1 < difference.low)
    if told:
        verdict = "yes" if all(drops) else "in part" if any(drops) else "not beyond chance"
        if excluded and all(excluded):
            verdict += "; the paper's drops lie outside the intervals"
        theirs = []
        for name in paper.beside(corpus):
            rows = paper.LATENT_LABELS[name]
            falls = [signed(rows[_multiple(times)].f1 - rows["1"].f1, 1) for times in MULTIPLES[1:]]
            theirs.append(f"{' and '.join(falls)} with 2 and 3 × label size ({paper.CORPORA[name]})")
        said = "; ".join(told)
        found.judge("F1 drops with more latent labels than labels", ", ".join(theirs), f"{where}: {said}", verdict)
        found.add(f"F1 with more latent labels than the {labels} labels, against one latent label: {said}.")


def _few(found: Section, where: str, groups: dict[int, Group], beside: Sequence[str]) -> None:
    """The paper's third claim: that with fewer than five latent labels F1 does not vary much."""
    own = {latent: group.mean() for latent, group in groups.items() if latent < 5}
    if len(own) > 2:
        theirs = []
        for name in beside:
            few = [row.f1 for key, row in paper.LATENT_LABELS[name].items() if key in ("1", "2", "3", "4")]
            theirs.append(f"{min(few)} to {max(few)} ({paper.CORPORA[name]})")
        width = max(own.values()) - min(own.values())
        found.judge(
            "with fewer than five latent labels F1 does not vary much",
            ", ".join(theirs),
            f"{where}: {min(own.values()):.1f} to {max(own.values()):.1f}",
            "yes, by less than one point" if width < 1 else f"by {width:.1f} points",
        )


STUDY = Study("latent-labels", "Table 7", "Does the number of latent labels trade precision for recall?", section, plan)
