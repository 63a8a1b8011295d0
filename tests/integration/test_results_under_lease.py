"""Results are written under the lease of their run, in a real MongoDB: who lost it stores nothing, at any moment."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.brick_jobs.store import LEVELS, REFERENCES, RESULTS, PerfDBResults
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.measure.session import Session
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import LeaseLostError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.regression import store as nights
from inferbench_tasks.regression.store import SessionDocument, SessionRun
from inferbench_tasks.running import execute
from inferbench_tasks.running.fence import Fence
from inferbench_tasks.running.invocation import Invocation, Order
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import collect
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.reader import read_submission_text
from tests.integration.test_analysis import stage_input
from tests.unit.perfdb.builders import result
from tests.unit.regression.nights import side

pytestmark = pytest.mark.integration
JOB = "quick|manual|000"
YAML = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 5}\n"
SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")


@pytest.fixture
def cluster(perfdb: PerfDB) -> Cluster:
    """Three free devices."""
    cluster = Cluster(perfdb)
    for name in "abc":
        register(cluster, name)
    return cluster


def register(cluster: Cluster, name: str) -> None:
    cluster.register(Device(device_id=name, device_type="cpu", name="a CPU", host="h", cores=(0,)))


def granted(cluster: Cluster, *names: str) -> HeldLease:
    """The job has these devices; what its stages write under."""
    first, *others = names
    assert cluster.grant(first, JOB, spec={}, run_id="", now_s=0.0, est_end_s=1.0, others=others)
    return Fence(first, JOB).enter(cluster.db).lease


def lost(cluster: Cluster, *names: str) -> None:
    """As the dispatcher ends a lease whose worker is silent."""
    first, *others = names
    device = cluster.get(first)
    assert device is not None and device.lease is not None
    assert cluster.release(first, device.lease.token, "lost", others)


def samples(path: Path) -> Path:
    pq.write_table(pa.table({"done_ns": range(1000)}), path)
    return path


def stored(db: PerfDB) -> list[tuple[str, int]]:
    return [(one.run_id, one.attempt) for one in db.find_results(sort=[("attempt", 1)])]


@pytest.mark.parametrize("names", [("a",), ("b", "a")], ids=["one device", "two devices"])
def test_who_holds_the_lease_stores_and_who_lost_it_does_not(
    names: tuple[str, ...], perfdb: PerfDB, cluster: Cluster, tmp_path: Path
) -> None:
    """The same devices granted to the same job again: its first life is refused, and leaves no file, of those either
    that its result names, but those of other attempts and runs; its second life stores."""
    raw, first = samples(tmp_path / "s.parquet"), granted(cluster, *names)
    lost(cluster, *names)
    second = granted(cluster, *names)
    about: list[dict[str, Any]] = [
        {"run_id": "run-1", "attempt": 1},
        {"run_id": "run-1", "attempt": 0},
        {"run_id": "run-2", "attempt": 1},
    ]
    files = [perfdb.files.put(b"rows", "monitors.parquet", **one) for one in about]
    named = {"monitors": [file.model_dump() for file in files]}
    with pytest.raises(LeaseLostError, match=f"does not hold {', '.join(names)} any more"):
        perfdb.save_result(result(extensions=named), raw, first)
    assert stored(perfdb) == [] and perfdb.sizes()["files"] == 2
    assert [perfdb.files.get(file) for file in files[1:]] == [b"rows"] * 2
    assert perfdb.save_result(result(attempt=2), raw, second)
    assert not perfdb.save_result(result(attempt=2), raw, second)
    assert stored(perfdb) == [("run-1", 2)] and perfdb.sizes()["files"] == 3
    lease = Fence(names[0], JOB).enter(perfdb).lease
    assert lease == second


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_device_that_was_lost_is_enough(name: str, perfdb: PerfDB, cluster: Cluster) -> None:
    """Before the lease of both ends: the worker of one of them was started again."""
    lease = granted(cluster, "a", "b")
    token = Fence("a", JOB).enter(perfdb).token
    for one in "ab":
        cluster.answer(one, token, "confirmed")
    cluster.lose(name, token, "its worker was started again")
    with pytest.raises(LeaseLostError, match="does not hold a, b any more"):
        perfdb.save_result(result(), lease=lease)
    assert stored(perfdb) == []


def test_tokens_that_begin_anew_open_nothing(perfdb: PerfDB, cluster: Cluster) -> None:
    """A device that was forgotten and registered again counts from one: its first lease is not its former first one."""
    lease = granted(cluster, "a")
    lost(cluster, "a")
    assert cluster.forget("a")
    register(cluster, "a")
    granted(cluster, "a")
    assert Fence("a", JOB).enter(perfdb).token == 1
    with pytest.raises(LeaseLostError):
        perfdb.save_result(result(), lease=lease)


def test_a_stage_that_cleans_up_stores_under_its_lease_or_not_at_all(
    perfdb: PerfDB, cluster: Cluster
) -> None:
    """It runs where the lease is lost too."""
    lease = granted(cluster, "a")
    assert Fence("a", JOB).left(perfdb) == lease
    lost(cluster, "a")
    left = Fence("a", JOB).left(perfdb)
    granted(cluster, "a")
    with pytest.raises(LeaseLostError):
        perfdb.save_result(result(), lease=left)
    assert stored(perfdb) == []


def test_without_a_lease_it_is_stored_as_ever(perfdb: PerfDB) -> None:
    """Nobody leases devices to ``inferbench run``, and no device needs to be known."""
    assert perfdb.save_result(result()) and stored(perfdb) == [("run-1", 1)]


def test_a_lease_does_not_end_while_a_result_is_written_under_it(perfdb: PerfDB, cluster: Cluster) -> None:
    """Who ends it meanwhile waits for the result, and finds it there: the next life of the job sees it too."""
    lease = granted(cluster, "a")
    seen: list[int] = []

    def end() -> None:
        lost(cluster, "a")
        seen.append(perfdb.collection("results").count_documents({"run_id": "run-1"}))

    ending = threading.Thread(target=end)

    def insert(session: ClientSession | None) -> None:
        assert session is not None
        perfdb.collection("results").insert_one({"run_id": "run-1", "attempt": 1}, session=session)
        ending.start()
        ending.join(timeout=1.0)  # it is held up: else it would have seen no result by now

    assert perfdb.write_once(insert, "writing", lease)
    ending.join(timeout=60.0)
    assert seen == [1]
    with pytest.raises(LeaseLostError):
        perfdb.write_once(insert, "writing", lease)


def test_a_write_that_the_server_gave_up_is_not_made_good_after_the_lease(
    perfdb: PerfDB, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is stopped amid a write keeps the lease until MongoDB ends its transaction; once it goes on, what
    it did is undone and the lease is another's."""
    lease = granted(cluster, "a")
    other = Cluster(PerfDB.connect(perfdb.uri, tmp_path))
    ending = threading.Thread(target=lost, args=(other, "a"))

    def insert(session: ClientSession | None) -> None:
        perfdb.collection("results").insert_one({"run_id": "run-1", "attempt": 1}, session=session)
        ending.start()
        labels = {"errorLabels": ["TransientTransactionError"]}
        raise OperationFailure("Transaction has been aborted.", 251, labels)

    monkeypatch.setattr(perfdb._session, "_revive", ending.join)  # between two tries
    with pytest.raises(LeaseLostError):
        perfdb.write_once(insert, "writing", lease)
    assert stored(perfdb) == []


def test_a_result_whose_answer_was_lost_is_there_with_its_files(
    perfdb: PerfDB, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written under the lease; that this ended before the write was repeated takes nothing back."""
    raw, lease = samples(tmp_path / "s.parquet"), granted(cluster, "a")
    transaction = perfdb.transaction

    def twice(*order: Any) -> Any:
        transaction(*order)
        lost(cluster, "a")
        return transaction(*order)

    monkeypatch.setattr(perfdb, "transaction", twice)
    assert perfdb.save_result(result(), raw, lease)
    monkeypatch.undo()
    assert stored(perfdb) == [("run-1", 1)] and perfdb.samples("run-1").num_rows == 1000


def _collecting(perfdb: PerfDB, data_dir: Path) -> tuple[Node, Invocation, dict[str, dict[str, Any]]]:
    """A job's stage ``collect``, and what the stages before it gave."""
    submission = read_submission_text(YAML, "quick.yaml", INSTALLED)
    node = next(node for node in compile_plan(submission).nodes if node.stage == "collect")
    invocation = Invocation.new(data_dir, "quick")
    invocation.place(Order(submission=submission, base_dir=str(data_dir), data_dir=str(data_dir)))
    ctx = Context(data_dir=data_dir, perfdb_uri=perfdb.uri)
    inp = stage_input(ctx, invocation.run_id(0)).model_dump(mode="json")
    outputs = {name: inp[name] for name in ("generate", "convert", "serve", "load")}
    return replace(node, input={**node.input, "job": inp["job"]}), invocation, outputs


def test_a_collect_that_goes_on_after_its_job_was_given_up_stores_nothing(
    perfdb: PerfDB, perfdb_uri: str, cluster: Cluster, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host stood still once the stage had begun; the lease was lost and the job given another device. It fails with
    that reason, and the result of the next life is the only one."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    node, invocation, outputs = _collecting(perfdb, data_dir)
    granted(cluster, "a")

    def stood_still(*order: Any) -> Any:
        lost(cluster, "a")
        granted(cluster, "b")
        return perform(*order)

    def run(device: str, attempt: int) -> None:
        execute.execute_node(
            node, outputs, invocation=invocation, attempt=attempt, base_dir=data_dir, data_dir=data_dir,
            hold_machine=False, fence=Fence(device, JOB),
        )  # fmt: skip

    monkeypatch.setattr(execute, "perform", stood_still)
    with pytest.raises(LeaseLostError, match="does not hold a any more, so it stores no result"):
        run("a", 1)
    assert stored(perfdb) == [] and perfdb.sizes()["files"] == 0
    monkeypatch.setattr(execute, "perform", perform)
    run("b", 2)
    assert stored(perfdb) == [(invocation.run_id(0), 2)]


@pytest.mark.parametrize("moment", ["before it began", "amid its work"])
def test_a_stage_that_comes_too_late_leaves_the_next_life_of_its_run_alone(
    moment: str,
    perfdb: PerfDB,
    perfdb_uri: str,
    cluster: Cluster,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has failed, with the reason; the run that goes on elsewhere has not."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    node, invocation, outputs = _collecting(perfdb, data_dir)
    run_id = invocation.run_id(0)
    granted(cluster, "a")

    def goes_on_elsewhere(*order: Any) -> Any:
        lost(cluster, "a")
        nonce = granted(cluster, "b").nonce
        perfdb.start_run(run_id, invocation.id, "job", node.input["job"])
        perfdb.stage_started(run_id, "serve", 2)
        perfdb.stage_holds(run_id, "serve", 2, ["b"], nonce)
        return perform(*order) if order else None

    if moment == "before it began":
        goes_on_elsewhere()
    else:
        monkeypatch.setattr(execute, "perform", goes_on_elsewhere)
    with pytest.raises(LeaseLostError):
        execute.execute_node(
            node, outputs, invocation=invocation, base_dir=data_dir, data_dir=data_dir, hold_machine=False,
            fence=Fence("a", JOB),
        )  # fmt: skip
    run = perfdb.get_run(run_id)
    assert (run.status, run.verdict) == ("running", None)
    late = run.stage("collect")
    assert late is not None and late.state == "failed" and "does not hold" in (late.error or "")


def test_a_stage_of_a_former_lease_does_not_end_the_run(perfdb: PerfDB) -> None:
    """Its host stood still, and the run goes on elsewhere: the stage has failed, or ended, and the run has not. Stages
    that began before any lease, or without one, tell of it as long as no other has come."""
    perfdb.start_run("r", "inv", "job", {"name": "s"})
    assert perfdb.stage_started("r", "serve") is None
    perfdb.stage_holds("r", "serve", 1, ["a"], "one")
    assert perfdb.stage_started("r", "load") == perfdb.stage_started("r", "release", cleans_up=True) == "one"
    assert perfdb.stage_started("r", "serve", 2) == "one"
    perfdb.stage_holds("r", "serve", 2, ["b"], "two")
    perfdb.stage_failed("r", "load", error="the server is gone", lease="one")
    perfdb.stage_finished("r", "release", output={}, duration_s=1.0, last=True, lease="one")
    run = perfdb.get_run("r")
    assert (run.status, run.verdict, run.ended_at, run.lease) == ("running", None, None, "two")
    assert [(s.stage, s.attempt, s.state) for s in run.stages] == [
        ("serve", 1, "running"), ("load", 1, "failed"), ("release", 1, "done"), ("serve", 2, "running"),
    ]  # fmt: skip
    assert "lease" not in run.model_dump()
    perfdb.stage_failed("r", "serve", 2, error="no port is free", lease="two")
    assert perfdb.get_run("r").said == "failed: serve, no port is free"
    assert perfdb.stage_started("r", "generate", 2) == "two"
    perfdb.stage_failed("r", "generate", 2, error="no model", lease="two")
    assert perfdb.get_run("r").said == "failed: generate, no model"


def test_a_stage_without_a_lease_fails_its_run_where_nobody_goes_on_with_it(
    perfdb: PerfDB, perfdb_uri: str, cluster: Cluster, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that its user cleared alone: no other run of the job will say how it ended."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    node, invocation, outputs = _collecting(perfdb, data_dir)
    with pytest.raises(LeaseLostError, match="nobody holds it"):
        execute.execute_node(
            node, outputs, invocation=invocation, base_dir=data_dir, data_dir=data_dir, hold_machine=False,
            fence=Fence("a", JOB),
        )  # fmt: skip
    run = perfdb.get_run(invocation.run_id(0))
    assert run.status == "failed" and run.said.startswith("failed: collect, This job does not hold device a")


def test_collect_by_itself_needs_no_lease(perfdb: PerfDB, data_dir: Path) -> None:
    """As in a process of ``inferbench run``."""
    ctx = Context(data_dir=data_dir, perfdb_uri=perfdb.uri)
    assert ctx.lease is None and collect.run(stage_input(ctx), ctx).verdict.valid
    assert stored(perfdb) == [("inv.000", 1)]


def test_a_night_that_lost_its_device_writes_no_more(perfdb: PerfDB, cluster: Cluster) -> None:
    """Its session stays as it was when it lost it, and so does the baseline."""
    lease = granted(cluster, "a")
    session = SessionDocument(
        session_id="s", name="quick", started_at=datetime(2026, 1, 1, tzinfo=UTC), pairs=2, baseline=side("old"),
        candidate=side("new"),
    )  # fmt: skip
    nights.save_session(perfdb, session, lease)
    nights.move_baseline(perfdb, "quick", side("old"), "the first night", lease)
    session.runs = [SessionRun(run_id="r", side="baseline", job=0, position=0)]
    nights.save_session(perfdb, session, lease)
    lost(cluster, "a")
    session.runs = []
    with pytest.raises(LeaseLostError):
        nights.save_session(perfdb, session, lease)
    with pytest.raises(LeaseLostError):
        nights.move_baseline(perfdb, "quick", side("new"), "confirmed", lease)
    assert [len(one.runs) for one in nights.sessions(perfdb)] == [1]
    assert nights.baseline(perfdb, "quick") == side("old")


def test_bricks_are_stored_as_long_as_the_lease_is_held(perfdb: PerfDB, cluster: Cluster) -> None:
    """What a session had stored until then stays; the rest, its references and its base are not written."""
    lease = granted(cluster, "a")
    results = PerfDBResults(perfdb, SETTING, lease)

    def brick(identity: str) -> Result:
        times = {"warm": (1e6,) * 3}
        return Result(
            identity=identity, key="k", operators=("Conv",), setting=SETTING, session="run/1", method=Method(),
            rounds_ns=times, raw_ns={}, measured_at=datetime(2026, 1, 1, tzinfo=UTC),
        )  # fmt: skip

    results.put(brick("one"))
    results.put(brick("one"))
    results.put_references("run/1", {"dense": 1.0})
    results.put_references("run/1", {"dense": 2.0})
    lost(cluster, "a")
    granted(cluster, "a")
    with pytest.raises(LeaseLostError):
        results.put(brick("two"))
    with pytest.raises(LeaseLostError):
        results.at_base(Session(True, 3, 3, [1.0], {"dense": 1.0}, {}, {"dense": 1.0}), "run/2")
    assert [one["identity"] for one in perfdb.collection(RESULTS).find()] == ["one"]
    assert [one["references_ns"] for one in perfdb.collection(REFERENCES).find()] == [{"dense": 1.0}]
    assert perfdb.collection(LEVELS).count_documents({}) == 0
