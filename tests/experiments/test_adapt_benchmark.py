"""``benchmarks.adapt``: what waits for what, what is left out, what earlier calls left."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from benchmarks.adapt import STAGES, Plan, table, with_earlier


def plan(work: Path, **others: Any) -> Plan:
    usual = {"data": work, "encoder": "minilm", "encoder_name": "minilm", "width": 384, "name": "usual", "seeds": 3}
    more = {"students": 2, "device": "cpu", "raw": [], "adapt": [""], "train": [""], "distil": ""}
    return Plan(argparse.Namespace(work=work, **{**usual, **more, **others}), "demo")


def test_models_wait_for_their_encoder_and_students_for_their_teacher(tmp_path: Path) -> None:
    after = {job.name: set(job.after) for job in plan(tmp_path).jobs(STAGES, pytest.fail)}
    assert after["demo plain-0"] == set()
    assert after["demo adapted-2"] == {"demo encoder"}
    assert after["demo adapted-ensemble"] == {f"demo adapted-{seed}" for seed in range(3)}
    assert after["demo student-1"] == {"demo adapted-ensemble", "demo encoder"}
    assert after["demo student-ensemble"] == {"demo student-0", "demo student-1"}
    assert len(after) == 1 + 3 + 3 + 2 + 2 + 1


def test_encoders_and_settings_take_turns(tmp_path: Path) -> None:
    chosen = plan(tmp_path, adapt=["--seed 0", "--seed 1"], train=["--word first", "--word mean", "--word last"])
    jobs = {job.name: job for job in chosen.jobs(STAGES, pytest.fail)}
    assert jobs["demo adapted-1"].after == ["demo encoder-1"]
    assert jobs["demo adapted-2"].after == ["demo encoder"]
    assert "demo encoder-1" in jobs["demo student-1"].after
    words = [list(jobs[f"demo adapted-{seed}"].command) for seed in range(3)]
    assert [one[one.index("--word") + 1] for one in words] == ["first", "mean", "last"]


def test_what_lacks_something_is_left_out_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    assert not plan(tmp_path).jobs(["distil"], said.append)
    lacks = "since there is no adapted-ensemble, encoder"
    assert said == [f"left out: demo student-{seed}, {lacks}" for seed in range(2)]
    assert not plan(tmp_path).jobs(["measure"], said.append)
    assert not list(tmp_path.iterdir())


def test_what_an_earlier_call_left_is_kept(tmp_path: Path) -> None:
    one = {"seconds": 1.0, "epochs": 2.0, "perplexity_after": 3.0}
    kinds = {kind: [] for kind in ("plain", "adapted", "plain-ensemble", "adapted-ensemble", "student")}
    kinds["student-ensemble"] = []
    earlier = {"encoder": one, "more_encoders": [one], "kinds": kinds, "notes": {"student": "stopped"}}
    earlier["made"] = {"student": {"flags": {"distil": "--epochs 8"}, "code": {"commit": "of then"}}}
    found = plan(tmp_path, adapt=["", ""]).measured()
    assert found["more_encoders"] == [None]
    together = with_earlier(found, earlier)
    assert (together["encoder"], together["more_encoders"]) == (one, [one])
    assert together["notes"] == {"student": "stopped"}
    assert together["made"] == earlier["made"]
    now = {**found, "kinds": {**kinds, "student": [{}]}, "made": {"student": {"flags": {}, "code": {}}}}
    assert with_earlier(now, earlier)["made"] == now["made"]
    assert "perplexity of held-out text 3.00" in "\n".join(table(together, []))
