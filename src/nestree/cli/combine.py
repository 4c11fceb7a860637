"""``nestree combine``: several models as one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nestree.cli import common
from nestree.data.errors import DataError

HOW = ("potentials", "weights")
EXAMPLE = """\
examples:
  nestree train train.jsonl --dev dev.jsonl --output runs/five --seeds 5
  nestree combine runs/five/seed-* --output runs/together
  nestree evaluate runs/together test.jsonl
"""


def add_commands(commands: Any) -> None:
    """Adds ``combine``."""
    parser = commands.add_parser(
        "combine",
        help="make one model of several",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", metavar="MODEL", type=Path, nargs="+", help="folders of saved models")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the combined model")
    parser.add_argument(
        "--how",
        choices=HOW,
        default="potentials",
        help="potentials: all read, and one tree is found with the mean of what they say (default); weights: one model "
        "with the mean of their weights, for runs from one start",
    )
    parser.add_argument("--force", action="store_true", help="replace a combined model that is in DIR")
    parser.set_defaults(run=_combine, later="models")


def _combine(options: argparse.Namespace) -> int:
    from nestree.model.folder import EXPORTED, WEIGHTS

    for path in options.models:
        common.check_model(path)
        if (path / EXPORTED).is_file() and not (path / WEIGHTS).is_file():
            raise DataError("this model is exported", path=path, advice="Name the one that it was exported from.")
        if options.output.exists() and options.output.samefile(path):
            raise DataError("this is one of the models", path=path, advice="Name another --output.")
    common.check_once(options.models)
    _check_output(options)
    models = [common.load_model(path, "cpu") for path in options.models]
    from nestree.model.ensemble import EnsembleNER, averaged, parts_of
    from nestree.model.errors import ModelError

    try:
        made = averaged(models) if options.how == "weights" else EnsembleNER(models)
    except ModelError as error:
        numbered = "; ".join(f"{number}: {path}" for number, path in enumerate(options.models, 1))
        raise DataError(f"{error} (models: {numbered})") from None
    made.save_pretrained(options.output)
    what = f"{len(made.members)} members" if isinstance(made, EnsembleNER) else "their weights averaged"
    common.say(f"{options.output}: saved ({what})")
    for path, model in zip(options.models, models, strict=True):
        if isinstance(model, EnsembleNER):
            common.say(f"note: {path} counts as its {len(parts_of(model))} members")
    if options.how == "weights" and any(model.config.temperature != 1 for model in models):
        common.say("note: the temperatures of calibrated members are not those of the mean; it has none yet")
    if len({model.config.decoding for model in models}) > 1:
        common.say(f"note: members decode in different ways; decoding = {made.config.decoding}, as the first does")
    common.say(f"next: nestree calibrate {options.output} DEV, nestree evaluate {options.output} TEST")
    return 0


def _check_output(options: argparse.Namespace) -> None:
    """Refuses a place in which something would be lost."""
    import json

    output: Path = options.output
    if output.is_file():
        raise DataError("this is a file, and a model is saved into a folder", path=output)
    if not output.is_dir() or next(output.iterdir(), None) is None:
        return
    if not options.force:
        raise DataError("there is something in this folder already", path=output, advice="Name another, or --force.")
    try:
        settings = json.loads((output / "nestree.json").read_text(encoding="utf-8"))
        combined = settings["training"]["combined"]
    except (OSError, ValueError, KeyError, TypeError):
        combined = None
    if combined not in HOW:
        raise DataError("what is in this folder is no combined model", path=output, advice="Name another one.")
    if combined != options.how:
        raise DataError(f"there is a model combined by {combined} in it", path=output, advice="Name another folder.")
