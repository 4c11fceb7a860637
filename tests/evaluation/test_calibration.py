"""Scores as probabilities: measured, drawn, and mended by a temperature."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nestree.cli.main import main
from nestree.crf import PartialTrees, TreeCRF
from nestree.data import DataError, Document, Entity, Report, Splitter, write
from nestree.evaluation import temperature as module
from nestree.evaluation.calibration import (
    Scored,
    calibration,
    calibration_by_label,
    expected_calibration_error,
    reliability,
    reliability_png,
    scored,
)
from nestree.evaluation.temperature import HIGHEST, LOWEST, fit_temperature, search
from nestree.model import ModelConfig, NestedNER
from tests.model import tiny

Capture = pytest.CaptureFixture[str]
SCORES = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 0.95, 1.0]), st.booleans()), min_size=1)


def entities(scores: object, right: object, labels: object = None) -> Scored:
    values = np.array(scores, dtype=np.float64)
    names = ["X"] * len(values) if labels is None else labels
    return Scored(values, np.array(right, dtype=bool), np.array(names, dtype=np.str_))


def calibrated(number: int, seed: int = 0) -> Scored:
    """As many are right as their scores say."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(3, 1, number)
    return entities(scores, generator.random(number) < scores)


# --- Measuring ---


def test_scores_that_are_probabilities_have_next_to_no_calibration_error() -> None:
    found = calibration(calibrated(50_000))
    assert found.ece < 0.01
    assert found.ece_mass < 0.01
    assert found.confidence == pytest.approx(found.precision, abs=0.01)
    assert found.brier == pytest.approx(0.15, abs=0.01)  # the mean of p (1 - p) for this distribution


def test_scores_that_promise_too_much_are_caught() -> None:
    honest = calibrated(20_000)
    boasting = replace(honest, scores=honest.scores**0.2)
    found = calibration(boasting)
    assert found.ece == pytest.approx(found.confidence - found.precision, abs=0.02)
    assert found.ece > 0.15
    assert found.brier > calibration(honest).brier


def test_numbers_of_an_example_worked_by_hand() -> None:
    some = entities([0.95, 0.92, 0.55, 0.1], [True, False, True, False], ["A", "A", "B", "B"])
    width = reliability(some, 10)
    assert [(one.low, one.high, one.entities) for one in width] == [
        (pytest.approx(0.1), pytest.approx(0.2), 1),
        (0.5, pytest.approx(0.6), 1),
        (pytest.approx(0.9), 1.0, 2),
    ]
    assert expected_calibration_error(width) == pytest.approx((0.1 + 0.45 + 2 * 0.435) / 4)
    halves = reliability(some, 2, "mass")
    assert [(one.entities, one.confidence, one.precision) for one in halves] == [
        (2, pytest.approx(0.325), 0.5),
        (2, pytest.approx(0.935), 0.5),
    ]
    assert calibration(some).brier == pytest.approx((0.05**2 + 0.92**2 + 0.45**2 + 0.1**2) / 4)
    labels = calibration_by_label(some)
    assert (list(labels), labels["B"].entities, labels["B"].precision) == (["A", "B"], 2, 0.5)
    assert calibration(entities([], [])).entities == 0
    assert reliability(entities([], []), 5, "mass") == []


@given(SCORES, st.integers(1, 12), st.sampled_from(["width", "mass"]))
def test_bins_hold_every_entity_once_and_equal_scores_together(
    listed: list[tuple[float, bool]], bins: int, how: str
) -> None:
    some = entities(*zip(*listed, strict=True))
    found = reliability(some, bins, how)  # type: ignore[arg-type]
    assert len(found) <= bins
    assert sum(one.entities for one in found) == len(some)
    assert sum(one.entities * one.precision for one in found) == pytest.approx(some.right.sum())
    assert sum(one.entities * one.confidence for one in found) == pytest.approx(some.scores.sum())
    assert all(one.low - 1e-9 <= one.confidence <= one.high + 1e-9 for one in found)
    for score in set(some.scores.tolist()):
        assert sum(one.low <= score <= one.high for one in found) >= 1
    if how == "mass":
        assert all(one.high < other.low for one, other in pairwise(found))
    assert 0 <= expected_calibration_error(found) <= 1


@given(SCORES)
def test_one_bin_compares_the_means(listed: list[tuple[float, bool]]) -> None:
    some = entities(*zip(*listed, strict=True))
    gap = abs(some.scores.mean() - some.right.mean())
    assert expected_calibration_error(reliability(some, 1)) == pytest.approx(gap)
    assert calibration(some).ece >= gap - 1e-9  # bins can only show more


def test_scores_of_documents_are_compared_with_gold_as_sets() -> None:
    gold = Document.from_words(["a", "b"], [(0, 1, "X"), (1, 2, "Y")])
    listed = (Entity(0, 1, "X", 0.9), Entity(0, 1, "X", 0.9), Entity(0, 1, "Y", 0.4))
    found = scored([gold], [replace(gold, entities=listed)])
    assert (found.scores.tolist(), found.right.tolist(), found.labels.tolist()) == (
        [0.9, 0.4],
        [True, False],
        ["X", "Y"],
    )


@pytest.mark.parametrize(("score", "fault"), [(None, "has no score"), (1.5, "has the score 1.5")])
def test_an_entity_without_a_probability_is_refused(score: float | None, fault: str) -> None:
    gold = Document.from_words(["a", "b"], id="letter 7")
    with pytest.raises(DataError, match=f"letter 7: the entity 'a' X {fault}"):
        scored([gold], [replace(gold, entities=(Entity(0, 1, "X", score),))])


def test_what_are_no_scores_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        entities([1.1], [True])
    with pytest.raises(ValueError, match="equally long"):
        entities([1.0], [True, False])
    with pytest.raises(ValueError, match="need bins >= 1"):
        reliability(entities([1.0], [True]), 0)


# --- The search ---


@given(st.floats(math.log(LOWEST * 1.1), math.log(HIGHEST / 1.1)), st.floats(0.1, 10))
def test_the_smallest_value_is_found(where: float, steep: float) -> None:
    def values(temperatures: object) -> list[float]:
        return [steep * (math.log(one) - where) ** 2 for one in temperatures]  # type: ignore[attr-defined]

    assert math.log(search(values)) == pytest.approx(where, abs=1e-3)


@given(st.floats(math.log(LOWEST), math.log(HIGHEST)))
def test_a_valley_with_a_kink_or_beside_another_one_is_found(where: float) -> None:
    def values(temperatures: object) -> list[float]:
        logs = [math.log(one) for one in temperatures]  # type: ignore[attr-defined]
        return [min(abs(one - where), 0.5 + abs(one + 1)) for one in logs]

    assert math.log(search(values)) == pytest.approx(where, abs=0.08)


def test_the_search_ends_at_the_bounds_and_minds_no_nan() -> None:
    assert search(lambda temperatures: [-one for one in temperatures]) == pytest.approx(HIGHEST)
    assert search(lambda temperatures: list(temperatures)) == pytest.approx(LOWEST)
    assert search(lambda temperatures: [math.nan if one < 1 else one for one in temperatures]) == pytest.approx(1.0)


# --- The temperature of a model ---

WORDS = ["ann", "of", "acme", "west", "met", "bob"]


def corpus(number: int = 12) -> list[Document]:
    generator = np.random.default_rng(0)
    found = []
    for _ in range(number):
        words = [WORDS[at] for at in generator.integers(0, 6, 5)]
        spans = [(at, at + 1, "PER") for at, word in enumerate(words) if word in ("ann", "bob")]
        found.append(Document.from_words(words, spans))
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learned a little."""
    folder = tmp_path_factory.mktemp("model")
    model = tiny.model(folder, dropout=0.0, decoding="mbr").train()
    documents = corpus(40)
    batch = model.pieces([document.words for document in documents])
    observed = model.observed(
        [[(*one.tokens, one.label) for one in document.entities if one.tokens] for document in documents],
        [len(document.words) for document in documents],
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(batch, observed).backward()
        optimizer.step()
    model.save_pretrained(folder / "saved", training={"epochs": 1})
    return folder / "saved"


def test_a_temperature_must_be_more_than_nothing() -> None:
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"temperature is .*; it must be finite and more than 0"):
            ModelConfig(("X",), temperature=wrong)
    old = {key: value for key, value in ModelConfig(("X",)).as_dict().items() if key != "temperature"}
    assert ModelConfig.from_dict(old).temperature == 1.0  # models of before have none


@pytest.mark.parametrize("loss", ["treecrf", "local"])
@settings(max_examples=5, deadline=None)
@given(temperature=st.floats(0.3, 5))
def test_the_best_tree_stays_and_scores_move(
    tmp_path_factory: pytest.TempPathFactory, loss: str, temperature: float
) -> None:
    model = tiny.model(tmp_path_factory.mktemp("tiny"), loss=loss).eval()
    batch = model.pieces([document.words for document in corpus(4)])
    with torch.inference_mode():
        model.scorer.bilinear.mul_(30)  # random weights are timid
    before = model.decode(batch)
    trees = None if loss == "local" else model.trees(batch)
    learned = model.loss(batch, model.observed([[]] * 4, [5] * 4))
    model.config = replace(model.config, temperature=temperature)
    after = model.decode(batch)
    assert any(before)
    assert [[one[:3] for one in spans] for spans in after] == [[one[:3] for one in spans] for spans in before]
    if trees is not None:
        assert [[one[:3] for one in tree] for tree in model.trees(batch)] == [[one[:3] for one in t] for t in trees]
    assert torch.equal(model.loss(batch, model.observed([[]] * 4, [5] * 4)), learned)  # training does not see it


def test_scores_are_the_exact_marginals_at_the_temperature(saved: Path) -> None:
    model = NestedNER.from_pretrained(saved)
    model.config = replace(model.config, temperature=0.5)
    batch = model.pieces([document.words for document in corpus(4)])
    with torch.inference_mode():
        marginals = TreeCRF(model(batch) / 0.5, batch.lengths).marginals
    found = [(at, one) for at, spans in enumerate(model.decode(batch)) for one in spans]
    assert found
    for at, one in found:
        wanted = marginals[at, one.start, one.end - 1, model.config.labels.index(one.label)]
        assert one.score == pytest.approx(float(wanted), abs=1e-6)


def test_mbr_finds_less_where_everything_is_less_certain(saved: Path) -> None:
    model = NestedNER.from_pretrained(saved)
    batch = model.pieces([document.words for document in corpus(8)])
    found = []
    for temperature in (0.5, 16.0):
        model.config = replace(model.config, temperature=temperature)
        found.append(sum(map(len, model.decode(batch))))
    assert found[0] > found[1]


def test_the_temperature_that_scores_were_made_with_is_found_again() -> None:
    """Trees drawn from potentials at T = 2, for a model that says the potentials themselves."""
    torch.manual_seed(0)
    scores = 3 * torch.randn(400, 4, 4, 3)
    lengths = torch.full((400,), 4)
    trees = TreeCRF(scores / 2, lengths).sample(1)[0]
    found = [
        [(i, j, int(tree[i, j])) for i in range(4) for j in range(i, 4) if 0 <= int(tree[i, j]) < 2] for tree in trees
    ]
    observed = PartialTrees.from_spans(found, [4] * 400, entity_labels=2)
    right = module._right(observed).float()

    def brier(temperatures: object) -> list[float]:
        every = (TreeCRF(scores / one, lengths).marginals[..., :2] for one in temperatures)  # type: ignore[attr-defined]
        return [float(((marginals - right) ** 2).sum()) for marginals in every]

    assert search(brier) == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("loss", ["treecrf", "local"])
def test_fitting_makes_the_brier_score_smaller_and_changes_nothing(saved: Path, tmp_path: Path, loss: str) -> None:
    model = NestedNER.from_pretrained(saved)
    model.config = replace(model.config, loss=loss)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    found = fit_temperature(model, corpus(), budget=100)
    assert model.training
    assert model.config.temperature == 1.0
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert found.after.brier <= found.before.brier + 1e-9
    assert found.gain == pytest.approx(found.before.brier - found.after.brier)
    assert (found.sentences, found.gold) == (12, sum(len(document.entities) for document in corpus()))
    assert found.before.temperature == 1.0
    again = fit_temperature(model, corpus(), budget=100_000)
    assert again.after.temperature == pytest.approx(found.after.temperature, rel=1e-3)  # however it is batched
    model.config = replace(model.config, temperature=found.after.temperature)
    settled = fit_temperature(model, corpus())
    assert not settled.better
    assert settled.before.brier == pytest.approx(found.after.brier, rel=1e-4)


def test_losses_are_those_of_the_whole_chart(saved: Path) -> None:
    model = NestedNER.from_pretrained(saved)
    documents = corpus(5)
    found = fit_temperature(model, documents).before
    batch = model.pieces([document.words for document in documents])
    spans = [[(*one.tokens, one.label) for one in document.entities if one.tokens] for document in documents]
    observed = model.observed(spans, [5] * 5)
    with torch.inference_mode():
        crf = TreeCRF(model(batch), batch.lengths)
    right = torch.zeros(5, 5, 5, 2)
    for at, listed in enumerate(spans):
        for start, end, label in listed:
            right[at, start, end - 1, model.config.labels.index(label)] = 1
    marginals = crf.marginals[..., :2]
    assert found.nll == pytest.approx(-float(crf.log_prob(observed).mean()), rel=1e-4)
    assert found.brier == pytest.approx(float(((marginals - right) ** 2).sum()) / 5, rel=1e-4)
    grid = torch.ones(5, 5).triu().bool()
    safe = marginals[:, grid].clamp(1e-7, 1 - 1e-7)
    log_loss = torch.nn.functional.binary_cross_entropy(safe, right[:, grid], reduction="sum")
    assert found.log_loss == pytest.approx(float(log_loss) / 5, rel=1e-3)


def test_what_the_model_cannot_find_is_left_out_and_noted(saved: Path) -> None:
    model = NestedNER.from_pretrained(saved)
    words = ["ann", "met", "bob", "west"]
    spans = [(0, 1, "PER"), (0, 1, "DOG"), (2, 3, "DOG"), (1, 3, "ORG"), (2, 4, "ORG")]
    strange = Document.from_words(words, spans, sentences=((0, 2), (2, 4)))
    strange = replace(
        strange, entities=(*strange.entities, Entity(1, 3, "PER"), Entity(0, 7, "PER", fragments=((0, 3),)))
    )
    incomplete = replace(corpus(1)[0], complete_labels=("PER",))
    report = Report()
    found = fit_temperature(model, [*corpus(2), strange, incomplete], report=report)
    # Across sentences, off the words and in pieces: 3; one span is PER and DOG together, which the model does not know.
    assert report.counts["unreachable"] == 3
    assert report.counts["incomplete"] == 1
    assert report.counts["unknown label"] == 2
    assert (found.sentences, found.gold) == (4, sum(len(document.entities) for document in corpus(2)) + 1)


def test_text_without_entities_or_words_is_refused(saved: Path) -> None:
    model = NestedNER.from_pretrained(saved)
    with pytest.raises(DataError, match="there is no entity that the model knows"):
        fit_temperature(model, [Document.from_words(["ann"])])
    with pytest.raises(ValueError, match="has no words yet"):
        fit_temperature(model, [Document("ann")])


# --- The picture ---


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    curves = {"before, $T$": calibrated(300), "none": entities([], []), "certain": entities([1.0] * 3, [True] * 3)}
    path = reliability_png(curves, tmp_path / "new" / "scores.png", title="a_b $ c")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "nestree\[plots\]"'):
        reliability_png({}, tmp_path / "scores.png")


def test_measuring_needs_no_torch() -> None:
    code = "import sys, nestree.evaluation.calibration, nestree.cli.calibrate; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


# --- The command ---


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    write(corpus(60), tmp_path / "dev.jsonl")
    return tmp_path / "dev.jsonl"


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    """The model at a temperature that is far off."""
    model = NestedNER.from_pretrained(saved)
    model.config = replace(model.config, temperature=8.0)
    model.metrics = {"dev": {"micro": {"f1": 0.5}}}
    model.save_pretrained(tmp_path / "copy", training={"epochs": 1})
    (tmp_path / "copy" / "notes.txt").write_text("mine")
    return tmp_path / "copy"


def test_a_better_temperature_is_saved_with_the_model(copy: Path, dev: Path, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "scores.png"
    assert main(["calibrate", str(copy), str(dev), "--device", "cpu", "--output", str(picture)]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[2][:2] == ["temperature", "8"]
    before, after = (float(one) for one in next(line for line in lines if "Brier" in line)[-2:])
    assert after < before
    assert "PER" in out
    assert "ECE, bins of equal mass" in out
    model = NestedNER.from_pretrained(copy)
    assert model.config.temperature < 6
    assert f"saved with temperature {model.config.temperature:.4g}" in err
    assert model.trained_with["epochs"] == 1
    assert model.trained_with["calibration"]["file"] == "dev.jsonl"
    assert model.metrics == {"dev": {"micro": {"f1": 0.5}}}
    assert (copy / "notes.txt").read_text() == "mine"
    assert picture.exists()
    settings = (copy / "nestree.json").read_bytes()
    assert main(["calibrate", str(copy), str(dev), "--device", "cpu"]) == 0
    assert "the temperature stays" in capsys.readouterr().err
    assert (copy / "nestree.json").read_bytes() == settings


def test_a_dry_run_leaves_the_model_as_it_is(copy: Path, dev: Path, capsys: Capture) -> None:
    files = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    assert main(["calibrate", str(copy), str(dev), "--dry-run", "--json", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["better"]
    assert found["before"]["temperature"] == 8
    assert found["after"]["brier"] < found["before"]["brier"]
    assert "left as it is (--dry-run)" in err
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == files


def test_models_without_trees_are_calibrated_too(tmp_path: Path, dev: Path, capsys: Capture) -> None:
    tiny.model(tmp_path, loss="local", splitter=Splitter()).save_pretrained(tmp_path / "local")
    assert main(["calibrate", str(tmp_path / "local"), str(dev), "--device", "cpu"]) == 0
    assert "negative log likelihood" in capsys.readouterr().out


def test_what_is_wrong_is_said_in_one_line(saved: Path, dev: Path, tmp_path: Path, capsys: Capture) -> None:
    def refused(*arguments: object) -> str:
        assert main(["calibrate", *map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Traceback" not in err
        assert err.splitlines()[-1].startswith("error: ")
        return err.splitlines()[-1]

    assert "there is no such folder" in refused(tmp_path / "none", dev)
    assert "there is no such file" in refused(saved, tmp_path / "none.jsonl")
    assert "Use the ending .png" in refused(saved, dev, "--output", tmp_path / "scores.gif")
    write([Document.from_words(["ann"])], tmp_path / "bare.jsonl")
    assert "there is no entity that the model knows" in refused(saved, tmp_path / "bare.jsonl")
    broken = tmp_path / "broken"
    shutil.copytree(saved, broken)
    settings = json.loads((broken / "nestree.json").read_text())
    settings["model"]["temperature"] = 0
    (broken / "nestree.json").write_text(json.dumps(settings))
    assert "temperature is 0; it must be finite and more than 0" in refused(broken, dev)
