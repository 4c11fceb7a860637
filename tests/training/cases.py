"""A small corpus, a small encoder, and runs with them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from nestree.training import Corpus, Progress, Result, TrainConfig, load_part, prepare, train
from tests.model import tiny

SETTINGS: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 4,
    "encoder_lr": 1e-3,
    "head_lr": 3e-3,
    "device": "cpu",
    "log_every": 1,
    "checkpoint_every": 2,
    "tensorboard": False,
    "mask": 0.1,
    "ema": 0.9,
}


def encoder(folder: Path, **settings: Any) -> Path:
    """A folder with the small encoder."""
    folder.mkdir(parents=True, exist_ok=True)
    model, tokenizer = tiny.encoder(folder)
    for name, value in settings.items():
        setattr(model.config, name, value)
    model.save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)
    return folder


def corpus_file(path: Path, sentences: int = 22, seed: int = 0) -> Path:
    """Sentences with nested entities: "u x y" is an ORG that holds a PER, "y"."""
    random_ = random.Random(seed)
    lines = []
    for _ in range(sentences):
        words = random_.choices(["a", "bc", "d", "ef"], k=random_.randint(2, 6))
        at = random_.randint(0, len(words))
        words[at:at] = ["u", random_.choice(["x", "xx"]), "y"]
        entities = [{"start": at, "end": at + 3, "label": "ORG"}, {"start": at + 2, "end": at + 3, "label": "PER"}]
        lines.append(json.dumps({"tokens": words, "entities": entities}))
    path.write_text("\n".join(lines) + "\n")
    return path


def corpus(folder: Path, config: TrainConfig) -> Corpus:
    """The small corpus, read."""
    train_part = load_part(corpus_file(folder / "train.jsonl"), config.splitter)
    return prepare(train_part, load_part(corpus_file(folder / "dev.jsonl", 8, 1), config.splitter), config)


def settings(folder: Path, **others: Any) -> TrainConfig:
    """Settings for a run of a second."""
    path = folder / "encoder"
    return TrainConfig().updated({"encoder": str(path if path.is_dir() else encoder(path)), **SETTINGS, **others})


def run(folder: Path, name: str = "run", progress: Progress | None = None, **others: Any) -> Result:
    """Trains in this process."""
    flags = {key: others.pop(key) for key in ("resume", "force") if key in others}
    config = settings(folder, **others)
    return train(corpus(folder, config), folder / name, config, progress=progress, **flags)


def command(folder: Path, name: str, *flags: str, launcher: tuple[str, ...] = (), **others: Any) -> list[str]:
    """The same as a command."""
    config = settings(folder, **others)
    corpus_file(folder / "train.jsonl")
    corpus_file(folder / "dev.jsonl", 8, 1)
    (folder / "config.toml").write_text(config.as_toml())
    files = [str(folder / "train.jsonl"), "--dev", str(folder / "dev.jsonl"), "--output", str(folder / name)]
    launched = [sys.executable, *launcher, "-m", "nestree", "train", *files]
    return [*launched, "--config", str(folder / "config.toml"), *flags]


def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """Starts a command with one thread, as all runs that are compared must have the same number."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and all it said."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out + err


def steps(folder: Path) -> list[dict[str, Any]]:
    """The lines about steps of a run's metrics.jsonl."""
    path = folder / "training" / "metrics.jsonl"
    if not path.is_file():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [one for one in found if one["event"] == "step"]
