"""A second pipeline, installed beside InferBench by its entry point alone, at the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psutil
import pytest

from inferbench_tasks import settings
from tests.e2e.conftest import Cli
from tests.probe_pipeline import install, submission

pytestmark = pytest.mark.integration
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "own-stage-or-pipeline.md"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package lies."""
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture(autouse=True)
def probe(site: Path, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is where the command's Python finds it; results go to a PerfDB that is up."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)


def runs(text: str) -> list[tuple[float | None, str]]:
    """What ``run -o json`` prints, as (waited, verdict)."""
    return [(row["waited_s"], row["verdict"]) for row in json.loads(text)]


def test_it_validates_and_plans(cli: Cli) -> None:
    """A problem has its line; the plan shows its stages and the device between the brackets."""
    bad = cli.run("validate", cli.submission("name: x\nkind: probe\nsecond: 1\n", "bad.yaml"))
    assert (
        bad.returncode == 2
        and "bad.yaml:3: second: unknown key; did you mean 'seconds'?" in bad.stderr + bad.stdout
    )
    file = cli.submission(submission("probe", more="sweep: {seconds: [0, 0.1]}\n"))
    assert cli.run("validate", file).returncode == 0
    plan = cli.run("plan", file)
    assert "2 job(s), 4 tasks" in plan.stdout
    assert "job-001  [cpu: wait ─► note ]\n" in plan.stdout
    nodes = json.loads(cli.run("plan", file, "-o", "json").stdout)["nodes"]
    assert [(node["id"], node["resource"]) for node in nodes][:2] == [
        ("job-000.wait", "cpu"), ("job-000.note", "cpu"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    # As a DAG of a whole system: tests/integration/test_scheduled_jobs.py.
    "options",
    [["--inline"], pytest.param([], marks=[pytest.mark.airflow, pytest.mark.long])],
    ids=["inline", "dag"],
)
def test_it_runs(warm_cli: Cli, options: list[str]) -> None:
    """Without Airflow and as a DAG: both jobs have a result of their kind, which is shown; nothing is left."""
    file = warm_cli.submission(submission("probe", more="sweep: {seconds: [0, 0.2]}\n"))
    done = warm_cli.run("run", file, *options, "-o", "json")
    assert done.returncode == 0, done.stderr + done.stdout
    (first, second) = runs(done.stdout)
    assert first[0] is not None and second[0] is not None and first[0] < 0.2 <= second[0]
    assert (first[1], second[1]) == ("valid", "valid")
    assert "wait" in done.stderr and "note" in done.stderr
    run_id = json.loads(done.stdout)[1]["run_id"]
    shown = json.loads(warm_cli.run("results", "show", run_id, "-o", "json").stdout)
    assert shown["waited_s"] >= 0.2 and shown["submission"]["name"] == "probe"
    stages = json.loads(warm_cli.run("results", "stages", run_id, "-o", "json").stdout)
    assert [(stage["stage"], stage["state"]) for stage in stages] == [("wait", "done"), ("note", "done")]
    assert warm_cli.left_over() == []


@pytest.mark.long  # of a load: tests/e2e/test_faults.py
def test_killed_it_has_failed_and_runs_again(cli: Cli) -> None:
    """kill -9 of the process that runs its stages: a result says so, the machine is free, the next run is valid."""
    child = cli.start("run", cli.submission(submission("probe", 60.0)), "--inline", "-o", "json")
    cli.wait_for("wait")
    worker = next(p for p in psutil.Process(child.pid).children() if "inline" in " ".join(p.cmdline()))
    worker.kill()
    out, err = child.communicate(timeout=120)
    assert child.returncode == 1, out + err
    assert runs(out) == [(None, "failed: wait, the process that ran it was killed")]
    assert cli.left_over() == []
    again = cli.run("run", cli.submission(submission("probe", 0.1)), "--inline", "-o", "json")
    assert again.returncode == 0 and runs(again.stdout)[0][1] == "valid"


def test_a_stage_runs_by_itself(cli: Cli, tmp_path: Path) -> None:
    """By the kind of its job, or by ``--kind``."""
    inp = {"run_id": "r", "job_id": "j", "job": {"name": "x", "kind": "probe", "seconds": 0.1}}
    (cli.folder / "input.json").write_text(json.dumps(inp))
    done = cli.run("stage", "wait", "--input", "input.json")
    assert done.returncode == 0 and json.loads(done.stdout)["waited_s"] >= 0.1, done.stderr
    schema = cli.run("stage", "note", "--kind", "probe", "--schema")
    assert "waited_s" in schema.stdout
    wrong = cli.run("stage", "load", "--kind", "probe", "--schema")
    assert wrong.returncode == 2 and "Unknown stage 'load'; known: wait, note" in wrong.stderr


def test_what_needs_servers_refuses_it(cli: Cli) -> None:
    """A search says which kind it needs."""
    done = cli.run("recommend", "--search", cli.submission(submission("probe")))
    assert (
        done.returncode == 2 and "needs a submission of kind serving; probe is of kind probe" in done.stderr
    )


def test_the_guide_s_pipeline_runs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of ``own-stage-or-pipeline.md`` as they stand there, with the entry point and the submission."""
    text = GUIDE.read_text()
    site = tmp_path / "guide"
    files = dict(re.findall(r"```python\n# (my_package/\w+\.py)\n(.*?)```", text, re.DOTALL))
    assert len(files) == 5
    (site / "my_package").mkdir(parents=True)
    for name, source in files.items():
        (site / name).write_text(source)
    (entry,) = re.findall(r'\[project\.entry-points\."inferbench\.pipelines"\]\nspin = "(.*)"', text)
    described = site / "my_package-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[inferbench.pipelines]\nspin = {entry}\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    (submitted,) = re.findall(r"```yaml\n(kind: spin\n.*?)```", text, re.DOTALL)
    done = cli.run("run", cli.submission(submitted, "adding.yaml"), "--inline", "-o", "json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert [row["verdict"] for row in json.loads(done.stdout)] == ["valid", "valid"]
    assert all(row["additions_per_s"] > 0 for row in json.loads(done.stdout))
