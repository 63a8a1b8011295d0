"""A job whose device's worker has a data directory of its own, and nothing of the leader's: from model to report."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.located import references
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.stores.base import open_store
from inferbench_tasks.stores.holdings import FETCHED
from inferbench_tasks.submission.reader import read_submission_text

# A host whose home is its own: tests/integration/test_three_hosts.py.
pytestmark = [pytest.mark.integration, pytest.mark.long]
YAML = """
name: travels
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 2, warmup_s: 0.2, wait_for_quiet_s: 0}
"""


def on_host(home: Path, uri: str, outputs: dict[str, Any], *stages: str) -> dict[str, Any]:
    """What these stages give on the host with that data directory: in a process of its own, as each of Airflow's tasks;
    what they need comes as JSON, what they give goes as JSON."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_run, args=(home, uri, json.dumps(outputs), stages, answers))
    process.start()
    try:
        answer = answers.get(timeout=120)
    finally:
        process.join(timeout=30)
    assert isinstance(answer, str), answer
    found: dict[str, Any] = json.loads(answer)
    return found


def _run(home: Path, uri: str, given: str, stages: tuple[str, ...], answers: Any) -> None:
    os.environ |= {settings.DATA_DIR: str(home), settings.PERFDB_URI: uri}
    outputs = json.loads(given)
    try:
        for node in compile_plan(read_submission_text(YAML, "travels.yaml", INSTALLED)).nodes:
            if node.stage in stages:
                invocation = Invocation.of_dag_run(home, "travels", "manual__2026-01-01T00:00:00+00:00")
                ready = {name: outputs[need] for name, need in node.needs.items() if need in outputs}
                folder = home / "submissions"
                outputs[node.id] = execute_node(node, ready, invocation=invocation, base_dir=folder)
        answers.put(json.dumps(outputs))
    except Exception as error:
        answers.put(error)
        raise


def test_a_job_runs_on_a_host_that_sees_nothing_of_the_leader_s(
    perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made on the leader, whose data directory is then gone from where it was; served, loaded and collected on the
    worker; the leader, back again, makes the report. No path of one is in what the other gets."""
    leader, worker, away = tmp_path / "leader", tmp_path / "worker", tmp_path / "away"
    for home in (leader, worker):
        (home / "submissions").mkdir(parents=True)
    device = Device(device_id="w.cpu", device_type="cpu", name="c", host="w", home=settings.home_id(worker))
    Cluster(perfdb).register(device)
    outputs = on_host(leader, perfdb_uri, {}, "generate", "convert")
    assert str(leader) not in json.dumps(outputs) and len(references(outputs)) == 3
    leader.rename(away)
    outputs = on_host(worker, perfdb_uri, outputs, "serve", "load", "collect", "release")
    assert not leader.exists()
    fetched = {path.name for path in (worker / FETCHED).iterdir() if not path.name.startswith(".")}
    generated, converted = outputs["job-000.generate"], outputs["job-000.convert"]
    assert fetched == references(
        [generated["requests"], converted]
    )  # the source model is opened by nobody there
    assert not (worker / "cache" / "models").exists()
    away.rename(leader)
    outputs = on_host(leader, perfdb_uri, outputs, "analyze")
    run_id = outputs["job-000.collect"]["run_id"]
    result = perfdb.find_results({"run_id": run_id})[0]
    assert result.samples is not None and result.summary.model_dump()["error_ratio"] == 0.0
    assert perfdb.samples(run_id).num_rows >= 50
    report = Path(outputs["analyze"]["report_path"]).read_text()
    assert "travels" in report and run_id in report
    assert str(worker) not in result.model_dump_json() and str(leader) not in result.model_dump_json()
    run = perfdb.get_run(run_id)
    assert references(run.model_dump(mode="json")) == references(outputs) > fetched
    assert len(list(open_store("gridfs:", perfdb).objects())) >= len(fetched) + 1


def test_the_plan_s_stages_on_a_device_are_those_between_serve_and_release() -> None:
    """What this file takes for the device's part is it."""
    nodes = compile_plan(read_submission_text(YAML, "travels.yaml", INSTALLED)).nodes
    assert [node.stage for node in nodes if node.lease] == ["serve", "load", "collect", "release"]
