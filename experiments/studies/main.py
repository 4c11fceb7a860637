"""Main results (the paper's Tables 2 and 6): P, R and F1 over seeds, TreeCRF and local model, on every corpus."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from experiments import benchmarked, paper, plots
from experiments.benchmarked import Adapted
from experiments.corpora import encoder_title, of_encoder, title
from experiments.further import cells, one_step_further
from experiments.groups import Group, Results
from experiments.markdown import listed, p_text, signed, table
from experiments.measures import HALF, TUNED
from experiments.planning import SYNTAX, TREES, Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.significance import Difference
from experiments.study import Section, Study

CORPORA = ("genia", "litbank", "germeval")
LOSSES = {"TreeCRF": {}, "local": {"loss": "local"}}
THRESHOLDS = {HALF: "local, threshold of one half", TUNED: "local, threshold tuned"}

PARTS = {"nested": ("nesting", "nested"), "flat": ("nesting", "flat"), "11 words and more": ("length", "11+")}
FEW = 20
"""Gold entities, below which a part of dev is too small for scores of its own."""
WAYS = {"TreeCRF, best tree": "by the best tree, as in the paper", "TreeCRF, MBR": "by MBR"}
"""How models with trees are decoded."""
Pairs = list[tuple[str, str, Group, Group | None]]


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
    """P, R and F1, the runs one by one, and what else the same models can do."""
    further = list(benchmarked.adapted(results.store))
    pairs = _pairs(results, further)
    if not pairs:
        return
    found.add(
        "Dev sets, the `default` recipe of `nestree train` (`docs/training.md`), mean ± standard deviation over seeds. "
        "*MBR* is how nestree decodes unless told otherwise: the entities with a probability of at least one half; "
        "*best tree* is the paper's way, CKY, with the same models. *Local* is the paper's *without TreeCRFs*: the "
        "same scorer, one softmax per span, the best label of each; nothing keeps its spans from crossing"
        f"{_thresholds_told(pairs)}. Rows in italics are the paper's, on its test sets. From which "
        "settings the recipe was chosen, and on which data, stands in `docs/training.md`, too.",
        table(["corpus", "encoder", "model", "P", "R", "F1", "seeds", "epochs"], _rows(pairs)),
    )
    borrowed = [one for one in further if not results.group(one.corpus, one.encoder, "default")]
    if borrowed:
        found.add(
            f"The models for {listed([of_encoder(one.corpus, one.encoder) for one in borrowed])} were trained by "
            "`benchmarks.adapt` with the same settings and seeds; their numbers are in `benchmarks/results`, not among "
            "the runs beside this page."
        )
    _compare(found, pairs)
    found.add(*_last_epochs(pairs), *_parts(pairs))
    found.add(
        "The runs one by one (the paper's Table 6):",
        table(["corpus", "encoder", "F1 of each seed, MBR", "best tree"], _each(pairs)),
    )
    found.add(_steadiness(found, pairs))
    _in_short(found, pairs)
    if further:
        one_step_further(found, further)


def _in_short(found: Section, pairs: Pairs) -> None:
    """How often trees are worth something, by either decoding, and a picture of it."""
    told, rows = [], defaultdict[str, dict[str, plots.Mark]](dict)
    for name, way in WAYS.items():
        differences = []
        for corpus, encoder, tree, local in pairs:
            if local and (group := _ways(tree, None).get(name)):
                difference = group.better_than(local)
                rows[of_encoder(corpus, encoder)][way] = plots.Mark.of(difference)
                differences.append(difference)
        if differences:
            told.append(f"{way}, {_sides(differences)}")
    if told:
        pairs_told = f"{len(rows)} pair{'s' * (len(rows) != 1)} of corpus and encoder"
        found.sum_up(f"**Trees against none** (F1 with the same encoder and recipe, {pairs_told})", "; ".join(told))
        gaps = {
            of_encoder(corpus, encoder): {next(iter(WAYS.values())): _gaps(corpus)} for corpus, encoder, *_ in pairs
        }
        x = f"F1 with trees less F1 without, {plots.INTERVAL}"
        picture = plots.forest(found.folder / "main.svg", rows, gaps, x, named=plots.BESIDE)
        found.show(
            f"![What trees are worth, on every corpus and encoder, by either decoding, beside the paper]({picture})"
        )


def _sides(differences: Sequence[Difference]) -> str:
    """On how many pairs it is better, worse, and neither beyond chance."""
    known = {
        "better": [one for one in differences if one.significant and one.value > 0],
        "worse": [one for one in differences if one.significant and one.value < 0],
        "not different beyond chance": [one for one in differences if not one.significant],
    }
    told = []
    for side, own in known.items():
        ends = [f"{signed(one.value, 1)}{'†' * one.single}" for one in sorted(own)]
        reach = f" ({' to '.join(dict.fromkeys([ends[0], ends[-1]]))})" if own else ""
        told.append(f"{side} on {len(own) or 'none'}{reach}")
    return ", ".join(told)


def _gaps(corpus: str) -> list[float]:
    """What trees are worth in the paper, where it has the corpus or one that this stands in for."""
    known = paper.beside(corpus) if corpus in paper.MAIN or corpus in paper.STAND_INS else ()
    return [-paper.change("without TreeCRF", one) for one in known]


def _pairs(results: Results, further: list[Adapted]) -> Pairs:
    """TreeCRF and local models of each corpus and encoder, those of the benchmarks where there are no others."""
    borrowed = {(one.corpus, one.encoder): one.kinds.get("plain") for one in further}
    known = [(corpus, encoder) for corpus in results.corpora(*CORPORA) for encoder in results.encoders()]
    order = {corpus: at for at, corpus in enumerate(CORPORA)}
    names = sorted(dict.fromkeys([*known, *borrowed]), key=lambda one: order.get(one[0], len(order)))
    return [
        (corpus, encoder, tree, results.group(corpus, encoder, "default", LOSSES["local"]))
        for corpus, encoder in names
        if (tree := results.group(corpus, encoder, "default") or borrowed.get((corpus, encoder)))
    ]


def _rows(pairs: Pairs) -> list[list[str]]:
    rows = []
    for at, (corpus, encoder, tree, local) in enumerate(pairs):
        for name, group in _ways(tree, local).items():
            if group:
                rows.append([*cells(corpus, encoder, name, group), str(group.epochs)])
        if _is_last(pairs, at) and corpus in paper.MAIN:
            rows += _paper_rows(corpus)
    rows += [
        row
        for corpus in ("ace2004", "ace2005")
        if corpus not in {one[0] for one in pairs}
        for row in _paper_rows(corpus)
    ]
    return rows


def _ways(tree: Group, local: Group | None) -> dict[str, Group]:
    """The rows of a corpus and an encoder."""
    found = {"TreeCRF, MBR": tree}
    if as_paper := tree.by_best_tree:
        found["TreeCRF, best tree"] = as_paper
    return found | ({"local": local, **_with_thresholds(local)} if local else {})


def _with_thresholds(local: Group) -> dict[str, Group]:
    """The local models that were also scored with a threshold."""
    return {name: group for way, name in THRESHOLDS.items() if (group := local.measured(way))}


def _thresholds_told(pairs: Pairs) -> str:
    if not any(local and _with_thresholds(local) for *_, local in pairs):
        return ", and no threshold was tried for it"
    return (
        ". With MBR, the TreeCRF keeps what has a probability of at least one half, and the local model whatever label "
        "is best; so the local model is also scored with that *threshold*, and "
        "with one that is *tuned* on dev: that which has the best F1 on every other sentence is used for those between "
        "(the TreeCRF has none that is tuned)"
    )


def _is_last(pairs: Pairs, at: int) -> bool:
    """Whether no other encoder of the same corpus follows."""
    return at + 1 == len(pairs) or pairs[at + 1][0] != pairs[at][0]


def _paper_rows(corpus: str) -> list[list[str]]:
    """The paper's figures, in italics."""
    mean, deviation = paper.MAIN[corpus], paper.MAIN_DEVIATION[corpus]
    own = [f"*{value:.1f} ± {spread:.1f}*" for value, spread in zip(mean, deviation, strict=True)]
    local = [f"*{value:.1f}*" for value in paper.ABLATION["without TreeCRF"][corpus]]
    names = [f"*{paper.CORPORA[corpus]}*", f"*{paper.ENCODERS[corpus]}*"]
    return [[*names, "*TreeCRF, best tree*", *own, "*5*", ""], [*names, "*local*", *local, "", ""]]


def _compare(found: Section, pairs: Pairs) -> None:
    """TreeCRF less local model, with either decoding of the first and with thresholds for the second."""
    head = ["", "best tree", "MBR", *(f"MBR, {name.removeprefix('local, ')}" for name in THRESHOLDS.values())]
    rows, sides = [], dict[str, dict[str, list[str]]]()
    for corpus, encoder, tree, local in pairs:
        if not local:
            continue
        where = of_encoder(corpus, encoder)
        own, against = _ways(tree, None), {"local": local, **_with_thresholds(local)}
        values = []
        for name, beside in [(one, "local") for one in WAYS] + [("TreeCRF, MBR", one) for one in THRESHOLDS.values()]:
            if name not in own or beside not in against:
                values.append("")
                continue
            difference = own[name].better_than(against[beside])
            values.append(f"{difference}, {p_text(difference.p)}")
            if beside == "local":
                side = "above" if difference.value > 0 else "below"
                told = f"{side} the local model" if difference.significant else "not different beyond chance"
                sides.setdefault(WAYS[name], {}).setdefault(told, []).append(f"{where}{'†' * difference.single}")
        rows.append([where, *values])
        _judge(found, where, corpus, tree, local)
    if rows:
        gaps = [f"{signed(gap, 1)} ({paper.CORPORA[one]})" for one in paper.MAIN for gap in _gaps(one)]
        found.add(
            "What trees are worth: F1 of the TreeCRF less that of the local model, which in the last two columns has a "
            f"threshold, where that was measured. The paper has {listed(gaps)}, with the best tree.",
            table(head, rows),
        )
        for way, by_side in sides.items():
            told = "; ".join(f"{side} on {listed(pairs_there)}" for side, pairs_there in sorted(by_side.items()))
            found.find(f"{way[0].upper()}{way[1:]}, the TreeCRF is {told}.")


def _judge(found: Section, where: str, corpus: str, tree: Group, local: Group) -> None:
    """The paper's claim, with the paper's decoding."""
    gaps = {one: -paper.change("without TreeCRF", one) for one in paper.beside(corpus)}
    as_paper = (tree.by_best_tree or tree).better_than(local)
    holds = f"{'yes' if as_paper.value > 0 else 'no: it is worse'}{', by one seed' * as_paper.single}"
    outside = corpus in gaps and not as_paper.low <= gaps[corpus] <= as_paper.high
    open_ = "not beyond chance"
    open_ += f"; the paper's {signed(gaps[corpus], 1)} lies outside the interval" if outside else ""
    found.judge(
        "the TreeCRF is above the local model",
        ", ".join(f"{signed(gap, 1)} ({paper.CORPORA[one]})" for one, gap in gaps.items()),
        f"{where}: {as_paper}",
        holds if as_paper.significant else open_,
    )


def _last_epochs(pairs: Pairs) -> list[str]:
    """Where the last epoch was the best, more of them might have been better."""
    told = []
    for corpus, encoder, tree, local in pairs:
        for name, group in (("TreeCRF", tree), ("local", local)):
            results = [one for one in group.results if "best_epoch" in one] if group else []
            last = sum(one["best_epoch"] == one["epochs"] for one in results)
            if results and 2 * last > len(results):
                told.append(f"{of_encoder(corpus, encoder)}, {name} ({last} of {len(results)} runs)")
    return [f"The last epoch was the best, so that more might have given more: {listed(told)}."] if told else []


def _parts(pairs: Pairs) -> list[str]:
    """F1 of nested and flat entities, and of long ones; of parts with few entities it would say nothing."""
    rows = []
    for corpus, encoder, tree, local in pairs:
        sizes = [_size(tree, kind, part) for kind, part in PARTS.values()]
        for name, group in _ways(tree, local).items():
            cells = [
                group.part_text(kind, part) if size >= FEW else ""
                for size, (kind, part) in zip(sizes, PARTS.values(), strict=True)
            ]
            if any(cells):
                rows.append([title(corpus), encoder_title(encoder), name, *cells])
    if not rows:
        return []
    return [
        f"Where the difference is: F1 of entities within or around others, of all others, and of long ones, if dev has "
        f"at least {FEW} such.",
        table(["corpus", "encoder", "model", *PARTS], rows),
        *_part_gains(pairs),
    ]


def _part_gains(pairs: Pairs) -> list[str]:
    """Which entities trees find better, with the paper's decoding, and how many of them there are."""
    told, sizes, rising = [], dict[str, str](), True
    for corpus, encoder, tree, local in pairs:
        gains: dict[str, float] = {}
        for name, (kind, part) in PARTS.items():
            both = [one.part_values(kind, part) for one in (tree.by_best_tree, local) if one]
            if (size := _size(tree, kind, part)) >= FEW and len(both) == 2 and all(both):
                gains[name] = statistics.mean(both[0]) - statistics.mean(both[1])
                sizes[f"{title(corpus)}, {name}"] = f"{size:,} ({title(corpus)}, {name})"
        in_order = [gains[name] for name in ("flat", "nested", "11 words and more") if name in gains]
        rising &= len(in_order) > 1 and in_order == sorted(in_order)
        if gains:
            parts = ", ".join(f"{signed(gain, 1)} ({name})" for name, gain in gains.items())
            told.append(f"{of_encoder(corpus, encoder)} {parts}")
    if not told:
        return []
    order = " On every pair it is least on flat entities, more on nested ones and most on long ones." if rising else ""
    return [
        f"What trees are worth there by the best tree, without intervals: {'; '.join(told)}.{order} Gold entities of "
        f"dev: {', '.join(sizes.values())}."
    ]


def _size(group: Group, kind: str, part: str) -> int:
    """How many gold entities a part of a breakdown has."""
    found = group.scores(group.results[0]).get("breakdowns", {}).get(kind, {}).get(part) or {}
    return int(found.get("gold", 0))


def _each(pairs: Pairs) -> list[list[str]]:
    rows = []
    for at, (corpus, encoder, tree, _) in enumerate(pairs):
        values = [", ".join(f"{value:.2f}" for value in one.values("f1")) for one in (tree, tree.by_best_tree) if one]
        rows.append([title(corpus), encoder_title(encoder), *values, *[""] * (2 - len(values))])
        if _is_last(pairs, at):
            rows += _paper_runs(corpus)
    for corpus in paper.RUNS:
        if corpus not in {one[0] for one in pairs}:
            rows += _paper_runs(corpus)
    return rows


def _paper_runs(corpus: str) -> list[list[str]]:
    if corpus not in paper.RUNS:
        return []
    values = ", ".join(f"{one.f1:.2f}" for one in paper.RUNS[corpus])
    return [[f"*{paper.CORPORA[corpus]}*", f"*{paper.ENCODERS[corpus]}*", "", f"*{values}*"]]


def _steadiness(found: Section, pairs: Pairs) -> str:
    """The paper's: that F1 does not vary much with the seed."""
    told = []
    theirs = [f"{paper.CORPORA[one]} {value.f1}" for one, value in paper.MAIN_DEVIATION.items()]
    for corpus, encoder, tree, local in pairs:
        own = tree.by_best_tree
        if own and len(own.runs) > 1:
            of_local = f", local {statistics.stdev(local.values('f1')):.2f}" if local and len(local.runs) > 1 else ""
            spread = statistics.stdev(own.values("f1"))
            told.append(f"{of_encoder(corpus, encoder)} {spread:.2f}{of_local}")
            found.judge(
                "F1 does not vary much with the seed",
                f"standard deviation {', '.join(theirs)}",
                f"{of_encoder(corpus, encoder)}: {spread:.2f} ({len(own.runs)} seeds)",
                "yes, less than half a point" if spread < 0.5 else "more than half a point",
            )
    if not told:
        return ""
    return (
        f"Standard deviations of F1 over seeds, by the best tree: {'; '.join(told)}. The paper has "
        f"{', '.join(theirs)}. Of so few seeds, which of these is larger is not known."
    )


STUDY = Study("main", "Tables 2 and 6", "How good is the model, over seeds, beside the local one?", section, plan)
