"""The documentation of the API, in a real browser."""

from __future__ import annotations

import json

from playwright.sync_api import Browser

from nestree.model import NestedNER
from tests.serving.page.conftest import NESTED, Visit, serving


def test_the_documentation_shows_every_operation_and_tries_them(browser: Browser, address: str) -> None:
    visit = Visit(browser)
    page = visit.page
    page.goto(address + "docs")
    visit.until(lambda: page.locator("section").count() == 5)
    shown = page.locator("main").inner_text()
    for part in (
        "/v1/predict",
        "/v1/model",
        "/healthz",
        "/readyz",
        "/metrics",
        "threshold",
        "at most 100000 characters",
        "503",
    ):
        assert part in shown
    predict = page.locator("section").first
    predict.get_by_text("Try it").click()
    predict.get_by_label("Body of POST /v1/predict").fill(json.dumps({"text": NESTED}))
    predict.get_by_role("button", name="Send").click()
    visit.until(lambda: '"label": "ORG"' in predict.locator("pre").inner_text())
    assert predict.locator("pre").inner_text().startswith("200")
    predict.get_by_label("Body of POST /v1/predict").fill("{")
    predict.get_by_role("button", name="Send").click()
    visit.until(lambda: predict.locator("pre").inner_text().startswith("400"))
    predict.locator("summary", has_text="PredictResponse").click()
    assert predict.get_by_role("heading", name="FoundEntity").is_visible()
    visit.screenshot("docs")
    assert all(one.startswith(address) for one in visit.asked)
    page.goto(address + "docs/errors#queue-full")
    assert "Retry-After" in page.locator("#queue-full").inner_text()
    page.get_by_role("link", name="The API").click()
    visit.until(lambda: page.locator("section").count() == 5)


def test_the_documentation_asks_for_a_key(browser: Browser, model: NestedNER) -> None:
    with serving(model, keys=("a-key-of-many-characters",)) as address:
        visit = Visit(browser)
        page = visit.page
        page.goto(address + "docs")
        page.get_by_label("The service wants an API key").fill("wrong")
        page.get_by_role("button", name="Use it").click()
        visit.until(lambda: "does not know" in page.locator("#key-message").inner_text())
        page.get_by_label("The service wants an API key").fill("a-key-of-many-characters")
        page.get_by_role("button", name="Use it").click()
        visit.until(lambda: page.locator("section").count() == 5)
