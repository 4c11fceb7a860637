"""The demo runs from its data to its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nestree
from nestree.demo.__main__ import main
from tests.training.cases import encoder


def test_it_trains_evaluates_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--encoder", str(encoder(tmp_path / "encoder")), "--epochs", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.count("$ nestree train") == out.count("$ nestree evaluate") == 2
    assert "F1 on held-out sentences: TreeCRF" in out
    assert f"nestree serve {Path('demo', 'treecrf')}, then open http://127.0.0.1:8000/" in out
    assert "Next, on your own annotation" in out
    assert "epoch 1/1" in err
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("<svg") == 5  # each of five sentences with its tree
    assert "data:image/png;base64" in page
    assert set(json.loads((tmp_path / "demo" / "scores.json").read_text())) == {"treecrf", "local"}


def test_the_model_is_at_the_top_of_the_package() -> None:
    from nestree.model import NestedNER

    assert nestree.NestedNER is NestedNER
    with pytest.raises(AttributeError, match="no attribute 'Nested'"):
        nestree.Nested  # noqa: B018
