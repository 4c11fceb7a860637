"""The model card says what is known, and survives odd labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

from nestree.data import Policies, Splitter
from nestree.model import ModelConfig
from nestree.model.card import MARKER, base_model, model_card

SCORES = {
    "micro": {"precision": 0.8, "recall": 0.6, "f1": 0.6857},
    "labels": {"a|b": {"precision": 1, "recall": 0.5, "f1": 2 / 3}, "odd": None, "none": {"f1": None}},
    "documents": 3,
}


def front(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return found


def test_the_hub_finds_what_it_looks_for() -> None:
    text = model_card(ModelConfig(("A",)), name="org/genia", metrics={"dev": SCORES, "epoch": 3})
    assert text.startswith("---\n")
    found = front(text)
    assert found["library_name"] == "nestree"
    assert found["pipeline_tag"] == "token-classification"
    assert found["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert found["language"] == "en"
    assert {"named-entity-recognition", "nested-ner", "treecrf"} <= set(found["tags"])
    card = ModelCard(text)  # as the hub's library reads it
    assert card.data.model_name == "org/genia"
    results = {one.metric_type: (one.dataset_name, one.metric_value) for one in card.data.eval_results or []}
    assert results == {"precision": ("dev", 0.8), "recall": ("dev", 0.6), "f1": ("dev", 0.6857)}


def test_without_scores_nothing_is_claimed() -> None:
    text = model_card(ModelConfig(("A",), encoder="/home/me/bert", splitter=Splitter(language="xx")), name="runs")
    assert not {"model-index", "base_model", "language"} & set(front(text))
    assert "None were saved with this model." in text
    assert "/home/me" not in text
    assert "## Training" not in text


@pytest.mark.parametrize("metrics", [{"dev": 3}, {"dev": {"micro": 1}}, {"loss": 0.1}, {"dev": {"labels": []}}])
def test_metrics_of_another_kind_are_left_out(metrics: dict[str, Any]) -> None:
    assert "None were saved" in model_card(ModelConfig(("A",)), name="x", metrics=metrics)


def test_scores_and_settings_stand_in_tables() -> None:
    training = {"data": {"train": "a|b.jsonl", "sentences": 12}, "rate": 3e-5, "seeds": [1, 2], "note": "x\ny"}
    text = model_card(ModelConfig(("A",)), name="x", metrics=SCORES, training=training)
    for line in [
        "| evaluation | all labels | 80.00 | 60.00 | 68.57 |",
        r"| evaluation | a\|b | 100.00 | 50.00 | 66.67 |",
        r"| data.train | a\|b.jsonl |",
        "| data.sentences | 12 |",
        "| rate | 3e-05 |",
        "| seeds | 1, 2 |",
        "| note | x y |",
        "| words of raw text | `punctuation` |",
    ]:
        assert line in text.splitlines()


def test_labels_are_listed_and_joined_ones_explained() -> None:
    labels = ("DNA", "DNA|protein", "x\\|y|z", "a`b", "two\nlines")
    lines = model_card(ModelConfig(labels), name="x").splitlines()
    assert "- `DNA`" in lines
    assert "- `DNA|protein`: several labels on one span, `DNA`, `protein`" in lines
    assert "- `x\\|y|z`: several labels on one span, `x|y`, `z`" in lines
    assert "- `` a`b ``" in lines
    assert "- `two lines`" in lines
    first = ModelConfig(labels, policies=Policies(same_span="first"))
    assert "- `DNA|protein`" in model_card(first, name="x").splitlines()


def test_the_card_of_a_local_model_claims_no_treecrf() -> None:
    text = model_card(ModelConfig(("A",), loss="local"), name="x")
    assert "TreeCRF" not in text
    assert "treecrf" not in front(text)["tags"]
    assert MARKER in text


def test_code_on_the_card_is_python() -> None:
    text = model_card(ModelConfig(("A",)), name='odd"na\\me')
    code = text.split("```python\n")[1].split("```")[0]
    compile(code, "card", "exec")


def test_encoders_have_names_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "bert").mkdir(parents=True)
    assert base_model("bert-large-cased") == "bert-large-cased"
    assert base_model("org/bert") == "org/bert"
    assert base_model("runs/bert") is None
    assert base_model("a/b/c") is None
    assert base_model("../bert") is None
