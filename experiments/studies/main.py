"""Main results (the paper's Tables 2 and 6): P, R and F1 over seeds, TreeCRF and local model, on every corpus."""

from __future__ import annotations

import statistics

from experiments import paper
from experiments.corpora import encoder_title, title
from experiments.groups import Group, Results
from experiments.markdown import p_text, signed, table
from experiments.planning import SYNTAX, TREES, Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.study import Section, Study

CORPORA = ("genia", "litbank", "germeval")
LOSSES = {"TreeCRF": {}, "local": {"loss": "local"}}


def plan(request: Request) -> Plan:
    """Both losses with every seed; trees of the TreeCRF are kept, for other experiments that look at them."""
    plans = []
    for corpus in request.of(*CORPORA):
        for encoder in request.encoders:
            trees = seeded(request, Run(corpus.name, encoder.name))
            plans += [planned(trees, *([SYNTAX] if corpus.treebank else [])), planned(trees[:1], TREES)]
            plans.append(planned(seeded(request, Run(corpus.name, encoder.name, changes=(("loss", "local"),)))))
    return joined(plans)


def section(results: Results, found: Section) -> None:
    """P, R and F1, and the runs one by one."""
    pairs = [
        (corpus, encoder, tree, results.group(corpus, encoder, "default", LOSSES["local"]))
        for corpus in results.corpora(*CORPORA)
        for encoder in results.encoders()
        if (tree := results.group(corpus, encoder, "default"))
    ]
    if not pairs:
        return
    found.add(
        "Dev sets, the `default` recipe of `nestree train` (`docs/training.md`), mean ± standard deviation over seeds. "
        "There are no open test sets: the best epoch is chosen on the same dev set that is reported, for every row "
        "alike. The local model is the paper's *without TreeCRFs*: the same scorer, one softmax per span. Rows in "
        "italics are the paper's, on its test sets.",
        table(["corpus", "encoder", "model", "P", "R", "F1", "seeds"], _rows(pairs)),
    )
    for corpus, encoder, tree, local in pairs:
        if local:
            found.find(_sentence(corpus, encoder, tree, local))
    found.add(
        "The runs one by one (the paper's Table 6):", table(["corpus", "encoder", "F1 of each seed"], _each(pairs))
    )
    found.add(_steadiness(pairs))


Pairs = list[tuple[str, str, Group, Group | None]]


def _rows(pairs: Pairs) -> list[list[str]]:
    rows = []
    for at, (corpus, encoder, tree, local) in enumerate(pairs):
        for name, group in (("TreeCRF", tree), ("local", local)):
            if group:
                scores = [group.text(measure) for measure in ("precision", "recall", "f1")]
                rows.append([title(corpus), encoder_title(encoder), name, *scores, str(len(group.runs))])
        last = at + 1 == len(pairs) or pairs[at + 1][0] != corpus
        if last and corpus in paper.MAIN:
            rows += _paper_rows(corpus)
    rows += [
        row
        for corpus in ("ace2004", "ace2005")
        if corpus not in {one[0] for one in pairs}
        for row in _paper_rows(corpus)
    ]
    return rows


def _paper_rows(corpus: str) -> list[list[str]]:
    """The paper's figures, in italics."""
    mean, deviation = paper.MAIN[corpus], paper.MAIN_DEVIATION[corpus]
    own = [f"*{value:.1f} ± {spread:.1f}*" for value, spread in zip(mean, deviation, strict=True)]
    local = [f"*{value:.1f}*" for value in paper.ABLATION["without TreeCRF"][corpus]]
    names = [f"*{paper.CORPORA[corpus]}*", f"*{paper.ENCODERS[corpus]}*"]
    return [[*names, "*TreeCRF*", *own, "*5*"], [*names, "*local*", *local, ""]]


def _sentence(corpus: str, encoder: str, tree: Group, local: Group) -> str:
    difference = tree.better_than(local)
    where = f"{title(corpus)}, {encoder_title(encoder)}"
    interval = f"{signed(difference.low)} to {signed(difference.high)}"
    amount = f"{signed(difference.value)} F1 (95%: {interval}, {p_text(difference.p)})"
    if not difference.significant:
        return f"{where}: TreeCRF and local model do not differ by more than chance: {amount}."
    better = "above" if difference.value > 0 else "below"
    said = ""
    if corpus in paper.MAIN:
        gap = paper.MAIN[corpus].f1 - paper.ABLATION["without TreeCRF"][corpus].f1
        said = f" The paper has {signed(gap, 1)}."
    return f"{where}: the TreeCRF is {better} the local model: {amount}.{said}"


def _each(pairs: Pairs) -> list[list[str]]:
    rows = []
    for corpus, encoder, tree, _ in pairs:
        values = ", ".join(f"{value:.2f}" for value in tree.values("f1"))
        rows.append([title(corpus), encoder_title(encoder), values])
        if corpus in paper.RUNS:
            rows.append(
                [
                    f"*{paper.CORPORA[corpus]}*",
                    f"*{paper.ENCODERS[corpus]}*",
                    _italics(one.f1 for one in paper.RUNS[corpus]),
                ]
            )
    return rows


def _italics(values: object) -> str:
    return "*" + ", ".join(f"{value:.2f}" for value in values) + "*"  # type: ignore[attr-defined]


def _steadiness(pairs: Pairs) -> str:
    several = [(corpus, encoder, tree.values("f1")) for corpus, encoder, tree, _ in pairs if len(tree.runs) > 1]
    if not several:
        return ""
    corpus, encoder, values = max(several, key=lambda one: statistics.stdev(one[2]))
    widest = statistics.stdev(values)
    claim = (
        "That results are steady over seeds holds" if widest < 0.5 else "Results vary more over seeds than the paper's"
    )
    return (
        f"{claim}: the largest standard deviation of F1 is {widest:.2f} ({title(corpus)}, {encoder_title(encoder)}); "
        f"the paper's are {', '.join(str(one.f1) for one in paper.MAIN_DEVIATION.values())}."
    )


STUDY = Study("main", "Tables 2 and 6", "How good is the model, over seeds, beside the local one?", section, plan)
