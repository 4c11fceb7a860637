"""``nestree data`` as people use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nestree.cli.main import main
from nestree.data import read, write
from nestree.data.checks import Check
from nestree.data.model import Document
from nestree.data.statistics import count
from tests.data.cases import CORPORA

Capture = pytest.CaptureFixture[str]


def test_stats_are_the_papers_table_and_more(capsys: Capture) -> None:
    assert main(["data", "stats", str(CORPORA / "three-line.data")]) == 0
    out, err = capsys.readouterr()
    rows = {line.rsplit(None, 1)[0].strip(): line.rsplit(None, 1)[1] for line in out.splitlines()[2:]}
    assert rows["sentences"] == "4"
    assert rows["with nested entities"] == "3"
    assert rows["entities"] == "14"
    assert rows["nested"] == "11"
    assert rows["spans with several labels"] == "1"
    assert "read as three-line" in err
    assert "best reproduced by splitting at punctuation: 100.0% of the words" in err


def test_stats_as_json_and_as_a_picture(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "stats.png"
    paths = [str(CORPORA / name) for name in ("words.jsonl", "text.jsonl")]
    assert main(["data", "stats", *paths, "--json", "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[paths[0]]["labels"] == {"protein": 7, "DNA": 3, "cell_type": 2, "cell_line": 1, "RNA": 1}
    assert found[paths[1]]["depth"] == 3
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_nested_entities_are_counted_as_in_the_paper() -> None:
    listed = [(0, 2, "X"), (0, 2, "X"), (0, 2, "Y"), (3, 4, "X"), (3, 4, "X"), (5, 7, "X"), (6, 7, "X")]
    found = count([Document.from_words(list("abcdefg"), listed)])
    assert found.entities == 7
    assert found.nested_entities == 5  # duplicates alone are not nested; other labels on the span are
    assert found.duplicates == 2
    assert found.same_span == 1
    assert found.depths == {1: 6, 2: 1}


def test_check_finds_what_hurts_with_file_and_line(tmp_path: Path, capsys: Capture) -> None:
    train, dev = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    train.write_text(
        '{"tokens": ["a", "b", "c", "d"], "entities": ['
        '{"start": 0, "end": 2, "label": "X"}, {"start": 1, "end": 3, "label": "X"}, '
        '{"start": 0, "end": 2, "label": "X"}, {"start": 0, "end": 2, "label": "Y"}]}\n'
        '{"text": "one two", "entities": ['
        '{"start": 0, "end": 2, "label": "X"}, {"start": 3, "end": 4, "label": "X"}]}\n'
    )
    dev.write_text('{"tokens": ["a", "b", "c", "d"], "entities": [{"start": 0, "end": 1, "label": "Z"}]}\n')
    assert main(["data", "check", str(train), str(dev), "--longest", "3"]) == 1
    out = capsys.readouterr().out
    assert f"{train}:1: crossing: 'b c' X crosses 'a b' X|Y" in out
    assert f"{train}:1: duplicate: 'a b' X (dropped)" in out
    assert f"{train}:1: same span: 'a b' is X and Y (joined)" in out
    assert f"{train}:2: alignment: 'on' X becomes 'one' X" in out
    assert f"{train}:2: white space: ' ' X is white space only" in out
    assert f"{train}:1: long sentence: a sentence has 4 words" in out
    assert f"{dev}:1: leakage: this sentence is in {train} too: 'a b c d'" in out
    assert f"{dev}:1: unseen label: no entity of {train} is a 'Z'" in out
    assert "1 of 7 gold entities are representable as they are." in out
    assert "1 crossing entities would stop training under the policy crossing = error; crossing = drop_shorter" in out
    assert "1 spans with several labels will be handled by the policy same_span = composite: 1 joined." in out
    assert "failed: " in out


def test_check_mentions_sentences_that_are_long_for_the_encoder(tmp_path: Path, capsys: Capture) -> None:
    from tokenizers import Tokenizer, models

    folder = tmp_path / "encoder"
    folder.mkdir()
    Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"max_position_embeddings": 10}')
    assert main(["data", "check", str(CORPORA / "words.jsonl"), "--encoder", str(folder)]) == 0
    assert f"a sentence has 13 pieces, {folder} reads 10 at a time (read in windows)" in capsys.readouterr().out
    assert main(["data", "check", str(CORPORA / "words.jsonl"), "--encoder", str(tmp_path)]) == 2
    assert "holds no fast tokenizer" in capsys.readouterr().err


def test_check_passes_where_policies_take_care(capsys: Capture) -> None:
    assert main(["data", "check", str(CORPORA / "words.jsonl")]) == 0
    out = capsys.readouterr().out
    assert "12 of 14 gold entities are representable as they are." in out
    assert out.endswith("passed: nothing that would stop or mislead training\n")


def test_a_training_set_without_entities_does_not_pass(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Nothing here."}')
    assert main(["data", "check", str(path)]) == 1
    assert "failed: no entities" in capsys.readouterr().out


def test_a_file_that_is_given_twice_leaks(capsys: Capture) -> None:
    path = str(CORPORA / "words.jsonl")
    assert main(["data", "check", path, path]) == 1
    assert "failed: leakage" in capsys.readouterr().out


def test_check_does_not_say_that_it_handled_what_stops_training(tmp_path: Path) -> None:
    check = Check()
    check.split("train", [Document.from_words(list("abc"), [(0, 2, "X"), (1, 3, "X")])])
    assert [note.action for note in check.report] == [""]


def test_convert_says_what_it_reads_and_what_was_not_kept(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "out.tsv"
    assert main(["data", "convert", str(CORPORA / "text.jsonl"), str(target)]) == 0
    err = capsys.readouterr().err
    assert "read as jsonl (nestree JSON Lines" in err
    assert "note: not kept: " in err
    assert f"{target}: 4 documents written as columns" in err
    assert main(["data", "convert", str(target), str(tmp_path / "back.jsonl")]) == 0
    assert "everything was kept" in capsys.readouterr().err


def test_convert_does_not_replace_files_unasked(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("precious")
    arguments = ["data", "convert", str(CORPORA / "words.jsonl"), str(target)]
    assert main(arguments) == 2
    assert "there is something already. Name another one, or use --force." in capsys.readouterr().err
    assert main(["data", "convert", str(CORPORA / "words.jsonl"), str(tmp_path), "--to", "jsonl", "--force"]) == 2
    assert "there is a folder already, and it is not empty" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert main([*arguments, "--force"]) == 0


def test_convert_follows_policies(tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "one two", "entities": [{"start": 0, "end": 2, "label": "X"}]}')
    target = tmp_path / "out.data"
    assert main(["data", "convert", str(source), str(target)]) == 2
    assert "in.jsonl:1: the entity 'on' X at [0, 2) is not on token boundaries" in capsys.readouterr().err
    assert main(["data", "convert", str(source), str(target), "--alignment", "expand"]) == 0
    assert "alignment: 1 (1 expanded)" in capsys.readouterr().err
    assert next(read(target)).entities[0].tokens == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "tags=9"], "the file has 4 columns; the word is to be in column 1, tags in 9"),
        (["--set", "tags"], "an option is written OPTION=VALUE"),
        (["--set", "scheme=bios"], "the option scheme is 'bios'"),
        (["--language", "english"], "language is 'english'; it is a code of two or three letters"),
        (["--plot", "picture.gif"], "the picture's ending must be .png, .svg or .pdf"),
        (["--format", "brat"], "brat is a folder, or a file that ends in .txt or .ann"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], says: str, capsys: Capture) -> None:
    assert main(["data", "stats", str(CORPORA / "columns.tsv"), *arguments]) == 2
    assert says in capsys.readouterr().err


def test_formats_are_listed(capsys: Capture) -> None:
    assert main(["data", "formats"]) == 0
    assert "label-studio" in capsys.readouterr().out


def test_commands_that_do_not_exist_are_told_apart(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["data", "statistics"])
    assert stopped.value.code == 2
    assert "invalid choice: 'statistics'" in capsys.readouterr().err


def test_data_needs_no_torch() -> None:
    code = "import sys, nestree.data, nestree.cli.main; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_the_reader_streams(tmp_path: Path) -> None:
    """The first document is there before the rest is looked at."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a"]}\nnot JSON\n')
    documents = read(path)
    assert next(documents).words == ("a",)


def test_writers_stream_too(tmp_path: Path) -> None:
    taken = []

    def documents():  # type: ignore[no-untyped-def]
        for document in read(CORPORA / "words.jsonl"):
            taken.append(document)
            yield document

    write(documents(), tmp_path / "out.jsonl")
    assert len(taken) == 4
