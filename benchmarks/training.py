"""How much of a training step is not the model: reading batches, sending them, seeds, rates, logging.

(a) bare: forward, loss, backward, clipping, AdamW and the average of weights, on batches that are on the device;
(b) the loop of `nestree train`, from the loader on. Both take turns in one process, on the same sentences. The profile
says where the main thread's time goes in (b).

    python -m benchmarks.training --train train.data --dev dev.data --device cuda
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import RESULTS
from nestree.demo import CORPUS
from nestree.training import TrainConfig, load_part, prepare
from nestree.training.batching import Step
from nestree.training.folder import RunFolder
from nestree.training.loop import Trainer
from nestree.training.machine import described
from nestree.training.progress import Silent


def bare(trainer: Trainer, steps: list[Step]) -> float:
    """Seconds of so many steps without anything around them."""
    device = trainer.accelerator.device
    ready = [
        replace(
            step,
            parts=tuple(
                replace(part, batch=part.batch.to(device), observed=part.observed.to(device)) for part in step.parts
            ),
        )
        for step in steps
    ]
    _wait(device)
    began = time.perf_counter()
    for step in ready:
        trainer.gradients.of_parts(step.parts, step.sentences)
        trainer.update()
        if trainer.average:
            trainer.average.update(1000)
    _wait(device)
    return time.perf_counter() - began


def loop(trainer: Trainer, steps: Iterator[Step], number: int) -> float:
    """Seconds of so many steps of the real loop."""
    _wait(trainer.accelerator.device)
    began = time.perf_counter()
    for _ in range(number):
        trainer.learn(next(steps))
        trainer.after_step()
    _wait(trainer.accelerator.device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, default=CORPUS / "train.jsonl")
    parser.add_argument("--dev", type=Path, default=CORPUS / "dev.conll")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--steps", type=int, default=100, help="steps in each turn")
    options = parser.parse_args()
    config = TrainConfig().updated(
        {"device": options.device, "encoder": options.encoder, "epochs": 1000, "tensorboard": False}
    )
    parts = [load_part(path, config.splitter) for path in (options.train, options.dev)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(prepare(parts[0], parts[1], config), RunFolder(Path(folder, "run")), config, Silent())
        trainer.open(resume=False, force=False)
        trainer.build()
        result = _measure(trainer, options.turns, options.steps)
        trainer.close()
    print(json.dumps({key: value for key, value in result.items() if key != "profile"}, indent=2))
    print(result["profile"])
    target = RESULTS / f"training-{trainer.accelerator.device.type}.json"
    target.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {target}")


def _measure(trainer: Trainer, turns: int, steps: int) -> dict[str, Any]:
    def endless() -> Generator[Step, None, None]:
        for epoch in range(1, 1_000_000):
            yield from trainer.loader.epoch(epoch)

    stream, kept = endless(), endless()
    before = 3 * trainer.loader.steps if trainer.accelerator.device.type == "cuda" else steps
    for _ in range(before):
        next(kept)
    loop(trainer, stream, before)  # shapes are recorded when they are met again
    ratios, bares, loops = [], [], []
    for turn in range(turns):
        some = [next(kept) for _ in range(steps)]
        pair = [lambda some=some: bare(trainer, some), lambda: loop(trainer, stream, steps)]  # type: ignore[misc]
        times = [pair[0](), pair[1]()] if turn % 2 else [pair[1](), pair[0]()][::-1]
        bares.append(times[0] / steps)
        loops.append(times[1] / steps)
        ratios.append(times[1] / times[0])
    with torch.profiler.profile() as profile:
        seconds = loop(trainer, stream, 40)
    events = profile.key_averages()
    busy = sum(event.self_device_time_total for event in events) / 1e6
    stream.close()
    kept.close()
    return {
        "machine": described(trainer.accelerator),
        "turns": turns,
        "steps": steps,
        "bare_ms": round(1000 * statistics.median(bares), 3),
        "loop_ms": round(1000 * statistics.median(loops), 3),
        "ratio": round(statistics.median(ratios), 4),
        "quartiles": [round(one, 4) for one in statistics.quantiles(ratios, n=4)],
        "gpu_busy_under_the_profiler": round(busy / seconds, 3),
        "profile": events.table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=50),
    }


if __name__ == "__main__":
    main()
