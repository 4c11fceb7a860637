"""``nestree train``: from annotated text to a model."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common
from nestree.data.errors import DataError
from nestree.data.formats import detect, get

if TYPE_CHECKING:
    from nestree.training import Corpus, Result, TrainConfig

PRESETS = ("default", "ace2004", "ace2005", "genia")
EXAMPLE = """\
examples:
  nestree train train.jsonl --dev dev.jsonl --output runs/mine
  nestree train train.jsonl --dev dev.jsonl --output runs/large --encoder bert-large-cased --encoder-lr 3e-5
  nestree train train.jsonl --dev dev.jsonl --output runs/mine --adapt-on train letters.txt
  nestree train train.jsonl returned.json --dev dev.jsonl --output runs/more
  nestree train --output runs/mine --resume
  accelerate launch -m nestree train train.jsonl --dev dev.jsonl --output runs/mine
"""


def add_commands(commands: Any, *, settings: bool) -> None:
    """Adds ``train``. ``settings``: with a flag for every key of TrainConfig."""
    parser = commands.add_parser(
        "train",
        help="train a model on annotated text",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("train", metavar="TRAIN", type=Path, nargs="*", help="annotated files or folders of any format")
    parser.add_argument("--dev", type=Path, metavar="DEV", help="annotated text that decides which epoch is best")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the model and the run")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML: any of the keys below")
    parser.add_argument("--preset", choices=PRESETS, help="settings to start from; the last three are the paper's")
    parser.add_argument(
        "--adapt-on",
        nargs="+",
        metavar="TEXT",
        help="train the encoder further before, on these texts (`nestree adapt`); `train`: on those of TRAIN",
    )
    parser.add_argument(
        "--adapt-set", action="append", default=[], metavar="KEY=VALUE", help="setting of `nestree adapt` for that"
    )
    parser.add_argument(
        "--adapt-text", action="store_true", help="texts of --adapt-on are plain text, whatever their endings"
    )
    parser.add_argument("--seeds", type=common.whole_number(1), metavar="N", help="train N times, report mean ± std")
    parser.add_argument("--resume", action="store_true", help="go on with the run that is in DIR")
    parser.add_argument("--force", action="store_true", help="replace a run that is in DIR")
    common.add_reading(parser)
    parser.set_defaults(run=_train, later="train")
    if settings:
        from nestree.training.config import TrainConfig

        common.add_keys(parser, TrainConfig)


def _train(options: argparse.Namespace) -> int:
    from nestree.training import train
    from nestree.training.folder import RunFolder
    from nestree.training.machine import is_first_process
    from nestree.training.seeds import seed_folders, summary, train_seeds

    if options.resume and options.force:
        raise DataError("--resume goes on with a run and --force replaces it: choose one")
    if options.adapt_set and not options.adapt_on:
        raise DataError("--adapt-set is about an adaptation", advice="Say on which text, with --adapt-on.")
    _check_adapted(options)
    if not options.resume:  # before anything slow
        for folder in seed_folders(options.output, options.seeds) if options.seeds else [options.output]:
            RunFolder(folder).check_place(force=options.force)
    config = config_of(options, common.chosen_keys(options))
    corpus = corpus_of(options, config)
    if options.adapt_on:
        config = _adapted(options, config, corpus)
    if options.seeds:
        results = train_seeds(corpus, options.output, config, options.seeds, resume=options.resume, force=options.force)
        if is_first_process():
            print(summary(results))
        return 0
    result = train(corpus, options.output, config, resume=options.resume, force=options.force)
    if is_first_process():
        say_result(result, options.output)
    return 0


def say_result(result: Result, output: Path) -> None:
    """Says how a run ended."""
    from nestree.cli.scores import scores_table

    print(scores_table(result.scores))
    common.say(f"best of {result.epochs} epochs: {result.epoch}, dev F1 {100 * result.f1:.2f}")
    common.say(f"the model is in {output}; its curves and tables in {output / 'training' / 'report.html'}")
    common.say(f"next: nestree evaluate {output} TEST")


SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
ADAPTED = "adapted"
"""The folder in a run's folder for an encoder that was adapted for it."""


def _check_adapted(options: argparse.Namespace) -> None:
    """Refuses to go on without the adaptation that a run began with."""
    from nestree.training.folder import RunFolder

    waiting = (options.output / ADAPTED).is_dir() and not RunFolder(_one_of(options)).begun
    if options.resume and not options.adapt_on and waiting:
        what = "this run was stopped before it was trained, while or after its encoder was adapted"
        advice = "Give the whole command again, with --adapt-on and --resume."
        raise DataError(what, path=options.output, advice=advice)


def _adapted(options: argparse.Namespace, config: TrainConfig, corpus: Corpus) -> TrainConfig:
    """Adapts the encoder, and returns the settings with it. What was done already is not done again."""
    from nestree.adaptation import AdaptConfig
    from nestree.adaptation.folder import AdaptFolder
    from nestree.adaptation.text import joined, of_documents
    from nestree.cli import adapt

    target = options.output / ADAPTED
    folder = AdaptFolder(target)
    encoder = folder.run["encoder"] if options.resume and folder.begun else config.encoder
    encoder = common.chosen_keys(options).get("encoder", encoder)  # another one is refused, and not left out
    given = common.pairs(options.adapt_set)
    usual = {"seed": config.seed, "device": config.device, "precision": config.precision}
    usual |= {name: getattr(config, name) for name in ("words", "sentences", "language", "deterministic")}
    try:
        settings = AdaptConfig().updated(usual).updated(_typed(given), "--adapt-set")
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None
    texts = []
    if "train" in options.adapt_on:
        name = ", ".join(Path(one.path).name for one in corpus.train.files)
        texts.append(of_documents(corpus.train.documents, settings.splitter, name, corpus.train.format))
    paths = [Path(one) for one in options.adapt_on if one != "train"]
    if paths:
        how = {"paths": paths, "options": common.pairs(options.set), "plain": options.adapt_text}
        texts.append(adapt.read(how, settings))
    how_to_go_on = {"resume": options.resume, "force": options.force}
    adapt.run_adaptation(encoder, joined(texts), target, settings, **how_to_go_on, alone=False)
    return config.updated({"encoder": str(target)})


def _typed(given: dict[str, str]) -> dict[str, Any]:
    """Values of settings, as the keys want them; unknown keys stay as they are."""
    from nestree.adaptation import AdaptConfig

    kinds: dict[str, Any] = {one.name: type(one.default) for one in fields(AdaptConfig)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        kind = kinds.get(name, str)
        try:
            found[name] = SWITCH[value.lower()] if kind is bool else kind(value)
        except ValueError:
            raise DataError(f"--adapt-set: {name} is {value!r}, which is no number") from None
        except KeyError:
            raise DataError(f"--adapt-set: {name} is {value!r}; it can be true or false") from None
    return found


def config_of(options: argparse.Namespace, flags: dict[str, Any], but: Collection[str] = ()) -> TrainConfig:
    """The settings: preset, then file, then flags; those of the run that is there if nothing is said with --resume.

    ``but``: keys of the file that mean something else.
    """
    from nestree.training import preset, read_config
    from nestree.training.folder import RunFolder

    folder = RunFolder(_one_of(options))
    from_file = read_config(options.config) if options.config else {}
    from_file = {name: value for name, value in from_file.items() if name not in but}
    try:
        if options.resume and folder.begun and not options.config and not options.preset:
            return folder.config().updated(flags, "the command line")
        name = options.preset or from_file.pop("preset", "default")
        from_file.pop("preset", None)
        return preset(name).updated(from_file, str(options.config)).updated(flags, "the command line")
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None


def _one_of(options: argparse.Namespace) -> Path:
    """The folder that holds the settings: of several seeds, the first one's."""
    first: Path = options.output / "seed-0"
    return first if options.seeds and first.is_dir() else options.output


def corpus_of(options: argparse.Namespace, config: TrainConfig, flag: str = "TRAIN", command: str = "train") -> Corpus:
    """Reads the data, and says what there is before anything is trained. ``flag``: what names the training data."""
    from nestree.cli.tables import table
    from nestree.data.statistics import compared
    from nestree.training import load_part, prepare, together
    from nestree.training.folder import RunFolder
    from nestree.training.machine import is_first_process

    folder = RunFolder(_one_of(options))
    known = folder.data() if options.resume and folder.begun else {}
    given = {"train": options.train, "dev": [] if options.dev is None else [options.dev]}
    files = {}
    for name, paths in given.items():
        if not paths and name not in known:
            missing = "--dev" if name == "dev" else flag
            if options.resume and (options.output / "seed-0").is_dir():
                raise DataError("these are runs with several seeds", path=options.output, advice="Add --seeds N.")
            if options.resume and (options.output / ADAPTED).is_dir():
                what = "this run was stopped while its encoder was adapted"
                raise DataError(what, path=options.output, advice="Give the whole command again, with --resume.")
            advice = f"`nestree {command} --help` has examples."
            if name == "train" and len(getattr(options, "adapt_on", None) or ()) > 1:
                advice = "--adapt-on took all that follows it: name TRAIN before it."
            raise DataError(f"{missing} is missing: name the {name} data", advice=advice)
        for path in paths:
            if not path.exists():
                raise DataError("there is no such file or folder", path=path)
        files[name] = _as_said(paths, options) if paths else known[name].get("files", [known[name]])
    _check_options(options, [one for name, paths in given.items() if paths for one in files[name]])
    parts = {
        name: together([load_part(one["path"], config.splitter, one["format"], one["options"]) for one in found])
        for name, found in files.items()
    }
    train, dev = parts["train"], parts["dev"]
    corpus = prepare(train, dev, config)
    if is_first_process():
        for part in (*train.files, *dev.files):
            common.say(f"{part.path}: read as {part.format}")
            common.say_report(part.report)
        print(table(["", "train", "dev"], compared([train.statistics, dev.statistics]), right=True), flush=True)
        common.say_report(corpus.report)
        for note in corpus.notes:
            common.say(f"note: {note}")
    return corpus


def _as_said(paths: list[Path], options: argparse.Namespace) -> list[dict[str, Any]]:
    """How each file is to be read: with those options that its format knows."""
    found = []
    for path in paths:
        form = detect(path) if options.format is None else get(options.format)
        chosen = {name: value for name, value in common.pairs(options.set).items() if name in form.options}
        found.append({"path": str(path), "format": form.name, "options": chosen})
    return found


def _check_options(options: argparse.Namespace, files: list[dict[str, Any]]) -> None:
    """Raises an error if an option was set that no file's format has."""
    used = {name for one in files for name in one["options"]}
    unused = {name: value for name, value in common.pairs(options.set).items() if name not in used}
    for one in files[:1]:
        get(one["format"]).check_options(unused)
