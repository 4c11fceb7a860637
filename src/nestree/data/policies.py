"""From what was annotated to what a model can learn: entities on tokens, one label per span, none crossing another.

Policies say what happens to the others. Their names are the same in Python, on the command line and in a saved model.
Nothing is changed or dropped without a note in the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from nestree.data.errors import DataError, shown
from nestree.data.model import Document, Entity, Range, Tokens
from nestree.data.report import Note, Report

Alignment = Literal["strict", "expand", "contract"]
Crossing = Literal["error", "drop_shorter", "drop_later"]
SameSpan = Literal["composite", "first", "error"]
Discontinuous = Literal["error", "cover", "drop"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "alignment": get_args(Alignment),
    "crossing": get_args(Crossing),
    "same_span": get_args(SameSpan),
    "discontinuous": get_args(Discontinuous),
}


@dataclass(frozen=True)
class Policies:
    """What to do with entities that a model cannot hold as they are.

    Attributes:
        alignment: an entity that is not on token boundaries: "strict" is an error, "expand" takes every token it
            touches, "contract" the tokens that lie wholly inside (none: it is dropped).
        crossing: two entities that overlap without nesting: "error", "drop_shorter" or "drop_later" (in the text).
        same_span: several labels on one span: "composite" joins them into one label that is split again on output,
            "first" keeps the first listed, "error".
        discontinuous: an entity of several pieces: "error", "cover" takes all from the first to the last piece,
            "drop".
    """

    alignment: Alignment = "strict"
    crossing: Crossing = "error"
    same_span: SameSpan = "composite"
    discontinuous: Discontinuous = "error"

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} is {value!r}; known are {', '.join(map(repr, known))}.")

    @classmethod
    def choices(cls) -> dict[str, tuple[str, ...]]:
        """The names of the policies, and what each can be."""
        return {item.name: _CHOICES[item.name] for item in fields(cls)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Policies:
        """From names and values, as a saved model or a configuration has them."""
        unknown = sorted(set(values) - set(_CHOICES))
        if unknown:
            raise ValueError(f"unknown policy {unknown[0]!r}; known are {', '.join(_CHOICES)}.")
        return cls(**values)


# --- Several labels on one span --------------------------------------------------------------------------------------

SEPARATOR = "|"


def join_labels(labels: Iterable[str]) -> str:
    """One label that stands for several, whatever their order; ``split_label`` takes it apart again."""
    escaped = (label.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR) for label in sorted(set(labels)))
    return SEPARATOR.join(escaped)


def split_label(label: str) -> tuple[str, ...]:
    """The labels that a joined label stands for; of an ordinary label, that label.

    Inverse of :func:`join_labels`, which must have made the label: in a joined label a backslash protects what follows.
    """
    parts, current, characters = [], "", iter(label)
    for character in characters:
        if character == "\\":
            current += next(characters, "\\")
        elif character == SEPARATOR:
            parts.append(current)
            current = ""
        else:
            current += character
    return (*parts, current)


# --- Applying them ---------------------------------------------------------------------------------------------------


def apply(document: Document, policies: Policies, report: Report | None = None) -> Document:
    """The document with entities that a model can hold: on tokens, contiguous, one label per span, nested or apart.

    Sentences that an entity runs across are joined. Labels of spans with one label stay as they are, unless they
    contain ``|`` or a backslash, which "composite" protects by a backslash.

    Raises:
        DataError: an entity that a policy calls an error, or the document has no tokens.
    """
    if document.tokens is None or document.sentences is None:
        raise DataError("the document has no words yet", path=document.place, advice="Split its text first.")
    report = Report() if report is None else report
    step = _Step(document, policies, report)
    step.join_pieces()
    step.align(document.tokens)
    step.drop_duplicates()
    step.one_label_per_span()
    step.uncross()
    return with_joined_sentences(step.result(), report)


def contiguous(document: Document, policies: Policies, report: Report) -> Document:
    """The document with every entity in one piece, by the policy ``discontinuous``."""
    if not any(entity.fragments for entity in document.entities):
        return document
    step = _Step(document, policies, report)
    step.join_pieces()
    return step.result()


def aligned(document: Document, policies: Policies, report: Report) -> Document:
    """The document, which has tokens, with every entity on them, by the policy ``alignment``."""
    if document.tokens is None or all(entity.token_start is not None for entity in document.entities):
        return document
    step = _Step(document, policies, report)
    step.align(document.tokens)
    return step.result()


class _Step:
    """The entities of a document on their way, each with its number in the file."""

    def __init__(self, document: Document, policies: Policies, report: Report) -> None:
        self.document = document
        self.policies = policies
        self.report = report
        self.entities = [(entity, number) for number, entity in enumerate(document.entities)]

    def result(self) -> Document:
        """The document with the entities that are left, which keep their lines."""
        source, numbers = self.document.source, [number for _, number in self.entities]
        if source is not None and source.entity_lines:
            source = source._replace(entity_lines=tuple(source.entity_lines[number] for number in numbers))
        return replace(self.document, entities=tuple(entity for entity, _ in self.entities), source=source)

    def _note(self, kind: str, number: int, message: str, action: str) -> None:
        self.report.add(Note(kind, self.document.place_of(number), message, action))

    def _refuse(self, number: int, what: str, advice: str) -> DataError:
        source = self.document.source
        line = (source.entity_lines[number] if source.entity_lines else source.line) if source else None
        return DataError(what, path=source.path if source else self.document.id or None, line=line, advice=advice)

    def _says(self, entity: Entity) -> str:
        return f"{shown(self.document.text_of(entity))} {entity.label}"

    def join_pieces(self) -> None:
        """Makes discontinuous entities contiguous, or drops them."""
        kept = []
        for entity, number in self.entities:
            if entity.fragments:
                if self.policies.discontinuous == "error":
                    raise self._refuse(
                        number,
                        f"the entity {self._says(entity)} is in {len(entity.fragments)} pieces",
                        "Choose discontinuous = cover or drop.",
                    )
                action = "covered" if self.policies.discontinuous == "cover" else "dropped"
                self._note("discontinuous", number, self._says(entity), action)
                if action == "dropped":
                    continue
                entity = entity._replace(fragments=())
            kept.append((entity, number))
        self.entities = kept

    def align(self, tokens: Tokens) -> None:
        """Brings entities to token boundaries, or drops those without a token."""
        kept = []
        for entity, number in self.entities:
            if entity.token_start is None:
                exact = tokens.exactly(entity.start, entity.end)
                entity = self._aligned(entity, number, tokens) if exact is None else _on(entity, exact, tokens)
                if entity.token_start is None:
                    continue
            kept.append((entity, number))
        self.entities = kept

    def _aligned(self, entity: Entity, number: int, tokens: Tokens) -> Entity:
        policy = self.policies.alignment
        if policy == "strict":
            first, last = tokens.touched(entity.start, entity.end)
            around = [self.document.text[start:end] for start, end in tokens[first:last]]
            raise self._refuse(
                number,
                f"the entity {self._says(entity)} at [{entity.start}, {entity.end}) is not on token boundaries: "
                f"it touches {shown(around)}",
                "Mend its offsets, or choose alignment = expand or contract.",
            )
        find = tokens.touched if policy == "expand" else tokens.inside
        found = find(entity.start, entity.end)
        if found[0] == found[1]:
            self._note("alignment", number, self._says(entity) + " holds no whole token", "dropped")
            return entity
        before = self._says(entity)
        entity = _on(entity, found, tokens)
        action = "expanded" if policy == "expand" else "contracted"
        self._note("alignment", number, f"{before} becomes {self._says(entity)}", action)
        return entity

    def drop_duplicates(self) -> None:
        """Of equal entities the first stays."""
        seen: set[tuple[Any, ...]] = set()
        kept = []
        for entity, number in self.entities:
            key = (entity.start, entity.end, entity.label)
            if key in seen:
                self._note("duplicate", number, self._says(entity), "dropped")
                continue
            seen.add(key)
            kept.append((entity, number))
        self.entities = kept

    def one_label_per_span(self) -> None:
        """Joins or drops labels where a span has several."""
        by_span: dict[Range, list[tuple[Entity, int]]] = {}
        for entity, number in self.entities:
            by_span.setdefault((entity.start, entity.end), []).append((entity, number))
        composite = self.policies.same_span == "composite"
        kept = []
        for same in by_span.values():
            entity, number = same[0]
            labels = [other.label for other, _ in same]
            if len(same) > 1:
                message = f"{shown(self.document.text_of(entity))} is {' and '.join(labels)}"
                if self.policies.same_span == "error":
                    raise self._refuse(number, message, "Choose same_span = composite or first.")
                action = "joined" if composite else f"kept the first, dropped {len(same) - 1}"
                self._note("same span", number, message, action)
            if composite:
                entity = entity._replace(label=join_labels(labels))
            kept.append((entity, number))
        self.entities = kept

    def uncross(self) -> None:
        """Keeps as many entities as go together, the longer or the earlier ones first."""
        longest_first = self.policies.crossing == "drop_shorter"

        def rank(item: tuple[Entity, int]) -> tuple[int, ...]:
            start, end = item[0].token_start or 0, item[0].token_end or 0
            return (start - end, start, item[1]) if longest_first else (start, -end, item[1])

        pairs = list(crossing_pairs([entity for entity, _ in self.entities]))
        involved = {entity for pair in pairs for entity in pair}  # the others stay whatever happens to these
        dropped: set[int] = set()
        kept: list[Entity] = []
        for entity, number in sorted((item for item in self.entities if item[0] in involved), key=rank):
            other = next((one for one in kept if crosses(one, entity)), None)
            if other is None:
                kept.append(entity)
                continue
            message = f"{self._says(entity)} crosses {self._says(other)}"
            if self.policies.crossing == "error":
                raise self._refuse(number, message, "Choose crossing = drop_shorter or drop_later.")
            self._note("crossing", number, message, "dropped")
            dropped.add(number)
        self.entities = [(entity, number) for entity, number in self.entities if number not in dropped]


def crosses(one: Entity, other: Entity) -> bool:
    """Whether two entities overlap and neither holds the other."""
    return one.start < other.start < one.end < other.end or other.start < one.start < other.end < one.end


def crossing_pairs(entities: Iterable[Entity]) -> Iterator[tuple[Entity, Entity]]:
    """All pairs that overlap and do not nest, the earlier one first."""
    active: list[Entity] = []  # those that reach to where we are
    for entity in sorted(entities, key=lambda one: (one.start, -one.end)):
        active = [other for other in active if other.end > entity.start]
        for other in active:
            if other.start < entity.start and other.end < entity.end:
                yield other, entity
        active.append(entity)


def _on(entity: Entity, tokens: Range, all_tokens: Tokens) -> Entity:
    first, last = tokens
    return entity._replace(
        start=all_tokens[first].start, end=all_tokens[last - 1].end, token_start=first, token_end=last
    )


def with_joined_sentences(document: Document, report: Report) -> Document:
    """The document, whose entities are on its tokens, with sentences joined where an entity runs into the next one."""
    joined: list[Range] = []
    reach: dict[int, int] = {}  # how far the entities that begin in a token go
    for entity in document.entities:
        assert entity.token_start is not None
        assert entity.token_end is not None
        reach[entity.token_start] = max(reach.get(entity.token_start, 0), entity.token_end)
    starts = sorted(reach)
    at, furthest = 0, 0
    for start, end in document.sentences or ():
        if joined and furthest > start:
            joined[-1] = (joined[-1][0], end)
            report.note("sentence border", document.place, f"an entity runs across token {start}", "sentences joined")
        else:
            joined.append((start, end))
        while at < len(starts) and starts[at] < end:
            furthest = max(furthest, reach[starts[at]])
            at += 1
    return replace(document, sentences=tuple(joined))
