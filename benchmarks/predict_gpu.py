"""Prediction on a GPU: what trees add to the encoder's time, and how busy the host keeps the GPU.

    python -m benchmarks.predict_gpu dev.data --encoder FOLDER     # the embedded MiniLM if left out

Beside the encoder with its weights, ones of the shape of BERT-base and BERT-large with random weights. Decoding is
timed on batches of 64 as the corpus has them, as the GPU's own time (CUDA events around many runs, Python left
behind); `busy` is the time of all kernels over the wall-clock time of predicting every sentence, words to entities.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import environment, graph_ms, table, write_json
from nestree.crf import TreeCRF, normalize_potentials
from nestree.data import Document, read
from nestree.model import ModelConfig, NestedNER
from nestree.model.pieces import Batch
from nestree.prediction import annotate

SHAPES = {"BERT-base": (12, 768, 12), "BERT-large": (24, 1024, 16)}
COLUMNS = ["encoder", "precision", "encoder_ms", "trees_ms", "trees_share", "sentences_per_second", "busy"]


def models(config: ModelConfig) -> Iterator[tuple[str, NestedNER]]:
    """The encoder with its weights, then larger shapes."""
    from transformers import BertConfig, BertModel

    real = NestedNER.create(config)
    yield Path(config.encoder).name, real
    for name, (layers, width, heads) in SHAPES.items():
        settings = BertConfig(
            vocab_size=real.encoder.model.config.vocab_size,  # type: ignore[union-attr, arg-type]
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
        yield name, NestedNER(config, BertModel(settings, add_pooling_layer=False), real.tokenizer)


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
    """The time of all kernels over that of the clock."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        began = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return sum(event.self_device_time_total for event in found.key_averages()) / 1e6 / seconds


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Autocast, or not."""
    with torch.autocast("cuda", torch.bfloat16, enabled=name == "bf16"):
        yield


def measure(name: str, model: NestedNER, documents: list[Document], how: str) -> dict[str, Any]:
    """One row."""
    model = model.cuda().eval()
    words = sorted((list(one.words) for one in documents), key=len)
    cuts = model.pieces.cut(words)
    batches = [model.pieces.together(cuts[at : at + 64]) for at in range(0, len(cuts) - 63, len(cuts) // 5)]
    with precision(how):
        pairs = [shares(model, batch) for batch in batches]

        def everything() -> int:
            return sum(len(document.entities) for document in annotate(model, documents))

        everything()
        times = []
        for _ in range(3):
            began = time.perf_counter()
            everything()
            times.append(time.perf_counter() - began)
        share_busy = busy(everything)
    encoder, trees = (sum(one[at] for one in pairs) for at in (0, 1))
    return {
        "encoder": name,
        "precision": how,
        "encoder_ms": round(encoder / len(pairs), 3),
        "trees_ms": round(trees / len(pairs), 4),
        "trees_share": round(trees / encoder, 4),
        "sentences_per_second": round(len(documents) / statistics.median(times)),
        "busy": round(share_busy, 3),
    }


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="minilm")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU here, or this build of torch cannot use it")
    documents = [one for one in read(options.data) if one.words]
    labels = tuple(sorted({entity.label for one in documents for entity in one.entities}))
    config = ModelConfig(labels, encoder=options.encoder, decoding="mbr")
    rows = []
    for name, model in models(config):
        for how in ("bf16",) if name in SHAPES else ("fp32", "bf16"):
            print(f"{name}, {how}", file=sys.stderr)
            rows.append(measure(name, model, documents, how))
        model.cpu()
    print(table(rows, COLUMNS))
    content = {"environment": environment(), "sentences": len(documents), "batch": 64, "rows": rows}
    print(f"written to {write_json('predict-cuda', content)}")


if __name__ == "__main__":
    main()
