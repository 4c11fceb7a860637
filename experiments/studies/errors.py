"""Errors (the paper's Table 3): what became of gold entities, by label; and what the remedy for rare labels changes."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import benchmarked, paper
from experiments.corpora import of_encoder
from experiments.groups import Group, Results, spread
from experiments.markdown import p_text, signed, table
from experiments.planning import Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.significance import LEVEL
from experiments.study import Section, Study
from nestree.evaluation.error_table import LATENT, NONE, ErrorTable, heat_map_png

CORPORA = ("genia", "litbank")
BALANCE = 0.5
REMEDY = {"balance": BALANCE}
TRIED: dict[str, dict[str, Any]] = {
    "in the paper's setting": {},
    "without smoothing": {"smoothing": 0.0},
    "without PN and smoothing": {"smoothing": 0.0, "normalize": False},
    "with smoothing of all that is ruled out": {"smoothing_scope": "all"},
}
"""Changes to the paper's setting that may change which spans are nodes."""
DRAWS = 20_000


def plan(request: Request) -> Plan:
    """The default recipe with and without the remedy, with every seed, on the first encoder."""
    encoder = request.encoders[0]
    return joined(
        planned(seeded(request, Run(corpus.name, encoder.name, changes=tuple(changes.items()))))
        for corpus in request.of(*CORPORA)
        for changes in ({}, REMEDY)
    )


def added(results: Sequence[dict[str, Any]]) -> ErrorTable:
    """The error tables of several seeds, added up."""
    labels = sorted({label for one in results for label in one["errors"]["labels"]})
    listed_rows = dict.fromkeys(row for one in results for row in one["errors"]["rows"])
    rows = [*labels, *(row for row in listed_rows if row not in (*labels, LATENT, NONE))]
    rows += [row for row in (LATENT, NONE) if row in listed_rows]
    total = dict.fromkeys(((row, label) for row in rows for label in labels), 0)
    for one in results:
        table_ = one["errors"]
        for row, counts in zip(table_["rows"], table_["counts"], strict=True):
            for label, count in zip(table_["labels"], counts, strict=True):
                total[row, label] += count
    return ErrorTable(tuple(labels), tuple(rows), tuple(tuple(total[row, label] for label in labels) for row in rows))


def share(table_: ErrorTable, row: str) -> float:
    """Of all gold entities, the share in a row, in percent."""
    everything = sum(table_.gold.values())
    return 100 * sum(table_.counts[table_.rows.index(row)]) / everything if row in table_.rows else 0.0


def section(results: Results, found: Section) -> None:
    """A table and a heat map for each corpus, span recall, and the remedy."""
    groups = [
        (corpus, encoder, group)
        for corpus in results.corpora(*CORPORA)
        for encoder in results.encoders()
        if (group := results.group(corpus, encoder, "default"))
    ]
    if not groups:
        return
    none = sum(prior * miss for prior, miss in zip(paper.ERROR_PRIOR, paper.ERROR_TABLE[NONE], strict=True))
    found.add(
        "Columns are gold labels, rows what was predicted on exactly their spans; ρ is the share of a label in gold. "
        "*Latent*: the span is a node of the predicted tree without an entity label; *None*: it is no node. Dev sets, "
        "the default recipe, all seeds together.",
        f"The paper's recall of unlabelled spans, {paper.UNLABELLED_RECALL} on ACE2005, can be read in two ways: spans "
        "that are predicted as entities of any label, or spans that are nodes of the tree. Its Table 3 speaks for the "
        f"second: 100 − Σ ρ · None = {100 * (1 - none):.1f}. Both are given here.",
    )
    for corpus, encoder, group in groups:
        _errors(found, corpus, encoder, group)
        _tried(found, results, corpus, encoder)
    for corpus, encoder, group in groups:
        remedied = results.group(corpus, encoder, "default", REMEDY)
        if remedied:
            _remedy(found, corpus, encoder, group, remedied)
            if encoder == "minilm":
                _earlier(found, benchmarked.balance(results.store, corpus))


def _errors(found: Section, corpus: str, encoder: str, group: Group) -> None:
    errors = added(group.results)
    where = of_encoder(corpus, encoder)
    head = ["predicted", *errors.labels]
    rows = [["ρ", *(f"{one:.2f}" for one in errors.prior.values())]]
    for name, shares in zip(errors.rows, errors.column_normalised(), strict=True):
        rows.append([name, *(f"{one:.2f}" for one in shares)])
    picture = heat_map_png(errors, Path(found.folder) / f"errors-{corpus}-{encoder}.png")
    found.add(f"### {where}", table(head, rows), f"![Heat map of errors on {where}]({picture.name})")
    nodes = _nodes(group)
    entities = group.values("recall", "unlabelled")
    found.find(
        f"{where}: {spread(nodes)}% of the gold spans are nodes of the predicted tree "
        f"({_against(sum(nodes) / len(nodes))} the paper's {paper.UNLABELLED_RECALL} on ACE2005), and "
        f"{spread(entities)}% are predicted as entities of some label; recall with the right label is "
        f"{group.text('recall')}."
    )
    most = "yes" if statistics.mean(nodes) > 50 else "no"
    found.judge(
        "the spans of most entities are covered",
        f"{paper.UNLABELLED_RECALL} (ACE2005)",
        f"{where}: {spread(nodes)}",
        f"{most}, {'as many' if statistics.mean(nodes) >= paper.UNLABELLED_RECALL else 'but fewer'}",
    )
    _labels_or_spans(found, where, errors)
    found.add(_kinds(group))
    _rare(found, where, errors)


def _labels_or_spans(found: Section, where: str, errors: ErrorTable) -> None:
    """The paper's: that it is the labels of covered spans that are hard. Of what is not found, is it the label?"""
    right = sum(errors.counts[errors.rows.index(label)][at] for at, label in enumerate(errors.labels))
    missed = sum(errors.gold.values()) - right
    latent, none = (100 * sum(errors.counts[errors.rows.index(row)]) / max(1, missed) for row in (LATENT, NONE))
    own = 100 - latent - none
    found.add(
        f"Of the gold entities that are not recalled, {own:.0f}% have another label, {latent:.0f}% are nodes without "
        f"an entity label, and {none:.0f}% are no nodes."
    )
    theirs = _paper_shares()
    found.judge(
        "it is their labels that are more difficult to predict",
        f"of what is missed, {sum(theirs):.0f}% are nodes with another label or without an entity label (ACE2005)",
        f"{where}: {own + latent:.0f}%",
        "yes" if own + latent > 55 else "no" if own + latent < 45 else "about half",
    )


def _paper_shares() -> tuple[float, float]:
    """Of the entities that the paper's model misses, how many have another label, and how many none, in percent."""
    priors = dict(enumerate(paper.ERROR_PRIOR))
    right = sum(prior * paper.ERROR_TABLE[paper.ERROR_LABELS[at]][at] for at, prior in priors.items())
    latent, none = (sum(prior * paper.ERROR_TABLE[row][at] for at, prior in priors.items()) for row in (LATENT, NONE))
    missed = sum(paper.ERROR_PRIOR) - right
    return 100 * (missed - latent - none) / missed, 100 * latent / missed


def _nodes(group: Group) -> list[float]:
    """The share of gold spans that are nodes, of each seed."""
    return [100 - share(added([one]), NONE) for one in group.results]


def _tried(found: Section, results: Results, corpus: str, encoder: str) -> None:
    """The same share in the paper's setting, and with its changes."""
    told = []
    for name, changes in TRIED.items():
        group = results.group(corpus, encoder, "paper", changes)
        if group and all(NONE in one["errors"]["rows"] for one in group.results):
            told.append(f"{spread(_nodes(group))} {name}")
    if told:
        found.add(f"Gold spans that are nodes of the best tree, in percent, with what was tried: {', '.join(told)}.")


def _against(value: float) -> str:
    return "above" if value > paper.UNLABELLED_RECALL else "below"


def _kinds(group: Group) -> str:
    totals: dict[str, int] = {}
    for one in group.results:
        for kind, count in one["errors"]["kinds"].items():
            totals[kind] = totals.get(kind, 0) + count
    everything = max(1, sum(totals.values()))
    told = ", ".join(
        f"{kind} {100 * count / everything:.0f}%" for kind, count in sorted(totals.items(), key=lambda o: -o[1])
    )
    return f"Of all errors: {told}."


def kendall(prior: Sequence[float], recall: Sequence[float]) -> tuple[float, float]:
    """Kendall's τ, and its two-sided p value: of all orders, or of 20,000 drawn, the share that is as far from 0."""

    def tau(values: Sequence[float]) -> float:
        pairs = [(prior[a] - prior[b]) * (values[a] - values[b]) for a in range(len(prior)) for b in range(a)]
        return (sum(one > 0 for one in pairs) - sum(one < 0 for one in pairs)) / len(pairs)

    own, chance = tau(recall), random.Random(0)
    if math.factorial(len(recall)) <= DRAWS:
        orders = [tau(order) for order in itertools.permutations(recall)]
        return own, sum(abs(one) >= abs(own) for one in orders) / len(orders)
    hits = sum(abs(tau(chance.sample(recall, len(recall)))) >= abs(own) for _ in range(DRAWS))
    return own, (hits + 1) / (DRAWS + 1)


def _rare(found: Section, where: str, errors: ErrorTable) -> None:
    """The paper's reading: that the labels most prone to errors are rare ones. Rank correlation of ρ and recall."""
    recall = {label: errors.column_normalised()[at][at] for at, label in enumerate(errors.labels)}
    prior = errors.prior
    if len(recall) < 3:
        return
    tau, p = kendall([prior[label] for label in recall], list(recall.values()))
    theirs = kendall(paper.ERROR_PRIOR, [paper.ERROR_TABLE[one][at] for at, one in enumerate(paper.ERROR_LABELS)])
    worst = min(recall, key=lambda label: recall[label])
    verdict = "rarer labels are found less" if p < LEVEL else "that rarer labels are found less may be chance"
    found.add(
        f"Kendall's τ between a label's share and its recall is {tau:.2f} ({p_text(p)}): {verdict}. In the paper's "
        f"Table 3 it is {theirs[0]:.2f} ({p_text(theirs[1])}). The label with the least recall is {worst} "
        f"({recall[worst]:.2f}, ρ = {prior[worst]:.2f})."
    )
    found.judge(
        "rare labels are most prone to errors",
        f"τ = {theirs[0]:.2f}, {p_text(theirs[1])} (ACE2005)",
        f"{where}: τ = {tau:.2f}, {p_text(p)}",
        "yes" if p < LEVEL else "not beyond chance",
    )


def _remedy(found: Section, corpus: str, encoder: str, group: Group, remedied: Group) -> None:
    where = of_encoder(corpus, encoder)
    labels = sorted(added(group.results).prior.items(), key=lambda one: one[1])
    rows = [["micro F1", group.text(), remedied.text()]]
    rows.append(["macro F1", group.text("f1", "macro"), remedied.text("f1", "macro")])
    for label, prior in labels:
        row = [
            f"F1 of {label} (ρ = {prior:.2f})",
            spread(group.label_values(label)),
            spread(remedied.label_values(label)),
        ]
        rows.append(row)
    found.add(
        f"### {where}: the remedy for rare labels",
        f"The paper leaves imbalanced labels to future work. `balance = {BALANCE}` shifts log potentials by label "
        "frequency in training (`docs/incomplete.md`):",
        table(["", "balance = 0", f"balance = {BALANCE}"], rows),
    )
    micro = remedied.better_than(group)
    macros = [statistics.mean(one.values("f1", "macro")) for one in (group, remedied)]
    alone = sorted(group.values("f1", "macro"))
    change = signed(macros[1] - macros[0])
    told = f"{where}: balance changes micro F1 by {micro}, {p_text(micro.p)}, and macro F1 by {change}"
    if len(alone) > 1:
        told += f", where seeds without it have macro F1 from {alone[0]:.1f} to {alone[-1]:.1f}"
    verdict = "it helps" if micro.significant and micro.value > 0 else "it is not shown to help"
    found.find(f"{told}: with {len(remedied.runs)} seed{'s' * (len(remedied.runs) > 1)}, {verdict}.")


def _earlier(found: Section, strengths: dict[str, dict[str, float]]) -> None:
    """More strengths of the remedy, tried with an earlier recipe."""
    told = [
        f"balance {value}: {one['f1']:.2f} ± {one['f1_deviation']:.2f} and {one['macro_f1']:.2f} ± "
        f"{one['macro_f1_deviation']:.2f}"
        for value, one in strengths.items()
    ]
    if told:
        found.add(
            "With an earlier recipe (`benchmarks/results/runs-balance.json`, three seeds each; micro and macro F1): "
            f"{'; '.join(told)}."
        )


STUDY = Study(
    "errors", "Table 3", "What becomes of gold entities, and does it help to favour rare labels?", section, plan
)
