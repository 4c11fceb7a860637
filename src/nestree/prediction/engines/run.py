"""A bulk prediction from its inputs to its summary. Engines differ in one function: shards in, receipts out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from nestree.data.errors import DataError
from nestree.data.formats import get
from nestree.model.errors import first_line
from nestree.model.folder import read_folder
from nestree.prediction.engines import local
from nestree.prediction.engines.folder import OutputFolder, Receipt
from nestree.prediction.engines.progress import Watch
from nestree.prediction.engines.shards import ENDINGS, Shard, common_folder, format_of, shards, sources
from nestree.prediction.engines.work import Job
from nestree.prediction.predict import check_options

Engine = Callable[[Job, Sequence[Shard], Watch], Generator[Receipt, None, None]]
"""Does shards and tells what became of each, in any order; says to the watch how far it is."""
TRIES, WAIT = 10, 1.0
"""How often outputs are looked for that a worker says it wrote, and the seconds between."""


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Attributes:
        shards: all that were asked for.
        before: those of them that were done before.
        done: receipts of those that were done now.
        failed: receipts of those that could not be done.
    """

    shards: int
    before: int
    done: tuple[Receipt, ...]
    failed: tuple[Receipt, ...]

    @property
    def documents(self) -> int:
        """Documents that were predicted now."""
        return sum(receipt.documents for receipt in self.done)

    @property
    def entities(self) -> int:
        """Entities that were found now."""
        return sum(receipt.entities for receipt in self.done)


def predict_shards(
    job: Job,
    inputs: Iterable[Path],
    engine: Engine = local.do,
    *,
    form: str | None = None,
    again: bool = False,
    show: Callable[[str], None] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Summary:
    """Predicts files of documents; each becomes one file in the output folder. Run again, it does what is left.

    Args:
        job: model, output folder and options.
        inputs: Parquet and JSON Lines files, or folders of them.
        engine: who does the work: ``local.do``, or what ``ray.engine`` returns.
        form: the format of all inputs; left out, their endings say it.
        again: forget what is done, and start over.
        show: gets a line about progress, many times.
        say: gets lines about what happened, each once.

    Raises:
        DataError: inputs or output cannot be used, or the folder was begun with another model or other options.
    """
    job = replace(job, model=job.model.resolve(), output=job.output.resolve())  # workers have other current folders
    _check(job, form)
    folder = OutputFolder(job.output)
    files = sources(map(Path, inputs), job.output, form)
    if not files:
        raise DataError("there is no input", advice="Name Parquet or JSON Lines files, or folders of them.")
    for name in sorted({form or format_of(file) for file in files}):
        get(name).check_options(job.reading)
    folder.check()
    with folder.alone():
        root = folder.begin(common_folder(files), job.settings(), again=again)
        listed = list(shards(_within(files, root, job.output), root, form, job.to))
        _check_shards(listed, job)
        todo = [shard for shard in listed if folder.receipt(shard) is None]
        _say_before(folder, listed, todo, say)
        watch = Watch(todo, show, say=say)
        job = replace(job, run=folder.run)
        done, failed = _run(engine(job, todo, watch), watch, say) if todo else ([], [])
        done, unseen = _seen(folder, todo, done)
        for receipt in unseen[:3]:
            say(f"failed: {receipt.error}")
        if len(unseen) > 3:
            say(f"and {len(unseen) - 3} others, in the same way")
        failed += unseen
    return Summary(len(listed), len(listed) - len(todo), tuple(done), tuple(failed))


def _run(
    receipts: Generator[Receipt, None, None], watch: Watch, say: Callable[[str], None]
) -> tuple[list[Receipt], list[Receipt]]:
    done: list[Receipt] = []
    failed: list[Receipt] = []
    noted: set[str] = set()
    with closing(receipts):
        for receipt in receipts:
            watch.over(receipt)
            (done if receipt.error is None else failed).append(receipt)
            if receipt.error is not None:
                say(f"failed: {receipt.error}")
            elif receipt.attempts > 1:
                say(f"{receipt.name}: its process died; attempt {receipt.attempts} did it")
            for note in receipt.notes:
                kind = note.partition(": ")[2]
                if kind not in noted:
                    noted.add(kind)
                    say(f"note: {note}")
            if receipt.hopeless:
                break
    return done, failed


def _seen(folder: OutputFolder, todo: list[Shard], done: list[Receipt]) -> tuple[list[Receipt], list[Receipt]]:
    """Receipts of outputs that are here, and those of others as failed. File systems of many machines take a while."""
    known = {shard.name: shard for shard in todo}
    waiting = done
    for number in range(TRIES):
        waiting = [receipt for receipt in waiting if folder.receipt(known[receipt.name]) is None]
        if not waiting:
            return done, []
        if number < TRIES - 1:
            time.sleep(WAIT)
    what = "a worker wrote it, and it cannot be seen from here"
    advice = "The output folder must be on a file system that all machines share."
    error = {one.name: str(DataError(what, path=folder.path / one.name, advice=advice)) for one in waiting}
    return [one for one in done if one.name not in error], [replace(one, error=error[one.name]) for one in waiting]


def _check(job: Job, form: str | None) -> None:
    known = sorted(set(ENDINGS.values()))
    for name in (form, job.to):
        if name is not None and name not in known:
            raise DataError(
                f"shards are {' or '.join(known)}, not {name!r}", advice="Convert them: nestree data convert."
            )
    if job.options.trees and job.to != "jsonl":
        raise DataError("trees are written as JSON Lines only", advice="Use --to jsonl.")
    try:
        check_options(job.options, read_folder(job.model).config)
    except ValueError as error:
        raise DataError(
            first_line(error), path=job.model, advice="Nothing was begun; ask for something else."
        ) from None


def _within(files: list[Path], root: Path, output: Path) -> list[Path]:
    for file in files:
        if not file.is_relative_to(root):
            what = f"this folder was begun with inputs in {root}, where names begin, and {file} is not there"
            raise DataError(what, path=output, advice="Name another output folder, or start over with --force.")
    return files


def _check_shards(listed: list[Shard], job: Job) -> None:
    for shard in listed:
        if os.path.realpath(job.output / shard.name) == os.path.realpath(shard.source):
            raise DataError("the output would replace its input", path=shard.source, advice="Name another folder.")


def _say_before(folder: OutputFolder, listed: list[Shard], todo: list[Shard], say: Callable[[str], None]) -> None:
    changed = [shard for shard in todo if folder.was_done(shard)]
    for shard in changed[:3]:
        say(f"{shard.name}: its input or output has changed since it was done; it is done again")
    if len(changed) > 3:
        say(f"and {len(changed) - 3} others")
    lost = folder.without_source(shard.name for shard in listed)
    if lost:
        say(f"{folder.path}: the inputs of {len(lost)} outputs are not there any more, {lost[0]} for one; they stay")
    if len(todo) < len(listed):
        say(f"{folder.path}: {len(listed) - len(todo)} of {len(listed)} shards are done already")
