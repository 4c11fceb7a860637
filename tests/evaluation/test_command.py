"""``nestree evaluate`` as people use it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.cli.main import main
from nestree.data import Document, Entity, Splitter, read
from nestree.model import NestedNER
from tests.model import tiny

Capture = pytest.CaptureFixture[str]
Predict = Callable[[Callable[[Document], Iterable[tuple[int, int, str]]]], dict[str, Any]]

TEST = """\
{"tokens": ["ann", "of", "acme", "west"], "entities": [{"start": 0, "end": 1, "label": "PER"}, \
{"start": 2, "end": 4, "label": "ORG"}, {"start": 2, "end": 4, "label": "ORG"}, \
{"start": 1, "end": 3, "label": "ORG"}]}
{"tokens": ["bob"], "entities": [{"start": 0, "end": 1, "label": "PER"}, {"start": 0, "end": 1, "label": "DOG"}]}
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny.model(folder).save_pretrained(folder / "saved")
    return folder / "saved"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "test.jsonl"
    path.write_text(TEST)
    return path


@pytest.fixture
def predict(monkeypatch: pytest.MonkeyPatch) -> Predict:
    """Puts predictions of our choice, in words, in the place of the model's; tells what was asked for."""

    def use(entities: Callable[[Document], Iterable[tuple[int, int, str]]]) -> dict[str, Any]:
        asked: dict[str, Any] = {}

        def annotate(model: NestedNER, documents: Iterable[Document], **settings: Any) -> Iterator[Document]:
            asked.update(settings, training=model.training, device=model.device.type)
            for document in documents:
                assert document.tokens is not None
                assert document.sentences is not None
                found = [
                    Entity(*document.tokens.characters(start, end), label, 0.5, start, end)
                    for start, end, label in entities(document)
                ]
                yield replace(document, entities=tuple(found))

        monkeypatch.setattr("nestree.prediction.annotate", annotate)
        return asked

    return use


def some(document: Document) -> list[tuple[int, int, str]]:
    """Two that are right and one that is wrong."""
    return [(0, 1, "PER"), (2, 4, "PER")] if len(document.words) > 1 else [(0, 1, "PER")]


def test_the_table_has_labels_then_micro_macro_and_spans(
    saved: Path, corpus: Path, predict: Predict, capsys: Capture
) -> None:
    predict(some)
    assert main(["evaluate", str(saved), str(corpus)]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["P", "R", "F1", "gold", "predicted", "correct"]
    assert lines[2:] == [
        ["DOG", "0.00", "0.00", "0.00", "1", "0", "0"],
        ["ORG", "0.00", "0.00", "0.00", "2", "0", "0"],
        ["PER", "66.67", "100.00", "80.00", "2", "3", "2"],
        ["micro", "66.67", "40.00", "50.00", "5", "3", "2"],
        ["macro", "22.22", "33.33", "26.67"],
        ["unlabelled", "spans", "100.00", "75.00", "85.71", "4", "3", "3"],
    ]
    assert "read as jsonl" in err
    assert "2 sentences in 2 documents\n" in err
    assert "note: 1 gold entity listed more than once; each is counted once" in err
    assert (
        "note: no tree can hold 1 of the 5 gold entities (1 crossing another); "
        "they stay in gold, so the recall of a tree is 80.00 at most"
    ) in err
    assert "note: 1 gold entity cannot be found: the model does not know the label 'DOG'" in err


def test_json_is_all_there_is_on_stdout(saved: Path, corpus: Path, predict: Predict, capsys: Capture) -> None:
    predict(some)
    assert main(["evaluate", str(saved), str(corpus), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["micro"] == {"precision": 0.666667, "recall": 0.4, "f1": 0.5, "correct": 2, "predicted": 3, "gold": 5}
    assert found["unknown_labels"] == ["DOG"]
    assert (found["model"], found["test"]) == (str(saved), str(corpus))


def test_a_model_has_other_matches_and_kinds_as_files_have(
    saved: Path, corpus: Path, predict: Predict, capsys: Capture
) -> None:
    predict(some)
    arguments = ["evaluate", str(saved), str(corpus), "--match", "boundary", "--by", "seen", "--train", str(corpus)]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["P", "R", "F1", "gold", "found", "predicted", "right"]
    assert ["ORG", "0.00", "50.00", "0.00", "2", "1", "0", "0"] in lines  # found, as a PER
    assert ["micro", "100.00", "60.00", "75.00", "5", "3", "3", "3"] in lines
    assert ["other", "label", "100.00", "0.00", "0.00", "0", "0", "1", "1"] in lines
    assert "counted as right (boundary): the same place, whatever the label" in err
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["match"], found["train"], found["unknown_labels"]) == ("boundary", str(corpus), ["DOG"])
    assert set(found["breakdowns"]) == {"label", "depth", "nesting", "length", "sentence", "seen"}


def test_predictions_are_written_by_the_ending(
    saved: Path, corpus: Path, tmp_path: Path, predict: Predict, capsys: Capture
) -> None:
    predict(some)
    target = tmp_path / "found" / "predictions.jsonl"
    assert main(["evaluate", str(saved), str(corpus), "--output", str(target)]) == 0
    out, err = capsys.readouterr()
    assert "66.67" in out
    assert f"{target}: predictions written as jsonl" in err
    first = next(read(target))
    assert [(entity.tokens, entity.label, entity.score) for entity in first.entities] == [
        ((0, 1), "PER", 0.5),
        ((2, 4), "PER", 0.5),
    ]


def test_a_document_without_words_is_counted_and_left_out_where_a_format_needs_words(
    saved: Path, tmp_path: Path, predict: Predict, capsys: Capture
) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"text": " "}\n{"tokens": ["bob"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}\n')
    predict(lambda document: [(0, 1, "PER")] if document.words else [])
    target = tmp_path / "predictions.data"
    assert main(["evaluate", str(saved), str(path), "--output", str(target)]) == 0
    err = capsys.readouterr().err
    assert "1 sentence in 2 documents" in err
    assert "note: empty document: 1 (1 left out)" in err
    assert [document.words for document in read(target)] == [("bob",)]


def test_text_is_split_as_the_model_does_and_gold_stays_gold(tmp_path: Path, predict: Predict, capsys: Capture) -> None:
    folder = tmp_path / "model"
    tiny.model(tmp_path, splitter=Splitter("whitespace", "en", "lines")).save_pretrained(folder)
    path = tmp_path / "test.jsonl"
    path.write_text('{"text": "ann-lee\\nbob", "entities": [{"start": 0, "end": 3, "label": "PER"}]}\n' * 2)
    predict(lambda document: [(0, 1, "PER")])
    assert main(["evaluate", str(folder), str(path)]) == 0
    out, err = capsys.readouterr()
    assert err.count("text is split as the model reads text (words by 'whitespace', sentences by 'lines', en)") == 1
    assert "4 sentences in 2 documents" in err
    assert "no tree can hold 2 of the 2 gold entities (2 not on word boundaries)" in err
    assert "PER" in out


def test_the_model_comes_ready_and_the_budget_is_passed_on(saved: Path, corpus: Path, predict: Predict) -> None:
    asked = predict(lambda document: [])
    assert main(["evaluate", str(saved), str(corpus), "--device", "cpu"]) == 0
    assert asked == {"training": False, "device": "cpu"}
    assert main(["evaluate", str(saved), str(corpus), "--device", "cpu", "--budget", "100"]) == 0
    assert asked["budget"] == 100


def test_a_test_without_entities_is_evaluated_with_a_note(
    saved: Path, tmp_path: Path, predict: Predict, capsys: Capture
) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"tokens": ["bob"]}\n')
    predict(some)
    assert main(["evaluate", str(saved), str(path)]) == 0
    out, err = capsys.readouterr()
    assert "1 sentence in 1 document\n" in err
    assert "note: the test has no entities" in err
    assert out.splitlines()[2].split() == ["PER", "0.00", "0.00", "0.00", "0", "1", "0"]


def test_a_test_that_is_not_annotated_completely_gets_a_note(
    saved: Path, tmp_path: Path, predict: Predict, capsys: Capture
) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"tokens": ["bob"], "complete_labels": ["ORG"]}\n')
    predict(some)
    assert main(["evaluate", str(saved), str(path)]) == 0
    assert "note: 1 document not annotated completely" in capsys.readouterr().err


def test_the_models_own_predictions_are_evaluated(saved: Path, corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "predictions.jsonl"
    assert main(["evaluate", str(saved), str(corpus), "--output", str(target)]) == 0
    assert [document.text for document in read(target)] == ["ann of acme west", "bob"]


# --- What is wrong is said -------------------------------------------------------------------------------------------


def refused(arguments: list[str | Path], capsys: Capture) -> str:
    assert main(["evaluate", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("error: ")
    return err


def test_a_folder_without_a_model_is_refused(tmp_path: Path, corpus: Path, capsys: Capture) -> None:
    assert "nowhere: there is no such folder. A model is a folder" in refused([tmp_path / "nowhere", corpus], capsys)
    assert "this is a file, and a model is a folder" in refused([corpus, corpus], capsys)
    assert "holds no model of nestree: there is no nestree.json in it" in refused([tmp_path, corpus], capsys)


@pytest.mark.parametrize(
    ("name", "content"),
    [("nestree.json", "{"), ("nestree.json", '{"labels": ["A"], "colour": 1}'), ("model.safetensors", "no tensors")],
)
def test_a_broken_model_is_refused(
    saved: Path, corpus: Path, tmp_path: Path, name: str, content: str, capsys: Capture
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(saved, folder)
    (folder / name).write_text(content)
    assert f"error: {folder}" in refused([folder, corpus], capsys)


@pytest.mark.parametrize("name", ["model.safetensors", "encoder"])
def test_half_a_model_is_refused(saved: Path, corpus: Path, tmp_path: Path, name: str, capsys: Capture) -> None:
    folder = tmp_path / "half"
    shutil.copytree(saved, folder)
    (folder / name).rename(tmp_path / "elsewhere")
    assert f"{folder}: there is no {name} in it. Was the model saved to the end?" in refused([folder, corpus], capsys)


def test_a_test_that_cannot_be_read_is_refused(
    saved: Path, tmp_path: Path, corpus: Path, predict: Predict, capsys: Capture
) -> None:
    predict(some)
    assert "there is no such file" in refused([saved, tmp_path / "nothing.jsonl"], capsys)
    assert "there is no format 'json'" in refused([saved, corpus, "--format", "json"], capsys)
    assert "an option is written OPTION=VALUE" in refused([saved, corpus, "--set", "ends"], capsys)
    corpus.write_text(TEST + "no JSON\n")
    target = tmp_path / "predictions.jsonl"
    assert f"{corpus}:3: " in refused([saved, corpus, "--output", target], capsys)
    assert not target.exists()


def test_a_place_for_predictions_that_will_not_do_is_refused_first(
    saved: Path, tmp_path: Path, corpus: Path, capsys: Capture
) -> None:
    says = "the ending '.odd' does not say which format is meant. Use an ending such as .jsonl"
    assert says in refused([saved, corpus, "--output", tmp_path / "a.odd"], capsys)
    assert "predictions would replace the test" in refused([saved, corpus, "--output", corpus], capsys)
    (tmp_path / "b.jsonl").mkdir()
    assert "this is a folder" in refused([saved, corpus, "--output", tmp_path / "b.jsonl"], capsys)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused(saved: Path, corpus: Path, capsys: Capture) -> None:
    says = "torch finds no device 'cuda' here. Use --device cpu, or leave it out."
    assert says in refused([saved, corpus, "--device", "cuda"], capsys)


def test_memory_that_does_not_suffice_is_said(saved: Path, corpus: Path, predict: Predict, capsys: Capture) -> None:
    def full(document: Document) -> list[tuple[int, int, str]]:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    predict(full)
    assert "Use a smaller --budget" in refused([saved, corpus, "--device", "cpu"], capsys)


def test_a_budget_is_at_least_one(saved: Path, corpus: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", str(saved), str(corpus), "--budget", "0"])
    assert stopped.value.code == 2
    assert "it must not be less than 1" in capsys.readouterr().err


def test_metrics_need_no_torch() -> None:
    code = "import sys, nestree.evaluation, nestree.cli.evaluate; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_errors_are_written_for_people(
    saved: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "errors"
    assert main(["evaluate", str(saved), str(corpus), "--errors", str(folder)]) == 0
    names = {"errors.txt", "errors.csv", "errors.png", "errors.html"}
    assert {path.name for path in folder.iterdir()} == names
    assert "Latent" in (folder / "errors.txt").read_text()  # the model's trees are known
    assert main(["evaluate", "--gold", str(corpus), "--predicted", str(corpus), "--errors", str(folder)]) == 0
    assert "Latent" not in (folder / "errors.txt").read_text()
    assert main(["evaluate", str(saved), str(corpus), "--errors", str(corpus)]) == 2
    assert "--errors names a folder" in capsys.readouterr().err
