"""``nestree evaluate --gold --predicted``: predictions of any system, as people have them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nestree.cli.main import main

Capture = pytest.CaptureFixture[str]

TEXT = "IL-2 gene expression\\nrequires NF-kB.  It works."
GOLD = (
    f'{{"text": "{TEXT}", "entities": [{{"start": 0, "end": 4, "label": "protein"}}, '
    '{"start": 0, "end": 9, "label": "DNA"}, {"start": 30, "end": 35, "label": "protein"}]}\n'
)
PREDICTED = """\
IL B-protein|B-DNA
- I-protein|I-DNA
2 I-protein|I-DNA
gene I-DNA
expression O
requires O
NF-kB B-protein
. I-protein

It O
works O
. O
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "gold.jsonl").write_text(GOLD)
    (tmp_path / "predicted.conll").write_text(PREDICTED)
    return ["--gold", str(tmp_path / "gold.jsonl"), "--predicted", str(tmp_path / "predicted.conll")]


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_words_are_compared_with_running_text(files: list[str], capsys: Capture) -> None:
    assert main(["evaluate", *files]) == 0
    out, err = capsys.readouterr()
    assert rows(out)[2:] == [
        ["DNA", "100.00", "100.00", "100.00", "1", "1", "1"],
        ["protein", "50.00", "50.00", "50.00", "2", "2", "1"],
        ["micro", "66.67", "66.67", "66.67", "3", "3", "2"],
        ["macro", "75.00", "75.00", "75.00"],
        ["unlabelled", "spans", "66.67", "66.67", "66.67", "3", "3", "2"],
    ]
    assert "gold.jsonl: read as jsonl" in err
    assert "predicted.conll: read as conll" in err
    assert "text is split (words by 'punctuation', sentences by 'sentencex', en)" in err
    assert "1 document\n" in err


@pytest.mark.parametrize(
    ("match", "micro"),
    [
        ("boundary", ["66.67", "66.67", "66.67", "3", "2", "3", "2"]),
        ("overlap", ["100.00", "100.00", "100.00", "3", "3", "3", "3"]),
        ("partial", ["94.44", "94.44", "94.44", "3", "2.83", "3", "2.83"]),
    ],
)
def test_other_ways_to_match_have_a_table_with_both_sides(
    files: list[str], match: str, micro: list[str], capsys: Capture
) -> None:
    assert main(["evaluate", *files, "--match", match]) == 0
    out, err = capsys.readouterr()
    assert rows(out)[0] == ["P", "R", "F1", "gold", "found", "predicted", "right"]
    assert ["micro", *micro] in rows(out)
    assert f"counted as right ({match}): the same" in err


def test_kinds_are_added_as_tables(files: list[str], capsys: Capture) -> None:
    assert main(["evaluate", *files, "--by", "depth,nesting", "--by", "length"]) == 0
    out = capsys.readouterr().out
    assert [lines[0].split()[0] for lines in (part.splitlines() for part in out.split("\n\n")[1:])] == [
        "depth",
        "nesting",
        "words",
    ]
    assert ["2", "100.00", "100.00", "100.00", "1", "1", "1", "1"] in rows(out)  # IL-2 in IL-2 gene
    assert main(["evaluate", *files, "--by", "all"]) == 0
    assert capsys.readouterr().out.count("\n\n") == 5


def test_training_data_tells_what_was_seen(files: list[str], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "train.data").write_text("IL - 2 gene\nN N N N\n0,3 protein|0,4 RNA\n\n")
    assert main(["evaluate", *files, "--train", str(tmp_path / "train.data"), "--by", "seen"]) == 0
    out = rows(capsys.readouterr().out)
    assert ["seen", "100.00", "100.00", "100.00", "1", "1", "1", "1"] in out
    assert ["other", "label", "100.00", "100.00", "100.00", "1", "1", "1", "1"] in out
    assert ["unseen", "0.00", "0.00", "0.00", "1", "0", "1", "0"] in out


def test_json_has_all_kinds_and_nothing_else_is_on_stdout(files: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main(["evaluate", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["gold"], found["predicted"], found["match"]) == (files[1], files[3], "exact")
    assert list(found["breakdowns"]) == ["label", "depth", "nesting", "length", "sentence"]
    row = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "gold": 1, "found": 1, "predicted": 1, "right": 1}
    assert found["breakdowns"]["depth"]["2"] == row
    assert found["micro"]["correct"] == 2
    assert main(["evaluate", *files, "--json", "--train", files[1]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["train"] == files[1]
    assert found["breakdowns"]["seen"]["seen"]["gold"] == 3


def test_each_file_has_its_own_format_and_options(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "gold.txt").write_text("0\tann\tB-P\n1\tlee\tI-P\n")
    (tmp_path / "predicted.txt").write_text('{"text": "ann lee", "entities": [{"start": 0, "end": 7, "label": "P"}]}\n')
    arguments = ["--gold", str(tmp_path / "gold.txt"), "--format", "columns", "--set", "word=2", "--set", "tags=3"]
    others = ["--predicted", str(tmp_path / "predicted.txt"), "--predicted-format", "jsonl"]
    assert main(["evaluate", *arguments, *others]) == 0
    assert ["micro", "100.00", "100.00", "100.00", "1", "1", "1"] in rows(capsys.readouterr().out)


def test_joined_labels_are_taken_apart_on_request(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "gold.jsonl").write_text(
        '{"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": "X"}, {"start": 0, "end": 1, "label": "Y"}]}\n'
    )
    (tmp_path / "found.jsonl").write_text('{"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": "X|Y"}]}\n')
    files = ["--gold", str(tmp_path / "gold.jsonl"), "--predicted", str(tmp_path / "found.jsonl")]
    assert main(["evaluate", *files]) == 0
    out, err = capsys.readouterr()
    assert ["micro", "0.00", "0.00", "0.00", "2", "1", "0"] in rows(out)
    assert "note: only gold has the labels 'X', 'Y'\n" in err
    assert "note: only the predictions have the label 'X|Y'\n" in err
    assert main(["evaluate", *files, "--split-labels"]) == 0
    assert ["micro", "100.00", "100.00", "100.00", "2", "2", "2"] in rows(capsys.readouterr().out)


def test_no_torch_is_needed(files: list[str]) -> None:
    code = "import sys; from nestree.cli.main import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    run = [sys.executable, "-c", code, "evaluate", *files]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert found.stdout.endswith("False\n")


# --- What is wrong is said -------------------------------------------------------------------------------------------


def refused(arguments: list[str], capsys: Capture) -> str:
    assert main(["evaluate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in err
    return err


def test_texts_that_differ_are_refused_with_both_places(files: list[str], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "predicted.conll").write_text(PREDICTED.replace("works", "worked"))
    err = refused(files, capsys)
    assert "the texts differ: 's.' at character 45 of document 1 of gold" in err
    assert "gold.jsonl:1)" in err
    assert "'ed .' at character 7 of document 2 of the predictions" in err
    assert "predicted.conll:10)" in err
    (tmp_path / "predicted.conll").write_text(PREDICTED[: PREDICTED.index("It")])
    err = refused(files, capsys)
    assert "the last document of the predictions ends at character 38 of document 1 of gold" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "there is nothing to evaluate. Use `nestree evaluate MODEL TEST`, or `nestree evaluate --gold"),
        (["model"], "TEST is missing. Use"),
        (["--gold", "a"], "--predicted is missing. Use"),
        (["--predicted", "a"], "--gold is missing. Use"),
        (["model", "--gold", "a"], "a model and a file of predictions cannot be evaluated at once. Use"),
        (["--gold", "a", "--predicted", "b", "--output", "c"], "--output is for a model, and here are predictions"),
        (["--gold", "a", "--predicted", "b", "--device", "cpu"], "--device is for a model, and here are predictions"),
        (["model", "test", "--predicted-format", "conll"], "--predicted-format is for files of predictions"),
        (["model", "test", "--words", "whitespace"], "--words is for files of predictions"),
        (["model", "test", "--by", "seen"], "--by seen tells entities of the training data from others"),
        (["--gold", "nowhere", "--predicted", "b"], "nowhere: there is no such file"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments: list[str], says: str, capsys: Capture) -> None:
    assert says in refused(arguments, capsys)


def test_options_without_their_file_are_refused(files: list[str], capsys: Capture) -> None:
    assert "there is no --train that" in refused([*files, "--train-format", "jsonl"], capsys)
    assert "an option is written OPTION=VALUE" in refused([*files, "--set-predicted", "x"], capsys)
    assert "there is no format 'json'" in refused([*files, "--predicted-format", "json"], capsys)


def test_other_kinds_and_matches_are_refused(files: list[str], capsys: Capture) -> None:
    for arguments, says in (
        (["--by", "colour"], "there is no kind 'colour'"),
        (["--match", "fuzzy"], "invalid choice"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["evaluate", *files, *arguments])
        assert stopped.value.code == 2
        assert says in capsys.readouterr().err


def test_intervals_are_drawn_over_documents_or_sentences(files: list[str], capsys: Capture) -> None:
    assert main(["evaluate", *files, "--intervals", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["intervals"]
    assert found["f1"]["value"] == pytest.approx(2 / 3, abs=1e-5)
    assert found["f1"]["low"] <= found["f1"]["value"] <= found["f1"]["high"]
    assert main(["evaluate", *files, "--intervals"]) == 0
    (row,) = [row for row in rows(capsys.readouterr().out) if row[:1] == ["F1"]]
    assert row[1] == "66.67"
    assert main(["evaluate", *files, "--json"]) == 0
    assert "intervals" not in json.loads(capsys.readouterr().out)
