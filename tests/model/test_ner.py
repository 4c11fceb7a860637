"""The model: equations, independence of the batch, decoding, saving."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nestree.crf import TreeCRF, normalize_potentials
from nestree.encoders import EMBEDDED, resolve
from nestree.model import ModelConfig, NestedNER
from nestree.model.scorer import SpanScorer
from tests.model.tiny import LABELS, model

SENTENCES = [["anna", "of", "the", "acme", "club"], ["bo", "runs"], ["x"]]
SPANS = [[(0, 5, "PER"), (2, 5, "ORG"), (3, 4, "ORG")], [(0, 1, "PER")], []]


@pytest.mark.parametrize("kind", ["biaffine", "bilinear", "biaffine-separate"])
def test_scores_are_equation_2(kind: str) -> None:
    torch.manual_seed(0)
    scorer = SpanScorer(8, 3, kind=kind).double().eval()
    if scorer.bias is not None:
        torch.nn.init.normal_(scorer.bias)
    words = torch.randn(2, 4, 8, dtype=torch.float64)
    start = scorer.start(words)
    end = start if scorer.end is None else scorer.end(words)
    found = scorer(words)
    for sentence, i, j, k in [(0, 0, 0, 0), (1, 1, 3, 2), (0, 3, 1, 1)]:
        a, b = start[sentence, i], end[sentence, j]
        wanted = a @ scorer.bilinear[k] @ b
        if scorer.linear is not None and scorer.bias is not None:
            wanted = wanted + a @ scorer.linear[0][:, k] + b @ scorer.linear[-1][:, k] + scorer.bias[k]
        torch.testing.assert_close(found[sentence, i, j, k], wanted)


def test_scores_begin_at_a_sane_size() -> None:
    torch.manual_seed(0)
    scores = SpanScorer(384, 8)(torch.randn(4, 30, 384))
    assert 0.3 < float(scores.detach().std()) < 3


@pytest.mark.parametrize("settings", [{}, {"word": "mean"}, {"word": "last"}, {"loss": "local"}, {"normalize": False}])
def test_a_sentence_does_not_depend_on_its_batch(settings: dict[str, object], tmp_path: Path) -> None:
    found = model(tmp_path, **settings).eval()
    together = found(found.pieces(SENTENCES)).detach()
    for number, words in enumerate(SENTENCES):
        alone = found(found.pieces([words])).detach()[0]
        n = len(words)
        upper = torch.ones(n, n, dtype=torch.bool).triu()
        torch.testing.assert_close(together[number, :n, :n][upper], alone[upper], rtol=1e-4, atol=1e-4)


def test_potentials_are_normalised_over_the_spans_of_a_sentence(tmp_path: Path) -> None:
    found = model(tmp_path).eval()
    scores = found(found.pieces(SENTENCES)).detach()
    values = scores[1, :2, :2][torch.ones(2, 2, dtype=torch.bool).triu()]
    assert abs(float(values.mean())) < 1e-5
    assert abs(float(values.std(correction=0)) - 1) < 1e-3


def test_a_gain_is_learned_and_saved(tmp_path: Path) -> None:
    found = model(tmp_path, gain=2.0).eval()
    assert found.log_gain is not None
    batch = found.pieces(SENTENCES)
    plain = normalize_potentials(found.span_scores(batch), batch.lengths)
    torch.testing.assert_close(found(batch), 2 * plain)
    found.loss(batch, found.observed(SPANS, [len(words) for words in SENTENCES])).backward()
    assert float(found.log_gain.grad or 0.0) != 0.0
    with torch.no_grad():
        found.log_gain.fill_(0.5)
    found.save_pretrained(tmp_path / "saved")
    again = NestedNER.from_pretrained(tmp_path / "saved").eval()
    torch.testing.assert_close(again(batch), plain * torch.tensor(0.5).exp(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", [{"loss": "local"}, {"normalize": False}])
def test_without_normalisation_there_is_no_gain(settings: dict[str, object], tmp_path: Path) -> None:
    assert model(tmp_path, gain=2.0, **settings).log_gain is None


def test_the_loss_is_the_papers(tmp_path: Path) -> None:
    found = model(tmp_path, smoothing=0.05, smoothing_scope="all", entropy_weight=0.1).eval()
    batch = found.pieces(SENTENCES)
    observed = found.observed(SPANS, [len(words) for words in SENTENCES])
    scores: Tensor = normalize_potentials(found.scorer(found.encoder(batch)), batch.lengths)
    crf = TreeCRF(scores, batch.lengths)
    wanted = -crf.log_prob(observed, smoothing=0.05, scope="all").mean() - 0.1 * crf.entropy.mean()
    torch.testing.assert_close(found.loss(batch, observed), wanted)


def test_gumbel_smoothing_is_drawn_anew_in_training_only(tmp_path: Path) -> None:
    found = model(tmp_path, smoothing=0.1, gumbel=True, dropout=0.0)
    found.encoder.model.eval()
    batch = found.pieces(SENTENCES)
    observed = found.observed(SPANS, [len(words) for words in SENTENCES])
    found.scorer.train()
    found.training = True
    assert float(found.loss(batch, observed).detach()) != float(found.loss(batch, observed).detach())
    found.eval()
    plain = model(tmp_path, smoothing=0.1, dropout=0.0).eval()
    torch.testing.assert_close(found.loss(batch, observed), plain.loss(batch, observed))


@pytest.mark.parametrize("loss", ["treecrf", "local"])
def test_it_learns_nested_entities_by_heart(loss: str, tmp_path: Path) -> None:
    found = model(tmp_path, loss=loss, dropout=0.0, smoothing=0.0)
    batch = found.pieces(SENTENCES)
    observed = found.observed(SPANS, [len(words) for words in SENTENCES])
    optimizer = torch.optim.AdamW(found.parameters(), lr=3e-3)
    found.encoder.model.eval()
    for _ in range(120):
        optimizer.zero_grad()
        found.loss(batch, observed).backward()
        optimizer.step()
    predicted = [[(one.start, one.end, one.label) for one in sentence] for sentence in found.decode(batch)]
    assert [sorted(one) for one in predicted] == [sorted(one) for one in SPANS]


@pytest.mark.parametrize("decoding", ["map", "mbr"])
def test_scores_of_entities_are_exact_marginals(decoding: str, tmp_path: Path) -> None:
    found = model(tmp_path, decoding=decoding).eval()
    batch = found.pieces(SENTENCES)
    crf = TreeCRF(found(batch).detach(), batch.lengths)
    number = 0
    for sentence, spans in enumerate(found.decode(batch)):
        assert [(one.start, -one.end) for one in spans] == sorted((one.start, -one.end) for one in spans)
        for one in spans:
            wanted = crf.marginals[sentence, one.start, one.end - 1, LABELS.index(one.label)]
            assert abs(one.score - float(wanted)) < 1e-6
            number += 1
    assert number


def test_long_sentences_are_read_whole(tmp_path: Path) -> None:
    found = model(tmp_path, positions=12)
    words = ["ab"] * 40
    (spans,) = found.predict_tokens([words])
    assert found.pieces([words]).windowed > 0
    assert all(0 <= one.start < one.end <= 40 for one in spans)


def test_a_saved_model_is_the_same_model(tmp_path: Path) -> None:
    found = model(tmp_path, scorer="biaffine-separate", latent_labels=2)
    before = found.decode(found.pieces(SENTENCES))
    found.save_pretrained(tmp_path / "saved")
    again = NestedNER.from_pretrained(tmp_path / "saved")
    assert again.config == found.config
    assert again.decode(again.pieces(SENTENCES)) == before
    assert not list((tmp_path / "saved").rglob("*.bin"))


def test_folders_that_hold_no_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no model of nestree"):
        NestedNER.from_pretrained(tmp_path)


def test_settings_are_checked_and_come_back(tmp_path: Path) -> None:
    config = ModelConfig(("A", "B"), scorer="bilinear", smoothing=0.1)
    assert ModelConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config
    with pytest.raises(ValueError, match="unknown key 'smothing'; known are labels, encoder"):
        ModelConfig.from_dict({"labels": ["A"], "smothing": 1})
    for wrong, says in [
        ({"scorer": "dot"}, "known are 'biaffine'"),
        ({"latent_labels": 0}, "at least one"),
        ({"dropout": 1.0}, "less than 1"),
    ]:
        with pytest.raises(ValueError, match=says):
            replace(config, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="each once"):
        ModelConfig(("A", "A"))


def test_short_names_of_encoders_are_resolved() -> None:
    package, _, on_hub = EMBEDDED["minilm"]
    found = resolve("minilm")
    assert found == on_hub or package in found
    assert resolve("bert-large-cased") == "bert-large-cased"


@pytest.mark.parametrize("decoding", ["map", "mbr"])
def test_trees_are_binary_and_hold_the_entities(decoding: str, tmp_path: Path) -> None:
    found = model(tmp_path, decoding=decoding, latent_labels=2, normalize=False).eval()
    some = 0
    for seed in range(6):
        torch.manual_seed(seed)
        with torch.no_grad():
            found.scorer.bilinear.normal_(std=0.3)  # sure of itself: some entities are more probable than not
        batch = found.pieces(SENTENCES)
        for words, nodes, spans in zip(SENTENCES, found.trees(batch), found.decode(batch), strict=True):
            assert len(nodes) == 2 * len(words) - 1
            assert len({(one.start, one.end) for one in nodes}) == len(nodes)
            assert not any(a.start < b.start < a.end < b.end for a in nodes for b in nodes)
            entities = [(one.start, one.end, one.label) for one in nodes if one.label is not None]
            assert sorted(entities) == sorted((one.start, one.end, one.label) for one in spans)
            assert decoding == "map" or all(one.score > 0.5 for one in spans)
            some += len(spans)
    assert some


def test_without_trees_there_is_none_to_show(tmp_path: Path) -> None:
    found = model(tmp_path, loss="local")
    with pytest.raises(ValueError, match="has no trees"):
        found.trees(found.pieces(SENTENCES))


@pytest.mark.parametrize("decoding", ["map", "mbr"])
def test_the_score_of_a_label_counts_the_joined_labels_that_hold_it(decoding: str, tmp_path: Path) -> None:
    found = model(tmp_path, decoding=decoding, normalize=False).eval()
    found.config = replace(found.config, labels=("ORG", "ORG|PER"))
    batch = found.pieces([["anna"]])
    scores = torch.tensor([1.0, 1.0, -1.0]).log_softmax(0)  # ORG, both, latent

    found.forward = lambda batch: scores.expand(1, 1, 1, 3)  # type: ignore[method-assign]
    (spans,) = found.decode(batch)
    one, both, _ = scores.exp().tolist()
    assert one < 0.5 < one + both
    # Of the best tree, whichever of the two; of what is more probable than not, ORG alone.
    assert ("ORG", pytest.approx(one + both)) in [(span.label, span.score) for span in spans]
    assert len(spans) == 1 or decoding == "map"
    (tree,) = found.trees(batch)
    assert {node.label for node in tree} == {span.label for span in spans}
