"""The folder of an adapted encoder: an ordinary encoder, a card, and under ``adaptation/`` how it came to be.

No torch here, and nothing of the text: counts, names of files and fingerprints.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nestree.adaptation.config import MAY_CHANGE, AdaptConfig
from nestree.encoders import ADAPTATION
from nestree.model.card import MARKER, table
from nestree.modes import as_usual
from nestree.settings import read_settings
from nestree.training.errors import TrainingError
from nestree.training.folder import RunFiles, resolved

CARD = "README.md"


class AdaptFolder(RunFiles):
    """The folder of an adaptation.

    Args:
        path: of the encoder that is to be.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, ADAPTATION)

    def check_place(self, encoder: str, *, force: bool) -> None:
        """Refuses a place in which something would be lost."""
        if self.path.is_file():
            raise TrainingError(f"{self.path} is a file; --output names a folder.")
        if Path(encoder).is_dir() and self.path.exists() and self.path.samefile(encoder):
            raise TrainingError(f"{self.path} is the encoder itself; name another --output.")
        if not self.path.is_dir() or (force and self.begun):
            return
        if self.begun:
            raise TrainingError(
                f"{self.path} holds an adaptation already. --resume goes on with it, --force replaces it; "
                "or name another."
            )
        if any(one != self.work for one in self.path.iterdir()) or not self.is_free():
            raise TrainingError(f"{self.path} holds something that is no adaptation; name another --output.")

    def begin(self, encoder: str, config: AdaptConfig, about: Mapping[str, Any]) -> None:
        """Writes down settings, text and machine before the first step."""
        self.write_down(config.as_toml(), {"encoder": resolved(encoder), **about})

    def remember(self, encoder: str) -> None:
        """Where the encoder is, as an adaptation that goes on was told: it may be elsewhere by now."""
        run = self.run
        if run["encoder"] != resolved(encoder):
            self.write_down(self.config().as_toml(), run | {"encoder": resolved(encoder)})

    def config(self) -> AdaptConfig:
        """The settings of what was begun here."""
        return AdaptConfig().updated(read_settings(self._config), str(self._config))

    def check_same(self, encoder: str, config: AdaptConfig, fingerprint: str, of_encoder: str | None = None) -> None:
        """Refuses to go on with another encoder, other settings or other text.

        Args:
            encoder: its name or folder.
            config: all settings.
            fingerprint: of the text.
            of_encoder: the fingerprint of the encoder; left out where nothing is done with it any more.
        """
        self.check_settings(self.config().as_dict(), config.as_dict(), MAY_CHANGE)
        run = self.run
        moved = of_encoder is not None and run.get("encoder_fingerprint") == of_encoder and Path(encoder).is_dir()
        if run["encoder"] != resolved(encoder) and not moved:
            raise TrainingError(
                f"{self.path}: what was begun here adapts {run['encoder']}, not {encoder}; --force begins anew."
            )
        if of_encoder and run.get("encoder_fingerprint", of_encoder) != of_encoder:
            raise TrainingError(
                f"{self.path}: {encoder} is not what it was when the adaptation here began; its files have changed. "
                "Put them back, or begin anew with --force."
            )
        if run["text"]["fingerprint"] != fingerprint:
            raise TrainingError(
                f"{self.path}: this is not the text that the adaptation here began with; --force begins anew with it."
            )

    def publish(self, write: Callable[[Path], None], card: str) -> None:
        """Puts an encoder into the folder, when all of it is written: it replaces one that is there file by file.

        Args:
            write: writes an encoder into an empty folder.
            card: the README.md.
        """
        new = Path(tempfile.mkdtemp(prefix=".saving-", dir=self.path))
        try:
            write(new)
            kept = self.path / CARD
            if not kept.exists() or MARKER in kept.read_text(encoding="utf-8", errors="replace"):
                (new / CARD).write_text(card, encoding="utf-8")
            as_usual(new)
            files = sorted(
                filter(Path.is_file, new.iterdir()), key=lambda file: (file.name == "config.json", file.name)
            )
            for file in files:
                with file.open("rb+") as opened:
                    os.fsync(opened.fileno())
            for file in files:  # the configuration last: without it, a folder holds no encoder
                file.replace(self.path / file.name)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def card(name: str, result: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The text of a README.md."""
    known = result.get("base_model")
    front = ["library_name: transformers", "tags: [nestree, domain-adaptation, fill-mask]"]
    front += [f"base_model: {known}"] if known else []
    encoder = f"[{known}](https://huggingface.co/{known})" if known else f"`{Path(result['encoder']).name}`"
    before = (
        f"{result['perplexity_before']:.2f}"
        if result["head"] == "pretrained"
        else f"{result['perplexity_before']:,.0f} (its head was new, and had learned nothing)"
    )
    rows = [
        ("sentences", f"{result['sentences']:,}"),
        ("words", f"{result['words']:,}"),
        ("pieces", f"{result['pieces']:,}"),
        ("held out, sentences", f"{result['held_out']:,}"),
        ("passes over the text", f"{result['epochs']:.3g}"),
        ("steps of the optimizer", f"{result['steps']:,}"),
        ("perplexity of held-out text before", before),
        ("perplexity of held-out text after", f"{result['perplexity_after']:.2f}"),
        ("seconds", f"{result['seconds']:,.0f}"),
        ("fingerprint of the text", result["text"]["fingerprint"][:16]),
        ("fingerprint of the encoder before", result["encoder_fingerprint"][:16]),
    ]
    machine = [(key, str(value)) for key, value in result["machine"].items()]
    chosen = [(key, json.dumps(value)) for key, value in settings.items()]
    effect = "so that a tagger on it knows that kind of text better"
    if not result["round"]:
        effect = "which did not help: held-out text was guessed no better, and its weights are as they were"
    parts = [
        "---\n" + "\n".join(front) + f"\n---\n\n{MARKER}",
        f"# {name}\n\n{encoder}, trained further on text by guessing hidden words (`nestree adapt`), {effect}. It is "
        "an encoder as any other, and holds nothing of the text but what it learned.",
        f"## Use\n\n```\nnestree train train.jsonl --dev dev.jsonl --encoder {name} --output runs/mine\n```",
        "## Text\n\n" + table(("what", "how much"), rows),
        "## Versions and machine\n\n" + table(("what", "which"), machine),
        "## Settings\n\n" + table(("setting", "value"), chosen),
    ]
    return "\n\n".join(parts) + "\n"
