"""What is typed is drawn: entities, tree, table, and how they belong together."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Route

from nestree.drawing.spans import ON_DARK, PALETTE
from nestree.model import NestedNER
from tests.serving.page.answers import DEEP, EMOJI, LONG_LABELS, RIGHT_TO_LEFT, answer
from tests.serving.page.conftest import NESTED, Visit, visiting
from tests.serving.page.looks import OVERLAPS, UNDER_TINTS

TWO = f"{NESTED}\n\nd ef u xx y"


def test_typing_shows_the_nested_entities_of_the_model(visit: Visit, model: NestedNER) -> None:
    visit.page.click("#text")
    visit.page.fill("#text", "")
    visit.page.keyboard.type(NESTED, delay=20)
    visit.page.wait_for_selector("button.mark >> nth=1")
    visit.until(lambda: visit.page.inner_text("#reading p") == NESTED)
    found = model.predict(NESTED)
    assert [one.split(",")[0] for one in visit.marks()] == [
        f"{one.label} {_score(one.score)}: {one.text}" for one in found
    ]
    assert visit.marks()[1].endswith(", within ORG u x y")
    outer, inner = (one.bounding_box() for one in visit.page.query_selector_all("button.mark"))
    assert outer is not None
    assert inner is not None
    assert outer["y"] > inner["y"] + 10  # rows: the outer one is beneath
    assert outer["x"] < inner["x"]
    assert abs(outer["x"] + outer["width"] - inner["x"] - inner["width"]) < 1
    assert "2 entities, 2 levels deep" in visit.page.inner_text("#status")
    visit.screenshot("typed")


def _score(score: float) -> str:
    return ">0.99" if 0.995 <= score < 1 else f"{score:.2f}"


def test_answers_that_come_late_are_dropped(visit: Visit) -> None:
    slow: list[Route] = []

    def hold(route: Route) -> None:
        if json.loads(route.request.post_data or "{}")["text"] == "u x y slow":
            slow.append(route)  # is never answered
        else:
            route.continue_()

    visit.page.route("**/v1/predict", hold)
    visit.page.fill("#text", "u x y slow")
    visit.page.wait_for_timeout(400)
    visit.type("a u xx y")
    assert len(slow) == 1
    assert visit.page.inner_text("#reading p") == "a u xx y"


def test_the_slider_hides_what_is_less_probable_and_the_model_gets_it_back(visit: Visit, model: NestedNER) -> None:
    visit.type(NESTED)
    scores = sorted(one.score for one in model.predict(NESTED))
    assert scores[0] < 1
    assert visit.page.inner_text("#threshold-value") == "model’s own"
    visit.page.fill("#threshold", "1")
    visit.until(lambda: not visit.marks())
    assert visit.page.inner_text("#threshold-value") == "1.00"
    assert "No entities" in visit.page.inner_text("#table")
    visit.page.click("#threshold-reset")
    visit.page.wait_for_selector("button.mark >> nth=1")
    assert visit.page.get_attribute("#threshold", "aria-valuetext") == "model’s own"


def test_labels_are_filtered_in_text_and_table(visit: Visit) -> None:
    visit.type(NESTED)
    before = len(visit.asked)
    visit.page.uncheck("#labels input[value=ORG]")
    assert [one[:3] for one in visit.marks()] == ["PER"]
    assert visit.page.locator("#table tbody tr").count() == 1
    assert visit.page.locator("#tree .node.entity.muted").count() == 1
    assert "1 hidden" in visit.page.inner_text("#status")
    visit.page.check("#labels input[value=ORG]")
    assert len(visit.marks()) == 2
    assert not [one for one in visit.asked[before:] if "predict" in one and "alternatives" not in one][1:]


def test_the_switch_leaves_out_nesting(visit: Visit) -> None:
    visit.type(NESTED)
    for way, label in (("outermost", "ORG"), ("innermost", "PER")):
        visit.page.check(f"#flat input[value={way}]")
        visit.until(lambda label=label: [one[:3] for one in visit.marks()] == [label])  # type: ignore[misc]
    visit.page.check("#flat input[value='']")
    visit.page.wait_for_selector("button.mark >> nth=1")


def test_text_tree_and_table_point_at_each_other(visit: Visit) -> None:
    visit.type(NESTED)
    page = visit.page
    visit.until(lambda: visit.count("#alternatives .choices button") > 1)  # the tree is drawn again when they come
    key = page.get_attribute("button.mark", "data-key")
    node, row = f"#tree .node[data-key='{key}']", f"#table tr[data-key='{key}']"

    def active(selector: str) -> bool:
        return "active" in (page.get_attribute(selector, "class") or "")

    page.hover("button.mark >> nth=0")
    visit.until(lambda: active(node) and active(row))
    assert visit.count(".tint") == 1
    assert page.inner_text("#detail").startswith("ORG u x y")
    page.mouse.move(0, 0)
    visit.until(lambda: visit.count(".active") == 0)
    page.focus(node)
    visit.until(lambda: active("button.mark >> nth=0"))
    page.keyboard.press("ArrowUp")
    page.hover(f"{row} td >> nth=1")
    visit.until(lambda: active(node))
    page.hover("#tree .node.latent >> nth=0")  # of a latent node, its words
    visit.until(lambda: page.inner_text("#detail").startswith("latent a bc u x y ef"))
    assert visit.count(".tint") == 1
    page.hover(".covered >> text=y")
    visit.until(lambda: page.inner_text("#detail").startswith("PER y"))


def test_the_tree_has_solid_entities_dashed_latent_nodes_and_a_text(visit: Visit, model: NestedNER) -> None:
    visit.type(NESTED)
    page = visit.page
    (tree,) = model.predict(NESTED, trees=True).trees or ()
    entities = [one for one in tree if one.label]
    assert page.locator("#tree .node.entity").count() == len(entities)
    assert page.locator("#tree .node.latent").count() == sum(
        one.label is None and " " in NESTED[one.start : one.end] for one in tree
    )
    dashes = "one => getComputedStyle(one).strokeDasharray"
    assert page.eval_on_selector("#tree .edge.latent", dashes) != "none"
    assert page.eval_on_selector("#tree .edge.entity", dashes) == "none"
    page.click("text=The tree in words")
    said = re.sub(r" \d+(\.\d+)?%", "", page.inner_text("#tree-words"))
    assert "[ORG" in said
    assert "[PER y]" in said
    assert re.sub(r"\[(ORG |PER )?|\]", "", said) == NESTED


def test_the_tree_is_zoomed_by_buttons_keys_and_wheel(visit: Visit) -> None:
    visit.type(NESTED)
    page = visit.page

    def width() -> float:
        return float(page.eval_on_selector("#tree svg", "one => one.getBoundingClientRect().width"))

    first = width()
    page.click("#zoom-in")
    larger = width()
    assert larger > 1.1 * first
    page.focus("#tree .node >> nth=0")
    page.keyboard.press("-")
    assert abs(width() - first) < 2
    page.hover("#tree")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    visit.until(lambda: width() > 1.1 * first)
    page.click("#zoom-fit")
    assert abs(width() - first) < 2


def test_sentences_are_stepped_through_and_followed(visit: Visit) -> None:
    visit.type(TWO)
    page = visit.page
    assert page.inner_text("#sentence-number") == "sentence 1 of 2"
    page.click("#next")
    assert page.inner_text("#sentence-number") == "sentence 2 of 2"
    assert "xx" in page.inner_text("#tree")
    page.hover("button.mark >> nth=0")
    assert page.inner_text("#sentence-number") == "sentence 1 of 2"


def test_the_next_best_trees_are_shown_on_hover_and_focus(visit: Visit, model: NestedNER) -> None:
    visit.type(NESTED)
    page = visit.page
    page.wait_for_selector("#alternatives:not(.waiting) .choices button >> nth=2")
    buttons = page.locator("#alternatives .choices button")
    shares = [
        float(one) for one in re.findall(r"(?:tree|found)[^%]*? ([\d.]+)%", page.inner_text("#alternatives .choices"))
    ]
    assert shares == sorted(shares, reverse=True)
    assert all("“" in text for text in buttons.all_inner_texts()[1:])  # what differs
    drawn = page.inner_html("#tree svg")
    buttons.nth(1).hover()
    assert page.inner_html("#tree svg") != drawn
    page.mouse.move(0, 0)
    assert page.inner_html("#tree svg") == drawn
    buttons.nth(2).focus()
    shown = page.inner_text("#tree-words") or page.text_content("#tree-words")
    page.keyboard.press("Enter")
    assert buttons.nth(2).get_attribute("aria-pressed") == "true"
    page.focus("#text")
    assert page.text_content("#tree-words") == shown  # it was pressed, and stays


def test_the_table_is_sorted_by_its_headings(visit: Visit) -> None:
    visit.type(TWO)
    page = visit.page

    def column(number: int) -> list[str]:
        return page.locator(f"#table tbody td:nth-child({number})").all_inner_texts()

    assert column(2) == ["ORG", "PER", "ORG", "PER"]
    page.click("#table th >> text=Label")
    assert column(2) == ["ORG", "ORG", "PER", "PER"]
    assert page.get_attribute("#table th >> nth=1", "aria-sort") == "ascending"
    page.keyboard.press("Enter")  # the heading still has the focus
    assert column(2) == ["PER", "PER", "ORG", "ORG"]
    assert page.get_attribute("#table th >> nth=1", "aria-sort") == "descending"


def test_what_is_seen_is_copied_as_json(browser: Browser, address: str, model: NestedNER) -> None:
    with visiting(browser, address, permissions=["clipboard-read", "clipboard-write"]) as visit:
        visit.type(NESTED)
        visit.page.click("#copy")
        visit.page.wait_for_selector("#copy >> text=Copied")
        copied = json.loads(visit.page.evaluate("navigator.clipboard.readText()"))
        found = model.predict(NESTED).as_dict()["entities"]
        assert copied["text"] == NESTED
        assert [one["label"] for one in copied["entities"]] == [one["label"] for one in found]
        assert [one["parent"] for one in copied["entities"]] == [None, 0]
        visit.page.uncheck("#labels input[value=ORG]")
        visit.page.click("#copy")
        visit.page.wait_for_timeout(200)
        (only,) = json.loads(visit.page.evaluate("navigator.clipboard.readText()"))["entities"]
        assert (only["label"], only["depth"], only["parent"]) == ("PER", 1, None)


def test_a_script_in_the_text_stays_text(visit: Visit) -> None:
    bad = '<script>document.title = "bad"</script><img src=x onerror=alert(1)> u x y'
    visit.type(bad)
    assert visit.page.inner_text("#reading p") == bad
    assert visit.page.title() == "nestree: small"
    assert visit.page.locator("#reading script, #reading img, #tree image").count() == 0


def test_an_example_is_tried_with_one_click(visit: Visit) -> None:
    first = visit.page.input_value("#text")
    assert first  # the page begins with one
    visit.page.click("#examples button >> nth=1")
    assert visit.page.input_value("#text") != first
    visit.until(lambda: visit.page.input_value("#text").startswith(visit.page.inner_text("#reading p >> nth=0")))


@pytest.mark.parametrize(
    ("name", "case"), [("deep", DEEP), ("right-to-left", RIGHT_TO_LEFT), ("emoji", EMOJI), ("labels", LONG_LABELS)]
)
@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (390, "dark")])
def test_difficult_texts_are_underlined_where_they_stand(
    browser: Browser, address: str, name: str, case: Any, width: int, scheme: Any
) -> None:
    with visiting(browser, address, viewport={"width": width, "height": 844}, color_scheme=scheme) as visit:
        visit.page.route("**/v1/predict", lambda route: route.fulfill(json=answer(*case)))
        visit.type(case[0])
        for number, mark in enumerate(visit.page.query_selector_all("button.mark")):
            label, _, text = (mark.get_attribute("aria-label") or "").partition(": ")
            text = text.partition(", within ")[0]
            mark.focus()
            tinted = visit.page.evaluate(UNDER_TINTS)
            assert "".join(tinted.split()) == "".join(text.split()), f"{number} {label}"
        captions = visit.page.locator(".caption").all_inner_texts()
        assert all(one.split()[0] in {label for _, label, _ in case[1]} for one in captions)
        overlapping = visit.page.evaluate(OVERLAPS)
        assert not overlapping
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        visit.screenshot(f"{name}-{width}-{scheme}")


def test_colours_are_those_of_the_drawings(visit: Visit, browser: Browser, address: str) -> None:
    names = [f"--c{at}" for at in range(len(PALETTE))]
    read = "names => names.map(name => getComputedStyle(document.documentElement).getPropertyValue(name).trim())"
    assert visit.page.evaluate(read, names) == PALETTE
    with visiting(browser, address, color_scheme="dark") as dark:
        assert dark.page.evaluate(read, names) == [ON_DARK.get(at, colour) for at, colour in enumerate(PALETTE)]
