"""A report in a real browser: opened from disk, and where InferBench serves it in a sandbox of its own."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression.overview import overview
from inferbench_tasks.regression.report import write_report
from tests import browser
from tests.e2e.every_page import seed_made
from tests.e2e.page_site import Site, served
from tests.unit.regression.nights import write_nights

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(17, 18, 20)"
#: The ground of the page, the letters of its first chart, and the ground of that chart.
COLOURS = """() => {
  const chart = document.querySelector(".js-plotly-plot");
  const letters = getComputedStyle(chart.querySelector(".gtitle, .xtitle")).fill;
  return [getComputedStyle(document.body).backgroundColor, letters, chart._fullLayout.paper_bgcolor];
}"""


@pytest.fixture
def site(perfdb: PerfDB, data_dir: Path, tmp_path: Path) -> Iterator[Site]:
    """The pages with a report among them."""
    seed_made(perfdb, data_dir)
    with served(perfdb, tmp_path) as site:
        yield site


def unfolded(page: Page) -> None:
    """All of it seen, and each of its charts drawn."""
    page.locator("body[data-ready=yes]").wait_for()
    page.locator("details:not(.how)").evaluate_all("all => all.forEach(of => { of.open = true; })")
    page.locator(".plot:not(.js-plotly-plot)").first.wait_for(state="detached")


def test_each_chart_of_a_file_hands_out_its_numbers(page: Page, data_dir: Path, perfdb: PerfDB) -> None:
    """From disk: under every chart CSV, PNG and how it is made; the CSV is what is drawn, the picture a PNG. Nothing
    leads to a server that is not there. Dark where the system is, chart and page alike, and light on paper.
    """
    seed_made(perfdb, data_dir)
    page.emulate_media(color_scheme="dark")
    page.goto((data_dir / "invocations" / "now-1" / "report.html").as_uri())
    unfolded(page)
    charts = page.locator(".plot").count()
    assert charts >= 7
    for title in ("CSV of", "PNG of"):
        assert page.get_by_role("button", name=title).count() == charts
    how = page.locator("details.how")
    assert how.count() == charts
    assert "inferbench results export --samples" in (how.first.text_content() or "")
    assert page.locator("main a").count() == 0 and not page.locator("[data-served]").is_visible()
    box = page.locator("figure", has=page.get_by_role("button", name="CSV of Latency percentiles"))
    with page.expect_download() as download:
        box.get_by_role("button", name="CSV of").click()
    head, *rows = csv.reader(Path(download.value.path()).read_text().splitlines())
    drawn: list[Any] = box.locator(".js-plotly-plot").evaluate("of => of.data.flatMap(line => line.y)")
    assert head == ["series", "x", "y", "text"]
    assert [float(row[2]) for row in rows if row[2]] == pytest.approx(
        [value for value in drawn if value is not None]
    )
    with page.expect_download() as download:
        box.get_by_role("button", name="PNG of").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    assert page.evaluate(COLOURS) == [DARK, "rgb(230, 230, 230)", "rgba(0,0,0,0)"]
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(COLOURS) == [LIGHT, "rgb(34, 34, 34)", "white"]
    assert not page.get_by_role("button", name="CSV of").first.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen", color_scheme="light")
    page.wait_for_function("document.querySelector('.js-plotly-plot')._fullLayout.paper_bgcolor === 'white'")


def test_the_report_of_nights_is_one_of_them(page: Page, perfdb: PerfDB, tmp_path: Path) -> None:
    """A series has its numbers, its picture and how it is made too, and is dark where the system is."""
    write_nights(perfdb, [{}] * 5 + [{"preprocess": 2.0}] * 3)
    path, _ = write_report(overview(perfdb), tmp_path)
    page.emulate_media(color_scheme="dark")
    page.goto(path.as_uri())
    page.locator("body[data-ready=yes]").wait_for()
    series = page.locator("figure", has=page.get_by_role("button", name="CSV of quick: ")).first
    assert page.locator("details.how").count() == page.locator(".js-plotly-plot").count() == 4
    assert page.evaluate(COLOURS) == [DARK, "rgb(230, 230, 230)", "rgba(0,0,0,0)"]
    with page.expect_download() as download:
        series.get_by_role("button", name="CSV of").click()
    rows = list(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert [row[1] for row in rows[1:]] == [f"quick-{night:03d}" for night in range(8)]


def test_where_it_is_served_its_head_leads_on(page: Page, site: Site) -> None:
    """In the sandbox that it is served in: its numbers and pictures are handed out all the same, and its head leads to
    the model's page, to its rows of the leaderboard and to the runs of the submission.
    """
    address = f"{site.url}/inferbench/report/now-1"
    page.goto(address)
    unfolded(page)
    page.screenshot(path=site.shots / "15-report.png", full_page=True)
    for kind, begins in (("CSV", b"series,x,y,text"), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"{kind} of").first.click()
        assert Path(download.value.path()).read_bytes().startswith(begins)
    for name, leads_to in (
        ("Model digits", "model?name=digits"),
        ("digits on the leaderboard", "leaderboard?model=digits"),
        ("Submission a report", "runs?q=submission%3D%27a+report%27"),
    ):
        page.goto(address)
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_url(lambda url, to=leads_to: url.startswith(f"{site.url}/inferbench/{to}"))  # type: ignore[misc]
        page.get_by_role("heading", level=1).first.wait_for()
