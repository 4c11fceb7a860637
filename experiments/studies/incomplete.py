"""Beyond the paper: F1 against the share of annotations that is kept."""

from __future__ import annotations

from typing import Any

from experiments import plots
from experiments.corpora import of_encoder
from experiments.groups import Group, Results
from experiments.markdown import p_text, signed, table
from experiments.planning import Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.study import Section, Study

CORPORA = ("genia",)
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "masked": ("open", {}),
    "missing as negative": ("negative", {}),
    "local, masked": ("open", {"loss": "local"}),
}
"""What documents say of what is missing, and changes to the recipe."""
CLOSER = ("masked", "local, masked")
"""Drawn a second time, without what falls to nothing."""


def plan(request: Request) -> Plan:
    """Every share in every way with every seed (another removal in each), on the first encoder."""
    encoder = request.encoders[0].name
    return joined(
        planned(
            seeded(
                request,
                Run(
                    corpus.name, encoder, changes=tuple(changes.items()), annotated=share, missing=_said(missing, share)
                ),
            )
        )
        for corpus in request.of(*CORPORA)
        for share in SHARES
        for missing, changes in WAYS.values()
    )


def _said(missing: str, share: float) -> Any:
    """With everything annotated there is nothing to say: all ways but the local one are then the same run."""
    return "open" if share == 1 else missing


def section(results: Results, found: Section) -> None:
    """A table and a plot for each corpus."""
    for corpus in results.corpora(*CORPORA):
        for encoder in results.encoders():
            groups = _groups(results, corpus, encoder)
            if any(len(by_share) > 1 for by_share in groups.values()):
                _one_corpus(found, corpus, encoder, groups)


def _groups(results: Results, corpus: str, encoder: str) -> dict[str, dict[float, Group]]:
    found: dict[str, dict[float, Group]] = {}
    for way, (missing, changes) in WAYS.items():
        for share in SHARES:
            said = _said(missing, share)
            group = results.group(corpus, encoder, "default", changes, annotated=share, missing=said)
            if group:
                found.setdefault(way, {})[share] = group
    return found


def _one_corpus(found: Section, corpus: str, encoder: str, groups: dict[str, dict[float, Group]]) -> None:
    where = of_encoder(corpus, encoder)
    shown = {f"{way}{told}": one for way, by in groups.items() for told, one in _decoded(by).items()}
    rows = [
        [f"{100 * share:.0f}%", *(one[share].text() if share in one else "" for one in shown.values())]
        for share in SHARES
        if any(share in one for one in shown.values())
    ]
    found.explain(
        "Entities of the training data are removed at random. *Masked*: documents say that they are incomplete, and "
        "what is missing is summed out (`docs/incomplete.md`). *Missing as negative*: they say nothing. *Local, "
        "masked*: the local model with the same masking. A model that took missing entities for negatives is seldom "
        "sure of any, so that MBR, which asks for a probability of one half, finds few; the best tree finds more. In "
        "what follows each model has the decoding that is better for it at that share."
    )
    found.add(f"### {where}: dev F1", table(["kept", *shown], rows))
    drawn = groups | {name: by for name, by in shown.items() if name == "missing as negative, best tree"}
    series = {way: {100 * share: group.values("f1") for share, group in one.items()} for way, one in drawn.items()}
    if len(rows) > 2:
        picture = plots.lines(
            found.folder / f"incomplete-{corpus}-{encoder}.svg",
            series,
            "percent of the annotations kept",
            "dev F1",
            closer=tuple(way for way in CLOSER if way in series),
        )
        found.add(f"![F1 against the share of annotations kept, by MBR unless it says otherwise]({picture})")
    groups = {way: {share: _better(group) for share, group in by.items()} for way, by in groups.items()}
    masked = groups.get("masked", {})
    for other in [way for way in groups if way != "masked"]:
        both = [share for share in masked if share in groups[other] and share < 1]
        if both:
            found.find(_sentence(where, other, {share: (masked[share], groups[other][share]) for share in both}))
    middle = [share for share in masked if share < 1 and all(share in by for by in groups.values())]
    if middle:
        share = sorted(middle)[len(middle) // 2]
        told = ", ".join(
            f"{by[share].mean():.1f}{'†' * (len(by[share].runs) == 1)} ({way})" for way, by in groups.items()
        )
        topic = "**Missing annotation** (F1 by each one's better decoding)"
        found.sum_up(topic, f"{where}, {100 * share:.0f}% of it kept: {told}")
    if 1.0 in masked and len(masked) > 1:
        least = min(masked)
        lost = masked[1.0].mean() - masked[least].mean()
        found.find(f"{where}: with {100 * least:.0f}% of the annotations kept, masked training loses {lost:.2f} F1.")
        _comes_back(found, masked, groups.get("missing as negative", {}))


def _decoded(groups: dict[float, Group]) -> dict[str, dict[float, Group]]:
    """Groups as they decode by themselves, and by the best tree if all were measured so."""
    best = {share: other for share, one in groups.items() if (other := one.by_best_tree)}
    return {", MBR": groups, ", best tree": best} if len(best) == len(groups) else {"": groups}


def _better(group: Group) -> Group:
    """With the decoding that gives more F1."""
    return max(filter(None, (group, group.by_best_tree)), key=lambda one: one.mean())


def _comes_back(found: Section, masked: dict[float, Group], negative: dict[float, Group]) -> None:
    """What masking saves of what is lost where missing annotations count as negative."""
    whole, told = masked[1.0].mean(), []
    for share, group in negative.items():
        if share < 1 and share in masked and group.mean() < whole:
            saved = (masked[share].mean() - group.mean()) / (whole - group.mean())
            told.append(f"{100 * saved:.0f}% at {100 * share:.0f}%")
    if told:
        found.add(f"Of the F1 that is lost if what is missing counts as negative, masking saves {', '.join(told)}.")


def _sentence(where: str, other: str, pairs: dict[float, tuple[Group, Group]]) -> str:
    told, above = [], 0
    for share, (masked, group) in pairs.items():
        difference = masked.better_than(group)
        above += difference.significant and difference.value > 0
        mark = "†" * difference.single
        told.append(f"{signed(difference.value)}{mark} at {100 * share:.0f}% ({p_text(difference.p)})")
    return f"{where}: masked training is above {other} at {above} of {len(pairs)} shares: {', '.join(told)}."


STUDY = Study("incomplete", "beyond", "What does incomplete annotation cost, and what of it comes back?", section, plan)
