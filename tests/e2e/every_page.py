"""Which pages there are, at which widths they are looked at, and what axe-core finds there."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from axe_playwright_python.sync_playwright import Axe

from inferbench_tasks.analysis.report import page as report_page
from inferbench_tasks.analysis.report.compose import html
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.analysis.builders import named, records, view
from tests.unit.analysis.report.test_answers import run as judged
from tests.unit.training.epochs import JOB

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Every page, and those of their states that look different.
PAGES = (
    "home",
    "new",
    "new?run=asked-1.000",
    "leaderboard?y=throughput_rps",
    "leaderboard?all=1&by=throughput_rps",
    "runs",
    "models",
    "model?name=digits",
    "model?name=nobody",
    "run/fast-run",
    "run/asked-1.000",
    "compare?run=fast-run&run=slow-run&run=middle-run",
    "recommend?by=p99_ms&slo=p99_ms<=50",
    "manifests?kind=framework",
    "manifest/model:digits@^1",
    "trainings",
    "trainings/scaling",
    "trainings/clusters",
    "bricks",
    "datasets",
    "dataset/words",
    "evaluations",
    "evaluations/compare?run=fast-run&run=slow-run",
    "evaluations/together",
    "systems",
    "devices",
    "devices?reference=t4&by=p50_ms",
    "devices?reference=nothing-like-it",
    "stack",
    "stack?model=resnet50",
    "traces",
    "trace/traced-quick",
    "trace/traced-failed",
    "trace/x-1.fast",
    "traces/compare?run=traced-quick&run=traced-slow",
    "run/x-1.fast",
    "trainings/compare?run=x-1.fast&run=x-1.slow",
    "cluster",
    "regression?name=nightly-with-a-name-that-is-long",
)
#: States of pages that no address alone leads to; see ``make``.
MADE = ("run/now-1.000", "new", "report/now-1")
#: A phone, a laptop, a wide screen: px.
WIDTHS = (360, 1366, 2560)
#: axe-core itself, once for each page; and what it finds at a width.
AXE = Axe().axe_script
VIOLATIONS = "axe.run(document, {resultTypes: ['violations']}).then(of => of.violations)"
#: Without what is seen at other widths: a wide screen has the colours of a laptop, and no text that this has not.
WITHOUT_CONTRAST = VIOLATIONS.replace(
    "['violations']", "['violations'], rules: {'color-contrast': {enabled: false}}"
)


#: What is wrong with a page on a wide screen: it leaves most of it empty, or has lines of prose that nobody can read.
WIDE = """() => {
  const main = document.querySelector("main"), problems = [];
  const used = main.getBoundingClientRect().width / innerWidth;
  if (used < 0.85) problems.push(`main has ${(100 * used).toFixed(0)}% of the width`);
  for (const of of main.querySelectorAll("p, li, dd, .note, .problem")) {
    if (of.querySelector("p, ul, ol, table, details, figure, article, svg")) continue;
    if (of.closest("table, .legend, .tools, .editor")) continue;
    const text = of.innerText.trim(), style = getComputedStyle(of);
    const high = of.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    const lines = Math.max(1, Math.round(high / parseFloat(style.lineHeight)));
    const mean = (text.length / lines).toFixed(0);
    if (mean > 92) problems.push(`${mean} characters a line: ${text.slice(0, 60)}`);
  }
  return problems;
}"""


def seed_made(db: PerfDB, data_dir: Path) -> None:
    """A run that goes on, whose load tells of itself, and a report with charts, of two runs that were judged too."""
    db.start_run("now-1.000", "now-1", "now", JOB.model_dump(mode="json"))
    words = "measuring: 100 requests/s, 1 in flight, 0 errors, p50 2.00 ms, p99 4.00 ms in the last 5 s"
    told = {"event": "progress", "stage": "load", "job": 0, "total": 1000.0, "text": words}
    events = [{"t": time.time() + at, "done": 500.0 + at, **told} for at in (-2, -1, 0)]
    folder = data_dir / "invocations" / "now-1"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    views = named(
        view(records(5.0), "r.000"), view(records(9.0), "r.001", job={"load__batch_size": 8}),
        view(records(30, failed=100), "r.002", "invalid: 100 requests failed", job={"load__batch_size": 4}),
    )  # fmt: skip
    for one in views[:2]:
        other = judged(one.run_id, {1, 5, 9})
        assert one.result is not None and other.result is not None
        one.result.extensions["evaluation"] = other.result.extensions["evaluation"]
        one.answers = other.answers
    report_page.write(folder / "report.html", html(views, {"name": "a report", "description": "of two runs"}))


def make(page: Page, path: str) -> None:
    """Bring an open page into the state that is meant: the editor with a mistake, the report with all unfolded."""
    if path == "new":
        area = page.get_by_label("Submission, YAML")
        area.fill(area.input_value().replace("\nload:", "\nlod:"))
        page.locator("#problems li").first.wait_for()
    elif path.startswith("report/"):
        page.locator("body[data-ready=yes]").wait_for()
        page.locator("details:not(.how)").evaluate_all("all => all.forEach(of => { of.open = true; })")
        page.locator(".plot:not(.js-plotly-plot)").first.wait_for(state="detached")
    else:
        page.get_by_role("img", name="p99 of the last seconds").wait_for()


def file_name(path: str) -> str:
    """Of a page's screenshot."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", path)[:50].strip("-")
