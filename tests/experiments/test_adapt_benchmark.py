"""``benchmarks.adapt``: what waits for what, what is left out, what earlier calls left."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import adapt
from benchmarks.adapt import main, measured, table, with_earlier
from benchmarks.adapt_plan import KINDS, STAGES, Plan
from experiments.store import write_json
from nestree.data import read


def plan(work: Path, **others: Any) -> Plan:
    usual = {"data": work, "encoder": "minilm", "encoder_name": "minilm", "width": 384, "name": "usual", "seeds": 3}
    more = {"students": 2, "device": "cpu", "raw": [], "adapt": [""], "train": [""], "distil": ""}
    more |= {"share": 1.0, "teacher": ""}
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


def done(chosen: Plan, made: str) -> None:
    """Makes it look as if an encoder or a combined model were there."""
    if made == "encoder":
        write_json(chosen.encoder_folder(0) / "adaptation" / "result.json", {"encoder": "minilm"})
    else:
        write_json(chosen.folder(made) / "nestree.json", {})


def test_what_lacks_something_is_left_out_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    assert not plan(tmp_path).jobs(["distil"], said.append)
    lacks = "since there is no adapted-ensemble, encoder"
    assert said == [f"left out: demo student-{seed}, {lacks}" for seed in range(2)]
    assert not plan(tmp_path).jobs(["measure"], said.append)
    assert not list(tmp_path.iterdir())


def test_what_an_earlier_call_left_is_kept(tmp_path: Path) -> None:
    one = {"seconds": 1.0, "epochs": 2.0, "perplexity_after": 3.0}
    kinds: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    earlier = {"encoder": one, "more_encoders": [one], "kinds": kinds, "notes": {"student": "stopped"}}
    earlier["made"] = {"student": {"flags": {"distil": "--epochs 8"}, "code": {"commit": "of then"}}}
    found = measured(plan(tmp_path, adapt=["", ""]))
    assert found["more_encoders"] == [None]
    together = with_earlier(found, earlier)
    assert (together["encoder"], together["more_encoders"]) == (one, [one])
    assert together["notes"] == {"student": "stopped"}
    assert together["made"] == earlier["made"]
    now = {**found, "kinds": {**kinds, "student": [{}]}, "made": {"student": {"flags": {}, "code": {}}}}
    assert with_earlier(now, earlier)["made"] == now["made"]
    assert "perplexity of held-out text 3.00" in "\n".join(table(together, []))


def test_models_of_one_start_are_averaged_too(tmp_path: Path) -> None:
    after = {job.name: set(job.after) for job in plan(tmp_path, train=["--start-seed 0"]).jobs(STAGES, pytest.fail)}
    assert after["demo adapted-average"] == after["demo adapted-ensemble"]
    assert after["demo student-average"] == after["demo student-ensemble"]
    assert "demo plain-average" not in after
    commands = {
        job.name: list(job.command) for job in plan(tmp_path, train=["--start-seed=0"]).jobs(STAGES, pytest.fail)
    }
    assert commands["demo adapted-average"][-2:] == ["--how", "weights"]
    assert commands["demo adapted-ensemble"][-2:] == ["--how", "potentials"]
    students = {job.name for job in plan(tmp_path, distil="--start-seed 7").jobs(STAGES, pytest.fail)}
    assert "demo student-average" in students
    assert "demo adapted-average" not in students
    for mixed in (["--start-seed 0", ""], ["--start-seed 0", "--start-seed 1"]):
        assert "adapted-average" not in str(plan(tmp_path, train=mixed).jobs(STAGES, pytest.fail))


def test_what_is_not_annotated_is_raw_text_for_encoders_and_students(tmp_path: Path) -> None:
    cut = plan(tmp_path, share=0.2)
    documents, annotated, raw = (list(read(path)) for path in (plan(tmp_path).corpus.train, cut.corpus.train, *cut.raw))
    assert [one.text for one in annotated + raw] == [one.text for one in documents]
    assert len(annotated) == round(0.2 * len(documents))
    assert [one.entities for one in annotated] == [one.entities for one in documents[: len(annotated)]]
    assert any(one.entities for one in documents[len(annotated) :])
    assert not any(one.entities for one in raw)

    jobs = {job.name: list(job.command) for job in cut.jobs(STAGES, pytest.fail)}
    reads_raw = {name.removesuffix("-0") for name, command in jobs.items() if str(cut.raw[0]) in command}
    assert reads_raw == {"demo encoder", "demo student", "demo student-1"}
    assert str(cut.corpus.train) in jobs["demo student-annotated-1"]
    assert "student-annotated" not in str(plan(tmp_path).jobs(STAGES, pytest.fail))
    settings = Path(jobs["demo plain-0"][jobs["demo plain-0"].index("--config") + 1]).read_text(encoding="utf-8")
    assert 'missing_labels = "ignore"' in settings  # a small share may lack a label of dev
    with pytest.raises(ValueError, match=r"of 330 documents, a share of 0\.999 leaves none annotated, or none raw"):
        plan(tmp_path, share=0.999)
    assert all(str(plan(tmp_path).corpus.train) not in command for command in jobs.values())
    assert "shared" not in jobs["demo plain-0"][jobs["demo plain-0"].index("--output") + 1]


def test_students_of_another_names_teacher_take_its_encoder_and_answers(tmp_path: Path) -> None:
    usual, others = plan(tmp_path), plan(tmp_path, name="others", teacher="usual")
    assert others.folder("adapted-ensemble") == usual.folder("adapted-ensemble")
    assert others.encoder_folder(0) == usual.encoder_folder(0)
    assert others.folder("student", 0) != usual.folder("student", 0)
    assert {kind.split("-")[0] for kind in others.kinds} == {"student"}

    def said(chosen: Plan) -> str:
        command = {job.name: list(job.command) for job in chosen.jobs(STAGES, pytest.fail)}["demo student-0"]
        return command[command.index("--answers") + 1]

    for made in ("encoder", "adapted-ensemble"):
        assert not others.jobs(STAGES, [].append), f"without {made}"  # no teacher is trained by this name's settings
        done(usual, made)
    assert said(others) == said(usual)
    assert not plan(tmp_path, name="others", teacher="usual", share=0.2).jobs(STAGES, [].append)  # it knows too much


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--share", "0"], "--share is 0; it must be more than 0 and at most 1"),
        (["--raw", "nowhere.txt"], "--raw: there is no nowhere.txt"),
        (["--stages", "adapt,destil"], "there is no stage destil; known are adapt, plain"),
        (["--teacher", "usual"], "--teacher names other settings than --name"),
        (["--share", "0.2"], "--share and --raw are not the usual settings; give them a --name"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    tmp_path: Path, flags: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["adapt", "--data", str(tmp_path), "--corpus", "demo", "--work", str(tmp_path / "work")]
    monkeypatch.setattr(sys, "argv", [*usual, *flags])
    with pytest.raises(SystemExit):
        main()
    assert says in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


def test_models_are_compared_with_plain_ones_of_the_same_annotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapt, "RESULTS", tmp_path)
    for name, share in (("", 1.0), ("-few", 0.1)):
        made = {"plain": {"flags": {"share": share}}}
        write_json(tmp_path / f"adapt-demo-minilm{name}.json", {"kinds": {"plain": [{"of": name}]}, "made": made})

    def against(**options: Any) -> list[Any]:
        return adapt._plain("adapt-demo-minilm", plan(tmp_path, **options).options)

    assert against(name="other") == [{"of": ""}]
    assert against(name="other", teacher="few") == [{"of": ""}]
    assert against(name="other", teacher="few", share=0.1) == [{"of": "-few"}]
    assert against(name="other", share=0.1) == []
    assert against(name="other", teacher="few", share=0.2) == []
