"""What a worker does, whatever the engine: loads the model once, and reads, predicts and writes shard after shard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from nestree.data import Report
from nestree.data.errors import DataError
from nestree.data.formats import get
from nestree.data.formats.records import write_lines
from nestree.model import NestedNER
from nestree.model.errors import ModelError, first_line
from nestree.model.folder import model_fingerprint
from nestree.prediction.engines.core import predict_batches
from nestree.prediction.engines.folder import ATTEMPTS, OutputFolder, Receipt, TakenOverError
from nestree.prediction.engines.shards import Shard, fingerprint_of
from nestree.prediction.output import as_document, as_object
from nestree.prediction.predict import Options
from nestree.prediction.results import Prediction

Item = TypeVar("Item")
BATCH = 256
"""Documents of a batch; nothing depends on it."""
SECONDS = 1.0
"""Between two words about progress."""


@dataclass(frozen=True)
class Job:
    """What is to be predicted, and how.

    Attributes:
        model: folder of a saved model. On a cluster it must be there on every machine.
        output: folder that outputs are written to, likewise.
        options: as of ``NestedNER.predict``.
        reading: options of the inputs' format; annotation is ignored unless they say otherwise.
        to: "parquet" or "jsonl", the format of outputs; None: that of each input.
        device: "auto", "cpu", "cuda", ...
        run: the name of the run that outputs belong to; ``predict_shards`` sets it.
    """

    model: Path
    output: Path
    options: Options = field(default_factory=Options)
    reading: Mapping[str, str] = field(default_factory=dict)
    to: str | None = None
    device: str = "auto"
    run: str = ""

    @property
    def read_options(self) -> dict[str, str]:
        """Options of the inputs' format. Unless they say otherwise, text is read, and all else becomes meta."""
        return {"annotation": "ignore", **self.reading}

    def settings(self) -> dict[str, Any]:
        """All that outputs depend on; neither device nor budget are of it."""
        options = self.options
        return {
            "model": model_fingerprint(self.model),
            "threshold": dict(options.threshold) if isinstance(options.threshold, Mapping) else options.threshold,
            "flat": options.flat,
            "trees": options.trees,
            "max_words": options.max_words,
            "options of the format": self.read_options,
            "output format": self.to or "that of the input",
        }


class Worker:
    """Does shards. The model is loaded once.

    Args:
        job: what is to be predicted.
        threads: that a CPU may use; None: as many as torch likes.

    Raises:
        DataError: the device is not there, or the model cannot be loaded.
    """

    def __init__(self, job: Job, threads: int | None = None) -> None:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        device = ("cuda" if torch.cuda.is_available() else "cpu") if job.device == "auto" else job.device
        self.job = job
        self.model = _on_device(_loaded(job.model), device)
        self._folder = OutputFolder(job.output, job.run)

    def do(self, shard: Shard, progress: Callable[[int], None] | None = None) -> Receipt:
        """Predicts a shard, unless that is done. What is wrong with it is in the receipt: other shards go on.

        Args:
            shard: the one.
            progress: is told, about once a second, how many of its documents are done.
        """
        found = self._folder.receipt(shard)
        if found is not None:  # by a process that died after it
            return found
        died = self._folder.dead_attempts(shard)
        if died >= ATTEMPTS:
            what = f"{died} processes died over this shard; perhaps memory did not suffice"
            return _failed(
                shard, DataError(what, path=shard.source, advice="Use a smaller --budget or smaller shards.")
            )
        import torch

        try:
            return self._done(shard, died + 1, progress)
        except (DataError, OSError) as error:
            return _failed(shard, error, hopeless=isinstance(error, TakenOverError) or _disk_is_full(error))
        except torch.OutOfMemoryError:
            what = f"the memory of {self.model.device} does not suffice"
            return _failed(shard, DataError(what, path=shard.source, advice="Use a smaller --budget or --max-words."))
        except Exception as error:  # one shard must not take the others with it
            what = f"an error that was not expected, {type(error).__name__}: {first_line(error)}"
            return _failed(shard, DataError(what, path=shard.source, advice="Please report it."))

    def _done(self, shard: Shard, attempt: int, progress: Callable[[int], None] | None) -> Receipt:
        began, counts, report = time.monotonic(), _Counts(progress), Report(keep=3)
        _check_same(shard)
        with self._folder.attempt(shard) as path:
            documents = get(shard.format).read(Path(shard.source), self.job.read_options, report)
            batches = predict_batches(self.model, _lists(documents, BATCH), self.job.options)
            _write(counts.counted(one for batch in batches for one in batch), path, shard.output_format)
            receipt = Receipt(
                shard.name,
                counts.documents,
                counts.entities,
                round(time.monotonic() - began, 3),
                attempt,
                path.stat().st_size,
                notes=tuple(str(note) for note in report),
            )
            self._folder.finish(shard, path, receipt)
        return receipt


def _loaded(folder: Path) -> NestedNER:
    try:
        return NestedNER.from_pretrained(folder)
    except ModelError as error:
        raise DataError(error.what, path=error.path, advice=error.advice) from None
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        advice = "Was it saved to the end, and by this version of nestree?"
        raise DataError(f"the model cannot be loaded: {first_line(error)}", path=folder, advice=advice) from error


def _on_device(model: NestedNER, device: str) -> NestedNER:
    try:
        return model.to(device).eval()
    except (AssertionError, RuntimeError) as error:  # both, by how torch was built
        what = f"the model cannot be moved to the device {device!r}: {first_line(error)}"
        raise DataError(what, advice="Use --device cpu, or leave it out.") from None


def _check_same(shard: Shard) -> None:
    """Refuses another file in the shard's place. Of one that cannot be opened, its reader says more."""
    _, found = fingerprint_of(Path(shard.source))
    if found and found != shard.fingerprint:
        what = "this is not the file that the run began with: it has changed since, or this machine sees another there"
        raise DataError(what, path=shard.source, advice="Run the same command again, with the same files everywhere.")


class _Counts:
    """How many documents and entities went by."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self.documents = self.entities = 0
        self._progress = progress

    def counted(self, found: Iterable[Prediction]) -> Iterator[Prediction]:
        said = time.monotonic()
        for one in found:
            yield one
            self.documents += 1
            self.entities += len(one)
            if self._progress is not None and time.monotonic() - said >= SECONDS:
                self._progress(self.documents)
                said = time.monotonic()


def _write(found: Iterator[Prediction], path: Path, form: str) -> None:
    if form == "jsonl":
        write_lines(map(as_object, found), path)
        return
    write = get(form).write
    assert write is not None
    write(map(as_document, found), path, {}, Report())


def _lists(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _failed(shard: Shard, error: Exception, *, hopeless: bool = False) -> Receipt:
    message = str(error)
    if shard.source not in message:
        message = f"{shard.source}: {message}"
    return Receipt(shard.name, error=message, hopeless=hopeless)


def _disk_is_full(error: BaseException) -> bool:
    """Then the next shard will not fit either."""
    import errno

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
