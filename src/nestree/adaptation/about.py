"""What an adaptation says of itself: to people when it begins, and in files for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nestree.adaptation.head import MaskedEncoder
from nestree.adaptation.prepared import Prepared
from nestree.adaptation.text import Text
from nestree.model.card import base_model
from nestree.model.encoder import folder_of
from nestree.training import machine
from nestree.training.folder import encoder_fingerprint


def text_about(text: Text) -> dict[str, Any]:
    """Names of files, counts and a fingerprint; nothing of the text itself."""
    return {"files": [dict(one) for one in text.files], "fingerprint": text.fingerprint}


def about(encoder: str, model: MaskedEncoder, text: Text, prepared: Prepared, accelerator: Any) -> dict[str, Any]:
    """What there is to know of encoder, text and machine."""
    return {
        "encoder": base_model(encoder) or Path(encoder).resolve().name,
        "base_model": base_model(encoder),
        "encoder_fingerprint": encoder_fingerprint(folder_of(encoder)),
        "head": "pretrained" if model.pretrained else "new",
        "text": text_about(text),
        "sentences": len(text.sentences),
        "words": text.words,
        "pieces": prepared.pieces,
        "held_out": prepared.held_sentences,
        "machine": machine.described(accelerator),
    }


def announced(encoder: str, model: MaskedEncoder, text: Text, prepared: Prepared, accelerator: Any) -> str:
    """The same in a line, for people."""
    found = machine.described(accelerator)
    count = sum(one.numel() for one in model.parameters() if one.requires_grad)
    head = "the head it was pretrained with" if model.pretrained else "a new head"
    return (
        f"adapting {encoder} ({count / 1e6:.1f} million weights, {head}) on {found['device']}, {found['precision']}, "
        f"{found['threads']} threads: {len(text.sentences):,} sentences, {text.words:,} words, {prepared.pieces:,} "
        f"pieces in {len(prepared.learned):,} windows, {prepared.held_sentences:,} sentences held out"
    )
