"""``nestree predict --engine``: many files in, as many out, by one process or many."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from nestree.cli import common
from nestree.cli.interrupts import Interrupts
from nestree.data.errors import DataError

ENGINES = ("local", "ray")
WATCHED, LOGGED = 0.5, 30.0
"""Seconds between two lines about progress, for somebody who looks and for a log."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds ``--engine`` and what belongs to it."""
    group = parser.add_argument_group(
        "many files: Parquet and JSON Lines, each to a file of the folder --output; --force starts over"
    )
    group.add_argument("--engine", choices=ENGINES, help="who does the work: this machine, or actors on Ray")
    group.add_argument(
        "--workers",
        type=common.whole_number(1),
        metavar="N",
        help="processes of this machine (1), which share its GPUs, or actors (as many as there is room for)",
    )
    group.add_argument("--cpus-per-worker", type=common.whole_number(1), metavar="N", help="of each actor (1)")
    group.add_argument(
        "--gpus-per-worker", type=_share, metavar="X", help="of each actor, also a part (1 if there are any)"
    )
    group.add_argument(
        "--ray-address", metavar="ADDRESS", help="a cluster: auto, HOST:PORT or ray://HOST:PORT; a new one if left out"
    )


def _share(text: str) -> float:
    found = float(text)
    if found < 0:
        raise argparse.ArgumentTypeError("it must not be less than 0")
    return found


def check(options: argparse.Namespace) -> None:
    """Refuses options of another way to predict."""
    for name in ("cpus_per_worker", "gpus_per_worker", "ray_address"):
        if getattr(options, name) is not None and options.engine != "ray":
            raise DataError(f"--{name.replace('_', '-')} belongs to --engine ray")
    if options.workers is not None and options.engine is None:
        raise DataError("--workers belongs to --engine")
    if options.engine is None:
        return
    for name in ("text", "lines", "set_to"):
        if getattr(options, name):
            raise DataError(f"--{name.replace('_', '-')} does not go with --engine", advice="Shards hold documents.")
    if options.output is None:
        raise DataError("an engine writes to a folder", advice="Name one: --output FOLDER.")
    if not options.inputs or Path("-") in options.inputs:
        raise DataError("an engine reads files", advice="Name Parquet or JSON Lines files, or folders of them.")


def run(options: argparse.Namespace, thresholds: float | dict[str, float] | None) -> int:
    """Predicts all shards; 2 if one failed."""
    common.check_model(options.model)
    from nestree.prediction.engines import Job, predict_shards, processes
    from nestree.prediction.engines.local import do
    from nestree.prediction.engines.run import Engine
    from nestree.prediction.predict import Options

    engine: Engine = do
    if options.engine == "local" and (options.workers or 1) > 1:
        engine = processes.engine(options.workers)
    elif options.engine == "ray":
        from nestree.prediction.engines import ray

        engine = ray.engine(
            ray.Pool(options.workers, options.cpus_per_worker or 1, options.gpus_per_worker, options.ray_address)
        )
    job = Job(
        options.model.resolve(),
        options.output.resolve(),
        Options(thresholds, options.flat, options.trees, options.max_words, options.budget),
        common.pairs(options.set),
        options.to,
        options.device,
    )
    interrupts = Interrupts()
    line = _Line(interrupts)
    try:
        with interrupts:
            found = predict_shards(
                job, options.inputs, engine, form=options.format, again=options.force, show=line.show, say=line.say
            )
    except KeyboardInterrupt:
        line.say(f"stopped; {options.output} keeps what is done, and the same command goes on")
        return 130
    finally:
        line.end()
    done = found.before + len(found.done)
    common.say(f"{options.output}: {done} of {found.shards} shards are done")
    if found.done:
        common.say(f"now: {found.documents:,} documents, {found.entities:,} entities, in {len(found.done)} shards")
    if done < found.shards:
        common.say(f"error: {found.shards - done} shards are not done. Run the same command again to try them alone.")
        return 2
    return 0


class _Line:
    """A line about progress: it moves if a person looks, and comes now and then in a log."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._moves = sys.stderr.isatty()
        self._said = time.monotonic()
        self._width = 0

    def show(self, line: str) -> None:
        self._interrupts.check()
        now = time.monotonic()
        if now - self._said < (WATCHED if self._moves else LOGGED):
            return
        self._said = now
        if not self._moves:
            common.say(line)
            return
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def say(self, line: str) -> None:
        self.end()
        common.say(line)

    def end(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            self._width = 0
