"""``nestree export``: a model as ONNX, for CPUs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nestree.cli import common


def add_commands(commands: Any) -> None:
    """Adds ``export``."""
    parser = commands.add_parser("export", help="write a model as ONNX: quicker on CPUs")
    parser.add_argument("model", metavar="MODEL", type=Path, help="folder of a saved model")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the exported model")
    parser.add_argument("--int8", action="store_true", help="whole numbers of 8 bits: quicker and smaller, less exact")
    parser.add_argument("--force", action="store_true", help="replace an exported model that is in DIR")
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    common.check_model(options.model)
    from nestree.export import export
    from nestree.export.exporting import check_place
    from nestree.export.extra import FOR_EXPORTING, require
    from nestree.model.folder import EXPORTED

    require(*FOR_EXPORTING)
    check_place(options.output, options.force)
    export(common.load_model(options.model, "cpu"), options.output, options.int8, force=options.force)
    size = (options.output / EXPORTED).stat().st_size / 1e6
    common.say(f"{options.output}: exported{' as int8' if options.int8 else ''}, {EXPORTED} has {size:,.1f} MB")
    return 0
