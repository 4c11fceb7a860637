"""What exports of annotation tools have in common. All count characters, ends exclusive.

What a tool says was not accepted (rejected, skipped, cancelled) is counted and left out, unless it was a question
about spans: then the answer is known, and the rest is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from nestree.data.errors import shown
from nestree.data.formats.base import Record
from nestree.data.model import Admissible, Entity, Range

UNKNOWN_LABEL = "label of regions in which nobody looked for entities; they are no entities"


class Annotation(NamedTuple):
    """What regions of a text say."""

    entities: tuple[Entity, ...] = ()
    unknown: tuple[Range, ...] = ()
    admissible: tuple[Admissible, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Entity], unknown_label: str | None) -> Annotation:
        """Entities, but for those with the label of regions that nobody looked at."""
        spans = list(spans)
        unknown = dict.fromkeys((one.start, one.end) for one in spans if one.label == unknown_label)
        return cls(tuple(one for one in spans if one.label != unknown_label), tuple(unknown))

    def refuted(self) -> Annotation:
        """The same, after somebody said that the entity is not right."""
        excluded = tuple(Admissible(one.start, one.end, (one.label,), excluded=True) for one in self.entities)
        return self._replace(entities=(), admissible=excluded)

    def beside(self, said: dict[str, Any]) -> dict[str, Any]:
        """Fields of a document, with those that a task says by itself."""
        unknown, admissible = said["unknown"] + self.unknown, said["admissible"] + self.admissible
        return {**said, "entities": self.entities, "unknown": unknown, "admissible": admissible}


def parts(record: Record, key: str) -> Iterator[Record]:
    """The objects of a list."""
    for item in record.get(key, list, []):
        if not isinstance(item, dict):
            record.refuse(f"{key!r} must hold objects, found {shown(item)}")
        yield record.part(item)
