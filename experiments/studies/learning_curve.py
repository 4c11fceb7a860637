"""Beyond the paper: F1 against the size of the training data, TreeCRF and local model."""

from __future__ import annotations

from typing import Any

from experiments import plots, significance
from experiments.corpora import epochs, of_encoder
from experiments.groups import Group, Results
from experiments.markdown import listed, p_text, signed, table
from experiments.measures import TUNED
from experiments.planning import Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.study import Section, Study

CORPORA = ("genia", "litbank")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
HEAD = ("of train", "sentences", "epochs", "TreeCRF", "local")
LOSSES: dict[str, dict[str, Any]] = {"TreeCRF": {}, "local": {"loss": "local"}}


def passes(corpus: str, share: float) -> int:
    """More passes over little data: four times as many up to 2%, twice as many up to 10%. The same for both models."""
    return epochs(corpus) * (4 if share <= 0.02 else 2 if share <= 0.1 else 1)


def changes_at(corpus: str, share: float, changes: dict[str, Any]) -> dict[str, Any]:
    """The changes to the recipe at a share of the data."""
    many = passes(corpus, share)
    return changes if many == epochs(corpus) else {**changes, "epochs": many}


def plan(request: Request) -> Plan:
    """Every share with both losses and every seed (other sentences in each), on the first encoder."""
    encoder = request.encoders[0].name
    return joined(
        planned(
            seeded(
                request,
                Run(
                    corpus.name,
                    encoder,
                    changes=tuple(changes_at(corpus.name, share, changes).items()),
                    sentences=share,
                ),
            )
        )
        for corpus in request.of(*CORPORA)
        for share in SHARES
        for changes in LOSSES.values()
    )


def section(results: Results, found: Section) -> None:
    """A table and a plot for each corpus."""
    for corpus in results.corpora(*CORPORA):
        for encoder in results.encoders():
            groups = {
                loss: {
                    share: group
                    for share in SHARES
                    if (
                        group := results.group(
                            corpus, encoder, "default", changes_at(corpus, share, changes), sentences=share
                        )
                    )
                }
                for loss, changes in LOSSES.items()
            }
            both = [share for share in SHARES if all(share in one for one in groups.values())]
            if len(both) > 1:
                _one_corpus(found, corpus, encoder, groups, both)


def _one_corpus(
    found: Section, corpus: str, encoder: str, groups: dict[str, dict[float, Group]], both: list[float]
) -> None:
    where = of_encoder(corpus, encoder)
    rows, told, gaps, fragile = [], [], {}, list[str]()
    for share in both:
        tree, local = groups["TreeCRF"][share], groups["local"][share]
        difference = tree.better_than(local)
        gaps[share] = difference
        sentences = round(sum(one["data"]["train"]["sentences"] for one in tree.results) / len(tree.results))
        row = [f"{100 * share:g}%", f"{sentences:,}", str(tree.epochs), tree.text(), local.text()]
        less_one = significance.without_one(local.counts, tree.counts)
        without = signed(less_one)
        if difference.significant and abs(difference.value - less_one) > abs(difference.value) / 2:
            fragile.append(f"{signed(difference.value)} at {100 * share:g}% ({without} without it)")
        others = [_best_tree(tree, local), _tuned(tree, local)]
        rows.append([*row, str(difference), p_text(difference.p), without, *others, _seeds(tree, local)])
        if difference.significant:
            told.append(f"{signed(difference.value)}{'†' * difference.single} at {100 * share:g}%")
    found.explain(
        "Small shares get more passes over their data, both models the same; shares of one seed are nested. The "
        "TreeCRF is decoded by MBR. One sentence can weigh much (a very long one that a model fills with entities), so "
        "Δ is also given without the sentence that changes it most (*less one*); with the *best tree* in place of MBR; "
        "and with a threshold for the local model, *tuned* as in `main`, of the seeds where that was measured."
    )
    head = [*HEAD, "Δ", "", "Δ less one", "Δ, best tree", "Δ, local tuned", "seeds"]
    found.add(f"### {where}: dev F1", table(head, rows))
    series = {loss: {100 * share: one[share].values("f1") for share in both} for loss, one in groups.items()}
    path = found.folder / f"learning-curve-{corpus}-{encoder}.svg"
    picture = plots.lines(path, series, "percent of the training data", "dev F1", logarithmic=True)
    found.add(f"![F1 against the size of the training data]({picture})")
    least, most = min(gaps), max(gaps)
    real = f"beyond chance at {len(told)} of {len(gaps)} sizes" if told else "within chance at all sizes"
    real += f" ({', '.join(told)})" if told else ""
    shape = "larger" if gaps[least].value > gaps[most].value else "smaller"
    found.find(
        f"{where}: the gap between TreeCRF and local model is {real}; it is {shape} with {100 * least:g}% of the "
        f"data ({signed(gaps[least].value)}) than with {100 * most:g}% ({signed(gaps[most].value)})."
        + f" One sentence makes more than half of {listed(fragile)}."
        * bool(fragile)
    )
    found.sum_up(
        "**Little data** (F1 that trees are worth, by MBR)",
        f"{where}, {signed(gaps[least].value, 1)} with {100 * least:g}% of the training data and "
        f"{signed(gaps[most].value, 1)} with {100 * most:g}%",
    )


def _best_tree(tree: Group, local: Group) -> str:
    return str(as_paper.better_than(local)) if (as_paper := tree.by_best_tree) else ""


def _tuned(tree: Group, local: Group) -> str:
    """A seed chooses the sentences, so that models of the same seeds are compared."""
    with_threshold = local.measured(TUNED)
    seeds = {run.seed for run, _ in with_threshold.runs} if with_threshold else set()
    same = Group(tuple(one for one in tree.runs if one[0].seed in seeds))
    return str(same.better_than(with_threshold)) if with_threshold and same.runs else ""


def _seeds(tree: Group, local: Group) -> str:
    return " and ".join(dict.fromkeys(str(len(one.runs)) for one in (tree, local)))


STUDY = Study(
    "learning-curve", "beyond", "How does the model do with little data, beside the local one?", section, plan
)
