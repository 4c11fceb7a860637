"""``nestree calibrate``: makes the scores of a model probabilities that can be trusted."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common
from nestree.cli.tables import table
from nestree.data import Document, Report
from nestree.data.errors import DataError

if TYPE_CHECKING:
    from nestree.evaluation.calibration import Calibration
    from nestree.evaluation.temperature import Fitted, Measured
    from nestree.model import NestedNER

FEW = 100
"""Fewer entities than this say little about a temperature."""


def add_commands(commands: Any) -> None:
    """Adds ``calibrate``."""
    parser = commands.add_parser("calibrate", help="fit the temperature of a model, so that scores are probabilities")
    parser.add_argument("model", metavar="MODEL", type=Path, help="folder of a saved model; its temperature is changed")
    parser.add_argument("dev", metavar="DEV", type=Path, help="annotated text that the model was not trained on")
    parser.add_argument("--output", type=Path, metavar="FILE", help="draw scores against shares of right ones (.png)")
    parser.add_argument("--dry-run", action="store_true", help="measure and say, but leave the model as it is")
    parser.add_argument("--json", action="store_true", help="everything as JSON instead of the tables")
    parser.add_argument(
        "--budget",
        type=common.whole_number(1),
        default=16384,
        metavar="N",
        help="most work of one forward pass (16384); less needs less memory",
    )
    common.add_device(parser)
    common.add_reading(parser)
    parser.set_defaults(run=_calibrate)


def _calibrate(options: argparse.Namespace) -> int:
    common.check_model(options.model)
    _check_kind(options)
    if options.output:
        _check_output(options.output)
    report = Report()
    documents = common.documents(options.dev, options, report)
    model = common.load_model(options.model, options.device)
    gold = list(common.split(documents, model.config.splitter, "as the model reads text"))
    if not gold:
        raise DataError("there are no documents in it", path=options.dev, advice="Name annotated text.")
    fitted = _fit(model, gold, options.budget, report)
    if options.json:
        print(json.dumps(_as_dict(fitted, options), indent=2, ensure_ascii=False), flush=True)
    else:
        print(f"{_losses_table(fitted)}\n\n{_labels_table(fitted)}", flush=True)
    common.say_report(report)
    for line in _remarks(fitted, model):
        common.say(line)
    if options.output:
        _draw(fitted, options)
    _save(fitted, model, options)
    return 0


def _check_kind(options: argparse.Namespace) -> None:
    """An exported model cannot be saved again; that is said before anything slow begins."""
    from nestree.model.folder import EXPORTED

    if (options.model / EXPORTED).exists() and not options.dry_run:
        advice = "Calibrate the model that it was exported from, and export that again; or measure with --dry-run."
        raise DataError("an exported model cannot be calibrated", path=options.model, advice=advice)


def _check_output(output: Path) -> None:
    """Says what is wrong with the place for the picture before anything slow begins."""
    if output.suffix.lower() != ".png":
        raise DataError("the picture is written as PNG", path=output, advice="Use the ending .png.")
    if output.is_dir():
        raise DataError("this is a folder, and a file is to be written", path=output, advice="Name a file.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError('drawing needs matplotlib: pip install "nestree[plots]"') from None


def _fit(model: NestedNER, gold: list[Document], budget: int, report: Report) -> Fitted:
    import torch

    from nestree.evaluation.temperature import fit_temperature

    try:
        return fit_temperature(model, gold, budget=budget, report=report)
    except torch.OutOfMemoryError as error:
        advice = "Use a smaller --budget, or --device cpu."
        raise DataError(f"the memory of {model.device} does not suffice", advice=advice) from error


def _save(fitted: Fitted, model: NestedNER, options: argparse.Namespace) -> None:
    before, after = fitted.before, fitted.after
    if not fitted.better:
        common.say(
            f"{options.model}: the temperature stays {before.temperature:.4g}: what {after.temperature:.4g} gains is "
            "within the error of measuring"
        )
        return
    if fitted.at_the_end:
        common.say(
            f"{options.model}: the temperature stays {before.temperature:.4g}: {after.temperature:.4g} is as far as "
            "was looked, so this text does not say how far to go; fit on more text, with errors in it"
        )
        return
    if options.dry_run:
        common.say(f"{options.model}: left as it is (--dry-run); the temperature would be {after.temperature:.4g}")
        return
    temperature = float(f"{after.temperature:.4g}")  # more digits than the data can tell
    model.config = replace(model.config, temperature=temperature)
    training = {
        **model.trained_with,
        "calibration": {
            "file": options.dev.name,
            "sentences": fitted.sentences,
            "entities": fitted.gold,
            "brier": [round(before.brier, 6), round(after.brier, 6)],
        },
    }
    model.save_pretrained(options.model, training=training)
    common.say(f"{options.model}: saved with temperature {temperature:.4g}")


def _draw(fitted: Fitted, options: argparse.Namespace) -> None:
    from nestree.evaluation.calibration import reliability_png

    curves = {f"{name}, T = {one.temperature:.3g}": one.entities for name, one in _sides(fitted)}
    reliability_png(curves, options.output, title=f"{options.model.resolve().name} on {options.dev.name}")
    common.say(f"{options.output}: picture written")


# --- What is said ----------------------------------------------------------------------------------------------------


def _sides(fitted: Fitted) -> tuple[tuple[str, Measured], tuple[str, Measured]]:
    return ("before", fitted.before), ("after", fitted.after)


def _as_dict(fitted: Fitted, options: argparse.Namespace) -> dict[str, Any]:
    sides = {name: one.as_dict() for name, one in _sides(fitted)}
    counts = {"sentences": fitted.sentences, "gold": fitted.gold}
    gain = {"gain": round(fitted.gain, 6), "standard_error": round(fitted.error, 6), "better": fitted.better}
    return {"model": str(options.model), "dev": str(options.dev), **counts, **sides, **gain}


def _losses_table(fitted: Fitted) -> str:
    from nestree.evaluation.calibration import calibration

    sides = [one for _, one in _sides(fitted)]
    whole = [calibration(one.entities) for one in sides]
    lines = {
        "temperature": [f"{one.temperature:.4g}" for one in sides],
        "all spans, per sentence: Brier": [f"{one.brier:.4f}" for one in sides],
        "    log loss": [f"{one.log_loss:.4f}" for one in sides],
        "    negative log likelihood": [f"{one.nll:.4f}" for one in sides],
        "predicted entities": [f"{one.entities:,}" for one in whole],
        "    mean score": [f"{one.confidence:.4f}" for one in whole],
        "    share that is right": [f"{one.precision:.4f}" for one in whole],
        "    ECE, bins of equal width": [f"{one.ece:.4f}" for one in whole],
        "    ECE, bins of equal mass": [f"{one.ece_mass:.4f}" for one in whole],
        "    Brier": [f"{one.brier:.4f}" for one in whole],
        "micro F1": [f"{100 * one.scores.micro.f1:.2f}" for one in sides],
    }
    return table(["", "before", "after"], [[name, *cells] for name, cells in lines.items()], right=True)


def _labels_table(fitted: Fitted) -> str:
    from nestree.evaluation.calibration import calibration, calibration_by_label

    sides = [one.entities for _, one in _sides(fitted)]
    before, after = map(calibration_by_label, sides)
    rows = [_row(label, before.get(label), after.get(label)) for label in sorted(before.keys() | after.keys())]
    rows.append(_row("all labels", *map(calibration, sides)))
    return table(["before → after", "entities", "right", "mean score", "ECE", "Brier"], rows, right=True)


def _row(label: str, *sides: Calibration | None) -> list[str]:
    entities = " → ".join("0" if one is None else f"{one.entities:,}" for one in sides)
    names = ("precision", "confidence", "ece", "brier")
    shares = [" → ".join("–" if one is None else f"{getattr(one, name):.3f}" for one in sides) for name in names]
    return [label, entities, *shares]


def _remarks(fitted: Fitted, model: NestedNER) -> Iterator[str]:
    yield (
        f"{fitted.sentences:,} sentences with {fitted.gold:,} entities; the Brier score of a sentence is smaller by "
        f"{fitted.gain:.4f} ± {fitted.error:.4f} (standard error)"
    )
    if fitted.gold < FEW:
        yield f"note: {fitted.gold} entities are few; more annotated text makes a surer temperature"
    if fitted.at_the_end:
        yield "note: this is as far as was looked; is this the text that the model is for?"
    one, other = (side.scores.micro for _, side in _sides(fitted))
    if model.config.loss == "treecrf" and model.config.decoding == "mbr" and one != other:
        yield (
            "note: the model decodes by mbr, so a temperature changes which entities are more probable than not: "
            f"F1 {100 * one.f1:.2f} before, {100 * other.f1:.2f} after"
        )
