from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.data import Document
from nestree.model import NestedNER
from nestree.prediction import annotate, annotate_with_trees, reading
from tests.model.tiny import LABELS, model

TEXTS = [
    Document.from_words(["anna", "of", "the", "acme", "club", "bo", "runs"], sentences=((0, 5), (5, 7))),
    Document.from_words([]),
    Document.from_words(["x"]),
    Document.from_words(["the", "club", "of", "anna"]),
]


def sure(folder: Path, **settings: Any) -> NestedNER:
    """A model that finds something."""
    found = model(folder, normalize=False, **settings)
    torch.manual_seed(5)
    with torch.no_grad():
        found.scorer.bilinear.normal_(std=0.3)
    return found


@pytest.mark.parametrize("settings", [{}, {"decoding": "mbr"}, {"latent_labels": 2}])
def test_documents_are_those_of_annotate_and_latent_nodes_are_the_rest_of_the_trees(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    found = sure(tmp_path, **settings)
    pairs = list(annotate_with_trees(found, TEXTS))
    assert [document for document, _ in pairs] == list(annotate(found, TEXTS))
    assert sum(len(document.entities) for document, _ in pairs)
    for document, latent in pairs:
        entities = {(entity.start, entity.end) for entity in document.entities}
        assert not entities & latent
        nodes = entities | latent
        assert len(nodes) == sum(2 * (end - start) - 1 for start, end in document.sentences or ())
        for start, end in document.sentences or ():
            assert document.tokens is not None
            assert document.tokens.characters(start, end) in nodes
        assert nodes >= {tuple(token) for token in document.tokens or ()}
        assert not any(a < c < b < d for a, b in nodes for c, d in nodes)


def test_labels_on_one_span_do_not_make_a_latent_node(tmp_path: Path) -> None:
    found = sure(tmp_path)
    found.config = type(found.config)(tuple(f"{label}|part" for label in LABELS), normalize=False)
    for document, latent in annotate_with_trees(found, TEXTS):
        assert {entity.label for entity in document.entities} <= {*LABELS, "part"}
        assert not {(entity.start, entity.end) for entity in document.entities} & latent


def test_a_few_documents_are_held_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AHEAD", 2)
    found, taken = sure(tmp_path), 0

    def counted() -> Iterator[Document]:
        nonlocal taken
        for taken, document in enumerate(TEXTS * 3, 1):  # noqa: B007
            yield document

    pairs = annotate_with_trees(found, counted())
    first = next(pairs)
    assert taken == 1
    monkeypatch.setattr(reading, "AHEAD", 2048)
    one_by_one, together = [first, *pairs], list(annotate_with_trees(found, TEXTS * 3))
    assert list(map(_places, one_by_one)) == list(map(_places, together))  # scores may differ in their last digits


def _places(pair: tuple[Document, frozenset[tuple[int, int]]]) -> tuple[Any, ...]:
    document, latent = pair
    return document.text, [(entity.start, entity.end, entity.label) for entity in document.entities], latent


def test_a_small_budget_gives_the_same(tmp_path: Path) -> None:
    found = sure(tmp_path)
    for one, other in zip(annotate_with_trees(found, TEXTS, budget=1), annotate_with_trees(found, TEXTS), strict=True):
        assert one[1] == other[1]
        assert [entity[:3] for entity in one[0].entities] == [entity[:3] for entity in other[0].entities]


def test_no_documents_give_none(tmp_path: Path) -> None:
    assert list(annotate_with_trees(model(tmp_path), [])) == []


def test_models_without_trees_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no trees; use nestree\.prediction\.annotate"):
        annotate_with_trees(model(tmp_path, loss="local"), TEXTS)


def test_documents_without_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="split its text first"):
        next(annotate_with_trees(model(tmp_path), [Document("no words yet")]))
