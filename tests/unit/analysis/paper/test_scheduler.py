"""Figure 15 from a scheduler's log: what really happened, and the same jobs under the paper's policies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inferbench_tasks.analysis.paper.scheduler import NO_LOG, Replayed, charts, judged, replayed
from inferbench_tasks.scheduling.decisions import Place
from inferbench_tasks.scheduling.eventlog import EventLog
from inferbench_tasks.scheduling.events import Event, Finished, InfraFailed, LeaseGranted, NodeUp, Submitted
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES
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


HEAD = '{"log": "inferbench-scheduling", "version": 1, "policy": "qa_sjf", "params": {}}\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hello\n", "log.jsonl is no scheduler's event log"),
        ("", "log.jsonl is no scheduler's event log"),
        ('{"submit_s": 1, "duration_s": 2}\n', "log.jsonl is no scheduler's event log"),
        (HEAD.replace("1,", "2,"), "log.jsonl is not a scheduling log of version 1"),
        (
            HEAD.replace(', "params": {}', ""),
            "log.jsonl:1 is not a line of a scheduling log: KeyError('params')",
        ),
        (HEAD.replace("{}", '{"x": 1}'), "log.jsonl:1 is not a line of a scheduling log"),
        (HEAD.replace("{}", "[1]"), "log.jsonl:1 is not a line of a scheduling log"),
        (HEAD.replace('"qa_sjf"', "3"), "policy is 3, no name"),
        (HEAD + '{"event": "Nope"}\n', "log.jsonl:2 is not a line of a scheduling log"),
        (
            HEAD + '{"event": "Finished", "at_s": "soon", "job_id": "a", "ok": true}\n',
            "at_s is 'soon', no float",
        ),
        (HEAD + '{"event": "Finished", "at_s": NaN, "job_id": "a", "ok": true}\n', "at_s is nan, no float"),
        (HEAD + '{"decide": "x", "decisions": []}\n', "decide is 'x', no float"),
        (HEAD, "no job that ended well"),
    ],
)
def test_what_is_no_log_says_why(tmp_path: Path, text: str, why: str) -> None:
    """A file in the log's place is refused by name, line and reason, and ends nothing; with a log beside it that one is
    replayed.
    """
    (tmp_path / "log.jsonl").write_text(text)
    found = replayed(tmp_path)
    assert isinstance(found, str) and why in found
    assert str(tmp_path) not in found and judged(found).kind == "unmeasured"
    logged(tmp_path / "whole.jsonl")
    assert isinstance(replayed(tmp_path), Replayed)


def test_what_cannot_be_replayed_hides_no_smaller_log(tmp_path: Path) -> None:
    """The larger log is of one device: the smaller one is replayed."""
    logged(tmp_path / "few.jsonl", 20)
    logged(tmp_path / "many.jsonl", 40, "1")
    found = replayed(tmp_path)
    assert isinstance(found, Replayed) and found.log == "few.jsonl"


def by_hand(path: Path, *more: Event) -> None:
    """Two jobs that fail hold both devices for 1,000 s; then ten pairs of 10 s, all submitted at 0."""
    policy = POLICIES.load("qa_sjf")()
    names = [("f0", "n", 0.0, 1000.0), ("f1", "m", 0.0, 1000.0)]
    names += [
        (f"j{at:02d}", "nm"[at % 2], start, start + 10.0)
        for at in range(20)
        for start in [1000.0 + at // 2 * 10]
    ]
    submitted = [Submitted(0.0, job(name, end - start)) for name, _, start, end in names]
    happened: list[Event] = []
    for name, node, start, end in names:
        happened += [LeaseGranted(start, name, node, (0,)), Finished(end, name, name.startswith("j"))]
    order = sorted([*happened, *more], key=lambda event: (event.at_s, isinstance(event, LeaseGranted)))
    with path.open("w") as file:
        log = EventLog(file, policy.name, policy.params)
        before: list[Event] = [NodeUp(0.0, "n", "any", 1), NodeUp(0.0, "m", "any", 1), *submitted]
        for event in before:
            log.event(event)
        log.decided(0.0, [Place(name, node, (0,), end, "") for name, node, _, end in names])
        for event in order:
            log.event(event)


def test_failed_jobs_are_load_and_in_no_mean(tmp_path: Path) -> None:
    """What held the devices for 1,000 s is replayed: under RR+FCFS pair k ends at 1,000 + 10 k, as it did: 1,055 s
    on average. The shortest first end at 10 to 100 s, 55 on average.
    """
    by_hand(tmp_path / "log.jsonl")
    found = replayed(tmp_path)
    assert isinstance(found, Replayed)
    assert found.real.mean_jct_s() == pytest.approx(1055.0)
    assert found.mean_jct_s(found.outcomes["rr_fcfs"]) == pytest.approx(1055.0)
    assert found.mean_jct_s(found.outcomes["qa_sjf"]) == pytest.approx(55.0)
    assert "really 1.06e+03 s" in judged(found).text and "2 that failed or did not end" in judged(found).text
    assert len(charts(found)[1]["data"]) == 4


def test_with_much_load_beside_the_means_no_policy_is_judged(tmp_path: Path) -> None:
    """Of 20 jobs two failed: 10% of the load, and the sentence is judged. Five failed, which is 25%: undecided, with
    both means.
    """
    by_hand(tmp_path / "log.jsonl")
    found = replayed(tmp_path)
    assert isinstance(found, Replayed) and judged(found).kind == "agrees"
    busy = judged(replace(found, life=replace(found.life, failed=5)))
    assert busy.kind == "undecided" and busy.text.endswith("to compare policies by their means")
    assert "under RR+FCFS 1,055 s, under QA+SJF 55 s (19.18 times shorter)" in busy.text


def test_lost_runs_leave_no_picture_of_what_happened(tmp_path: Path) -> None:
    """A run that was lost held its device for longer than any replay knows."""
    by_hand(
        tmp_path / "log.jsonl", Submitted(1100.0, job("x", 10.0, 1100.0)), LeaseGranted(1100.5, "x", "n", (0,)),
        InfraFailed(1105.0, "x"), LeaseGranted(1106.0, "x", "n", (0,)), Finished(1116.0, "x"),
    )  # fmt: skip
    found = replayed(tmp_path)
    assert isinstance(found, Replayed) and found.life.lost == 1
    assert "is not comparable" in judged(found).text
    assert [trace["name"] for trace in charts(found)[1]["data"]] == [
        f"{name}, replayed" for name in found.outcomes
    ]
