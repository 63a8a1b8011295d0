"""Figure 15 from a scheduler's log: what really happened, and the same jobs under the paper's policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.analysis.paper.scheduler import NO_LOG, Replayed, charts, judged, replayed
from inferbench_tasks.scheduling.eventlog import EventLog
from inferbench_tasks.scheduling.events import Finished, LeaseGranted, NodeUp, Submitted
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.recorded import as_it_was
from inferbench_tasks.scheduling.simulator import Simulator
from inferbench_tasks.scheduling.trace import Trace, TraceJob, cluster


def job(name: str, length_s: float, submit_s: float = 0.0) -> QueuedJob:
    return QueuedJob(name, "team", name, submit_s, length_s, 1e6, frozenset({"any"}))


def logged(path: Path, count: int = 20, devices: str = "2") -> None:
    """Jobs of 10 and of 1 s in turns, all at once, as the real system's default policy takes them."""
    path.parent.mkdir(exist_ok=True)
    jobs = tuple(
        TraceJob(job(f"j{at:02d}", length), length)
        for at in range(count)
        for length in [10.0 if at % 2 == 0 else 1.0]
    )
    policy = POLICIES.load("late_sjf_aged")()
    with path.open("w") as file:
        log = EventLog(file, policy.name, policy.params)
        Simulator(Trace("t", jobs, cluster(devices)), policy, log=log).run()


def test_a_logs_jobs_are_replayed_under_the_papers_policies(tmp_path: Path) -> None:
    """Round robin gives the ten long jobs to one device, 10 to 100 s, the short ones to the other, 1 to 10 s: 30.25 s
    on average. Queue-aware placement with the short ones first is better by far. The policy that was at work, replayed,
    comes to what happened.
    """
    logged(tmp_path / "few.jsonl", 4)
    logged(tmp_path / "many.jsonl")
    (tmp_path / "broken.jsonl").write_text('{"log": "inferbench-scheduling"')
    found = replayed(tmp_path)
    assert isinstance(found, Replayed)
    assert (found.log, found.devices, len(found.real.jobs)) == ("many.jsonl", 2, 20)
    assert found.outcomes["rr_fcfs"].mean_jct_s() == pytest.approx(30.25)
    assert found.real.policy == "late_sjf_aged"
    assert found.real.mean_jct_s() == pytest.approx(found.outcomes["late_sjf_aged"].mean_jct_s())
    finding = judged(found)
    assert finding.kind == "agrees" and "under RR+FCFS 30.2 s" in finding.text
    assert "really" in finding.text and "when that is replayed" in finding.text
    bars, cdf = charts(found)
    assert bars["data"][0]["y"][0] == pytest.approx(1.0) and len(cdf["data"]) == 5
    assert cdf["data"][0]["y"][-1] == 1.0


@pytest.mark.parametrize(("count", "devices", "why"), [(19, "2", "has 19 jobs"), (20, "1", "one device")])
def test_what_no_policy_can_show_is_not_measured(tmp_path: Path, count: int, devices: str, why: str) -> None:
    """Too few jobs, or one device, on which nothing is placed; no log at all."""
    assert replayed(tmp_path) == NO_LOG
    logged(tmp_path / "log.jsonl", count, devices)
    found = replayed(tmp_path)
    assert isinstance(found, str) and why in found
    assert judged(found).kind == "unmeasured" and charts(found) == []


def test_what_happened_is_read_as_it_was(tmp_path: Path) -> None:
    """By hand: a waits 2 s and runs 3, b is lost once and ends 9 s after its submission; c failed and is no part."""
    path, policy = tmp_path / "log.jsonl", POLICIES.load("qa_sjf")()
    with path.open("w") as file:
        log = EventLog(file, policy.name, policy.params)
        for event in (
            NodeUp(0.0, "n", "any", 1),
            Submitted(1.0, job("a", 3.0, 1.0)), Submitted(1.0, job("b", 3.0, 1.0)),
            Submitted(1.0, job("c", 1.0, 1.0)),
            LeaseGranted(3.0, "a", "n", (0,), 1), Finished(6.0, "a", True, 1),
            LeaseGranted(6.0, "b", "n", (0,), 2), LeaseGranted(7.0, "b", "n", (0,), 3),
            Finished(10.0, "b", True, 3),
            LeaseGranted(10.0, "c", "n", (0,), 4), Finished(11.0, "c", False, 4),
        ):  # fmt: skip
            log.event(event)
    outcome = as_it_was(path)
    assert outcome.policy == "qa_sjf"
    jobs = [(one.job_id, one.jct_s, one.wait_s, one.runs) for one in outcome.jobs]
    assert jobs == [("a", 5.0, 2.0, 1), ("b", 9.0, 6.0, 2)]
