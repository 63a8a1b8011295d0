"""The page of devices in a real browser: its parts are folded, and whole on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inferbench_tasks.perfdb.store import PerfDB
from tests import browser
from tests.e2e.page_site import Site, of_devices, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]
OPEN = "details => details.map(of => of.open)"
DRAWN = "document.querySelectorAll('[id^=chart-].js-plotly-plot').length"


@pytest.fixture
def site(perfdb: PerfDB, tmp_path: Path) -> Iterator[Site]:
    """Costs of several models and loads."""
    with served(perfdb, tmp_path) as site:
        of_devices(perfdb)
        yield site


@pytest.fixture
def page() -> Iterator[Page]:
    with browser.chromium() as context:
        yield context.new_page()


def opened(page: Page) -> list[bool]:
    """Of the parts about costs, in their order: which are open."""
    found: list[bool] = page.locator("details.part[id^=cost-]").evaluate_all(OPEN)
    return found


def test_what_is_open_stands_in_the_address(page: Page, site: Site) -> None:
    """The first of each kind is open; another one that is opened is there again by the address, its chart drawn then
    for the first time; a part alone, all, and none likewise. What is folded is found by its words.
    """
    page.goto(f"{site.url}/inferbench/devices")
    page.locator("#chart-speedup.js-plotly-plot").wait_for()
    first = opened(page)
    assert len(first) >= 3 and first == [True] + [False] * (len(first) - 1)
    assert page.locator("details.part[id^=speedup-]").first.evaluate("of => of.open") and "#" not in page.url
    assert page.locator("#chart-cost-2.js-plotly-plot").count() == 0
    second = page.locator("details.part[id^=cost-]").nth(1)
    second.locator("summary").first.focus()
    page.keyboard.press("Enter")
    page.locator("#chart-cost-2.js-plotly-plot").wait_for()
    name = second.get_attribute("id")
    assert name and page.url.endswith(f",{name}")
    page.goto("about:blank")
    page.goto(f"{site.url}/inferbench/devices#{name}")
    page.locator("#chart-cost-2.js-plotly-plot").wait_for()
    assert opened(page) == [False, True] + [False] * (len(first) - 2), "the one that was asked for alone"
    assert page.evaluate("of => document.getElementById(of).getBoundingClientRect().top", name) < 800
    page.get_by_role("button", name="Unfold all").click()
    page.get_by_role("button", name="Fold all").wait_for()
    assert all(opened(page))
    page.get_by_role("button", name="Fold all").click()
    page.get_by_role("button", name="Unfold all").wait_for()
    assert not any(opened(page)) and page.url.endswith("#-")
    page.reload()
    page.get_by_role("button", name="Unfold all").wait_for()
    assert not any(opened(page))
    assert page.evaluate("window.find('g4dn.xlarge')"), "the browser's own search opens what it is in"


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_on_paper_it_is_whole(page: Page, site: Site, theme: str) -> None:
    """All parts open with their charts, dark on white whatever the screen's colours; folded again afterwards, with the
    address as it was.
    """
    page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    page.goto(f"{site.url}/inferbench/devices")
    page.locator("#chart-speedup.js-plotly-plot").wait_for()
    before, drawn = opened(page), page.evaluate(DRAWN)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(opened(page)) and page.evaluate(DRAWN) > drawn
    assert page.evaluate(DRAWN) == page.locator("[id^=chart-]").count()
    colours = "getComputedStyle(document.body).color, document.querySelector('#chart-speedup .xtick text').style.fill"
    ink, letters = page.evaluate(f"[{colours}]")
    assert ink == "rgb(28, 28, 28)" and letters != "rgb(230, 230, 230)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    page.wait_for_function("!printing()")
    assert opened(page) == before and "#" not in page.url
    page.pdf(path=site.shots / f"devices-{theme}.pdf")
