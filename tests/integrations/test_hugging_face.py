"""A call like a pipeline's, with the answer of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.integrations.hugging_face import EntityGroup, pipeline
from nestree.model import ModelError, NestedNER
from tests.prediction.test_trees import sure

TEXTS = ["Anna of the acme club.", "", "Bo runs."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> NestedNER:
    return sure(tmp_path_factory.mktemp("model"), decoding="mbr").eval()


def rounded(found: list[list[EntityGroup]]) -> list[list[dict[str, object]]]:
    """Batches of other widths differ in the last digits."""
    return [[{**one, "score": round(one["score"], 4)} for one in of_text] for of_text in found]


def test_a_text_gives_a_list_of_dictionaries_that_say_what_predictions_say(model: NestedNER) -> None:
    found = pipeline(model)(TEXTS[0])
    assert found
    for group, entity in zip(found, model.predict(TEXTS[0]), strict=True):
        assert group == {
            "entity_group": entity.label,
            "score": entity.score,
            "word": TEXTS[0][group["start"] : group["end"]],
            "start": entity.start,
            "end": entity.end,
            "depth": entity.depth,
            "parent": entity.parent,
        }
        assert type(group["score"]) is float
    assert {one["depth"] for one in found} > {1}


def test_the_keys_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from tests.model.tiny import encoder

    body, tokenizer = encoder(tmp_path)
    settings: Any = body.config
    settings.num_labels = 2
    tagger = transformers.BertForTokenClassification(settings)
    theirs = transformers.pipeline(
        "token-classification", model=tagger, tokenizer=tokenizer, aggregation_strategy="simple", device="cpu"
    )("anna of bo")
    assert set(theirs[0]) <= set(EntityGroup.__annotations__)
    assert set(EntityGroup.__annotations__) - set(theirs[0]) == {"depth", "parent"}


@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_several_texts_give_several_lists(model: NestedNER, batch_size: int | None) -> None:
    ner = pipeline(model, batch_size=batch_size)
    assert ner(TEXTS) == ner(tuple(TEXTS))
    assert rounded(ner(TEXTS)) == rounded([ner(text) for text in TEXTS])
    assert ner([]) == []


def test_streams_are_read_as_they_are_asked_for(model: NestedNER) -> None:
    asked = 0

    def endless() -> Iterator[str]:
        nonlocal asked
        while True:
            asked += 1
            yield TEXTS[0]

    found = pipeline(model, batch_size=2)(endless())
    assert asked == 0
    assert rounded([next(found), next(found)]) == rounded([pipeline(model)(TEXTS[0])] * 2)
    assert asked == 2


def test_data_sets_are_streams(model: NestedNER) -> None:
    from transformers.pipelines.pt_utils import KeyDataset

    rows: Any = [{"text": text} for text in TEXTS]
    ner = pipeline(model)
    assert list(ner(KeyDataset(rows, "text"))) == ner(TEXTS)


def test_options_are_set_once_or_for_a_call(model: NestedNER) -> None:
    ner = pipeline(model, threshold=1.0)
    assert ner(TEXTS[0]) == []
    assert ner(TEXTS[0], threshold=None) == pipeline(model)(TEXTS[0])
    assert {one["depth"] for one in ner(TEXTS[0], threshold=None, flat="outermost")} == {1}
    with pytest.raises(TypeError, match="no option 'treshold'; known are batch_size, threshold, flat"):
        ner(TEXTS[0], treshold=0.5)
    with pytest.raises(ValueError, match="batch_size is 0"):
        pipeline(model, batch_size=0)
    with pytest.raises(ValueError, match="it is a probability"):
        ner(TEXTS[0], threshold=7)


def test_what_is_no_text_is_refused(model: NestedNER) -> None:
    ner: Any = pipeline(model)
    with pytest.raises(TypeError, match="text 0 is a list, not a string"):
        ner([["anna"]])
    with pytest.raises(TypeError, match="text 3 is a int, not a string"):
        ner([*TEXTS[:1] * 3, 7], batch_size=2)
    with pytest.raises(TypeError, match="this is a dictionary"):
        ner({"text": TEXTS})
    with pytest.raises(TypeError, match="texts are wanted, found a int"):
        ner(7)


def test_models_come_from_folders(model: NestedNER, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "saved")
    ner = pipeline(tmp_path / "saved", device=-1)
    assert ner.device == torch.device("cpu")
    assert ner(TEXTS[0]) == pipeline(model, device="cpu")(TEXTS[0])
    with pytest.raises(ModelError, match="there is no such folder"):
        pipeline(tmp_path / "none")
    with pytest.raises(TypeError, match="'revision' is for models that are to be loaded"):
        pipeline(model, revision="v1")
