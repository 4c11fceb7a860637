"""The time of one training epoch (the paper's Tables 4 and 9); ``experiments.epochs`` measures it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from experiments import benchmarked, paper, plots
from experiments.corpora import encoder_title, of_encoder
from experiments.epochs import measure
from experiments.groups import Results
from experiments.markdown import signed, table
from experiments.significance import quantile
from experiments.study import Section, Study

ORDER = ("vanilla Inside", "vanilla partial marginalisation", "Masked Inside", "nestree", "biaffine")

STEP_LOSSES = {
    "vanilla Inside": "(d) vanilla",
    "Masked Inside": "(c) torch-struct",
    "nestree": "(b) nestree",
    "biaffine again": "(a) again",
    "biaffine": "(a) local",
}
"""What ``benchmarks.train_step`` calls them."""
STEP_ROWS = {name: STEP_LOSSES.get(name, "") for name in (*ORDER[:-1], "biaffine again", "biaffine")}
FEW_STEPS = {"vanilla Inside": " (by three steps)"}
ON_GPU = "**A training step on a GPU**, beside one without trees"
FEW = 10
"""Measured steps, below which their number is said."""
QUARTILES_APART = 1.349
"""In standard deviations of a normal distribution."""
KERNELS = ("nestree's kernels", "torch-struct's")
"""Of ours, and of Masked Inside as the paper's authors compute it."""
STEP_COLUMNS = (("bert-large", "ACE"), ("bert-large", "GENIA"), ("minilm", "GENIA"))
STEP_SENTENCES = {"ACE": paper.STATISTICS["ace2004"]["train"][0], "GENIA": paper.STATISTICS["genia"]["train"][0]}


def section(results: Results, found: Section) -> None:
    """A table for each device, the paper's beside it."""
    contents = [_with_ratios(content) for _, content in results.store.others("speed/*")]
    steps = benchmarked.training_steps(results.store)
    if not contents and not steps:
        return
    found.add(
        "One training epoch, every step with encoder, scorer, loss, backward, clipping and AdamW; batches of 32 "
        "sentences of similar length, bfloat16 on the GPU; step by step, without recorded graphs. *Vanilla Inside*: "
        "span by span, all sentences of a batch at a time. *Vanilla partial marginalisation*: Algorithm 2, sentence by "
        "sentence (log Z from our kernels). *Masked Inside*: torch-struct, as the paper's authors use it. *nestree*: "
        "the same loss with our kernels. *Biaffine*: no trees. **~**: extrapolated from measured steps; all others are "
        "whole epochs. In brackets: how many times as long as biaffine on the same batches, in turns, ± its standard "
        f"error; and of how many steps, where they are fewer than {FEW}, so that this error is itself a guess. "
        "On the GPU, biaffine and nestree had seen the measured batches, or most of them, once before, the others one. "
        "Encoders "
        "named after BERT have its shape and random weights.",
    )
    for device in ("cuda", "cpu"):
        here = [one for one in contents if one["device"] == device]
        if here:
            _one_device(found, device, here)
        if device == "cuda" and steps:
            _gpu_steps(found, steps)
        if device == "cuda":
            _epochs_in_short(found, here)
    _picture(found, contents, steps)
    if grown := benchmarked.growth(results.store):
        _growth(found, grown)


def _with_ratios(content: dict[str, Any]) -> dict[str, Any]:
    """Results of before ratios were measured have those of whole epochs, whose error is not known."""
    base = content["epochs"]["biaffine"]["epoch_seconds"]
    epochs = {
        name: {"ratio": row["epoch_seconds"] / base, "ratio_error": 0.0, **row}
        for name, row in content["epochs"].items()
    }
    return {**content, "epochs": epochs}


def _picture(found: Section, contents: list[dict[str, Any]], steps: dict[str, Any] | None) -> None:
    """How many times as long as biaffine each way takes, everywhere; the paper's beside what comes closest to it."""
    rows = {name: dict[str, plots.Mark]() for name in ORDER if name != "biaffine"}
    beside: dict[str, str] = {}
    for row in steps["rows"] if steps else ():
        if (where := (row["encoder"], row["set"])) in STEP_COLUMNS:
            series = f"GPU, {where[1]} lengths with {encoder_title(where[0])}"
            if where == STEP_COLUMNS[0]:
                beside[series] = "gpu"
            for name, own in rows.items():
                if row["loss"] == STEP_LOSSES.get(name):
                    own[series] = plots.Mark(row["ratio"], row["low"], row["high"])
    for one in contents:
        kind = "gpu" if one["device"] == "cuda" else "cpu"
        series = f"{kind.upper()}, {of_encoder(one['corpus'], one['encoder'])}"
        if one["corpus"] in paper.STAND_INS:
            beside[series] = kind
        for name, own in rows.items():
            if known := one["epochs"].get(name):
                ratio, error = known["ratio"], 2 * known["ratio_error"]
                own[series] = plots.Mark(ratio, max(ratio / 10, ratio - error), ratio + error)
    if not any(rows.values()):
        return
    base_of = paper.SPEED_SECONDS["biaffine"]
    theirs = {
        name: {series: [paper.SPEED_SECONDS[name][kind] / base_of[kind]] for series, kind in beside.items()}
        for name in rows
        if name in paper.SPEED_SECONDS
    }
    x = "times as long as biaffine (bars: two standard errors; of lengths alone, quartiles of steps)"
    picture = plots.forest(found.folder / "speed.svg", rows, theirs, x, ratios=True)
    found.add(f"![How many times as long as without trees a training epoch takes, by each way]({picture})")


def _growth(found: Section, grown: dict[str, dict[int, tuple[float, float | None]]]) -> None:
    """The complexity row of Table 4, as it is measured."""
    lengths = sorted({n for own in grown.values() for n in own})
    rows = []
    for n in lengths:
        row = [str(n)]
        for own in grown.values():
            ms, exponent = own.get(n, (None, None))
            row += [f"{ms:.2f}" if ms else "", "" if exponent is None else signed(exponent, 1)]
        rows.append(row)
    head = ["words", *(cell for device in grown for cell in (f"{device}: ms", "exponent"))]
    found.add(
        "### How the loss grows with the length of sentences",
        "The paper gives O(n³) for vanilla Inside, O(n log n) for Masked Inside and O(1) for biaffine, counting what "
        "is done at a time as one step. Our loss with its gradient, 8 sentences (`benchmarks/results/growth-*"
        ".json`); the exponent is that of the last doubling. Work is n³ in any case, and shows once the processor is "
        "full:",
        table(head, rows),
    )


def _gpu_steps(found: Section, steps: dict[str, Any]) -> None:
    """Epochs from steps that ``benchmarks.train_step`` measured, on sentences drawn with the lengths of a corpus."""
    rows = {(row["encoder"], row["set"], row["loss"]): row for row in steps["rows"]}
    head = ["", *(f"{name} lengths with {encoder_title(encoder)}" for encoder, name in STEP_COLUMNS)]
    cells = []
    for method, loss in STEP_ROWS.items():
        own = [rows.get((encoder, name, loss)) for encoder, name in STEP_COLUMNS]
        base = [rows.get((encoder, name, STEP_LOSSES["biaffine"])) for encoder, name in STEP_COLUMNS]
        epochs = [
            _step_cell(row, one, name) if row and one else ""
            for row, one, (_, name) in zip(own, base, STEP_COLUMNS, strict=True)
        ]
        cells.append([method, *epochs, _paper_cell(method, "gpu")])
    found.add(
        f"### GPU: {steps['environment']['gpu']}, from single steps",
        "`benchmarks.train_step` (`benchmarks/results/train-step-cuda.json`): 32 sentences a step, drawn with the "
        "mean lengths of the corpora, 1.3 pieces a word, seven entity labels; random weights. All epochs are "
        "extrapolated: biaffine's median step, times the steps of the corpus' training data, times the median ratio to "
        "biaffine on the same batch, which stands in brackets with its quartiles. *Biaffine again* is measured like "
        "the others and shows what the machine's noise is. The slow ones have few steps (vanilla Inside 3, Masked "
        "Inside 8). *Vanilla partial marginalisation* is not among these.",
        table([*head, "*ACE2004, bert-large, P100 (paper)*"], cells),
    )
    ratios_of = {
        method: [rows[encoder, name, loss]["ratio"] for encoder, name in STEP_COLUMNS if (encoder, name, loss) in rows]
        for method, loss in STEP_LOSSES.items()
    }
    told = [
        f"{method} {'about ' * (method in FEW_STEPS)}{' to '.join(_exactly(one) for one in (min(ratios), max(ratios)))}"
        f" times{FEW_STEPS.get(method, '')}"
        for method, ratios in ratios_of.items()
        if ratios and not method.startswith("biaffine")
    ]
    found.sum_up(ON_GPU, f"{', '.join(told)} as long")
    for encoder, name in STEP_COLUMNS:
        known = {method: rows.get((encoder, name, loss)) for method, loss in STEP_LOSSES.items()}
        if all(known.values()):
            where = f"{name} lengths with {encoder_title(encoder)}, GPU"
            found.find(_step_sentence(known, where))
            ratios = {method: row["ratio"] for method, row in known.items() if row}
            _claims(found, where, "gpu", ratios, known)


def _exactly(ratio: float) -> str:
    return _times(ratio) if ratio >= 10 else f"{ratio:.2f}"


def _step_cell(row: dict[str, Any], biaffine: dict[str, Any], name: str) -> str:
    seconds = biaffine["step_ms"] / 1000 * row["ratio"] * math.ceil(STEP_SENTENCES[name] / 32)
    if row is biaffine:
        return f"~{_time(seconds)} (1×)"
    return f"~{_time(seconds)} ({row['ratio']:.3g}×, {row['low']:.3g} to {row['high']:.3g})"


def _step_sentence(own: dict[str, Any], where: str) -> str:
    theirs = paper.SPEED_SECONDS["Masked Inside"]["gpu"] / paper.SPEED_SECONDS["biaffine"]["gpu"]
    ours, again = own["nestree"]["ratio"], own["biaffine again"]["ratio"]
    slower = [
        f"{method} takes about {_times(own[method]['ratio'] / ours)} times as long as ours"
        for method in ("vanilla Inside", "Masked Inside")
    ]
    told = f"{where}: a step with the TreeCRF takes {ours:.2f} times as long as one without (which takes {again:.2f} "
    told += f"times as long when it is measured again; the paper's Masked Inside {theirs:.2f} times)"
    return f"{told}; {', '.join(slower)}."


def _claims(found: Section, where: str, kind: str, ratios: dict[str, float], rows: dict[str, Any]) -> None:
    """The paper's: that Masked Inside is quicker than vanilla Inside, and than vanilla partial marginalisation.

    Args:
        found: takes them.
        where: they were measured.
        kind: gpu or cpu.
        ratios: to biaffine.
        rows: where these come from: how many steps, and how much these vary.
    """
    for other in ("vanilla Inside", "vanilla partial marginalisation"):
        if other in ratios:
            theirs = _ratio_of_paper(other, kind)
            here = ratios[other] / ratios["Masked Inside"]
            both = [rows[one] for one in (other, "Masked Inside")]
            error = math.hypot(*map(_error, both))
            tested = math.isfinite(error) and min(map(_steps, both)) > 1
            sure = tested and ratios[other] - ratios["Masked Inside"] > quantile(_steps(both[0]) - 1) * error
            verdict = "yes" if sure else "not beyond chance" if tested else "not tested"
            found.judge(
                f"Masked Inside is quicker than {other}",
                f"{theirs:.1f} times (ACE2004, {kind.upper()})",
                f"{where}: {_times(here)} times",
                "no" if here <= 1.05 else verdict + _few(both[0], ", by {} steps"),
            )
    theirs = paper.SPEED_SECONDS["Masked Inside"][kind] / paper.SPEED_SECONDS["biaffine"][kind]
    ours = "nestree", "Masked Inside"
    if all(one in ratios for one in ours):
        base = ratios.get("biaffine", 1.0)
        found.judge(
            "with Masked Inside an epoch takes about as long as with biaffine alone",
            f"{theirs:.2f} times (ACE2004, {kind.upper()})",
            f"{where}: {', '.join(f'{ratios[one] / base:.2f} ({one})' for one in ours)}",
            _about([ratios[one] / base for one in ours]),
        )


def _steps(row: dict[str, Any]) -> int:
    """How many were measured, as far as that is known."""
    return int(row.get("steps_measured", row.get("steps", FEW)))


def _error(row: dict[str, Any]) -> float:
    """The standard error of a ratio. Three steps are their own quartiles; of more, quartiles tell the spread."""
    if "ratio_error" in row:
        return float(row["ratio_error"])
    if "low" not in row:
        return math.inf
    three = row["low"], row["ratio"], row["high"]
    spread = statistics.stdev(three) if _steps(row) == 3 else (row["high"] - row["low"]) / QUARTILES_APART
    return spread / math.sqrt(_steps(row))


def _few(row: dict[str, Any], form: str) -> str:
    """How many steps were measured, in a form such as " ({} steps)", if they are few."""
    return form.format(_steps(row)) if _steps(row) < FEW else ""


def _about(ratios: Sequence[float]) -> str:
    """Which of ours and theirs takes at most half as long again."""
    holds = [one <= 1.5 for one in ratios]
    if all(holds) or not any(holds):
        return "yes" if all(holds) else "no"
    return f"yes with {KERNELS[holds.index(True)]}, no with {KERNELS[holds.index(False)]}"


def _one_device(found: Section, device: str, contents: list[dict[str, Any]]) -> None:
    machine = contents[0]["machine"]
    where = machine["gpu"] if device == "cuda" else f"{machine['cpu']}, {contents[0]['threads']} threads"
    kind = "gpu" if device == "cuda" else "cpu"
    head = ["", *(of_encoder(one["corpus"], one["encoder"]) for one in contents)]
    head.append(f"*ACE2004, bert-large, {'P100' if kind == 'gpu' else 'i7'} (paper)*")
    rows = []
    for name in ORDER:
        cells = [_cell(one["epochs"], name) for one in contents]
        rows.append([name, *cells, _paper_cell(name, kind)])
    found.add(f"### {'GPU' if kind == 'gpu' else 'CPU'}: {where}", table(head, rows))
    for one in contents:
        found.find(_sentence(one, kind))
        if {"Masked Inside", "vanilla Inside"} <= one["epochs"].keys():
            ratios = {name: row["ratio"] for name, row in one["epochs"].items()}
            _claims(found, f"{of_encoder(one['corpus'], one['encoder'])}, {kind.upper()}", kind, ratios, one["epochs"])


def _epochs_in_short(found: Section, contents: Sequence[dict[str, Any]]) -> None:
    """All ways over an epoch, beside what single steps tell."""
    for one in contents:
        rows = {name: one["epochs"][name] for name in ORDER if name in one["epochs"] and name != "biaffine"}
        told = [
            f"{name} {row['ratio']:.2f} ± {row['ratio_error']:.2f}{_few(row, ' ({} steps)')}"
            for name, row in rows.items()
        ]
        where = of_encoder(one["corpus"], one["encoder"])
        found.sum_up(ON_GPU, f"over an epoch of {where}: {', '.join(told)} times as long")


def _ratio_of_paper(method: str, kind: str) -> float:
    """How many times as long as Masked Inside a way takes in the paper."""
    return paper.SPEED_SECONDS[method][kind] / paper.SPEED_SECONDS["Masked Inside"][kind]


def _paper_cell(method: str, kind: str) -> str:
    if method not in paper.SPEED_SECONDS:
        return ""
    seconds, biaffine = (paper.SPEED_SECONDS[one][kind] for one in (method, "biaffine"))
    return f"*{_time(seconds)} ({seconds / biaffine:.1f}×)*"


def _cell(epochs: dict[str, Any], name: str) -> str:
    if name not in epochs:
        return ""
    one = epochs[name]
    if name == "biaffine":
        error = f" ± {_time(one['standard_error'])}" if one["extrapolated"] else ""
        return f"{'~' if one['extrapolated'] else ''}{_time(one['epoch_seconds'])}{error} (1×)"
    few = _few(one, ", {} steps") if one["extrapolated"] else ""
    times = f"({one['ratio']:.2f} ± {one['ratio_error']:.2f}×{few})"
    return f"{'~' if one['extrapolated'] else ''}{_time(one['epoch_seconds'])} {times}"


def _times(ratio: float) -> str:
    """Two digits, as much as steps of a shared machine can tell."""
    return f"{float(f'{ratio:.2g}'):.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def _sentence(one: dict[str, Any], kind: str) -> str:
    times = {name: row["ratio"] for name, row in one["epochs"].items()}
    where = f"{of_encoder(one['corpus'], one['encoder'])}, {kind.upper()}"
    theirs = paper.SPEED_SECONDS["Masked Inside"][kind] / paper.SPEED_SECONDS["biaffine"][kind]
    ours, error = one["epochs"]["nestree"]["ratio"], one["epochs"]["nestree"]["ratio_error"]
    if abs(ours - 1) <= 2 * error:
        told = (
            f"{where}: an epoch with the TreeCRF takes as long as one without, as far as this can tell: {ours:.3f} ± "
            f"{error:.3f} times"
        )
    else:
        told = f"{where}: an epoch with the TreeCRF takes {ours:.3f} ± {error:.3f} times as long as one without"
    told += f" (the paper's Masked Inside: {theirs:.2f} times)"
    others = [name for name in ORDER if name in times and name not in ("nestree", "biaffine")]
    told += "; " + ", ".join(
        f"{name} takes {_times(times[name] / times['nestree'])} times as long as ours"
        + _few(one["epochs"][name], " ({} steps)")
        for name in others
    )
    slow = "vanilla partial marginalisation", "vanilla Inside"
    if all(name in times for name in slow):
        here, there = (
            times[slow[0]] / times[slow[1]],
            paper.SPEED_SECONDS[slow[0]][kind] / paper.SPEED_SECONDS[slow[1]][kind],
        )
        rows = [one["epochs"][name] for name in slow]
        error = math.hypot(*(row["ratio_error"] for row in rows))
        if abs(times[slow[0]] - times[slow[1]]) > quantile(max(1, min(map(_steps, rows)) - 1)) * error:
            told += f". Partial marginalisation takes {_times(here)} times as long as vanilla Inside"
        else:
            told += ". Which of partial marginalisation and vanilla Inside takes longer is not told apart here"
        told += f"; in the paper, the first takes {there:.1f} times as long"
    return f"{told}."


STUDY = Study("speed", "Tables 4 and 9", "How long does a training epoch take?", section, measure=measure)
