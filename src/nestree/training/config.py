"""Every setting of a training run, in one flat table: keys of a file, flags of the command, arguments in Python."""

from __future__ import annotations

from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

from nestree.data import Policies, Splitter
from nestree.data.splitting import SENTENCES, WORDS
from nestree.model.config import CHOICES as OF_MODEL
from nestree.model.config import ModelConfig
from nestree.settings import Settings, read_settings
from nestree.settings import key as _key

POLICIES = Policies.choices()


@dataclass(frozen=True)
class TrainConfig(Settings):
    """The settings of a run; ``nestree train --help`` says what each means."""

    encoder: str = _key("minilm", "model", "name or folder of a Hugging Face encoder; minilm is the embedded one")
    word: str = _key("first", "model", "which of a word's pieces stands for it", OF_MODEL["word"])
    scorer: str = _key("biaffine", "model", "form of the span scores (the paper's is biaffine)", OF_MODEL["scorer"])
    dropout: float = _key(0.4, "model", "after the encoder")
    latent_labels: int = _key(1, "model", "labels for nodes that are no entities")
    normalize: bool = _key(True, "model", "potential normalisation: each sentence's scores to mean 0 and variance 1")
    gain: float = _key(2.0, "model", "where a learned factor of the normalised scores starts; 0: no factor")
    loss: str = _key("treecrf", "model", "treecrf, or local: one softmax per span, without trees", OF_MODEL["loss"])
    smoothing: float = _key(0.02, "model", "weight of what the annotation rules out")
    smoothing_scope: str = _key("rejected", "model", "what gets that weight", OF_MODEL["smoothing_scope"])
    gumbel: bool = _key(False, "model", "draw those weights anew in each step")
    entropy_weight: float = _key(0.0, "model", "reward for the entropy of the tree")
    decoding: str = _key(
        "mbr", "model", "map: the best tree; mbr: what is more probable than not", OF_MODEL["decoding"]
    )

    alignment: str = _key("strict", "data", "entities that are not on token boundaries", POLICIES["alignment"])
    crossing: str = _key("error", "data", "entities that overlap without nesting", POLICIES["crossing"])
    same_span: str = _key("composite", "data", "several labels on one span", POLICIES["same_span"])
    discontinuous: str = _key("error", "data", "entities of several pieces", POLICIES["discontinuous"])
    missing_labels: str = _key("error", "data", "labels of dev that train does not have", ("error", "ignore"))
    annotated_share: float = _key(
        0.0, "data", "where annotation is not complete, the share of entities that are annotated; 0: estimated"
    )
    words: str = _key("punctuation", "data", "how text without words is split", tuple(WORDS))
    sentences: str = _key("sentencex", "data", "how text without sentences is split", tuple(SENTENCES))
    language: str = _key("en", "data", "language of the text, for splitting")

    epochs: int = _key(10, "training", "passes over the training data, at most")
    batch_size: int = _key(32, "training", "sentences in a step, over all processes")
    budget: int = _key(
        16384, "training", "padded work of one forward pass; a larger batch goes in parts (see the docs)"
    )
    encoder_lr: float = _key(2e-4, "training", "learning rate of the encoder")
    head_lr: float = _key(1e-3, "training", "learning rate of everything else")
    weight_decay: float = _key(0.01, "training", "of weight matrices; biases and norms have none")
    warmup: float = _key(0.05, "training", "share of the steps in which the learning rates rise")
    decay: str = _key("linear", "training", "how learning rates go on after that", ("linear", "none"))
    clip: float = _key(1.0, "training", "largest norm of the gradient; 0: any")
    mask: float = _key(0.2, "training", "share of pieces that are hidden from the encoder, anew in each epoch")
    ema: float = _key(0.999, "training", "keep an average of the weights with this decay, and use it; 0: none")
    balance: float = _key(
        0.0, "training", "favour rare labels: how much of their rareness the model need not learn (0.5 is much)"
    )
    patience: int = _key(0, "training", "stop after so many epochs without a better dev F1; 0: never")

    seed: int = _key(0, "run", "of everything random")
    start_seed: int = _key(-1, "run", "of the first weights alone, for several runs from one start; -1: as seed")
    device: str = _key("auto", "run", "where to compute", ("auto", "cpu", "cuda", "mps"))
    precision: str = _key("auto", "run", "bf16 on GPUs that have it, else fp32", ("auto", "fp32", "bf16", "fp16"))
    deterministic: bool = _key(True, "run", "same seed, same result on the same machine")
    cuda_graphs: bool = _key(True, "run", "on a GPU, record the work of a step for each shape, and replay it")
    checkpoint_every: int = _key(0, "run", "steps between checkpoints; 0: at the end of each epoch")
    log_every: int = _key(20, "run", "steps between lines of metrics.jsonl")
    tensorboard: bool = _key(True, "run", "write TensorBoard files, if it is installed")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_one("epochs", "batch_size", "budget", "log_every")
        self.not_negative("encoder_lr", "head_lr", "weight_decay", "clip", "balance", "patience", "checkpoint_every")
        self.not_negative("seed")
        if self.seed >= 2**32:
            raise ValueError(f"seed is {self.seed}; it must be less than 4294967296.")
        if not -1 <= self.start_seed < 2**32:
            raise ValueError(f"start_seed is {self.start_seed}; it must be -1, or a seed.")
        if not -1e6 < self.entropy_weight < 1e6:
            raise ValueError(f"entropy_weight is {self.entropy_weight}; it must be a number.")
        if not self.encoder:
            raise ValueError("encoder is empty; name one, or leave it out.")
        self.shares("warmup", "mask", "ema", "annotated_share")
        self.model(("checked",))

    def model(self, labels: tuple[str, ...]) -> ModelConfig:
        """The settings of the model that is trained."""
        own = {one.name for one in fields(ModelConfig)} & {one.name for one in fields(self)}
        values: dict[str, Any] = {name: getattr(self, name) for name in own}
        return ModelConfig(labels, **values, policies=self.policies, splitter=self.splitter)

    @property
    def policies(self) -> Policies:
        """What happens to entities that do not fit."""
        return Policies(**{name: getattr(self, name) for name in POLICIES})

    @property
    def splitter(self) -> Splitter:
        """How text is split."""
        return Splitter(self.words, self.language, self.sentences)


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # The paper's settings; where it is silent, those of its authors' program.
    "ace2004": {"encoder": "bert-large-cased", "smoothing": 0.01},
    "ace2005": {"encoder": "bert-large-cased", "smoothing": 0.02},
    "genia": {"encoder": "dmis-lab/biobert-v1.1", "smoothing": 0.02},
}
_PAPER = {"dropout": 0.2, "decoding": "map", "epochs": 100, "batch_size": 48, "weight_decay": 0.0, "warmup": 0.0}
_PAPER |= {"gain": 0.0, "mask": 0.0, "ema": 0.0}
for _name, _lr in {"ace2004": 2e-5, "ace2005": 3e-5, "genia": 3e-5}.items():
    PRESETS[_name] |= {**_PAPER, "encoder_lr": _lr, "head_lr": _lr}


def preset(name: str) -> TrainConfig:
    """Settings by name: ``default``, or the paper's for a corpus."""
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; known are {', '.join(PRESETS)}.")
    return TrainConfig().updated(PRESETS[name])


def read_config(path: str | PathLike[str]) -> dict[str, Any]:
    """The keys and values of a TOML file; its key ``preset`` names where the others start from."""
    return read_settings(path)
