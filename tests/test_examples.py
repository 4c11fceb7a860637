"""The examples show what the README and the guides promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nestree.data import read
from tests.prediction.test_trees import sure
from tests.training.cases import encoder

EXAMPLES = Path(__file__).parents[1] / "examples"


def shown_by(name: str, *arguments: object) -> str:
    """What an example prints."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def test_the_papers_example_trains_and_decodes_its_entities() -> None:
    shown = shown_by("paper_example.py")
    symbols = shown.split("column = last word")[1]
    assert all(glyph in symbols for glyph in "●□○")
    tree = shown.split("Best tree")[1].split("Span marginals")[0]
    for entity in ("PER U.S. State Department spokesman Richard Boucher", "ORG U.S. State Department ", "GPE U.S. "):
        assert entity in tree
    assert "log p(T|x)" in shown


def test_a_spacy_pipeline_reads_saves_loads_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    sure(tmp_path, decoding="mbr").save_pretrained(tmp_path / "model")
    shown = shown_by("spacy_pipeline.py", tmp_path / "model", "--output", tmp_path / "out")
    assert "doc.ents: " in shown
    assert any(label in shown for label in ("  ORG ", "  PER "))
    assert "<span" in (tmp_path / "out" / "spans.html").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "pipeline" / "nestree" / "model.safetensors").is_file()


def test_a_pipeline_answers_as_people_know_it() -> None:
    shown = shown_by("hugging_face.py")
    assert "{'entity_group': " in shown
    assert "'depth': " in shown
    assert "A folder as the hub holds it: README.md encoder model.safetensors nestree.json" in shown
    assert "The same entities: True" in shown


def test_the_annotation_loop_goes_round_with_tasks_skipped_and_unfinished(tmp_path: Path) -> None:
    folder = tmp_path / "loop"
    few = ["--output", folder, "--first", "10", "-k", "10", "--epochs", "1", "--rounds", "2"]
    shown = shown_by("annotation_loop.py", *few, "--encoder", encoder(tmp_path / "encoder"))
    assert shown.count("$ nestree train") == 3
    assert shown.count("$ nestree suggest") == 2
    rounds = [json.loads((folder / f"round-{number}.json").read_text()) for number in (1, 2)]
    texts = [{task["data"]["text"] for task in tasks} for tasks in rounds]
    assert [len(one) for one in texts] == [10, 10]
    assert not texts[0] & texts[1]  # not even what was skipped
    back = list(read(folder / "returned-1.json", options={"unknown_label": "not looked at"}))
    assert len(back) == 9
    assert [bool(one.unknown) for one in back] == [True, *[False] * 8]


def test_the_pictures_of_the_guide_are_those_that_the_example_draws(tmp_path: Path) -> None:
    shown_by("drawings.py", tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 6
    for picture in drawn:
        kept = EXAMPLES.parent / "docs" / "images" / picture.name
        assert picture.read_text() == kept.read_text(), f"run python examples/drawings.py: {kept.name} is not as drawn"
