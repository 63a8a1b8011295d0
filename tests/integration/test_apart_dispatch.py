"""The policy at work on jobs that hold a device of another host beside their own, on a real PerfDB."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from inferbench_tasks.cluster.device import LACKS
from inferbench_tasks.cluster.dispatcher import STANDALONE, Dispatcher
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.errors import InputError, LeaseLostError
from inferbench_tasks.running.fence import Fence
from inferbench_tasks.scheduling.eventlog import job_from_json, to_json
from inferbench_tasks.scheduling.model import QueuedJob
from tests.apart_jobs import APART, CPU, apart, start, why
from tests.random_jobs import Site
from tests.schedulers import (
    Clock,
    age,
    answer,
    clock,
    cluster,
    confirm,
    holders,
    job,
    kinds,
    make,
    register,
)

__all__ = ["clock", "cluster", "make"]  # fixtures

pytestmark = pytest.mark.integration


def test_a_device_of_each_of_two_hosts_is_held(cluster: Cluster, make: type) -> None:
    """By one lease with one token, though the host of its own device has another one free; the job starts when both
    workers have said yes, is told which device is which, and gives both back."""
    register(cluster, "x1", "x2", "y1")
    scheduler: Dispatcher = make()
    scheduler.submit(apart(), "run")
    scheduler.tick()
    leases = {d.device_id: d.lease for d in cluster.devices() if d.lease}
    assert len(leases) == 2 and {name[0] for name in leases} == {"x", "y"}
    assert len({(lease.nonce, lease.token) for lease in leases.values()}) == 1
    own, other = next(iter(leases.values())).members
    answer(cluster, own, "confirmed")
    assert scheduler.tick() == [] and scheduler.device_of(APART) is scheduler.device_elsewhere(APART) is None
    answer(cluster, other, "confirmed")
    assert kinds(scheduler.tick()) == [("start", APART)]
    assert (scheduler.device_of(APART), scheduler.device_elsewhere(APART)) == (own, other)
    scheduler.started(APART)
    scheduler.ended(APART, ok=True)
    assert set(holders(cluster).values()) == {None} and scheduler.tick() == []


def test_of_two_other_hosts_it_holds_a_device_each(cluster: Cluster, make: type) -> None:
    """With its own under one lease; each host's stages are let in there alone, and all are given back at once."""
    register(cluster, "x1", "x2", "y1")
    scheduler: Dispatcher = make()
    scheduler.submit(apart(n_elsewhere=2), "run")
    scheduler.tick()
    assert set(holders(cluster).values()) == {None} and "of each of 2 other hosts" in why(scheduler)
    register(cluster, "z1")
    scheduler.tick()
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", APART)]
    members = scheduler.held[APART].lease.members
    assert len(members) == 3 and {name[0] for name in members} == {"x", "y", "z"}
    assert scheduler.device_of(APART) == members[0]
    assert [scheduler.device_elsewhere(APART, number) for number in (1, 2, 3)] == [*members[1:], None]
    for place, name in enumerate(members):
        holding = Fence(name, APART).enter(cluster.db)
        assert [d.device_id for d in holding.devices] == [name] and holding.elsewhere == place
        holding.require(elsewhere=place)
        with pytest.raises(LeaseLostError, match="came to"):
            holding.require(elsewhere=(place + 1) % 3)
    scheduler.started(APART)
    scheduler.ended(APART, ok=True)
    assert set(holders(cluster).values()) == {None}


def test_hosts_of_one_name_are_two(cluster: Cluster, make: type) -> None:
    """By their data directories, as everywhere; workers that told none are of one host by its name."""
    register(cluster, "x1", host="same", home="a" * 32)
    register(cluster, "x2", host="same")
    scheduler: Dispatcher = make()
    scheduler.submit(apart(), "run")
    cluster.forget("x2")
    register(cluster, "x2", "x3", host="same", home="a" * 32)
    scheduler.tick()
    assert "hosts with a worker: same. Have one join" in why(scheduler)
    register(cluster, "x3", host="same", home="b" * 32)
    scheduler.tick()
    held = {d.device_id: d.lease for d in cluster.devices() if d.lease}
    assert "x3" in held and len(held) == 2
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", APART)]
    scheduler.submit(job("single"), "")
    scheduler.tick()
    (free,) = {"x1", "x2"} - set(held)
    assert holders(cluster)[free] == "dag|single|000"


def test_it_waits_for_both_and_holds_neither(cluster: Cluster, make: type, clock: Clock) -> None:
    """While one host's only device is busy the other one serves other jobs; then both are its."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    scheduler.submit(job("first"), "")
    scheduler.tick()
    scheduler.submit(apart(submit_s=clock.now), "run")  # too young to have something kept
    scheduler.submit(job("second", submit_s=1500.0), "")
    scheduler.tick()
    assert Counter(filter(None, holders(cluster).values())) == {"dag|first|000": 1, "dag|second|000": 1}
    scheduler.tick()
    busy, needed = why(scheduler).split("; ")
    assert busy == "2 of 2 device(s) busy, the next expected free in 10 s"
    assert needed == "it needs a device, and one of another host, at once"
    confirm(cluster)
    scheduler.tick()
    for name in ("first", "second"):
        scheduler.started(f"dag|{name}|000")
    scheduler.ended("dag|first|000", ok=True)
    scheduler.tick()
    assert "1 of 2 device(s) busy" in why(scheduler) and None in holders(cluster).values()
    scheduler.ended("dag|second|000", ok=True)
    scheduler.tick()
    scheduler.tick()
    assert holders(cluster) == {"x1": APART, "y1": APART}


def test_what_is_held_elsewhere_is_nobody_else_s(cluster: Cluster, make: type) -> None:
    """The policy places nothing there: who waits is told what is there, and has it when it is free again."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    start(cluster, scheduler)
    scheduler.submit(job("single"), "")
    scheduler.submit(apart("two"), "")
    for _ in range(3):
        assert scheduler.tick() == []
    assert set(holders(cluster).values()) == {APART}
    unfit = {name: state.unfit for name, state in scheduler.index.snapshot().states.items()}
    assert sorted(map(len, unfit.values())) == [0, 1]
    assert "2 of 2 device(s) busy" in why(scheduler, "dag|two|000")
    scheduler.ended(APART, ok=True)
    scheduler.tick()
    scheduler.tick()
    assert "dag|single|000" in holders(cluster).values()


def test_its_own_device_is_not_the_one_that_leaves_none_elsewhere(cluster: Cluster, make: type) -> None:
    """Of two GPUs the one whose host has no CPU serves, whichever the policy takes first."""
    for first, second in (("a", "b"), ("b", "a")):
        register(cluster, f"{first}1", device_type="t4", gpu_index=0)
        register(cluster, f"{second}1", device_type="t4", gpu_index=0)
        register(cluster, f"{first}2")
        scheduler: Dispatcher = make()
        start(cluster, scheduler, apart(device_types=frozenset({"t4"})))
        assert scheduler.device_of(APART) == f"{second}1"
        assert scheduler.device_elsewhere(APART) == f"{first}2"
        scheduler.ended(APART, ok=True)
        for name in (f"{first}1", f"{second}1", f"{first}2"):
            assert cluster.forget(name)


@pytest.mark.parametrize("refuses", [0, 1])
def test_one_refusal_gives_both_back_and_counts_no_retry(cluster: Cluster, make: type, refuses: int) -> None:
    """Its device is unfit, of whichever host; with a third host the job runs."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    scheduler.submit(apart(), "run")
    scheduler.tick()
    members = next(d.lease.members for d in cluster.devices() if d.lease)
    sick, well = members[refuses], members[1 - refuses]
    cluster.beat(sick, health="quarantined", reason="hot", queue_s=0)
    answer(cluster, sick, "refused", "hot")
    answer(cluster, well, "confirmed")
    assert scheduler.tick() == []
    assert set(holders(cluster).values()) == {None} and cluster.history(APART) == (0, frozenset())
    scheduler.tick()
    assert why(scheduler) == f"it needs a device, and one of another host; quarantined: {sick}: hot"
    register(cluster, "z1")
    scheduler.tick()
    scheduler.tick()
    assert {name for name, held in holders(cluster).items() if held} == {well, "z1"}


@pytest.mark.parametrize("lost", [0, 1])
def test_the_worker_of_one_is_gone(cluster: Cluster, make: type, lost: int) -> None:
    """The job is run again, and avoids that device alone; the other one may be its again."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    start(cluster, scheduler)
    members = scheduler.held[APART].lease.members
    gone, stays = members[lost], members[1 - lost]
    age(cluster, gone, TTL_S + 1)
    assert kinds(scheduler.tick()) == [("lost", APART)]
    assert set(holders(cluster).values()) == {None}
    assert cluster.history(APART) == (1, frozenset({gone}))
    register(cluster, "z1")
    attempt, avoid = cluster.history(APART)
    scheduler.submit(apart(attempt=attempt, avoid=avoid), "run")
    scheduler.tick()
    scheduler.tick()
    assert {name for name, held in holders(cluster).items() if held} == {stays, "z1"}


def test_a_task_that_was_killed_makes_it_avoid_both(cluster: Cluster, make: type) -> None:
    """Nobody knows whose fault it was; without a third and fourth host it says why it waits."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    start(cluster, scheduler)
    assert scheduler.failed(APART, "it was killed")
    attempt, avoid = cluster.history(APART)
    assert (attempt, avoid) == (1, frozenset({"x1", "y1"}))
    scheduler.submit(apart(attempt=attempt, avoid=avoid), "run")
    register(cluster, "z1")
    scheduler.tick()
    assert why(scheduler) == "it needs a device, and one of another host; it may not run on x1, y1"


def test_another_scheduler_takes_it_over(cluster: Cluster, make: type) -> None:
    """It finds the lease whole, knows which device is which, and ends it on both."""
    register(cluster, "x1", "x2", "y1", "y2")
    first: Dispatcher = make()
    start(cluster, first)
    own, other = first.device_of(APART), first.device_elsewhere(APART)
    second: Dispatcher = make()
    assert kinds(second.tick()) == [("start", APART)]
    assert (second.device_of(APART), second.device_elsewhere(APART)) == (own, other)
    second.started(APART)
    second.submit(job("single", n_devices=2), "")
    second.tick()
    assert second.index.jobs["dag|single|000"].run is None  # neither host has two left
    second.ended(APART, ok=True)
    assert first.tick() == [] and first.device_elsewhere(APART) is None
    second.tick()
    assert sum(held == "dag|single|000" for held in holders(cluster).values()) == 2


def test_a_taken_over_job_that_was_refused_waits_with_the_reason(cluster: Cluster, make: type) -> None:
    """As one that the scheduler took itself: it is no candidate until there are two hosts again."""
    register(cluster, "x1", "y1")
    first: Dispatcher = make()
    first.submit(apart(), "run")
    first.tick()
    second: Dispatcher = make()
    second.tick()
    members = second.held[APART].lease.members
    cluster.beat(members[1], health="quarantined", reason="hot", queue_s=0)
    answer(cluster, members[0], "confirmed")
    answer(cluster, members[1], "refused", "hot")
    for _ in range(3):
        assert second.tick() == []
    assert [spec.job_id for spec in second.aside] == [APART]
    assert why(second) == f"it needs a device, and one of another host; quarantined: {members[1]}: hot"


def test_a_chosen_device_is_its_own_and_the_other_one_any(cluster: Cluster, make: type) -> None:
    """Whichever the policy would have taken; and again after the other one was lost, which alone is avoided."""
    register(cluster, "x1", "y1", "z1")
    others = frozenset({"x1", "z1"})
    scheduler: Dispatcher = make()
    start(cluster, scheduler, apart(avoid=others, not_its_own=others))
    assert scheduler.device_of(APART) == "y1" and scheduler.device_elsewhere(APART) == "x1"
    age(cluster, "x1", TTL_S + 1)
    assert kinds(scheduler.tick()) == [("lost", APART)]
    assert cluster.history(APART) == (1, frozenset({"x1"}))
    spec = apart(attempt=1, avoid=others, not_its_own=frozenset({"z1"}))
    scheduler.submit(spec, "run")
    scheduler.tick()
    scheduler.tick()
    assert {name for name, held in holders(cluster).items() if held} == {"y1", "z1"}


def test_a_named_host_is_the_one_elsewhere(cluster: Cluster, make: type) -> None:
    """Whichever the policy takes first; while there is no such host it waits and names those there are."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    scheduler.submit(apart(elsewhere_on="z"), "run")
    scheduler.tick()
    assert why(scheduler) == "no host or cluster 'z' has a worker; hosts with a worker: x, y"
    scheduler.withdraw(APART, "another name")
    register(cluster, "z1")
    for name in ("z", "x", "y"):
        scheduler.submit(apart(name, elsewhere_on=name), "run")
        scheduler.tick()
        confirm(cluster)
        assert kinds(scheduler.tick()) == [("start", f"dag|{name}|000")]
        scheduler.started(f"dag|{name}|000")
        assert scheduler.device_elsewhere(f"dag|{name}|000") == f"{name}1"
        scheduler.ended(f"dag|{name}|000", ok=True)


def test_where_two_can_not_be_leased_it_says_so(
    cluster: Cluster, make: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that binds a job to one worker's queue, and a PerfDB without transactions."""
    register(cluster, "x1", "y1")
    early: Dispatcher = make("rr_fcfs")
    early.submit(apart(), "run")
    early.tick()
    assert "gives each job one device; it needs 2" in why(early)
    monkeypatch.setattr(cluster, "_grants_gangs", False)
    late: Dispatcher = make()
    late.submit(apart(), "run")
    late.tick()
    assert why(late) == STANDALONE and set(holders(cluster).values()) == {None}


def test_each_host_s_stages_are_told_of_their_own_device(cluster: Cluster, make: type) -> None:
    """The fence knows which host it is on, and lets no stage of the other in; both lose the job together."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    start(cluster, scheduler)
    own, other = scheduler.held[APART].lease.members
    here, there = Fence(own, APART).enter(cluster.db), Fence(other, APART).enter(cluster.db)
    assert [d.device_id for d in here.devices] == [own] and [d.device_id for d in there.devices] == [other]
    assert here.members == there.members == (own, other) and here.token == there.token
    here.require(elsewhere=False)
    there.require(elsewhere=True)
    for holding, elsewhere in ((here, True), (there, False)):
        with pytest.raises(LeaseLostError, match="came to"):
            holding.require(elsewhere=elsewhere)
    token = scheduler.held[APART].lease.token
    cluster.lose(other, token, "its worker was started again")
    for fence, holding in ((Fence(own, APART), here), (Fence(other, APART), there)):
        with pytest.raises(LeaseLostError, match=f"device {other} is gone"):
            fence.check(cluster.db, holding)


def test_a_job_apart_is_kept_as_json() -> None:
    """As another scheduler reads it; with several devices of its own there is no such job."""
    assert job_from_json(to_json(apart())) == apart()
    plain = to_json(job("plain"))
    del plain["elsewhere"]  # written before there were such jobs
    assert job_from_json(plain) == job("plain")
    with pytest.raises(InputError, match="it holds one of its own"):
        apart(n_devices=2)


@pytest.mark.parametrize("seed", [0, 1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_random_jobs_of_one_host_and_of_two_all_end(
    cluster: Cluster, make: type, clock: Clock, seed: int
) -> None:
    """Workers die, refuse and come back, schedulers are replaced: at no moment is a device held twice or a lease by
    halves, each job ends once, and every device is free in the end."""
    rng = random.Random(seed)
    names = [f"{host}{number}" for host in "xyz" for number in range(2)]
    register(cluster, *names)
    jobs: dict[str, QueuedJob] = {}
    for number in range(14):
        more = (
            {"elsewhere": CPU, "n_elsewhere": rng.choice([1, 1, 2])}
            if rng.random() < 0.5
            else {"n_devices": rng.choice([1, 1, 2])}
        )
        spec = job(f"j{number}", rng.uniform(2, 30), submit_s=1000.0 + number, limit_s=1e6, **more)
        jobs[spec.job_id] = spec
    # A user who sees his job wait for what it avoids starts it anew.
    site = Site(cluster, make, clock, rng, names, jobs, dies_ratio=0.01, anew_ratio=0.1)
    site.play()
    assert dict(site.over) == dict.fromkeys(site.jobs, 1), (site.scheduler.held, site.scheduler.aside)
    site.scheduler.tick()
    assert set(holders(cluster).values()) == {None}


def test_only_its_own_host_has_to_be_able_to_do_what_it_asks_for(cluster: Cluster, make: type) -> None:
    """A balancer stands on one of its hosts: whichever has it becomes its own, the other need not. Where none has, it
    waits with the devices and the remedy, until a worker that was started again tells that its host can."""
    lacks = {"capabilities": {LACKS: {"nginx over http": "install nginx"}}}
    register(cluster, "x1", "y1", **lacks)
    scheduler: Dispatcher = make()
    scheduler.submit(apart(ability="nginx over http"), "run")
    scheduler.tick()
    assert "x1, y1: install nginx" in why(scheduler) and set(holders(cluster).values()) == {None}
    register(cluster, "y1")
    scheduler.tick()
    scheduler.tick()
    assert holders(cluster) == {"x1": APART, "y1": APART}
    members = next(d.lease.members for d in cluster.devices() if d.lease)
    assert members == ("y1", "x1")
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", APART)]
    scheduler.started(APART)
    scheduler.ended(APART, ok=True)
    assert set(holders(cluster).values()) == {None}


def test_two_jobs_of_all_hosts_follow_each_other(cluster: Cluster, make: type) -> None:
    """Neither holds a device while it waits, so that none waits for the other for ever."""
    register(cluster, "x1", "y1", "z1")
    scheduler: Dispatcher = make()
    names = ("one", "two")
    for name in names:
        scheduler.submit(apart(name, n_elsewhere=2), "run")
    done = []
    for _ in names:
        scheduler.tick()
        scheduler.tick()
        (held,) = set(holders(cluster).values())
        assert held is not None
        confirm(cluster)
        assert kinds(scheduler.tick()) == [("start", held)]
        scheduler.started(held)
        scheduler.ended(held, ok=True)
        done.append(held)
    assert sorted(done) == ["dag|one|000", "dag|two|000"] and set(holders(cluster).values()) == {None}
