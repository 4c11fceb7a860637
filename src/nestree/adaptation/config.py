"""Every setting of an adaptation: keys of a file, flags of the command, arguments in Python. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from nestree.data import Splitter
from nestree.data.splitting import SENTENCES, WORDS
from nestree.settings import Settings, key

RATES = ((512, 5e-4), (768, 1e-4), (1 << 30, 5e-5))
"""Learning rates of encoders that are at most so wide, for much text."""
MUCH, LEAST_SHARE = 500_000, 0.2
"""Pieces of text from which on the learning rate is the full one; for less text it is smaller, in proportion, but at
least this share. Large steps over the same few sentences, again and again, cost the encoder what it knew before."""

ALL_PIECES, FEWEST_PASSES, MOST_PASSES = 70_000_000, 3, 100
"""Pieces of all passes together, where their number is not chosen, and how few and many passes there can be."""


@dataclass(frozen=True)
class AdaptConfig(Settings):
    """The settings of an adaptation; ``nestree adapt --help`` says what each means."""

    words: str = key("punctuation", "text", "how text without words is split", tuple(WORDS))
    sentences: str = key("sentencex", "text", "how text without sentences is split", tuple(SENTENCES))
    language: str = key("en", "text", "language of the text, for splitting")
    length: int = key(128, "text", "pieces in a window, at most")
    pack: bool = key(True, "text", "several sentences in a window; without it each has its own, as the tagger reads it")
    held_out: float = key(0.03, "text", "share of the sentences that are not learned from, and decide when to stop")

    epochs: int = key(0, "training", "passes over the text, at most; 0: 100 over little text, 3 over much")
    batch_size: int = key(256, "training", "windows in a step, over all processes")
    budget: int = key(0, "training", "pieces in one forward pass; a larger batch goes in parts; 0: by the device")
    mask: float = key(0.15, "training", "share of the words that are hidden and have to be guessed")
    lr: float = key(
        0.0, "training", "learning rate of the encoder; 0: by its width, 5e-4, 1e-4 or 5e-5, and less for little text"
    )
    head_lr: float = key(1e-3, "training", "learning rate of a new head; one that was pretrained has the encoder's")
    weight_decay: float = key(0.01, "training", "of weight matrices; biases and norms have none")
    warmup: float = key(0.06, "training", "share of the steps in which the learning rates rise")
    decay: str = key("linear", "training", "how learning rates go on after that", ("linear", "none"))
    clip: float = key(1.0, "training", "largest norm of the gradient; 0: any")
    rounds: int = key(40, "training", "how often the held-out text is read, over all passes")
    patience: int = key(5, "training", "stop after so many rounds without a better perplexity; 0: never")

    seed: int = key(0, "run", "of everything random")
    device: str = key("auto", "run", "where to compute", ("auto", "cpu", "cuda", "mps"))
    precision: str = key("auto", "run", "bf16 on GPUs that have it, else fp32", ("auto", "fp32", "bf16", "fp16"))
    deterministic: bool = key(True, "run", "same seed, same result on the same machine")
    cuda_graphs: bool = key(True, "run", "on a GPU, record the work of a step for each shape, and replay it")
    checkpoint_seconds: float = key(60.0, "run", "least time between checkpoints, which are written after rounds")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_one("batch_size", "rounds")
        self.not_negative(
            "epochs", "budget", "lr", "head_lr", "weight_decay", "clip", "patience", "seed", "checkpoint_seconds"
        )
        self.shares("warmup")
        for name in ("mask", "held_out"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be more than 0 and less than 1.")
        if self.length < 16:
            raise ValueError(f"length is {self.length}; it must be at least 16.")
        if self.seed >= 2**32:
            raise ValueError(f"seed is {self.seed}; it must be less than 4294967296.")
        _ = self.splitter

    @property
    def splitter(self) -> Splitter:
        """How text is split."""
        return Splitter(self.words, self.language, self.sentences)

    def passes(self, pieces: int) -> int:
        """How many passes there are over a text of so many pieces."""
        return self.epochs or min(MOST_PASSES, max(FEWEST_PASSES, round(ALL_PIECES / max(1, pieces))))

    def rate(self, width: int, pieces: int) -> float:
        """The learning rate for an encoder of this width, and a text of so many pieces."""
        full = next(rate for widest, rate in RATES if width <= widest)
        return self.lr or full * min(1.0, max(LEAST_SHARE, pieces / MUCH))


def budget_for(device: str) -> int:
    """Pieces in one forward pass, if they are not chosen: what memory surely holds."""
    return 8192 if device == "cpu" else 32768


MAY_CHANGE = {"device", "budget", "checkpoint_seconds", "cuda_graphs"}
"""Settings with which an adaptation can go on though they differ."""
