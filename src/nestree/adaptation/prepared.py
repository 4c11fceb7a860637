"""A text made ready for an encoder: what is learned from, what is held out, and whether it is enough."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nestree.adaptation.config import AdaptConfig
from nestree.adaptation.text import Text
from nestree.adaptation.windows import MEASURING, Windows, ordinary_pieces, windows_of
from nestree.data.errors import DataError
from nestree.model.pieces import Pieces

GUESSES = 1000
"""Hidden words of held-out text from which on a perplexity can be told: a guess costs some 2.5 nats, give or take as
much, so that the mean of a thousand is known to 0.08, and perplexities that differ by less than 8% are the same."""
MOST_HELD_OUT = 0.1
"""No more is taken away from what there is to learn from, unless it is asked for."""

ROOM = 1 << 16
"""Pieces that are looked at together."""


@dataclass(frozen=True)
class Prepared:
    """Windows of a text.

    Attributes:
        learned: what is learned from.
        held: what is held out.
        held_sentences: how many sentences that is.
        pieces: in all windows.
        notes: what people should know before it begins.
    """

    learned: Windows
    held: Windows
    held_sentences: int
    pieces: int
    notes: tuple[str, ...]


def prepare(text: Text, pieces: Pieces, config: AdaptConfig) -> Prepared:
    """Cuts a text into windows.

    Raises:
        DataError: there are not two different sentences, or of those that are held out nothing would be guessed.
    """
    held_out = held_out_sentences(text.sentences, held_out_share(text.words, config), config.seed)
    ordinary = ordinary_pieces(pieces.tokenizer)
    parts = []
    for wanted in (False, True):
        chosen = [words for words, held in zip(text.sentences, held_out, strict=True) if held is wanted]
        windows = windows_of(chosen, pieces, config.length, pack=config.pack)
        parts.append(Windows(windows, pieces, ordinary, config.mask, config.seed))
    learned, held = parts
    if not any(held.hidden(some, MEASURING)[2].any() for some in held.parts(np.arange(len(held)), ROOM)):
        raise DataError(
            f"there is so little text that no word is hidden of what is held out ({sum(held_out):,} of "
            f"{len(text.sentences):,} sentences): nothing could tell whether adaptation helps",
            advice="Name more text, or hold out and hide more (held_out, mask).",
        )
    notes = [*_notes(text.words, config)]
    if config.length > pieces.limit:
        notes.append(
            f"windows have {pieces.limit} pieces, the most that this encoder reads, instead of {config.length}"
        )
    return Prepared(learned, held, sum(held_out), learned.total + held.total, tuple(notes))


def held_out_share(words: int, config: AdaptConfig) -> float:
    """The share of sentences that is held out: more than was asked for where that is too little to tell anything."""
    needed = GUESSES / (config.mask * max(1, words))
    return max(config.held_out, min(needed, MOST_HELD_OUT))


def enough_words(config: AdaptConfig) -> int:
    """Words from which on held-out text can tell whether adaptation helps."""
    return round(GUESSES / (config.mask * max(config.held_out, MOST_HELD_OUT)))


def held_out_sentences(sentences: Sequence[Sequence[str]], share: float, seed: int) -> list[bool]:
    """Which sentences are held out: by what they say, so that the same one never is on both sides."""
    values = [_value(words, seed) for words in sentences]
    known = sorted(set(values))
    if len(known) < 2:
        raise DataError(
            "adaptation needs two different sentences at least, one to learn from and one to hold out",
            advice="Name more text; or, if this is more than one sentence, split it otherwise (--sentences lines).",
        )
    limit = min(share if share > known[0] else known[1], known[-1])  # one of each side at least
    return [value < limit for value in values]


def _value(words: Sequence[str], seed: int) -> float:
    """A number in [0, 1) that stands for a sentence."""
    found = hashlib.blake2b("\x1f".join(words).encode("utf-8", "surrogatepass"), digest_size=8, key=b"%d" % seed)
    return (int.from_bytes(found.digest(), "big") >> 11) * 2.0**-53


def _notes(words: int, config: AdaptConfig) -> list[str]:
    enough = enough_words(config)
    if words >= enough:
        return []
    return [
        f"{words:,} words are little text: what adaptation gains with it may be nothing, and cannot be measured on "
        f"what is held out; from about {enough:,} words on it can. Name more text of the kind that the tagger will "
        "read, if there is any"
    ]
