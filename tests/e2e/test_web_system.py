"""The whole system through a real browser: Chromium drives the UI of ``inferbench up``.

Screenshots are kept in pytest's temporary folder (``screenshots/``), or in ``INFERBENCH_SCREENSHOTS``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from inferbench_tasks.client import AccessError, InferBench
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import latency

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (Debian: apt-get install chromium)"),
    pytest.mark.skipif(
        not os.environ.get("INFERBENCH_TEST_UI"), reason="minutes long; INFERBENCH_TEST_UI=1 asks for it"
    ),
]
NASTY = "<script>document.title='hacked'</script>"
GOOD = """name: by-form
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: poisson, rate_rps: 100}
  duration_s: 2
  warmup_s: 1
"""
BAD = GOOD.replace("load:", "lod:")
#: A machine that others use too is slow, not wrong.
PATIENCE_MS = 120_000


@dataclass
class Site:
    """A running system: its address, its users, and where screenshots go."""

    url: str
    passwords: dict[str, str]
    data_dir: Path
    shots: Path

    def client(self, user: str = "admin") -> InferBench:
        return InferBench(self.url, user, self.passwords[user], timeout_s=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """``inferbench up``, with the results of three earlier runs in its PerfDB."""
    base = tmp_path_factory.mktemp("web")
    folder, data_dir = base / "submissions", base / "data"
    folder.mkdir()
    (folder / "by-name.yaml").write_text(GOOD.replace("by-form", "by-name"))
    env = {**os.environ, "INFERBENCH_DATA_DIR": str(data_dir), "INFERBENCH_INTERFERENCE": "note"}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main"]

    def inferbench(*arguments: str) -> str:
        done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shots = Path(os.environ.get("INFERBENCH_SCREENSHOTS") or base / "screenshots")
    shots.mkdir(parents=True, exist_ok=True)
    try:
        inferbench("up", "--submissions", str(folder))
        system = data_dir / "system"
        with PerfDB.connect(None, data_dir) as db:
            for number, name in enumerate(("slow", "fast", "middle")):
                p99_ms = {"slow": 90.0, "fast": 10.0, "middle": 40.0}[name]
                model = {
                    "name": NASTY if name == "slow" else "digits",
                    "task": "classification",
                    "dataset": "seen",
                }
                digest = {"name": name, "user": "ann", "digest": f"{number:064x}"}
                db.save_result(latency(f"{name}-run", p99_ms, job_id=name, submission=digest, model=model))
        yield Site(
            (system / "url").read_text().strip(),
            json.loads((system / "passwords.json").read_text()),
            data_dir,
            shots,
        )
    finally:
        inferbench("down")
        embedded.stop(data_dir)


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[BrowserContext]:
    """A Chromium in which admin is logged in, by the login page."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(site.url)
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", site.passwords["admin"])
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Dags").first.wait_for()
        page.screenshot(path=site.shots / "01-home.png")
        page.close()
        yield context
        chromium.close()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    opened = browser.new_page()
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


def until(check: Any, what: str, timeout_s: float = 240) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < deadline, what
        time.sleep(1)
    return found


def test_a_bad_submission_is_refused_where_its_author_sees_it(page: Page, site: Site) -> None:
    """The form's run fails at once; what is wrong stands in the note and the log of its first task."""
    run = submit_by_form(page, site, BAD)
    with site.client() as bench:
        ended = bench.wait(run, timeout_s=300)
        assert (ended["state"], ended["dag"]) == ("failed", None)
        assert [(p["field"], p["line"]) for p in ended["problems"]] == [("lod", 3)]
        path = f"/api/v2/dags/submit/dagRuns/{run}/taskInstances/validate"
        headers = {"Authorization": f"Bearer {bench._token}"}
        task = httpx.get(site.url + path, headers=headers, timeout=60).json()
    assert "line 3: lod: unknown key" in task["note"]
    page.goto(f"{site.url}/dags/submit/runs/{run}/tasks/validate")
    page.get_by_text("lod: unknown key; did you mean 'load'?").first.wait_for()
    page.screenshot(path=site.shots / "03-refused.png")


def test_a_good_submission_runs_to_its_report(page: Page, site: Site) -> None:
    """By the form: validated, run as a DAG with its six stages, watched live, its report opened by the link."""
    run = submit_by_form(page, site, GOOD)
    with site.client() as bench:
        started = until(lambda: (p := bench.progress(run))["verdicts"] and p, "no job of it began", 400)
        (run_id,) = started["verdicts"]
        page.goto(f"{site.url}/inferbench/run/{run_id}")
        page.get_by_role("heading", name=run_id).wait_for()
        page.screenshot(path=site.shots / "04-run-live.png")
        ended = bench.wait(run, timeout_s=500)
        assert ended["state"] == "success", ended
        assert ended["verdicts"][run_id].partition(":")[0] in ("valid", "invalid")
        page.goto(f"{site.url}/inferbench/run/{run_id}")
        page.locator(".js-plotly-plot").first.wait_for()
        assert page.get_by_text("release").first.is_visible()
        page.screenshot(path=site.shots / "05-run-done.png", full_page=True)
        stages = [s["stage"] for s in bench.run(run_id)["run"]["stages"]]
        assert stages == ["generate", "convert", "serve", "load", "collect", "release"]
        assert bench.samples(run_id).num_rows > 100
    page.goto(f"{site.url}/dags/{ended['dag']}/runs/{run}")
    page.get_by_text("job-000").first.wait_for()
    page.screenshot(path=site.shots / "06-dag.png")
    page.goto(f"{site.url}/dags/submit/runs/{run}/tasks/outcome")
    link = page.get_by_role("link", name="Report").first
    assert (link.get_attribute("href") or "").endswith(ended["report"])
    page.goto(site.url + ended["report"])
    page.locator("body[data-ready=yes]").wait_for()
    page.screenshot(path=site.shots / "07-report.png")


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
    assert refused.value.status == 403
    with pytest.raises(AccessError):
        InferBench(site.url, "admin", "wrong", timeout_s=60).leaderboard()
