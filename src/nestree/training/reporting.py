"""A report at a run's end: curves and tables for people."""

from __future__ import annotations

from collections.abc import Callable

from nestree.data.statistics import compared
from nestree.drawing.page import Table
from nestree.training.config import TrainConfig
from nestree.training.data import Corpus
from nestree.training.folder import RunFolder
from nestree.training.report import write_report


def report_run(folder: RunFolder, corpus: Corpus, config: TrainConfig, say: Callable[[str], None]) -> None:
    """Writes the report of a run; that it cannot be written does not spoil the model."""
    data = Table(["", "train", "dev"], compared([corpus.train.statistics, corpus.dev.statistics]))
    try:
        title = f"Training of {folder.path.resolve().name}"
        found = write_report(folder.training, title=title, settings=config.as_dict(), data=data)
    except OSError as error:
        say(f"note: the report could not be written ({error})")
        return
    for note in found.notes:
        say(f"note: {note}")
