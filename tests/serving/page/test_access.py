"""For everybody: by keyboard, by ear, on a phone; and from no other host."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser

import nestree.serving
from nestree.drawing.spans import levels
from tests.serving.page.conftest import NESTED, Visit, visiting
from tests.serving.page.looks import LOW_CONTRAST, NAMELESS

PAGE = Path(nestree.serving.__file__).parent / "page"


def test_everything_is_reached_by_keyboard_alone(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    while page.evaluate("document.activeElement.id") != "text":
        page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type(NESTED)
    visit.until(lambda: len(visit.marks()) == 2)
    page.wait_for_selector("#alternatives:not(.waiting) .choices button >> nth=1")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(e => e.id || e.className.baseVal || e.className || e.name || e.tagName)(document.activeElement)"
            )
        )
        if reached[-1] == "curl":
            break
    for one in ("flat", "threshold", "zoom-in", "copy", "file-split", "file", "copy-curl", "curl"):
        assert one in reached, one
    assert len([one for one in reached if str(one).startswith("mark")]) == 1  # arrows reach the others
    assert len([one for one in reached if str(one).startswith("node")]) == 1


def test_arrows_go_through_entities_and_nodes(visit: Visit) -> None:
    visit.type(NESTED)
    page = visit.page
    said = "document.activeElement.getAttribute('aria-label')"
    page.focus("button.mark >> nth=0")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(said).startswith("PER")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(said).startswith("ORG")
    page.keyboard.press("End")
    assert page.evaluate(said).startswith("PER")
    page.focus("#tree .node.entity >> nth=0")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(said).startswith("latent")
    page.keyboard.press("Home")
    assert page.evaluate(said).endswith(NESTED)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"


def test_focus_is_seen(visit: Visit) -> None:
    visit.type(NESTED)
    page = visit.page
    for selector in ("#examples button", "#threshold", "button.mark", "#zoom-in", "#table th button", "#copy"):
        page.focus(selector)
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", selector


def test_every_control_has_a_name_and_roles_fit(visit: Visit) -> None:
    visit.type(NESTED)
    page = visit.page
    page.wait_for_selector("#alternatives .choices button")
    nameless = page.evaluate(NAMELESS)
    assert not nameless
    headings = page.evaluate(
        "[...document.querySelectorAll('main h1, main h2, main h3, header h1')].map(one => +one.tagName[1])"
    )
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    missing = page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby],[aria-describedby],label[for]')].flatMap(one =>"
        " ['aria-labelledby', 'aria-describedby', 'for'].flatMap(name => (one.getAttribute(name) ?? '').split(' ')))"
        ".filter(id => id && !document.getElementById(id))"
    )
    assert not missing
    snapshot = page.locator("main").aria_snapshot()
    for part in (
        'textbox "Text"',
        'slider "Least score"',
        'radio "nested" [checked]',
        'group "Labels"',
        "treeitem",
        "table",
    ):
        assert part in snapshot, part
    assert page.get_attribute("#status", "role") == "status"
    assert page.get_attribute("html", "lang") == "en"
    low = page.evaluate(LOW_CONTRAST)
    assert not low


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser: Browser, address: str, scheme: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "color_scheme": scheme}
    with visiting(browser, address, **phone) as visit:
        visit.type(f"{NESTED}\n\n{'d ef ' * 8}u xx y a bc d ef")
        visit.page.wait_for_selector("#alternatives .choices button")
        assert visit.page.evaluate("document.documentElement.scrollWidth") == 390
        assert not visit.page.evaluate(LOW_CONTRAST)
        visit.screenshot(f"phone-{scheme}")


def test_with_reduced_motion_nothing_moves(browser: Browser, address: str) -> None:
    with visiting(browser, address, reduced_motion="reduce") as visit:
        moving = (
            "[...document.querySelectorAll('*')].some(one => parseFloat(getComputedStyle(one).transitionDuration) > 0)"
        )
        assert not visit.page.evaluate(moving)
        assert visit.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_nothing_in_the_files_names_another_host_or_holds_script_in_markup() -> None:
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.", text), path.name
        assert "innerHTML" not in text, path.name
        assert "eval(" not in text, path.name
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?![^>]* src=)", page)


def test_rows_and_places_are_reckoned_as_in_python(visit: Visit) -> None:
    spans = [(0, 9, "a", None), (0, 5, "b", None), (0, 5, "c", None), (3, 7, "d", None), (8, 9, "e", None)]
    given = [{"start": start, "end": end} for start, end, _, _ in spans]
    rows = visit.page.evaluate("async spans => (await import('/page/spans.js')).levels(spans)", given)
    assert rows == levels(spans)
    text = "a😀é👩‍🔬z"
    places = visit.page.evaluate(
        "async text => { const at = (await import('/page/spans.js')).fromCodePoints(text);"
        " return [...text].map((_, number) => text.slice(at(number), at(number + 1))); }",
        text,
    )
    assert places == list(text)
