"""The example of ``docs/how-to/own-metric.md``: installed, its figure is made, stored, ranked, bounded, recommended,
charted and exported, without a line changed in InferBench.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import clients
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.store import PerfDB
from tests.example_package import installed_beside
from tests.report_page import charts_of

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "jitter-metric"
#: Runs in a process of its own: entry points are read once per process.
SCRIPT = """
import contextlib, io, json, sys
from pathlib import Path
from inferbench_tasks.cli.main import main
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api import questions
from inferbench_tasks.stages import analyze, collect
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.schema import Submission
from tests.integration.test_analysis import stage_input
from tests.samples import write_table
from tests.unit.analysis.builders import job_spec, records

uri, data_dir = sys.argv[1], Path(sys.argv[2])
ctx = Context(data_dir=data_dir, perfdb_uri=uri)
db = PerfDB.connect(uri, data_dir)

def inferbench(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main(arguments)
        except SystemExit as ended:
            assert not ended.code, arguments
    return out.getvalue()

def collected(run_id, noise, batch_size):
    arrivals = {"kind": "poisson", "rate_rps": 200 / batch_size}  # the same load in samples
    job = {"load__batch_size": batch_size, "load__arrivals": arrivals, "slo__jitter_ms": 1.0}
    db.start_run(run_id, "inv", "job", job_spec(**job).model_dump(mode="json"))
    db.stage_started(run_id, "collect")
    inp = stage_input(ctx, run_id, **job)
    write_table(records(5.0, noise=noise, batch_size=batch_size), Path(inp.load.samples_path))
    collect.run(inp, ctx)
    return db.get_result(run_id).summary.model_dump()

summaries = [collected("inv.000", 0.05, 1), collected("inv.001", 0.3, 8)]
submission = Submission.model_validate(job_spec(slo__jitter_ms=1.0).model_dump(mode="json"))
done = analyze.run(analyze.Input(invocation_id="inv", submission=submission, run_ids=("inv.000", "inv.001")), ctx)
inferbench("results", "export", str(data_dir / "runs.csv"))
print(json.dumps({
    "listed": json.loads(inferbench("metrics", "-o", "json")),
    "summaries": [{key: one.get(key) for key in ("jitter_ms", "slo", "metric_problems")} for one in summaries],
    "board": json.loads(inferbench("leaderboard", "--by", "jitter_ms", "-o", "json")),
    "top": json.loads(inferbench("recommend", "--by", "jitter_ms", "--slo", "jitter_ms<=1", "-o", "json"))["top"],
    "sorted": json.loads(inferbench("results", "list", "jitter_ms>0", "--sort=-jitter_ms", "-o", "json")),
    "rest": questions.board(db, "jitter_ms", "", 20).rows,
    "report": Path(done.report_path).read_text(),
    "csv": (data_dir / "runs.csv").read_text(),
    "indexes": [index["name"] for index in db.collection("results").list_indexes()],
}, default=str))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example is installed beside InferBench."""
    return installed_beside(EXAMPLE.name, tmp_path_factory)


@pytest.fixture(scope="module")
def filled(perfdb_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PerfDB]:
    """A PerfDB for all tests here."""
    name = f"inferbench_test_{uuid.uuid4().hex[:12]}"
    db = PerfDB.connect(with_database(perfdb_server, name), tmp_path_factory.mktemp("data"))
    yield db
    clients.client(db.uri).drop_database(name)
    clients.forget(db.uri)


@pytest.fixture(scope="module")
def answers(
    installed: dict[str, str], filled: PerfDB, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What two runs with that figure lead to."""
    data_dir = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-c", SCRIPT, filled.uri, str(data_dir)]
    env = {**installed, "INFERBENCH_PERFDB_URI": filled.uri}
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=data_dir)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_its_figure_is_one_like_the_others(answers: dict[str, Any]) -> None:
    """Made by ``collect`` and stored at its path; listed, ranked, bounded, recommended, charted, exported."""
    listed = next(row for row in answers["listed"] if row["figure"] == "jitter_ms")
    assert (listed["origin"], listed["path"]) == ("inferbench-jitter 1.0", "summary.jitter_ms")
    steady, wild = (summary["jitter_ms"] for summary in answers["summaries"])
    assert 0 < steady < 1 < wild
    assert [summary["metric_problems"] for summary in answers["summaries"]] == [None, None]
    checks = [summary["slo"]["checks"]["jitter_ms"] for summary in answers["summaries"]]
    assert checks == [
        {"value": steady, "bound": 1.0, "met": True}, {"value": wild, "bound": 1.0, "met": False}
    ]  # fmt: skip
    assert [(row["rank"], row["run"], row["jitter_ms"]) for row in answers["board"]] == [
        (1, "inv.000", steady), (2, "inv.001", wild)
    ]  # fmt: skip
    assert [row["run"] for row in answers["rest"]] == ["inv.000", "inv.001"]
    assert [(row["run"], row["jitter_ms"]) for row in answers["top"]] == [("inv.000", steady)]
    assert [row["run"] for row in answers["sorted"]] == ["inv.001", "inv.000"]
    head, *lines = answers["csv"].splitlines()
    column = head.split(",").index("jitter_ms")
    assert [float(line.split(",")[column]) for line in lines] == [pytest.approx(wild), pytest.approx(steady)]


def test_the_report_shows_it_and_its_bound(answers: dict[str, Any]) -> None:
    """A column of the runs with its formula, a chart over the sweep, and what the bound says."""
    text = answers["report"]
    assert re.search(r'<th class="n" title="[^"]+">Jitter, ms</th>', text)
    charts = json.dumps(charts_of(text), ensure_ascii=False)
    assert '"text": "Jitter"' in charts
    assert "Jitter ≤ 1 ms" in text + charts


def test_what_is_held_of_it_has_an_index(answers: dict[str, Any]) -> None:
    """A leaderboard by it reads no documents, however many there are."""
    assert {"held_jitter_ms", "summary.jitter_ms"} <= set(answers["indexes"])


def test_without_the_package_its_results_stay_readable(answers: dict[str, Any], filled: PerfDB) -> None:
    """Here it is not installed: the figure is unknown, the document is whole."""
    assert "jitter_ms" not in FIGURES
    summary = filled.get_result("inv.000").summary.model_dump()
    assert summary["jitter_ms"] == answers["summaries"][0]["jitter_ms"]


def test_a_file_is_enough_for_a_metric_of_inferbench_itself(tmp_path: Path) -> None:
    """In a copy of the package the same class in ``metrics/single`` is in the table, and thereby in every list."""
    copy = tmp_path / "inferbench_tasks"
    shutil.copytree(ROOT / "inferbench_tasks", copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(EXAMPLE / "inferbench_jitter" / "jitter.py", copy / "metrics" / "single" / "jitter.py")
    code = (
        "from inferbench_tasks.figures import FIGURES, METRICS; from inferbench_tasks.perfdb.fields import field; "
        "from inferbench_tasks.submission.slo import SloSpec; SloSpec.model_validate({'jitter_ms': 1}); "
        "print(METRICS.origin('jitter'), field('jitter_ms').path, *(f.name for f in FIGURES.on('sweep')))"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    origin, path, *charts = done.stdout.split()
    assert (origin, path) == ("built-in", "summary.jitter_ms") and "jitter_ms" in charts


def test_the_guide_shows_what_the_example_has() -> None:
    """The class and the entry point in the guide are the package's own."""
    guide = (ROOT / "docs" / "how-to" / "own-metric.md").read_text()
    code = (EXAMPLE / "inferbench_jitter" / "jitter.py").read_text()
    assert code[code.index("class Jitter") :].strip() in guide
    assert (EXAMPLE / "pyproject.toml").read_text().split("\n\n")[2] in guide
