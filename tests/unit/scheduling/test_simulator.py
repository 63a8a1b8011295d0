"""The simulator's faults, its log, and recorded traces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling.eventlog import Decided, EventLog, differences, read_log, replay
from inferbench_tasks.scheduling.events import Finished, LeaseGranted, NodeDown, NodeUp, Started, Submitted
from inferbench_tasks.scheduling.generators import GENERATORS, Recipe, arrivals, generate, lognormal
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.outcome import JobOutcome, Outcome
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.recorded import read_trace
from inferbench_tasks.scheduling.simulator import Simulator, simulate
from inferbench_tasks.scheduling.trace import Trace, TraceJob, cluster


def troubled() -> Trace:
    """Arrivals with lost runs, a dead node, failed checks, gangs and time limits."""
    trace = arrivals(lognormal, 0.8, Recipe(5, jobs=150), devices="3x2")
    node = trace.nodes[1]
    jobs = tuple(
        replace(j, spec=replace(j.spec, n_devices=1 + i % 2, limit_s=3 * j.spec.est_s))
        for i, j in enumerate(trace.jobs)
    )
    outages = (NodeDown(1000.0, node.node_id), replace(node, at_s=9000.0))
    lost = {job.spec.job_id: i % 4 for i, job in enumerate(jobs[:12])}
    checks = ((500.0, trace.nodes[0].node_id),)
    return replace(trace, jobs=jobs, outages=outages, lost_runs=lost, failed_checks=checks)


def logged(trace: Trace, policy: str, path: Path) -> Simulator:
    chosen = POLICIES.load(policy)()
    with open(path, "w", encoding="utf-8") as file:
        simulator = Simulator(trace, chosen, log=EventLog(file, chosen.name, chosen.params))
        simulator.run()
    return simulator


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_job_ends_exactly_once_whatever_breaks(policy: str) -> None:
    """Lost runs, a dead node, failed checks and time limits: no job is lost, none ends twice."""
    trace = troubled()
    outcome = simulate(trace, POLICIES.load(policy)())
    assert not outcome.unfinished
    assert sorted(j.job_id for j in outcome.jobs) == sorted(j.spec.job_id for j in trace.jobs)
    # Retried at most twice: three runs lost, and the job is given up.
    exhausted = [j for j in outcome.jobs if trace.lost_runs.get(j.job_id) == 3]
    assert exhausted
    assert all(j.status == "rejected" for j in exhausted)


def test_a_job_that_never_starts_has_waited_and_is_late() -> None:
    """The only device goes when the first job ends, at 10 s; the last submission is at 30 s. What was submitted at 4 s
    has waited for 26 s, the longest; its deadline of 100 s can't be kept any more."""
    first, starved, after = (
        QueuedJob(name, "t", name, at_s, 5.0, 999.0, frozenset({"any"}), deadline_s=deadline_s)
        for name, at_s, deadline_s in (("first", 0.0, None), ("starved", 4.0, 100.0), ("after", 30.0, None))
    )
    nodes = cluster("1")
    jobs = tuple(TraceJob(spec, 10.0) for spec in (first, starved, after))
    trace = Trace("t", jobs, nodes, (NodeDown(10.0, nodes[0].node_id),))
    outcome = simulate(trace, POLICIES.load("late_sjf_aged")())
    assert [(job.job_id, job.status, job.start_s) for job in outcome.unfinished] == [
        ("after", "unfinished", None), ("starved", "unfinished", None),
    ]  # fmt: skip
    found = outcome.summary()
    assert (found["jobs"], found["unfinished"], found["rejected"]) == (1, 2, 0)
    assert (found["longest_wait_s"], found["late"], found["mean_jct_s"]) == (26.0, 1, 10.0)
    assert outcome.longest_wait_s(lambda job: job.job_id == "first") == 0.0


def test_a_job_with_a_deadline_that_is_given_up_is_late() -> None:
    """Of four with a deadline at 100 s one finishes at 90 s, one at 110 s, one is given up at 50 s, one never ends:
    three did not keep it. One that is given up without any is late in no way."""

    def of(
        name: str,
        end_s: float,
        status: Literal["finished", "rejected", "unfinished"] = "finished",
        deadline_s: float | None = 100.0,
    ) -> JobOutcome:
        return JobOutcome(name, "t", 0.0, 0.0, end_s, status, 1, 1, deadline_s, "n")

    kept, behind, given_up = of("kept", 90.0), of("behind", 110.0), of("given up", 50.0, "rejected")
    free, never = of("free", 500.0, "rejected", None), of("never", 60.0, "unfinished")
    every = (kept, behind, given_up, free, never)
    assert [job.job_id for job in every if job.late] == ["behind", "given up", "never"]
    assert Outcome("p", "t", (kept, given_up, behind, free), (never,)).summary()["late"] == 3


@pytest.mark.parametrize("policy", ["qa_sjf", "late_sjf_aged"])
def test_replaying_a_log_gives_the_same_decisions(policy: str, tmp_path: Path) -> None:
    """A log explains itself: its events lead to its decisions again."""
    logged(troubled(), policy, tmp_path / "log.jsonl")
    log = read_log(tmp_path / "log.jsonl")
    assert log.policy == policy
    assert len(log.decided) > 150
    assert replay(log) == list(log.decided)


def test_a_changed_decision_is_found(tmp_path: Path) -> None:
    """A log whose decision the policy did not take does not replay."""
    path = tmp_path / "log.jsonl"
    logged(troubled(), "late_sjf_aged", path)
    log = read_log(path)
    at = next(i for i, r in enumerate(log.records) if isinstance(r, Decided) and r.decisions)
    changed = replace(log, records=(*log.records[:at], Decided(0.0, ()), *log.records[at + 1 :]))
    assert len(list(differences(changed))) == 1


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    """What stands before it is read; a broken line in the middle is an error with its number."""
    path = tmp_path / "log.jsonl"
    logged(troubled(), "late_sjf_aged", path)
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert len(read_log(path).records) == len(whole.splitlines()) - 2
    lines = whole.splitlines()
    path.write_text("\n".join([lines[0], "{", *lines[1:]]) + "\n")
    with pytest.raises(InputError, match=r"log\.jsonl:2"):
        read_log(path)


def test_no_device_is_leased_twice_in_a_log(tmp_path: Path) -> None:
    """Tokens only grow, so a lease can always be told from the ones before."""
    path = tmp_path / "log.jsonl"
    logged(troubled(), "late_sjf_aged", path)
    tokens = [e.token for e in read_log(path).events if isinstance(e, LeaseGranted)]
    assert tokens == sorted(set(tokens), key=lambda t: t or 0)


def test_a_log_is_a_trace(tmp_path: Path) -> None:
    """The jobs that ended well, with the time that they ran, and the nodes with their outages."""
    path = tmp_path / "log.jsonl"
    trace = troubled()
    logged(trace, "late_sjf_aged", path)
    read = read_trace(path, ())
    actual = {job.spec.job_id: job.actual_s for job in trace.jobs}
    assert 100 < len(read.jobs) <= len(trace.jobs)
    assert all(job.actual_s == pytest.approx(actual[job.spec.job_id]) for job in read.jobs)
    assert [o.node_id for o in read.outages][:1] == [trace.nodes[1].node_id]


def test_the_log_of_a_host_whose_workers_came_one_by_one_is_a_trace(tmp_path: Path) -> None:
    """Its node has all its devices, also where one of them came back before the last came: a gang fits, and ends."""
    path, policy = tmp_path / "log.jsonl", POLICIES.load("late_sjf_aged")()
    gang = QueuedJob("g", "t", "g", 3.0, 5.0, 99.0, frozenset({"cpu"}), n_devices=2)
    with path.open("w") as file:
        log = EventLog(file, policy.name, policy.params)
        for event in (
            NodeUp(0.0, "h/cpu", "cpu", 1, ("a",)), NodeDown(1.0, "h/cpu"), NodeUp(2.0, "h/cpu", "cpu", 1, ("a",)),
            Submitted(3.0, gang), NodeUp(4.0, "h/cpu", "cpu", 2, ("a", "b")),
            LeaseGranted(4.0, "g", "h/cpu", (0, 1), 1), Started(5.0, "g", 1), Finished(9.0, "g", True, 1),
        ):  # fmt: skip
            log.event(event)
    trace = read_trace(path, ())
    assert [node.n_devices for node in trace.nodes] == [2]
    assert [job.status for job in simulate(trace, policy).jobs] == ["finished"]


def test_the_three_file_formats_say_the_same(tmp_path: Path) -> None:
    """CSV, Parquet and JSON lines of the same rows give the same trace."""
    rows = [
        {"submit_s": 0.0, "duration_s": 5.0, "tenant": "x", "n_devices": 2, "deadline_s": 9.0},
        {"submit_s": 1.0, "duration_s": 7.5, "tenant": "y", "n_devices": 1, "deadline_s": None},
    ]
    head = ",".join(rows[0])
    lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
    (tmp_path / "t.csv").write_text("\n".join([head, *lines]) + "\n")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    traces = [read_trace(tmp_path / f"t.{kind}", cluster("2x2")) for kind in ("csv", "jsonl", "parquet")]
    assert traces[0].jobs == traces[1].jobs == traces[2].jobs
    assert [j.spec.deadline_s for j in traces[0].jobs] == [9.0, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("submit_s\n1\n", "missing columns"),
        ("submit_s,duration_s,colour\n1,2,red\n", "unknown"),
        ("submit_s,duration_s\n0,5\n1,-2\n", "row 2"),
        ("submit_s,duration_s,n_devices\n0,5,9\n", "no node has them"),
        # Eight hours after a submission of the second day, as submissions say it.
        (
            "submit_s,duration_s,deadline_s\n0,5,28800\n90000,5,28800\n",
            "row 2: .*it is a moment of the trace",
        ),
    ],
)
def test_a_wrong_trace_is_refused(text: str, message: str, tmp_path: Path) -> None:
    """With what is wrong and where."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_trace(path, cluster("4"))


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_a_generated_trace_is_reproducible(name: str) -> None:
    """The same seed gives the same trace, another seed another."""
    small = Recipe(1, jobs=60)
    assert generate(name, small) == generate(name, small)
    assert generate(name, small) != generate(name, replace(small, seed=2))


def test_a_generated_load_is_what_its_name_says() -> None:
    """B4's work fills .9 of its devices, and its gaps are exponential (coefficient of variation 1)."""
    trace = generate("B4", Recipe(11, jobs=20_000))
    submit = np.array([job.spec.submit_s for job in trace.jobs])
    work = sum(job.actual_s for job in trace.jobs)
    assert work / (submit[-1] * trace.devices) == pytest.approx(0.9, rel=0.03)
    gaps = np.diff(submit)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("text", ["", "0", "a=", "4,4", "2xy", "-1"])
def test_a_wrong_cluster_is_refused(text: str) -> None:
    """What can't be read as nodes is an error, not an empty cluster."""
    with pytest.raises(InputError):
        cluster(text)
