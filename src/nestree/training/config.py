"""Every setting of a training run, in one flat table: keys of a file, flags of the command, arguments in Python."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

from nestree.data import Policies, Splitter
from nestree.data.errors import DataError
from nestree.data.splitting import SENTENCES, WORDS
from nestree.model.config import CHOICES as OF_MODEL
from nestree.model.config import ModelConfig

POLICIES = Policies.choices()


def _key(default: Any, group: str, meaning: str, choices: tuple[str, ...] | None = None) -> Any:
    return field(default=default, metadata={"group": group, "help": meaning, "choices": choices})


@dataclass(frozen=True)
class TrainConfig:
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
    device: str = _key("auto", "run", "where to compute", ("auto", "cpu", "cuda", "mps"))
    precision: str = _key("auto", "run", "bf16 on GPUs that have it, else fp32", ("auto", "fp32", "bf16", "fp16"))
    deterministic: bool = _key(True, "run", "same seed, same result on the same machine")
    cuda_graphs: bool = _key(True, "run", "on a GPU, record the work of a step for each shape, and replay it")
    checkpoint_every: int = _key(0, "run", "steps between checkpoints; 0: at the end of each epoch")
    log_every: int = _key(20, "run", "steps between lines of metrics.jsonl")
    tensorboard: bool = _key(True, "run", "write TensorBoard files, if it is installed")

    def __post_init__(self) -> None:
        for one in fields(self):
            value, choices = _of_type(one.name, getattr(self, one.name), _TYPES[str(one.type)]), one.metadata["choices"]
            object.__setattr__(self, one.name, value)
            if choices and value not in choices:
                raise ValueError(f"{one.name} is {value!r}; known are {', '.join(map(repr, choices))}.")
        for name in ("epochs", "batch_size", "budget", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name in (
            "encoder_lr",
            "head_lr",
            "weight_decay",
            "clip",
            "balance",
            "patience",
            "checkpoint_every",
            "seed",
        ):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number, 0 or more.")
        if self.seed >= 2**32:
            raise ValueError(f"seed is {self.seed}; it must be less than 4294967296.")
        if not -1e6 < self.entropy_weight < 1e6:
            raise ValueError(f"entropy_weight is {self.entropy_weight}; it must be a number.")
        if not self.encoder:
            raise ValueError("encoder is empty; name one, or leave it out.")
        for name in ("warmup", "mask", "ema", "annotated_share"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0 and less than 1.")
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

    def as_dict(self) -> dict[str, Any]:
        """All keys and values."""
        return asdict(self)

    def as_toml(self) -> str:
        """As a file that ``--config`` reads."""
        return "".join(f"{name} = {_toml(value)}\n" for name, value in self.as_dict().items())

    def updated(self, values: Mapping[str, Any], where: str = "the settings") -> TrainConfig:
        """With other values for some keys. Unknown keys are an error that lists the known ones."""
        known = [one.name for one in fields(self)]
        for name in values:
            if name not in known:
                close = get_close_matches(name, known, 1)
                meant = f" Did you mean {close[0]!r}?" if close else ""
                raise ValueError(f"{where}: unknown key {name!r}.{meant} Known are {', '.join(known)}.")
        try:
            return replace(self, **values)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


_TYPES = {"str": str, "int": int, "float": float, "bool": bool}


def _of_type(name: str, value: Any, wanted: type) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        kind = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}[wanted]
        raise ValueError(f"{name} is {value!r}; it must be {kind}.")
    return value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(_ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in value)
        return f'"{escaped}"'
    return repr(value)


_ESCAPES = {"\\": "\\\\", '"': '\\"'}

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
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"this is no TOML: {error}", path=str(path)) from None
    tables = [name for name, value in values.items() if isinstance(value, (dict, list))]
    if tables:
        raise DataError(
            f"{tables[0]!r} is a table or list", path=str(path), advice="Settings are flat: one `key = value` a line."
        )
    return values
