"""InferBench's pages in a real browser: Chromium on the web application, with a real PerfDB behind it.

The login is Airflow's own and taken for granted here; ``test_web_system`` goes through it. Screenshots are kept in
pytest's temporary folder, or in ``INFERBENCH_SCREENSHOTS``.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.navigation import PAGES as NAVIGATION
from tests import browser
from tests.e2e import made_traces
from tests.e2e.every_page import (
    AXE,
    MADE,
    PAGES,
    VIOLATIONS,
    WIDE,
    WIDTHS,
    WITHOUT_CONTRAST,
    file_name,
    make,
    seed_made,
)
from tests.e2e.page_site import NASTY, Site, of_devices, served
from tests.e2e.pictures import picture
from tests.unit.analysis.builders import records
from tests.unit.analysis.builders import view as measured_view
from tests.unit.perfdb.builders import result
from tests.unit.training.epochs import JOB

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]
#: Stands in for the browser's streams: tells what a test says, and keeps all that the page opened.
STREAMS = """
window.streams = [];
window.EventSource = class extends EventTarget {
  static CLOSED = 2;
  readyState = 1;
  constructor() { super(); streams.push(this); }
  close() { this.readyState = 2; }
};
"""
TELL = "(html) => streams.at(-1).dispatchEvent(new MessageEvent('now', { data: JSON.stringify(html) }))"
REFUSE = "() => { streams.at(-1).close(); streams.at(-1).dispatchEvent(new Event('error')); }"
OPEN = "() => streams.filter((of) => of.readyState !== 2).length"
#: Lets a page think that it is hidden or seen.
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


#: Where a point of a chart's first series is in the window, px; without a number the highest one.
POINT = """(plot, at) => {
  const { xaxis, yaxis } = plot._fullLayout, of = plot._fullData[0], box = plot.getBoundingClientRect();
  const index = at ?? of.y.indexOf(Math.max(...of.y));
  return [box.left + xaxis._offset + xaxis.d2p(of.x[index]), box.top + yaxis._offset + yaxis.d2p(of.y[index])];
}"""


#: A click that is as short as one can be, once Plotly has looked for a point while the button was down: 50 ms after the
#: second of two moves.
SHORT_CLICK = """(plot, [x, y]) => {
  const at = plot.querySelector(".nsewdrag"), tell = (name) => at.dispatchEvent(
    new MouseEvent(name, { bubbles: true, cancelable: true, clientX: x, clientY: y }));
  for (const name of ["mousemove", "mousemove", "mousedown"]) tell(name);
  setTimeout(() => tell("mouseup"), 60);
}"""


def click_on_point(page: Page, plot: Locator, index: int | None) -> None:
    """With the mouse, as a person does: over it until the chart tells what it is, then pressed."""
    plot.scroll_into_view_if_needed()
    x, y = plot.evaluate(POINT, index)
    page.mouse.move(x - 4, y)
    page.mouse.move(x, y, steps=3)
    plot.locator(".hoverlayer .hovertext").first.wait_for()
    page.mouse.down()
    page.mouse.up()


@pytest.fixture
def site(perfdb: PerfDB, tmp_path: Path) -> Iterator[Site]:
    """Three runs, two trainings, some nights, a device."""
    with served(perfdb, tmp_path) as site:
        yield site


def test_the_cluster_s_timeline_leads_to_the_runs(page: Page, site: Site) -> None:
    """A bar for the run on its device, over its time; a click opens the run."""
    page.goto(f"{site.url}/inferbench/cluster?hours=1")
    bar = page.locator("#timeline .bars .point path")
    bar.wait_for(state="attached")
    assert bar.count() == 1
    page.screenshot(path=site.shots / "11-cluster.png", full_page=True)
    box, plot = bar.bounding_box(), page.locator("#timeline .nsewdrag").first.bounding_box()
    assert box and plot and 0.55 < box["width"] / plot["width"] < 0.75, "40 of 60 minutes"
    bar.hover(force=True)
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url("**/inferbench/run/asked-1.000")


def test_the_leaderboard_is_sorted_and_leads_to_a_comparison(page: Page, site: Site) -> None:
    """Sorted by a click, two runs ticked by the keyboard, compared with confidence; names are text."""
    page.goto(f"{site.url}/inferbench/leaderboard")
    board = page
    seen = "tbody tr:has(input[value$='-run']) input"

    def order() -> list[str]:
        return [box.get_attribute("value") or "" for box in board.locator(seen).all()]

    board.locator("tbody tr").first.wait_for()
    assert order() == ["fast-run", "middle-run", "slow-run"]
    board.get_by_role("link", name="throughput_rps").first.click()
    board.locator("th[aria-sort=descending]", has_text="throughput_rps").first.wait_for()
    board.get_by_role("link", name="p99_ms").first.click()
    board.locator("th[aria-sort=ascending]", has_text="p99_ms").first.wait_for()
    assert NASTY in board.locator("main").inner_text()
    assert page.title() != "hacked"
    for run in ("fast-run", "slow-run"):
        board.locator(f"input[value='{run}']").focus()
        page.keyboard.press("Space")
    page.screenshot(path=site.shots / "08-leaderboard.png")
    board.get_by_role("button", name="Compare 2 chosen").press("Enter")
    row = board.locator("tr", has=page.get_by_role("rowheader", name="p99_ms", exact=True))
    row.wait_for()
    assert "9.000" in row.inner_text() and "worse" in row.inner_text()
    page.screenshot(path=site.shots / "09-compare.png")


def test_the_home_tells_what_there_is(page: Page, site: Site, perfdb: PerfDB, data_dir: Path) -> None:
    """A job that waits shows by itself, with the reason, and a run that begins with how its load goes, which leads to
    its curves; a device that needs somebody, the last verdicts of both kinds, the nights.
    """
    page.goto(f"{site.url}/inferbench/")
    page.get_by_text("Nothing runs.").wait_for()
    waits = {"job": "next-1.000", "user": "ann", "priority": 0, "expected_s": 90.0, "waited_s": 12.0,
             "device_types": ["h200"], "attempt": 1, "why": "gpu:0 is quarantined: the clock is throttled"}  # fmt: skip
    Cluster(perfdb).publish_waiting("scheduler-1", [waits], 1)
    waiting = page.get_by_role("region", name="Waits").locator("tbody tr")
    waiting.get_by_text("next-1.000").wait_for()
    assert "gpu:0 is quarantined: the clock is throttled" in waiting.inner_text()
    assert "waiting, 90 s of work" in page.locator(".tiles").inner_text()
    perfdb.start_run("now-1.000", "now-1", "now", JOB.model_dump(mode="json"))
    page.get_by_role("region", name="Runs now").get_by_role("link", name="now-1.000").wait_for()
    words = "measuring: 100 requests/s, 1 in flight, 0 errors, p50 2.00 ms, p99 4.00 ms in the last 5 s"
    told_of = {"event": "progress", "stage": "load", "job": 0, "total": 1000.0, "text": words}
    events = [{"t": time.time() + at, "done": 500.0 + at, **told_of} for at in (-2, -1, 0)]
    (data_dir / "invocations" / "now-1").mkdir(parents=True)
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (data_dir / "invocations" / "now-1" / "events.jsonl").write_text(lines)
    page.get_by_text(words).wait_for()
    assert page.get_by_role("progressbar", name="load").get_attribute("value") == "50.0"
    told = page.locator("main").inner_text()
    assert "quarantined gpu:0, NVIDIA H200 on rack-7: the clock is throttled" in told
    verdicts = page.get_by_role("region", name="Last verdicts")
    rows = {row.locator("a").inner_text(): row.inner_text() for row in verdicts.locator("tbody tr").all()}
    assert {"slow-run", "fast-run", "middle-run", "x-1.fast", "x-1.slow"} <= set(rows)
    assert "p99 10 ms, 10 requests/s" in rows["fast-run"] and "valid" in rows["fast-run"]
    assert "1,600 samples/s, 12 ms a step" in rows["x-1.fast"] and NASTY in rows["slow-run"]
    assert (
        "No change is confirmed in the newest night of any of 4 series" in told
        and page.title() == "Home – InferBench"
    )
    page.screenshot(path=site.shots / "07-home.png", full_page=True)
    page.get_by_role("link", name="now-1.000").first.click()
    page.get_by_role("img", name="p99 of the last seconds, now 4 ms").wait_for()
    log = data_dir / "runs" / "now-1.000" / "convert.log"
    log.parent.mkdir(parents=True)
    log.write_text("the first line\n")
    page.get_by_text("the first line").wait_for()
    with (data_dir / "invocations" / "now-1" / "events.jsonl").open("a") as file:
        event = {**events[-1], "t": time.time(), "text": words.replace("4.00 ms", "8.00 ms")}
        file.write(json.dumps(event) + "\n")
    page.get_by_role("img", name="p99 of the last seconds, now 8 ms").wait_for()
    page.screenshot(path=site.shots / "07-live.png", full_page=True)
    perfdb.end_run("now-1.000", Verdict.cancelled("load"))
    page.locator("main", has_text="cancelled: load").wait_for()
    assert page.locator("[data-live]").count() == 0


def test_what_is_pushed_is_neither_lost_nor_followed_twice(page: Page, site: Site) -> None:
    """What comes while somebody is at something within the part shows when they leave it. A tab has one stream: also
    one that was refused, and hidden and seen again before it asked once more; hidden, it has none, and asks nothing.
    """
    page.add_init_script(STREAMS)
    page.clock.install()
    page.goto(f"{site.url}/inferbench/")
    page.get_by_role("region", name="Last verdicts").focus()
    page.evaluate(TELL, "<p>told once</p>")
    assert page.get_by_text("told once").count() == 0, "what somebody is at stays as it is"
    page.evaluate("document.activeElement.blur()")
    page.clock.run_for(10)
    page.get_by_text("told once").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(REFUSE)
    for hidden, streams in ((True, 0), (False, 1), (False, 1)):
        page.evaluate(HIDE, hidden)
        assert page.evaluate(OPEN) == streams
    page.clock.run_for(20_000)
    assert asked == [] and page.evaluate(OPEN) == 1
    page.evaluate(REFUSE)
    page.clock.run_for(6_000)
    page.get_by_role("region", name="Last verdicts").wait_for()  # it asked for the page itself
    page.wait_for_timeout(500)
    assert len(asked) == 1 and page.evaluate(OPEN) == 1


def test_a_recommendation_is_asked_for(page: Page, site: Site) -> None:
    """An SLO in, the configurations that keep it out, best first."""
    page.goto(f"{site.url}/inferbench/recommend")
    page.get_by_label("Best").select_option("p99_ms")
    page.get_by_label("Figure of bound 1").select_option("throughput_rps")
    assert page.get_by_label("At most or at least, bound 1").input_value() == ">=", "its usual side"
    page.get_by_label("Figure of bound 1").select_option("p99_ms")
    page.get_by_label("Value of bound 1").fill("50")
    page.get_by_label("More conditions").fill("user=ann")
    page.get_by_role("button", name="Recommend").click()
    page.get_by_text("2 of 3 configuration(s) keep p99_ms ≤ 50.").wait_for()
    links = page.get_by_role("link", name="Its newest run").all()
    assert [link.get_attribute("href") for link in links] == [
        f"/inferbench/run/{r}-run" for r in ("fast", "middle")
    ]
    first = page.locator("article").first.inner_text()
    assert "2 of 3 configurations keep p99_ms ≤ 50; it is the best of them by p99_ms." in first
    assert "0.25 times the next one's 40" in first and "80% below the bound of 50" in first
    assert "What it costs to be wrong: the next one may really be the better of the two." in first
    slider = page.get_by_label("Slider of bound 1")
    page.locator(".slider:enabled").first.wait_for()
    slider.evaluate("of => { of.value = 1000; of.dispatchEvent(new Event('input')); }")
    assert page.get_by_label("Value of bound 1").input_value() == "90", "the highest that a result has"
    slider.focus()
    page.keyboard.press("Home")
    assert page.get_by_label("Value of bound 1").input_value() == "10", "the lowest"
    page.screenshot(path=site.shots / "10-recommend.png")
    names = page.get_by_label("Figure of bound 2").locator("option").all_inner_texts()
    assert {"none", "p99_ms", "throughput_rps"} <= set(names) and "p50_ms" not in names, (
        "only what has values"
    )
    assert page.locator("#loads option").evaluate_all("all => all.map(of => of.value)") == [
        "poisson, 320 samples/s"
    ]
    page.get_by_label("Model", exact=True).fill("digits")
    page.get_by_label("Model", exact=True).press("Tab")
    page.locator(".slider[title^='10 to 40 ']").first.wait_for()
    page.get_by_label("Figure of bound 1").focus()
    page.get_by_label("Slider of bound 1").press("End")
    assert page.get_by_label("Value of bound 1").input_value() == "40", "the one of 90 ms is of another model"
    page.goto(f"{site.url}/inferbench/recommend?slo=p98_ms<=50")
    assert "Unknown figure 'p98_ms'" in page.get_by_role("alert").inner_text()


def test_a_request_tells_where_its_time_went(page: Page, site: Site, perfdb: PerfDB, tmp_path: Path) -> None:
    """A click on a point shows its parts, which add up; each chart is there as numbers and as a picture."""
    import pyarrow.parquet as pq

    path = tmp_path / "samples.parquet"
    pq.write_table(records(5.0), path)
    document = measured_view(records(5.0), "tail-run").result
    assert document is not None
    perfdb.save_result(document, path)
    page.goto(f"{site.url}/inferbench/run/tail-run")
    box = page.locator("figure", has_text="Every request by the moment")
    box.locator(".js-plotly-plot .main-svg").first.wait_for()
    slowest = page.get_by_role("table", name="The 10 slowest requests").locator("tbody tr, tr").nth(1)
    latency = slowest.locator("td").nth(2).inner_text()
    click_on_point(page, box.locator(".js-plotly-plot"), None)
    told = box.get_by_role("status")
    first, *parts = told.inner_text().split("\n\n")
    shown = float(first.rpartition(": ")[2].removesuffix(" ms"))
    assert shown == pytest.approx(float(latency), abs=1e-3)
    of_parts = {line.split(": ")[0]: float(line.split(": ")[1].split()[0]) for line in parts[0].split("\n")}
    assert of_parts.keys() == {"before the send", "from the send to the answer"}
    assert sum(of_parts.values()) == pytest.approx(shown, abs=2e-3)
    page.screenshot(path=site.shots / "14-request.png", full_page=True)
    number = first.split()[1].rstrip(",")
    assert f"request={number}" in page.url
    page.goto(page.url)
    told.wait_for()
    assert told.inner_text().split("\n\n")[0] == first, "the same request, by the address alone"
    for kind, begins in (("CSV", b"series,x,y,text"), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            box.get_by_role("button", name=f"{kind} of").click()
        assert Path(download.value.path()).read_bytes().startswith(begins)


def test_two_runs_lie_over_each_other(page: Page, site: Site, perfdb: PerfDB, tmp_path: Path) -> None:
    """What differs is said in words above the distributions of the raw samples, which have a line for each run."""
    import pyarrow.parquet as pq

    path = tmp_path / "samples.parquet"
    for number, (name, ms) in enumerate({"one-a-time": 5.0, "eight-at-once": 9.0}.items(), 8):
        pq.write_table(records(ms), path)
        percentiles = {"p50": ms, "p90": 1.2 * ms, "p95": 1.3 * ms, "p99": 1.6 * ms}
        summary = {"e2e_latency_ms": percentiles, "throughput_rps": 100.0, "accuracy_ratio": 0.97}
        asked = {"name": name, "user": "ann", "digest": f"{number:064x}"}
        measured = measured_view(records(ms), name).result
        assert measured is not None
        stored = measured.model_dump() | {"job_id": name, "submission": asked}
        stored["summary"] = result(name, summary=summary).summary.model_dump()
        perfdb.save_result(type(measured).model_validate(stored), path)
    page.goto(f"{site.url}/inferbench/compare?run=one-a-time&run=eight-at-once")
    plot = page.locator(".js-plotly-plot").first
    plot.wait_for()
    words = page.locator("main > p b").first.inner_text()
    assert words.startswith("Run 2: worse in") and "p50" in words, words
    assert plot.evaluate("of => of._fullData.filter(each => each.showlegend !== false).length") == 2
    picture(page, "compare")


def test_trainings_are_sorted_compared_and_opened(page: Page, site: Site) -> None:
    """Sorted by a click on a figure, both ticked by the keyboard and compared, the slower one's step twice as long; a
    run's own page draws where its step goes.
    """
    page.goto(f"{site.url}/inferbench/trainings")
    rows = page.get_by_role("region", name="Trainings").locator("tbody tr")
    rows.first.wait_for()
    page.get_by_role("link", name="samples/s").click()
    page.locator("th[aria-sort=descending]", has_text="samples/s").wait_for()
    assert [row.locator("td.id").inner_text() for row in rows.all()] == ["x-1.fast", "x-1.slow"]
    page.get_by_role("link", name="samples/s").click()
    page.locator("th[aria-sort=ascending]", has_text="samples/s").wait_for()
    assert [row.locator("td.id").inner_text() for row in rows.all()] == ["x-1.slow", "x-1.fast"]
    page.screenshot(path=site.shots / "14-trainings.png", full_page=True)
    page.goto(f"{site.url}/inferbench/trainings?sort=-samples_per_s")
    for run in ("x-1.fast", "x-1.slow"):
        page.get_by_label(f"compare {run}").focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare 2 chosen").press("Enter")
    figures = page.get_by_role("region", name="Figures of x-1.slow")
    step = figures.locator("tr", has=page.get_by_role("rowheader", name="step, ms", exact=True))
    step.wait_for()
    assert "2.000" in step.inner_text() and "worse" in step.inner_text()
    page.screenshot(path=site.shots / "14-trainings-compared.png", full_page=True)
    page.get_by_role("link", name="x-1.slow").click()
    page.get_by_role("heading", name="x-1.slow").wait_for()
    page.get_by_text("Where the time of a step goes").first.wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    assert "step ms\n24\n" in page.locator(".tiles").inner_text()


def test_a_night_leads_to_the_runs_of_its_pair(page: Page, site: Site) -> None:
    """A click on a point of a series opens the comparison of a baseline's run and a candidate's."""
    page.goto(f"{site.url}/inferbench/regression")
    plot = page.locator("#chart-1.js-plotly-plot")
    plot.wait_for()
    click_on_point(page, plot, 0)
    page.wait_for_url("**/inferbench/compare?run=*&run=*")
    page.get_by_role("region", name="Figures").wait_for()


def test_a_short_click_on_a_point_counts(page: Page, site: Site) -> None:
    """Also where the chart last looked for a point while the button was down, and found none for that."""
    page.goto(f"{site.url}/inferbench/regression")
    plot = page.locator("#chart-1.js-plotly-plot")
    plot.wait_for()
    plot.scroll_into_view_if_needed()
    plot.evaluate(SHORT_CLICK, plot.evaluate(POINT, 0))
    page.wait_for_url("**/inferbench/compare?run=*&run=*")


#: A theme changes colours alone, so the dark one is looked at on a laptop only, unless pictures are asked for; and in
#: `make test` on pages that have, together, charts, tables, tiles, marks, forms and a report.
DARK_WIDTHS = WIDTHS if "INFERBENCH_SCREENSHOTS" in os.environ else WIDTHS[1:2]
DARK_PAGES = ("home", "leaderboard?y=throughput_rps", "run/fast-run", "trace/traced-quick", "cluster")
DARK, LIGHT = ("dark", "rgb(17, 18, 20)", DARK_WIDTHS), ("light", "rgb(255, 255, 255)", WIDTHS)


@pytest.mark.parametrize(
    ("theme", "background", "widths", "pages"),
    [
        pytest.param(*DARK, DARK_PAGES, id="dark-some"),
        pytest.param(*DARK, PAGES, id="dark", marks=pytest.mark.long),
        pytest.param(*LIGHT, PAGES, id="light"),
    ],
)
def test_pages_fit_every_screen(
    chromium: Browser,
    site: Site,
    perfdb: PerfDB,
    data_dir: Path,
    tmp_path: Path,
    theme: Any,
    background: str,
    widths: tuple[int, ...],
    pages: tuple[str, ...],
) -> None:
    """On a phone, a laptop and a wide screen no page scrolls sideways as a whole, and axe-core finds no violation, the
    editor with a mistake, a run that goes on and a report among them; a wide one is used, with no line of prose that is
    too long; the system's theme is followed; nothing fails in the console, and no page asks for what is refused.
    """
    assert {re.split("[/?]", path)[0] for path in PAGES} >= NAVIGATION.keys()
    made_traces.seed(perfdb, tmp_path)
    of_devices(perfdb)
    seed_made(perfdb, data_dir)
    mine = chromium.new_context(viewport={"width": widths[0], "height": 800}, color_scheme=theme)
    page = mine.new_page()
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda message: failures.extend([message.text] * (message.type == "error")))
    # What a page still asks for when it is left ends as aborted.
    page.on(
        "requestfailed",
        lambda request: failures.extend([request.url] * (request.failure != "net::ERR_ABORTED")),
    )
    problems: list[Any] = []
    # A submission with a mistake is answered so, which nobody's script does unasked.
    page.on(
        "response",
        lambda answer: problems.extend(
            [("refused", answer.url)] * (answer.status == 422 and answer.request.method == "GET")
        ),
    )
    try:
        for number, path in enumerate((*pages, *MADE)):
            page.set_viewport_size({"width": widths[0], "height": 800})
            page.goto(f"{site.url}/inferbench/{path}", wait_until="load")
            made = number >= len(pages)
            if made:
                make(page, path)
            page.locator("[aria-busy=true]").first.wait_for(state="detached")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
            page.evaluate(AXE)
            for width in widths:
                page.set_viewport_size({"width": width, "height": 800})
                seen = page.evaluate("document.documentElement.scrollWidth")
                if seen > width:
                    problems.append((path, width, f"{seen} px wide"))
                rules = VIOLATIONS
                if width == max(WIDTHS):
                    problems += [(path, width, of) for of in page.evaluate(WIDE)]
                    rules = WITHOUT_CONTRAST if len(widths) > 1 else VIOLATIONS
                problems += [
                    (path, width, of["id"], [node["target"] for node in of["nodes"]])
                    for of in page.evaluate(rules)
                ]
                if "INFERBENCH_SCREENSHOTS" in os.environ:
                    name = f"11-{width}-{theme}-{'made-' * made}{file_name(path)}.png"
                    page.screenshot(path=site.shots / name, full_page=True)
    finally:
        mine.close()
    assert not problems, "\n".join(map(str, problems))
    # The console tells that nobody knows a model (404), and that a submission has a mistake (422).
    assert [of for of in failures if "404" not in of and "422" not in of] == [], failures
