"""The time of one training epoch (the paper's Tables 4 and 9)."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from experiments import benchmarked, losses, paper, provenance
from experiments.corpora import CorpusFiles, encoder_title, title
from experiments.groups import Results
from experiments.markdown import signed, table
from experiments.planning import Request
from experiments.provenance import Encoder
from experiments.runs import Run
from experiments.store import write_json
from experiments.study import Section, Study
from nestree.model import NestedNER
from nestree.model.encoder import load
from nestree.training import load_part, prepare
from nestree.training.batching import Loader, Part
from nestree.training.optimizer import make_optimizer

CORPORA = ("genia", "litbank")
SHAPES = {"bert-large": (1024, 24, 16), "bert-base": (768, 12, 12)}
"""Hidden size, layers and heads of encoders with random weights: how long they take does not depend on these."""
SECONDS = 25.0
"""For each way to compute the loss, unless a whole epoch takes less."""
LEAST = 3
"""Steps that are measured in any case."""
QUICK = ("biaffine", "nestree")
ORDER = ("vanilla Inside", "vanilla partial marginalisation", "Masked Inside", "nestree", "biaffine")

STEP_LOSSES = {
    "vanilla Inside": "(d) vanilla",
    "Masked Inside": "(c) torch-struct",
    "nestree": "(b) nestree",
    "biaffine again": "(a) again",
    "biaffine": "(a) local",
}
"""What ``benchmarks.train_step`` calls them."""
STEP_COLUMNS = (("bert-large", "ACE"), ("bert-large", "GENIA"), ("minilm", "GENIA"))
STEP_SENTENCES = {"ACE": paper.STATISTICS["ace2004"]["train"][0], "GENIA": paper.STATISTICS["genia"]["train"][0]}


class Trainer:
    """A model, its optimizer and the batches of an epoch; takes steps with any loss.

    Args:
        model: on its device.
        parts: of each step, the batches, on that device.
        run: whose settings the optimizer has.
    """

    def __init__(self, model: NestedNER, parts: Sequence[Sequence[Part]], run: Run) -> None:
        self.model, self.parts = model.train(), parts
        self.optimizer = make_optimizer(model, run.config())

    def step(self, loss: losses.Loss, number: int) -> float:
        """Seconds of one step, with everything in it."""
        device = self.model.device.type
        _wait(device)
        began = time.perf_counter()
        for part in self.parts[number]:
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                value = loss(self.model, part)
            value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        _wait(device)
        return time.perf_counter() - began


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def epochs(trainer: Trainer, known: dict[str, losses.Loss], seconds: float) -> dict[str, Any]:
    """The time of an epoch with each loss: measured if it fits into the time, else from as many steps as do.

    Steps come in an order drawn at random; on each batch all losses take turns, so that what disturbs the machine
    disturbs all of them. On a GPU the quick ones see every batch once before.
    """
    order = list(range(len(trainer.parts)))
    random.Random(0).shuffle(order)
    for name, loss in known.items():
        for number in order if name in QUICK and trainer.model.device.type == "cuda" else order[:1]:
            trainer.step(loss, number)
    times: dict[str, list[float]] = {name: [] for name in known}
    for number in order:
        for name, loss in known.items():
            if sum(times[name]) <= seconds or len(times[name]) < LEAST:
                times[name].append(trainer.step(loss, number))
    return {name: described(own, times["biaffine"], len(order)) for name, own in times.items()}


def described(times: list[float], base: list[float], steps: int) -> dict[str, Any]:
    """An epoch from some of its steps: their ratio to biaffine's on the same batches, times biaffine's epoch.

    Args:
        times: seconds of the steps that were measured.
        base: those of biaffine, of as many steps or more.
        steps: of the epoch.
    """
    if len(times) == steps:
        total, error = sum(times), 0.0
    elif len(times) < len(base):
        epoch = statistics.mean(base) * steps
        total = epoch * sum(times) / sum(base[: len(times)])
        ratios = [mine / theirs for mine, theirs in zip(times, base, strict=False)]
        error = _standard_error(ratios) * epoch
    else:
        total, error = statistics.mean(times) * steps, _standard_error(times) * steps
    return {
        "steps_measured": len(times),
        "steps": steps,
        "step_ms": round(1000 * statistics.mean(times), 3),
        "epoch_seconds": round(total, 2),
        "standard_error": round(error, 2),
        "extrapolated": len(times) < steps,
    }


def _standard_error(values: list[float]) -> float:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def make_trainer(corpus: CorpusFiles, encoder: str, argument: str, device: str) -> Trainer:
    """The paper's setting; on the encoder, or on one of that shape with the tokenizer of the encoder."""
    torch.manual_seed(0)
    run = Run(corpus.name, encoder, "paper")
    config = run.config().updated({"encoder": argument})
    parts = [load_part(path, config.splitter) for path in (corpus.train, corpus.dev)]
    prepared = prepare(parts[0], parts[1], config)
    if encoder in SHAPES:
        from transformers import BertConfig, BertModel

        hidden, layers, heads = SHAPES[encoder]
        tokenizer = load(argument)[1]
        shape = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
        )
        model = NestedNER(config.model(prepared.labels), BertModel(shape, add_pooling_layer=False), tokenizer)
    else:
        model = NestedNER.create(config.model(prepared.labels))
    model.to(device)
    loader = Loader(model, prepared.sentences, config, for_gpu=device == "cuda")
    steps = [
        [Part(part.batch.to(device), part.observed.to(device)) for part in loader.parts(numbers, 1)]
        for numbers in loader.plan(1)
    ]
    return Trainer(model, steps, run)


def measure(request: Request) -> list[str]:
    """Every way to compute the loss, on every corpus, encoder and device."""
    known, said = losses.available()
    torch.distributions.Distribution.set_default_validate_args(False)  # torch-struct asks for it
    seconds = float(request.options.get("seconds", SECONDS))
    devices = ["cuda"] if torch.cuda.is_available() and request.device != "cpu" else ["cpu"]
    for device in devices:
        shapes = request.options.get("shapes", "bert-large" if device == "cuda" else "")
        encoders = [(one.name, one) for one in request.encoders]
        encoders += [(name, request.encoders[0]) for name in shapes.split(",") if name]
        for corpus in request.of(*CORPORA):
            for name, encoder in encoders:
                said.append(_measure_one(request, corpus, name, encoder, device, known, seconds))
    return said


def _measure_one(
    request: Request,
    corpus: CorpusFiles,
    name: str,
    encoder: Encoder,
    device: str,
    known: dict[str, losses.Loss],
    seconds: float,
) -> str:
    trainer = make_trainer(corpus, name, encoder.argument, device)
    rows = epochs(trainer, known, seconds)
    for method, row in rows.items():
        print(f"  {corpus.name}, {name}, {device}, {method}: {row['epoch_seconds']} s an epoch", flush=True)
    content = {
        "code": provenance.code(),
        "machine": provenance.machine(),
        "threads": torch.get_num_threads(),
        "corpus": corpus.name,
        "encoder": name,
        "device": device,
        "batch_size": 32,
        "epochs": rows,
    }
    path = request.store.other_path(f"speed/{device}-{corpus.name}-{name}")
    write_json(path, content)
    return f"written to {path}"


# --- The report ------------------------------------------------------------------------------------------------------


def section(results: Results, found: Section) -> None:
    """A table for each device, the paper's beside it."""
    contents = [content for _, content in results.store.others("speed/*")]
    steps = benchmarked.training_steps(results.store)
    if not contents and not steps:
        return
    found.add(
        "One training epoch, every step with encoder, scorer, loss, backward, clipping and AdamW; batches of 32 "
        "sentences of similar length, bfloat16 on the GPU; step by step, without recorded graphs. *Vanilla Inside*: "
        "span by span, all sentences of a batch at a time. *Vanilla partial marginalisation*: Algorithm 2, sentence by "
        "sentence (log Z from our kernels). *Masked Inside*: torch-struct, as the paper's authors use it. *nestree*: "
        "the same loss with our kernels. *Biaffine*: no trees. **~**: extrapolated from measured steps, with the "
        "standard error; all others are whole epochs. In brackets: how many times as long as biaffine. Encoders named "
        "after BERT have its shape and random weights.",
    )
    for device in ("cuda", "cpu"):
        here = [one for one in contents if one["device"] == device]
        if here:
            _one_device(found, device, here)
        if device == "cuda" and steps:
            _gpu_steps(found, steps)
    if grown := benchmarked.growth(results.store):
        _growth(found, grown)


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
    head = ["", *(f"{name} lengths, {encoder_title(encoder)}" for encoder, name in STEP_COLUMNS)]
    cells = []
    for method, loss in STEP_LOSSES.items():
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
        "Inside 8). *Vanilla partial marginalisation* was not measured there.",
        table([*head, "*ACE2004, bert-large, P100 (paper)*"], cells),
    )
    ratios_of = {
        method: [rows[encoder, name, loss]["ratio"] for encoder, name in STEP_COLUMNS if (encoder, name, loss) in rows]
        for method, loss in STEP_LOSSES.items()
    }
    told = [
        f"{method} {' to '.join(_exactly(one) for one in (min(ratios), max(ratios)))} times"
        for method, ratios in ratios_of.items()
        if ratios and not method.startswith("biaffine")
    ]
    found.sum_up(f"**A training step on a GPU**, beside one without trees: {', '.join(told)} as long.")
    for encoder, name in STEP_COLUMNS:
        known = {method: rows.get((encoder, name, loss)) for method, loss in STEP_LOSSES.items()}
        if all(known.values()):
            where = f"{name} lengths, {encoder_title(encoder)}, GPU"
            found.find(_step_sentence(known, where))
            ratios = {method: row["ratio"] for method, row in known.items() if row}
            _claims(found, where, "gpu", ratios)


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


def _claims(found: Section, where: str, kind: str, ratios: dict[str, float]) -> None:
    """The paper's: that Masked Inside is quicker than vanilla Inside, and than vanilla partial marginalisation."""
    for other in ("vanilla Inside", "vanilla partial marginalisation"):
        if other in ratios:
            theirs = paper.SPEED_SECONDS[other][kind] / paper.SPEED_SECONDS["Masked Inside"][kind]
            here = ratios[other] / ratios["Masked Inside"]
            found.judge(
                f"Masked Inside is quicker than {other}",
                f"{theirs:.1f} times (ACE2004, {kind.upper()})",
                f"{where}: {_times(here)} times",
                "yes" if here > 1.05 else "no",
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


def _about(ratios: Sequence[float]) -> str:
    """Which of ours and theirs takes at most half as long again."""
    ours, theirs = (one <= 1.5 for one in ratios)
    return "yes" if ours and theirs else "ours does" if ours else "theirs does" if theirs else "no"


def _one_device(found: Section, device: str, contents: list[dict[str, Any]]) -> None:
    machine = contents[0]["machine"]
    where = machine["gpu"] if device == "cuda" else f"{machine['cpu']}, {contents[0]['threads']} threads"
    kind = "gpu" if device == "cuda" else "cpu"
    head = ["", *(f"{title(one['corpus'])}, {encoder_title(one['encoder'])}" for one in contents)]
    head.append(f"*ACE2004, bert-large, {'P100' if kind == 'gpu' else 'i7'} (paper)*")
    rows = []
    for name in ORDER:
        cells = [_cell(one["epochs"], name) for one in contents]
        rows.append([name, *cells, _paper_cell(name, kind)])
    found.add(f"### {'GPU' if kind == 'gpu' else 'CPU'}: {where}", table(head, rows))
    for one in contents:
        found.find(_sentence(one, kind))
        if {"Masked Inside", "vanilla Inside"} <= one["epochs"].keys():
            ratios = {name: row["epoch_seconds"] for name, row in one["epochs"].items()}
            _claims(found, f"{title(one['corpus'])}, {encoder_title(one['encoder'])}, {kind.upper()}", kind, ratios)


def _paper_cell(method: str, kind: str) -> str:
    if method not in paper.SPEED_SECONDS:
        return ""
    seconds, biaffine = (paper.SPEED_SECONDS[one][kind] for one in (method, "biaffine"))
    return f"*{_time(seconds)} ({seconds / biaffine:.1f}×)*"


def _cell(epochs: dict[str, Any], name: str) -> str:
    if name not in epochs:
        return ""
    one = epochs[name]
    ratio = one["epoch_seconds"] / epochs["biaffine"]["epoch_seconds"]
    error = f" ± {_time(one['standard_error'])}" if one["extrapolated"] else ""
    return f"{'~' if one['extrapolated'] else ''}{_time(one['epoch_seconds'])}{error} ({ratio:.2g}×)"


def _times(ratio: float) -> str:
    """Two digits, as much as steps of a shared machine can tell."""
    return f"{float(f'{ratio:.2g}'):.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def _sentence(one: dict[str, Any], kind: str) -> str:
    times = {name: row["epoch_seconds"] for name, row in one["epochs"].items()}
    where = f"{title(one['corpus'])}, {encoder_title(one['encoder'])}, {kind.upper()}"
    theirs = paper.SPEED_SECONDS["Masked Inside"][kind] / paper.SPEED_SECONDS["biaffine"][kind]
    ours, error = times["nestree"] / times["biaffine"], one["epochs"]["nestree"]["standard_error"] / times["biaffine"]
    if abs(ours - 1) <= 2 * error:
        told = (
            f"{where}: an epoch with the TreeCRF takes as long as one without, as far as this can tell ({ours:.2f} ± "
            f"{error:.2f} times)"
        )
    else:
        told = f"{where}: an epoch with the TreeCRF takes {ours:.2f} ± {error:.2f} times as long as one without"
    told += f" (the paper's Masked Inside {theirs:.2f} times)"
    others = [name for name in ORDER if name in times and name not in ("nestree", "biaffine")]
    told += "; " + ", ".join(
        f"{name} takes {_times(times[name] / times['nestree'])} times as long as ours" for name in others
    )
    slow = "vanilla partial marginalisation", "vanilla Inside"
    if all(name in times for name in slow):
        here, there = (
            times[slow[0]] / times[slow[1]],
            paper.SPEED_SECONDS[slow[0]][kind] / paper.SPEED_SECONDS[slow[1]][kind],
        )
        told += f". Partial marginalisation takes {_times(here)} times as long as vanilla Inside"
        told += f", in the paper {there:.1f} times"
    return f"{told}."


STUDY = Study("speed", "Tables 4 and 9", "How long does a training epoch take?", section, measure=measure)
