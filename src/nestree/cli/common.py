"""What several commands share: options, reading with a word about it, notes, models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nestree.data import Document, Policies, Report, Splitter, read
from nestree.data.errors import DataError
from nestree.data.formats import detect, get
from nestree.data.splitting import SENTENCES, WORDS
from nestree.settings import Settings

if TYPE_CHECKING:
    from nestree.model import NestedNER

DEVICES = ("auto", "cpu", "cuda", "mps")
Item = TypeVar("Item")

# --- Options ---------------------------------------------------------------------------------------------------------


def add_reading(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Adds ``--format`` and ``--set``; of another file than the main one, ``--OF-format`` and ``--set-OF``."""
    group = parser.add_argument_group(f"reading {of}".rstrip())
    group.add_argument(
        f"--{of}-format" if of else "--format",
        metavar="FORMAT",
        help="instead of the one that is recognised; `nestree data formats`",
    )
    name = f"--set-{of}" if of else "--set"
    group.add_argument(name, action="append", default=[], metavar="OPTION=VALUE", help="option of the format")


def add_splitting(parser: argparse.ArgumentParser) -> None:
    """Adds ``--words``, ``--sentences`` and ``--language``."""
    group = parser.add_argument_group("splitting text that comes without words")
    group.add_argument("--words", choices=list(WORDS), default="punctuation", help="default: punctuation")
    group.add_argument("--sentences", choices=list(SENTENCES), default="sentencex", help="default: sentencex")
    group.add_argument("--language", default="en", metavar="CODE", help="default: en")


def add_policies(parser: argparse.ArgumentParser, names: Sequence[str] = tuple(Policies.choices())) -> None:
    """Adds an option for each of these policies."""
    group = parser.add_argument_group("policies for entities that do not fit")
    for name in names:
        choices = Policies.choices()[name]
        default = getattr(Policies(), name)
        group.add_argument(f"--{name.replace('_', '-')}", choices=choices, default=default, help=f"default: {default}")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds ``--device``."""
    parser.add_argument("--device", choices=DEVICES, default="auto", help="auto: an NVIDIA GPU if there is one, or CPU")


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Adds ``--budget``; None if it is left out."""
    parser.add_argument(
        "--budget",
        type=whole_number(1),
        metavar="N",
        help="most work of one forward pass (4096 on a CPU, else 16384); less needs less memory",
    )


def add_keys(parser: argparse.ArgumentParser, kind: type[Settings]) -> None:
    """Adds a flag for every key of some settings; :func:`chosen_keys` gives those that were used."""
    groups: dict[str, Any] = {}
    for one in fields(kind):
        group = one.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(f"settings: {group} (keys of --config)")
        flag = f"--{one.name.replace('_', '-')}"
        default = str(one.default).lower() if isinstance(one.default, bool) else one.default
        settings: dict[str, Any] = {
            "default": None,
            "help": f"{one.metadata['help']} ({default})",
            "dest": f"key_{one.name}",
        }
        if isinstance(one.default, bool):
            settings["action"] = argparse.BooleanOptionalAction
        else:
            settings |= {"type": type(one.default), "choices": one.metadata["choices"]}
            settings["metavar"] = None if one.metadata["choices"] else type(one.default).__name__.upper()
        groups[group].add_argument(flag, **settings)


def chosen_keys(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given as flags."""
    found = {name.removeprefix("key_"): value for name, value in vars(options).items() if name.startswith("key_")}
    return {name: value for name, value in found.items() if value is not None}


def pairs(items: list[str]) -> dict[str, str]:
    """Options of a format, written ``OPTION=VALUE``."""
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise DataError(f"an option is written OPTION=VALUE, found {item!r}")
        found[name] = value
    return found


def policies(options: argparse.Namespace) -> Policies:
    """The policies that :func:`add_policies` asked for."""
    return Policies(**{name: getattr(options, name) for name in Policies.choices() if hasattr(options, name)})


def splitter(options: argparse.Namespace) -> Splitter:
    """The splitter that :func:`add_splitting` asked for."""
    try:
        return Splitter(options.words, options.language, options.sentences)
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Reads a whole number that is not less than this, nor more than that; for ``type=``."""

    def number(text: str) -> int:
        found = int(text)
        if found < least:
            raise argparse.ArgumentTypeError(f"it must not be less than {least}")
        if most is not None and found > most:
            raise argparse.ArgumentTypeError(f"it must not be more than {most}")
        return found

    return number


# --- Reading, and what is said about it ------------------------------------------------------------------------------


def say(message: str) -> None:
    """A line for people, not for pipes."""
    print(message, file=sys.stderr)


def documents(
    path: Path, options: argparse.Namespace, report: Report, of: str = "", defaults: Mapping[str, str] | None = None
) -> Iterator[Document]:
    """The documents of a path; says as what it is read. ``of``: as :func:`add_reading` has it.

    ``defaults``: options of the format that hold if they are not chosen.
    """
    name: str | None = getattr(options, f"{of}_format" if of else "format")
    chosen: list[str] = getattr(options, f"set_{of}" if of else "set")
    found = detect(path) if name is None else get(name)
    say(f"{path}: read as {found.name} ({found.summary})")
    return read(path, name, options={**(defaults or {}), **pairs(chosen)}, report=report)


def split(found: Iterable[Document], how: Splitter, like: str = "") -> Iterator[Document]:
    """Documents with words and sentences; says so once if some had to be split. ``like``: why in this way."""
    said = False
    for document in found:
        if document.tokens is None or document.sentences is None:
            if not said:
                words = "" if document.tokens is not None else f"words by {how.words!r}, "
                ways = f"{words}sentences by {how.sentences!r}, {how.language}"
                say(f"{document.place}: text is split {like + ' ' if like else ''}({ways})")
                said = True
            document = how.split(document)
        yield document


def say_report(report: Report, show: int = 3) -> None:
    """Says what was noticed: how often, and the first of each kind."""
    for line in report.summary():
        say(f"note: {line}")
        for note in report.of(line.partition(":")[0])[:show]:
            say(f"    {note.place}: {note.message}")


def progress(items: Iterable[Item], unit: str) -> Iterable[Item]:
    """The same items, with a moving count on stderr if a person looks at it."""
    from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

    counted: Iterable[Item] = tqdm(items, unit=f" {unit}", disable=not sys.stderr.isatty())
    return counted


# --- Models ----------------------------------------------------------------------------------------------------------


def check_model(folder: Path) -> None:
    """Raises a DataError if the folder cannot hold a model. Loads nothing: it can be asked before slow things begin."""
    advice = "A model is a folder as save_pretrained writes it, with nestree.json and the weights in it."
    if not folder.exists():
        raise DataError("there is no such folder", path=folder, advice=advice)
    if not folder.is_dir():
        raise DataError("this is a file, and a model is a folder", path=folder, advice=advice)
    if not (folder / "nestree.json").is_file():
        what = "this folder holds no model of nestree: there is no nestree.json in it"
        raise DataError(what, path=folder, advice="Name a folder that save_pretrained wrote.")
    if (folder / "members").is_dir() and not (folder / "model.safetensors").is_file():
        from nestree.model.folder import members_of

        for member in members_of(folder):  # of a combined model
            check_model(member)
        return
    for name in ("model.safetensors", "encoder"):
        exported = name == "model.safetensors" and (folder / "model.onnx").is_file()
        if not exported and not (folder / name).exists():
            raise DataError(f"there is no {name} in it", path=folder, advice="Was the model saved to the end?")


def check_once(folders: Sequence[Path]) -> None:
    """Raises a DataError if one of several models is named twice, or is a member of another."""
    from nestree.model.folder import shared_members

    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise DataError("this model is named twice", path=folder, advice="Name each model once.")
        seen.add(folder.resolve())
    shared = shared_members(folders)
    if shared:
        what = f"{shared[0]} and {shared[1]} hold the same model, which would count twice"
        raise DataError(what, advice="Name it once.")


def load_model(folder: Path, device: str) -> NestedNER:
    """A saved model, ready to predict on a device; "auto" chooses one."""
    check_model(folder)
    import torch
    from safetensors import SafetensorError

    from nestree.model import NestedNER

    _check_device(device)
    try:
        model = NestedNER.from_pretrained(folder)
    except (ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        first = str(error).strip().partition("\n")[0].removesuffix(".") or type(error).__name__
        advice = "Was it saved to the end, and by this version of nestree?"
        raise DataError(f"the model cannot be loaded: {first}", path=folder, advice=advice) from error
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval()


def _check_device(device: str) -> None:
    import torch

    there: dict[str, Callable[[], bool]] = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if device in there and not there[device]():
        raise DataError(f"torch finds no device {device!r} here", advice="Use --device cpu, or leave it out.")
