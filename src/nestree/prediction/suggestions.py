"""From a pool of text to what is worth annotating next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Literal, get_args

from nestree.data import Document, Splitter, Tokens
from nestree.model import NestedNER
from nestree.prediction.diversity import Candidate, Candidates, diverse, key_of
from nestree.prediction.documents import read_documents, with_spans
from nestree.prediction.reading import MAX_WORDS
from nestree.prediction.results import Threshold, check_threshold
from nestree.prediction.uncertainty import By, Look, check_by, look, mean_vector, merged_looks

Unit = Literal["sentence", "document"]
UNITS: tuple[str, ...] = get_args(Unit)
SUGGESTED = "suggested"
"""The key of a document's ``meta`` under which a suggestion says where it comes from."""


@dataclass(frozen=True)
class SuggestOptions:
    """How to suggest.

    Attributes:
        by: what uncertainty is: the entropy of the "tree", or of its "entities" (:func:`uncertainty.look`), per word;
            left out, "tree", and "entities" for models without trees.
        unit: whether each "sentence" is suggested by itself, or each "document".
        diversity: from 0 (the most uncertain ones, however alike) to 1 (as unlike as can be among the candidates).
        candidates: so many times more than wanted are kept, the most uncertain ones; the suggested are among them.
        min_words: shorter sentences, or documents, are left out.
        threshold: the least probability of entities that are pre-annotated; left out, the model decides.
        max_words: longer sentences are read in windows that overlap.
        budget: padded work of one forward pass; left out, what suits the device.
    """

    by: By | None = None
    unit: Unit = "sentence"
    diversity: float = 0.5
    candidates: int = 5
    min_words: int = 1
    threshold: Threshold | None = None
    max_words: int = MAX_WORDS
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit is {self.unit!r}; known are {', '.join(map(repr, UNITS))}.")
        if not 0 <= self.diversity <= 1:
            raise ValueError(f"diversity is {self.diversity}; it is a number from 0 to 1.")
        for name, least in (("candidates", 1), ("min_words", 1), ("max_words", 8), ("budget", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; it must be {least} at least.")


@dataclass(frozen=True)
class Suggestion:
    """A sentence, or document, that is worth annotating.

    Attributes:
        document: its text with the entities that the model finds, each with its score; ``meta["suggested"]`` says where
            it comes from, and its ``id`` is like no other's.
        uncertainty: in nats per word.
    """

    document: Document
    uncertainty: float


def suggest(
    model: NestedNER,
    pool: Iterable[str | Document],
    k: int = 100,
    *,
    exclude: Iterable[Document] = (),
    **options: Any,
) -> list[Suggestion]:
    """What to annotate next: of a pool of text, what the model is most uncertain of, and not k times the same.

    The pool may be of any size: kept are the most uncertain texts alone. Text without words is split as the model was
    trained to read it. The same pool and model give the same suggestions.

    Args:
        model: a trained model, on any device.
        pool: texts, or documents, whose annotation is not looked at.
        k: how many at most.
        exclude: documents that were annotated already: their sentences, and they themselves, are not suggested.
        **options: of :class:`SuggestOptions`.

    Returns:
        The suggestions in the order of their choice: the first is the most uncertain.

    Raises:
        ValueError: an option makes no sense, or the model has no trees to go by.
    """
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 at least.")
    how = SuggestOptions(**options)
    by = check_by(how.by, model)
    kept = Candidates(how.candidates * k)
    known = excluded(exclude, model.config.splitter)
    for number, (document, looks) in enumerate(_looked_at(model, pool, by, how, known)):
        words = sum(one.words for one in looks)
        uncertainty = sum(one.nats for one in looks) / words
        if kept.admits(document.text, uncertainty):
            annotated = with_spans(document, [one.spans for one in looks])
            kept.add(Candidate(annotated, uncertainty, number, mean_vector(looks)))
    return list(_suggestions(diverse(kept.best(), k, how.diversity), by))


def excluded(documents: Iterable[Document], splitter: Splitter) -> frozenset[bytes]:
    """What stands for the texts of documents, and of their sentences."""
    found = set()
    for document in documents:
        found.add(key_of(document.text))
        found.update(key_of(one.text) for one in sentences_of(splitter.split(document)))
    return frozenset(found)


def sentences_of(document: Document) -> Iterator[Document]:
    """The sentences of a document, which has words, as documents of their own, without annotation."""
    tokens = document.tokens
    assert tokens is not None
    several = len(document.sentences or ()) > 1
    for number, (first, last) in enumerate(document.sentences or (), 1):
        start, end = tokens.characters(first, last)
        starts, ends = ([place - start for place in row[first:last]] for row in (tokens.starts, tokens.ends))
        name = f"{_name(document)}-{number}" if several else _name(document)
        meta = {**document.meta, SUGGESTED: _origin(document, start, end)}
        yield Document(
            document.text[start:end], (), Tokens(starts, ends), ((0, last - first),), name, meta=meta,
            source=document.source,
        )  # fmt: skip


def _looked_at(
    model: NestedNER, pool: Iterable[str | Document], by: By, how: SuggestOptions, known: frozenset[bytes]
) -> Iterator[tuple[Document, list[Look]]]:
    """Each sentence or document of a pool, and what the model makes of its sentences."""
    thresholds = check_threshold(how.threshold, model.config.single_labels)
    of_labels = None if thresholds is None else [thresholds.get(label) for label in model.config.single_labels]
    find: Any = partial(look, model=model, by=by, thresholds=of_labels)
    units = _units(pool, model.config.splitter, how, known)
    settings: dict[str, Any] = {"budget": how.budget, "max_words": how.max_words, "merge": merged_looks}
    for document, found in read_documents(model, find, units, **settings):
        yield document, [one.found for one in found]  # type: ignore[misc]


def _units(
    pool: Iterable[str | Document], splitter: Splitter, how: SuggestOptions, known: frozenset[bytes]
) -> Iterator[Document]:
    """What can be suggested: sentences or documents, with words."""
    cut: Callable[[Document], Iterable[Document]] = sentences_of if how.unit == "sentence" else _whole
    for number, item in enumerate(pool, 1):
        if isinstance(item, str):
            item = Document(item, id=f"text-{number}")
        for one in cut(splitter.split(item)):
            if len(one.tokens or ()) >= how.min_words and key_of(one.text) not in known:
                yield one


def _whole(document: Document) -> Iterable[Document]:
    meta = {**document.meta, SUGGESTED: _origin(document, 0, len(document.text))}
    return (replace(document, id=_name(document), meta=meta),)


def _name(document: Document) -> str:
    """The document's name, or one made of where it was read."""
    if document.id or document.source is None:
        return document.id or "text"
    line = document.source.line
    return PurePath(document.source.path.strip("<>")).stem + (f"-{line}" if line else "")


def _origin(document: Document, start: int, end: int) -> dict[str, Any]:
    return {"document": document.id, "place": document.place, "start": start, "end": end}


def _suggestions(chosen: Iterable[Candidate], by: By) -> Iterator[Suggestion]:
    """What was chosen, each with a name of its own, and all that one may want to know of it."""
    names: set[str] = set()
    for rank, one in enumerate(chosen, 1):
        name, again = one.document.id, 1
        while name in names:
            again += 1
            name = f"{one.document.id}-again-{again}"
        names.add(name)
        said = {"id": name, **one.document.meta[SUGGESTED], "rank": rank, "by": by}
        said["uncertainty"] = round(one.uncertainty, 6)
        document = replace(one.document, id=name, meta={**one.document.meta, SUGGESTED: said})
        yield Suggestion(document, one.uncertainty)
