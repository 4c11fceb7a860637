"""A service on a small model that is right, and a browser to look at its page with."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nestree.model import NestedNER
from tests.training import cases

pytest.importorskip("playwright", reason="the page is tested with playwright, which is not installed")
pytest.importorskip("fastapi", reason="the service needs the extra: serve")
pytest.importorskip("uvicorn", reason="the service needs the extra: serve")

import uvicorn
from playwright.sync_api import Browser, Page, Request, sync_playwright

from nestree.serving.app import create_app
from nestree.serving.settings import Settings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = Path(__file__).parents[2] / "output" / "screenshots"
NESTED = "a bc u x y ef"
"""The model was trained to see an ORG, "u x y", with a PER in it, "y"."""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> NestedNER:
    """A few seconds of training are enough for a corpus with one rule."""
    folder = tmp_path_factory.mktemp("page")
    cases.run(folder, epochs=15, mask=0.0, ema=0.0, encoder_lr=3e-3, head_lr=1e-2)
    found = NestedNER.from_pretrained(folder / "run")
    assert [(one.text, one.label) for one in found.predict(NESTED)] == [("u x y", "ORG"), ("y", "PER")]
    return found


@contextmanager
def serving(model: NestedNER, settings: Settings | None = None, keys: tuple[str, ...] = ()) -> Iterator[str]:
    """Within it the service runs, for real; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_app(model, settings, keys=keys, name="small")
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="session")
def address(model: NestedNER) -> Iterator[str]:
    with serving(model) as found:
        yield found


@pytest.fixture(scope="module")  # while it is open an event loop counts as running, which other tests want to begin
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("the page is tested in Chromium, which is not installed: apt install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Visit:
    """A tab with the page in it; what it asked for, and what it complained about."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}, **options})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda one: one.type in ("error", "warning") and self.complaints.append(one.text))

    def _note(self, request: Request) -> None:
        self.asked.append(request.url)

    def open(self, address: str) -> Page:
        self.page.goto(address)
        self.page.wait_for_selector("#labels input")
        return self.page

    def type(self, text: str) -> None:
        """Types a text, and waits until it is what is drawn."""
        self.page.fill("#text", text)
        drawn = "() => [...document.querySelectorAll('#reading p')].map(one => one.textContent).join('')"
        self.until(lambda: self.page.evaluate(drawn) == text)

    def until(self, true: Callable[[], object], seconds: float = 20) -> None:
        """Waits for something. (The page's policy forbids playwright's own way, which evaluates text.)"""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "it did not come true"
            self.page.wait_for_timeout(20)

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def marks(self) -> list[str]:
        """The entities that are drawn, as a screen reader says them."""
        return [one.get_attribute("aria-label") or "" for one in self.page.query_selector_all("button.mark")]

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@contextmanager
def visiting(browser: Browser, address: str, **options: Any) -> Iterator[Visit]:
    """Within it the page is open. It must not complain, nor ask another host for anything."""
    visit = Visit(browser, **options)
    try:
        visit.open(address)
        yield visit
        elsewhere = [one for one in visit.asked if not one.startswith((address, "data:", "blob:"))]
        assert not elsewhere
        assert not visit.complaints
    finally:
        visit.context.close()


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as found:
        yield found
