"""From texts, or words, to predictions: what the methods of a model do."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from nestree.data import Document
from nestree.data.splitting import without_surrogates
from nestree.model import NestedNER, Steps
from nestree.model.alternatives import Tree
from nestree.model.config import ModelConfig
from nestree.model.pieces import Batch
from nestree.prediction.documents import Pausing, read_documents, with_spans
from nestree.prediction.reading import MAX_WORDS, Read, merged
from nestree.prediction.results import (
    FLAT,
    Flat,
    Prediction,
    Threshold,
    alternatives_of,
    check_threshold,
    flattened,
    nested,
    trees_of,
)
from nestree.prediction.trees import entities_of


@dataclass(frozen=True)
class Options:
    """How to predict; the arguments of ``NestedNER.predict``."""

    threshold: Threshold | None = None
    flat: Flat | None = None
    trees: bool = False
    max_words: int = MAX_WORDS
    budget: int | None = None
    alternatives: int = 0
    nested: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options as a user names them; unknown ones are an error that lists the known."""
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(f"there is no option {name!r}; known are {', '.join(known)}.")
        return cls(**given)

    def __post_init__(self) -> None:
        if not self.nested and self.flat is None:
            object.__setattr__(self, "flat", "outermost")
        if self.flat is not None and self.flat not in FLAT:
            raise ValueError(f"flat is {self.flat!r}; known are {', '.join(map(repr, FLAT))}, or None for nested.")
        if self.alternatives < 0:
            raise ValueError(f"alternatives is {self.alternatives}; it must be 0 at least.")
        if self.max_words < 8:
            raise ValueError(f"max_words is {self.max_words}; it must be 8 at least.")
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget is {self.budget}; it must be 1 at least.")


def texts_as_documents(model: NestedNER, texts: Iterable[str]) -> Iterator[Document]:
    """Texts, split as the model was trained to read them."""
    for text in checked_texts(texts):
        yield model.config.splitter.split(Document(text))


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """The same texts.

    Raises:
        TypeError: one of them, which is named by its number, is not a string.
    """
    if isinstance(texts, str | bytes):
        kind = "one string" if isinstance(texts, str) else "bytes, which are no text"
        advice = "predict takes it as it is" if isinstance(texts, str) else "decode them first"
        raise TypeError(f"texts is {kind}; {advice}, and a stream takes a list, or any iterable, of strings.")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"text {number} is a {type(text).__name__}, not a string; for words there is predict_tokens."
            )
        yield text


def words_as_documents(token_lists: Iterable[Sequence[str]]) -> Iterator[Document]:
    """Lists of words, each a sentence, as they are."""
    for number, words in enumerate(token_lists):
        if isinstance(words, str):
            what = f"item {number} is a string, not a list of words"
            raise TypeError(f"{what}: one sentence is predict_tokens([words]), and for text there is predict.")
        words = list(words)
        if not all(isinstance(word, str) for word in words):
            raise TypeError(f"item {number} is not a list of words; for text there is predict.")
        yield Document.from_words(words)


def predictions(
    model: NestedNER,
    documents: Iterable[Document],
    options: Options,
    *,
    in_words: bool = False,
    pausing: Pausing | None = None,
) -> Iterator[Prediction]:
    """A prediction for each document, in their order. Documents have words and sentences.

    Documents are read some at a time; ``pausing``, if it is there, is asked after each whether to wait for more.

    Raises:
        ValueError: a threshold makes no sense, or trees are asked of a model that has none.
    """
    thresholds = check_options(options, model.config)
    return _predictions(model, documents, options, thresholds, in_words, pausing)


def check_options(options: Options, config: ModelConfig) -> dict[str, float] | None:
    """Refuses, with a ValueError, what does not go with a model; returns the thresholds by label."""
    thresholds = check_threshold(options.threshold, config.single_labels)
    if (options.trees or options.alternatives) and config.loss == "local":
        raise ValueError("a model with loss = local has no trees.")
    return thresholds


def _predictions(
    model: NestedNER,
    documents: Iterable[Document],
    options: Options,
    thresholds: dict[str, float] | None,
    in_words: bool,
    pausing: Pausing | None,
) -> Iterator[Prediction]:
    find: Any = Finder(model, options, thresholds).steps
    read: Iterable[tuple[Document, list[Read[Any]]]]
    read = read_documents(
        model,
        find,
        documents,
        budget=options.budget,
        max_words=options.max_words,
        merge=merged_sentences,
        pausing=pausing,
    )
    for document, found in read:
        sentences: list[Any] = [one.found for one in found]
        yield assembled(document, sentences, [one.windowed for one in found], options, in_words)


class Sentence(NamedTuple):
    """What is found in a sentence: entities, or the nodes of its tree; and its most probable trees."""

    found: list[Any]
    trees: list[Tree]


class Finder:
    """Finds what options ask for in a batch, with one look at it.

    Args:
        model: that finds it.
        options: what is asked for.
        thresholds: by label, as :func:`check_options` gives them.
    """

    def __init__(self, model: NestedNER, options: Options, thresholds: Mapping[str, float] | None) -> None:
        self._model = model
        self._trees, self._alternatives = options.trees, options.alternatives
        self._thresholds = None
        if thresholds is not None:
            self._thresholds = tuple(thresholds.get(label) for label in model.config.single_labels)

    @property
    def alternatives(self) -> int:
        """How many next best trees it finds."""
        return self._alternatives

    @property
    def key(self) -> Hashable:
        """The same for finders of a model that find the same."""
        return self._trees, self._alternatives, self._thresholds

    @property
    def steps(self) -> Steps[Any]:
        """How it is found, in two steps: a :class:`Sentence` for each one of a batch."""
        if self._alternatives:
            return Steps(self._with_alternatives, lambda found: found)
        model = self._model
        of: Steps[Any] = (model.tree_steps if self._trees else model.decode_steps)(self._thresholds)

        def make(asked: Any) -> Any:
            return [Sentence(one, []) for one in of.make(asked)]

        return Steps(of.ask, make)

    def __call__(self, batch: Batch) -> list[Any]:
        """Both steps at once."""
        return self.steps(batch)

    def _with_alternatives(self, batch: Batch) -> list[Any]:
        model = self._model
        scores = model.potentials(batch)
        find = model.trees_of_potentials if self._trees else model.decode_potentials
        found: list[Any] = find(scores, batch.lengths, self._thresholds)
        trees = model.best_trees_of_potentials(scores, batch.lengths, 1 + self._alternatives)
        return [Sentence(*one) for one in zip(found, trees, strict=True)]


def merged_sentences(parts: list[Any], windows: list[tuple[int, int]]) -> Sentence:
    """What was found in the windows of a sentence, which has no most probable trees: no window saw all of it."""
    return Sentence(merged([one.found for one in parts], windows), [])


def assembled(
    document: Document, found: Sequence[Sentence], windowed: Sequence[bool], options: Options, in_words: bool
) -> Prediction:
    """The prediction for a document, of what was found in its sentences.

    Args:
        document: with words and sentences.
        found: in each sentence.
        windowed: whether it was read in windows.
        options: what was asked for.
        in_words: whether offsets count words.
    """
    spans = [entities_of(one.found) if options.trees else one.found for one in found]
    annotated = with_spans(document, spans)
    if options.flat:
        annotated = replace(annotated, entities=flattened(annotated.entities, options.flat))
    trees = alternatives = None
    if options.trees:
        trees = tuple(trees_of(document, (one.found for one in found), in_words=in_words))
    if options.alternatives:
        whole = [() if apart else tuple(one.trees) for one, apart in zip(found, windowed, strict=True)]
        alternatives = tuple(alternatives_of(document, whole, in_words=in_words))
    return Prediction(
        annotated,
        nested(annotated, annotated.entities, in_words=in_words),
        tuple(_windowed(document, windowed, in_words)),
        trees,
        alternatives,
        in_words,
    )


def _windowed(document: Document, windowed: Sequence[bool], in_words: bool) -> Iterator[tuple[int, int]]:
    assert document.tokens is not None
    for (start, end), apart in zip(document.sentences or (), windowed, strict=True):
        if apart:
            yield (start, end) if in_words else document.tokens.characters(start, end)


def count_tokens(model: NestedNER, text: str) -> int:
    """How many pieces the encoder reads of a text, its special ones not counted."""
    if not isinstance(text, str):
        raise TypeError(f"text is a {type(text).__name__}, not a string.")
    document = model.config.splitter.split(Document(without_surrogates(text)))
    return model.pieces.count(document.words) if document.words else 0
