"""The folder that a bulk prediction writes to, and how it knows what is done.

::

    part-0.parquet                       an output: it is there when it is complete, and never before
    _nestree/run.json                    model and settings of the run, which others are refused, and a name for it
    _nestree/done/part-0.parquet.json    the marker of a shard that is done: what was read and written
    _nestree/unfinished/part-0.parquet/  one folder for each attempt that is going on, or whose process died

An output gets its name first and its marker after. Whatever dies in between is done again, and the same file is
replaced by the same: every document comes out once. A marker counts in the run that it names alone: a worker that lives
on after --force has begun another one changes nothing. Most readers of folders pass over names that begin with "_".
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nestree.data.errors import DataError
from nestree.prediction.engines.shards import Shard

STATE, ATTEMPT = "_nestree", ".attempt-"
ATTEMPTS = 3
"""So many processes may die over a shard before it is given up: it might be the shard that kills them."""


@dataclass(frozen=True)
class Receipt:
    """What became of a shard.

    Attributes:
        name: of the shard's output.
        documents: how many were read, and written.
        entities: how many were found.
        seconds: how long it took.
        attempts: processes that tried it in this run, the last one successfully.
        output_size: bytes that were written.
        error: why there is no output; None if there is one.
        hopeless: whether every other shard would fail in the same way.
        notes: what was noticed in reading, as lines.
    """

    name: str
    documents: int = 0
    entities: int = 0
    seconds: float = 0.0
    attempts: int = 1
    output_size: int = 0
    error: str | None = None
    hopeless: bool = False
    notes: tuple[str, ...] = ()


class TakenOverError(DataError):
    """The folder belongs to another run now."""


class OutputFolder:
    """The outputs of a run, and what is known about them.

    Args:
        path: where they are.
        run: the name of the run, as ``begin`` has set it for whoever began the run.
    """

    def __init__(self, path: Path, run: str = "") -> None:
        self.path = path
        self.run = run
        self._state = path / STATE

    # --- A run ---

    def check(self) -> None:
        """Refuses a file, and a folder with things in it that no run has written."""
        if self.path.exists() and not self.path.is_dir():
            raise DataError("this is a file, and shards are written to a folder", path=self.path)
        known = (self._state / "run.json").exists()
        if not known and self.path.is_dir() and any(one.name != STATE for one in self.path.iterdir()):
            what = "there is something in this folder, and no run of ours has written it"
            raise DataError(what, path=self.path, advice="Name a new folder.")

    def begin(self, root: Path, settings: Mapping[str, Any], *, again: bool = False) -> Path:
        """Makes the folder ready for a run, or for going on with one; returns the folder in which names begin.

        Args:
            root: the folder in which names of shards begin, if the run is new.
            settings: what the outputs depend on; the same whenever the run goes on.
            again: forget what is done, and start over.

        Raises:
            DataError: the folder holds something else, or a run with other settings, of which something is done.
        """
        run, now = self._state / "run.json", json.loads(json.dumps(dict(settings)))
        if run.exists() and (again or not (self._any_done() or _began_with(run, root, now))):
            self._forget()  # as one that never got anywhere binds nobody
        if not run.exists():
            _write_json(run, {"root": str(root), "run": f"{_digest(now)}-{uuid.uuid4().hex}", "settings": now})
        try:
            before = _read_json(run)
        except (OSError, ValueError):
            advice = "Name another folder, or start over with --force."
            raise DataError("what the folder was begun with cannot be read", path=run, advice=advice) from None
        _compare(self.path, before.get("settings", {}), now)
        self.run = before.get("run", "")
        for name in self._attempted():  # by processes that died in another run, perhaps between name and marker
            if not (self._done / f"{name}.json").exists():
                (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self._unfinished, ignore_errors=True)
        return Path(before.get("root", root))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within it, no other run on this machine writes to the folder. The lock of a process that dies is gone."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        self._state.mkdir(parents=True, exist_ok=True)
        with (self._state / "lock").open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                advice = "Wait for it, or name another folder."
                raise DataError("another run is writing to this folder", path=self.path, advice=advice) from None
            except OSError:  # a file system without locks: going on is as safe as it was without them
                pass
            yield

    def _forget(self) -> None:
        """Removes the outputs that have markers, or that died before they got one, and all markers."""
        for name in [*self._marked(), *self._attempted()]:
            (self.path / name).unlink(missing_ok=True)
        for part in (self._done, self._unfinished):
            shutil.rmtree(part, ignore_errors=True)
        (self._state / "run.json").unlink()

    def without_source(self, known: Iterable[str]) -> list[str]:
        """Outputs that are done and whose inputs are not there any more.

        Args:
            known: outputs whose inputs are there; they are not looked at.
        """
        found = []
        for name in sorted(set(self._marked()) - set(known)):
            with suppress(OSError, ValueError, KeyError, TypeError):
                if not Path(_read_json(self._done / f"{name}.json")["source"]).exists() and (self.path / name).exists():
                    found.append(name)
        return found

    def _any_done(self) -> bool:
        return next(self._marked(), None) is not None

    def _marked(self) -> Iterator[str]:
        for marker in self._done.rglob("*.json"):
            yield marker.relative_to(self._done).as_posix().removesuffix(".json")

    def _attempted(self) -> set[str]:
        """A worker that lives on takes folders away meanwhile: that is no error here."""
        return {
            Path(place).relative_to(self._unfinished).as_posix()
            for place, folders, _ in os.walk(self._unfinished)
            if any(name.startswith(ATTEMPT) for name in folders)
        }

    # --- A shard ---

    def receipt(self, shard: Shard) -> Receipt | None:
        """What the marker of a shard says; None if the shard has to be done.

        It has to, if its input has changed since, if another run wrote it, or if its output is not there as it was
        written.
        """
        try:
            values = _read_json(self._marker(shard))
            found = Receipt(**{**values.pop("receipt"), "notes": ()})
            output = (self.path / shard.name).stat()
        except (OSError, ValueError, KeyError, TypeError):
            return None
        same_input = values.get("fingerprint") == shard.fingerprint and values.get("run", "") == self.run
        return found if same_input and output.st_size == found.output_size else None

    def was_done(self, shard: Shard) -> bool:
        """Whether there is a marker of the shard, even if it has to be done again."""
        return self._marker(shard).exists()

    def dead_attempts(self, shard: Shard) -> int:
        """How many processes have begun the shard in this run, and died."""
        return sum(1 for _ in (self._unfinished / shard.name).glob(f"{ATTEMPT}*"))

    @contextmanager
    def attempt(self, shard: Shard) -> Iterator[Path]:
        """A place to write the shard's output to. It is of no other process, and it goes when this one is done."""
        folder = self._unfinished / shard.name
        mine = folder / f"{ATTEMPT}{uuid.uuid4().hex}"  # named before it is made: no stop comes between the two
        try:
            mine.mkdir(parents=True)
            yield mine / Path(shard.name).name
        finally:
            try:
                _take_away(mine)
            except BaseException:  # a stop that comes here, which rmtree makes an OSError of if it closes a file
                _take_away(mine)
                raise

    def finish(self, shard: Shard, written: Path, receipt: Receipt) -> None:
        """Gives a complete output its name, and then its marker.

        Raises:
            TakenOverError: the folder is not of this run any more; nothing is written.
        """
        target = self.path / shard.name
        target.parent.mkdir(parents=True, exist_ok=True)
        marker = self._marker(shard)
        _to_disk(written)
        self._check_run()
        written.replace(target)
        _to_disk(target.parent)
        values = {
            "source": shard.source,
            "fingerprint": shard.fingerprint,
            "run": self.run,
            "receipt": asdict(receipt),
        }
        marker.parent.mkdir(parents=True, exist_ok=True)
        _write_json(marker, values)

    def _check_run(self) -> None:
        try:
            same = _read_json(self._state / "run.json").get("run", "") == self.run
        except (OSError, ValueError):
            same = False
        if not same:
            advice = "Wait for it, or name another folder."
            raise TakenOverError("another run has taken over this folder", path=self.path, advice=advice)

    def _marker(self, shard: Shard) -> Path:
        return self._done / f"{shard.name}.json"

    @property
    def _done(self) -> Path:
        return self._state / "done"

    @property
    def _unfinished(self) -> Path:
        return self._state / "unfinished"


def _take_away(attempt: Path) -> None:
    shutil.rmtree(attempt, ignore_errors=True)
    with suppress(OSError):  # another attempt may be there
        attempt.parent.rmdir()


def _began_with(run: Path, root: Path, settings: Mapping[str, Any]) -> bool:
    try:
        before = _read_json(run)
    except (OSError, ValueError):
        return False
    return before.get("settings") == settings and before.get("root") == str(root)


def _compare(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses settings that would mix two kinds of outputs in one folder."""
    for name in now:
        if name not in before or before[name] != now[name]:
            if name == "model":
                what = "this folder was begun with another model"
            else:
                what = f"this folder was begun with {name} = {before.get(name)}, and now it is {now[name]}"
            advice = "Use what it was begun with, name another folder, or start over with --force."
            raise DataError(what, path=path, advice=advice)


def _read_json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise ValueError(f"{path}: this is not an object.")
    return found


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    """So that nobody ever reads half of it, not even after the machine went down."""
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.unfinished")
    with unfinished.open("x", encoding="utf-8") as stream:
        stream.write(json.dumps(values, indent=1) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
    _to_disk(path.parent)


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _to_disk(path: Path) -> None:
    """Returns when a file, or the names in a folder, are on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
