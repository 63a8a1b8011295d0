"""The leaderboard in a real browser: its picture, the line that is dragged, the rows that follow, what is ticked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inferbench_tasks.perfdb.store import PerfDB
from tests import browser
from tests.e2e.page_site import Site, served
from tests.unit.perfdb.builders import result

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]


@pytest.fixture
def site(perfdb: PerfDB, tmp_path: Path) -> Iterator[Site]:
    """Three runs, two trainings, some nights, a device."""
    with served(perfdb, tmp_path) as site:
        yield site


def test_the_picture_and_the_table_leave_out_the_same(page: Page, site: Site) -> None:
    """A point for each configuration; the objective is dragged, typed and kept in the address; the table follows it;
    of equal rates the one of lower latency is the device's best, in whatever order they come; a point leads to its run.
    """
    page.goto(f"{site.url}/inferbench/leaderboard")
    page.get_by_text("No valid run that matches has both figures.").wait_for()
    page.locator("select[data-board=y]").select_option("throughput_rps")
    told, rows = page.locator("#board-told"), page.locator("tr[data-run]:visible")
    told.get_by_text("3 of 3 configurations.").wait_for()
    bound = page.get_by_label("Objective, across")
    bound.fill("50")
    told.get_by_text("2 of 3 configurations keep p99_ms ≤ 50.").wait_for()
    assert [row.get_attribute("data-run") for row in rows.all()] == ["fast-run", "middle-run"]
    place = page.locator("#board").bounding_box()
    assert place is not None

    def pixel(run: str) -> tuple[float, float]:
        x, y = page.evaluate(
            "run => { const p = see.points.find(of => of.run === run); return [see.sx.to(p.x), see.sy.to(p.y)]; }",
            run,
        )
        return place["x"] + x, place["y"] + y

    line, fast, middle = page.evaluate("see.sx.to(see.bound)"), pixel("fast-run"), pixel("middle-run")
    page.mouse.move(place["x"] + line, place["y"] + 100)
    page.mouse.down()
    page.mouse.move((fast[0] + middle[0]) / 2, place["y"] + 100, steps=3)
    page.mouse.up()
    told.get_by_text("1 of 3 configurations keep").wait_for()
    assert 10 < float(bound.input_value()) < 40
    page.screenshot(path=site.shots / "13-board.png", full_page=True)
    page.reload()
    told.get_by_text("1 of 3 configurations keep").wait_for()
    assert [row.get_attribute("data-run") for row in rows.all()] == ["fast-run"]
    bound.fill("")
    told.get_by_text("3 of 3 configurations.").wait_for()
    assert "bound" not in page.url
    page.get_by_text("The best of each device within the objective").click()
    with page.expect_download() as download:
        page.locator("#board-bars-csv").click()
    head, *best = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert head == "series,x,y,text"
    assert len(best) == page.locator("#board-bars li").count() == 1
    assert best[0].startswith("throughput_rps,") and "fast-run" in best[0]
    page.evaluate("() => { see.points.reverse(); filterBoard(); }")
    assert page.locator("#board-bars a").get_attribute("href") == "/inferbench/run/fast-run"
    page.evaluate("scrollTo(0, 0)")  # the picture is where it was
    page.mouse.click(*pixel("middle-run"))
    page.wait_for_url("**/inferbench/run/middle-run")


def test_what_is_ticked_stands_in_the_address(page: Page, site: Site) -> None:
    """Two runs ticked are ticked again when the page is opened by its address, in another order and under another
    filter too; what is not ticked any more is gone from it.
    """
    for path in ("runs", "leaderboard?by=throughput_rps&user=ann", "trainings"):
        page.goto(f"{site.url}/inferbench/{path}")
        boxes = page.locator("input[type=checkbox][name=run]")
        boxes.first.wait_for()
        two = [box.get_attribute("value") or "" for box in boxes.all()[:2]]
        for run in two:
            page.get_by_label(f"compare {run}").check()
        assert all(f"ticked={run}" in page.url for run in two), page.url
        page.goto(page.url)
        page.get_by_role("button", name="Compare 2 chosen").wait_for()
        chosen = page.locator("input[type=checkbox][name=run]:checked")
        assert {box.get_attribute("value") for box in chosen.all()} == set(two)
        if "leaderboard" in path:
            page.get_by_role("link", name="p99_ms").first.click()
            page.locator("th[aria-sort]", has_text="p99_ms").first.wait_for()
            page.get_by_label("Since").fill("7d")
            page.get_by_role("button", name="Show").click()
            page.wait_for_url("**since=7d**")
            page.get_by_role("button", name="Compare 2 chosen").wait_for()
        page.get_by_label(f"compare {two[0]}").uncheck()
        assert f"ticked={two[0]}" not in page.url and f"ticked={two[1]}" in page.url


def test_the_objective_s_line_is_there_to_be_dragged(page: Page, site: Site) -> None:
    """Before anything was typed its handle stands at the edge: it is dragged at once by mouse and by touch, and moved
    by keys; back at the edge there is no bound. Only fast (10 ms) is left of the line between 10 and 40 ms.
    """
    page.goto(f"{site.url}/inferbench/leaderboard?y=throughput_rps")
    told, bound = page.locator("#board-told"), page.get_by_label("Objective, across")
    told.get_by_text("3 of 3 configurations.").wait_for()
    handle = page.get_by_role("slider", name="The objective's line, across")
    handle.scroll_into_view_if_needed()
    assert handle.get_attribute("aria-valuetext") == "no bound of p99_ms yet"

    def middle() -> tuple[float, float]:
        box = handle.bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    left = page.evaluate("board.getBoundingClientRect().left + (see.sx.to(10) + see.sx.to(40)) / 2")
    edge, height = middle()
    assert edge > page.evaluate("board.getBoundingClientRect().left + see.sx.to(90)")
    page.mouse.move(edge, height)
    page.mouse.down()
    page.mouse.move(left, height, steps=4)
    page.mouse.up()
    told.get_by_text("1 of 3 configurations keep p99_ms ≤ ").wait_for()
    assert 10 < float(bound.input_value()) < 40
    assert middle()[0] == pytest.approx(left, abs=3)
    assert f"bound={bound.input_value()}" in page.url
    page.screenshot(path=site.shots / "13-board-dragged.png", full_page=True)
    handle.focus()
    for key, words in (
        ("End", "3 of 3 configurations."),
        ("ArrowLeft", "2 of 3 configurations keep p99_ms ≤ 88"),
        ("Home", "1 of 3 configurations keep p99_ms ≤ 10."),
        ("Delete", "3 of 3 configurations."),
    ):
        page.keyboard.press(key)
        told.get_by_text(words).wait_for()
    assert bound.input_value() == "" and "bound" not in page.url
    touch, place = page.context.new_cdp_session(page), middle()
    for kind, points in (
        ("touchStart", [{"x": place[0], "y": place[1]}]),
        ("touchMove", [{"x": (place[0] + left) / 2, "y": place[1]}]),
        ("touchMove", [{"x": left, "y": place[1]}]),
        ("touchEnd", []),
    ):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    told.get_by_text("1 of 3 configurations keep p99_ms ≤ ").wait_for()


def test_what_the_line_leaves_has_rows_however_far_down_it_stood(
    page: Page, site: Site, perfdb: PerfDB
) -> None:
    """Of 63 configurations by throughput the table has 50; the two within 50 ms stand below them, and get their rows
    when the line is there; what was ticked stays ticked.
    """
    model = {"name": "digits", "task": "classification", "dataset": "seen"}
    for number in range(60):
        summary = {"e2e_latency_ms": {"p99": 200.0 + number}, "throughput_rps": 100.0 + number}
        digest = {"name": "many", "user": "ann", "digest": f"{100 + number:064x}"}
        perfdb.save_result(result(f"many-{number}", summary=summary, submission=digest, model=model))
    page.goto(f"{site.url}/inferbench/leaderboard?by=throughput_rps&y=throughput_rps&user=ann")
    told, rows = page.locator("#rows-told"), page.locator("tr[data-run]:visible")
    told.get_by_text(
        "The table has 50 of 63 configurations with throughput_rps: the best 50 of each group."
    ).wait_for()
    page.locator("#board-told").get_by_text("63 of 63 configurations.").wait_for()
    assert rows.count() == 50 and page.locator("tr[data-run=fast-run]").count() == 0
    page.get_by_label("Objective, across").fill("50")
    told.get_by_text("The table has all 2 configurations with throughput_rps that the picture").wait_for()
    assert {row.get_attribute("data-run") for row in rows.all()} == {"fast-run", "middle-run"}
    page.get_by_label("compare fast-run").check()
    page.get_by_label("Objective, across").fill("100")
    told.get_by_text("The table has all 3 configurations").wait_for()
    assert page.get_by_label("compare fast-run").is_checked() and rows.count() == 3
    page.get_by_label("Objective, across").fill("")
    told.get_by_role("link", name="The best 500 of each").click()
    told.get_by_text("The table has all 63 configurations").wait_for()


def test_numbers_colour_the_picture_and_it_is_kept_as_a_file(page: Page, site: Site, perfdb: PerfDB) -> None:
    """Fields with values alone are offered, settings of servers too; a number has a scale from its least to its
    greatest. The file is white, opaque, and has a title in dark ink, in the dark theme too.
    """
    from PIL import Image

    perfdb.save_result(
        result(
            "large-run",
            summary={"e2e_latency_ms": {"p99": 60.0}, "throughput_rps": 20.0},
            submission={"name": "large", "user": "ann", "digest": "e" * 64},
            model={"name": "digits", "task": "classification", "dataset": "seen"},
            load={"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": 16, "duration_s": 10.0},
        )
    )
    page.emulate_media(color_scheme="dark")
    page.goto(f"{site.url}/inferbench/leaderboard?y=throughput_rps")
    page.locator("#board-told").get_by_text("4 of 4 configurations.").wait_for()
    offered = page.locator("select[data-board=colour] option").all_inner_texts()
    assert {"backend", "batch", "rate_rps", "settings.threads", "accuracy_ratio"} <= set(offered)
    assert not {"concurrency", "precision", "run", "rss_bytes"} & set(offered), "nobody has these"
    page.locator("select[data-board=colour]").select_option("batch")
    page.locator("#board-legend", has_text="batch: 4").wait_for()
    assert page.locator("#board-legend").inner_text().split("\n")[-1].startswith("16 (in the middle 10)")
    inks = page.evaluate("Object.fromEntries(see.points.map(of => [of.run, of.ink]))")
    assert inks["large-run"] == "rgb(232, 162, 29)", "the greatest has the last colour of the scale"
    assert {inks[f"{of}-run"] for of in ("fast", "slow", "middle")} == {"rgb(36, 88, 184)"}, "the first"
    page.screenshot(path=site.shots / "13-board-numbers.png", full_page=True)
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    picture: Any = Image.open(download.value.path()).convert("RGBA")
    picture.save(site.shots / "13-board-file.png")
    assert picture.getchannel("A").histogram()[255] == picture.width * picture.height, "opaque"
    assert {picture.getpixel(at) for at in ((0, 0), (picture.width - 1, picture.height - 1))} == {(255,) * 4}
    title = picture.crop((0, 0, picture.width, 60)).convert("L")
    assert sum(title.histogram()[:60]) > 100, "dark ink"
    page.reload()
    page.locator("#board-legend", has_text="batch: 4").wait_for()


def test_a_colour_that_is_off_stays_off_whatever_it_is_called(page: Page, site: Site, perfdb: PerfDB) -> None:
    """Two settings are hidden by a click, one of which holds the sign that once joined them: their points and rows go,
    stay away when the page is opened by its address or asked with another filter, and come back by a click.
    """
    for number, label in enumerate(("a|b", "c")):
        server = {"kind": "onnxruntime", "version": "1", "launcher": "process", "settings": {"label": label}}
        summary = {"e2e_latency_ms": {"p99": 30.0 + number}, "throughput_rps": 20.0}
        digest = {"name": "named", "user": "ann", "digest": f"{100 + number:064x}"}
        model = {"name": "digits", "task": "classification", "dataset": "seen"}
        perfdb.save_result(
            result(f"named-{number}", summary=summary, submission=digest, model=model, backend=server)
        )
    # The nights' run has no p99, so no point that a colour could hide: it is another user's.
    asked = "by=throughput_rps&y=throughput_rps&colour=settings.label&user=ann"
    page.goto(f"{site.url}/inferbench/leaderboard?{asked}")
    told, rows = page.locator("#board-told"), page.locator("tr[data-run]:visible")
    told.get_by_text("5 of 5 configurations.").wait_for()
    legend = page.locator("#board-legend")
    for label in ("a|b", "c"):
        legend.get_by_label(label, exact=True).uncheck()
    told.get_by_text("3 of 5 configurations.").wait_for()
    left = {"fast-run", "middle-run", "slow-run"}

    def only_the_others() -> None:
        page.locator("#rows-told").get_by_text("The table has all 3 configurations").wait_for()
        assert {row.get_attribute("data-run") for row in rows.all()} == left
        assert not legend.get_by_label("a|b", exact=True).is_checked()

    only_the_others()
    page.goto(page.url)
    told.get_by_text("3 of 5 configurations.").wait_for()
    only_the_others()
    page.get_by_label("Until").fill("2099-01-01")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**until=2099**")
    told.get_by_text("3 of 5 configurations.").wait_for()
    only_the_others()
    legend.get_by_label("a|b", exact=True).check()
    page.locator("tr[data-run=named-0]").wait_for()
    told.get_by_text("4 of 5 configurations.").wait_for()


def test_a_rate_that_was_not_steady_is_hollow_and_said(page: Page, site: Site, perfdb: PerfDB) -> None:
    """The legend says what a ring in dashes is, the text of the point why; the file of the picture has it, too. Of more
    points than are looked into the file says that nobody looked.
    """
    why = "not steady: the throughput drifts by -22% over the load"
    moved = {"figures": {"steady_state": why, "throughput_change_ratio": -0.22}}
    page.goto(f"{site.url}/inferbench/leaderboard?y=throughput_rps")
    page.locator("#board-told").get_by_text("3 of 3 configurations.").wait_for()
    legend = page.locator("#board-legend")
    assert "steady" not in legend.inner_text()
    summary = {"e2e_latency_ms": {"p99": 5.0}, "throughput_rps": 7.0}
    digest = {"name": "moved", "user": "ann", "digest": "e" * 64}
    perfdb.save_result(result("moved-run", summary=summary, submission=digest, certificate=moved))
    page.reload()
    page.locator("#board-told").get_by_text("4 of 4 configurations.").wait_for()
    legend.get_by_text("hollow, in dashes: of a rate that was not steady").wait_for()
    place = page.locator("#board").bounding_box()
    assert place is not None
    x, y = page.evaluate(
        "() => { const p = see.points.find(of => of.run === 'moved-run'); return [see.sx.to(p.x), see.sy.to(p.y)]; }"
    )
    page.mouse.move(place["x"] + x, place["y"] + y)
    page.locator("#board-point").get_by_text(why).wait_for()
    page.screenshot(path=site.shots / "13-not-steady.png", full_page=True)
    with page.expect_download():
        page.locator("#board-png").click()
    written = page.evaluate(
        """() => {
            const pen = document.createElement("canvas").getContext("2d"), told = [];
            pen.fillText = (text) => told.push(text);
            return [true, false].map((read) => {
                told.length = 0;
                see.looked_into = read;
                paintLegend(pen, see, 0, 0, 900);
                return [...told];
            });
        }"""
    )
    assert "hollow, in dashes: of a rate that was not steady" in written[0]
    assert "of so many points it is not read whose rate was not steady, nor their intervals" in written[1]
    assert not any("hollow" in text for text in written[1])
