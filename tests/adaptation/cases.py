"""A little text, a small encoder, and adaptations with them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from transformers import BertForMaskedLM

from nestree.adaptation import AdaptConfig, AdaptProgress, AdaptResult, Text, adapt, read_text
from nestree.model.pieces import Pieces
from tests.model import tiny
from tests.training import cases

SETTINGS: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 4,
    "length": 32,
    "rounds": 4,
    "lr": 3e-3,
    "device": "cpu",
    "checkpoint_seconds": 0.0,
}


def text_file(path: Path, sentences: int = 60, seed: int = 0) -> Path:
    """Sentences in which "u" is always before "x"."""
    chance = random.Random(seed)
    lines = []
    for _ in range(sentences):
        words = chance.choices(["a", "bc", "d", "efg", "hi"], k=chance.randint(2, 7))
        lines.append(" ".join(["u", "x", *words]) + " .")
    path.write_text("\n".join(lines) + "\n")
    return path


def encoder(folder: Path, *, head: bool = False) -> Path:
    """A folder with the small encoder; with a head, as if it was pretrained."""
    if not head:
        return folder if (folder / "config.json").is_file() else cases.encoder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, tokenizer = tiny.encoder(folder)
    BertForMaskedLM(model.config).save_pretrained(folder)  # type: ignore[arg-type]
    tokenizer.save_pretrained(folder)
    return folder


def pieces(folder: Path, limit: int = 64) -> Pieces:
    """Of the small encoder."""
    return Pieces(tiny.encoder(folder)[1], limit)


def settings(**others: Any) -> AdaptConfig:
    """For an adaptation of a second."""
    return AdaptConfig().updated({**SETTINGS, "sentences": "lines", **others})


def text(folder: Path, config: AdaptConfig | None = None) -> Text:
    """The little text, read."""
    return read_text([text_file(folder / "text.txt")], (config or settings()).splitter)


def run(folder: Path, name: str = "adapted", progress: AdaptProgress | None = None, **others: Any) -> AdaptResult:
    """Adapts in this process."""
    flags = {key: others.pop(key) for key in ("resume", "force") if key in others}
    head = others.pop("head", False)
    config = settings(**others)
    start = encoder(folder / ("with-head" if head else "encoder"), head=head)
    return adapt(str(start), text(folder, config), folder / name, config, progress=progress, **flags)
