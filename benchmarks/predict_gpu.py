"""Prediction on a GPU: what trees add to the encoder's time, and how busy the host keeps the GPU.

    python -m benchmarks.predict_gpu MODEL dev.data
    python -m benchmarks.predict_gpu MODEL dev.data --only trained --precisions fp32 --shared 2,4

Beside a trained model, encoders of the shape of BERT-base and BERT-large with random weights. Decoding is timed on
batches of 64 as the corpus has them, as the GPU's own time (CUDA events around many runs, Python left behind). `busy`
is the time in which some kernel runs (by the profiler, for the corpus once) over the time of the clock (without it, as
it slows the host down) for a stream of sentences, the corpus several times over, from words to entities.

`--shared` has several processes predict at once on one GPU, each as many sentences; how busy that keeps the GPU is then
what `nvidia-smi` says, the median of samples from the time when all of them were at work.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
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


def shared(folder: Path, data: Path, processes: int, seconds: float = 8.0) -> dict[str, Any]:
    """Sentences per second of several processes at once, and how busy they keep the GPU."""
    ask = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    with tempfile.TemporaryDirectory() as place:
        gate = Path(place, "go")
        command = [sys.executable, "-m", "benchmarks.predict_gpu", str(folder), str(data), "--part", str(gate)]
        parts = [
            subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)
            for _ in range(processes)
        ]
        try:
            while len(list(gate.parent.glob("ready-*"))) < processes:
                if any(one.poll() is not None for one in parts):
                    raise SystemExit("one of the processes ended early")
                time.sleep(0.1)
            gate.touch()
            began = time.perf_counter()
            samples: list[float] = []
            while not samples or time.perf_counter() - began < 0.9 * seconds:
                asked = subprocess.run(ask, capture_output=True, text=True, check=True)
                if time.perf_counter() - began > 0.25 * seconds:
                    samples.append(float(asked.stdout.split()[0]) / 100)
                time.sleep(0.3)
            rates = [float(one.communicate()[0].split()[-1]) for one in parts]
        finally:
            for one in parts:
                one.kill()
    return {"processes": processes, "sentences_per_second": round(sum(rates)), "busy": statistics.median(samples)}


def part(folder: Path, documents: list[Document], gate: Path, seconds: float) -> None:
    """One of several processes: waits until all are ready, predicts for some time, and prints sentences per second."""
    import os

    model = NestedNER.from_pretrained(folder).cuda().eval()
    for _ in range(3):
        sum(1 for _ in annotate(model, documents))
    Path(gate.parent, f"ready-{os.getpid()}").touch()
    while not gate.exists():
        time.sleep(0.01)
    began, done = time.perf_counter(), 0
    for _ in annotate(model, chain.from_iterable(repeat(documents))):
        done += 1
        if not done % 64 and time.perf_counter() - began > seconds:
            break
    print(done / (time.perf_counter() - began))


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--times", type=int, default=8, help="how often the corpus goes through (8)")
    parser.add_argument("--only", default="", choices=["", "trained", *SHAPES], help="one of the encoders")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--shared", default="", help="numbers of processes that share the GPU: 2,4")
    parser.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each such number (8)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU here, or this build of torch cannot use it")
    documents = [one for one in read(options.data) if one.words]
    if options.part:
        part(options.model, documents, options.part, options.seconds)
        return
    content: dict[str, Any] = {
        "environment": environment(),
        "sentences": len(documents),
        "times": options.times,
        "batch": 64,
    }
    rows: list[dict[str, Any]] = []
    for name, model in models(options.model):
        if options.only not in ("", name):
            continue
        for how in options.precisions.split(","):
            rows.append(measure(name, model, documents, how, options.times))
            print(rows[-1], file=sys.stderr)
            where = write_json(f"predict-cuda{'-' if options.only else ''}{options.only}", {**content, "rows": rows})
        model.cpu()
    print(table(rows, COLUMNS))
    if options.shared:
        together = [shared(options.model, options.data, int(one), options.seconds) for one in options.shared.split(",")]
        where = write_json("predict-cuda-shared", {**content, "rows": rows, "shared": together})
        print(table(together, ["processes", "sentences_per_second", "busy"]))
    print(f"written to {where}")


if __name__ == "__main__":
    main()
