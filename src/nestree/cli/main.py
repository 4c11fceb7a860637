"""``nestree``: the entry point of all commands."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nestree import __version__
from nestree.cli import (
    adapt,
    calibrate,
    combine,
    compare,
    data,
    distil,
    draw,
    evaluate,
    export,
    predict,
    serve,
    suggest,
    train,
)
from nestree.data.errors import DataError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0 done, 1 something was found, 2 it could not be done."""
    parser = argparse.ArgumentParser(
        prog="nestree", description="Nested named entities with partially-observed TreeCRFs."
    )
    parser.add_argument("--version", action="version", version=f"nestree {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    predict.add_commands(commands)
    draw.add_commands(commands)
    suggest.add_commands(commands)
    data.add_commands(commands)
    evaluate.add_commands(commands)
    compare.add_commands(commands)
    calibrate.add_commands(commands)
    export.add_commands(commands)
    serve.add_commands(commands)
    combine.add_commands(commands)
    given = sys.argv[1:] if arguments is None else list(arguments)
    train.add_commands(commands, settings=given[:1] == ["train"])  # they need torch, which the others do without
    adapt.add_commands(commands, settings=given[:1] == ["adapt"])
    distil.add_commands(commands, settings=given[:1] == ["distil"])
    options, more = parser.parse_known_args(given)
    _take_later(commands.choices[given[0]], options, more)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a label must be printable anywhere
            stream.reconfigure(errors="backslashreplace")
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ImportError, OSError) as error:
        print(f"error: {_said(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return status


def _take_later(parser: argparse.ArgumentParser, options: argparse.Namespace, more: list[str]) -> None:
    """Files that were named after an option go with those before it, where a command takes any number of them."""
    unknown = [one for one in more if one.startswith("-") and one != "-"]
    if more and (unknown or not hasattr(options, "later")):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:
        getattr(options, options.later).extend(map(Path, more))


def _said(error: ImportError | OSError) -> str:
    """An error of the system as our own are: where, and what, without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


if __name__ == "__main__":
    sys.exit(main())
