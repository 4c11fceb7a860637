"""A file goes through the service in parts; what is done is never lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from nestree.data import read
from nestree.model import NestedNER
from nestree.serving.settings import Limits, Settings
from tests.serving.page.conftest import NESTED, Visit, serving, visiting

OLD, NEW = "an-old-key-of-many-characters", "a-new-key-of-many-characters"


def chosen(visit: Visit, path: Path, content: str | bytes) -> Page:
    """Chooses a file with some content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    visit.page.set_input_files("#file", path)
    return visit.page


def downloaded(visit: Visit, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    with visit.page.expect_download() as waiting:
        visit.page.click("#job-download")
    waiting.value.save_as(folder / "got.jsonl")
    return waiting.value.suggested_filename, [
        json.loads(one) for one in (folder / "got.jsonl").read_text().splitlines()
    ]


def test_lines_of_json_come_back_with_entities_that_nestree_reads(
    visit: Visit, tmp_path: Path, model: NestedNER
) -> None:
    given = [
        {"id": "one", "text": NESTED, "meta": {"page": 3}},
        {"tokens": NESTED.split(), "entities": [{"start": 0, "end": 1, "label": "OLD"}]},
        {"text": "🧬 é u xx y"},
        {"text": ""},
    ]
    content = "\n".join([*map(json.dumps, given), "not json", '{"words": []}']) + "\n"
    page = chosen(visit, tmp_path / "mine.jsonl", content)
    page.wait_for_selector("#job-status >> text=Done")
    assert "4 of 4 texts" in page.inner_text("#job-status")
    problems = page.locator("#job-problems li").all_inner_texts()
    assert [one.split()[:2] for one in problems] == [["Line", "5"], ["Line", "6"]]
    name, lines = downloaded(visit, tmp_path)
    assert name == "mine.entities.jsonl"
    assert [one.get("id") for one in lines] == ["one", None, None, None]
    assert lines[0]["meta"] == {"page": 3}
    assert lines[1]["tokens"] == NESTED.split()
    for line, prediction in zip(
        lines, [*model.predict([NESTED]), *model.predict_tokens([NESTED.split()])], strict=False
    ):
        assert [(one["start"], one["end"], one["label"]) for one in line["entities"]] == [
            (one.start, one.end, one.label) for one in prediction
        ]
    found = list(read(tmp_path / "got.jsonl"))
    assert [len(one.entities) for one in found[:2]] == [2, 2]
    visit.screenshot("file")


@pytest.mark.parametrize(("split", "texts"), [("paragraph", 2), ("line", 3)])
def test_plain_text_is_split_as_was_chosen(visit: Visit, tmp_path: Path, split: str, texts: int) -> None:
    visit.page.select_option("#file-split", split)
    page = chosen(visit, tmp_path / "mine.txt", "\ufeffu x y a\r\nd ef\r\n\r\n \r\na u xx y\r\n")
    page.wait_for_selector("#job-status >> text=Done")
    _, lines = downloaded(visit, tmp_path)
    assert len(lines) == texts
    assert lines[0]["text"].split("\n") == (["u x y a", "d ef"] if split == "paragraph" else ["u x y a"])
    page.click("#job-texts button >> nth=0")  # to look at it
    assert page.input_value("#text") == lines[0]["text"]


def test_many_texts_show_progress_and_stay_within_the_limits(
    browser: Browser, model: NestedNER, tmp_path: Path
) -> None:
    limits = Limits(texts=5, characters=100, request_bytes=2000)
    with serving(model, Settings(limits=limits)) as address, visiting(browser, address) as visit:
        sizes, values = [], []

        def watch(route: Route) -> None:
            body = route.request.post_data or ""
            if "texts" in json.loads(body):
                sizes.append((len(json.loads(body)["texts"]), len(body.encode())))
                values.append(visit.page.eval_on_selector("#job-progress", "one => one.value / one.max"))
            route.continue_()

        visit.page.route("**/v1/predict", watch)
        lines = [f"{NESTED} {'a ' * (number % 40)}" for number in range(23)] + ["d " * 60]
        page = chosen(visit, tmp_path / "mine.txt", "\n\n".join(lines))
        page.wait_for_selector("#job-status >> text=Done")
        assert "23 of 23 texts" in page.inner_text("#job-status")
        assert "Line 47 has 120 characters, and the service takes 100" in page.inner_text("#job-problems")
        assert max(number for number, _ in sizes) == 5
        assert max(size for _, size in sizes) <= 2000
        assert values == sorted(values)
        assert 0 in values
        assert any(0 < one < 1 for one in values)
        assert len(downloaded(visit, tmp_path)[1]) == 23


def test_a_failure_keeps_what_is_done_and_can_be_gone_on_from(visit: Visit, tmp_path: Path) -> None:
    asked: list[int] = []

    def fail(route: Route) -> None:
        if "texts" not in json.loads(route.request.post_data or "{}"):
            route.continue_()
            return
        asked.append(1)
        if len(asked) == 2:  # busy: it is waited for
            body = {"title": "busy", "status": 503, "detail": "The queue is full.", "advice": "Wait."}
            route.fulfill(status=503, json=body, headers={"Retry-After": "1"})
        elif len(asked) == 4:
            body = {"title": "broken", "status": 500, "detail": "It broke.", "advice": "Tell us."}
            route.fulfill(status=500, json=body)
        else:
            route.continue_()

    visit.page.route("**/v1/predict", fail)
    page = chosen(visit, tmp_path / "mine.txt", "\n\n".join([NESTED] * 80))
    page.wait_for_selector("#job-status >> text=busy")
    page.wait_for_selector("#job-status.wrong >> text=It broke. Tell us.")
    assert "64 texts of 80" in page.inner_text("#job-status")
    assert len(downloaded(visit, tmp_path)[1]) == 64
    page.click("#job-resume")
    page.wait_for_selector("#job-status >> text=Done")
    assert len(downloaded(visit, tmp_path)[1]) == 80
    visit.complaints.clear()


def test_it_can_be_cancelled(visit: Visit, tmp_path: Path) -> None:
    asked: list[Route] = []

    def slow(route: Route) -> None:
        many = "texts" in json.loads(route.request.post_data or "{}")
        asked.append(route)
        if not many or sum("texts" in (one.request.post_data or "") for one in asked) == 1:
            route.continue_()

    visit.page.route("**/v1/predict", slow)
    page = chosen(visit, tmp_path / "mine.txt", "\n\n".join([NESTED] * 80))
    page.wait_for_selector("#job-download:not([hidden])")
    page.click("#job-cancel")
    page.wait_for_selector("#job-status >> text=Stopped")
    assert len(downloaded(visit, tmp_path)[1]) == 32


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("a.txt", b"caf\xe9", "is not UTF-8"), ("b.txt", b" \n\n", "has no texts"), ("c.jsonl", b"[1]\n", "has no texts")],
)
def test_a_file_that_cannot_be_used_is_an_error(
    visit: Visit, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    page = chosen(visit, tmp_path / name, content)
    page.wait_for_selector("#job-status.wrong")
    assert f"{name} {said}" in page.inner_text("#job-status")


def many(route: Route) -> list[str]:
    """The texts of a request, if it is one for a file."""
    found: list[str] = json.loads(route.request.post_data or "{}").get("texts", [])
    return found


def test_another_file_stops_the_one_before_and_people_are_told(visit: Visit, tmp_path: Path) -> None:
    held: list[Route] = []
    asked: list[str] = []
    gone: list[str] = []

    def hold(route: Route) -> None:
        texts = many(route)
        asked.extend(texts)
        if "first 40" in texts:
            held.append(route)  # is never answered
        else:
            route.continue_()

    visit.page.route("**/v1/predict", hold)
    visit.page.on("requestfailed", lambda request: gone.append(request.post_data or ""))
    page = chosen(visit, tmp_path / "first.txt", "\n\n".join(f"first {number}" for number in range(80)))
    visit.until(lambda: held)
    chosen(visit, tmp_path / "second.txt", "\n\n".join([NESTED] * 3))
    page.wait_for_selector("#job-status >> text=second.txt: Done, 3 of 3 texts")
    note = "first.txt was stopped for this file, with 32 of 80 texts done."
    assert page.inner_text("#job-note") == note
    visit.until(lambda: any("first 40" in one for one in gone))  # its request is broken off
    assert "first 79" not in asked
    assert page.locator("#job-texts li").count() == 3
    visit.screenshot("file-after-file")
    name, lines = downloaded(visit, tmp_path)
    assert (name, [one["text"] for one in lines]) == ("second.entities.jsonl", [NESTED] * 3)
    chosen(visit, tmp_path / "third.txt", NESTED)
    page.wait_for_selector("#job-status >> text=third.txt: Done")
    assert page.is_hidden("#job-note")  # nothing was stopped for it


SLOWLY_READ = """
const read = Blob.prototype.arrayBuffer;
window.reading = [];
File.prototype.arrayBuffer = function () {
  if (!this.name.startsWith("slow")) return read.call(this);
  return new Promise((resolve) => window.reading.push(() => resolve(read.call(this))));
};
"""


@pytest.mark.parametrize("content", ["u x y slow", b"caf\xe9"], ids=["texts", "not UTF-8"])
def test_a_file_that_is_read_slowly_does_not_come_over_one_that_was_chosen_later(
    browser: Browser, address: str, tmp_path: Path, content: str | bytes
) -> None:
    visit = Visit(browser)
    visit.page.add_init_script(SLOWLY_READ)
    visit.open(address)
    asked: list[str] = []

    def watch(route: Route) -> None:
        asked.extend(many(route))
        route.continue_()

    visit.page.route("**/v1/predict", watch)
    page = chosen(visit, tmp_path / "slow.txt", content)
    page.wait_for_selector("#job-status >> text=Reading")
    chosen(visit, tmp_path / "second.txt", NESTED)
    page.wait_for_selector("#job-status >> text=second.txt: Done")
    page.evaluate("() => { for (const go of window.reading) go(); }")
    page.wait_for_timeout(300)
    assert "second.txt: Done, 1 of 1 text" in page.inner_text("#job-status")
    assert page.inner_text("#job-note") == "slow.txt was stopped for this file before anything of it was done."
    assert asked == [NESTED]
    assert [one["text"] for one in downloaded(visit, tmp_path)[1]] == [NESTED]
    visit.context.close()


DROP = """(names) => {
  const given = new DataTransfer();
  for (const name of names) given.items.add(new File([`u x y ${name}`], name));
  const event = (type) => new DragEvent(type, { dataTransfer: given, bubbles: true, cancelable: true });
  const missed = !document.querySelector("h1").dispatchEvent(event("drop"));
  document.querySelector("#drop").dispatchEvent(event("drop"));
  return missed;
}"""


def test_of_several_files_one_is_taken_and_one_that_misses_its_place_is_not_shown(visit: Visit) -> None:
    prevented = visit.page.evaluate(DROP, ["a.txt", "b.txt"])
    assert prevented  # the browser would have left the page
    visit.page.wait_for_selector("#job-status >> text=a.txt: Done")
    assert "Only a.txt was taken" in visit.page.inner_text("#job-note")


@pytest.mark.parametrize("way", ["at once", "after Escape"])
def test_a_key_that_expires_while_a_file_is_worked_on_loses_nothing(
    browser: Browser, model: NestedNER, tmp_path: Path, way: str
) -> None:
    asked: list[int] = []

    def expire(route: Route) -> None:
        """The service forgets the old key when the first texts of the file are done."""
        asked.append(len(many(route)))
        headers = route.request.headers
        if sum(map(bool, asked)) > 1 and headers.get("authorization") == f"Bearer {OLD}":
            headers |= {"authorization": "Bearer nothing"}
        route.continue_(headers=headers)

    with serving(model, keys=(OLD, NEW)) as address:
        visit = Visit(browser)
        page = visit.page
        page.goto(address)
        give_key(page, OLD)
        page.wait_for_selector("#labels input")
        visit.type(NESTED)
        page.route("**/v1/predict", expire)
        chosen(visit, tmp_path / "mine.txt", "\n\n".join([NESTED] * 80))
        page.wait_for_selector("#key-dialog[open] >> text=does not know that key, or not any more")
        if way == "after Escape":
            page.keyboard.press("Escape")
            page.wait_for_selector("#job-status.wrong >> text=you are asked for a key again")
            assert "32 texts of 80" in page.inner_text("#job-status")
            visit.screenshot("file-without-a-key")
            page.click("#job-resume")
        give_key(page, NEW)
        page.wait_for_selector("#job-status >> text=Done")
        assert [one for one in asked if one] == [32, 32, *([32] if way == "after Escape" else []), 32, 16]
        assert len(downloaded(visit, tmp_path)[1]) == 80
        visit.context.close()


def give_key(page: Page, key: str) -> None:
    page.wait_for_selector("#key-dialog[open]")
    page.fill("#key", key)
    page.keyboard.press("Enter")


def test_a_file_is_reason_enough_to_ask_for_the_key_again(browser: Browser, model: NestedNER, tmp_path: Path) -> None:
    with serving(model, keys=(OLD,)) as address:
        visit = Visit(browser)
        visit.page.goto(address)
        visit.page.click("#key-cancel")
        visit.page.wait_for_selector("#error >> text=Enter a key")
        page = chosen(visit, tmp_path / "mine.txt", NESTED)
        page.click("#key-cancel")
        page.wait_for_selector("#job-status.wrong >> text=mine.txt was not begun")
        chosen(visit, tmp_path / "mine.txt", NESTED)
        give_key(page, OLD)
        page.wait_for_selector("#job-status >> text=mine.txt: Done")
        page.wait_for_selector("#labels input")
        visit.until(lambda: page.is_hidden("#error"))  # the text is read, too
        visit.context.close()
