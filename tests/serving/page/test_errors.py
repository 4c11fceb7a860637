"""What goes wrong is said, with what to do, and what was found stays."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, Route

from nestree.model import NestedNER
from nestree.serving.settings import Limits, Settings
from tests.serving.page.conftest import NESTED, Visit, serving, visiting


def problem(status: int, detail: str, advice: str, **headers: str) -> dict[str, object]:
    body = {"type": "about:blank", "title": "no", "status": status, "detail": detail, "where": None, "advice": advice}
    return {"status": status, "json": body, "headers": headers}


def test_a_text_that_is_too_long_is_refused_and_the_last_result_stays(browser: Browser, model: NestedNER) -> None:
    settings = Settings(limits=Limits(characters=200))
    with serving(model, settings) as address, visiting(browser, address) as visit:
        visit.type(NESTED)
        visit.page.fill("#text", "u x y " * 50)
        visit.page.wait_for_selector("#error:not([hidden])")
        said = visit.page.inner_text("#error")
        assert "200" in said  # what is allowed
        assert visit.page.get_attribute("#error", "role") == "alert"
        assert len(visit.marks()) == 2
        visit.screenshot("too-long")
        visit.type("u x y a")
        assert visit.page.is_hidden("#error")
        assert any("422" in one for one in visit.complaints)
        visit.complaints.clear()


def test_a_busy_service_is_asked_again_when_it_said_so(visit: Visit) -> None:
    asked: list[object] = []

    def busy(route: Route) -> None:
        body = json.loads(route.request.post_data or "{}")
        asked.extend([body] if body["text"] == NESTED and "alternatives" not in body else [])
        if len(asked) == 1:
            route.fulfill(**problem(503, "The queue is full.", "Try again.", **{"Retry-After": "1"}))  # type: ignore[arg-type]
        else:
            route.continue_()

    visit.page.route("**/v1/predict", busy)
    visit.page.fill("#text", NESTED)
    visit.page.wait_for_selector("#error:not([hidden])")
    assert "The queue is full." in visit.page.inner_text("#error")
    assert "Trying again in 1 s" in visit.page.inner_text("#error")
    visit.type(NESTED)
    assert visit.page.is_hidden("#error")
    visit.complaints.clear()


def test_a_service_that_is_gone_is_an_error_and_no_end(visit: Visit) -> None:
    visit.type(NESTED)
    visit.page.route("**/v1/predict", lambda route: route.abort())
    visit.page.fill("#text", "a u x y")
    visit.page.wait_for_selector("#error >> text=does not answer")
    assert len(visit.marks()) == 2
    visit.page.unroute("**/v1/predict")
    visit.type("a u x y d")
    visit.complaints.clear()


def test_what_a_proxy_says_is_shown_as_text(visit: Visit) -> None:
    visit.page.route("**/v1/predict", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    visit.page.fill("#text", NESTED)
    visit.page.wait_for_selector("#error >> text=502")
    assert visit.count("#error h1") == 0
    visit.complaints.clear()


def test_a_key_is_asked_for_kept_for_the_tab_and_asked_for_again_if_it_is_wrong(
    browser: Browser, model: NestedNER
) -> None:
    with serving(model, keys=("open sesame 123456",)) as address:
        visit = Visit(browser)
        page = visit.page
        page.goto(address)
        page.wait_for_selector("#key-dialog[open]")
        assert page.evaluate("document.activeElement.id") == "key"
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-dialog[open] >> text=does not know that key")
        visit.screenshot("key")
        page.fill("#key", "open sesame 123456")
        page.keyboard.press("Enter")
        page.wait_for_selector("#labels input")
        visit.type(NESTED)
        assert len(visit.marks()) == 2
        assert page.evaluate("Object.values(sessionStorage)") == ["open sesame 123456"]
        assert page.evaluate("localStorage.length") == 0
        assert not visit.context.cookies()
        assert "open sesame" not in page.content()
        assert re.search("Authorization: Bearer", page.inner_text("#curl"))
        page.reload()
        page.wait_for_selector("#labels input")
        assert not page.is_visible("#key-dialog")
        visit.context.close()


def test_without_a_key_the_page_says_so(browser: Browser, model: NestedNER) -> None:
    with serving(model, keys=("open sesame 123456",)) as address:
        visit = Visit(browser)
        visit.page.goto(address)
        visit.page.click("#key-cancel")
        visit.page.wait_for_selector("#error:not([hidden])")
        assert "key" in visit.page.inner_text("#error").lower()
        visit.context.close()


def test_who_gives_no_key_is_not_asked_again_for_every_letter(browser: Browser, model: NestedNER) -> None:
    with serving(model, keys=("open sesame 123456",)) as address:
        visit = Visit(browser)
        page = visit.page
        page.goto(address)
        page.wait_for_selector("#key-dialog[open]")
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-dialog[open] >> text=does not know that key")
        page.keyboard.press("Escape")
        page.wait_for_selector("#error >> text=There is no API key in the request, or not the right one.")
        visit.screenshot("no-key")
        assert page.evaluate("sessionStorage.length") == 0  # what is not taken is not kept
        asked = len(visit.asked)
        page.click("#text")
        page.keyboard.type(NESTED)
        visit.until(lambda: len(visit.asked) > asked)
        page.wait_for_timeout(300)
        assert not page.is_visible("#key-dialog")
        assert page.input_value("#text") == NESTED
        page.click("#error button")
        page.wait_for_selector("#key-dialog[open] >> text=It is kept until you close this tab")
        assert page.input_value("#key") == ""
        page.fill("#key", "open sesame 123456")
        page.keyboard.press("Enter")
        page.wait_for_selector("button.mark >> nth=1")
        assert page.is_hidden("#error")
        assert page.input_value("#text") == NESTED
        assert "Authorization: Bearer" in page.inner_text("#curl")
        visit.context.close()


@pytest.mark.parametrize("key", ["  ", "schlüssel-🔑"])
def test_what_cannot_be_a_key_is_not_sent(browser: Browser, model: NestedNER, key: str) -> None:
    with serving(model, keys=("open sesame 123456",)) as address:
        visit = Visit(browser)
        page = visit.page
        page.goto(address)
        page.wait_for_selector("#key-dialog[open]")
        asked = len(visit.asked)
        page.fill("#key", key)
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-dialog[open] >> text=ASCII alone")
        assert len(visit.asked) == asked
        assert page.evaluate("sessionStorage.length") == 0
        page.fill("#key", "open sesame 123456")
        page.keyboard.press("Enter")
        page.wait_for_selector("#labels input")
        visit.context.close()


def test_requests_that_are_refused_together_ask_once(browser: Browser, model: NestedNER) -> None:
    """One that comes back when the question was answered with no does not ask it again."""
    with serving(model, keys=("open sesame 123456",)) as address:
        visit = Visit(browser)
        page = visit.page
        page.goto(address)
        page.fill("#key", "open sesame 123456")
        page.keyboard.press("Enter")
        page.wait_for_selector("#labels input")
        visit.type(NESTED)
        page.evaluate(
            """async () => {
              const {call, onKeyWanted} = await import(new URL("page/service.js", document.baseURI));
              window.opened = 0;
              window.answers = [];
              window.results = [];
              onKeyWanted(() => {
                window.opened++;
                return new Promise((resolve) => (window.say = resolve));
              });
              window.fetch = () => new Promise((resolve) => {
                const refuse = () => resolve(new Response('{"detail": "no key"}', {status: 401}));
                window.answers.push(refuse);
              });
              for (let number = 0; number < 3; number++) {
                call("v1/model").catch((error) => window.results.push(error.status));
              }
            }"""
        )
        page.evaluate("window.answers.splice(0, 2).forEach(answer => answer())")
        visit.until(lambda: page.evaluate("window.opened") == 1)
        page.evaluate("window.say(null)")
        visit.until(lambda: page.evaluate("window.results.length") == 2)
        page.evaluate("window.answers.splice(0).forEach(answer => answer())")
        visit.until(lambda: page.evaluate("window.answers.length") == 1)  # without the key, which was not taken
        page.evaluate("window.answers.splice(0).forEach(answer => answer())")
        visit.until(lambda: page.evaluate("window.results") == [401] * 3)
        assert page.evaluate("window.opened") == 1
        visit.context.close()


def test_an_answer_that_breaks_off_is_said_as_such(visit: Visit) -> None:
    visit.page.route("**/v1/predict", lambda route: route.fulfill(status=200, body='{"documents": ['))
    visit.page.fill("#text", NESTED)
    visit.page.wait_for_selector("#error >> text=broke off")
    visit.complaints.clear()
