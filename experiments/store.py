"""Results as small JSON files: one for each training run, one for each other measurement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.runs import Run

RESULTS = Path(__file__).parent / "results"


class Store:
    """The folder of results.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Path = RESULTS) -> None:
        self.folder = folder

    def path(self, run: Run) -> Path:
        """Where the result of a run stands."""
        return self.folder / "runs" / f"{run.name}.json"

    def result(self, run: Run) -> dict[str, Any] | None:
        """The result of a run, or None if there is none."""
        return read_json(self.path(run))

    def has(self, run: Run, parts: frozenset[str]) -> bool:
        """Whether a run has a result with all these parts."""
        found = self.result(run)
        return found is not None and parts <= set(found)

    def runs(self) -> Iterator[tuple[Run, dict[str, Any]]]:
        """All runs that have results."""
        for path in sorted((self.folder / "runs").rglob("*.json")):
            found = read_json(path)
            if found is not None:
                yield Run.from_dict(found["run"]), found

    def other_path(self, name: str) -> Path:
        """Where the JSON of another measurement stands."""
        return self.folder / f"{name}.json"

    def other(self, name: str) -> dict[str, Any] | None:
        """The JSON of another measurement, or None."""
        return read_json(self.other_path(name))

    def others(self, pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Those whose name fits a pattern, with their names."""
        for path in sorted(self.folder.glob(f"{pattern}.json")):
            found = read_json(path)
            if found is not None:
                yield path.relative_to(self.folder).with_suffix("").as_posix(), found


def write_json(path: Path, content: Any) -> None:
    """Writes a file that is there whole or not at all; short lists stand on one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.writing")
    aside.write_text(_pretty(content, 0) + "\n", encoding="utf-8")
    aside.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """What a file holds, or None if there is none."""
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _pretty(value: Any, depth: int) -> str:
    """Indented as far as a person would look; what fits a line stays on it."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + 2 * depth <= 120 or not isinstance(value, dict | list) or not value:
        return flat
    inner = "  " * (depth + 1)
    if isinstance(value, dict):
        rows = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_pretty(one, depth + 1)}" for key, one in value.items()
        ]
        return "{\n" + ",\n".join(rows) + "\n" + "  " * depth + "}"
    return "[\n" + ",\n".join(inner + _pretty(one, depth + 1) for one in value) + "\n" + "  " * depth + "]"
