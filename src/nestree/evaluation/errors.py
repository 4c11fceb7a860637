"""Which errors there are: the paper's error table (its Table 3), and a page of the errors themselves, drawn.

Errors are counted as :mod:`nestree.evaluation.metrics` counts: an entity is its place and its label, each once. They
come as documents do, one by one, and only the most confident ones are kept.

**Kinds of errors.** What gold and prediction share is right. Of the rest, each entity belongs to one error:

- *wrong label*: one of gold and a predicted one at the same place;
- *wrong boundary*: one of gold and a predicted one with the same label that overlap; those that overlap most go
  together first;
- *missed*: one of gold that is left; *spurious*: a predicted one that is left.

**The confidence of an error** is the score of its predicted entity. Of a missed one, documents do not say how probable
it was; but a tree that holds an entity holds none that crosses it, and one label at a place. So the highest score of
such a rival is the least probability with which the model took the missed one to be absent, and that is its confidence.
Where nothing is known, an error stands among those with ½.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from nestree.data.model import Document, Entity, Range
from nestree.data.policies import crosses
from nestree.evaluation.metrics import Key, Place

MISSED, SPURIOUS, WRONG_LABEL, WRONG_BOUNDARY = KINDS = ("missed", "spurious", "wrong label", "wrong boundary")


class Error(NamedTuple):
    """An error: its kind, what gold has, what was predicted, and how sure the model was, if that is known."""

    kind: str
    gold: Entity | None
    predicted: Entity | None
    confidence: float | None

    @property
    def label(self) -> str:
        """The label it is listed under: that of gold, or of a spurious entity its own."""
        entity = self.gold or self.predicted
        assert entity is not None
        return entity.label

    @property
    def characters(self) -> Range:
        """The characters it is about."""
        both = [entity for entity in (self.gold, self.predicted) if entity is not None]
        return min(entity.start for entity in both), max(entity.end for entity in both)

    @property
    def rank(self) -> float:
        """Its confidence, or ½."""
        return 0.5 if self.confidence is None else self.confidence


def find_errors(gold: Document, predicted: Document) -> list[Error]:
    """The errors of a document, the most confident first; see the top of this module for what is one."""
    wanted, found = entities_of(gold), entities_of(predicted)
    missing = sorted((entity for key, entity in wanted.items() if key not in found), key=order_of)
    extra = sorted((entity for key, entity in found.items() if key not in wanted), key=order_of)
    pairs = [(WRONG_LABEL, *pair) for pair in _at_same_place(missing, extra)]
    missing, extra = _without(missing, extra, pairs)
    pairs += [(WRONG_BOUNDARY, *pair) for pair in _overlapping(missing, extra)]
    missing, extra = _without(missing, extra, pairs)
    rivals = _ByStart(found.values())
    errors = [
        *(Error(kind, one, other, score_of(other)) for kind, one, other in pairs),
        *(Error(MISSED, one, None, _absence(one, rivals)) for one in missing),
        *(Error(SPURIOUS, None, other, score_of(other)) for other in extra),
    ]
    return sorted(errors, key=lambda error: (-error.rank, error.characters))


def entities_of(document: Document) -> dict[Key, Entity]:
    """The entities of a document by what makes them the same; of equal ones the first."""
    found: dict[Key, Entity] = {}
    for entity in document.entities:
        found.setdefault((place_of(entity), entity.label), entity)
    return found


def place_of(entity: Entity) -> Place:
    """Where an entity stands."""
    return entity.start, entity.end, entity.fragments


def order_of(entity: Entity) -> tuple[Any, ...]:
    """The same order wherever entities come from: by place, the surest first."""
    return *place_of(entity), -(score_of(entity) or 0.0), entity.label


def score_of(entity: Entity) -> float | None:
    """Its score; None if there is none, or nothing that can be compared."""
    return entity.score if entity.score is not None and entity.score == entity.score else None


def _at_same_place(missing: Iterable[Entity], extra: Iterable[Entity]) -> Iterator[tuple[Entity, Entity]]:
    there = {place: list(same) for place, same in groupby(extra, key=place_of)}
    for entity in missing:
        if others := there.get(place_of(entity)):
            yield entity, others.pop(0)


def _overlapping(missing: Iterable[Entity], extra: Iterable[Entity]) -> Iterator[tuple[Entity, Entity]]:
    """Pairs with the same label that share characters; those that share most of what they cover together first."""
    by_start = _ByStart(extra)
    candidates = []
    for one in missing:
        for other in by_start.touching(one):
            if one.label == other.label:
                common = min(one.end, other.end) - max(one.start, other.start)
                covered = max(one.end, other.end) - min(one.start, other.start)
                candidates.append((-common / covered, order_of(one), order_of(other), one, other))
    taken: set[tuple[bool, Entity]] = set()
    for *_, one, other in sorted(candidates):
        if (True, one) not in taken and (False, other) not in taken:
            taken |= {(True, one), (False, other)}
            yield one, other


def _without(
    missing: list[Entity], extra: list[Entity], pairs: list[tuple[str, Entity, Entity]]
) -> tuple[list[Entity], list[Entity]]:
    some, others = {one for _, one, _ in pairs}, {other for _, _, other in pairs}
    return [one for one in missing if one not in some], [one for one in extra if one not in others]


def _absence(missed: Entity, rivals: _ByStart) -> float | None:
    """The least probability that a missed entity is absent, from predicted ones that no tree holds beside it."""
    scores = (
        score_of(other)
        for other in rivals.touching(missed)
        if crosses(missed, other) or (missed.start, missed.end) == (other.start, other.end)
    )
    return max((score for score in scores if score is not None), default=None)


class _ByStart:
    """Entities in the order of the text, to be asked for those that share characters with another."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self.entities = sorted(entities, key=order_of)
        self.starts = [entity.start for entity in self.entities]
        self.longest = max((entity.end - entity.start for entity in self.entities), default=0)

    def touching(self, entity: Entity) -> Iterator[Entity]:
        first = bisect_left(self.starts, entity.start - self.longest)
        for other in self.entities[first : bisect_left(self.starts, entity.end)]:
            if entity.start < other.end:
                yield other
