from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import plots, report
from experiments.counts import pack
from experiments.epochs import described
from experiments.groups import Results
from experiments.registry import STUDIES
from experiments.runs import Run
from experiments.store import Store, read_json, write_json
from experiments.studies import ablation, errors, incomplete, latent_labels, learning_curve, peers, speed, trees
from experiments.study import NOT_RUN, Section
from tests.experiments import synthetic

TREE: dict[str, Any] = {
    "words": ["the", "gene", "of", "(", "NF", ")"],
    "gold": [[0, 2, "DNA"]],
    "nodes": [
        [0, 6, None, 1.0],
        [0, 2, "DNA", 0.9],
        [2, 6, None, 0.8],
        [2, 5, None, 0.7],
        [2, 4, None, 0.6],
    ],
}


def brackets(f1: float) -> dict[str, Any]:
    one = {
        "precision": f1,
        "recall": f1,
        "f1": f1,
        "sentence_f1": f1,
        "right": 1,
        "guessed": 2,
        "gold": 2,
        "sentences": 1,
    }
    return {"paper": one, "brackets": one}


def syntax(f1: float) -> dict[str, Any]:
    nodes = {"entity": [8, 10], "latent": [3, 10]}
    own = {**brackets(f1), "nodes": nodes, "without_punctuation": {"nodes": nodes, "categories": {"NP": [5, 10]}}}
    return {"decoding": "mbr", "sentences": 10, "mbr": own, "map": own}


def everything(store: Store) -> None:
    """Some results of every experiment."""
    base = Run("genia", "minilm")
    synthetic.put(store, 0.80, base, trees=[TREE], syntax=syntax(20.0))
    synthetic.put(store, 0.60, Run("genia", "minilm", changes=(("loss", "local"),)))
    synthetic.put(store, 0.78, Run("genia", "minilm", "paper"))
    for variant in ablation.PAPER:
        synthetic.put(store, 0.70, Run("genia", "minilm", "paper", tuple(variant.changes.items())))
    for latent in (2, 3, 4, 15):
        synthetic.put(store, 0.78, Run("genia", "minilm", "paper", (("latent_labels", latent),)))
    synthetic.put(store, 0.82, Run("genia", "minilm", changes=tuple(errors.REMEDY.items())))
    synthetic.put(store, 0.70, Run("genia", "minilm", annotated=0.4))
    synthetic.put(store, 0.20, Run("genia", "minilm", annotated=0.4, missing="negative"))
    for loss, share in (("", 0.5), ("local", 0.3)):
        changes = learning_curve.changes_at("genia", 0.1, {"loss": loss} if loss else {})
        synthetic.put(store, share, Run("genia", "minilm", changes=tuple(changes.items()), sentences=0.1))
    names = ("random", "left-branching", "right-branching", "random around gold entities", "oracle")
    content = {"matched": 10, "treebank_sentences": 12}
    kinds = dict(zip(names, map(brackets, (8.0, 5.0, 0.1, 15.0, 79.0)), strict=True))
    write_json(store.other_path("syntax-genia"), {**content, "trees": kinds})
    rows = {name: described([0.2, 0.3], [0.1, 0.1], 2) for name in speed.ORDER}
    machine = {"cpu": "a processor", "gpu": "a GPU"}
    known = {"machine": machine, "threads": 2, "corpus": "genia", "encoder": "minilm", "device": "cuda", "epochs": rows}
    write_json(store.other_path("speed/cuda-genia-minilm"), known)
    peer = Run("genia", "minilm", changes=tuple(learning_curve.changes_at("genia", 0.1, {}).items()), sentences=0.1)
    scores = synthetic.result(peer, 0.2)
    own = {"decoding": "own", "own": scores["scores"]["map"]}
    write_json(
        store.other_path("peers/GLiNER/one"),
        {**scores, "tool": "GLiNER", "scores": own, "spec": {**peer.config().as_dict(), "threads": 1}},
    )


def sections(store: Store) -> dict[str, str]:
    text = report.write(store).read_text(encoding="utf-8")
    found = dict(re.findall(r"^## ([a-z-]+) \([^\n]*\)\n(.*?)(?=^## |\Z)", text, re.S | re.M))
    assert set(found) == set(STUDIES)
    return found


def test_without_results_every_section_says_so(tmp_path: Path) -> None:
    assert all(NOT_RUN in text for text in sections(Store(tmp_path)).values())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, str]]:
    store = Store(tmp_path_factory.mktemp("results"))
    everything(store)
    return store, sections(store)


def test_with_results_sections_have_tables_and_the_papers_numbers(written: tuple[Store, dict[str, str]]) -> None:
    _, found = written
    for name, text in found.items():
        assert (NOT_RUN in text) == (name == "statistics"), name
    assert "*78.2 ± 0.1*" in found["main"]
    assert "BioBERT" in found["main"]
    assert "77.6" in found["ablation"]
    assert "96.3" in found["errors"]
    assert "*16.95*" in found["syntax"]
    assert "3 min 20 s" in found["speed"]


def test_other_tools_are_compared_with_runs_on_the_same_sentences(written: tuple[Store, dict[str, str]]) -> None:
    store, found = written
    group = Results(store).group("genia", "minilm", "default", {"epochs": 20}, sentences=0.1)
    assert group is not None
    assert len(group.runs) > 1
    assert re.search(r"^\| nestree \|.*\| 1 \|$", found["peers"], re.M)


def test_a_tool_that_finds_nothing_is_not_one_to_be_ahead_of(tmp_path: Path) -> None:
    store = Store(tmp_path)
    everything(store)
    path = store.other_path("peers/GLiNER/one")
    content = read_json(path)
    assert content is not None
    content["scores"]["own"] = synthetic.scored(0.0, np.random.default_rng(0))
    write_json(path, content)
    text = sections(store)["peers"]
    assert "GLiNER finds nothing with this budget" in text
    assert "ahead of GLiNER" not in text


def test_notes_by_hand_are_quoted_under_their_experiment_and_marked(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.80, Run("genia", "minilm", "paper"))
    synthetic.put(store, 0.70, Run("genia", "minilm", "paper", (("loss", "local"),)))
    before = sections(store)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "ablation.md").write_text("Seeds were added late.\n", encoding="utf-8")
    after = sections(store)
    assert [name for name in after if after[name] != before[name]] == ["ablation"]
    assert "### A note on these runs\n\nSeeds were added late.\n" in after["ablation"]


def test_every_picture_that_is_named_is_there(written: tuple[Store, dict[str, str]]) -> None:
    store, found = written
    named = [one for text in found.values() for one in re.findall(r"\]\(([\w.-]+\.(?:svg|png|html))\)", text)]
    assert len(named) >= 7
    assert all((store.folder / one).stat().st_size > 500 for one in named)


def test_the_same_results_give_the_same_report(written: tuple[Store, dict[str, str]]) -> None:
    store, _ = written
    files = [path for path in store.folder.iterdir() if path.is_file()]
    before = {path.name: path.read_bytes() for path in files}
    report.write(store)
    assert {path.name: path.read_bytes() for path in files} == before


def test_tables_are_whole(written: tuple[Store, dict[str, str]]) -> None:
    store, _ = written
    lines = (store.folder / "report.md").read_text(encoding="utf-8").split("\n")
    for line, following in pairwise(lines):
        if line.startswith("|") and following.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == len(re.findall(r"(?<!\\)\|", following)), line


def test_conclusions_follow_from_the_numbers(tmp_path: Path) -> None:
    for share, wanted in (
        (0.6, "above the local model"),
        (0.8, "not different beyond chance"),
        (0.95, "below the local model"),
    ):
        store = Store(tmp_path / str(share))
        synthetic.put(store, 0.8, Run("genia", "minilm"))
        synthetic.put(store, share, Run("genia", "minilm", changes=(("loss", "local"),)))
        assert wanted in sections(store)["main"]


def test_a_local_model_with_a_threshold_is_compared_where_it_was_measured(tmp_path: Path) -> None:
    store = Store(tmp_path)
    local = Run("genia", "minilm", changes=(("loss", "local"),))
    synthetic.put(store, 0.8, Run("genia", "minilm"))
    synthetic.put(store, 0.5, local)
    assert "no threshold was tried for it" in sections(store)["main"]
    result = synthetic.result(local, 0.5)
    chance = np.random.default_rng(0)
    result["scores"] |= {"half": synthetic.scored(0.6, chance), "tuned": synthetic.scored(0.8, chance)}
    write_json(store.path(local), result)  # of one seed
    text = sections(store)["main"]
    assert "no threshold was tried for it" not in text
    (row,) = [line for line in text.splitlines() if "| local, threshold of one half |" in line and "±" not in line]
    assert row.endswith("| 1 | 10 |")
    (told,) = [line for line in text.splitlines() if line.startswith("| GENIA with MiniLM-L6 |")]
    half, tuned = re.findall(r"([+−]\d+\.\d+) \([^)]*\)†, p ", told)
    assert float(half) > 10 > abs(float(tuned.replace("−", "-")))


def test_an_ablation_that_helps_is_said_to_speak_against_the_paper(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.7, Run("genia", "minilm", "paper"))
    for variant, share in zip(ablation.PAPER, (0.9, 0.5, 0.7, 0.4), strict=False):
        synthetic.put(store, share, Run("genia", "minilm", "paper", tuple(variant.changes.items())))
    text = sections(store)["ablation"]
    assert "F1 rises, against the paper, with “bilinear instead of biaffine”" in text
    assert "F1 falls, as the paper says, with “without smoothing” and “without TreeCRF (local)”" in text
    assert "no difference beyond chance with “without PN and smoothing”" in text
    assert "costs most holds here" in text


def test_means_are_over_seeds_and_runs_of_another_length_are_not_mixed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.8, Run("genia", "minilm"), seeds=4)
    synthetic.put(store, 0.1, Run("genia", "minilm", changes=(("epochs", 1),)), seeds=2)
    group = Results(store).group("genia", "minilm", "default")
    assert group is not None
    assert [run.seed for run, _ in group.runs] == [0, 1, 2, 3]
    assert group.epochs == 10
    assert group.mean() == pytest.approx(80, abs=4)
    assert re.fullmatch(r"\d\d\.\d\d ± \d\.\d\d", group.text())


def test_if_there_are_only_runs_of_another_length_they_are_shown_and_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.5, Run("demo", "minilm", changes=(("epochs", 1),)))
    assert "the demo corpus" in sections(store)["main"]
    assert "have the demo corpus with MiniLM-L6, TreeCRF (1)." in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_fall_that_chance_could_do_is_not_called_a_failure_of_the_papers_claim(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.7, Run("genia", "minilm", "paper"))
    for variant, share in zip(ablation.PAPER, (0.7, 0.7, 0.7, 0.66), strict=False):
        synthetic.put(store, share, Run("genia", "minilm", "paper", tuple(variant.changes.items())))
    text = sections(store)["ablation"]
    assert "costs most cannot be judged here: no fall is beyond chance" in text
    assert "In the paper's own column for GENIA the largest fall is that without PN and smoothing" in text


def of_benchmark(share: float, runs: int = 1) -> list[dict[str, Any]]:
    """Models as ``benchmarks.adapt`` writes them."""
    found = []
    for seed in range(runs):
        own = synthetic.scored(share, np.random.default_rng([seed, round(100 * share)]))
        micro = {measure: 100 * own["micro"][measure] for measure in ("precision", "recall", "f1")}
        found.append({**micro, "per_sentence": own["per_sentence"]})
    return found


def test_models_of_the_benchmark_of_adapting_stand_in_where_there_are_no_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "experiments" / "results")
    synthetic.put(store, 0.6, Run("genia", "minilm"))
    kinds = {"plain": of_benchmark(0.7, 5), "adapted": of_benchmark(0.72, 5), "adapted-ensemble": of_benchmark(0.9)}
    for name in ("genia-minilm", "genia-mpnet", "genia-mpnet-other"):
        path = tmp_path / "benchmarks" / "results" / f"adapt-{name}.json"
        write_json(path, {"encoder": None, "kinds": {**kinds, "student": []}})
    text = sections(store)["main"]
    of_main, further = text.split("### One step further")
    assert re.search(r"\| GENIA \| MiniLM-L6 \| TreeCRF, MBR \| (5|6)\d\.\d\d ± ", of_main)
    assert re.search(
        r"\| GENIA \| MPNet-base \| TreeCRF, MBR \| [67]\d\.\d\d ± [^|]*\|[^|]*\|[^|]*\| 5 \| 10 \|", of_main
    )
    assert "The models for GENIA with MPNet-base were trained by `benchmarks.adapt`" in of_main
    assert further.count("| 5 adapted ones combined |") == 2
    assert "student" not in further.split("|", 1)[1]
    assert re.search(r"GENIA with MPNet-base, against plain .* best is “5 adapted ones combined” with 9\d", further)


def test_models_that_read_raw_text_too_have_rows_of_their_own(tmp_path: Path) -> None:
    store = Store(tmp_path / "experiments" / "results")
    synthetic.put(store, 0.6, Run("genia", "minilm"))
    folder = tmp_path / "benchmarks" / "results"
    write_json(folder / "adapt-genia-minilm.json", {"encoder": None, "kinds": {"plain": of_benchmark(0.7, 5)}})
    for name, share, raw, students in (
        ("raw", 1.0, ["more.txt"], of_benchmark(0.9, 3)),
        ("few", 0.1, ["raw.jsonl"], of_benchmark(0.5, 9)),
        ("same", 1.0, [], of_benchmark(0.5, 9)),
        ("small", 1.0, ["more.txt"], of_benchmark(0.5, 1)),
    ):
        kinds = {"plain": of_benchmark(0.7), "adapted": of_benchmark(0.8, 5), "student": students}
        made = {kind: {"flags": {"share": share}, "raw": raw} for kind in kinds}
        write_json(folder / f"adapt-genia-minilm-{name}.json", {"encoder": None, "kinds": kinds, "made": made})
    further = sections(store)["main"].split("### One step further")[1]
    assert further.count("| encoder adapted on the training text and raw text |") == 1
    assert re.search(r"\| student of those 5, with raw text \|[^|]*\|[^|]*\| 9\d\.\d\d ± [^|]*\| 3 \|", further)
    assert "best is “student of those 5, with raw text” with 9" in further
    assert "| encoder adapted on the training text |" not in further


def test_steps_on_a_gpu_become_epochs(tmp_path: Path) -> None:
    store = Store(tmp_path / "experiments" / "results")
    times = {"(a) local": 10, "(a) again": 10, "(b) nestree": 11, "(c) torch-struct": 22, "(d) vanilla": 110}
    rows = [
        {
            "encoder": "bert-large",
            "set": "ACE",
            "loss": loss,
            "step_ms": ms,
            "ratio": ms / 10,
            "low": ms / 11,
            "high": ms / 9,
        }
        for loss, ms in times.items()
    ]
    content = {"environment": {"gpu": "a GPU"}, "rows": rows}
    write_json(tmp_path / "benchmarks" / "results" / "train-step-cuda.json", content)
    text = sections(store)["speed"]
    assert "| ~2.4 s (1.1×, 1 to 1.22) |" in text  # 222 steps of 11 ms
    assert "vanilla Inside takes about 10 times as long as ours, Masked Inside takes about 2.0 times" in text
    assert "Masked Inside is quicker than vanilla Inside" in (store.folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("slow", "wanted"),
    [
        ({"low": 9.0, "ratio": 10.0, "high": 11.0, "steps": 3}, "yes, by 3 steps"),
        ({"low": 5.0, "ratio": 10.0, "high": 15.0, "steps": 3}, "not beyond chance, by 3 steps"),  # 2.8 errors, not 4.3
        ({"low": 8.0, "ratio": 10.0, "high": 12.0, "steps": 12}, "yes"),
        ({"low": 10.0, "ratio": 10.0, "high": 10.0, "steps": 1}, "not tested, by 1 steps"),
        ({"ratio": 10.0, "steps": 12}, "not tested"),
    ],
)
def test_verdicts_by_single_steps_know_how_much_these_vary(tmp_path: Path, slow: dict[str, float], wanted: str) -> None:
    quick = {"low": 2.0, "ratio": 2.0, "high": 2.0, "steps": 12}
    rows = dict.fromkeys(("Masked Inside", "nestree", "biaffine"), quick) | {"vanilla Inside": slow}
    found = Section(tmp_path)
    speed._claims(found, "here", "gpu", {name: row["ratio"] for name, row in rows.items()}, rows)
    assert found.claims[0].verdict == wanted


def test_how_the_loss_grows_is_shown_for_the_devices_that_were_measured(tmp_path: Path) -> None:
    store = Store(tmp_path / "experiments" / "results")
    synthetic.put(store, 0.5, Run("genia", "minilm"))
    rows = [
        {"op": "loss forward+backward", "n": n, "ours_ms": ms, "grows": "n", "exponent": exponent}
        for n, ms, exponent in ((8, 1.0, None), (16, 4.0, 2.0))
    ]
    write_json(tmp_path / "benchmarks" / "results" / "growth-cpu.json", {"rows": rows})
    write_json(tmp_path / "benchmarks" / "results" / "train-step-cuda.json", {"environment": {"gpu": "x"}, "rows": []})
    text = sections(store)["speed"]
    assert "| words | CPU: ms | exponent |" in text
    assert "| 16 | 4.00 | +2.0 |" in text


def test_trainings_on_different_machines_have_times_of_their_own() -> None:
    results = [
        {"seconds": seconds, "machine": {"device": device}} for seconds, device in ((10, "cuda (x)"), (90, "cpu"))
    ]
    assert peers._seconds([*results, {"seconds": 30, "machine": {"device": "cuda (x)"}}]) == "20 s (cuda), 90 s (cpu)"


def test_error_tables_of_seeds_are_added_up() -> None:
    one = synthetic.result(Run("genia", "minilm"), 0.5)
    total = errors.added([one, one])
    assert total.counts[0] == (140, 10)
    assert errors.share(total, "None") == pytest.approx(100 * 31 / 200)


def test_rank_correlation_of_share_and_recall() -> None:
    assert errors.kendall([1, 2, 3], [4, 5, 6]) == (1.0, pytest.approx(1 / 3))
    assert errors.kendall([1, 2, 3], [6, 5, 4]) == (-1.0, pytest.approx(1 / 3))
    tau, p = errors.kendall(range(12), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 10])
    assert tau == pytest.approx(64 / 66)
    assert p == pytest.approx(1 / (errors.DRAWS + 1))


@pytest.mark.parametrize(
    ("degrees", "wanted"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_quantiles_of_students_t(degrees: int, wanted: float) -> None:
    assert latent_labels.quantile(degrees) == pytest.approx(wanted, abs=0.01)


def test_a_slope_and_its_interval() -> None:
    found = latent_labels.trend([1, 2, 4, 8, 16], [1.0, 3.1, 4.9, 7.0, 9.0])
    assert found.slope == pytest.approx(2.0, abs=0.02)
    assert 0 < found.error < 0.2
    assert found.p < 0.05


def test_the_stop_belongs_to_no_latent_constituent() -> None:
    sentence = {"words": ["we", "saw", "it", "."], "nodes": [[0, 4, None, 1.0], [1, 4, None, 0.9], [2, 4, None, 0.8]]}
    assert [one.text for one in trees.latent_of(sentence)] == ["saw it"]
    assert trees.latent_of(sentence)[0].score == 0.9


def test_sound_constituents() -> None:
    assert trees.sound(["the", "gene"])
    assert trees.sound(["(", "NF", ")"])
    assert not trees.sound(["gene", "of"])
    assert not trees.sound([",", "which"])
    assert not trees.sound(["(", "NF"])
    assert not trees.sound(["the", "gene", "--"])
    assert trees.sound(["the", "gene", "”"])
    assert [one.sound for one in trees.latent_of(TREE)] == [False, False, True]


def test_trees_are_drawn_of_the_models_that_the_other_tables_show(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.8, Run("genia", "minilm", changes=(("epochs", 1),)), 1, trees=[TREE])
    other = {**TREE, "words": ["some", *TREE["words"][1:]]}
    synthetic.put(store, 0.8, Run("genia", "minilm"), 1, trees=[other])
    assert "some gene" in sections(store)["trees"]
    assert "the gene" not in sections(store)["trees"]


def test_trees_are_said_to_be_better_or_worse_than_others_only_beyond_chance(tmp_path: Path) -> None:
    words = [*"abcdefghij", "."]
    nodes = {
        "no: fewer than in random trees": [[0, 11, None, 1.0], [0, 3, None, 0.9], [4, 7, None, 0.9]],
        "(more than in random trees": [[0, 11, None, 1.0], [4, 10, None, 0.9], [7, 10, None, 0.9]],
    }
    for number, (wanted, own) in enumerate(nodes.items()):
        ends = {3: "the", 7: "of"}  # what the first kind of tree ends its constituents in
        text = [ends.get(at + 1, word) for at, word in enumerate(words)]
        sentences = [{"words": text, "gold": [], "nodes": own} for _ in range(8)]
        store = Store(tmp_path / str(number))
        synthetic.put(store, 0.8, Run("genia", "minilm"), 1, trees=sentences)
        report.write(store)
        assert wanted in (store.folder / "report.md").read_text(encoding="utf-8")
    low, high = trees._above(np.array([[1, 2], [2, 2], [0, 3]]), np.array([[1, 2], [2, 2], [0, 3]]))
    assert low == high == 0
    assert trees._beside(low, high) == "not shown to be more or fewer than"


def test_a_sentence_that_makes_most_of_a_gap_is_mentioned(tmp_path: Path) -> None:
    good = np.array([[8, 10, 10]] * 40)
    wild = np.array([[8, 11, 10]] * 39 + [[8, 120, 10]])
    found = []
    for counts in (good, wild):
        result = synthetic.result(Run("litbank", "minilm"), 0.5)
        found.append({**result["scores"]["map"], "per_sentence": pack(counts)})
        totals = counts.sum(0)
        found[-1]["micro"] = {"f1": 2 * totals[0] / (totals[1] + totals[2]), "precision": 0.5, "recall": 0.5}
    store = Store(tmp_path)
    for share in (0.1, 1.0):
        for loss, scores in zip(("", "local"), found, strict=True):
            changes = learning_curve.changes_at("litbank", share, {"loss": loss} if loss else {})
            run = Run("litbank", "minilm", changes=tuple(changes.items()), sentences=share)
            result = synthetic.result(run, 0.5)
            result["scores"] = {"decoding": "map", "map": scores}
            write_json(store.path(run), result)
    assert "One sentence makes more than half of +" in sections(store)["learning-curve"]


def test_what_counts_as_negative_is_compared_with_its_better_decoding(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.8, Run("genia", "minilm"))
    synthetic.put(store, 0.7, Run("genia", "minilm", annotated=0.4))
    negative = Run("genia", "minilm", annotated=0.4, missing="negative")
    result = synthetic.result(negative, 0.2)
    result["scores"]["map"] = synthetic.scored(0.6, np.random.default_rng(0))
    write_json(store.path(negative), result)
    text = sections(store)["incomplete"]
    (told,) = [line for line in text.splitlines() if line.startswith("**") and "missing as negative" in line]
    (gap,) = re.findall(r"\+(\d+\.\d+)†", told)
    assert 5 < float(gap) < 15
    assert "| missing as negative, best tree |" in text


def test_a_trend_that_one_latent_label_makes_alone_is_said_to_be_such(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.5, Run("litbank", "minilm", "paper"), seeds=5)
    for latent in (2, 3, 4, 5, 6):
        synthetic.put(store, 0.7, Run("litbank", "minilm", "paper", (("latent_labels", latent),)), seeds=1)
    text = sections(store)["latent-labels"]
    assert "from 2 latent labels on" in text
    assert "recall rises, from two labels on not beyond chance (" in text


def test_what_matters_most_stands_on_top(written: tuple[Store, dict[str, str]]) -> None:
    store, _ = written
    text = (store.folder / "report.md").read_text(encoding="utf-8")
    short = text.partition("## In short")[2].partition("## ")[0]
    assert "**Trees against none** (F1 with the same encoder and recipe, 1 pair of corpus" in short
    assert "by the best tree, as in the paper, better on 1 (+" in short
    assert len(short.split()) < 300


def test_pictures_stand_on_top_too_with_all_rows_and_the_papers_numbers(written: tuple[Store, dict[str, str]]) -> None:
    store, of = written
    text = (store.folder / "report.md").read_text(encoding="utf-8")
    assert "](main.svg)" in text.partition("## In short")[2].partition("## ")[0]
    wanted = {"main": "GENIA with MiniLM-L6", "ablation-paper": "separate ends", "speed": "Masked Inside"}
    for name, row in wanted.items():
        drawn = (store.folder / f"{name}.svg").read_text(encoding="utf-8")
        assert f">{row}<" in drawn, name
        assert ">the paper" in drawn or name == "speed", name  # which has none for GENIA
    assert "](ablation-default.svg)" not in of["ablation"]  # one change alone: the table is enough


def test_trees_that_are_worse_are_not_said_to_be_within_chance(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.5, Run("genia", "minilm"))
    synthetic.put(store, 0.8, Run("genia", "minilm", changes=(("loss", "local"),)))
    report.write(store)
    short = (tmp_path / "report.md").read_text(encoding="utf-8").partition("## In short")[2].partition("## ")[0]
    assert "by MBR, better on none, worse on 1 (−" in short
    assert "not different beyond chance on none" in short


def test_one_seed_is_not_a_plain_yes(tmp_path: Path) -> None:
    for seeds, wanted in ((1, "**(yes, by one seed)**"), (3, "**(yes)**")):
        store = Store(tmp_path / str(seeds))
        synthetic.put(store, 0.8, Run("litbank", "minilm"), seeds=seeds)
        synthetic.put(store, 0.5, Run("litbank", "minilm", changes=(("loss", "local"),)), seeds=seeds)
        report.write(store)
        assert wanted in (store.folder / "report.md").read_text(encoding="utf-8")


def test_all_annotated_is_one_run_for_masked_and_negative() -> None:
    assert incomplete._said("negative", 1.0) == incomplete._said("open", 1.0)


def test_an_epoch_is_extrapolated_by_the_ratio_on_the_same_batches() -> None:
    base = [1.0, 2.0, 1.0, 2.0]
    found = described([10.0, 20.0], base, 4)
    assert found["epoch_seconds"] == 60.0
    assert found["extrapolated"]
    assert (found["ratio"], found["ratio_error"]) == (10.0, 0.0)  # the lengths of batches are no error of it
    uneven = described([1.1, 2.0, 1.0, 2.4], base, 8)
    assert uneven["ratio"] == pytest.approx(6.5 / 6, abs=1e-3)
    assert uneven["ratio_error"] > 0
    whole = described(base, base, 4)
    assert (whole["epoch_seconds"], whole["extrapolated"]) == (6.0, False)


def test_speed_that_was_measured_without_ratios_has_those_of_epochs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows = {name: described([0.2, 0.3], [0.1, 0.1], 2) for name in speed.ORDER}
    for row in rows.values():
        del row["ratio"], row["ratio_error"]
        row["standard_error"] = 0.1
    rows["nestree"]["epoch_seconds"] = 2 * rows["biaffine"]["epoch_seconds"]
    known = {"machine": {"cpu": "a processor"}, "threads": 2, "corpus": "litbank", "encoder": "minilm", "device": "cpu"}
    write_json(store.other_path("speed/cpu-litbank-minilm"), {**known, "epochs": rows})
    assert "(2.00 ± 0.00×)" in sections(store)["speed"]


def test_a_difference_of_speed_within_its_error_is_no_yes(tmp_path: Path) -> None:
    cases = [(0.0, 3, "yes"), (0.0, 1, "yes, by 4 steps"), (4.0, 3, "not beyond chance"), (0.7, 3, "yes")]
    cases += [(0.7, 1, "not beyond chance, by 4 steps")]  # 1.4 errors, as of twelve steps 2.5
    for spread, times, wanted in cases:
        store = Store(tmp_path / f"{spread} {times}")
        base = [1.0, 1.0, 1.0, 1.0] * times
        rows = {name: described(base, base, 20) for name in speed.ORDER}
        uneven = [2.0 - spread, 2.0 + 3 * spread, 2.0 - spread, 2.0 - spread] * times
        rows["vanilla Inside"] = described(uneven, base, 20)
        known = {"machine": {"cpu": "one"}, "threads": 2, "corpus": "litbank", "encoder": "minilm", "device": "cpu"}
        write_json(store.other_path("speed/cpu-litbank-minilm"), {**known, "epochs": rows})
        report.write(store)
        assert f"2.0 times **({wanted})**" in (store.folder / "report.md").read_text(encoding="utf-8")


def test_series_of_a_picture_can_be_told_apart(tmp_path: Path) -> None:
    marks = {"a row": {f"series {at}": plots.Mark(1.0, 0.5, 2.0) for at in range(len(plots.MARKS))}}
    plots.forest(tmp_path / "all.svg", marks, {}, "x")
    assert len(set(zip(plots.MARKS, plots.COLOURS, strict=True))) == len(plots.MARKS)
    marks["a row"]["one more"] = plots.Mark(1.0, 0.5, 2.0)
    with pytest.raises(ValueError, match="can be told apart"):
        plots.forest(tmp_path / "more.svg", marks, {}, "x")


def test_the_decodings_are_compared_where_nothing_else_was_taken_apart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    synthetic.put(store, 0.8, Run("litbank", "minilm"))
    synthetic.put(store, 0.6, Run("litbank", "minilm", changes=(("loss", "local"),)))
    assert "### Decoding: the default recipe" in sections(store)["ablation"]


def test_where_trees_help_is_ordered_only_where_there_is_an_order(tmp_path: Path) -> None:
    for sizes, wanted in (({"nested": 30, "flat": 40}, True), ({"nested": 3, "flat": 40}, False)):
        store = Store(tmp_path / f"{sizes['nested']}")
        for loss, gain in (("", 0.2), ("local", 0.0)):
            run = Run("litbank", "minilm", changes=(("loss", loss),) if loss else ())
            result = synthetic.result(run, 0.7 + gain)
            parts = {"nested": 0.5 + gain, "flat": 0.6 + gain / 2}
            for scores in (result["scores"][way] for way in ("map", "mbr") if way in result["scores"]):
                scores["breakdowns"] = {"nesting": {one: {"f1": parts[one], "gold": sizes[one]} for one in parts}}
            write_json(store.path(run), result)
        text = sections(store)["main"]
        assert ("On every pair it is least on flat entities" in text) is wanted
        assert "+10.0 (flat)" in text


def test_what_holds_for_all_corpora_is_explained_once(tmp_path: Path) -> None:
    found = Section(tmp_path)
    for corpus in ("GENIA", "LitBank"):
        found.explain("Entities are removed at random.")
        found.add(f"### {corpus}")
    assert found.parts == ["Entities are removed at random.", "### GENIA", "### LitBank"]
