from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import DistilBertConfig

from experiments import corpora
from experiments.planning import SYNTAX, TREES, USUAL, Request, jobs, joined, planned, seeded, state
from experiments.provenance import Encoder
from experiments.registry import STUDIES
from experiments.runs import Run, changed
from experiments.store import Store
from experiments.studies import latent_labels, learning_curve
from experiments.worker import cut
from nestree.data import Document
from nestree.model.errors import ModelError
from tests.experiments import synthetic


def request(folder: Path, **settings: Any) -> Request:
    found = corpora.find([])
    return Request(
        found, (Encoder("minilm"),), Store(folder / "results"), folder / "work", wanted_corpora=("demo",), **settings
    )


def test_a_run_has_one_name_however_its_changes_are_listed() -> None:
    one = Run("genia", "minilm", "paper", (("smoothing", 0.0), ("normalize", False)))
    other = Run("genia", "minilm", "paper", (("normalize", False), ("smoothing", 0.0)))
    assert one == other
    assert one.name == "genia/minilm/paper,normalize=False,smoothing=0.0,seed=0"
    assert Run.from_dict(json.loads(json.dumps(one.as_dict()))) == one


def test_runs_that_differ_in_anything_have_different_names() -> None:
    runs = [
        Run("genia", "minilm"),
        Run("litbank", "minilm"),
        Run("genia", "mpnet"),
        Run("genia", "minilm", "paper"),
        Run("genia", "minilm", changes=(("loss", "local"),)),
        Run("genia", "minilm", seed=1),
        Run("genia", "minilm", sentences=0.5),
        Run("genia", "minilm", annotated=0.5),
        Run("genia", "minilm", annotated=0.5, missing="negative"),
    ]
    assert len({run.name for run in runs}) == len(runs)


def test_unknown_settings_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="smoothing"):
        Run("genia", "minilm", changes=(("smoothign", 0.1),))
    with pytest.raises(ValueError, match="default, paper"):
        Run("genia", "minilm", "best")


def test_the_papers_recipe_has_what_the_paper_has() -> None:
    config = Run("genia", "minilm", "paper").config()
    assert (config.gain, config.mask, config.ema, config.decoding, config.dropout) == (0.0, 0.0, 0.0, "map", 0.2)
    assert (config.smoothing, config.smoothing_scope, config.normalize, config.latent_labels) == (
        0.02,
        "rejected",
        True,
        1,
    )
    assert Run("genia", "mpnet").config(768).encoder_lr < Run("genia", "minilm").config(384).encoder_lr


@pytest.mark.parametrize("name", list(STUDIES))
def test_every_experiment_can_be_planned_on_the_demo_corpus(name: str, tmp_path: Path) -> None:
    plan = STUDIES[name].plan(request(tmp_path, seeds=(0, 1)))
    assert all(parts >= USUAL for parts in plan.values())
    if name not in ("statistics", "speed", "syntax"):  # these need no run, or a treebank
        assert {run.seed for run in plan} >= {0}
    assert len({run.name for run in plan}) == len(plan)


def test_experiments_share_runs(tmp_path: Path) -> None:
    asked = request(tmp_path, seeds=(0,))
    plans = {name: STUDIES[name].plan(asked) for name in ("main", "ablation", "incomplete", "learning-curve", "errors")}
    base = Run("demo", "minilm")
    assert all(base in plan for plan in plans.values())
    together = joined(plans.values())
    assert len(together) < sum(map(len, plans.values()))
    assert TREES in together[base]


def test_settings_for_all_runs_win(tmp_path: Path) -> None:
    plan = STUDIES["learning-curve"].plan(request(tmp_path, seeds=(0,), changes=(("epochs", 1),)))
    assert {run.config().epochs for run in plan} == {1}


def test_plans_go_seed_by_seed(tmp_path: Path) -> None:
    seeds = [run.seed for run in STUDIES["ablation"].plan(request(tmp_path, seeds=(0, 1, 2)))]
    assert seeds == sorted(seeds)


def test_a_run_with_a_result_is_not_run_again(tmp_path: Path) -> None:
    asked = request(tmp_path, seeds=(0, 1))
    plan = planned(seeded(asked, Run("demo", "minilm")))
    synthetic.put(asked.store, 0.5, Run("demo", "minilm"), seeds=1)
    assert [state(run, parts, asked) for run, parts in plan.items()] == ["done", "new"]
    assert [job.name for job in jobs(plan, asked)] == ["demo/minilm/default,seed=1"]


def test_a_result_that_lacks_a_part_is_measured_again_and_loses_nothing(tmp_path: Path) -> None:
    asked = request(tmp_path, seeds=(0,))
    synthetic.put(asked.store, 0.5, Run("demo", "minilm"), seeds=1, trees=[])
    (job,) = jobs(planned(seeded(asked, Run("demo", "minilm")), SYNTAX), asked)
    spec = json.loads(Path(job.command[-1]).read_text())
    assert {"scores", "errors", "trees", "syntax"} == set(spec["parts"])


def test_a_run_that_was_begun_is_told_from_a_new_one(tmp_path: Path) -> None:
    asked = request(tmp_path)
    run = Run("demo", "minilm")
    training = asked.work / run.name / "training"
    training.mkdir(parents=True)
    (training / "config.toml").write_text("")
    (training / "run.json").write_text("{}")
    assert state(run, USUAL, asked) == "begun"
    (training / "result.json").write_text("{}")
    assert state(run, USUAL, asked) == "trained"


def test_latent_labels_are_one_to_six_and_multiples_of_the_label_size() -> None:
    assert latent_labels.sizes(5) == [1, 2, 3, 4, 5, 6, 10, 15]
    assert latent_labels.sizes(7) == [1, 2, 3, 4, 5, 6, 7, 14, 21]


def test_little_data_gets_more_passes() -> None:
    assert learning_curve.passes("genia", 0.01) == 40
    assert learning_curve.passes("genia", 1.0) == 10
    assert learning_curve.changes_at("genia", 1.0, {}) == {}


def test_changes_add_up() -> None:
    run = changed(Run("genia", "minilm", changes=(("loss", "local"),)), dropout=0.1)
    assert dict(run.changes) == {"loss": "local", "dropout": 0.1}


# --- Corpora ---------------------------------------------------------------------------------------------------------


def test_corpora_are_found_in_a_folder(tmp_path: Path) -> None:
    for path in ("genia/train.data", "genia/dev.data", "genia/train.docids", "genia/treebank-train-500.zip"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    for path in ("litbank/train/tsv", "litbank/train/brat", "litbank/dev/tsv", "empty"):
        (tmp_path / path).mkdir(parents=True)
    for path in ("germeval2014/train.tsv", "germeval2014/dev.tsv", "mine/train.jsonl", "mine/dev.jsonl"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    found = corpora.find([tmp_path])
    assert set(found) == {"genia", "litbank", "germeval", "mine", "demo"}
    assert found["genia"].train.name == "train.data"
    assert found["genia"].treebank == tmp_path / "genia" / "treebank-train-500.zip"
    assert found["litbank"].dev == tmp_path / "litbank" / "dev" / "tsv"
    assert [one.name for one in corpora.choose(found, [], ("genia", "ace"))] == ["genia"]
    with pytest.raises(LookupError, match="found were"):
        corpora.choose(found, ["ace"], ())


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--data"):
        corpora.find([tmp_path / "nothing"])


# --- Training data that are left out ---------------------------------------------------------------------------------


def documents(number: int = 40) -> list[Document]:
    return [Document.from_words(["a", "b", "c"], [(0, 1, "X"), (0, 2, "Y"), (2, 3, "X")]) for _ in range(number)]


def test_smaller_shares_are_part_of_larger_ones() -> None:
    made = [Document.from_words([f"w{at}"]) for at in range(40)]
    texts = {
        share: {one.text for one in cut(made, Run("demo", "minilm", sentences=share, seed=3))} for share in (0.1, 0.5)
    }
    assert len(texts[0.1]) == 4
    assert texts[0.1] < texts[0.5]
    assert texts[0.5] != {one.text for one in cut(made, Run("demo", "minilm", sentences=0.5, seed=4))}


def test_removed_entities_are_the_same_whatever_documents_say() -> None:
    run = Run("demo", "minilm", annotated=0.4)
    said = cut(documents(), run)
    silent = cut(documents(), Run("demo", "minilm", annotated=0.4, missing="negative"))
    assert [one.entities for one in said] == [one.entities for one in silent]
    assert {one.complete_labels for one in said} == {()}
    assert {one.complete_labels for one in silent} == {None}
    assert 0.25 < sum(len(one.entities) for one in said) / 120 < 0.55


def test_the_width_that_rates_depend_on_is_known_or_it_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "distil"
    folder.mkdir()
    DistilBertConfig(dim=96, n_heads=2).save_pretrained(folder)
    assert Encoder(f"x={folder}").width == 96
    assert Encoder("minilm").width == 384
    with pytest.raises(ModelError, match="there is no such folder"):
        _ = Encoder(f"x={tmp_path / 'nowhere'}").width
