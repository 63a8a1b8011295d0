"""What each event means, and the rules that follow from it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decide import decide
from inferbench_tasks.scheduling.decisions import Decision, Place, Preempt, Reject, Requeue, Reserve
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import EventError, Params, QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES

DEFAULT = POLICIES.load("late_sjf_aged")().params


def job(job_id: str, est_s: float = 60.0, **changes: object) -> QueuedJob:
    spec = QueuedJob(job_id, "team", job_id, 0.0, est_s, math.inf, frozenset({"gpu"}))
    return replace(spec, **changes)  # type: ignore[arg-type]


def index_with(*jobs: QueuedJob, nodes: int = 1, size: int = 1, params: Params = DEFAULT) -> Index:
    index = Index(params)
    for i in range(nodes):
        index.apply(ev.NodeUp(0.0, f"n{i}", "gpu", size))
    for spec in jobs:
        index.apply(ev.Submitted(spec.submit_s, spec))
    return index


def start(
    index: Index, job_id: str, node: str = "n0", devices: tuple[int, ...] = (0,), token: int = 1
) -> None:
    index.apply(ev.LeaseGranted(0.0, job_id, node, devices, token))


def placed(decisions: list[Decision]) -> list[str]:
    return [d.job_id for d in decisions if isinstance(d, Place)]


def test_a_device_is_leased_once() -> None:
    """A second lease on a device is refused, and the index stays as it was."""
    index = index_with(job("a"), job("b"))
    start(index, "a")
    before = index.snapshot()
    with pytest.raises(EventError, match=r"n0:0 is leased to 'a'"):
        start(index, "b")
    assert index.snapshot() == before


def test_a_job_ends_once() -> None:
    """A second end of a job is a contradiction."""
    index = index_with(job("a"))
    start(index, "a")
    index.apply(ev.Finished(9.0, "a"))
    with pytest.raises(EventError, match="finishes but does not run"):
        index.apply(ev.Finished(9.0, "a"))


def test_a_stale_report_changes_nothing() -> None:
    """What a given-up run reports with its old token neither ends its job nor frees the device."""
    index = index_with(job("a"))
    start(index, "a", token=1)
    index.apply(ev.InfraFailed(1.0, "a", charged=False))
    start(index, "a", token=2)
    index.apply(ev.Finished(2.0, "a", token=1))
    run = index.jobs["a"].run
    assert run is not None
    assert run.token == 2


def test_an_infrastructure_failure_retries_elsewhere_at_the_original_time() -> None:
    """The job keeps its place in the order, avoids the device, and is given up after two retries."""
    index = index_with(job("a", submit_s=0.0), nodes=4)
    for attempt in range(3):
        (place,) = decide(index, 10.0, DEFAULT)
        assert isinstance(place, Place)
        start(index, "a", place.node_id)
        index.apply(ev.InfraFailed(20.0, "a"))
        spec = index.jobs["a"].spec
        assert (spec.attempt, spec.submit_s, len(spec.avoid)) == (attempt + 1, 0.0, attempt + 1)
    assert decide(index, 30.0, DEFAULT) == [Reject("a", "infrastructure failed under it 3 times")]


def test_a_job_that_avoids_every_device_is_given_up() -> None:
    """With one device there is no other to retry on."""
    index = index_with(job("a"))
    start(index, "a")
    index.apply(ev.InfraFailed(1.0, "a"))
    assert decide(index, 2.0, DEFAULT) == [Reject("a", "no device is left that it does not avoid")]


def test_a_failed_check_quarantines_and_does_not_charge() -> None:
    """The device gets nothing more until the node is up again; the job waits without a retry counted."""
    index = index_with(job("a"))
    start(index, "a")
    index.apply(ev.HealthFailed(1.0, "n0", None, "a", "foreign process"))
    assert (index.jobs["a"].spec.attempt, index.jobs["a"].spec.avoid) == (0, frozenset())
    assert decide(index, 2.0, DEFAULT) == []
    index.apply(ev.NodeUp(3.0, "n0", "gpu"))
    assert placed(decide(index, 4.0, DEFAULT)) == ["a"]


def test_runs_of_a_dead_node_are_requeued() -> None:
    """Until they are reported over, each decision asks for them."""
    index = index_with(job("a"), nodes=2)
    start(index, "a")
    index.apply(ev.NodeDown(1.0, "n0"))
    assert decide(index, 2.0, DEFAULT) == [Requeue("a", "n0", "its node is down")]
    index.apply(ev.InfraFailed(3.0, "a"))
    assert [(d.job_id, d.node_id) for d in decide(index, 4.0, DEFAULT) if isinstance(d, Place)] == [
        ("a", "n1")
    ]


def test_a_run_over_its_limit_is_given_up() -> None:
    """The limit counts from the start, and its very end is still allowed."""
    index = index_with(job("a", limit_s=100.0))
    start(index, "a")
    index.apply(ev.Started(50.0, "a"))
    assert decide(index, 150.0, DEFAULT) == []
    assert decide(index, 150.1, DEFAULT) == [Reject("a", "it ran longer than its limit of 100 s")]


def test_the_wait_of_a_long_job_is_bounded() -> None:
    """A job a hundred times the mean passes short ones that came long after it; without the clip it would not."""
    ended = [job(f"e{i}", 10.0) for i in range(200)]
    long = job("long", 10_000.0)
    later = job("later", 10.0, submit_s=3000.0)
    for clip_ratio, expected in ((2.0, "long"), (1e9, "later")):
        params = replace(DEFAULT, clip_ratio=clip_ratio)
        index = index_with(*ended, long, later, params=params)
        for spec in ended:
            index.apply(ev.Cancelled(1.0, spec.job_id))
        assert placed(decide(index, 3000.0, params)) == [expected]


def test_a_tenant_over_its_soft_cap_comes_last_and_may_borrow() -> None:
    """Another tenant's longer job goes first; with nobody else waiting the cap does not hold anything back."""
    mine = [job(f"m{i}", 10.0, tenant="greedy") for i in range(8)]
    index = index_with(*mine, nodes=4)
    for i in range(3):
        start(index, f"m{i}", f"n{i}")
    assert placed(decide(index, 1.0, DEFAULT)) == ["m3"]
    index.apply(ev.Submitted(1.0, job("other", 500.0, tenant="modest", submit_s=1.0)))
    assert placed(decide(index, 1.0, DEFAULT)) == ["other"]


def test_priority_comes_before_length() -> None:
    """A long job of higher priority starts first."""
    index = index_with(job("short", 1.0), job("urgent", 500.0, priority=1))
    assert placed(decide(index, 0.0, DEFAULT)) == ["urgent"]


def test_a_deadline_promotes_just_in_time() -> None:
    """A job of low priority waits while it has slack, and goes first once its slack is used up."""
    night = job("night", 600.0, priority=-10, deadline_s=7200.0)
    index = index_with(night, job("day", 60.0))
    assert placed(decide(index, 0.0, DEFAULT)) == ["day"]
    assert placed(decide(index, 6000.0, DEFAULT)) == ["night"]


def test_jobs_with_one_deadline_are_promoted_together() -> None:
    """Ten jobs of ten minutes on one device are promoted when all of them fill the time left, not only the last."""
    nights = [job(f"night{i}", 600.0, priority=-10, deadline_s=7200.0) for i in range(10)]
    index = index_with(*nights, job("day", 60.0))
    assert placed(decide(index, 0.0, DEFAULT)) == ["night0"]
    assert placed(decide(index_with(*nights[:5], job("day", 60.0)), 0.0, DEFAULT)) == ["day"]


def test_only_preemptible_jobs_of_lower_priority_make_room() -> None:
    """A preemptible job is displaced by a higher priority; any other one is left alone."""
    for preemptible in (True, False):
        index = index_with(job("low", preemptible=preemptible, priority=0))
        start(index, "low")
        index.apply(ev.Submitted(1.0, job("high", priority=1)))
        expected = [Preempt("low", "n0", "high", "priority 1")] if preemptible else []
        assert decide(index, 1.0, DEFAULT) == expected


def test_a_gang_gets_a_reservation_that_short_jobs_may_fill() -> None:
    """Free devices are kept for the first job that needs more; a job that ends in time may use them meanwhile."""
    gang = job("gang", 10.0, n_devices=2, priority=1)
    index = index_with(job("running", 1000.0), gang, job("short", 500.0), job("long", 5000.0), size=2)
    start(index, "running")
    reserve, place = decide(index, 0.0, DEFAULT)
    assert isinstance(reserve, Reserve)
    assert (reserve.job_id, reserve.start_s) == ("gang", 1000.0)
    assert placed([place]) == ["short"]
    greedy = replace(DEFAULT, reserve=False)
    other = index_with(job("running", 1000.0), gang, job("long", 5000.0), size=2, params=greedy)
    start(other, "running")
    assert placed(decide(other, 0.0, greedy)) == ["long"]


def test_early_binding_joins_another_queue_when_its_node_dies() -> None:
    """Nothing waits for a dead node."""
    params = POLICIES.load("qa_sjf")().params
    index = index_with(job("a"), job("b"), nodes=2, params=params)
    assert {entry.bound for entry in index.jobs.values()} == {"n0", "n1"}
    index.apply(ev.NodeDown(1.0, "n0"))
    assert {entry.bound for entry in index.jobs.values()} == {"n1"}


def test_parameters_of_another_index_are_refused() -> None:
    """The heaps of an index are sorted by its own parameters."""
    with pytest.raises(ValueError, match="other parameters"):
        decide(index_with(), 0.0, replace(DEFAULT, order="sjf"))


def test_early_binding_refuses_what_it_cannot_do() -> None:
    """Parameters that would silently not hold are an error."""
    with pytest.raises(InputError, match="only the orders fcfs and sjf"):
        Params(binding="qa", order="sjf")


def test_a_gang_that_lost_one_device_avoids_that_one() -> None:
    """Those of its lease that are to blame are suspect and avoided; without a word of which, all of them are."""
    index = index_with(job("gang", n_devices=2), size=3)
    start(index, "gang", devices=(0, 1))
    index.apply(ev.LeaseExpired(5.0, "gang", 1, (1,)))
    assert index.jobs["gang"].spec.avoid == {"n0:1"} and index.snapshot().states["n0"].unfit == {1}
    start(index, "gang", devices=(0, 2), token=2)
    index.apply(ev.LeaseExpired(6.0, "gang", 2))
    assert index.jobs["gang"].spec.avoid == {"n0:0", "n0:1", "n0:2"}
