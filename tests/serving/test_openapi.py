"""What the OpenAPI document says is what the service does: schemathesis looks for anything else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nestree.model import NestedNER
from nestree.serving import Limits, Settings, create_app
from tests.model.tiny import model
from tests.serving.server import served

KEY = "a-key-of-sixteen-characters"
SMALL = Settings(Limits(characters=200, texts=8, words=40, request_bytes=20_000))
"""So that what lies beyond the limits is tried, too."""


def look_for_holes(url: str, folder: Path, *options: str) -> None:
    """Runs schemathesis, always with the same examples."""
    pytest.importorskip("schemathesis", reason="schemathesis looks for holes in the service")
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", *options]
    command += ["--checks", "all", "--phases", "examples,coverage,fuzzing", "--max-examples", "100"]
    command += ["--generation-deterministic", "--workers", "1"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "NO_COLOR": "1"}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert "Tested: 5" in run.stdout


@pytest.mark.parametrize("loss", ["treecrf", "local"])
def test_nothing_is_found(loss: Any, tmp_path: Path) -> None:
    with served(model(tmp_path, loss=loss), SMALL) as client:
        look_for_holes(str(client.base_url), tmp_path)


def test_nothing_is_found_behind_a_key(ner: NestedNER, tmp_path: Path) -> None:
    with served(ner, SMALL, keys=[KEY]) as client:
        # It would send our key beside ones that it invents for the other header, and take the answer for a hole.
        rest = ["--header", f"X-API-Key: {KEY}", "--exclude-checks", "ignored_auth"]
        look_for_holes(str(client.base_url), tmp_path, *rest)


def test_every_error_is_described(ner: NestedNER) -> None:
    paths = create_app(ner).openapi()["paths"]
    responses = paths["/v1/predict"]["post"]["responses"]
    assert set(responses) == {"200", "400", "408", "413", "415", "422", "503", "504"}
    for status, response in responses.items():
        assert list(response["content"]) == ["application/json" if status == "200" else "application/problem+json"]


def test_limits_and_labels_stand_in_the_schema(ner: NestedNER) -> None:
    schema = create_app(ner, SMALL).openapi()["components"]["schemas"]["PredictRequest"]
    assert schema["properties"]["text"]["maxLength"] == 200
    assert schema["properties"]["tokens"]["items"]["maxItems"] == 40
    assert list(schema["properties"]["threshold"]["anyOf"][1]["properties"]) == ["ORG", "PER"]
