from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nestree.data.errors import DataError
from nestree.data.formats import arrow
from nestree.data.formats.arrow import DATASETS, PARQUET, documents_of
from nestree.data.formats.base import Peek
from nestree.data.model import Admissible, Document, Entity, Tokens
from nestree.data.report import Report
from tests.data.cases import admissibles

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

_WORDS = st.text("aé日👩\u200d\u0301-", min_size=1, max_size=4)
_GAPS = st.sampled_from(["", " ", "  ", "\n", " · ", "\u00a0"])
_LABELS = st.sampled_from(["protein", "DNA", "ÄRA 👾"])


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Documents with everything that a document can have."""
    text, starts, ends = draw(_GAPS), [], []
    for word in draw(st.lists(_WORDS, max_size=6)):
        starts.append(len(text))
        text += word
        ends.append(len(text))
        text += draw(_GAPS)
    ranges = st.lists(st.integers(0, len(text)), min_size=2, max_size=2, unique=True).map(lambda found: sorted(found))
    entities = []
    for start, end in draw(st.lists(ranges, max_size=4)) if text else ():
        fragments = ((start, start + 1), (end - 1, end)) if end - start > 2 and draw(st.booleans()) else ()
        score = draw(st.none() | st.floats(0, 1))
        entities.append(Entity(start, end, draw(_LABELS), score, fragments=fragments))
    document = Document(
        text,
        tuple(entities),
        id=draw(st.sampled_from(["", "a1", "ä"])),
        complete_labels=draw(st.none() | st.lists(_LABELS, max_size=2).map(tuple)),
        unknown=tuple(map(tuple, draw(st.lists(ranges, max_size=2)) if text else ())),
        admissible=tuple(draw(st.lists(admissibles(len(text)), max_size=2)) if text else ()),
        meta=draw(st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.lists(st.text(max_size=2)))),
    )
    if draw(st.booleans()):
        return document
    count, cut = len(starts), draw(st.integers(0, len(starts)))
    sentences = tuple(pair for pair in ((0, cut), (cut, count)) if pair[0] < pair[1])
    document = document.with_tokens(Tokens(starts, ends), sentences)
    return document if draw(st.booleans()) else replace(document, sentences=None)


def _parquet(path: Path, rows: list[dict[str, Any]], schema: Any = None, features: Any = None) -> Path:
    table = pa.Table.from_pylist(rows, schema=schema)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path)
    return path


def _read(path: Path, report: Report | None = None, **options: str) -> list[Document]:
    made = DATASETS if path.is_dir() else PARQUET
    made.check_options(options)
    return list(made.read(path, options, Report() if report is None else report))


def _spans(document: Document) -> list[tuple[int | None, int | None, str]]:
    return [(entity.token_start, entity.token_end, entity.label) for entity in document.entities]


def _classes(*names: str) -> dict[str, Any]:
    return {"feature": {"names": list(names), "_type": "ClassLabel"}, "_type": "List"}


# --- Our own layout --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [PARQUET, DATASETS])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(documents(), max_size=4))
def test_what_is_written_reads_back_identically(made: Any, tmp_path: Path, found: list[Document]) -> None:
    path = tmp_path / ("x.parquet" if made is PARQUET else "x")
    report = Report()
    made.write(iter(found), path, {}, report)
    assert made.looks(Peek(path))
    assert list(made.read(path, {}, report)) == found
    assert not report.counts


def test_a_second_writing_replaces_the_first(tmp_path: Path) -> None:
    for made, path in ((PARQUET, tmp_path / "x.parquet"), (DATASETS, tmp_path / "x")):
        made.write([Document("a b")], path, {}, Report())
        made.write([Document("c")], path, {}, Report())
        assert [document.text for document in made.read(path, {}, Report())] == ["c"]


def test_many_documents_come_in_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_GROUP_ROWS", 10)
    monkeypatch.setattr(arrow, "_BATCH_ROWS", 7)
    found = [Document.from_words(["word"] * (number % 5), id=str(number)) for number in range(95)]
    for made, path in ((PARQUET, tmp_path / "x.parquet"), (DATASETS, tmp_path / "x")):
        made.write(iter(found), path, {}, Report())
        read = list(made.read(path, {}, Report()))
        assert read == found
        assert read[94].place == f"{path}:95"
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 10


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="surrogate"):
        PARQUET.write([Document("\ud800")], tmp_path / "x.parquet", {}, Report())
    with pytest.raises(DataError, match="JSON"):
        PARQUET.write([Document("a", meta={"a": object()})], tmp_path / "x.parquet", {}, Report())
    assert not list(tmp_path.iterdir())


def test_a_compressed_parquet_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet.gz"
    PARQUET.write([Document("a b")], path, {}, Report())
    assert PARQUET.looks(Peek(path))
    assert _read(path) == [Document("a b")]


# --- Spans -----------------------------------------------------------------------------------------------------------


def test_offsets_count_characters_beside_a_text_and_words_otherwise(tmp_path: Path) -> None:
    entities = [{"start": 0, "end": 2, "label": "x"}]
    text = _read(_parquet(tmp_path / "text.parquet", [{"text": "e\u0301 👩\u200d🔬 b", "entities": entities}]))[0]
    assert (text.text_of(text.entities[0]), text.tokens) == ("e\u0301", None)
    words = _read(
        _parquet(tmp_path / "words.parquet", [{"tokens": ["e\u0301", "👩\u200d🔬", "b"], "spans": entities}])
    )[0]
    assert words == Document.from_words(["e\u0301", "👩\u200d🔬", "b"], [(0, 2, "x")])


def test_the_option_unit_says_otherwise(tmp_path: Path) -> None:
    row = {"text": "the  IL-2 gene", "tokens": ["the", "IL-2", "gene"], "ner": [{"start": 1, "end": 3, "label": "x"}]}
    document = _read(_parquet(tmp_path / "a.parquet", [row]), unit="words")[0]
    assert document.text_of(document.entities[0]) == "IL-2 gene"
    assert _spans(document) == [(1, 3, "x")]
    del row["text"]
    document = _read(_parquet(tmp_path / "b.parquet", [row]), unit="characters")[0]
    assert document.text_of(document.entities[0]) == "he"


def test_ends_can_be_inclusive(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "x.parquet", [{"tokens": ["a", "b"], "ner": [{"start": 0, "end": 1, "label": "x"}]}])
    assert _spans(_read(path, ends="inclusive")[0]) == [(0, 2, "x")]


def test_tokens_beside_a_text_may_be_words_or_offsets(tmp_path: Path) -> None:
    for number, tokens in enumerate((["a", "b"], [[0, 1], [2, 3]], [{"start": 0, "end": 1}, {"start": 2, "end": 3}])):
        row = {"text": "a b", "tokens": tokens, "entities": [{"start": 2, "end": 3, "label": "x"}]}
        document = _read(_parquet(tmp_path / f"{number}.parquet", [row]))[0]
        assert document.words == ("a", "b")
        assert _spans(document) == [(1, 2, "x")]


def test_labels_may_be_classes(tmp_path: Path) -> None:
    rows = [{"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": 1}]}]
    features = {"entities": [{"label": {"names": ["P", "Q"], "_type": "ClassLabel"}}]}
    assert _spans(_read(_parquet(tmp_path / "x.parquet", rows, features=features))[0]) == [(0, 1, "Q")]
    with pytest.raises(DataError, match="labels in 'entities' must be strings"):
        _read(_parquet(tmp_path / "y.parquet", rows))
    rows[0]["entities"][0]["label"] = 2
    with pytest.raises(DataError, match="row 1: 'entities' holds the class 2"):
        _read(_parquet(tmp_path / "z.parquet", rows, features=features))


def test_an_object_of_lists_is_a_list_of_objects(tmp_path: Path) -> None:
    row = {"tokens": ["a", "b"], "entities": {"start": [0, 1], "end": [2, 2], "type": ["x", "y"]}}
    assert _spans(_read(_parquet(tmp_path / "x.parquet", [row]))[0]) == [(0, 2, "x"), (1, 2, "y")]
    row["entities"]["end"] = [2]
    with pytest.raises(DataError, match=r"row 1: .* same length"):
        _read(_parquet(tmp_path / "x.parquet", [row]))


def test_other_columns_become_meta_and_what_cannot_is_noted(tmp_path: Path) -> None:
    row = {"id": 7, "text": "a", "entities": [{"start": 0, "end": 1, "label": "x", "why": "?"}]}
    row |= {"source": "web", "parts": [{"n": 1.5}], "missing": None, "raw": b"\0", "sentences": ["a"], "meta": "plain"}
    report = Report()
    document = _read(_parquet(tmp_path / "x.parquet", [row]), report)[0]
    assert document.id == "7"
    assert document.meta == {"source": "web", "parts": [{"n": 1.5}], "sentences": ["a"], "meta": "plain"}
    assert sorted(note.message for note in report) == [
        "the column 'raw', of the type binary",
        "the field 'why' of 'entities'",
    ]


# --- Tags ------------------------------------------------------------------------------------------------------------


def test_each_column_of_tags_is_a_layer(tmp_path: Path) -> None:
    row = {"tokens": ["a", "b", "c"], "ner_tags": ["B-x", "I-x", "I-x"], "ner_tags_inner": ["O", "B-y", "B-y"]}
    document = _read(_parquet(tmp_path / "x.parquet", [row | {"pos_tags": ["D", "N", "N"]}]))[0]
    expected = Document.from_words(["a", "b", "c"], [(0, 3, "x"), (1, 2, "y"), (2, 3, "y")])
    assert document == replace(expected, meta={"pos_tags": ["D", "N", "N"]})


def test_tags_may_be_classes_and_bioes(tmp_path: Path) -> None:
    rows = [{"tokens": ["a", "b", "c"], "tags": [1, 2, 3]}, {"tokens": ["a"], "tags": [0]}]
    features = {"tags": _classes("O", "B-x", "E-x", "S-y")}
    found = _read(_parquet(tmp_path / "x.parquet", rows, features=features))
    assert [_spans(document) for document in found] == [[(0, 2, "x"), (2, 3, "y")], []]


def test_the_option_tags_chooses_columns(tmp_path: Path) -> None:
    row = {"tokens": ["a"], "text": "a.", "inner": ["B-y"], "outer": ["B-x"], "ner_tags": ["O"], "entities": ["no"]}
    path = _parquet(tmp_path / "x.parquet", [row])
    document = _read(path, tags="outer, inner")[0]
    assert _spans(document) == [(0, 1, "x"), (0, 1, "y")]
    assert document.text == "a."
    with pytest.raises(DataError, match=r"no column 'middle'.*outer"):
        _read(path, tags="middle")


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["O", "I-x"], "row 1: 'ner_tags', word 1: .*not begun"),
        (["O"], "row 1: 'ner_tags' has 1 tags for 2 tokens"),
        (["O", None], "row 1: 'ner_tags' has no tag for the word 1"),
        (["O", "PER"], "row 1: 'ner_tags', word 1: 'PER' is not a tag"),
        (None, "row 1: the key 'ner_tags' is missing"),
    ],
)
def test_tags_that_cannot_be_are_an_error_with_the_row(tmp_path: Path, tags: Any, message: str) -> None:
    schema = pa.schema([("tokens", pa.list_(pa.string())), ("ner_tags", pa.list_(pa.string()))])
    path = _parquet(tmp_path / "x.parquet", [{"tokens": ["a", "b"], "ner_tags": tags}], schema)
    with pytest.raises(DataError, match=message):
        _read(path)


# --- Malformed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"words": ["a"]}, "neither a column 'text' nor a column 'tokens'"),
        ({"text": 1}, "'text' must hold strings"),
        ({"tokens": [1]}, "'tokens' must hold lists of words"),
        ({"tokens": [[0, 1]], "entities": []}, "'tokens' must hold lists of words"),
        ({"text": "a"}, "there are no entities"),
        ({"text": "a", "entities": [[0, 1]]}, "there are no entities"),
        ({"text": "a", "ner_tags": ["O"]}, "no column 'tokens'"),
        ({"tokens": ["a"], "ner_tags": [1]}, "'ner_tags' must hold lists of tags"),
        ({"text": "a", "entities": [{"start": 0, "end": 2, "label": "x"}]}, "row 1: .* within the 1 characters"),
        ({"text": "a", "entities": [{"start": -1, "end": 1, "label": "x"}]}, "row 1: .* within the 1 characters"),
        ({"text": "a", "entities": [{"start": 0.0, "end": 1, "label": "x"}]}, "row 1: 'start' must be a whole number"),
        ({"text": "a", "entities": [{"start": 0, "end": 1, "label": ""}]}, "row 1: a label"),
        ({"text": "a", "entities": [{"start": 0, "end": None, "label": "x"}]}, "row 1: the key 'end' is missing"),
        (
            {"text": "a", "entities": [{"start": 0, "end": 1, "label": "x"}, None]},
            "row 1: 'entities' must hold objects",
        ),
        ({"tokens": ["a"], "entities": [{"start": 0, "end": 2, "label": "x"}]}, "row 1: .* within the 1 words"),
        ({"tokens": ["a", ""], "entities": [{"start": 0, "end": 1, "label": "x"}]}, "row 1: .*empty word"),
        ({"text": "a", "tokens": ["b"], "entities": [{"start": 0, "end": 1, "label": "x"}]}, "row 1: the token 'b'"),
        (
            {"text": "a", "id": "1", "meta": '{"b": 1}', "b": 2, "entities": [{"start": 0, "end": 1, "label": "x"}]},
            "'b'",
        ),
    ],
)
def test_a_wrong_table_is_an_error_with_its_place(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    path = _parquet(tmp_path / "x.parquet", [row])
    with pytest.raises(DataError, match=message) as caught:
        _read(path)
    assert caught.value.path == str(path)
    assert caught.value.line is None


def test_a_row_without_text_and_tokens_is_an_error(tmp_path: Path) -> None:
    rows = [{"text": "a", "entities": [{"start": 0, "end": 1, "label": "x"}]}, {"text": None, "entities": None}]
    with pytest.raises(DataError, match="row 2: there is neither a text nor tokens"):
        _read(_parquet(tmp_path / "x.parquet", rows))


def test_files_that_are_no_tables_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    for content in (b"", b'{"text": "a"}', b"PAR1" + b"\xff" * 100 + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not a Parquet file, or it is broken"):
            _read(path)
    with pytest.raises(DataError, match="no such file"):
        _read(tmp_path / "y.parquet")


@pytest.mark.parametrize("made", [PARQUET, DATASETS])
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_error_or_goes_unseen_but_never_a_crash(made: Any, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / ("x.parquet" if made is PARQUET else "x")
    found = [Document.from_words(["a", "bc"], [(0, 2, "x")], id="1", meta={"k": [1]})] * 3
    made.write(found, path, {}, Report())
    damaged = path if made is PARQUET else path / "data-00000-of-00001.arrow"
    content = bytearray(damaged.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged.write_bytes(content)
    with suppress(DataError):
        list(made.read(path, {}, Report()))


# --- Folders of Hugging Face datasets --------------------------------------------------------------------------------


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    module = pytest.importorskip("datasets")
    module.disable_progress_bars()
    return module


def _tagged(datasets: Any) -> Any:
    features = datasets.Features(
        {
            "id": datasets.Value("string"),
            "tokens": datasets.Sequence(datasets.Value("string")),
            "ner_tags": datasets.Sequence(datasets.ClassLabel(names=["O", "B-x", "I-x"])),
        }
    )
    rows = [{"id": str(number), "tokens": ["a", "👾"], "ner_tags": [1, number % 3]} for number in range(5)]
    return datasets.Dataset.from_list(rows, features=features)


def test_datasets_reads_what_we_write(datasets: Any, tmp_path: Path) -> None:
    document = Document.from_words(["e\u0301", "👾"], [(0, 2, "x")], id="a", meta={"k": None})
    possible = Admissible(0, 1, ("x", None)), Admissible(0, 1, ("y",), excluded=True)
    found = [document, Document("", complete_labels=()), Document("a", admissible=possible)]
    DATASETS.write(found, tmp_path / "x", {}, Report())
    loaded = datasets.load_from_disk(str(tmp_path / "x"))
    assert loaded[0]["text"] == "e\u0301 👾"
    assert list(documents_of(loaded)) == found
    loaded.save_to_disk(str(tmp_path / "y"))
    assert _read(tmp_path / "y") == found
    loaded.to_parquet(str(tmp_path / "y.parquet"))
    assert _read(tmp_path / "y.parquet") == found


def test_we_read_what_datasets_writes(datasets: Any, tmp_path: Path) -> None:
    dataset = _tagged(datasets)
    dataset.save_to_disk(str(tmp_path / "x"), num_shards=2)
    found = _read(tmp_path / "x")
    assert DATASETS.looks(Peek(tmp_path / "x"))
    assert [document.id for document in found] == ["0", "1", "2", "3", "4"]
    assert [_spans(document) for document in found[:3]] == [[(0, 1, "x")], [(0, 1, "x"), (1, 2, "x")], [(0, 2, "x")]]
    assert list(documents_of(dataset)) == found
    assert list(documents_of(dataset.to_iterable_dataset())) == found
    dataset.to_parquet(str(tmp_path / "x.parquet"))
    assert _read(tmp_path / "x.parquet") == found


def test_sequences_of_objects_of_datasets_are_read(datasets: Any, tmp_path: Path) -> None:
    entity = {
        "start": datasets.Value("int32"),
        "end": datasets.Value("int32"),
        "label": datasets.ClassLabel(names=["P"]),
    }
    for number, kind in enumerate((datasets.Sequence(entity), [entity])):
        features = datasets.Features({"text": datasets.Value("string"), "entities": kind})
        row = {"text": "a b", "entities": [{"start": 0, "end": 3, "label": 0}]}
        if number == 0:
            row["entities"] = {"start": [0], "end": [3], "label": [0]}
        dataset = datasets.Dataset.from_list([row], features=features)
        dataset.save_to_disk(str(tmp_path / str(number)))
        expected = [Document("a b", (Entity(0, 3, "P"),))]
        assert _read(tmp_path / str(number)) == list(documents_of(dataset)) == expected


def test_what_is_not_complete_is_counted_as_the_entities_are(tmp_path: Path) -> None:
    row: dict[str, Any] = {"tokens": ["ab", "c", "de"], "entities": [{"start": 0, "end": 1, "label": "X"}]}
    row |= {"unknown": [{"start": 1, "end": 3}], "admissible": [{"start": 0, "end": 2, "labels": ["X", None]}]}
    (found,) = _read(_parquet(tmp_path / "x.parquet", [row]))
    assert found.entities[0].tokens == (0, 1)
    assert found.unknown == ((3, 7),)
    assert found.admissible == (Admissible(0, 4, ("X", None)),)


def test_admissible_spans_may_be_an_object_of_lists(tmp_path: Path) -> None:
    row = {"text": "ab c", "entities": [{"start": 0, "end": 1, "label": "X"}]}
    row |= {"admissible": {"start": [0, 3], "end": [2, 4], "not": [["X"], ["X", "Y"]]}}
    (found,) = _read(_parquet(tmp_path / "x.parquet", [row]))
    assert found.admissible == (Admissible(0, 2, ("X",), True), Admissible(3, 4, ("X", "Y"), True))


def test_a_wrong_admissible_span_is_refused_with_its_row(tmp_path: Path) -> None:
    row = {"text": "ab", "entities": [{"start": 0, "end": 1, "label": "X"}]}
    row |= {"admissible": [{"start": 0, "end": 3, "labels": ["X"]}]}
    with pytest.raises(DataError, match=r"row 1: the admissible span \[0, 3\) \['X'\] does not lie within the 2 char"):
        _read(_parquet(tmp_path / "x.parquet", [row]))


def test_a_column_admissible_of_another_kind_is_only_kept(tmp_path: Path) -> None:
    row = {"text": "ab", "entities": [{"start": 0, "end": 1, "label": "X"}], "admissible": "in court"}
    (found,) = _read(_parquet(tmp_path / "x.parquet", [row]))
    assert (found.admissible, found.meta) == ((), {"admissible": "in court"})


def test_of_several_splits_one_is_chosen(datasets: Any, tmp_path: Path) -> None:
    dataset = _tagged(datasets)
    datasets.DatasetDict({"train": dataset, "test": dataset.select([1])}).save_to_disk(str(tmp_path / "x"))
    assert DATASETS.looks(Peek(tmp_path / "x"))
    assert [len(_read(tmp_path / "x", split=split)) for split in ("train", "test")] == [5, 1]
    with pytest.raises(DataError, match=r"several splits. Choose .*: train, test"):
        _read(tmp_path / "x")
    with pytest.raises(DataError, match=r"no split 'dev'. There are: train, test"):
        _read(tmp_path / "x", split="dev")
    with pytest.raises(DataError, match="one dataset"):
        _read(tmp_path / "x" / "test", split="dev")
    with pytest.raises(DataError, match="Write to another folder"):
        DATASETS.write([], tmp_path / "x", {}, Report())


def _set(name: str, value: Any) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_set("state.json", "{"), "not JSON"),
        (_set("state.json", []), "a JSON object was expected"),
        (_set("state.json", {"_data_files": []}), "no .arrow files"),
        (_set("state.json", {"_data_files": [{"filename": "../x.arrow"}]}), "must name files of the folder"),
        (_set("state.json", {"_data_files": [{"filename": "gone.arrow"}]}), "no such file"),
        (_set("state.json", {"_indices_data_files": [{"filename": "i.arrow"}]}), "selection of rows"),
        (_set("dataset_dict.json", {"splits": ["../x"]}), "'splits' must be a list of names"),
        (_set("dataset_info.json", "x"), "not JSON"),
        (_set("data-00000-of-00001.arrow", "x" * 100), "not a stream of Arrow batches, or it is broken"),
    ],
)
def test_a_damaged_folder_is_an_error(tmp_path: Path, damage: Callable[[Path], Any], message: str) -> None:
    DATASETS.write([Document("a")], tmp_path / "x", {}, Report())
    damage(tmp_path / "x")
    with pytest.raises(DataError, match=message):
        _read(tmp_path / "x")


def test_a_folder_without_state_is_read_too(tmp_path: Path) -> None:
    DATASETS.write([Document("a")], tmp_path / "x", {}, Report())
    (tmp_path / "x" / "state.json").unlink()
    (tmp_path / "x" / "dataset_info.json").unlink()
    assert _read(tmp_path / "x") == [Document("a")]


def test_rows_need_columns_and_known_options() -> None:
    with pytest.raises(DataError, match="columns of dataset are not known"):
        list(documents_of([{"text": "a"}]))
    schema = pa.schema([("text", pa.string())])
    with pytest.raises(DataError, match="no option 'end'"):
        list(documents_of([{"text": "a"}], schema, options={"end": "inclusive"}))


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"nestree\[parquet\]"):
        _read(tmp_path / "x.parquet")
