"""A real browser: the Chromium of this machine, driven by Playwright."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

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
def chromium() -> Iterator[BrowserContext]:
    """A Chromium of its own, as wide as a laptop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=_program(), args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE_MS
        )
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        try:
            yield context
        finally:
            browser.close()


def _program() -> str | None:
    return next((found for name in _PROGRAMS if (found := shutil.which(name))), None)
