"""``nestree distil``: one student that learns from annotation and from other models."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common
from nestree.cli.train import PRESETS, config_of, corpus_of, say_result
from nestree.data.errors import DataError

if TYPE_CHECKING:
    from nestree.training import TrainConfig
    from nestree.training.distillation import DistilConfig

EXAMPLE = """\
examples:
  nestree distil runs/together letters.txt --train train.jsonl --dev dev.jsonl --output runs/student
  nestree distil runs/five/seed-* --train train.jsonl --dev dev.jsonl --output runs/student --encoder minilm
  nestree distil --output runs/student --resume
  nestree distil runs/together --train train.jsonl --dev dev.jsonl --output runs/other --answers runs/said --seed 1
"""


def add_commands(commands: Any, *, settings: bool) -> None:
    """Adds ``distil``. ``settings``: with a flag for every key of TrainConfig and DistilConfig."""
    parser = commands.add_parser(
        "distil",
        help="train one model on annotated and raw text, with what other models say of it",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "inputs",
        metavar="TEACHER|TEXT",
        type=Path,
        nargs="*",
        help="folders of models to learn from, and raw text: .txt, or corpora whose annotation is not looked at",
    )
    parser.add_argument("--train", type=Path, nargs="+", default=[], metavar="TRAIN", help="annotated text")
    parser.add_argument("--dev", type=Path, metavar="DEV", help="annotated text that decides which epoch is best")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the student and the run")
    parser.add_argument(
        "--answers",
        type=Path,
        metavar="DIR",
        help="keep what the teacher says in this folder, for other students of it too; else for this run alone",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML: any of the keys below")
    parser.add_argument("--preset", choices=PRESETS, help="settings to start from; the last three are the paper's")
    parser.add_argument("--text", action="store_true", dest="plain", help="raw text is plain, whatever its ending")
    parser.add_argument("--resume", action="store_true", help="go on with the run that is in DIR")
    parser.add_argument("--force", action="store_true", help="replace a run that is in DIR")
    common.add_reading(parser)
    parser.set_defaults(run=_distil, seeds=None, later="inputs")
    if settings:
        from nestree.training.config import TrainConfig
        from nestree.training.distillation import DistilConfig

        common.add_keys(parser, DistilConfig)
        common.add_keys(parser, TrainConfig)


def _distil(options: argparse.Namespace) -> int:
    from nestree.training import train
    from nestree.training.distillation import Distillation, check_reads_alike
    from nestree.training.folder import RunFolder
    from nestree.training.machine import is_first_process

    if options.resume and options.force:
        raise DataError("--resume goes on with a run and --force replaces it: choose one")
    folder = RunFolder(options.output)
    begun = options.resume and folder.begun
    if not options.resume:
        folder.check_place(force=options.force)  # before anything slow
    if options.resume and not begun and not options.inputs:
        raise DataError("nothing was begun here", path=options.output, advice="Give the whole command.")
    if begun and "objective" not in folder.run:
        advice = f"Go on with `nestree train --output {options.output} --resume`."
        raise DataError("this run is no distillation", path=options.output, advice=advice)
    known = folder.run.get("objective", {}) if begun else {}
    if begun and (found := folder.finished()) and (_says_no_more(options) or _are_gone(options, known)):
        folder.check_config(_settings(options, known)[1])
        if is_first_process():
            common.say(f"{options.output}: this run is finished; nothing is left to do")
            say_result(found, options.output)
        return 0
    for path in options.inputs:
        _check_input(path)
    teachers = [path for path in options.inputs if _is_model(path)] or [Path(one) for one in known.get("teachers", ())]
    if not teachers:
        swallowed = [path for path in options.train if _is_model(path)]
        advice = f"--train took {swallowed[0]}, as all that follows it: name teachers before it." if swallowed else ""
        raise DataError("there is no teacher", advice=advice or "Name folders of models to learn from; see --help.")
    common.check_once(teachers)
    for path in teachers:
        _check_moved(path, options)
        common.check_model(path)
        if options.output.exists() and options.output.samefile(path):
            raise DataError("this is one of the teachers", path=path, advice="Name another --output.")
    own, config = _settings(options, known)
    if config.loss != "treecrf":
        raise DataError("a student has trees: loss = treecrf", advice="Leave --loss out.")
    for path in () if begun else teachers:
        check_reads_alike(path, config)
    answers = options.answers or (Path(known["answers"]) if known.get("answers") else None)
    if answers and answers.is_file():
        raise DataError("this is a file; --answers names a folder", path=answers)
    corpus = corpus_of(options, config, "--train", "distil")
    raw, source = _raw(options, config, known)
    objective = Distillation(teachers, corpus.sentences, raw, corpus.labels, own, answers)
    objective.source = {"raw": source, "settings": own.as_dict()}
    objective.source |= {"answers": str(answers.resolve())} if answers else {}
    more = replace(corpus, sentences=(*corpus.sentences, *(_sentence(words) for words in raw)))
    result = train(more, options.output, config, resume=options.resume, force=options.force, objective=objective)
    if is_first_process():
        say_result(result, options.output)
    return 0


def _says_no_more(options: argparse.Namespace) -> bool:
    """Whether nothing is said of a run but that it is to go on."""
    more = options.inputs, options.train, options.dev, options.config, options.preset, options.answers
    if any(more):
        return False
    return not common.chosen_keys(options)


def _are_gone(options: argparse.Namespace, known: dict[str, Any]) -> bool:
    """Whether teachers or texts of a finished run are not there any more, which it does not need."""
    remembered = {Path(one).resolve() for one in (*known.get("teachers", ()), *known.get("raw", {}).get("paths", ()))}
    gone = {path.resolve() for path in options.inputs or remembered if not path.exists()}
    return bool(gone) and gone <= remembered  # any other name is a mistake


def _check_moved(path: Path, options: argparse.Namespace) -> None:
    """Of a run that goes on: says that a teacher is not where it was, and how to say where it is."""
    if path.exists() or options.inputs:
        return
    advice = f"Name where it is now: nestree distil TEACHER... --output {options.output} --resume"
    raise DataError("the teacher that this run began with is not there any more", path=path, advice=advice)


def _is_model(path: Path) -> bool:
    return (path / "nestree.json").is_file()


def _check_input(path: Path) -> None:
    """Refuses what is neither a model nor text, before anything slow."""
    if not path.exists():
        raise DataError("there is no such model, file or folder", path=path)
    if _is_model(path) or not path.is_dir():
        return
    from nestree.training.folder import RunFolder

    if (path / "training").is_dir():
        run = RunFolder(path)
        command = "distil" if run.begun and "objective" in run.run else "train"
        advice = f"Go on with it (nestree {command} --output {path} --resume), or leave it out."
        raise DataError("the run in this folder has no model yet", path=path, advice=advice)
    models = sorted(one for one in path.iterdir() if _is_model(one))
    if models:
        advice = f"Name those that are meant: {' '.join(map(str, models[:9]))}{' ...' if len(models) > 9 else ''}"
        raise DataError("this is no model, but there are models in this folder", path=path, advice=advice)


def _sentence(words: tuple[str, ...]) -> Any:
    from nestree.training.data import Sentence

    return Sentence(words, ())


def _settings(options: argparse.Namespace, known: dict[str, Any]) -> tuple[DistilConfig, TrainConfig]:
    """Those of the distillation, and those of the training."""
    from nestree.settings import read_settings
    from nestree.training.distillation import DistilConfig

    names = [one.name for one in fields(DistilConfig)]
    flags = common.chosen_keys(options)
    own = {name: flags.pop(name) for name in names if name in flags}
    from_file = read_settings(options.config) if options.config else {}
    from_file = {name: value for name, value in from_file.items() if name in names}
    try:
        distil = DistilConfig().updated(known.get("settings", {})).updated(from_file, str(options.config))
        distil = distil.updated(own, "the command line")
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None
    return distil, config_of(options, flags, names)


def _raw(
    options: argparse.Namespace, config: TrainConfig, known: dict[str, Any]
) -> tuple[list[tuple[str, ...]], dict[str, Any]]:
    """Sentences of raw text, and how to read them again."""
    from nestree.adaptation.text import read_text
    from nestree.training.distillation import MOST_WORDS
    from nestree.training.machine import is_first_process

    paths = [path for path in options.inputs if not _is_model(path)]
    how = {"format_name": options.format, "options": common.pairs(options.set), "plain": options.plain, "endings": True}
    if not paths:
        how = dict(known.get("raw") or {})
        paths = how.pop("paths", [])
    if not paths:
        return [], {}
    text = read_text(paths, config.splitter, **how)
    found = [words for words in text.sentences if len(words) <= MOST_WORDS]
    if is_first_process():
        for one in text.files:
            common.say(f"{one['file']}: read as {one['format']}, {one['sentences']:,} sentences of raw text")
        common.say_report(text.report)
        if len(found) < len(text.sentences):
            left = len(text.sentences) - len(found)
            common.say(f"note: {left:,} sentences of raw text with more than {MOST_WORDS} words are left out")
    return found, dict(text.source)
