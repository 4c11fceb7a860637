"""What was noticed on the way, and what was done about it: nothing happens to data without being counted here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple


class Note(NamedTuple):
    """One thing that was noticed: its kind, where (``file:line``), what it is, and what was done ("" if nothing)."""

    kind: str
    place: str
    message: str
    action: str = ""

    def __str__(self) -> str:
        done = f" ({self.action})" if self.action else ""
        return (
            f"{self.place}: {self.kind}: {self.message}{done}" if self.place else f"{self.kind}: {self.message}{done}"
        )


class Report:
    """Collects notes. Every note is counted; of each kind the first ``keep`` are kept.

    Args:
        keep: how many of each kind; memory must not grow with the corpus.
    """

    def __init__(self, keep: int = 1000) -> None:
        self.keep = keep
        self.counts: Counter[str] = Counter()
        self.actions: Counter[tuple[str, str]] = Counter()
        self._kept: dict[str, list[Note]] = {}

    def add(self, note: Note) -> None:
        """Counts a note, and keeps it if there is room."""
        self.counts[note.kind] += 1
        if note.action:
            self.actions[note.kind, note.action] += 1
        kept = self._kept.setdefault(note.kind, [])
        if len(kept) < self.keep:
            kept.append(note)

    def note(self, kind: str, place: str, message: str, action: str = "") -> None:
        """The same, from its parts."""
        self.add(Note(kind, place, message, action))

    def __iter__(self) -> Iterator[Note]:
        """The kept notes, kind by kind."""
        for notes in self._kept.values():
            yield from notes

    def of(self, kind: str) -> list[Note]:
        """The kept notes of a kind."""
        return self._kept.get(kind, [])

    def summary(self) -> list[str]:
        """A line for each kind, and for what was done."""
        lines = []
        for kind, count in self.counts.most_common():
            done = [f"{number} {action}" for (of, action), number in self.actions.items() if of == kind]
            lines.append(f"{kind}: {count}" + (f" ({', '.join(done)})" if done else ""))
        return lines
