"""Measures training epochs, for ``speed``: whole ones, or from as many steps as there is time for."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from experiments import losses, provenance
from experiments.corpora import CorpusFiles
from experiments.planning import Request
from experiments.provenance import Encoder
from experiments.runs import Run
from experiments.store import write_json
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
    disturbs all of them. On a GPU the quick ones see each batch once before, since its lengths may be new to them.
    """
    order = list(range(len(trainer.parts)))
    random.Random(0).shuffle(order)
    seen_before = QUICK if trainer.model.device.type == "cuda" else ()
    for loss in known.values():
        trainer.step(loss, order[0])
    times: dict[str, list[float]] = {name: [] for name in known}
    for number in order:
        due = {name for name, own in times.items() if sum(own) <= seconds or len(own) < LEAST}
        for name, loss in known.items():
            if name in due or (due and name == "biaffine"):  # whose steps the others' are compared with
                if name in seen_before:
                    trainer.step(loss, number)
                times[name].append(trainer.step(loss, number))
    return {name: described(own, times["biaffine"], len(order)) for name, own in times.items()}


def described(times: list[float], base: list[float], steps: int) -> dict[str, Any]:
    """An epoch from some of its steps: their ratio to biaffine's on the same batches, times biaffine's epoch.

    Args:
        times: seconds of the steps that were measured.
        base: those of biaffine, of as many steps or more.
        steps: of the epoch.
    """
    same = base[: len(times)]
    ratio = sum(times) / sum(same)
    ratio_error = _standard_error([one - ratio * other for one, other in zip(times, same, strict=True)])
    ratio_error /= statistics.mean(same)
    epoch = statistics.mean(base) * steps
    extrapolated = len(times) < steps
    own_error = _standard_error(times) * steps if extrapolated else 0.0
    return {
        "ratio": round(ratio, 4),
        "ratio_error": round(ratio_error, 4),
        "steps_measured": len(times),
        "steps": steps,
        "step_ms": round(1000 * statistics.mean(times), 3),
        "epoch_seconds": round(epoch * ratio if extrapolated else sum(times), 2),
        "extrapolated": extrapolated,
        **({"standard_error": round(own_error, 2)} if times is base else {}),
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
    """Every way to compute the loss, on every corpus, encoder and device.

    Options: ``seconds`` for each way, ``shapes`` of encoders with random weights; ``encoders=none``: these alone.
    """
    known, said = losses.available()
    torch.distributions.Distribution.set_default_validate_args(False)  # torch-struct asks for it
    seconds = float(request.options.get("seconds", SECONDS))
    devices = ["cuda"] if torch.cuda.is_available() and request.device != "cpu" else ["cpu"]
    for device in devices:
        shapes = request.options.get("shapes", "bert-large" if device == "cuda" else "")
        alone = request.options.get("encoders") == "none"
        encoders = [] if alone else [(one.name, one) for one in request.encoders]
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
        "seconds": seconds,
        "corpus": corpus.name,
        "encoder": name,
        "device": device,
        "batch_size": 32,
        "epochs": rows,
    }
    path = request.store.other_path(f"speed/{device}-{corpus.name}-{name}")
    write_json(path, content)
    return f"written to {path}"
