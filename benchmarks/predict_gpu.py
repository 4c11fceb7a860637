"""Prediction on a GPU: what trees add to the encoder's time, and how busy the host keeps the GPU.

    python -m benchmarks.predict_gpu MODEL dev.data

Beside a trained model, encoders of the shape of BERT-base and BERT-large with random weights. Decoding is timed on
batches of 64 as the corpus has them, as the GPU's own time (CUDA events around many runs, Python left behind). `busy`
is the time in which some kernel runs (by the profiler, for the corpus once) over the time of the clock (without it, as
it slows the host down) for a stream of sentences, the corpus several times over, from words to entities.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import environment, graph_ms, table, write_json
from nestree.crf import TreeCRF, normalize_potentials
from nestree.data import Document, read
from nestree.model import NestedNER
from nestree.model.pieces import Batch
from nestree.prediction import annotate

SHAPES = {"BERT-base": (12, 768, 12), "BERT-large": (24, 1024, 16)}
COLUMNS = ["encoder", "precision", "encoder_ms", "trees_ms", "trees_share", "sentences_per_second", "busy"]


def models(folder: Path) -> Iterator[tuple[str, NestedNER]]:
    """A trained model, then larger shapes."""
    from transformers import BertConfig, BertModel

    real = NestedNER.from_pretrained(folder)
    yield "trained", real
    for name, (layers, width, heads) in SHAPES.items():
        settings = BertConfig(
            vocab_size=real.encoder.model.config.vocab_size,  # type: ignore[union-attr, arg-type]
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
        yield name, NestedNER(real.config, BertModel(settings, add_pooling_layer=False), real.tokenizer)


@torch.inference_mode()
def shares(model: NestedNER, batch: Batch) -> tuple[float, float]:
    """Milliseconds of the GPU for the encoder, and for the tree part of decoding."""
    batch = batch.to(model.device)
    scores = model.span_scores(batch).float()

    def trees() -> None:
        normal = normalize_potentials(scores, batch.lengths)
        marginals = TreeCRF(normal, batch.lengths).marginals
        assert marginals[..., :-1].gt(0.5).shape

    return tuple(graph_ms(run, replays=4, rounds=5) for run in (lambda: model.encoder(batch), trees))  # type: ignore[return-value]


def busy(run: Callable[[], object]) -> float:
    """Seconds in which some kernel ran."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    ranges = sorted((event.time_range.start, event.time_range.end) for event in found.events() if on_gpu(event))
    total = last = 0.0
    for start, end in ranges:
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total / 1e6


def on_gpu(event: Any) -> bool:
    """Whether it is a kernel or a copy, and no call of one."""
    return bool(event.device_type.name == "CUDA")


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Autocast, or not."""
    with torch.autocast("cuda", torch.bfloat16, enabled=name == "bf16"):
        yield


def measure(name: str, model: NestedNER, documents: list[Document], how: str, times_over: int) -> dict[str, Any]:
    """One row."""
    model = model.cuda().eval()
    words = sorted((list(one.words) for one in documents), key=len)
    cuts = model.pieces.cut(words)
    batches = [model.pieces.together(cuts[at : at + 64]) for at in range(0, len(cuts) - 63, len(cuts) // 5)]
    with precision(how):
        pairs = [shares(model, batch) for batch in batches]

        def everything(times_over: int) -> int:
            stream = chain.from_iterable(repeat(documents, times_over))
            return sum(len(document.entities) for document in annotate(model, stream))

        everything(1)
        times = []
        for _ in range(3):
            began = time.perf_counter()
            everything(times_over)
            times.append(time.perf_counter() - began)
        kernels = times_over * busy(lambda: everything(1))  # to read its record takes long
    encoder, trees = (sum(one[at] for one in pairs) for at in (0, 1))
    return {
        "encoder": name,
        "precision": how,
        "encoder_ms": round(encoder / len(pairs), 3),
        "trees_ms": round(trees / len(pairs), 4),
        "trees_share": round(trees / encoder, 4),
        "sentences_per_second": round(times_over * len(documents) / statistics.median(times)),
        "busy": round(kernels / statistics.median(times), 3),
    }


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--times", type=int, default=8, help="how often the corpus goes through (8)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU here, or this build of torch cannot use it")
    documents = [one for one in read(options.data) if one.words]
    content = {"environment": environment(), "sentences": len(documents), "times": options.times, "batch": 64}
    rows: list[dict[str, Any]] = []
    for name, model in models(options.model):
        for how in ("fp32", "bf16"):
            rows.append(measure(name, model, documents, how, options.times))
            print(rows[-1], file=sys.stderr)
            where = write_json("predict-cuda", {**content, "rows": rows})
        model.cpu()
    print(table(rows, COLUMNS))
    print(f"written to {where}")


if __name__ == "__main__":
    main()
