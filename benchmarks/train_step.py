"""What does the TreeCRF add to a whole training step?

    python -m benchmarks.train_step --device cuda
    python -m benchmarks.train_step --device cpu --encoders minilm --sets ACE GENIA

An encoder of BERT's shape with random weights, the paper's span scorer, one of four losses, backward, clipping, AdamW;
32 sentences, bfloat16 autocast on a GPU. (a) locally normalised: one cross entropy per span; (b) ours: potential
normalisation, log-probability of the partial trees with smoothing; (c) the same with torch-struct; (d) the same with
Inside written span by span ("vanilla"). All run in turns on the same batches; (a) runs twice in each turn, so that its
distance from itself stands beside its distance from the others.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import environment, table, write_json
from benchmarks.peers import nested_entities
from nestree.crf import PartialTrees, TreeCRF, normalize_potentials

BATCH, ENTITY_LABELS, LATENT_LABELS = 32, 7, 1
LABELS = ENTITY_LABELS + LATENT_LABELS
SMOOTHING = 0.02
PIECES_PER_WORD = 1.3
SHAPES = {  # hidden size, layers, heads
    "bert-large": (1024, 24, 16),
    "bert-base": (768, 12, 12),
    "minilm": (384, 6, 12),
}
SETS = {"ACE": 20.0, "GENIA": 30.0, "n = 64": None}  # mean words per sentence; None: 64 words each
BARS = {"bert-large": 1.03, "minilm": 1.10}
COLUMNS = ["encoder", "set", "longest", "loss", "step_ms", "ratio", "low", "high", "steps"]


@dataclass
class Batch:
    """What a data loader hands to a training step, on its device."""

    pieces: Tensor
    attention: Tensor
    first_pieces: Tensor
    lengths: Tensor
    partial: PartialTrees
    targets: Tensor  # for (a): a label for each span, -100 where there is none
    log_mask: Tensor  # for (c) and (d)

    @classmethod
    def draw(cls, rng: random.Random, mean: float | None, device: str) -> Batch:
        """Sentences with lengths spread as in newswire and abstracts: a gamma distribution."""
        lengths = [64 if mean is None else min(100, max(3, round(rng.gammavariate(4, mean / 4)))) for _ in range(BATCH)]
        n = max(lengths)
        spans = [nested_entities(rng, words, ENTITY_LABELS) for words in lengths]
        partial = PartialTrees.from_spans(spans, lengths, entity_labels=ENTITY_LABELS)
        size = 2 + math.ceil(n * PIECES_PER_WORD)
        pieces = torch.tensor([[rng.randrange(1000, 20000) for _ in range(size)] for _ in range(BATCH)])
        ends = torch.tensor([2 + math.ceil(words * PIECES_PER_WORD) for words in lengths])
        first = (1 + torch.arange(n) * PIECES_PER_WORD).long().expand(BATCH, n)
        codes = partial.codes.long()
        grid = torch.ones(n, n).triu().bool() & (torch.arange(n) < partial.lengths[:, None, None])
        targets = torch.where(grid, codes.where(codes >= 0, torch.tensor(ENTITY_LABELS)), -100)
        log_mask = partial.mask(SMOOTHING).log().clamp_min(-1e6)
        attention = (torch.arange(size) < ends[:, None]).long()
        return cls(
            pieces.to(device),
            attention.to(device),
            first.to(device),
            partial.lengths.to(device),
            partial.to(device),
            targets.to(device),
            log_mask.to(device),
        )


class Model(nn.Module):
    """The paper's model: encoder, first piece of each word, dropout, two layers, biaffine scorer."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        transformers = importlib.import_module("transformers")
        hidden, layers, heads = shape
        config = transformers.BertConfig(
            hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
        )
        self.encoder = transformers.BertModel(config, add_pooling_layer=False)
        self.layers = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden // 2), nn.ReLU()
        )
        size = hidden // 2
        self.bilinear = nn.Parameter(torch.randn(LABELS, size, size) / size)
        self.linear = nn.Linear(2 * size, LABELS)

    def forward(self, batch: Batch) -> Tensor:
        """Log potentials. Shape: ``[batch, n, n, label]``."""
        hidden = self.encoder(batch.pieces, attention_mask=batch.attention).last_hidden_state
        words = hidden.gather(1, batch.first_pieces[..., None].expand(-1, -1, hidden.shape[-1]))
        words = self.layers(words)
        pairs = torch.einsum("bid,kde,bje->bijk", words, self.bilinear, words)
        start, end = self.linear.weight.chunk(2, 1)
        return pairs + (words @ start.T)[:, :, None] + (words @ end.T)[:, None] + self.linear.bias


def local(scores: Tensor, batch: Batch) -> Tensor:
    """(a) One softmax per span."""
    return nn.functional.cross_entropy(scores.flatten(0, 2).float(), batch.targets.flatten(), ignore_index=-100)


def ours(scores: Tensor, batch: Batch) -> Tensor:
    """(b) As the guide writes it."""
    normal = normalize_potentials(scores, batch.lengths)
    return -TreeCRF(normal, batch.lengths).log_prob(batch.partial, smoothing=SMOOTHING).mean()


def plainly_normalized(scores: Tensor, batch: Batch) -> Tensor:
    """Potential normalisation as one writes it in torch."""
    scores, there = scores.float(), (batch.targets >= 0)[..., None]
    entries = there.sum((1, 2, 3), keepdim=True) * LABELS
    mean = (scores * there).sum((1, 2, 3), keepdim=True) / entries
    variance = ((scores - mean) * there).square().sum((1, 2, 3), keepdim=True) / entries
    return (scores - mean) * (variance + 1e-5).rsqrt()


def torch_struct(scores: Tensor, batch: Batch) -> Tensor:
    """(c) As the paper's authors use it: a second Inside on masked scores."""
    tree_crf = importlib.import_module("torch_struct").TreeCRF
    scores = plainly_normalized(scores, batch)
    masked = tree_crf(scores + batch.log_mask, lengths=batch.lengths).partition
    return (tree_crf(scores, lengths=batch.lengths).partition - masked).mean()


def vanilla(scores: Tensor, batch: Batch) -> Tensor:
    """(d) Inside span by span, over the whole batch at a time."""
    scores = plainly_normalized(scores, batch)
    return (span_by_span(scores, batch.lengths) - span_by_span(scores + batch.log_mask, batch.lengths)).mean()


def span_by_span(scores: Tensor, lengths: Tensor) -> Tensor:
    """Log partition. Shape: ``[batch]``."""
    n = scores.shape[1]
    weight = scores.logsumexp(-1)
    chart = {(i, i): weight[:, i, i] for i in range(n)}
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            left = torch.stack([chart[i, split] for split in range(i, j)], -1)
            right = torch.stack([chart[split + 1, j] for split in range(i, j)], -1)
            chart[i, j] = (left + right).logsumexp(-1) + weight[:, i, j]
    roots = torch.stack([chart[0, j] for j in range(n)], -1)
    return roots.gather(1, lengths[:, None] - 1)[:, 0]


LOSSES: dict[str, Callable[[Tensor, Batch], Tensor]] = {
    "(a) local": local,
    "(a) again": local,
    "(b) nestree": ours,
    "(c) torch-struct": torch_struct,
    "(d) vanilla": vanilla,
}


SLOW = {"(c) torch-struct": 8, "(d) vanilla": 3}
"""How many turns they get: they would be all that is measured."""


class Trainer:
    """One model and its optimizer; a step with any of the losses."""

    def __init__(self, encoder: str, device: str) -> None:
        torch.manual_seed(0)
        self.model = Model(SHAPES[encoder]).to(device).train()
        self.device = device
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-5, fused=device == "cuda" or None)

    def step(self, loss: Callable[[Tensor, Batch], Tensor], batch: Batch) -> float:
        """Seconds for one step, with everything in it."""
        self._wait()
        start = time.perf_counter()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            scores = self.model(batch)
            value = loss(scores, batch)
        value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    """Parses, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--encoders", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--losses", nargs="+", choices=list(LOSSES), default=list(LOSSES))
    parser.add_argument("--seconds", type=float, default=12.0, help="time for each encoder and set")
    parser.add_argument("--output", help="name of the file under benchmarks/results (default: train-step-DEVICE)")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU here, or this build of torch cannot use it")
    torch.distributions.Distribution.set_default_validate_args(False)
    rows = []
    for encoder in options.encoders:
        trainer = Trainer(encoder, options.device)
        for name in options.sets:
            print(f"{encoder}, {name}", file=sys.stderr)
            rows += measure(trainer, encoder, name, options.losses, options.seconds)
            output = options.output or f"train-step-{options.device}"
            path = write_json(output, {"environment": environment(), "rows": rows})  # nothing is lost if it is stopped
    print(table(rows, COLUMNS))
    print("\nBars: " + judge(rows))
    print(f"\nwritten to {path}")


def measure(trainer: Trainer, encoder: str, name: str, losses: list[str], seconds: float) -> list[dict[str, Any]]:
    """A row for each loss: medians of the step, and of its ratio to (a) within the same turn."""
    rng = random.Random(name)
    batches = [Batch.draw(rng, SETS[name], trainer.device) for _ in range(8)]
    runs = {loss: partial(trainer.step, LOSSES[loss]) for loss in losses}
    quick = [loss for loss in losses if loss not in SLOW]
    for batch in batches[: 8 if trainer.device == "cuda" else 1]:  # warm up: every shape once
        for loss in quick:
            runs[loss](batch)
    gc.collect()
    gc.freeze()  # what is there already need not be looked through before every turn
    found: dict[str, list[tuple[float, float]]] = {loss: [] for loss in losses}  # seconds, and (a)'s in the same turn
    began, turn = time.perf_counter(), 0
    while turn < 8 or time.perf_counter() - began < seconds:
        gc.collect()
        order = quick[turn % len(quick) :] + quick[: turn % len(quick)]  # nobody always comes first
        times = {loss: runs[loss](batches[turn % 8]) for loss in order}
        for loss in quick:
            found[loss].append((times[loss], times["(a) local"]))
        turn += 1
    # The slow ones run in a few turns of their own: they leave much for others to clear away.
    for loss in losses:
        for turn in range(SLOW.get(loss, 0)):
            gc.collect()
            beside = runs["(a) local"](batches[turn % 8])
            found[loss].append((runs[loss](batches[turn % 8]), beside))
    rows = []
    for loss, pairs in found.items():
        ratios = [mine / beside for mine, beside in pairs]
        quarters = statistics.quantiles(ratios, n=4)
        row = {"encoder": encoder, "set": name, "longest": max(int(b.lengths.max()) for b in batches), "loss": loss}
        row |= {"step_ms": round(statistics.median(mine for mine, _ in pairs) * 1000, 3)}
        row |= {"ratio": round(statistics.median(ratios), 4), "low": round(quarters[0], 4)}
        rows.append(row | {"high": round(quarters[2], 4), "steps": len(pairs)})
    return rows


def judge(rows: list[dict[str, Any]]) -> str:
    """Which of the project's bars hold in this run."""
    verdicts = []
    for encoder, bar in BARS.items():
        mine = [row for row in rows if row["encoder"] == encoder and row["loss"] == "(b) nestree"]
        if mine:
            worst = max(mine, key=lambda row: row["ratio"])
            held = "held" if worst["ratio"] <= bar else "MISSED"
            verdicts.append(f"\n  {encoder}: (b) at most {bar:g} x (a): {held}, {worst['ratio']:g} ({worst['set']})")
    return "".join(verdicts)


if __name__ == "__main__":
    main()
