"""A real browser: the Chromium of this machine, driven by Playwright."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

#: A machine that others use too is slow, not wrong.
PATIENCE_MS = 120_000
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str | None:
    """Why no browser can be driven here, with the remedy; None if one can."""
    if _program() is None:
        return "there is no Chromium (Debian: apt-get install chromium)"
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed (make dev)"
    return None


@contextmanager
def started() -> Iterator[Browser]:
    """A Chromium. Its start is seconds of CPU: a file's tests share one, and have a context each (``fresh``)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=_program(), args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def fresh(browser: Browser) -> Iterator[BrowserContext]:
    """A context that knows nothing of others in that browser, neither cookies nor files; as wide as a laptop."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield context
    finally:
        context.close()


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """A Chromium of its own with one context."""
    with started() as browser, fresh(browser) as context:
        yield context


def _program() -> str | None:
    return next((found for name in _PROGRAMS if (found := shutil.which(name))), None)
