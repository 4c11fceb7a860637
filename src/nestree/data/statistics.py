"""Counts over a corpus: the paper's Table 1, and what else tells how hard it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nestree.data.model import Document, Entity
from nestree.data.policies import crossing_pairs


@dataclass
class Statistics:
    """What a corpus holds.

    An entity is counted as nested, as in the paper's Table 1, if it lies within another listed entity or holds one;
    another is one that differs in span or label. Duplicates are counted as they are listed.
    """

    documents: int = 0
    sentences: int = 0
    nested_sentences: int = 0
    words: int = 0
    entities: int = 0
    nested_entities: int = 0
    duplicates: int = 0
    same_span: int = 0
    crossing_pairs: int = 0
    discontinuous: int = 0
    off_tokens: int = 0
    across_sentences: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    depths: Counter[int] = field(default_factory=Counter)
    sentence_lengths: Counter[int] = field(default_factory=Counter)
    entity_lengths: Counter[int] = field(default_factory=Counter)

    def add(self, document: Document) -> None:
        """Counts a document, which must have words and sentences."""
        assert document.tokens is not None
        assert document.sentences is not None
        self.documents += 1
        self.sentences += len(document.sentences)
        self.words += len(document.tokens)
        self.sentence_lengths.update(end - start for start, end in document.sentences)
        entities = document.entities
        self.entities += len(entities)
        if not entities:
            return
        self.labels.update(entity.label for entity in entities)
        self.discontinuous += sum(bool(entity.fragments) for entity in entities)
        self.off_tokens += sum(entity.token_start is None for entity in entities)
        self.entity_lengths.update(end - start for start, end in _in_words(document))
        distinct = {(entity.start, entity.end, entity.label) for entity in entities}
        self.duplicates += len(entities) - len(distinct)
        spans = Counter((start, end) for start, end, _ in distinct)
        self.same_span += sum(count > 1 for count in spans.values())
        self.crossing_pairs += sum(1 for _ in crossing_pairs(entities))
        nested, depths = nesting(entities)
        self.nested_entities += sum(nested)
        self.depths.update(depths)
        self._sentences(document, nested)

    def _sentences(self, document: Document, nested: list[bool]) -> None:
        assert document.sentences is not None
        owner = [number for number, (start, end) in enumerate(document.sentences) for _ in range(start, end)]
        touched = dict(enumerate(_in_words(document)))
        self.across_sentences += sum(end > start and owner[start] != owner[end - 1] for start, end in touched.values())
        with_nested = {owner[start] for number, (start, end) in touched.items() if nested[number] and end > start}
        self.nested_sentences += len(with_nested)

    @property
    def average_length(self) -> float:
        """Words per sentence."""
        return self.words / self.sentences if self.sentences else 0.0

    @property
    def depth(self) -> int:
        """How many entities stand in each other, at most."""
        return max(self.depths, default=0)

    def as_dict(self) -> dict[str, Any]:
        """All counts, for JSON."""
        plain = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        lengths, spans = self.sentence_lengths, self.entity_lengths
        return {
            **plain,
            "average_length": round(self.average_length, 4),
            "longest_sentence": max(lengths, default=0),
            "words_per_entity": round(mean(spans), 4),
            "longest_entity": max(spans, default=0),
            "depth": self.depth,
            "labels": dict(self.labels.most_common()),
            "depths": {str(depth): self.depths[depth] for depth in sorted(self.depths)},
            "sentence_lengths": {str(size): lengths[size] for size in sorted(lengths)},
            "entity_lengths": {str(size): spans[size] for size in sorted(spans)},
        }


def count(documents: Iterable[Document]) -> Statistics:
    """The statistics of documents that have words."""
    found = Statistics()
    for document in documents:
        found.add(document)
    return found


def mean(counts: Counter[int]) -> float:
    """The mean of counted numbers."""
    return sum(value * number for value, number in counts.items()) / max(1, counts.total())


def quantile(counts: Counter[int], share: float) -> int:
    """The smallest number that so many are not larger than."""
    seen, total = 0, counts.total()
    for value in sorted(counts):
        seen += counts[value]
        if seen >= share * total:
            return value
    return 0


def _in_words(document: Document) -> list[tuple[int, int]]:
    """The tokens of each entity; those it touches, if it is not on their borders."""
    assert document.tokens is not None
    return [entity.tokens or document.tokens.touched(entity.start, entity.end) for entity in document.entities]


def nesting(entities: Iterable[Entity]) -> tuple[list[bool], list[int]]:
    """For each entity, whether it stands in a different one or holds one, and how deep it stands (1: in no other)."""
    listed = list(entities)
    nested, depths = [False] * len(listed), [1] * len(listed)
    active: list[int] = []
    for number in sorted(range(len(listed)), key=lambda one: (listed[one].start, -listed[one].end)):
        start, end, label = listed[number][:3]
        active = [other for other in active if listed[other].end > start]
        for other in active:
            outer = listed[other]
            if outer.end < end:
                continue  # they cross
            if (outer.start, outer.end, outer.label) != (start, end, label):
                nested[number] = nested[other] = True
            if (outer.start, outer.end) != (start, end):
                depths[number] = max(depths[number], depths[other] + 1)
        active.append(number)
    return nested, depths


def compared(found: Sequence[Statistics]) -> list[list[str]]:
    """Rows of a table: what is counted, then how much of it each corpus has."""
    rows: list[list[str]] = []

    def row(name: str, value: Any) -> None:
        rows.append([name, *(_cell(value(one)) for one in found)])

    row("documents", lambda one: one.documents)
    row("sentences", lambda one: one.sentences)
    row("  with nested entities", lambda one: one.nested_sentences)
    row("entities", lambda one: one.entities)
    row("  nested", lambda one: one.nested_entities)
    row("words per sentence", lambda one: one.average_length)
    row("  median, 99%, longest", lambda one: _quantiles(one.sentence_lengths))
    row("words per entity", lambda one: mean(one.entity_lengths))
    row("  median, 99%, longest", lambda one: _quantiles(one.entity_lengths))
    row("depth of nesting", lambda one: one.depth)
    for depth in range(1, max((one.depth for one in found), default=0) + 1):
        row(f"  entities at depth {depth}", lambda one, depth=depth: one.depths[depth])
    row("labels", lambda one: len(one.labels))
    for label in dict.fromkeys(label for one in found for label, _ in one.labels.most_common()):
        row(f"  {label}", lambda one, label=label: one.labels[label])
    row("crossing pairs", lambda one: one.crossing_pairs)
    row("spans with several labels", lambda one: one.same_span)
    row("duplicates", lambda one: one.duplicates)
    row("discontinuous", lambda one: one.discontinuous)
    row("off token boundaries", lambda one: one.off_tokens)
    row("across sentences", lambda one: one.across_sentences)
    return rows


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def _quantiles(counts: Counter[int]) -> str:
    return f"{quantile(counts, 0.5)}, {quantile(counts, 0.99)}, {max(counts, default=0)}"
