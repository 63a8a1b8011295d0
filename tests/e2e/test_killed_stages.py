"""kill -9 amid ``evaluate``, ``trace`` and ``collect``: of the server, of PerfDB, of the process that runs the stages.

The runs share a data directory: each begins where the one before was killed.
"""

from __future__ import annotations

import html
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.analysis.evaluations.found import evaluations
from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.frames import rows
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import attachments_of
from inferbench_tasks.pipelines.traces import listed
from inferbench_tasks.running.lease import MachineLease
from inferbench_tasks.upkeep.unnamed import unnamed
from tests.e2e.conftest import Cli, command_line
from tests.e2e.going_run import GoingRun, until
from tests.mounted import mounted
from tests.warm import warm

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
MODEL = "name: killed\nmodel: {kind: zoo, name: digits}\n"
LOAD = """
load:
  arrivals: {kind: closed_loop, concurrency: 2}
  duration_s: 1
  warmup_s: 0
  wait_for_quiet_s: 0
"""
EVALUATE = "evaluate: {}\n"
TRACE = "trace: {requests: 300, rounds: 1, deepest: framework}\n"
LEVELS = ["application", "model", "framework"]
ALL = MODEL + LOAD + EVALUATE + TRACE


@dataclass(frozen=True)
class Site:
    """The command line, its PerfDB, and the web application over that. ``temporary``: where the command keeps what it
    needs for a while."""

    cli: Cli
    db: PerfDB
    http: TestClient
    temporary: Path

    def begin(self, text: str) -> GoingRun:
        """A run of that submission."""
        return GoingRun(self.cli, text, self.temporary)

    def result(self, run: GoingRun, verdict: str) -> ResultDocument:
        """The only one of a run, whose verdict begins so wherever it is shown; and nothing of the run is left."""
        [result] = self.db.find_results({"run_id": run.run_id})
        said = str(result.verdict)
        assert said.startswith(verdict)
        assert [row["verdict"] for row in rows(self.db, limit=99) if row["run"] == run.run_id] == [said]
        assert self.db.get_run(run.run_id).said == said
        assert not [each for each in self.db.get_run(run.run_id).stages if each.state == "running"]
        page = self.http.get(f"/inferbench/run/{run.run_id}")
        assert page.status_code == 200 and said.partition(": ")[2] in html.unescape(page.text)
        assert self.cli.left_over() == []
        assert list(settings.servers_dir(self.cli.data_dir).glob("*.json")) == []
        assert MachineLease(settings.machine_dir(self.cli.data_dir)).holder() is None
        assert list(self.temporary.iterdir()) == []
        return result

    def files(self, run: GoingRun) -> list[str]:
        """Those that PerfDB has of a run."""
        where = {"metadata.run_id": run.run_id}
        found = self.db.retrying(lambda: list(self.db.collection("fs.files").find(where)), "finding files")
        return sorted(str(each["_id"]) for each in found)

    def mongod(self) -> int:
        """The process of PerfDB's server, which is started again where it was killed."""
        embedded.ensure(self.cli.data_dir)
        return int(embedded.status(self.cli.data_dir)["pid"])

    def evaluation(self, run: GoingRun) -> dict[str, Any] | None:
        """Its row in the list of evaluations; None where neither that nor REST has any."""
        row = next((row for row in evaluations(self.db, [], "", 99) if row["run"] == run.run_id), None)
        answer = self.http.get(f"/inferbench/api/evaluations/{run.run_id}")
        assert answer.status_code == (200 if row else 404)
        return row

    def trace(self, run: GoingRun) -> dict[str, Any] | None:
        """Its row in the list of traces; None where neither that nor REST has any."""
        row = next((row for row in listed(self.db, 99) if row["run"] == run.run_id), None)
        answer = self.http.get(f"/inferbench/api/traces/{run.run_id}/spans")
        assert answer.status_code == (200 if row and row["bytes"] else 404)
        return row

    def has_whole_answers(self, result: ResultDocument) -> None:
        """Each sample has both answers, which are the source model's."""
        found = result.extensions["evaluation"]
        table = stored_table(self.db, found["answers"])
        assert found["samples"] == table.num_rows > 0 and table["answer"].null_count == 0
        assert found["under_load"]["unanswered"] == found["one_by_one"]["unanswered"] == 0
        assert found["differing"]["compared"] == found["from_source"]["compared"] == table.num_rows
        assert found["differing"]["beyond_tolerance"] == found["from_source"]["beyond_tolerance"] == 0
        assert found["under_load"]["measures"]["top1_ratio"]["value"] > 0.9

    def has_whole_spans(self, result: ResultDocument, levels: list[str]) -> None:
        """Each traced request has those of all these levels."""
        found = result.extensions["trace"]
        assert not {"problem", "unstored"} & found.keys() and found["levels"] == levels
        assert found["unanswered"] == found["lost"] == 0
        table = stored_table(self.db, found["file"])
        assert table.num_rows == found["spans"]
        assert len(set(table["trace_id"].to_pylist())) == found["requests"] > 0
        assert set(table["level"].to_pylist()) == set(levels)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    base = tmp_path_factory.mktemp("killed")
    temporary = base / "tmp"
    temporary.mkdir()
    with command_line(base) as cli:
        warm(cli.data_dir, tmp_path_factory)
        with PerfDB.connect(None, cli.data_dir) as db, mounted(db) as http:
            yield Site(cli, db, http, temporary)


@pytest.mark.parametrize("asked", ["under load", "one by one"])
def test_a_server_killed_amid_evaluate(site: Site, asked: str) -> None:
    """The run does not count and says why; samples without an answer have no measure, wherever they are shown."""
    run = site.begin(MODEL + (LOAD if asked == "under load" else "") + EVALUATE)
    run.told(f"samples asked {asked}: 0 of")
    run.server().kill()
    ended = run.ended()
    assert ended.returncode == 1, ended.stdout + ended.stderr
    result = site.result(run, "")
    assert str(result.verdict).startswith(("failed: evaluate, ", "invalid: "))
    if str(result.verdict).startswith("invalid: "):
        assert "samples got no answer" in str(result.verdict)
    row = site.evaluation(run)
    assert row is None or (not row["measures"] and "samples got no answer" in row["withheld"])
    assert site.files(run) == sorted(attachments_of(result.model_dump()))


def test_a_server_killed_amid_trace_of_a_job_that_asks_for_nothing_else(site: Site) -> None:
    """No level is left beside the one that tells nothing: the run failed in that stage, and there is no trace."""
    run = site.begin(MODEL + TRACE)
    run.told("tracing, level model")
    run.server().kill()
    ended = run.ended()
    assert ended.returncode == 1, ended.stdout + ended.stderr
    result = site.result(run, "failed: trace, ")
    row = site.trace(run)
    assert row is not None and row["bytes"] is None and row["problem"]
    assert site.files(run) == sorted(attachments_of(result.model_dump())) == []


def test_a_server_killed_amid_trace_of_its_deepest_level(site: Site) -> None:
    """The answers stand as they were asked before; the levels above are traced anew, and wherever the trace is shown
    it is told that this one is missing."""
    run = site.begin(MODEL + EVALUATE + TRACE)
    run.told("tracing, level framework")
    run.server().kill()
    ended = run.ended()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    result = site.result(run, "valid")
    site.has_whole_answers(result)
    site.has_whole_spans(result, LEVELS[:-1])
    row = site.trace(run)
    assert row is not None and row["levels"] == "application, model"
    assert list(result.extensions["trace"]["untold"]) == ["framework"]
    assert "Its level framework is not told" in site.http.get(f"/inferbench/trace/{run.run_id}").text
    assert site.files(run) == sorted(attachments_of(result.model_dump()))


@pytest.mark.parametrize("stage", ["evaluate", "trace"])
def test_the_process_of_the_stages_killed_amid(site: Site, stage: str) -> None:
    """The run failed in that stage, and nothing of what it has asked so far is stored or shown."""
    run = site.begin(ALL)
    run.told({"evaluate": "samples asked under load: 0 of", "trace": "tracing, level model"}[stage])
    run.server()
    run.runner().kill()
    ended = run.ended()
    assert ended.returncode == 1, ended.stdout + ended.stderr
    site.result(run, f"failed: {stage}, the process that ran it was killed")
    assert site.evaluation(run) is None and site.trace(run) is None
    assert site.files(run) == []
    assert site.db.get_invocation(run.invocation.name).status == "failed"


def test_the_command_and_its_stages_killed_at_once(site: Site) -> None:
    """Nobody is left to end the server and to say how the run ended: the next run does so before it begins."""
    run = site.begin(ALL)
    run.told("samples asked under load: 0 of")
    server = run.server()
    run.kill()
    assert server.is_running() and site.db.get_run(run.run_id).status == "running"
    following = site.begin(MODEL + EVALUATE)
    ended = following.ended()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not server.is_running()
    site.has_whole_answers(site.result(following, "valid"))
    site.result(run, "failed: evaluate, the process that ran it was killed")
    assert site.evaluation(run) is None and site.trace(run) is None
    assert site.db.get_invocation(run.invocation.name).status == "failed"


@pytest.mark.parametrize("stored", ["its first file", "its result"])
def test_the_process_of_the_stages_killed_amid_collect(site: Site, stored: str) -> None:
    """Before the result was written there is nothing but files that no result names, which a cleaning removes; behind
    that the result is whole, and the run is what it says."""
    run = site.begin(ALL)
    runner = run.runner()
    of_run = {"its first file": ("fs.files", "metadata.run_id"), "its result": ("results", "run_id")}
    collection, field = of_run[stored]
    until(lambda: site.db.collection(collection).find_one({field: run.run_id}), "nothing was stored")
    runner.kill()
    ended = run.ended()
    assert ended.returncode == 1, ended.stdout + ended.stderr
    # How far it came between the look and the kill nobody knows: it is one of both, and never a part of a result.
    result = site.result(run, "")
    if result.verdict.measured:
        site.has_whole_answers(result)
        site.has_whole_spans(result, LEVELS)
    else:
        assert stored == "its first file"
        assert str(result.verdict) == "failed: collect, the process that ran it was killed"
        assert site.evaluation(run) is None and site.trace(run) is None
        assert not unnamed(site.db), "somebody may be about to name what is young"
    status = site.db.get_invocation(run.invocation.name).status
    assert status == ("done" if result.verdict.measured else "failed")
    for file in unnamed(site.db, older_than_s=-60):
        site.db.files.delete(file.id)
    assert site.files(run) == sorted(attachments_of(result.model_dump()))


def test_mongod_killed_amid_each_stage(site: Site) -> None:
    """kill -9 of PerfDB's server amid evaluate, trace and collect of one run: it is started again each time, and the
    run has one result, whole and right, with each of its files once."""
    run = site.begin(ALL)
    for text in ("samples asked under load: 0 of", "tracing, level model"):
        run.told(text)
        os.kill(site.mongod(), signal.SIGKILL)
    mongod = site.mongod()
    until(lambda: site.files(run), "nothing was stored")
    os.kill(mongod, signal.SIGKILL)
    ended = run.ended()
    result = site.result(run, "")
    assert result.verdict.measured, ended.stdout + ended.stderr
    site.has_whole_answers(result)
    site.has_whole_spans(result, LEVELS)
    assert site.evaluation(run) is not None and site.trace(run) is not None
    assert site.files(run) == sorted(attachments_of(result.model_dump()))
    assert site.db.get_invocation(run.invocation.name).status == "done"
