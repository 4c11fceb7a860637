"""Corpora in a folder: where train and dev are, whatever their format.

The simple layout is a folder for each corpus, with ``train`` and ``dev`` in it, files of any ending or folders::

    DATA/genia/train.data  dev.data  [treebank-train-500.zip]
    DATA/litbank/train/tsv  dev/tsv
    DATA/germeval2014/train.tsv  dev.tsv
    DATA/ace2004/train.jsonl  dev.jsonl          # yours; any name, any format that nestree reads

``demo`` is the corpus that ships with nestree, and always there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

KNOWN = ("genia", "litbank", "germeval")
OTHER_NAMES = {"germeval2014": "germeval"}
TITLES = {"genia": "GENIA", "litbank": "LitBank", "germeval": "GermEval 2014", "demo": "the demo corpus"}
ENCODERS = {"minilm": "MiniLM-L6", "mpnet": "MPNet-base", "bert-large": "BERT-large's shape"}
EPOCHS = {"germeval": 5, "demo": 8}
"""Passes over the training data, where they are not ten."""


@dataclass(frozen=True)
class CorpusFiles:
    """Where a corpus is.

    Attributes:
        name: short, in lower case.
        train: file or folder.
        dev: file or folder.
        treebank: an archive of gold constituency trees of training sentences, if there is one.
    """

    name: str
    train: Path
    dev: Path
    treebank: Path | None = None


def title(name: str) -> str:
    """How a corpus is called in print."""
    return TITLES.get(name, name)


def encoder_title(name: str) -> str:
    """How an encoder is called in print."""
    return ENCODERS.get(name, name)


def of_encoder(corpus: str, encoder: str) -> str:
    """How models with an encoder on a corpus are called in print."""
    return f"{title(corpus)} with {encoder_title(encoder)}"


def epochs(name: str) -> int:
    """How many passes over the training data a corpus gets."""
    return EPOCHS.get(name, 10)


def find(folders: list[Path]) -> dict[str, CorpusFiles]:
    """The corpora in some folders, by name; the demo corpus is always there."""
    found: dict[str, CorpusFiles] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder}; --data names one that holds corpora.")
        for path in sorted(folder.iterdir()):
            name = OTHER_NAMES.get(path.name.lower(), path.name.lower())
            if path.is_dir() and name not in found and (corpus := _corpus(name, path)):
                found[name] = corpus
    found["demo"] = _demo()
    return found


def choose(found: dict[str, CorpusFiles], wanted: list[str], usual: tuple[str, ...]) -> list[CorpusFiles]:
    """The corpora that were asked for, or those of the usual ones that are there.

    Raises:
        LookupError: one is not there, or none is; says which are.
    """
    for name in wanted:
        if name not in found:
            raise LookupError(f"there is no corpus {name!r}; found were {', '.join(found)}.")
    names = wanted or [name for name in usual if name in found]
    if not names:
        raise LookupError(f"none of {', '.join(usual)} was found in --data; found were {', '.join(found)}.")
    return [found[name] for name in names]


def _corpus(name: str, folder: Path) -> CorpusFiles | None:
    train, dev = _part(folder, "train"), _part(folder, "dev")
    if train is None or dev is None:
        return None
    treebanks = sorted(folder.glob("treebank*.zip"))
    return CorpusFiles(name, train, dev, treebanks[0] if treebanks else None)


def _part(folder: Path, part: str) -> Path | None:
    """``train.*`` or ``train/``; of a folder with several forms of the same annotation, its columns."""
    files = [path for path in sorted(folder.glob(f"{part}.*")) if path.is_file() and path.suffix != ".docids"]
    if files:
        return files[0]
    below = folder / part
    if (below / "tsv").is_dir():
        return below / "tsv"
    return below if below.is_dir() else None


def _demo() -> CorpusFiles:
    folder = Path(str(resources.files("nestree.demo") / "corpus"))
    return CorpusFiles("demo", folder / "train.jsonl", folder / "dev.conll")
