"""The next best trees are those that all trees, written out, say."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.crf import TreeCRF
from nestree.model import NestedNER
from nestree.model.alternatives import best_trees
from tests.crf.brute_force import EveryTree
from tests.model.tiny import LABELS, model
from tests.prediction.test_trees import sure

TEXT = "Anna of the Acme club. Bo runs."


@pytest.mark.parametrize("latent", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_they_are_the_most_probable_of_all_trees_and_latent_labels_are_summed_out(n: int, latent: int) -> None:
    torch.manual_seed(n)
    scores = torch.randn(n, n, 2 + latent, dtype=torch.float64)
    every = EveryTree(scores)
    mass: dict[frozenset[tuple[int, int, str | None]], float] = defaultdict(float)
    names = [*LABELS, *[None] * latent]
    for chart, probability in zip(every.charts, every.tree_scores.softmax(0).tolist(), strict=True):
        nodes = [(i, j + 1, names[int(chart[i, j])]) for i, j in (chart >= 0).nonzero().tolist()]
        mass[frozenset(nodes)] += probability
    wanted = sorted(mass.items(), key=lambda item: -item[1])[:6]
    (found,) = best_trees(scores[None], torch.tensor([n]), [(label,) for label in LABELS], 6)
    assert len(found) == min(6, len(mass))
    assert [one.probability for one in found] == pytest.approx([probability for _, probability in wanted])
    assert [frozenset(map(tuple, one.nodes)) for one in found] == [nodes for nodes, _ in wanted]
    for one in found:
        assert list(one.nodes) == sorted(one.nodes, key=lambda node: (node.start, -node.end))


def test_the_best_one_is_the_tree_that_the_model_decodes(tmp_path: Path) -> None:
    found = sure(tmp_path)
    batch = found.pieces([["anna", "of", "the", "acme", "club"], ["x"]])
    trees = found.trees(batch)
    best = found.best_trees(batch, 3)
    for tree, alternatives in zip(trees, best, strict=True):
        assert [tuple(node) for node in alternatives[0].nodes] == [tuple(node[:3]) for node in tree]
    scores = found.potentials(batch).double()
    crf = TreeCRF(scores, batch.lengths)
    wanted = (crf.topk(3)[0] - crf.log_partition).exp()
    assert [one.probability for one in best[0]] == pytest.approx(wanted[:, 0].tolist())
    assert len(best[1]) == 3  # one word, of any label


def test_joined_labels_come_one_by_one(tmp_path: Path) -> None:
    found = sure(tmp_path)
    found.config = type(found.config)(tuple(f"{label}|part" for label in LABELS), normalize=False)
    (trees,) = found.best_trees(found.pieces([["anna", "of", "acme"]]), 2)
    labels = {node.label for tree in trees for node in tree.nodes}
    assert labels & {*LABELS, "part"}
    assert labels <= {*LABELS, "part", None}


@pytest.mark.parametrize("trees", [False, True])
def test_predictions_have_them_in_characters_and_entities_stay_as_they_are(trees: bool, tmp_path: Path) -> None:
    found = sure(tmp_path)
    plain = found.predict(TEXT, trees=trees)
    asked = found.predict(TEXT, trees=trees, alternatives=2)
    assert plain.alternatives is None
    assert plain.entities == asked.entities
    assert plain.trees == asked.trees
    assert asked.alternatives is not None
    assert list(map(len, asked.alternatives)) == [3, 3]
    whole, second = (sentence[0].nodes[0] for sentence in asked.alternatives)
    assert TEXT[whole[0] : whole[1]] == "Anna of the Acme club."
    assert TEXT[second[0] : second[1]] == "Bo runs."
    for sentence in asked.alternatives:
        probabilities = [one.probability for one in sentence]
        assert probabilities == sorted(probabilities, reverse=True)
        assert len({one.nodes for one in sentence}) == 3
    assert asked.as_dict()["alternatives"][1][0]["nodes"][0] == list(second)


def test_of_words_they_count_words(tmp_path: Path) -> None:
    (found,) = sure(tmp_path).predict_tokens([["anna", "of", "acme"]], alternatives=1)
    assert found.alternatives is not None
    assert found.alternatives[0][0].nodes[0][:2] == (0, 3)


@pytest.mark.parametrize("positions", [24, 640])  # windows of the encoder, or of trees alone
def test_sentences_read_in_windows_have_none(positions: int, tmp_path: Path) -> None:
    words = ["anna", "of", "the", "acme", "club"] * 8
    found = model(tmp_path, positions=positions)
    one, other = found.predict_tokens([words, ["bo"]], alternatives=1, max_words=16 if positions > 24 else 256)
    assert one.windowed
    assert one.alternatives == ((),)
    assert other.alternatives is not None
    assert len(other.alternatives[0]) == 2


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [({"loss": "local"}, {"alternatives": 1}, "no trees"), ({}, {"alternatives": -1}, "alternatives is -1")],
)
def test_what_makes_no_sense_is_refused(
    settings: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    found: NestedNER = model(tmp_path, **settings)
    with pytest.raises(ValueError, match=message):
        found.predict("a", **options)
