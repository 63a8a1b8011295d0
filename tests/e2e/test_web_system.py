"""The whole system through a real browser: Chromium drives the UI of ``inferbench up``.

Screenshots are kept in pytest's temporary folder (``screenshots/``), or in ``INFERBENCH_SCREENSHOTS``.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from inferbench_tasks.client import AccessError, InferBench
from tests import browser
from tests.e2e.pictures import picture
from tests.e2e.web_site import GOOD, NASTY, Site, airflow, fetched, running, started, until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]
ROOT = Path(__file__).parents[2]
BAD = GOOD.replace("load:", "lod:")
#: What the browser shows while a test waits for a run: an open page of Airflow's takes a third of a core.
NOTHING = "about:blank"
#: Whether the first curve of a run that goes on has that many.
TEN_POINTS = (
    "document.querySelector('figure.live polyline')?.getAttribute('points').trim().split(' ').length >= 10"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running system; ``INFERBENCH_TEST_SITE`` names the data directory of one that is up already."""
    base = tmp_path_factory.mktemp("web")
    shots = Path(os.environ.get("INFERBENCH_SCREENSHOTS") or base / "screenshots")
    shots.mkdir(parents=True, exist_ok=True)
    if known := os.environ.get("INFERBENCH_TEST_SITE"):
        yield running(Path(known), shots)
        return
    with started(base, shots, tmp_path_factory) as own:
        yield own


@pytest.fixture(scope="module", name="context")
def _context(site: Site) -> Iterator[BrowserContext]:
    """A Chromium in which admin is logged in, by the login page."""
    with browser.chromium() as context:
        page = context.new_page()
        page.goto(site.url)
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", site.passwords["admin"])
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Dags", exact=True).first.wait_for()
        page.screenshot(path=site.shots / "01-home.png")
        page.close()
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    opened = context.new_page()
    yield opened
    opened.close()


def submit_by_form(page: Page, site: Site, text: str) -> str:
    """Fill the form of the ``submit`` DAG and trigger it; the run's id."""
    page.goto(f"{site.url}/dags/submit")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    dialog.locator("textarea").first.fill(text)
    dialog.locator("input[type=text]").first.focus()
    page.screenshot(path=site.shots / f"02-form-{'bad' if text is BAD else 'good'}.png")
    with page.expect_response(
        lambda r: r.url.endswith("/dags/submit/dagRuns") and r.request.method == "POST"
    ) as posted:
        dialog.get_by_role("button", name="Trigger").click()
    assert posted.value.ok, posted.value.text()
    return str(posted.value.json()["dag_run_id"])


def submit_by_editor(page: Page, site: Site) -> str:
    """Type a submission with a mistake, mend it by the hint, see the plan, send it; the run's id."""
    page.goto(f"{site.url}/inferbench/new")
    area = page.get_by_label("Submission, YAML")
    area.fill(BAD)
    page.get_by_role("button", name="Write load").wait_for()
    picture(page, "mistake")
    page.get_by_role("button", name="Write load").click()
    assert area.input_value() == GOOD
    page.get_by_role("list", name="Stages in their order").get_by_text("load").wait_for()
    page.get_by_role("img", name="1 job of 6 stages each, then analyze").wait_for()
    page.screenshot(path=site.shots / "02-editor.png")
    picture(page, "plan")
    return sent(page)


def sent(page: Page) -> str:
    """Press the editor's *Send*; the run's id."""
    with page.expect_response(
        lambda r: r.url.endswith("/inferbench/api/submissions") and r.request.method == "POST"
    ) as posted:
        page.get_by_role("button", name="Send").click()
    assert posted.value.status == 202, posted.value.text()
    return str(posted.value.json()["run"])


@pytest.fixture(scope="module")
def readme(site: Site, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the README's REST block prints, run as it stands there but for the address and the password."""
    (text,) = re.findall(r"```sh\n(URL=.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    _, _, commands = text.partition("\n")
    given = {"URL": site.url, "PASSWORD": site.passwords["admin"]}
    done = subprocess.run(
        ["bash", "-euc", commands], env={**os.environ, **given}, cwd=tmp_path_factory.mktemp("readme"),
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def in_parts(site: Site) -> str:
    """The run of a submission of more jobs than one DAG holds, which goes on while other tests look elsewhere."""
    with site.client() as bench:
        return str(
            bench.submit(f"{GOOD.replace('by-form', 'in-parts')}sweep: {{load.seed: [1, 2, 3]}}\n")["run"]
        )


def test_a_bad_submission_is_refused_where_its_author_sees_it(page: Page, site: Site) -> None:
    """The form's run fails at once; what is wrong stands in the note and the log of its first task."""
    run = submit_by_form(page, site, BAD)
    page.goto(NOTHING)
    with site.client() as bench:
        ended = bench.wait(run, timeout_s=600)
        assert (ended["state"], ended["dag"]) == ("failed", None)
        assert [(p["field"], p["line"]) for p in ended["problems"]] == [("lod", 3)]
    task = airflow(site, f"/dags/submit/dagRuns/{run}/taskInstances/validate").json()
    assert "line 3: lod: unknown key" in task["note"]
    page.goto(f"{site.url}/dags/submit/runs/{run}/tasks/validate")
    page.get_by_text("lod: unknown key; did you mean 'load'?").first.wait_for()
    page.screenshot(path=site.shots / "03-refused.png")


def test_rest_by_the_commands_of_the_readme(readme: str, in_parts: str) -> None:
    """A run is started, the leaderboard comes as CSV; how the run ends is seen when everything else is done."""
    assert '"dag_run_id":"' in readme and "fast-run" in readme


def test_the_whole_way_of_a_benchmark(page: Page, site: Site) -> None:
    """By the editor, a mistake mended by its hint: planned, sent, run as a DAG with six stages, watched on its own page
    until its charts stand there, which nobody had to open again. On the leaderboard the objective is dragged, two of
    what is left are compared, one is recommended, and *Run this* runs it.
    """
    with site.client() as bench:
        run = submit_by_editor(page, site)
        run_id = watched_to_its_end(page, site, bench, run)
        stages = [s["stage"] for s in bench.run(run_id)["run"]["stages"]]
        assert stages == ["generate", "convert", "serve", "load", "collect", "release"]
        assert bench.samples(run_id).num_rows > 100
        page.get_by_role("navigation", name="InferBench").get_by_role("link", name="Leaderboard").click()
        page.wait_for_url("**/inferbench/leaderboard")
        again = from_the_leaderboard_to_run_this(page, site)
        page.wait_for_url("**/inferbench/run/*", timeout=600_000)
        page.goto(NOTHING)
        assert bench.wait(again, timeout_s=600)["state"] == "success"
        (second,) = bench.progress(again)["verdicts"]
        assert bench.run(second)["run"]["job"]["name"] == "by-form"
        ended = bench.wait(run, timeout_s=600)
    links_around(page, site, run, run_id, ended)


def watched_to_its_end(page: Page, site: Site, bench: InferBench, run: str) -> str:
    """Stay on the page that opened by itself until it has the charts of what ended; the run's id."""
    streams: list[str] = []
    page.on("request", lambda request: streams.extend([request.url] * request.url.endswith("/live")))
    page.wait_for_url("**/inferbench/run/*", timeout=600_000)
    (run_id,) = bench.progress(run)["verdicts"]
    page.get_by_role("heading", name=run_id).wait_for()
    if "INFERBENCH_PICTURES" in os.environ:
        until(lambda: page.evaluate(TEN_POINTS), "the load tells nothing of itself")
        picture(page, "live")
        home = page.context.new_page()
        home.goto(f"{site.url}/inferbench/home")
        home.get_by_role("region", name="Runs now").get_by_role("link", name=run_id).wait_for()
        picture(home, "home")
        home.close()
    page.screenshot(path=site.shots / "04-run-live.png")
    page.locator(".js-plotly-plot").first.wait_for(timeout=600_000)
    assert page.url == f"{site.url}/inferbench/run/{run_id}" and page.locator("[data-live]").count() == 0
    assert streams, "it was followed while it ran"
    picture(page, "run")
    assert page.get_by_text("release").first.is_visible()
    page.screenshot(path=site.shots / "05-run-done.png", full_page=True)
    ended = bench.wait(run, timeout_s=600)
    assert ended["state"] == "success", ended
    assert ended["verdicts"][run_id].partition(":")[0] in ("valid", "disturbed", "invalid")
    return str(run_id)


def links_around(page: Page, site: Site, run: str, run_id: str, ended: dict[str, Any]) -> None:
    """From the note of the form's run and the details of tasks to run, report and leaderboard; from the report and the
    run to its submission, its model and back, and to the DAG that executed it.
    """
    page.goto(f"{site.url}/dags/{ended['dag']}/runs/{run}")
    page.get_by_text("job-000").first.wait_for()
    page.screenshot(path=site.shots / "06-dag.png")
    page.goto(f"{site.url}/dags/submit/runs/{run}/tasks/outcome")
    page.get_by_role("link", name="Report").first.wait_for()
    page.screenshot(path=site.shots / "07-outcome.png")
    invocation, tasks = ended["invocation"], f"/dags/{ended['dag']}/runs/{run}/tasks"
    report, board = ("Report", ended["report"]), ("Leaderboard", f"/inferbench/leaderboard?mark={invocation}")
    for where, links in (
        (f"/dags/submit/runs/{run}/tasks/outcome", [report]),
        (f"{tasks}/analyze", [report, board]),
        (f"{tasks}/job-000.load", [("Run", f"/inferbench/run/{run_id}")]),
    ):
        page.goto(f"{site.url}{where}/details")
        for name, leads_to in links:
            page.locator(f"a[href='{leads_to}']", has_text=name).last.wait_for()
    page.goto(site.url + ended["report"])
    page.locator("body[data-ready=yes]").wait_for()
    page.screenshot(path=site.shots / "07-report.png")
    picture(page, "report")
    for kind, begins in (("CSV", b"series,x,y,text"), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:  # the page is in a sandbox of its own
            page.get_by_role("button", name=f"{kind} of").first.click()
        assert Path(download.value.path()).read_bytes().startswith(begins)
    page.get_by_role("link", name="Model digits", exact=True).click()
    page.get_by_role("heading", name="digits", level=1).wait_for()
    page.goto(f"{site.url}/inferbench/run/{run_id}")
    in_airflow = page.get_by_role("link", name="In Airflow").get_attribute("href")
    assert in_airflow == f"/dags/{ended['dag']}/runs"
    assert airflow(site, f"/dags/{ended['dag']}/dagRuns/{run}").status_code == 200
    page.get_by_role("link", name="by-form", exact=True).click()
    page.get_by_role("link", name=run_id).wait_for()
    page.get_by_role("link", name="digits").first.click()
    page.get_by_role("heading", name="digits", level=1).wait_for()
    page.screenshot(path=site.shots / "07-model.png", full_page=True)
    page.get_by_role("region", name="Newest runs").get_by_role("link", name=run_id).click()
    page.get_by_role("heading", name=run_id).wait_for()


def from_the_leaderboard_to_run_this(page: Page, site: Site) -> str:
    """The objective is dragged, table and picture follow; two of what is left are compared; what is recommended under
    it stands in the editor by *Run this*, with its plan, and is sent; the run's id.
    """
    page.goto(f"{site.url}/inferbench/leaderboard?user=ann&y=throughput_rps&bound=15")
    told = page.locator("#board-told")
    told.get_by_text("1 of 3 configurations keep p99_ms ≤ 15.").wait_for()
    place = page.locator("#board").bounding_box()
    assert place is not None
    line, free = page.evaluate("[see.sx.to(see.bound), see.sx.to(60)]")
    page.mouse.move(place["x"] + line, place["y"] + 100)
    page.mouse.down()
    page.mouse.move(place["x"] + free, place["y"] + 100, steps=4)
    page.mouse.up()
    told.get_by_text("2 of 3 configurations keep p99_ms ≤").wait_for()
    bound = float(page.get_by_label("Objective, across").input_value())
    assert 40 < bound < 90 and f"bound={bound:g}" in page.url
    rows = page.locator("tr[data-run]:visible")
    page.locator("tr[data-run='middle-run']:visible").wait_for()  # the table asks for what the line leaves
    assert [row.get_attribute("data-run") for row in rows.all()] == ["fast-run", "middle-run"]
    picture(page, "leaderboard", page.get_by_role("region", name="Picture"))
    for name in ("fast-run", "middle-run"):
        page.get_by_label(f"compare {name}").check()
    page.get_by_role("button", name="Compare 2 chosen").click()
    row = page.locator("tr", has=page.get_by_role("rowheader", name="p99_ms", exact=True))
    row.wait_for()
    assert "4.000" in row.inner_text() and "worse" in row.inner_text()
    page.get_by_role("link", name="Recommend", exact=True).click()
    page.get_by_label("Best").select_option("p99_ms")
    page.get_by_label("Figure of bound 1").select_option("p99_ms")
    page.get_by_label("Value of bound 1").fill(f"{bound:g}")
    page.get_by_label("User").fill("ann")
    page.get_by_role("button", name="Recommend").click()
    page.get_by_text("2 of 3 configuration(s) keep").wait_for()
    picture(page, "recommend", page.get_by_text("2 of 3 configuration(s) keep"))
    page.get_by_role("link", name="Run this").first.click()
    page.wait_for_url("**/inferbench/new?run=fast-run")
    page.get_by_role("img", name="1 job of 6 stages each, then analyze").wait_for()
    page.screenshot(path=site.shots / "10-run-this.png", full_page=True)
    return sent(page)


def test_a_model_leads_to_its_row_and_back(page: Page, site: Site) -> None:
    """From a model's page to its row of the leaderboard, which is marked, and back."""
    page.goto(f"{site.url}/inferbench/model?name=digits")
    page.get_by_role("link", name="fast-run on the leaderboard").first.click()
    page.locator("tr.mark").get_by_role("link", name="digits").click()
    page.get_by_role("heading", name="digits", level=1).wait_for()


def test_the_pages_are_in_airflow_s_navigation(page: Page, site: Site) -> None:
    """From Airflow's first level to the home and to the editor; the leaderboard sorted, two runs compared, a
    recommendation, the cluster with its device.
    """
    inside = page.frame_locator("iframe")
    page.goto(site.url)
    page.get_by_test_id("nav-sidebar").get_by_role("link", name="InferBench", exact=True).click()
    inside.get_by_role("region", name="Last verdicts").get_by_text("fast-run").wait_for()
    page.screenshot(path=site.shots / "08-home.png")
    inside.locator("main").get_by_role("link", name="New benchmark").click()
    inside.get_by_label("Submission, YAML").wait_for()
    page.goto(f"{site.url}/plugin/inferbench-leaderboard")
    first = inside.locator("tbody tr").filter(has=page.locator("input[name=run]")).first
    first.wait_for()
    inside.get_by_role("link", name="throughput_rps").first.click()
    inside.locator("th[aria-sort=descending]", has_text="throughput_rps").first.wait_for()
    inside.get_by_role("link", name="p99_ms").first.click()
    inside.locator("th[aria-sort=ascending]", has_text="p99_ms").first.wait_for()
    seen = [box.get_attribute("value") for box in inside.locator("input[value$='-run']").all()]
    assert seen == ["fast-run", "middle-run", "slow-run"]
    assert NASTY in inside.locator("body").inner_text() and page.title() != "hacked"
    for name in ("fast-run", "slow-run"):
        inside.locator(f"input[value='{name}']").check()
    page.screenshot(path=site.shots / "08-leaderboard.png")
    inside.get_by_role("button", name="Compare 2 chosen").click()
    row = inside.locator("tr", has=page.get_by_role("rowheader", name="p99_ms", exact=True))
    row.wait_for()
    assert "9.000" in row.inner_text() and "worse" in row.inner_text()
    page.screenshot(path=site.shots / "09-compare.png")
    page.goto(f"{site.url}/plugin/inferbench-recommend")
    inside.get_by_label("Best").select_option("p99_ms")
    inside.get_by_label("Figure of bound 1").select_option("p99_ms")
    inside.get_by_label("Value of bound 1").fill("50")
    inside.get_by_label("User").fill("ann")
    inside.get_by_role("button", name="Recommend").click()
    inside.get_by_text("2 of 3 configuration(s) keep p99_ms ≤ 50.").wait_for()
    page.screenshot(path=site.shots / "10-recommend.png")
    page.goto(f"{site.url}/plugin/inferbench-cluster")
    inside.get_by_role("region", name="Devices").get_by_text("cpu").first.wait_for()
    page.screenshot(path=site.shots / "11-cluster.png")


def test_only_who_may_gets_in(site: Site) -> None:
    """Nobody without a login reads anything; a viewer reads and checks, but starts nothing."""
    described = httpx.get(f"{site.url}/inferbench/api/openapi.json", timeout=60)
    assert described.status_code == 401
    with site.client() as bench:
        routes = [path for path in bench._get("/openapi.json")["paths"] if "{" not in path]
    pages = ["/", "/leaderboard", "/run/fast-run", "/report/x", "/static/inferbench.css", "/cluster", "/docs"]
    for path in (*routes, *pages):
        answer = httpx.get(f"{site.url}/inferbench{path}", timeout=60)
        assert answer.status_code in (401, 404, 405), (path, answer.status_code)
        assert answer.status_code == 401 or path in (
            "/docs",
            "/api/submissions",
            "/api/submissions/validate",
        ), path
    assert (
        httpx.post(
            f"{site.url}/inferbench/api/submissions", json={"submission": GOOD}, timeout=60
        ).status_code
        == 401
    )
    with site.client("viewer") as viewer:
        assert viewer.validate(GOOD)["jobs"] == 1
        assert [row["run"] for row in viewer.runs("user=ann", sort="p99", limit=1)] == ["fast-run"]
        with pytest.raises(AccessError) as refused:
            viewer.submit(GOOD)
        login = {"Authorization": f"Bearer {viewer._token}"}
    assert refused.value.status == 403
    for headers, status in (({}, 401), (login, 403)):
        by_airflow = httpx.post(
            f"{site.url}/api/v2/dags/submit/dagRuns",
            json={"logical_date": None, "conf": {"submission": GOOD}}, headers=headers, timeout=60,
        )  # fmt: skip
        assert by_airflow.status_code == status
    with InferBench(site.url, "admin", "wrong", timeout_s=60) as nobody, pytest.raises(AccessError):
        nobody.leaderboard()


def test_what_rest_started_ends_well(readme: str, site: Site) -> None:
    """The quick start, submitted by its name."""
    (run,) = re.findall(r'"dag_run_id":"([^"]+)"', readme)
    with site.client() as bench:
        assert bench.wait(run, timeout_s=600)["state"] == "success"


def test_a_large_submission_is_one_execution_in_several_dags(page: Page, site: Site, in_parts: str) -> None:
    """Each job has its result once, under one invocation and in one report; the third part began when another ended."""
    with site.client() as bench:
        ended = bench.wait(in_parts, timeout_s=900)
        assert ended["state"] == "success", ended
        places = {run_id.rpartition(".")[2] for run_id in ended["verdicts"]}
        assert places == {"000", "001", "002"} and len(ended["verdicts"]) == 3
        assert {bench.run(run_id)["run"]["invocation_id"] for run_id in ended["verdicts"]} == {
            ended["invocation"]
        }
    report = fetched(site, ended["report"])
    assert report.status_code == 200 and all(f"seed {seed}" in report.text for seed in (1, 2, 3))
    first, second, _ = sorted(ended["verdicts"])
    page.goto(f"{site.url}/inferbench/compare?run={first}&run={second}")
    page.locator(".js-plotly-plot").first.wait_for()
    dags = [f"{ended['dag']}..jobs-{n:05d}-{n:05d}" for n in range(3)]
    runs = [airflow(site, f"/dags/{dag}/dagRuns/{in_parts}").json() for dag in dags]
    assert [run["state"] for run in runs] == ["success"] * 3
    assert runs[2]["start_date"] > min(run["end_date"] for run in runs[:2])
