from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given

from nestree.drawing import sentence_svg, spans_svg, tree_svg
from nestree.drawing.layout import Node, Span
from nestree.drawing.style import THEMES, rules
from tests.drawing.test_spans import NODES, SPANS, SVG, WORDS, plain, sentences, shown


def keys(element: ElementTree.Element) -> set[str]:
    return set(re.findall(r"\bk\d+\b", element.get("class", "")))


def by_key(svg: str) -> dict[str, list[ElementTree.Element]]:
    """What can be pointed at, by what lights up with it."""
    found: dict[str, list[ElementTree.Element]] = {}
    for one in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        for key in keys(one):
            found.setdefault(key, []).append(one)
    return found


def test_span_and_node_light_up_together() -> None:
    svg = sentence_svg(WORDS, SPANS, NODES)
    together = by_key(svg)
    for at in range(len(SPANS)):
        (key,) = (key for key, group in together.items() if any(one.get("data-span") == str(at) for one in group))
        span, node = together[key]
        assert span.get("data-span") == str(at)
        assert node.get("data-span") is None
        assert [one.get("data-start") for one in (span, node)] == [str(SPANS[at][0])] * 2
        assert [one.get("data-end") for one in (span, node)] == [str(SPANS[at][1])] * 2
        assert [one.get("tabindex") for one in (span, node)] == ["0", "0"]
        rule = f".nestree-sentence:has(.{key}:is(:hover,:focus)) .{key}{{"
        assert rule in svg


@given(sentences())
def test_whatever_the_sentence_links_have_rules_and_rules_have_links(sentence: tuple[list[str], list[Span]]) -> None:
    words, spans = sentence
    nodes: list[Node] = [(start, end, None if at % 3 else label, p) for at, (start, end, label, p) in enumerate(spans)]
    svg = sentence_svg(words, spans, nodes, width=300)
    root = ElementTree.fromstring(svg)
    used = {key for one in root.iter() for key in keys(one)}
    (style,) = (one.text or "" for one in root.iter(f"{SVG}style"))
    ruled = set(re.findall(r"\) \.(k\d+)\{", style))
    assert used <= ruled
    labelled = {(start, end, label) for start, end, label, _ in [*spans, *nodes]}
    assert len(ruled) == len(labelled)
    for word in words:
        assert not word.strip() or plain(word) in map(plain, shown(svg)) or len(word) > 10


def test_words_of_a_latent_node_light_up_in_the_sentence() -> None:
    together = by_key(sentence_svg(WORDS, SPANS, NODES))
    (group,) = (group for group in together.values() if group[-1].get("data-start") == "4")  # Richard Boucher
    marks = [one for part in group for one in part.iter(f"{SVG}rect") if one.get("class") == "mark"]
    assert len(marks) == 2  # in the sentence, and at the leaves


def test_to_point_at_a_word_is_to_point_at_its_innermost_entity() -> None:
    groups = [one for one in ElementTree.fromstring(spans_svg(WORDS, SPANS)).iter(f"{SVG}g") if one.get("data-span")]
    assert [one.get("data-end") for one in groups] == ["6", "3", "1"]  # what comes last lies on top


def test_a_label_has_the_same_colour_in_sentence_and_tree() -> None:
    svg = sentence_svg(WORDS, SPANS[:1], NODES)
    (bracket,) = re.findall(r'class="bracket (c\d)"', svg)
    assert f'class="node entity {bracket}"' in svg


@pytest.mark.parametrize("theme", THEMES)
def test_a_theme_can_be_forced(theme: str) -> None:
    for svg in (
        spans_svg(WORDS, SPANS, theme=theme),  # type: ignore[arg-type]
        tree_svg(WORDS, NODES, theme=theme),  # type: ignore[arg-type]
        sentence_svg(WORDS, SPANS, NODES, theme=theme),  # type: ignore[arg-type]
    ):
        assert ("@media (prefers-color-scheme:dark)" in svg) is (theme == "auto")
        assert ("#14181d" in svg) is (theme != "light")
        assert f'class="nestree-figure nestree-{theme}"' in svg


def test_an_unknown_theme_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'sepia'; known are 'auto', 'light', 'dark'"):
        spans_svg(WORDS, SPANS, theme="sepia")  # type: ignore[arg-type]


def test_rules_reach_nothing_but_figures() -> None:
    for theme in THEMES:
        for notebook in (False, True):
            made = rules(theme, keys=3, notebook=notebook)  # type: ignore[arg-type]
            made = made.replace("@media (prefers-color-scheme:dark){", "").replace("}}", "}")
            for selectors in re.findall(r"([^{}]+)\{[^{}]*\}", made):
                plain_ones = re.sub(r":not\([^)]*\)|:is\([^)]*\)|:has\((?:[^()]|\([^)]*\))*\)", "", selectors)
                for selector in plain_ones.split(","):
                    assert re.search(r"\.nestree-(figure|sentence)\b", selector), selector


def test_light_figures_do_not_undo_the_dark_ones_before_them() -> None:
    """Rules of a forced theme are more special than those that all figures of a page have."""
    assert ".nestree-figure.nestree-dark .paper{fill:#14181d}" in rules("dark")
    assert ".nestree-figure .paper{fill:#fff}" in rules("dark")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_lights_up_span_and_node(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    path = tmp_path / "sentence.svg"
    path.write_text(sentence_svg(WORDS, SPANS, NODES), encoding="utf-8")
    together = by_key(path.read_text(encoding="utf-8"))
    (key,) = (key for key, group in together.items() if group[0].get("data-span") == "1")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(path.as_uri())
        span, node = page.locator(f"g.{key}").first, page.locator(f"g.{key}").last

        def lit() -> list[str]:
            return [one.evaluate("one => getComputedStyle(one).opacity") for one in (span, node, other)]

        other = page.locator("g[data-span='2']")
        assert lit() == ["1", "1", "1"]
        node.locator("rect.node").hover(force=True)
        assert lit() == ["1", "1", "0.35"]
        page.mouse.move(0, 0)
        span.focus()
        assert lit() == ["1", "1", "0.35"]
        span.blur()
        assert lit() == ["1", "1", "1"]
        page.locator("path.bracket").nth(1).hover(force=True)
        assert lit() == ["1", "1", "0.35"]
        browser.close()
