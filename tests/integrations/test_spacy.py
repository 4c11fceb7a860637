"""nestree as a component of a spaCy pipeline."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nestree import NestedNER
from nestree.model import ModelError
from tests.model.tiny import LABELS
from tests.prediction.test_trees import sure

spacy = pytest.importorskip("spacy", reason='the spaCy component needs pip install "nestree[spacy]"')
from spacy import displacy  # noqa: E402
from spacy.language import Language  # noqa: E402
from spacy.tokens import Doc, DocBin, Span  # noqa: E402
from spacy.training import Example  # noqa: E402

import nestree.integrations.spacy as component  # noqa: E402

ROOT = Path(__file__).parents[2]
TEXTS = [
    "Anna of the acme club.  Bo runs: the club of Anna!\n\tThe acme of Bo.",
    "",
    " \n ",
    "Bo",
    "The well-known club of Anna's co-op (Bo) runs.",
]
Row = tuple[int, int, str, float]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("spacy")
    sure(path, decoding="mbr").save_pretrained(path / "model")
    return path / "model"


@pytest.fixture(scope="module")
def ner(folder: Path) -> NestedNER:
    return NestedNER.from_pretrained(folder)


def pipeline(model: object, *before: str, **settings: Any) -> Language:
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("nestree", config={"model": str(model), **settings})
    return nlp


def rows(doc: Doc, key: str = "sc") -> list[Row]:
    """Characters, label and score of the spans of a Doc."""
    group = doc.spans[key]
    return [
        (span.start_char, span.end_char, span.label_, pytest.approx(score, abs=1e-5))  # type: ignore[misc]
        for span, score in zip(group, group.attrs["scores"], strict=True)
    ]


def of_words(ner: NestedNER, doc: Doc, sentences: list[list[int]]) -> list[tuple[Any, ...]]:
    """What ``predict_tokens`` finds in sentences, which are numbers of tokens; in characters of the Doc."""
    found = ner.predict_tokens([[doc[at].text for at in one] for one in sentences])
    return [
        (doc[one[e.start]].idx, doc[one[e.end - 1]].idx + len(doc[one[e.end - 1]]), e.label, e.score)
        for one, prediction in zip(sentences, found, strict=True)
        for e in prediction
    ]


# --- What it finds ---


def test_entities_are_those_that_the_model_finds_in_the_text(folder: Path, ner: NestedNER) -> None:
    nlp = pipeline(folder)
    for text in TEXTS[:4]:  # in which spaCy's tokens are the model's words, but for white space
        doc = nlp(text)
        assert rows(doc) == [(e.start, e.end, e.label, e.score) for e in ner.predict(text)]
    assert len(nlp(TEXTS[0]).spans["sc"]) > 3
    assert nlp.pipe_labels["nestree"] == sorted(LABELS)


def test_scores_are_an_array_as_those_of_spancat_are(folder: Path) -> None:
    nlp = pipeline(folder)
    for text in TEXTS:
        group = nlp(text).spans["sc"]
        assert isinstance(group.attrs["scores"], np.ndarray)
        assert group.attrs["scores"].shape == (len(group),)


def test_spacys_tokens_can_be_the_words(folder: Path, ner: NestedNER) -> None:
    nlp = pipeline(folder, "sentencizer", words="spacy")
    for text in TEXTS:
        doc = nlp(text)
        sentences = [[token.i for token in one if not token.is_space] for one in doc.sents]
        assert rows(doc) == of_words(ner, doc, [one for one in sentences if one])
    assert [token.text for token in doc][1:4] == ["well", "-", "known"]
    assert len(doc.spans["sc"])


@pytest.mark.parametrize("words", ["model", "spacy"])
def test_sentences_are_those_of_the_pipeline_if_it_has_some(folder: Path, ner: NestedNER, words: str) -> None:
    text = "Anna of the acme club Bo runs the club of Anna"
    nlp = spacy.blank("en")

    @Language.component("after_five")
    def after_five(doc: Doc) -> Doc:
        for token in doc:
            token.is_sent_start = token.i in (0, 5)
        return doc

    nlp.add_pipe("after_five")
    nlp.add_pipe("nestree", config={"model": str(folder), "words": words})
    doc = nlp(text)
    assert rows(doc) == of_words(ner, doc, [[*range(5)], [*range(5, 11)]])
    ours = pipeline(folder, "after_five", words=words, sentences="model")(text)
    assert rows(ours) == [(e.start, e.end, e.label, e.score) for e in ner.predict(text)]
    assert rows(ours) != rows(doc)


@pytest.mark.parametrize("words", ["model", "spacy"])
def test_a_pipeline_without_sentences_gets_those_of_the_model(folder: Path, words: str) -> None:
    text = "Dr. Bo runs. The acme club of Anna! Bo."
    nlp = pipeline(folder, words=words)
    sentences = [(0, 12), (13, 35), (36, 39)]
    doc = nlp(text)
    assert len(doc.spans["sc"])
    for span in doc.spans["sc"]:
        assert any(start <= span.start_char and span.end_char <= end for start, end in sentences)


def test_entities_within_a_token_grow_to_the_whole_token_and_none_is_lost(folder: Path, ner: NestedNER) -> None:
    nlp = spacy.blank("en")
    nlp.tokenizer = spacy.tokenizer.Tokenizer(nlp.vocab)  # at white space only
    nlp.add_pipe("nestree", config={"model": str(folder)})
    doc = nlp(TEXTS[4])
    assert [token.text for token in doc][1] == "well-known"
    found = ner.predict(TEXTS[4])
    starts = {at: token.idx for token in doc for at in range(token.idx, token.idx + len(token))}
    ends = {at: token.idx + len(token) for token in doc for at in range(token.idx, token.idx + len(token))}
    grown: dict[tuple[int, int, str], float] = {}
    for entity in found:
        place = starts[entity.start], ends[entity.end - 1], entity.label
        grown[place] = max(entity.score, grown.get(place, 0))
    assert set(grown) != {(e.start, e.end, e.label) for e in found}
    assert {row[:3]: row[3] for row in rows(doc)} == grown
    assert len(rows(doc)) == len(grown)


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "\t \u00a0", "Bo", "\u200b", "👩‍👩‍👧 ran", "日本語のテキスト。", "x" * 3000]
)
@pytest.mark.parametrize("words", ["model", "spacy"])
def test_any_text_comes_back_with_a_span_group(folder: Path, text: str, words: str) -> None:
    for before in ([], ["sentencizer"]):
        doc = pipeline(folder, *before, words=words, ents="best")(text)
        assert doc.text == text
        assert all(span.text.strip() for span in doc.spans["sc"])
        assert len(doc.spans["sc"]) > 0 or text != "Bo"  # in which there is something to be found


# --- Settings ---


def test_a_threshold_holds_for_all_labels_or_for_one(folder: Path) -> None:
    everything = rows(pipeline(folder)(TEXTS[0]))
    scores = sorted(float(row[3].expected) for row in everything)  # type: ignore[attr-defined]
    limit = scores[len(scores) // 2] - 1e-4
    kept = rows(pipeline(folder, threshold=limit)(TEXTS[0]))
    assert 0 < len(kept) < len(everything)
    label = everything[0][2]
    by_label = rows(pipeline(folder, threshold={label: 1.0})(TEXTS[0]))
    assert [row[:3] for row in by_label] == [row[:3] for row in everything if row[2] != label]


@pytest.mark.parametrize("how", ["outermost", "innermost", "best"])
@pytest.mark.parametrize("words", ["model", "spacy"])
def test_doc_ents_are_a_flat_view(folder: Path, ner: NestedNER, how: Any, words: str) -> None:
    doc = pipeline(folder, ents=how, words=words)(TEXTS[0])
    flat = ner.predict(TEXTS[0], flat=how)
    assert [(e.start_char, e.end_char, e.label_) for e in doc.ents] == [(e.start, e.end, e.label) for e in flat]
    assert 0 < len(doc.ents) < len(doc.spans["sc"])


def test_doc_ents_are_left_alone_unless_they_are_asked_for(folder: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "RULE", "pattern": "runs"}])
    nlp.add_pipe("nestree", config={"model": str(folder)})
    assert [entity.label_ for entity in nlp(TEXTS[0]).ents] == ["RULE"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"model": "there/is/none"}, ModelError, "there/is/none: there is no such folder. Name a folder"),
        ({"model": str(ROOT)}, ModelError, "holds no model of nestree"),
        ({"model": str(ROOT / "README.md")}, ModelError, "this is a file, not a folder"),
        ({"model": None}, ModelError, r"'nestree' has no model. Name one: nlp.add_pipe\(\"nestree\""),
        ({"ents": "outer"}, ValueError, "ents is 'outer'; known are None, 'outermost', 'innermost', 'best'"),
        ({"words": "mine"}, ValueError, "words is 'mine'; known are 'model', 'spacy'"),
        ({"sentences": "mine"}, ValueError, "sentences is 'mine'; known are 'spacy', 'model'"),
        ({"spans_key": ""}, ValueError, "spans_key is empty"),
        ({"threshold": 2.0}, ValueError, "it is a probability, from 0 to 1"),
        ({"threshold": {"XYZ": 0.5}}, ValueError, "no such label; it has"),
        ({"threshold": "high"}, ValueError, "threshold"),
        ({"device": "toaster"}, ValueError, "device is 'toaster'; known are 'auto', 'cpu'"),
        ({"span_key": "sc"}, ValueError, "span_key"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_when_the_component_is_added(
    folder: Path, settings: dict[str, Any], error: Any, message: str
) -> None:
    nlp = spacy.blank("en")
    with pytest.raises(error, match=message):
        nlp.add_pipe("nestree", config={"model": str(folder), **settings})
    assert nlp.pipe_names == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="device is 'cuda', and torch finds none here; 'auto'"):
        pipeline(folder, device="cuda")


def test_a_damaged_model_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="the weights are damaged"):
        pipeline(tmp_path / "damaged")


# --- The key of the spans ---


def test_spans_of_others_are_not_replaced_unless_they_may_be(folder: Path) -> None:
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("span_ruler", config={"spans_key": "sc"})
    ruler.add_patterns([{"label": "RULE", "pattern": "runs"}])  # type: ignore[attr-defined]
    nlp.add_pipe("nestree", config={"model": str(folder)})
    with pytest.raises(ValueError, match=r"doc.spans\['sc'\] holds 1 spans already.*'nestree'.*another spans_key"):
        nlp(TEXTS[0])
    nlp.replace_pipe("nestree", "nestree", config={"model": str(folder), "overwrite": True})
    assert {row[2] for row in rows(nlp(TEXTS[0]))} <= set(LABELS)
    nlp.replace_pipe("nestree", "nestree", config={"model": str(folder), "spans_key": "nested"})
    doc = nlp(TEXTS[0])
    assert [span.label_ for span in doc.spans["sc"]] == ["RULE"]
    assert len(doc.spans["nested"]) > 3


def test_a_component_replaces_its_own_spans_and_two_have_two_keys(folder: Path) -> None:
    nlp = pipeline(folder)
    doc = nlp(TEXTS[0])
    before = rows(doc)
    assert rows(nlp(doc)) == before
    nlp.add_pipe("nestree", name="second", config={"model": str(folder), "threshold": 1.0})
    with pytest.raises(ValueError, match="'second' would replace"):
        nlp(TEXTS[0])


def test_an_error_handler_hears_of_the_document_at_fault_and_the_others_go_on(folder: Path) -> None:
    nlp, failed = pipeline(folder), []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, [doc.text for doc in docs])))
    docs = [nlp.make_doc(text) for text in ("Anna runs", "Bo runs", "the club")]
    docs[1].spans["sc"] = [Span(docs[1], 0, 1, "X")]
    assert [doc.text for doc in nlp.pipe(docs)] == ["Anna runs", "the club"]
    assert failed == [("nestree", ["Bo runs"])]


def test_a_document_that_fails_does_not_take_its_batch_along(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nestree.integrations.spacy import component as module

    nlp, failed = pipeline(folder), []
    document_of = module.document_of

    def fails(doc: Doc, *rest: Any) -> Any:
        if doc.text == "Bo runs":
            raise RuntimeError("no")
        return document_of(doc, *rest)

    monkeypatch.setattr(module, "document_of", fails)
    with pytest.raises(RuntimeError, match="no"):
        list(nlp.pipe(["Anna runs", "Bo runs"]))
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append(([doc.text for doc in docs], str(error))))
    docs = list(nlp.pipe([TEXTS[0], "Bo runs", "the club"]))
    assert [doc.text for doc in docs] == [TEXTS[0], "the club"]
    assert len(docs[0].spans["sc"]) > 3
    assert failed == [(["Bo runs"], "no")]


# --- Many documents ---


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_many_documents_get_what_each_gets_alone(folder: Path, batch_size: int) -> None:
    nlp = pipeline(folder, ents="best")
    texts = TEXTS * 4
    docs = list(nlp.pipe(texts, batch_size=batch_size))
    assert [doc.text for doc in docs] == texts
    for doc, text in zip(docs, texts, strict=True):
        alone = nlp(text)
        assert rows(doc) == rows(alone)
        assert [entity.text for entity in doc.ents] == [entity.text for entity in alone.ents]


def test_documents_of_a_batch_are_read_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, sizes = pipeline(folder), []
    found = nlp.get_pipe("nestree").ner  # type: ignore[attr-defined]
    potentials = found.potentials
    monkeypatch.setattr(found, "potentials", lambda batch: sizes.append(len(batch.lengths)) or potentials(batch))
    list(nlp.pipe(["Anna runs"] * 64))
    assert sum(sizes) == 64
    assert len(sizes) <= 2  # a few first, so that results come soon


SEVERAL = """
import json, multiprocessing, sys
import numpy, spacy, torch
import nestree.integrations.spacy

def main():
    folder, method, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    multiprocessing.set_start_method(method)
    torch.set_num_threads(2)
    nlp = spacy.load(folder)
    here = list(nlp.pipe(texts))  # threads of this process have been at work before others begin
    torch.randn(400, 400) @ torch.randn(400, 400)
    there = list(nlp.pipe(texts, n_process=2, batch_size=2))
    rows = [[[(s.start, s.end, s.label_) for s in doc.spans["sc"]] for doc in docs] for docs in (here, there)]
    assert rows[0] == rows[1], rows
    for one, other in zip(here, there):
        assert numpy.allclose(one.spans["sc"].attrs["scores"], other.spans["sc"].attrs["scores"], atol=1e-4)
    assert all(type(d.spans["sc"].attrs["scores"]).__name__ == "ndarray" for d in there)
    assert [d.text for d in there] == texts
    print(sum(map(len, rows[1])), torch.get_num_threads())

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_find_the_same(folder: Path, tmp_path: Path, method: str) -> None:
    pipeline(folder, "sentencizer").to_disk(tmp_path / "pipeline")
    check_several(tmp_path / "pipeline", method, tmp_path)


def check_several(folder: Path, method: str, tmp_path: Path) -> None:
    """Without one thread for each process that is forked, this would wait forever."""
    (tmp_path / "several.py").write_text(SEVERAL)
    texts = [*TEXTS, " ".join(["anna of the acme club"] * 60)] * 3
    call = [sys.executable, tmp_path / "several.py", folder, method, json.dumps(texts)]
    shown = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    entities, threads = map(int, shown.stdout.split())
    assert entities > 20
    assert threads == 2  # of the first process, which keeps its own


def test_a_model_on_a_gpu_is_not_taken_along_when_a_process_is_forked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp = pipeline(folder)
    found: Any = nlp.get_pipe("nestree")
    monkeypatch.setattr(NestedNER, "device", torch.device("cuda"))
    monkeypatch.setattr("nestree.integrations.spacy.component._use_one_thread", lambda: None)
    found._process = -1  # another one
    with pytest.raises(RuntimeError, match=r"'nestree' is on a GPU.*n_process=1"):
        nlp("Bo runs")


def test_a_component_can_be_pickled_and_goes_as_safetensors(folder: Path) -> None:
    nlp = pipeline(folder)
    data = pickle.dumps(nlp.get_pipe("nestree"))
    assert b"model.safetensors" in data
    assert b"torch" not in data
    again = pickle.loads(data)
    assert rows(again(nlp.make_doc(TEXTS[0]))) == rows(nlp(TEXTS[0]))


# --- Saving ---


LOADED = """
import json, sys, warnings
import spacy
import nestree.integrations.spacy
warnings.simplefilter("error")
doc = spacy.load(sys.argv[1])(sys.argv[2])
group = doc.spans["sc"]
print(json.dumps([(s.start_char, s.end_char, s.label_, float(x)) for s, x in zip(group, group.attrs["scores"])]))
"""


def test_a_saved_pipeline_carries_its_model_to_another_process(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    nlp = pipeline(tmp_path / "model", "sentencizer", threshold={"ORG": 0.6})
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    (tmp_path / "pipeline").rename(tmp_path / "moved")
    files = {file.suffix for file in (tmp_path / "moved" / "nestree").rglob("*") if file.is_file()}
    assert files <= {".json", ".safetensors", ".md", ".txt"}
    call = [sys.executable, "-c", LOADED, tmp_path / "moved", TEXTS[0]]
    shown = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert shown.stderr == ""
    assert [tuple(row) for row in json.loads(shown.stdout)] == rows(nlp(TEXTS[0]))
    assert NestedNER.from_pretrained(tmp_path / "moved" / "nestree").predict(TEXTS[0])


def test_a_pipeline_can_be_saved_over_itself(folder: Path, tmp_path: Path) -> None:
    pipeline(folder).to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    nlp.to_disk(tmp_path / "pipeline")
    assert rows(spacy.load(tmp_path / "pipeline")(TEXTS[0])) == rows(nlp(TEXTS[0]))


def test_settings_can_be_changed_when_a_pipeline_is_loaded(folder: Path, tmp_path: Path) -> None:
    pipeline(folder).to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline", config={"components": {"nestree": {"threshold": 1.0}}})
    assert len(nlp(TEXTS[0]).spans["sc"]) == 0
    with pytest.raises(ValueError, match="it is a probability, from 0 to 1"):
        spacy.load(tmp_path / "pipeline", config={"components": {"nestree": {"threshold": 2.0}}})


def test_what_the_folder_of_old_holds_now_does_not_matter(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    pipeline(tmp_path / "model").to_disk(tmp_path / "pipeline")
    (tmp_path / "model" / "nestree.json").write_text("{}")
    assert len(spacy.load(tmp_path / "pipeline")(TEXTS[0]).spans["sc"])


def test_bytes_carry_the_model_too(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    nlp = pipeline(tmp_path / "model", ents="outermost")
    config, data = nlp.config, nlp.to_bytes()
    shutil.rmtree(tmp_path / "model")
    again = spacy.util.get_lang_class("en").from_config(config)
    with pytest.raises(ModelError, match="there is no such folder"):
        again(TEXTS[0])
    again.from_bytes(data)
    assert rows(again(TEXTS[0])) == rows(nlp(TEXTS[0]))
    assert again.get_pipe("nestree").settings.ents == "outermost"  # type: ignore[attr-defined]


@pytest.mark.parametrize("data", [b"", b"nothing", b"\x81\xa4../x\xc4\x01a", b"\x81\xa7a/../bc\xc4\x01a", b"\x80"])
def test_bytes_that_are_no_model_are_refused(folder: Path, data: bytes, tmp_path: Path) -> None:
    found = pipeline(folder).get_pipe("nestree")
    with pytest.raises(ModelError, match="these bytes are no model"):
        found.from_bytes(data)  # type: ignore[attr-defined]


def test_a_pipeline_from_settings_alone_loads_the_model_when_it_is_needed(folder: Path) -> None:
    config = pipeline(folder).config
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    assert nlp.pipe_labels["nestree"] == []
    assert len(nlp(TEXTS[0]).spans["sc"])
    assert nlp.pipe_labels["nestree"] == sorted(LABELS)


def test_a_pipeline_saved_without_its_model_looks_where_it_came_from(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    pipeline(tmp_path / "model").to_disk(tmp_path / "pipeline", exclude=["nestree"])
    assert not (tmp_path / "pipeline" / "nestree").exists()
    assert len(spacy.load(tmp_path / "pipeline")(TEXTS[0]).spans["sc"])
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(ModelError, match=r"saved without the model of this component.*model: there is no such folder"):
        spacy.load(tmp_path / "pipeline")


def test_an_exported_model_travels_too_and_works_in_several_processes(folder: Path, tmp_path: Path) -> None:
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason='exporting needs pip install "nestree[onnx]"')
    from nestree.export import export

    export(NestedNER.from_pretrained(folder), tmp_path / "exported")
    nlp = pipeline(tmp_path / "exported")
    pipeline(folder).to_disk(tmp_path / "pipeline")
    place = tmp_path / "pipeline" / "nestree"
    (place / "notes.txt").write_text("mine")
    (place / "encoder" / "stale.json").write_text("{}")
    nlp.to_disk(tmp_path / "pipeline")  # in place of a model that is not exported
    assert (place / "notes.txt").read_text() == "mine"
    assert not (place / "encoder" / "stale.json").exists()
    assert not list(place.glob(".saving-*"))
    data = pickle.dumps(nlp.get_pipe("nestree"))
    expected = rows(nlp(TEXTS[0]))
    shutil.rmtree(tmp_path / "exported")
    with pytest.raises(ModelError, match="the exported model is not there any more"):
        nlp.to_disk(tmp_path / "another")
    loaded = spacy.load(tmp_path / "pipeline")
    assert not (tmp_path / "pipeline" / "nestree" / "model.safetensors").exists()
    assert [row[:3] for row in rows(loaded(TEXTS[0]))] == [row[:3] for row in expected]
    assert [row[:3] for row in rows(pickle.loads(data)(nlp.make_doc(TEXTS[0])))] == [row[:3] for row in expected]
    check_several(tmp_path / "pipeline", "fork", tmp_path)


# --- In spaCy's world ---


def test_displacy_draws_the_spans(folder: Path) -> None:
    doc = pipeline(folder, spans_key="nested")(TEXTS[0])
    drawn = displacy.render(doc, style="span", options={"spans_key": "nested"}, jupyter=False)
    assert all(span.label_ in drawn for span in doc.spans["nested"])


def test_nlp_evaluate_scores_the_spans(folder: Path) -> None:
    nlp = pipeline(folder)
    found = [(start, end, label) for start, end, label, _ in rows(nlp(TEXTS[0]))]
    example = Example.from_dict(nlp.make_doc(TEXTS[0]), {"spans": {"sc": found[:-1]}})
    scores = nlp.evaluate([example])
    assert scores["spans_sc_r"] == 1
    assert scores["spans_sc_p"] == pytest.approx(1 - 1 / len(found))


def test_it_just_runs_while_spacy_trains_others(folder: Path) -> None:
    nlp = pipeline(folder)
    nlp.add_pipe("tagger").add_label("N")  # type: ignore[attr-defined]
    before = rows(nlp.select_pipes(disable="tagger") and nlp(TEXTS[0]))
    nlp.enable_pipe("tagger")
    examples = [Example.from_dict(nlp.make_doc("Bo runs"), {"tags": ["N", "N"]})]
    nlp.initialize(lambda: examples)
    assert list(nlp.update(examples)) == ["tagger"]
    assert rows(nlp(TEXTS[0])) == before


def test_a_docbin_keeps_what_was_found_and_nestree_reads_it(folder: Path, tmp_path: Path) -> None:
    from nestree.data import read

    doc = pipeline(folder)(TEXTS[0])
    DocBin(docs=[doc]).to_disk(tmp_path / "found.spacy")
    (document,) = read(tmp_path / "found.spacy")
    assert [(e.start, e.end, e.label, e.score) for e in document.entities] == rows(doc)


def test_spacy_finds_the_component_with_nothing_imported(folder: Path, tmp_path: Path) -> None:
    """What is installed may be older than the source: a package is made that declares what the source declares."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["spacy_factories"]
    assert list(declared) == ["nestree"]
    assert EntryPoint("nestree", declared["nestree"], "spacy_factories").load() is component.make_nestree
    made = tmp_path / "declares_nestree-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: declares-nestree\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text(f"[spacy_factories]\nnestree = {declared['nestree']}\n")
    code = (
        "import sys, spacy; nlp = spacy.blank('en'); nlp.add_pipe('nestree', config={'model': sys.argv[1]}); "
        "print(len(nlp(sys.argv[2]).spans['sc']))"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    call = [sys.executable, "-c", code, folder, TEXTS[0]]
    shown = subprocess.run(call, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert shown.stderr == ""
    assert int(shown.stdout) > 3


def test_the_entry_point_loads_nothing_slow(tmp_path: Path) -> None:
    """spaCy loads it for every pipeline, of people who want nothing of nestree, too."""
    code = (
        "import sys, spacy; before = set(sys.modules); import nestree.integrations.spacy; "
        "new = set(sys.modules) - before; "
        "print([one for one in new if one.partition('.')[0] in ('transformers', 'safetensors', 'sentencex', 'torch')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


@pytest.mark.parametrize("version", ["2.3.9", "3.7.5", "3.0.0.dev0"])
def test_an_old_spacy_is_refused_when_the_component_is_made_and_not_before(version: str) -> None:
    with pytest.raises(ImportError, match=rf'3.8 or newer, and this is {version}: pip.*"nestree\[spacy\]"'):
        component.check_version(version)


@pytest.mark.parametrize("version", ["3.8.0", "3.8.18", "3.10.1", "4.0.0.dev3"])
def test_newer_ones_are_not(version: str) -> None:
    component.check_version(version)


def test_without_spacy_the_message_names_the_extra() -> None:
    code = "import sys; sys.modules['spacy'] = None; import nestree.integrations.spacy"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert shown.strip().splitlines()[-1] == 'ImportError: a spaCy pipeline needs spaCy: pip install "nestree[spacy]"'
