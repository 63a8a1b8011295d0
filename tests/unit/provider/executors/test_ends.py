"""What the executor writes down of jobs that it ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.part import whole_of
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest

pytestmark = pytest.mark.airflow


def job(request: LeaseRequest) -> Any:
    """The tasks of a job that asked so."""
    from inferbench_tasks.provider.executors.job_tasks import JobTasks, TaskState

    return JobTasks((TaskState("job-000.first", "failed", 1, LeasedTask(0, "first", 0, request=request)),))


@pytest.mark.parametrize("found", [None, InputError("no such run"), PerfDBError("away")])
def test_a_run_that_is_not_there_keeps_nothing_from_being_done(found: Exception | None) -> None:
    """A night has none and none is asked for; a deleted one is passed over; a database that is away is said."""
    from inferbench_tasks.provider.executors.leased import LeasedJobs

    asked: list[str] = []

    def end_run(run_id: str, verdict: Verdict) -> None:
        asked.append(run_id)
        if found:
            raise found

    nothing: Any = SimpleNamespace()
    db: Any = SimpleNamespace(end_run=end_run)
    end, lost = LeasedJobs(nothing, db, nothing).end_run, Verdict.failed("serve", "lost")
    night, single = (job(LeaseRequest({}, recorded=recorded)) for recorded in (False, True))
    end(JobKey("nightly.digits", "manual", 0), night, lost)
    assert asked == []
    if isinstance(found, PerfDBError):
        with pytest.raises(PerfDBError):
            end(JobKey("digits", "manual", 0), single, lost)
    else:
        end(JobKey("digits", "manual", 0), single, lost)
    assert len(asked) == 1


def tasks_of(*states: str | None, ended: bool = False) -> Any:
    """A job's tasks on its device in these states, in a DAG run that has ended or not."""
    from inferbench_tasks.provider.executors.job_tasks import JobTasks, TaskState

    stages = ("serve", "load", "collect", "release")
    request = LeaseRequest({"kind": "serving"})
    return JobTasks(
        tuple(
            TaskState(
                f"job-000.{stage}",
                state,
                1,
                LeasedTask(0, stage, place, stage == "release", None if place else request),
            )
            for place, (stage, state) in enumerate(zip(stages, states, strict=True))
        ),
        ended,
    )


def test_a_job_is_over_once_its_dag_run_has_ended_and_nothing_of_it_is_sent() -> None:
    """Airflow starts nothing in a run that was marked or failed by itself: tasks without a state stay so for ever."""
    assert not tasks_of("success", None, None, None).over
    assert tasks_of("success", None, None, None, ended=True).over
    assert tasks_of("failed", "skipped", "scheduled", "up_for_retry", ended=True).over
    assert not tasks_of("failed", "skipped", "skipped", "running", ended=True).over, "it still cleans up"
    assert not tasks_of("success", "queued", None, None, ended=True).over
    assert tasks_of("success", "success", "skipped", "skipped").over


def leased_with(tasks: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str], list[float]]:
    """The leased jobs, of which the one has these tasks; what becomes of its lease; what was learnt of its time, s."""
    from inferbench_tasks.provider.executors import leased

    said: list[str] = []
    dispatcher: Any = SimpleNamespace(
        held={"dag|run|000": SimpleNamespace(started=True)},
        withdraw=lambda job, reason: said.append(reason),
        ended=lambda job, ok: said.append(f"ended {ok}"),
    )
    learnt: list[float] = []
    cancelled = SimpleNamespace(status="cancelled", job_id="j", stages=[])
    db: Any = SimpleNamespace(find_runs=lambda *_, **__: [cancelled])
    estimator: Any = SimpleNamespace(observe=lambda kind, seconds: learnt.append(seconds))
    monkeypatch.setattr("inferbench_tasks.provider.executors.job_tasks.job_tasks", lambda key: tasks)
    monkeypatch.setattr(
        "inferbench_tasks.provider.executors.job_tasks.seen_again", lambda seen: dict.fromkeys(seen, tasks)
    )
    monkeypatch.setattr(leased, "perfdb_run", lambda key: "run.000")
    monkeypatch.setattr(leased, "leased_s", lambda run: 5.0)
    return leased.LeasedJobs(dispatcher, db, estimator), said, learnt


def test_a_lease_of_which_nothing_runs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paused DAG, or a cleared run that waits for others, keeps no device; a scheduler that stood still is none."""
    from inferbench_tasks.provider.executors.leased import IDLE_LOOKS, IDLE_S

    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    jobs, said, _ = leased_with(tasks_of("success", None, None, None), monkeypatch)
    jobs.look(())
    now[0] += 10 * IDLE_S
    jobs.look(())
    assert said == [], "it was looked at twice only"
    for _ in range(IDLE_LOOKS):
        jobs.look(())
    (reason,) = said
    assert "nothing of it runs" in reason


@pytest.mark.parametrize(
    "state", ["queued", "running", "scheduled", "up_for_retry", "restarting", "deferred"]
)
def test_a_job_that_goes_on_keeps_its_lease(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """Whatever its next task waits for."""
    from inferbench_tasks.provider.executors.leased import IDLE_LOOKS, IDLE_S

    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    jobs, said, _ = leased_with(tasks_of("success", state, None, None), monkeypatch)
    for _ in range(3 * IDLE_LOOKS):
        jobs.look(())
        now[0] += IDLE_S
    assert said == []


def test_a_run_that_was_marked_as_success_teaches_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease ends; how long it had run says nothing of how long such a job takes."""
    jobs, said, learnt = leased_with(tasks_of("success", "success", "success", "success"), monkeypatch)
    jobs.look(())
    assert said == ["ended True"] and learnt == []


def test_runs_of_ended_dag_runs_end_in_perfdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled where a user ended it, else failed; not before its lease, and not what goes on."""
    from datetime import UTC, datetime

    from inferbench_tasks.perfdb.documents import RunDocument, StageRecord, SubmissionInfo
    from inferbench_tasks.provider.executors import dag_runs, ended, job_tasks
    from inferbench_tasks.running.invocation import dag_run_invocation

    moment = datetime.now(UTC)

    def run(dag: str, job_index: int = 0) -> RunDocument:
        invocation = dag_run_invocation(dag, "manual__1")
        stages = [StageRecord(stage="convert", state="done", started_at=moment)]
        return RunDocument(
            run_id=f"{invocation}.{job_index:03d}", invocation_id=invocation, job_id="j",
            submission=SubmissionInfo(name=whole_of(dag)), started_at=moment, updated_at=moment, stages=stages,
        )  # fmt: skip

    runs = [run(dag) for dag in ("by_hand", "by_itself", "held", "goes_on")]
    # Of one invocation: the first part has ended, the second goes on; so does that of a submission that was ended.
    runs += [run("parts..jobs-00000-00099", 7), run("parts..jobs-00100-00199", 107), run("whole", 3)]
    ends: dict[str, str] = {}

    def find(where: dict[str, Any]) -> list[RunDocument]:
        assert where["status"] == "running"
        return [r for r in runs if r.invocation_id in where["invocation_id"]["$in"]]

    over = ("by_hand", "by_itself", "held", "parts..jobs-00000-00099", "whole")
    over_by_now = [(dag, "manual__1") for dag in over]
    monkeypatch.setattr(dag_runs, "ended_between", lambda since, until: over_by_now)
    monkeypatch.setattr(job_tasks, "ended_by_user", lambda key: key.dag_id == "by_hand")
    monkeypatch.setattr(dag_runs, "has_parts", lambda dag_id, run_id: dag_id == "whole")

    def end(run_id: str, verdict: Verdict) -> None:
        ends[f"{run_id.split('-')[0]} {run_id.rpartition('.')[2]}"] = str(verdict)

    db: Any = SimpleNamespace(find_runs=find, end_run=end)
    ended.EndedRuns(db).end({"held|manual__1|000"})
    assert ends == {
        "by_hand 000": str(Verdict.cancelled("convert")),
        "by_itself 000": "failed: convert, its DAG run ended without it",
        "parts 007": "failed: convert, its DAG run ended without it",
    }
