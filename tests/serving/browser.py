"""Chromium without a window, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SECONDS = 120  # a machine may be busy
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def open_browser() -> Iterator[Any]:
    """Start a browser; skip the test where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(
            executable_path=path, args=options, timeout=1000 * SECONDS
        )
        yield browser
        browser.close()


@contextmanager
def open_page(browser: Any, url: str, width: int, scheme: str = "light") -> Iterator[Any]:
    """Open a page of some width; at the end, it must fit, and the console be empty."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(1000 * SECONDS)
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(url)
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
    assert messages == []


def await_change(page: Any, script: str, before: Any) -> Any:
    """Wait until an expression has another value than before, and return it."""
    page.wait_for_function(f"before => ({script}) !== before", arg=before)
    return page.evaluate(script)
