"""The folder of a run: the best model in it, and under ``training/`` everything about how it came to be."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nestree.data.files import written_bytes
from nestree.model.folder import ENCODER, EXPORTED, MEMBERS, METRICS, SETTINGS, WEIGHTS
from nestree.training import checkpoints
from nestree.training.config import TrainConfig, read_config
from nestree.training.data import Corpus
from nestree.training.errors import TrainingError
from nestree.training.state import Result

MARGINALS, ABOUT, UNFINISHED = "teacher.f32", "teacher.json", ".unfinished"
KEPT = (MARGINALS, ABOUT, f"{MARGINALS}{UNFINISHED}")
"""Files that an objective may keep in a run's folder as long as the run lasts."""
OWN = {"config.toml", "run.json", "result.json", "metrics.jsonl", "checkpoints", *KEPT}
OWN |= {"tensorboard", "report.html", "curves.png"}
"""What a run writes into the folder about itself."""
TAKEN = ("config.json", WEIGHTS, EXPORTED, METRICS, ENCODER, MEMBERS)
"""What a folder of ours can have beside that, and what must not be somebody else's."""
MAY_CHANGE = {"device", "checkpoint_every", "log_every", "tensorboard", "budget"}
"""Settings with which a run can go on though they differ."""


class RunFiles:
    """Paths of a run of any kind, and what is written to them.

    Args:
        path: where the run leaves its result.
        work: the folder in it for everything about the run.
    """

    def __init__(self, path: Path, work: str) -> None:
        self.path = path
        self.work = path / work
        self.checkpoints = self.work / "checkpoints"
        self.metrics = self.work / "metrics.jsonl"
        self._config = self.work / "config.toml"
        self._run = self.work / "run.json"
        self._result = self.work / "result.json"

    def check_writable(self) -> None:
        """Makes the folder, if it is not there; an error that says why it cannot be."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(f"{self.path} cannot be made ({error.strerror}). Name another --output.") from None
        if not os.access(self.path, os.W_OK):
            raise TrainingError(f"nothing can be written to {self.path}. Name another --output.")

    @contextmanager
    def only_if_it_begins(self) -> Iterator[None]:
        """Takes the folder away again if an error comes before anything is written to it."""
        try:
            yield
        except BaseException:
            with suppress(OSError):  # there is something in it
                self.path.rmdir()
            raise

    def replace(self) -> None:
        """Forgets a run that was here; what it left stays until there is something new."""
        checkpoints.clear(self.checkpoints)
        shutil.rmtree(self.work / "tensorboard", ignore_errors=True)
        for path in (self.metrics, self._config, self._run, self._result):
            path.unlink(missing_ok=True)

    def write_down(self, config: str, run: Mapping[str, Any]) -> None:
        """Writes down settings, as TOML, and all else that there is to know before the first step."""
        self.work.mkdir(parents=True, exist_ok=True)
        write_text(self._config, config)
        write_text(self._run, json.dumps(run, indent=2) + "\n")

    @property
    def begun(self) -> bool:
        """Whether there is a run here."""
        return self._config.is_file() and self._run.is_file()

    def is_free(self) -> bool:
        """Whether the folder about the run is none, or holds no more than what a run left that never came to begin."""
        if not self.work.is_dir():
            return not self.work.exists()
        return not self.begun and all(one.name in OWN or one.name.startswith(".") for one in self.work.iterdir())

    @property
    def run(self) -> dict[str, Any]:
        """What was written down beside the settings."""
        try:
            found: dict[str, Any] = json.loads(self._run.read_text(encoding="utf-8"))
        except ValueError:
            raise TrainingError(f"{self._run} is damaged: this run cannot go on. --force begins anew.") from None
        return found

    def check_settings(self, before: Mapping[str, Any], now: Mapping[str, Any], but: Collection[str]) -> None:
        """Refuses to go on with other settings, but for some."""
        changed = [name for name in now if name not in but and now[name] != before[name]]
        if changed:
            which = ", ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in changed)
            raise TrainingError(
                f"{self.path}: the run cannot go on with other settings: {which}. Leave them as they were."
            )

    def log(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Adds lines to metrics.jsonl: all of them, or none."""
        text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        size = self.metrics.stat().st_size if self.metrics.is_file() else 0
        try:
            with self.metrics.open("ab") as stream:
                stream.write(text.encode("utf-8", "surrogatepass"))
        except OSError:
            with suppress(OSError):
                os.truncate(self.metrics, size)
            raise

    def clean(self) -> None:
        """Removes what a run that was killed left half-written."""
        checkpoints.clean(self.checkpoints)
        for path in self.path.glob(".saving-*"):
            shutil.rmtree(path, ignore_errors=True)

    def forget_after(self, step: int) -> None:
        """Removes what metrics.jsonl says of steps that will be done again."""
        if not self.metrics.is_file():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (ValueError, KeyError):
                continue  # half a line, from when the run was stopped
        write_text(self.metrics, "".join(kept))

    def finish(self, result: Mapping[str, Any]) -> None:
        """Says how it ended; checkpoints are not needed any more."""
        write_text(self._result, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        checkpoints.clear(self.checkpoints)

    def result(self) -> dict[str, Any] | None:
        """How the run ended, or None if it did not."""
        if not self._result.is_file():
            return None
        found: dict[str, Any] = json.loads(self._result.read_text(encoding="utf-8"))
        return found


class RunFolder(RunFiles):
    """The folder of a training run.

    Args:
        path: the run's folder.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "training")
        self.training = self.work

    def check_place(self, *, force: bool) -> None:
        """Refuses a folder in which something would be lost: ``force`` replaces runs, and nothing else."""
        if self.path.is_file():
            raise TrainingError(f"{self.path} is a file; --output names a folder.")
        if self.begun and not force:
            raise TrainingError(
                f"{self.path} holds a run already. --resume goes on with it, --force replaces it; or name another."
            )
        if self.begun:
            return
        if (self.path / SETTINGS).exists():
            raise TrainingError(f"{self.path} holds a model, and not the run that made it. Name another --output.")
        taken = [name for name in TAKEN if (self.path / name).exists()] + [self.work.name] * (not self.is_free())
        if taken:
            raise TrainingError(
                f"{self.path} holds what no run of nestree left there ({', '.join(taken)}), and a run would write over "
                "it. Name another --output."
            )

    def finished(self) -> Result | None:
        """How the run ended, wherever its folder is now; None if it did not."""
        found = self.result()
        return None if found is None else Result(**{**found, "folder": str(self.path)})

    # --- What a run is ---

    def begin(
        self,
        config: TrainConfig,
        corpus: Corpus,
        machine: Mapping[str, Any],
        objective: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes down settings, versions, data and what is to be made small before the first step."""
        run = _described(corpus, machine) | ({"objective": dict(objective)} if objective else {})
        if Path(config.encoder).is_dir():
            run["encoder_fingerprint"] = encoder_fingerprint(Path(config.encoder))
        self.write_down(config.updated({"encoder": resolved(config.encoder)}).as_toml(), run)

    def remember(self, config: TrainConfig, corpus: Corpus, objective: Mapping[str, Any]) -> None:
        """Where encoder, data and teachers are, as a run that goes on was told: they may be elsewhere by now."""
        run, before = self.run, self.config()
        now = run | {"data": _described_data(corpus)} | ({"objective": dict(objective)} if objective else {})
        if now != run:
            write_text(self._run, json.dumps(now, indent=2) + "\n")
        if before.encoder != resolved(config.encoder):
            write_text(self._config, before.updated({"encoder": resolved(config.encoder)}).as_toml())

    def config(self) -> TrainConfig:
        """The settings of the run that is here."""
        return TrainConfig().updated(read_config(self._config), str(self._config))

    def data(self) -> dict[str, Any]:
        """Paths and fingerprints of the data of the run that is here."""
        data: dict[str, Any] = self.run["data"]
        return data

    def check_same(self, config: TrainConfig, corpus: Corpus, objective: Mapping[str, Any] | None = None) -> None:
        """Refuses to go on with other settings, other data or another objective."""
        self.check_config(config)
        before, now = self.run.get("objective", {}).get("same", {}), dict(objective or {}).get("same", {})
        if before != now:
            if not now:
                raise TrainingError(
                    f"{self.path}: this run is a distillation; `nestree distil --output {self.path} --resume` goes on "
                    "with it."
                )
            changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
            raise TrainingError(
                f"{self.path}: what is learned besides the annotation is not what the run began with: "
                f"{', '.join(changed)}. --force begins anew with it."
            )
        for name, part in (("train", corpus.train), ("dev", corpus.dev)):
            if self.data()[name]["fingerprint"] != part.fingerprint:
                raise TrainingError(
                    f"{part.path} is not the {name} data that the run in {self.path} began with; "
                    "--force begins anew with it."
                )

    def check_config(self, config: TrainConfig) -> None:
        """Refuses to go on with other settings."""
        now = config.as_dict() | {"encoder": resolved(config.encoder)}
        moved = {"encoder"} if self._is_elsewhere(config.encoder) else set()
        self.check_settings(self.config().as_dict(), now, MAY_CHANGE | moved)

    def _is_elsewhere(self, encoder: str) -> bool:
        """Whether this is the folder of the encoder that the run began with, wherever that was then."""
        known = self.run.get("encoder_fingerprint")
        return known is not None and Path(encoder).is_dir() and known == encoder_fingerprint(Path(encoder))


def encoder_fingerprint(folder: Path) -> str:
    """SHA-256 over configuration and weights."""
    digest = hashlib.sha256()
    for file in sorted([folder / "config.json", *folder.glob("*.safetensors")]):
        if file.is_file():
            with file.open("rb") as stream:
                digest.update(file.name.encode() + hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def resolved(encoder: str) -> str:
    """A folder's whole path, so that the run can go on from anywhere; names stay as they are."""
    return str(Path(encoder).resolve()) if Path(encoder).is_dir() else encoder


def _described(corpus: Corpus, machine: Mapping[str, Any]) -> dict[str, Any]:
    return {"machine": dict(machine), "labels": list(corpus.labels), "data": _described_data(corpus)}


def _described_data(corpus: Corpus) -> dict[str, Any]:
    return {
        name: {
            "files": [
                {"path": str(Path(one.path).resolve()), "format": one.format, "options": dict(one.options)}
                for one in part.files
            ],
            "fingerprint": part.fingerprint,
            "sentences": part.statistics.sentences,
            "entities": part.statistics.entities,
        }
        for name, part in (("train", corpus.train), ("dev", corpus.dev))
    }


def write_text(path: Path, text: str) -> None:
    """Writes a file that is there whole or not at all."""
    with written_bytes(path) as stream:
        stream.write(text.encode("utf-8", "surrogatepass"))
