"""``nestree draw``: the entities of a text and its latent tree, as a picture, a page, or in the terminal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from nestree.cli import common
from nestree.cli.output import STREAM, check_output, partial_name
from nestree.cli.predict import FLAT, memory_of, thresholds_of
from nestree.data.errors import DataError

ENDINGS = {".svg": "SVG", ".html": "HTML", ".htm": "HTML", ".png": "PNG"}
THEMES = ("auto", "light", "dark")


def add_commands(commands: Any) -> None:
    """Adds ``draw``."""
    parser = commands.add_parser("draw", help="draw the entities of a text, and its latent tree")
    parser.add_argument("model", metavar="MODEL", type=Path, help="folder of a saved model")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="what to draw, in quotes")
    parser.add_argument("--file", type=Path, metavar="PATH", help="a file with the text, instead; -: standard input")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="a file that ends in .svg, .html or .png; left out: the terminal"
    )
    parser.add_argument("--force", action="store_true", help="replace the output if it is there")
    parser.add_argument("--no-tree", action="store_true", help="entities only; text runs on over sentences")
    parser.add_argument(
        "--width",
        type=common.whole_number(1),
        metavar="N",
        help="of a line: pixels (900), in the terminal columns (its own)",
    )
    parser.add_argument("--theme", choices=THEMES, default="auto", help="default: auto, as the reader's system has it")
    parser.add_argument("--flat", choices=FLAT, help="without nesting: keep these of entities that share words")
    parser.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="P|LABEL=P",
        help="least probability of entities, of all or of one label; left out: what the model decides",
    )
    common.add_device(parser)
    parser.set_defaults(run=_draw)


def _draw(options: argparse.Namespace) -> int:
    ending = _checked_output(options)
    common.check_model(options.model)
    text = _text(options)
    thresholds = thresholds_of(options.threshold)
    _check_drawing(ending, options.width)
    model = common.load_model(options.model, options.device)
    from nestree.drawing import draw
    from nestree.drawing.predictions import Form

    trees = not options.no_tree and model.config.loss != "local"
    if not trees and not options.no_tree:
        common.say("note: the model was trained with loss = local and has no trees; only entities are drawn")
    forms: dict[str, Form] = {"": "text", ".html": "html", ".htm": "html"}
    try:
        with memory_of(model):
            found = model.predict(text, threshold=thresholds, flat=options.flat, trees=trees)
        drawn = draw(
            found,
            forms.get(ending, "svg"),
            width=options.width,
            theme=options.theme,
            labels=model.config.single_labels,
        )
        made = _as_png(drawn) if ending == ".png" else drawn.encode(errors="replace")
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None
    if not ending:
        print(drawn)
        return 0
    _write(options.output, made)
    common.say(f"{options.output}: {len(found)} entities drawn as {ENDINGS[ending]}")
    return 0


def _as_png(svg: str) -> bytes:
    from nestree.drawing import as_png

    return as_png(svg)


def _checked_output(options: argparse.Namespace) -> str:
    """The ending of the output, or nothing; says what is wrong with it before anything slow begins."""
    path: Path | None = options.output
    if path is None:
        return ""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise DataError(f"a drawing cannot be written with the ending {ending!r}; known are {known}", path=path)
    check_output(path, options.force, [] if options.file is None else [options.file])
    return ending


def _check_drawing(ending: str, width: int | None) -> None:
    """Says what would keep the drawing from being made, before the model is loaded."""
    from nestree.drawing import layout, png, terminal

    if ending == ".png":
        png.renderer()
    least, unit = (layout.NARROWEST, "pixels") if ending else (terminal.NARROWEST, "columns")
    if width is not None and width < least:
        raise DataError(f"--width is {width}; a drawing needs {least} {unit} or more")


def _text(options: argparse.Namespace) -> str:
    example = 'nestree draw MODEL "The mayor of Leeds resigned."'
    if options.text is not None and options.file is not None:
        raise DataError("there is a text and a file", advice="Give one of them.")
    if options.text is None and options.file is None:
        raise DataError("there is no text to draw", advice=f"Write it in quotes ({example}), or name a --file.")
    text = options.text if options.file is None else _read(options.file)
    if not text.strip():
        raise DataError("the text is empty", path=options.file, advice=f"Draw some words: {example}")
    return str(text)


def _read(path: Path) -> str:
    if path == STREAM:
        if sys.stdin is None or sys.stdin.isatty():
            raise DataError(
                "there is no input", advice="Pipe text into it: echo 'Some text.' | nestree draw MODEL --file -"
            )
        raw = sys.stdin.buffer.read()
    elif not path.exists():
        raise DataError("there is no such file", path=path)
    elif path.is_dir():
        raise DataError("this is a folder", path=path, advice="Name a file with the text.")
    else:
        raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        advice = "Convert it: iconv -f latin1 -t utf-8 (if it is Latin-1)."
        raise DataError(f"this is not UTF-8 (byte {error.start})", path=path, advice=advice) from None


def _write(path: Path, made: bytes) -> None:
    """Either the whole file, or none."""
    unfinished = partial_name(path)
    try:
        unfinished.write_bytes(made)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise DataError(f"the file cannot be written: {error.strerror or error}", path=path) from None
