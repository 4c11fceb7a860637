"""The examples show what the README and the guides promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.prediction.test_trees import sure


def test_the_papers_example_trains_and_decodes_its_entities() -> None:
    script = Path(__file__).parents[1] / "examples" / "paper_example.py"
    shown = subprocess.run([sys.executable, script], capture_output=True, check=True).stdout.decode()
    symbols = shown.split("column = last word")[1]
    assert all(glyph in symbols for glyph in "●□○")
    tree = shown.split("Best tree")[1].split("Span marginals")[0]
    for entity in ("PER U.S. State Department spokesman Richard Boucher", "ORG U.S. State Department ", "GPE U.S. "):
        assert entity in tree
    assert "log p(T|x)" in shown


def test_a_spacy_pipeline_reads_saves_loads_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    sure(tmp_path, decoding="mbr").save_pretrained(tmp_path / "model")
    script = Path(__file__).parents[1] / "examples" / "spacy_pipeline.py"
    call = [sys.executable, script, tmp_path / "model", "--output", tmp_path / "out"]
    shown = subprocess.run(call, capture_output=True, check=True).stdout.decode()
    assert "doc.ents: " in shown
    assert any(label in shown for label in ("  ORG ", "  PER "))
    assert "<span" in (tmp_path / "out" / "spans.html").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "pipeline" / "nestree" / "model.safetensors").is_file()
