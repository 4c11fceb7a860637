"""What is measured of a trained model: scores with either decoding, errors, trees, agreement with syntax."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments import counts, treebank
from experiments.brackets import Comparison, GoldTree, Span, without_punctuation
from experiments.significance import MEASURES, score
from nestree.data import Document, read
from nestree.evaluation import Evaluator
from nestree.evaluation.error_report import Errors
from nestree.evaluation.errors import find_errors
from nestree.model import NestedNER, Node
from nestree.prediction import Pages, annotate, annotate_with_trees
from nestree.prediction.documents import with_spans

SCORES, ERRORS, TREES, SYNTAX = "scores", "errors", "trees", "syntax"
DRAWN = 20
"""Dev sentences whose trees are kept."""
FITS = range(8, 27)
"""Words of a sentence that can be drawn and read."""
HALF, TUNED = "half", "tuned"
"""Ways to decode a model without trees beside its own: labels with a probability of one half, or of what suits dev."""
LIMITS = tuple(percent / 100 for percent in range(10, 91, 5))
"""Probabilities that may suit dev."""


def decodings(model: NestedNER) -> tuple[str, ...]:
    """How a model can decode, its own way first."""
    own = model.config.decoding
    return (own,) if model.config.loss == "local" else (own, "map" if own == "mbr" else "mbr")


def of_dev(model: NestedNER, gold: Sequence[Document]) -> dict[str, Any]:
    """Scores and errors on dev. With the other decoding, the weights are the same: nothing is trained again."""
    own, *others = decodings(model)
    errors = Errors(most=0)
    if model.config.loss == "local":
        predicted = list(annotate(model, gold))
        for one, other in zip(gold, predicted, strict=True):
            errors.add(one, other)
    else:
        predicted = []
        for one, (other, latent) in zip(gold, annotate_with_trees(model, gold), strict=True):
            errors.add(one, other, latent)
            predicted.append(other)
    found = {own: scored(gold, predicted)}
    if model.config.loss == "local":
        found |= with_thresholds(model, gold)
    for decoding in others:
        found[decoding] = scored(gold, list(annotate(decoding_with(model, decoding), gold)))
        decoding_with(model, own)
    kinds = Counter(error.kind for one, other in zip(gold, predicted, strict=True) for error in find_errors(one, other))
    table = errors.table()
    listed = {"labels": table.labels, "rows": table.rows, "counts": table.counts, "kinds": dict(kinds)}
    return {SCORES: {"decoding": own, **found}, ERRORS: listed}


def with_thresholds(model: NestedNER, gold: Sequence[Document]) -> dict[str, Any]:
    """The scores of a model without trees if labels need a probability: one half, as MBR asks, or what suits dev.

    What suits is chosen on every other sentence and used on those between, so that no sentence chooses for itself.
    """
    pages = Pages(model, gold)
    steps = model.decode_steps((min(LIMITS),) * len(model.config.single_labels))
    found = iter(pages.read(model, steps))
    probable = [with_spans(one, [next(found) for _ in one.sentences or ()]) for one in gold]

    def at_least(limit: float) -> list[Document]:
        kept = ([one for one in document.entities if (one.score or 0.0) >= limit] for document in probable)
        return [replace(one, entities=tuple(entities)) for one, entities in zip(probable, kept, strict=True)]

    of_limits = np.stack([counts.of_sentences(gold, at_least(limit)) for limit in LIMITS])
    folds = [slice(first, None, 2) for first in (0, 1)]
    best = [int(score(of_limits[:, fold].sum(1), "f1").argmax()) for fold in reversed(folds)]
    chosen = np.empty_like(of_limits[0])
    for fold, at in zip(folds, best, strict=True):
        chosen[fold] = of_limits[at, fold]
    micro = {measure: round(float(score(chosen.sum(0), measure)), 6) for measure in MEASURES}
    tuned = {"micro": micro, "limits": [LIMITS[at] for at in best], "per_sentence": counts.pack(chosen)}
    return {HALF: scored(gold, at_least(0.5)), TUNED: tuned}


def decoding_with(model: NestedNER, decoding: Any) -> NestedNER:
    """The same model, set to another decoding."""
    model.config = replace(model.config, decoding=decoding)
    return model


def scored(gold: Sequence[Document], predicted: Sequence[Document]) -> dict[str, Any]:
    """All scores, by kind of entity too, and the counts of each sentence."""
    evaluator = Evaluator("exact", ("depth", "nesting", "length"))
    for one, other in zip(gold, predicted, strict=True):
        evaluator.add(one, other)
    content = evaluator.result().as_dict()
    kept = {name: content[name] for name in ("micro", "macro", "unlabelled", "labels", "breakdowns")}
    return {**kept, "per_sentence": counts.packed(gold, predicted)}


# --- Trees -----------------------------------------------------------------------------------------------------------


def trees(model: NestedNER, documents: Sequence[Document]) -> list[list[list[Node]]]:
    """The tree of every sentence of every document."""
    found = iter(Pages(model, documents).read(model, model.trees))
    return [[next(found) for _ in document.sentences or ()] for document in documents]


def drawable(documents: Sequence[Document], number: int = DRAWN) -> list[tuple[int, Span]]:
    """Sentences to draw, spread evenly over those that fit a page and have at least two entities."""
    fitting = [
        (at, (start, end))
        for at, document in enumerate(documents)
        for start, end in document.sentences or ()
        if end - start in FITS and sum(_within(one.tokens, (start, end)) for one in document.entities) >= 2
    ]
    step = max(1, len(fitting) // number)
    return fitting[step // 2 :: step][:number]


def _within(inner: Span | None, outer: Span) -> bool:
    return inner is not None and outer[0] <= inner[0] and inner[1] <= outer[1]


def of_drawn(model: NestedNER, gold: Sequence[Document]) -> list[dict[str, Any]]:
    """Words, gold entities and the inferred tree of the sentences to draw."""
    chosen = drawable(gold)
    wanted = [_sentence(gold[at], where) for at, where in chosen]
    found = []
    for sentence, (tree,) in zip(wanted, trees(model, wanted), strict=True):
        entities = sorted({(*one.tokens, one.label) for one in sentence.entities if one.tokens})
        nodes = [[one.start, one.end, one.label, round(one.score, 4)] for one in tree]
        found.append({"words": list(sentence.words), "gold": [list(one) for one in entities], "nodes": nodes})
    return found


def _sentence(document: Document, where: Span) -> Document:
    start, end = where
    inside = [(one.tokens, one.label) for one in document.entities if _within(one.tokens, where)]
    spans = [(tokens[0] - start, tokens[1] - start, label) for tokens, label in inside if tokens]
    return Document.from_words(document.words[start:end], spans, sentences=((0, end - start),))


# --- Syntax ----------------------------------------------------------------------------------------------------------


def of_syntax(model: NestedNER, train: Path, archive: Path) -> dict[str, Any]:
    """How far inferred trees of training sentences agree with gold constituents, as the paper's appendix asks."""
    sentences = [one for document in read(train) for one in _sentences(document)]
    matches = treebank.match([one.words for one in sentences], treebank.read_treebank(archive))
    chosen = [sentences[number] for number, _ in matches.trees]
    own = model.config.decoding
    found: dict[str, Any] = {}
    for decoding in decodings(model):
        inferred = [tree for (tree,) in trees(decoding_with(model, decoding), chosen)]
        found[decoding] = agreement([tree for _, tree in matches.trees], inferred)
    decoding_with(model, own)
    return {"decoding": own, "sentences": len(chosen), **found}


def _sentences(document: Document) -> list[Document]:
    return [_sentence(document, where) for where in document.sentences or ()]


def agreement(gold: Sequence[GoldTree], inferred: Sequence[Sequence[Node]]) -> dict[str, Any]:
    """Of all nodes together; the share of entity and of latent nodes that are constituents; and what was found."""
    total = Comparison()
    kinds: dict[str, list[int]] = {"entity": [0, 0], "latent": [0, 0]}
    usual: dict[str, list[int]] = {"entity": [0, 0], "latent": [0, 0]}
    categories: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for tree, nodes in zip(gold, inferred, strict=True):
        labels: dict[Span, bool] = {}
        for node in nodes:
            labels[node.start, node.end] = labels.get((node.start, node.end), False) or node.label is not None
        labels.setdefault((0, tree.words), False)
        total.add(tree, tree.in_tokens(labels))
        wanted, whole = tree.wanted, (0, len(tree.tokens))
        for span, entity in labels.items():
            for bracket in tree.in_tokens([span]):
                if bracket != whole:
                    count = kinds["entity" if entity else "latent"]
                    count[0] += bracket in wanted
                    count[1] += 1
        _count_without_punctuation(tree, labels, usual, categories)
    frequent = sorted(categories.items(), key=lambda one: -one[1][1])[:12]
    without = {"nodes": usual, "categories": dict(frequent)}
    return {**total.as_dict(), "nodes": kinds, "without_punctuation": without}


def _count_without_punctuation(
    tree: GoldTree, labels: dict[Span, bool], kinds: dict[str, list[int]], categories: dict[str, list[int]]
) -> None:
    """Which nodes are constituents, and which constituents are nodes, as brackets are usually counted."""
    named: dict[Span | None, str] = {}
    for span in sorted(tree.wanted):
        for bare in without_punctuation(tree, [span]):
            named.setdefault(bare, tree.constituents[span])
    known: set[Span | None] = set()
    for span, entity in sorted(labels.items(), key=lambda one: not one[1]):  # what is both is an entity
        for bare in without_punctuation(tree, tree.in_tokens([span])):
            if bare is None or bare not in known:
                count = kinds["entity" if entity else "latent"]
                count[0] += bare in named
                count[1] += 1
                known.add(bare)
    for bare, category in named.items():
        categories[category][0] += bare in known
        categories[category][1] += 1
