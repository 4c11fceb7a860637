"""What a model finds in a text, as people use it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args, overload

from nestree.data import Document, Entity
from nestree.data.model import Range
from nestree.model.alternatives import Tree

Flat = Literal["outermost", "innermost", "best"]
FLAT: tuple[str, ...] = get_args(Flat)
Threshold = float | Mapping[str, float]


class PredictedEntity(NamedTuple):
    """An entity that a model found.

    Attributes:
        text: as it stands in the text.
        label: what it is.
        start: its first character in the text; of a list of words, its first word.
        end: the character, or word, after its last one.
        score: the exact marginal probability of span and label.
        depth: 1 for entities that are in no other, 2 for those within one, and so on.
        parent: the number, in the same list, of the smallest entity that it lies within; None if there is none.
        token_start: its first word.
        token_end: the word after its last one.
    """

    text: str
    label: str
    start: int
    end: int
    score: float
    depth: int
    parent: int | None
    token_start: int
    token_end: int


class TreeNode(NamedTuple):
    """A node of the tree of a sentence: where it is, as of an entity; its label, None if it is latent; its probability.

    Every word is a node, and so is the sentence.
    """

    start: int
    end: int
    label: str | None
    score: float


class Alternative(NamedTuple):
    """One of the most probable trees of a sentence: its exact probability, and its nodes, without scores of their own.

    Of a node (start, end, label) the label is None if it is latent; places are as of an entity.
    """

    probability: float
    nodes: tuple[tuple[int, int, str | None], ...]


@dataclass(frozen=True)
class Prediction(Sequence[PredictedEntity]):
    """The entities of one text, outer ones before those within them; a sequence of them.

    Attributes:
        document: the text with its words, sentences and entities, as every writer of ``nestree.data`` takes it.
        entities: what was found.
        windowed: ranges of characters (or words) of sentences that were too long to be read at once, and were read in
            windows that overlap. Nothing is cut off.
        trees: of each sentence the nodes of its tree, if they were asked for; of sentences read in windows, what is
            left of the windows' trees.
        alternatives: of each sentence its most probable trees, the best first, if they were asked for; none of
            sentences read in windows.
    """

    document: Document
    entities: tuple[PredictedEntity, ...]
    windowed: tuple[Range, ...] = ()
    trees: tuple[tuple[TreeNode, ...], ...] | None = None
    alternatives: tuple[tuple[Alternative, ...], ...] | None = None

    @property
    def text(self) -> str:
        """The text, as it was given; of a list of words, the words joined by spaces."""
        return self.document.text

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were read."""
        return self.document.words

    @overload
    def __getitem__(self, index: int) -> PredictedEntity: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PredictedEntity, ...]: ...
    def __getitem__(self, index: int | slice) -> PredictedEntity | tuple[PredictedEntity, ...]:
        return self.entities[index]

    def __len__(self) -> int:
        return len(self.entities)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        found: dict[str, Any] = {
            "text": self.text,
            "entities": [entity._asdict() for entity in self.entities],
            "windowed": [list(one) for one in self.windowed],
        }
        if self.trees is not None:
            found["trees"] = [[node._asdict() for node in tree] for tree in self.trees]
        if self.alternatives is not None:
            found["alternatives"] = [
                [{"probability": one.probability, "nodes": [list(node) for node in one.nodes]} for one in trees]
                for trees in self.alternatives
            ]
        return found


def nested(document: Document, entities: Iterable[Entity], *, in_words: bool) -> tuple[PredictedEntity, ...]:
    """Entities with their depth and parent, outer ones first."""
    order = sorted(entities, key=lambda one: (one.start, -one.end, -(one.score or 0.0), one.label))
    found: list[PredictedEntity] = []
    around: list[int] = []  # the entities that are not over yet, outermost first
    for entity in order:
        while around and not _within(entity, order[around[-1]]):
            around.pop()
        inside = [at for at in around if (order[at].start, order[at].end) != (entity.start, entity.end)]
        parent = inside[-1] if inside else None
        first, last = entity.token_start or 0, entity.token_end or 0
        found.append(
            PredictedEntity(
                text=document.text[entity.start : entity.end],
                label=entity.label,
                start=first if in_words else entity.start,
                end=last if in_words else entity.end,
                score=entity.score or 0.0,
                depth=1 if parent is None else found[parent].depth + 1,
                parent=parent,
                token_start=first,
                token_end=last,
            )
        )
        around.append(len(found) - 1)
    return tuple(found)


def flattened(entities: Sequence[Entity], how: Flat) -> tuple[Entity, ...]:
    """Entities of which no two share a word: the outermost or innermost ones, or the best-scoring ones one by one."""
    if how == "best":
        order = sorted(entities, key=lambda one: (-(one.score or 0.0), one.end - one.start, one.start, one.label))
    else:
        outer = how == "outermost"
        order = sorted(
            entities, key=lambda one: ((one.start - one.end) * (1 if outer else -1), -(one.score or 0.0), one.label)
        )
    kept: list[Entity] = []  # by start
    for entity in order:
        at = bisect_left(kept, entity.start, key=lambda one: one.start)
        free_before = at == 0 or kept[at - 1].end <= entity.start
        if free_before and (at == len(kept) or entity.end <= kept[at].start):
            kept.insert(at, entity)
    return tuple(kept)


def check_threshold(threshold: Threshold | None, labels: Iterable[str]) -> dict[str, float] | None:
    """Thresholds by label; those that are not named are left to the model.

    Raises:
        ValueError: one is no probability, or for a label that the model does not have.
    """
    if threshold is None:
        return None
    known = sorted(labels)
    named = dict(threshold) if isinstance(threshold, Mapping) else dict.fromkeys(known, threshold)
    for label, value in named.items():
        if label not in known:
            raise ValueError(f"there is a threshold for {label!r}, and the model has no such label; it has {known}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError(f"the threshold of {label!r} is {value!r}; it is a probability, from 0 to 1.")
    return {label: float(value) for label, value in named.items()}


def _within(inner: Entity, outer: Entity) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def trees_of(document: Document, nodes: Iterable[Iterable[Any]], *, in_words: bool) -> Iterator[tuple[TreeNode, ...]]:
    """The trees of a document's sentences, in characters or words."""
    assert document.tokens is not None
    for (offset, _), tree in zip(document.sentences or (), nodes, strict=True):
        found = []
        for node in tree:
            first, last = node.start + offset, node.end + offset
            start, end = (first, last) if in_words else document.tokens.characters(first, last)
            found.append(TreeNode(start, end, node.label, node.score))
        yield tuple(found)


def alternatives_of(
    document: Document, trees: Iterable[Iterable[Tree]], *, in_words: bool
) -> Iterator[tuple[Alternative, ...]]:
    """The most probable trees of a document's sentences, in characters or words."""
    assert document.tokens is not None
    tokens = document.tokens
    for (offset, _), of_sentence in zip(document.sentences or (), trees, strict=True):
        found = []
        for probability, nodes in of_sentence:
            ranges = [(start + offset, end + offset) for start, end, _ in nodes]
            places = ranges if in_words else [tokens.characters(*one) for one in ranges]
            labels = (label for _, _, label in nodes)
            found.append(
                Alternative(probability, tuple((*place, label) for place, label in zip(places, labels, strict=True)))
            )
        yield tuple(found)
