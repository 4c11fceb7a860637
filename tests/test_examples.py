"""The demo shows what the README promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_papers_example_trains_and_decodes_its_entities() -> None:
    script = Path(__file__).parents[1] / "examples" / "paper_example.py"
    shown = subprocess.run([sys.executable, script], capture_output=True, check=True).stdout.decode()
    symbols = shown.split("column = last word")[1]
    assert all(glyph in symbols for glyph in "●□○")
    tree = shown.split("Best tree")[1].split("Span marginals")[0]
    for entity in ("PER U.S. State Department spokesman Richard Boucher", "ORG U.S. State Department ", "GPE U.S. "):
        assert entity in tree
    assert "log p(T|x)" in shown
