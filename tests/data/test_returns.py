"""What annotators send back: finished, skipped, in part, and with other white space."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nestree.cli.main import main
from nestree.data import FORMATS, Admissible, Document, Entity, Report, Splitter, fit, read, returned, write
from nestree.data.policies import Policies
from nestree.data.returns import Returns

TEXT = "Ada (of Oslo) met Bo."
SENT = [
    Splitter().split(Document(TEXT, (Entity(0, 3, "PER", 0.9), Entity(8, 12, "PER", 0.4)), id="a-1", meta={"x": 1})),
    Splitter().split(Document("Bo ran.", (Entity(0, 2, "PER", 0.6),), id="a-2")),
    Splitter().split(Document("It rained.", (), id="a-3")),
]


def said(document: Document) -> set[tuple[str, str]]:
    return {(document.text_of(one), one.label) for one in document.entities}


def changed(*entities: Entity) -> Document:
    return replace(SENT[0], entities=entities)


def test_people_are_right_and_have_no_scores() -> None:
    mended = changed(Entity(0, 3, "PER", 0.9), Entity(8, 12, "LOC"), Entity(18, 20, "PER"))
    returns = Returns()
    (found,) = returned(SENT, [mended], returns=returns)
    assert said(found) == {("Ada", "PER"), ("Oslo", "LOC"), ("Bo", "PER")}
    assert {one.score for one in found.entities} == {None}
    assert not found.incomplete
    assert (found.id, found.meta, found.words) == ("a-1", {"x": 1}, SENT[0].words)
    assert str(returns) == "1 of 3 came back, 0 as sent; people added 2 entities and took 1 away"


def test_what_did_not_come_back_is_no_annotation() -> None:
    report = Report()
    assert [one.id for one in returned(SENT, [SENT[2]], report=report)] == ["a-3"]
    assert report.counts["not back"] == 2


def test_what_comes_back_as_it_was_sent_may_count_or_not() -> None:
    assert len(list(returned(SENT, SENT))) == 3
    report = Report()
    assert list(returned(SENT, SENT, unchanged="drop", report=report)) == []
    assert report.counts["unchanged"] == 3
    with pytest.raises(ValueError, match="unchanged is 'maybe'; known are 'keep', 'drop'"):
        returned(SENT, SENT, unchanged="maybe")  # type: ignore[arg-type]


def test_in_part_only_changes_are_known() -> None:
    mended = changed(Entity(0, 3, "PER"), Entity(18, 20, "PER"))
    (found,) = returned(SENT, [mended, SENT[1]], partial=True)
    assert said(found) == {("Bo", "PER")}  # Ada may be right, or nobody looked
    assert found.admissible == (Admissible(8, 12, ("PER",), excluded=True),)
    assert found.unknown == ((0, len(TEXT)),)


def test_regions_that_nobody_looked_at_stay_unknown() -> None:
    (found,) = returned(SENT, [replace(SENT[1], unknown=((3, 6),))], unchanged="drop")
    assert found.unknown == ((3, 6),)


def test_guesses_where_nobody_looked_are_no_annotation() -> None:
    report, returns = Report(), Returns()
    back = replace(SENT[0], entities=(*SENT[0].entities, Entity(18, 20, "PER")), unknown=((4, 21),))
    (found,) = returned(SENT, [back], report=report, returns=returns)
    assert said(found) == {("Ada", "PER"), ("Bo", "PER")}  # of "Oslo" nobody said that it is a PER; Bo was added
    assert (returns.added, returns.removed) == (1, 0)
    assert report.counts["guesses"] == 1
    (found,) = returned(SENT, [back], partial=True)
    assert said(found) == {("Bo", "PER")}
    # Whether a guess is gone there because somebody took it away is not known.
    (found,) = returned(SENT, [replace(back, entities=())], partial=True, returns=(returns := Returns()))
    assert found.admissible == (Admissible(0, 3, ("PER",), excluded=True),)
    assert returns.removed == 1


def test_single_answers_about_one_text_are_all_kept() -> None:
    whole = ((0, len(TEXT)),)
    yes = replace(SENT[0], entities=(Entity(0, 3, "PER"),), unknown=whole)
    no = replace(SENT[0], entities=(), unknown=whole, admissible=(Admissible(8, 12, ("PER",), excluded=True),))
    for partial in (False, True):
        returns = Returns()
        found = list(returned(SENT, [yes, no, SENT[0], SENT[0]], partial=partial, returns=returns))
        assert [said(one) for one in found[:2]] == [{("Ada", "PER")}, set()]
        assert found[1].admissible == no.admissible
        assert {one.unknown for one in found[:2]} == {whole}
        assert len(found) == (2 if partial else 3)
        assert (returns.back, returns.added, returns.removed) == (1, 0, 1)


def test_what_a_task_says_of_labels_is_kept_where_a_format_has_no_room_for_it() -> None:
    sent = replace(SENT[0], complete_labels=("PER",))
    (found,) = returned([sent], [SENT[0]])
    assert found.complete_labels == ("PER",)
    assert list(returned([sent], [SENT[0]], unchanged="drop")) == []
    (found,) = returned([sent], [replace(SENT[0], complete_labels=())], unchanged="drop")
    assert found.complete_labels == ()


def test_white_space_is_no_region() -> None:
    report = Report()
    back = replace(
        SENT[0],
        entities=(Entity(0, 3, "PER"), Entity(3, 4, "X")),
        unknown=((13, 14), (4, 13)),
        admissible=(Admissible(17, 18, ("X",)),),
    )
    (found,) = returned(SENT, [back], report=report)
    assert said(found) == {("Ada", "PER")}
    assert (found.unknown, found.admissible) == (((4, 13),), ())
    assert report.counts["white space"] == 3


def test_in_part_a_text_that_was_not_sent_is_open_too() -> None:
    other = Document("Cy slept.", (Entity(0, 2, "PER"),))
    for partial, unknown, taken in ((True, ((0, 9),), "open"), (False, (), "complete annotation")):
        report = Report()
        (found,) = returned(SENT, [other], partial=partial, report=report)
        assert (found.entities, found.unknown) == (other.entities, unknown)
        assert report.of("not sent")[0].action.endswith(taken)


def test_texts_that_were_not_sent_and_those_that_come_twice() -> None:
    report = Report()
    other = Document("Cy slept.", (Entity(0, 2, "PER"),))
    assert list(returned(SENT, [other, SENT[2], SENT[2]], report=report)) == [other, replace(SENT[2], source=None)]
    assert (report.counts["not sent"], report.counts["twice"]) == (1, 1)


@pytest.mark.parametrize("name", sorted(name for name, form in FORMATS.items() if form.write))
def test_every_format_finds_its_way_back(name: str, tmp_path: Path) -> None:
    form, report = FORMATS[name], Report()
    path = tmp_path / f"back{form.suffix}"
    mended = changed(Entity(0, 3, "PER"), Entity(4, 13, "X"), Entity(8, 12, "LOC"))
    mended = mended.with_tokens(SENT[0].tokens, SENT[0].sentences)  # type: ignore[arg-type]
    write(fit([mended, *SENT[1:]], form, Policies(), Splitter(), report), path, name)
    found = list(returned(SENT, read(path, name)))
    assert [one.text for one in found] == [one.text for one in SENT]
    assert said(found[0]) == {("Ada", "PER"), ("(of Oslo)", "X"), ("Oslo", "LOC")}
    assert [one.id for one in found] == ["a-1", "a-2", "a-3"]


# --- The command ---


def run(*arguments: Any) -> int:
    return main(["data", "returned", *map(str, arguments)])


def tasks(tmp_path: Path) -> list[dict[str, Any]]:
    """As `nestree suggest` writes them for Label Studio."""
    form = FORMATS["label-studio"]
    write(SENT, tmp_path / "sent.json", form.name, options=form.as_guesses)
    found: list[dict[str, Any]] = json.loads((tmp_path / "sent.json").read_text())
    return found


def test_label_studio_says_what_was_finished_skipped_and_not_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished, skipped, untouched = tasks(tmp_path)
    finished["annotations"] = [{"result": finished["predictions"][0]["result"], "was_cancelled": False}]
    skipped["annotations"] = [{"result": [], "was_cancelled": True}]
    untouched["annotations"] = []
    (tmp_path / "back.json").write_text(json.dumps([finished, skipped, untouched]))
    assert len(list(read(tmp_path / "back.json"))) == 1  # as it is, for training
    assert run(tmp_path / "sent.json", tmp_path / "back.json", tmp_path / "more.jsonl") == 0
    (found,) = read(tmp_path / "more.jsonl")
    assert said(found) == {("Ada", "PER"), ("Oslo", "PER")}
    err = capsys.readouterr().err
    assert "1 of 3 came back, 1 as sent" in err
    assert "not back: 2" in err


def test_label_studio_hands_guesses_back_where_nobody_looked(tmp_path: Path) -> None:
    (task, *_) = tasks(tmp_path)
    guesses = [{**one, "origin": "prediction"} for one in task["predictions"][0]["result"]]
    place = {"type": "labels", "from_name": "label", "to_name": "text", "origin": "manual"}
    mark = {**place, "value": {"start": 4, "end": len(TEXT), "text": TEXT[4:], "labels": ["later"]}}
    mine = {**place, "value": {"start": 18, "end": 20, "text": "Bo", "labels": ["PER"]}}
    task["annotations"] = [{"result": [*guesses, mark, mine]}]
    (tmp_path / "back.json").write_text(json.dumps([task]))
    report = Report()
    (found,) = read(tmp_path / "back.json", options={"unknown_label": "later"}, report=report)
    assert said(found) == {("Ada", "PER"), ("Bo", "PER")}
    assert found.unknown == ((4, len(TEXT)),)
    assert report.counts["guesses"] == 1
    changed = [guesses[0], {**guesses[1], "origin": "prediction-changed"}]
    task["annotations"] = [{"result": [*changed, mark]}]
    (tmp_path / "back.json").write_text(json.dumps([task]))
    (found,) = read(tmp_path / "back.json", options={"unknown_label": "later"})
    assert said(found) == {("Ada", "PER"), ("Oslo", "PER")}


def test_questions_of_prodigy_that_nobody_answered_are_not_finished(tmp_path: Path) -> None:
    write(SENT, tmp_path / "sent.jsonl", "prodigy", options=FORMATS["prodigy"].as_guesses)
    lines = [json.loads(line) for line in (tmp_path / "sent.jsonl").read_text().splitlines()]
    lines[1]["answer"] = "accept"
    (tmp_path / "back.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    more = tmp_path / "more.jsonl"
    assert run(tmp_path / "sent.jsonl", tmp_path / "back.jsonl", more) == 0
    assert [one.id for one in read(more)] == ["a-2"]
    assert run(tmp_path / "sent.jsonl", tmp_path / "back.jsonl", more, "--force", "--set", "unanswered=read") == 0
    assert len(list(read(more))) == 3


def test_brat_does_not_say_who_looked_and_people_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(SENT, tmp_path / "sent", "brat")
    write([changed(Entity(0, 3, "PER")), *SENT[1:]], tmp_path / "back", "brat")
    assert run(tmp_path / "sent", tmp_path / "back", tmp_path / "more.jsonl") == 0
    assert [one.id for one in read(tmp_path / "more.jsonl")] == ["a-1"]
    assert "brat does not say what people finished (label-studio and prodigy do)" in capsys.readouterr().err
    again = tmp_path / "all.jsonl"
    assert run(tmp_path / "sent", tmp_path / "back", again, "--unchanged", "keep") == 0
    assert len(list(read(again))) == 3
    assert run(tmp_path / "sent", tmp_path / "back", again, "--partial", "--force") == 0
    (found,) = read(again)
    assert not found.entities
    assert found.admissible[0].excluded


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sent.jsonl", "none.jsonl", "more.jsonl"], "none.jsonl: there is no such file"),
        (["sent.jsonl", "sent.jsonl", "sent.jsonl"], "this is read, and cannot be written too"),
        (["sent.jsonl", "sent.jsonl", "there.jsonl"], "there is something already"),
        (["sent.jsonl", "sent.jsonl", "more.xyz"], "does not say which format"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(SENT, "sent.jsonl")
    Path("there.jsonl").write_text("mine\n")
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
    assert Path("there.jsonl").read_text() == "mine\n"
