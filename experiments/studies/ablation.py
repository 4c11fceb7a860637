"""Ablations (the paper's Table 2, lower part), and what the paper does not take apart."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from experiments import paper, plots
from experiments.corpora import of_encoder, title
from experiments.groups import Group, Results
from experiments.markdown import listed, p_text, signed, table
from experiments.planning import SYNTAX, Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.significance import LEVEL, RESAMPLES, Difference, holm
from experiments.study import Section, Study

CORPORA = ("genia", "litbank")


class Variant(NamedTuple):
    """A change to a recipe, and what it is called; ``claimed``: its row in the paper's table."""

    name: str
    changes: dict[str, Any]
    claimed: str = ""


LOCAL = "without TreeCRF (local)"
PAPER = (
    Variant("bilinear instead of biaffine", {"scorer": "bilinear"}, "bilinear"),
    Variant("without smoothing", {"smoothing": 0.0}, "without smoothing"),
    Variant("without PN and smoothing", {"smoothing": 0.0, "normalize": False}, "without PN and smoothing"),
    Variant(LOCAL, {"loss": "local"}, "without TreeCRF"),
    Variant("smoothing of all that is ruled out", {"smoothing_scope": "all"}),
    Variant("entropy bonus 0.01", {"entropy_weight": 0.01}),
    Variant("entropy bonus 0.1", {"entropy_weight": 0.1}),
    Variant("separate ends", {"scorer": "biaffine-separate"}),
)
"""Changes to the paper's setting; the first four are in the paper."""
DEFAULT = (
    Variant("bilinear instead of biaffine", {"scorer": "bilinear"}),
    Variant("without smoothing", {"smoothing": 0.0}),
    Variant("without PN, gain and smoothing", {"smoothing": 0.0, "normalize": False}),
    Variant(LOCAL, {"loss": "local"}),
    Variant("without gain", {"gain": 0.0}),
    Variant("without hidden pieces (mask)", {"mask": 0.0}),
    Variant("without averaged weights (ema)", {"ema": 0.0}),
)
"""Changes to the default recipe: what the paper has, and what we added."""
VARIANTS = {"paper": PAPER, "default": DEFAULT}
SETTINGS = {"paper": "the paper's setting", "default": "the default recipe"}


def plan(request: Request) -> Plan:
    """Both recipes with every change and every seed, on the first encoder."""
    encoder = request.encoders[0]
    return joined(
        planned(
            seeded(request, Run(corpus.name, encoder.name, recipe, tuple(changes.items()))),
            *([SYNTAX] if corpus.treebank and not changes else []),  # of the base, which other experiments look at
        )
        for corpus in request.of(*CORPORA)
        for recipe, variants in VARIANTS.items()
        for changes in ({}, *(one.changes for one in variants))
    )


def section(results: Results, found: Section) -> None:
    """A table for each corpus and recipe, and which of the paper's claims hold."""
    tables = [
        (corpus, encoder, recipe, base)
        for corpus in results.corpora(*CORPORA)
        for encoder in results.encoders()
        for recipe in VARIANTS
        if (base := results.group(corpus, encoder, recipe))
    ]
    bases = {(corpus, encoder): base for corpus, encoder, recipe, base in tables if recipe == "default"}
    tables = [
        one for one in tables if any(_own_question(one[2], variant) for variant, _ in _present(results, *one[:3]))
    ]
    if not tables:
        _decodings(found, bases)
        return
    found.add(
        "**The base.** The paper's setting here is its model, its loss and its decoding (biaffine scorer, PN, ε = 0.02 "
        "on rejected spans, one latent label, dropout 0.2, the best tree), trained with the optimizer of our default "
        "recipe, since the paper's learning rates are those of BERT. The default recipe is taken apart as well: it has "
        "a learned gain after PN, hides pieces from the encoder, averages weights and decodes by minimum Bayes risk.",
        "Δ is the change in F1 against the base, with its 95% interval: sentences and seeds are both drawn "
        f"({RESAMPLES:,} times). A change is called real if p < {LEVEL} after Holm's correction over all rows of its "
        "table; intervals are not corrected. What trees are worth in the default recipe is the question of `main`, "
        "and not of this family.",
    )
    for recipe in VARIANTS:
        _picture(
            results, found, recipe, [(corpus, encoder, base) for corpus, encoder, of, base in tables if of == recipe]
        )
    for corpus, encoder, recipe, base in tables:
        _one_table(results, found, corpus, encoder, recipe, base)
    _decodings(found, bases)
    if found.claims:
        hold = [one for one in found.claims if one.verdict.startswith("yes")]
        told = listed([f"{one.text.removeprefix('F1 falls ')} on {one.ours}" for one in hold])
        found.sum_up(
            "**Leaving out a part of the paper's model**",
            f"F1 falls beyond chance in {len(hold)} of {len(found.claims)} comparisons{', ' * bool(hold)}{told}",
        )


def _picture(results: Results, found: Section, recipe: str, bases: list[tuple[str, str, Group]]) -> None:
    """Changes to a recipe on all corpora and encoders that have several."""
    bases = [one for one in bases if len(_present(results, *one[:2], recipe)) > 1]
    rows = defaultdict[str, dict[str, plots.Mark]](dict)
    theirs = defaultdict[str, dict[str, list[float]]](dict)
    for variant in VARIANTS[recipe]:
        for corpus, encoder, base in bases:
            name = of_encoder(corpus, encoder)
            if group := results.group(corpus, encoder, recipe, variant.changes):
                rows[variant.name][name] = plots.Mark.of(group.better_than(base))
                if variant.claimed and corpus in (*paper.MAIN, *paper.STAND_INS):
                    theirs[variant.name][name] = [paper.change(variant.claimed, one) for one in paper.beside(corpus)]
    if len(rows) > 1:
        setting = SETTINGS[recipe]
        x = f"change of F1 against {setting}, {plots.INTERVAL}"
        path = found.folder / f"ablation-{recipe}.svg"
        picture = plots.forest(path, rows, theirs, x, named=plots.BESIDE)
        found.add(f"![What each change to {setting} does to F1]({picture})")


def _present(results: Results, corpus: str, encoder: str, recipe: str) -> list[tuple[Variant, Group]]:
    pairs = [(one, results.group(corpus, encoder, recipe, one.changes)) for one in VARIANTS[recipe]]
    return [(variant, group) for variant, group in pairs if group]


def _one_table(results: Results, found: Section, corpus: str, encoder: str, recipe: str, base: Group) -> None:
    own = _present(results, corpus, encoder, recipe)
    if recipe == "paper":
        own.append((Variant("MBR decoding of the same models", {"decoding": "mbr"}), base.decoded("mbr")))
    differences = [group.better_than(base) for _, group in own]
    corrected = _corrected(recipe, own, differences)
    theirs = recipe == "paper" and corpus in paper.MAIN
    head = ["", "P", "R", "F1", "Δ F1", "p (Holm)", "seeds", *(["paper: F1", "Δ"] if theirs else [])]
    rows = [
        ["base", *_scores(base), "", "", str(len(base.runs)), *([f"{paper.MAIN[corpus].f1}", ""] if theirs else [])]
    ]
    for (variant, group), difference, p in zip(own, differences, corrected, strict=True):
        row = [variant.name, *_scores(group), str(difference), "`main`" if p is None else _bare(p)]
        rows.append([*row, str(len(group.runs)), *(_claimed(variant, corpus) if theirs else [])])
    setting = SETTINGS[recipe]
    found.add(f"### {of_encoder(corpus, encoder)}: {setting}", table(head, rows))
    if recipe == "paper":
        claims = [
            (v, d, p) for (v, _), d, p in zip(own, differences, corrected, strict=True) if v.claimed and p is not None
        ]
        groups = {variant.name: group for variant, group in own}
        _judge(found, f"{of_encoder(corpus, encoder)}, the paper's setting", claims, corpus, groups)
    _others(found, f"{of_encoder(corpus, encoder)}, {setting}", own, differences, corrected)


def _own_question(recipe: str, variant: Variant) -> bool:
    """Whether it is asked here alone: what trees are worth in the default recipe is what ``main`` asks."""
    return recipe != "default" or variant.name != LOCAL


def _corrected(recipe: str, own: list[tuple[Variant, Group]], differences: list[Difference]) -> list[float | None]:
    """Of each row its p value after Holm's correction; None for what ``main`` asks."""
    here = [_own_question(recipe, variant) for variant, _ in own]
    family = iter(holm([one.p for one, asked in zip(differences, here, strict=True) if asked]))
    return [next(family) if asked else None for asked in here]


def _decodings(found: Section, bases: dict[tuple[str, str], Group]) -> None:
    """The default recipe's decoding against the paper's, of the same models, wherever there are some."""
    pairs = {where: (base, best) for where, base in bases.items() if (best := base.by_best_tree)}
    differences = {where: base.better_than(best) for where, (base, best) in pairs.items()}
    if not pairs:
        return
    corrected = dict(zip(pairs, holm([one.p for one in differences.values()]), strict=True))
    rows = [
        [of_encoder(*where), base.text(), best.text(), f"{differences[where]}", _bare(corrected[where])]
        for where, (base, best) in pairs.items()
    ]
    head = ["", "F1, MBR", "F1, best tree", "Δ F1", "p (Holm)"]
    found.add("### Decoding: the default recipe, the same models", table(head, rows))
    better = [where for where, one in differences.items() if corrected[where] < LEVEL and one.value > 0]
    gains = sorted(one.value for one in differences.values())
    reach = " to ".join(dict.fromkeys(signed(gain) for gain in (gains[0], gains[-1])))
    found.find(
        f"MBR instead of the best tree changes F1 by {reach}, for the better beyond "
        f"chance on {len(better)} of {len(pairs)} pairs of corpus and encoder."
    )


def _bare(p: float) -> str:
    return p_text(p).removeprefix("p ").removeprefix("= ")


def _scores(group: Group) -> list[str]:
    return [group.text(measure) for measure in ("precision", "recall", "f1")]


def _claimed(variant: Variant, corpus: str) -> list[str]:
    if not variant.claimed:
        return ["", ""]
    return [f"{paper.ABLATION[variant.claimed][corpus].f1}", signed(paper.change(variant.claimed, corpus), 1)]


def _judge(
    found: Section,
    where: str,
    claims: list[tuple[Variant, Difference, float]],
    corpus: str,
    groups: dict[str, Group],
) -> None:
    """Says which of the paper's claims hold: that each change lowers F1, and that leaving out trees does so most."""
    holds = [one.name for one, difference, p in claims if p < LEVEL and difference.value < 0]
    fails = [one.name for one, difference, p in claims if p < LEVEL and difference.value > 0]
    open_ = [one.name for one, _, p in claims if p >= LEVEL]
    parts = []
    if holds:
        parts.append(f"F1 falls, as the paper says, with {_quoted(holds)}")
    if fails:
        parts.append(f"F1 rises, against the paper, with {_quoted(fails)}")
    if open_:
        parts.append(f"no difference beyond chance with {_quoted(open_)}")
    if excluded := [one.name for one, difference, _ in claims if _excluded(one, difference, corpus)]:
        parts.append(f"the paper's fall lies outside the interval of {_quoted(excluded)}")
    found.find(f"{where}: {'; '.join(parts)}.")
    for one, difference, p in claims:
        _claim(found, where.rpartition(", ")[0], corpus, one, difference, p)
    if len(claims) == len(paper.ABLATION):
        found.add(_most(claims, corpus, groups))


def _excluded(variant: Variant, difference: Difference, corpus: str) -> bool:
    """Whether a fall as large as the paper's lies outside the interval; of other corpora nothing is known."""
    return corpus in paper.MAIN and paper.change(variant.claimed, corpus) < difference.low


def _claim(found: Section, where: str, corpus: str, variant: Variant, difference: Difference, p: float) -> None:
    verdict = "not beyond chance" if p >= LEVEL else "yes" if difference.value < 0 else "no: it rises"
    if _excluded(variant, difference, corpus):
        verdict += "; the paper's fall lies outside the interval"
    theirs = [f"{signed(paper.change(variant.claimed, one), 1)} ({paper.CORPORA[one]})" for one in paper.beside(corpus)]
    found.judge(
        f"F1 falls {variant.name}" if variant.name.startswith("without") else f"F1 falls with {variant.name}",
        ", ".join(theirs),
        f"{where}: {difference}",
        verdict,
    )


def _most(claims: list[tuple[Variant, Difference, float]], corpus: str, groups: dict[str, Group]) -> str:
    """The paper's claim that leaving out the TreeCRF costs most; what may be chance is not ranked."""
    real = [one for one in claims if one[2] < LEVEL and one[1].value < 0]
    if real:
        worst = min(real, key=lambda one: one[1].value)[0]
        others = [one for one, _, _ in claims if one is not worst]
        compared = {one.name: groups[worst.name].better_than(groups[one.name]) for one in others}
        holds = worst.claimed == "without TreeCRF" and all(one.significant for one in compared.values())
        verdict = "holds here" if holds else "does not hold here" if worst.claimed != "without TreeCRF" else "is open"
        beside = "; ".join(f"{name} {one}, {p_text(one.p)}" for name, one in compared.items())
        told = f"{verdict}: the largest fall is that {worst.name}. Directly compared, it is below {beside}."
    else:
        told = "cannot be judged here: no fall is beyond chance."
    if corpus in paper.MAIN:
        theirs = min(paper.ABLATION, key=lambda one: paper.ABLATION[one][corpus].f1)
        if theirs != "without TreeCRF":
            told += f" In the paper's own column for {title(corpus)} the largest fall is that {theirs}."
    return f"The paper's claim that leaving out the TreeCRF costs most {told}"


def _quoted(names: list[str]) -> str:
    return listed([f"“{name}”" for name in names])


def _others(
    found: Section,
    where: str,
    own: list[tuple[Variant, Group]],
    differences: list[Difference],
    corrected: list[float | None],
) -> None:
    """What is not in the paper and makes a difference; of our recipe, all that does."""
    beyond = ", beyond the paper" if any(variant.claimed for variant, _ in own) else ""
    rows = [
        (variant.name, difference)
        for (variant, _), difference, p in zip(own, differences, corrected, strict=True)
        if not variant.claimed and p is not None and p < LEVEL
    ]
    if rows:
        told = listed([f"“{name}” ({signed(difference.value)})" for name, difference in rows])
        found.find(f"{where}{beyond}: real differences with {told}.")
    else:
        found.add(f"{where}{beyond}: none of the other changes makes a real difference.")


STUDY = Study("ablation", "Table 2, lower part", "What does each part of the model contribute?", section, plan)
