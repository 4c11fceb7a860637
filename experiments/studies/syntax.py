"""Agreement of inferred trees with gold constituency trees (the paper's Table 8)."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from experiments import paper, plots, provenance, treebank
from experiments.brackets import (
    Comparison,
    GoldTree,
    Span,
    left_binarised,
    left_branching,
    random_tree,
    right_branching,
    right_branching_around,
)
from experiments.corpora import encoder_title, title
from experiments.groups import Group, Results, spread
from experiments.markdown import listed, table
from experiments.planning import SYNTAX, Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.store import write_json
from experiments.study import Section, Study
from nestree.data import Document, read

CORPORA = ("genia",)
SETTINGS = {"paper": "the paper's setting", "default": "default recipe"}
DRAWS = 10
"""Random trees of each sentence."""
READINGS = {
    "share of brackets": ("paper", "precision"),
    "F1": ("paper", "f1"),
    "F1 of sentences": ("paper", "sentence_f1"),
}
"""What the paper's metric may be; punctuation is kept in all of them."""


AROUND = ("random around gold entities", "right-branching around gold entities")
METRIC = READINGS["F1 of sentences"]
BARE = "without_punctuation"
"""That by which trees are compared below: on trees without a model it comes closest to the paper."""


def plan(request: Request) -> Plan:
    """The TreeCRF of both recipes with every seed, on the first encoder, where there is a treebank."""
    encoder = request.encoders[0].name
    return joined(
        planned(seeded(request, Run(corpus.name, encoder, recipe)), SYNTAX)
        for corpus in request.of(*CORPORA)
        if corpus.treebank
        for recipe in SETTINGS
    )


def measure(request: Request) -> list[str]:
    """Trees that need no model: random, left- and right-branching, and the gold tree made binary."""
    said = []
    for corpus in request.of(*CORPORA):
        if corpus.treebank is None:
            said.append(
                f"{title(corpus.name)} has no treebank*.zip beside its train data: no gold trees to compare with"
            )
            continue
        documents = list(read(corpus.train))
        matches = treebank.match([one.words for one in documents], treebank.read_treebank(corpus.treebank))
        content = {
            "code": provenance.code(),
            "treebank_sentences": matches.sentences,
            "matched": len(matches.trees),
            "other_text": matches.other_text,
            "other_tokens": matches.other_tokens,
            "trees": baselines(matches.trees, documents),
        }
        path = request.store.other_path(f"syntax-{corpus.name}")
        write_json(path, content)
        said.append(f"{len(matches.trees)} of {matches.sentences} trees matched; written to {path}")
    return said


def baselines(trees: list[tuple[int, GoldTree]], documents: list[Document]) -> dict[str, Any]:
    """How trees that know nothing of the sentence, or of its entities alone, agree with gold."""

    def entities(number: int) -> list[Span]:
        return [one.tokens for one in documents[number].entities if one.tokens]

    def at_random(number: int, tree: GoldTree, draw: int, within: list[Span]) -> Iterable[Span | None]:
        return tree.in_tokens(random_tree(tree.words, random.Random(f"{number} {draw}"), within))

    def mean(make: Callable[[int, GoldTree, int], Iterable[Span | None]], draws: int = 1) -> dict[str, Any]:
        found = Comparison()
        for draw in range(draws):
            for number, tree in trees:
                found.add(tree, make(number, tree, draw))
        return found.as_dict()

    return {
        "random": mean(lambda number, tree, draw: at_random(number, tree, draw, []), DRAWS),
        "left-branching": mean(lambda _, tree, __: tree.in_tokens(left_branching(tree.words))),
        "right-branching": mean(lambda _, tree, __: tree.in_tokens(right_branching(tree.words))),
        "random around gold entities": mean(
            lambda number, tree, draw: at_random(number, tree, draw, entities(number)), DRAWS
        ),
        "right-branching around gold entities": mean(
            lambda number, tree, _: tree.in_tokens(right_branching_around(tree.words, entities(number)))
        ),
        "oracle": mean(lambda _, tree, __: left_binarised(tree)),
    }


def section(results: Results, found: Section) -> None:
    """The paper's table by each reading of its metric, and brackets as they are usually counted."""
    for name, content in results.store.others("syntax-*"):
        corpus = name.removeprefix("syntax-")
        models = {
            f"TreeCRF, {SETTINGS[recipe]}, {encoder_title(encoder)}": group
            for encoder in results.encoders()
            for recipe in SETTINGS
            if (group := _with_syntax(results.group(corpus, encoder, recipe)))
        }
        _one_corpus(found, corpus, content, models)


def _with_syntax(group: Group | None) -> Group | None:
    runs = tuple(one for one in group.runs if SYNTAX in one[1]) if group else ()
    return Group(runs) if runs else None


def _values(group: Group, kind: str, key: str) -> list[float]:
    return [float(one[SYNTAX][one[SYNTAX]["decoding"]][kind][key]) for one in group.results]


def _one_corpus(found: Section, corpus: str, content: dict[str, Any], models: dict[str, Group]) -> None:
    trees: dict[str, Any] = content["trees"]
    usual = ("precision", "recall", "f1")
    head = ["trees", "*paper*", *READINGS, *(f"{one}, no punctuation" for one in ("P", "R", "F1"))]
    rows = []
    for name, one in trees.items():
        numbers = [f"{one[kind][key]:.2f}" for kind, key in READINGS.values()]
        theirs = f"*{paper.SYNTAX[name]}*" if name in paper.SYNTAX else ""
        rows.append([name, theirs, *numbers, *(f"{one['brackets'][key]:.2f}" for key in usual)])
    rows.insert(-1, ["*TreeCRF, the paper's*", f"*{paper.SYNTAX['TreeCRF']}*", *[""] * (len(head) - 2)])
    for name, group in models.items():
        numbers = [spread(_values(group, kind, key)) for kind, key in READINGS.values()]
        own = [spread(_values(group, "brackets", key)) for key in usual]
        rows.insert(-1, [name, "", *numbers, *own])
    found.add(
        f"### {title(corpus)}: {content['matched']:,} of the {content['treebank_sentences']:,} sentences of the "
        "treebank, matched with training sentences",
        "The paper compares with trees that a parser made; these are gold trees that people made. It calls its "
        'metric "UAS" and does not define it, nor does it say of which corpus. Three readings are given, all with '
        "punctuation as words: the share of a "
        "tree's brackets that are gold constituents, F1 over all brackets, and the mean F1 of sentences. The last "
        "three columns are unlabelled brackets as they are usually counted, without punctuation. Single words, whole "
        "sentences and what lies within one token of the treebank are no brackets.",
        table(head, rows),
        _closest(trees),
    )
    if models:
        _judge(found, corpus, trees, models)
        names = [*list(trees)[:-1], *models, "oracle"]
        values = {name: _metric(one) for name, one in trees.items()}
        values |= {name: statistics.mean(_values(group, *METRIC)) for name, group in models.items()}
        known = {**paper.SYNTAX, **dict.fromkeys(models, paper.SYNTAX["TreeCRF"])}
        path = found.folder / f"syntax-{corpus}.svg"
        picture = plots.bars(path, names, [values[name] for name in names], known, "F1 of sentences, punctuation kept")
        found.add(f"![Agreement with gold constituents]({picture})", *_nodes(models))
    else:
        found.add("The trees of trained models: not run yet.")


def _closest(trees: dict[str, Any]) -> str:
    """Which reading of the metric comes closest to the paper where no model is involved."""
    known = [name for name in paper.SYNTAX if name in trees]
    off = {
        reading: statistics.mean(abs(trees[name][kind][key] - paper.SYNTAX[name]) for name in known)
        for reading, (kind, key) in READINGS.items()
    }
    best = min(off, key=lambda one: off[one])
    far = ", ".join(f"{reading} {value:.1f}" for reading, value in off.items())
    order = "the paper's in all of them" if _ordered(trees) else "not the paper's in all of them"
    return (
        f"Of the readings, **{best}** comes closest to the paper's figures for trees without a model (mean distance in "
        f"points: {far}); the order random, left-branching, right-branching is {order}. That right-branching trees "
        "have next to nothing is the full stop's doing: every suffix of a sentence holds it, and no constituent within "
        f"the sentence does. Without punctuation they have {trees['right-branching']['brackets']['f1']:.1f} F1."
    )


def _ordered(trees: dict[str, Any]) -> bool:
    names = ("random", "left-branching", "right-branching")
    rows = [[trees[name][kind][key] for name in names] for kind, key in READINGS.values()]
    return all(row == sorted(row, reverse=True) for row in rows)


def _judge(found: Section, corpus: str, trees: dict[str, Any], models: dict[str, Group]) -> None:
    """Whether trained trees are above every baseline, and above what entities alone give."""
    around = [name for name in AROUND if name in trees]
    plain = [name for name in trees if name not in ("oracle", *AROUND)]
    best = max(plain, key=lambda one: _metric(trees[one]))
    for name, group in models.items():
        own = statistics.mean(_values(group, *METRIC))
        usual = statistics.mean(_values(group, "brackets", "f1"))
        entities = [f"{_side(own, _metric(trees[one]))} {one} ({_metric(trees[one]):.2f})" for one in around]
        right = [
            f"{_side(usual, trees[one]['brackets']['f1'])} {one} ({trees[one]['brackets']['f1']:.2f})"
            for one in ("right-branching", *around)
        ]
        found.find(
            f"{title(corpus)}, {name}: with punctuation it has {own:.2f} F1 of sentences, "
            f"{_side(own, _metric(trees[best]))} the best of the paper's baselines ({best}, "
            f"{_metric(trees[best]):.2f}); of trees that know the gold entities, it is {listed(entities)}. Without "
            f"punctuation it has {usual:.2f} F1, {listed(right)}."
        )
        bare = max(trees[one]["brackets"]["f1"] for one in plain)
        above = own > _metric(trees[best]), usual > bare
        beside_random = _metric(trees[AROUND[0]]) if AROUND[0] in trees else 0.0
        found.judge(
            "inferred trees agree with constituents more than every baseline",
            f"{paper.SYNTAX['TreeCRF']} against {max(paper.SYNTAX[one] for one in plain)} (corpus not named)",
            f"{title(corpus)}, {name.removeprefix('TreeCRF, ')}: {own:.2f} against {_metric(trees[best]):.2f}; without "
            f"punctuation {usual:.2f} against {bare:.2f}",
            ("yes" if all(above) else "no" if not any(above) else f"only with{'out' * above[1]} punctuation")
            + "; with punctuation it is below random trees around the gold entities" * (own < beside_random),
        )
    around_f1 = trees.get("right-branching around gold entities", {}).get("brackets", {}).get("f1", 0.0)
    best_f1 = max(statistics.mean(_values(group, "brackets", "f1")) for group in models.values())
    best_metric = max(statistics.mean(_values(group, *METRIC)) for group in models.values())
    others = listed([f"{_metric(trees[one]):.1f} ({one})" for one in (best, *around[:1])])
    found.sum_up(
        "**Latent trees as syntax** (F1 beside gold constituents, models at their best)",
        f"{title(corpus)}, without punctuation {best_f1:.1f}, beside {around_f1:.1f} (right-branching around gold "
        f"entities); with punctuation {best_metric:.1f}, beside {others}",
    )
    if around_f1 > 0.8 * best_f1:
        found.add(
            f"So without punctuation, {100 * around_f1 / best_f1:.0f}% of the best F1 is had by trees that branch to "
            "the right around the gold entities: latent nodes add little to that."
        )


def _metric(one: dict[str, Any]) -> float:
    kind, key = METRIC
    return float(one[kind][key])


def _side(one: float, other: float) -> str:
    return "above" if one > other else "below"


def _nodes(models: dict[str, Group]) -> list[str]:
    """Which nodes are constituents, and which constituents are nodes, without punctuation."""
    rows, categories, guessed = [], dict[str, list[str]](), False
    for name, group in models.items():
        parts = [one[SYNTAX][one[SYNTAX]["decoding"]] for one in group.results]
        counts = [_of_kinds(part) for part in parts]
        guessed |= any(BARE not in part for part in parts)
        shares = [
            f"{100 * sum(one[kind][0] for one in counts) / max(1, sum(one[kind][1] for one in counts)):.1f}"
            for kind in ("entity", "latent")
        ]
        rows.append([name, *shares])
        known = [part[BARE]["categories"] for part in parts if BARE in part]
        for category in list(known[0])[:8] if known else []:
            right, every = (sum(one.get(category, [0, 0])[at] for one in known) for at in (0, 1))
            categories.setdefault(category, []).append(f"{100 * right / max(1, every):.1f}")
    whole = [[category, *cells] for category, cells in categories.items() if len(cells) == len(models)]
    about = (
        " Of runs measured earlier, entity nodes were counted with punctuation, and all nodes without; what is left of "
        "these without those is taken for the latent ones, which is close."
    )
    found = [
        "Of the nodes with more than one word, punctuation left out, the share that are gold constituents, in percent."
        + about * guessed,
        table(["", "entity nodes", "latent nodes"], rows),
    ]
    if whole:
        found += [
            "Of the gold constituents, the share that are nodes, by category, in percent, punctuation left out:",
            table(["", *models], whole),
        ]
    return found


def _of_kinds(part: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Of entity and latent nodes, how many are constituents, and how many there are."""
    if BARE in part:
        return {kind: tuple(counts) for kind, counts in part[BARE]["nodes"].items()}
    entity = part["nodes"]["entity"]
    every = part["brackets"]
    return {"entity": tuple(entity), "latent": (every["right"] - entity[0], every["guessed"] - entity[1])}


STUDY = Study("syntax", "Table 8", "Are latent trees syntax trees?", section, plan, measure)
