from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments import losses
from experiments.counts import of_sentences, unpack
from experiments.epochs import Trainer, epochs
from experiments.measures import LIMITS, agreement, decodings, drawable, of_dev, of_drawn, with_thresholds
from experiments.significance import score
from nestree.data import Document
from nestree.model import NestedNER, Node
from nestree.training.batching import Part
from tests.experiments.test_brackets import gold as gold_tree
from tests.model import tiny

SENTENCES = [["ab", "c", "d", "ef"], ["g"], ["h", "i", "jk", "l", "m", "n"]]
SPANS: list[list[tuple[int, int, str | int]]] = [[(0, 2, "ORG"), (1, 2, "PER")], [], [(1, 5, "ORG"), (2, 4, "PER")]]


def part(model: NestedNER) -> Part:
    return Part(model.pieces(SENTENCES), model.observed(SPANS, [len(one) for one in SENTENCES]))


def documents(number: int = 4) -> list[Document]:
    words = ["ab", "c", "d", "ef", "g", "h", "i", "jk", "l", "m"]
    entities = [(0, 2, "ORG"), (1, 2, "PER"), (4, 6, "ORG")]
    return [Document.from_words(words, entities, sentences=((0, len(words)),)) for _ in range(number)]


def test_all_ways_to_compute_the_loss_agree(tmp_path: Path) -> None:
    model = tiny.model(tmp_path, smoothing=0.0, latent_labels=2).eval()
    wanted = losses.ours(model, part(model))
    assert torch.isfinite(wanted)
    for way in (losses.vanilla_inside, losses.vanilla_partial):
        torch.testing.assert_close(way(model, part(model)), wanted, rtol=1e-4, atol=1e-4)
    if "Masked Inside" in losses.available()[0]:
        torch.distributions.Distribution.set_default_validate_args(False)
        torch.testing.assert_close(losses.masked_inside(model, part(model)), wanted, rtol=1e-4, atol=1e-4)


def test_smoothing_is_in_the_losses_that_know_it(tmp_path: Path) -> None:
    model = tiny.model(tmp_path, smoothing=0.02).eval()
    wanted = losses.ours(model, part(model))
    torch.testing.assert_close(losses.vanilla_inside(model, part(model)), wanted, rtol=1e-4, atol=1e-4)


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "NEEDS", {"Masked Inside": "no_such_package"})
    known, said = losses.available()
    assert "Masked Inside" not in known
    assert "no_such_package" in said[0]


def test_an_epoch_is_measured_whole_if_there_is_time(tmp_path: Path) -> None:
    from experiments.runs import Run

    model = tiny.model(tmp_path)
    trainer = Trainer(model, [[part(model)]] * 4, Run("demo", "minilm"))
    found = epochs(trainer, {"biaffine": losses.biaffine, "nestree": losses.ours}, seconds=1e9)
    assert {row["steps_measured"] for row in found.values()} == {4}
    assert not any(row["extrapolated"] for row in found.values())
    short = epochs(trainer, {"biaffine": losses.biaffine, "nestree": losses.ours}, seconds=0.0)
    assert {row["steps_measured"] for row in short.values()} == {3}
    assert all(row["extrapolated"] for row in short.values())


def test_every_step_has_one_of_biaffine_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.runs import Run

    model = tiny.model(tmp_path)
    trainer = Trainer(model, [[part(model)]] * 20, Run("demo", "minilm"))
    seconds = {losses.biaffine: 1.0, losses.ours: 0.1}
    monkeypatch.setattr(trainer, "step", lambda loss, number: seconds[loss])
    found = epochs(trainer, {"biaffine": losses.biaffine, "nestree": losses.ours}, seconds=1.5)
    assert found["nestree"]["steps_measured"] == found["biaffine"]["steps_measured"] > 10
    assert found["nestree"]["ratio"] == pytest.approx(0.1)


def test_a_model_is_measured_with_both_decodings_and_left_as_it_was(tmp_path: Path) -> None:
    model = tiny.model(tmp_path, decoding="mbr").eval()
    found = of_dev(model, documents())
    assert model.config.decoding == "mbr"
    assert found["scores"]["decoding"] == "mbr"
    assert {"map", "mbr"} < set(found["scores"])
    assert "Latent" in found["errors"]["rows"]
    assert sum(map(sum, found["errors"]["counts"])) == 12


def test_a_local_model_has_one_decoding_and_no_trees(tmp_path: Path) -> None:
    model = tiny.model(tmp_path, loss="local").eval()
    assert len(decodings(model)) == 1
    found = of_dev(model, documents())
    assert "Latent" not in found["errors"]["rows"]
    assert {"half", "tuned"} < set(found["scores"])


def test_thresholds_of_a_local_model_are_those_of_prediction_and_no_sentence_chooses_its_own(tmp_path: Path) -> None:
    model = tiny.model(tmp_path, loss="local").eval()
    gold = [
        Document.from_words(words, [(start, start + 1, "PER")], sentences=((0, len(words)),))
        for words, start in ((["ab", "c", "d", "ef"], 0), (["g", "h"], 1), (["i", "jk", "l"], 2), (["m", "n"], 0))
    ]

    def predicted(limit: float) -> list[Document]:
        words = [list(one.words) for one in gold]
        found = [one.entities for one in model.predict_tokens(words, threshold=limit)]
        return [
            Document.from_words(one, [(e.start, e.end, e.label) for e in entities], sentences=((0, len(one)),))
            for one, entities in zip(words, found, strict=True)
        ]

    found = with_thresholds(model, gold)
    assert (unpack(found["half"]["per_sentence"]) == of_sentences(gold, predicted(0.5))).all()
    chosen = unpack(found["tuned"]["per_sentence"])
    for fold, other, limit in zip((0, 1), (1, 0), found["tuned"]["limits"], strict=True):
        assert (chosen[fold::2] == of_sentences(gold, predicted(limit))[fold::2]).all()
        scores = [score(of_sentences(gold, predicted(one))[other::2].sum(0), "f1") for one in LIMITS]
        assert max(scores) == scores[LIMITS.index(limit)]


def test_drawn_trees_are_of_sentences_that_fit(tmp_path: Path) -> None:
    some = [*documents(30), Document.from_words(["a", "b"], [(0, 1, "PER"), (1, 2, "PER")], sentences=((0, 2),))]
    assert len(drawable(some, 20)) == 20
    (one, *_) = of_drawn(tiny.model(tmp_path).eval(), documents(2))
    assert one["gold"] == [[0, 2, "ORG"], [1, 2, "PER"], [4, 6, "ORG"]]
    assert [0, 10] in [node[:2] for node in one["nodes"]]


def test_agreement_tells_entity_nodes_from_latent_ones() -> None:
    nodes = [Node(0, 11, None, 1.0), Node(0, 5, "DNA", 1.0), Node(5, 11, None, 1.0), Node(5, 10, None, 1.0)]
    found = agreement([gold_tree()], [nodes])
    assert found["nodes"] == {"entity": [1, 1], "latent": [1, 2]}
    # Without the full stop, what holds it and what does not are one node.
    assert found["without_punctuation"] == {
        "nodes": {"entity": [1, 1], "latent": [1, 1]},
        "categories": {"NP": [1, 2], "VP": [1, 1]},
    }
