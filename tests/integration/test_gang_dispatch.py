"""The policy at work on jobs of several devices, on a real PerfDB: whole or not at all, nobody waits for ever."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cluster import dispatcher as dispatching
from inferbench_tasks.cluster.device import LACKS
from inferbench_tasks.cluster.dispatcher import STANDALONE, Dispatcher
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import DEVICES, TTL_S, Cluster
from inferbench_tasks.cluster.waiting import waiting_jobs
from inferbench_tasks.provider.api.cluster import cluster_now
from inferbench_tasks.provider.ui.cluster_page import cluster as cluster_page
from inferbench_tasks.scheduling.model import QueuedJob
from tests.random_jobs import Site
from tests.schedulers import (
    Clock,
    age,
    age_grant,
    answer,
    clock,
    cluster,
    confirm,
    device,
    holders,
    job,
    kinds,
    make,
    race,
    register,
)

__all__ = ["clock", "cluster", "make"]  # fixtures


pytestmark = pytest.mark.integration
GANG = "dag|gang|000"


def gang(n_devices: int = 2, est_s: float = 10.0, **more: object) -> QueuedJob:
    return job("gang", est_s, n_devices=n_devices, **more)


def why(scheduler: Dispatcher, name: str = GANG) -> str:
    rows, _ = waiting_jobs(scheduler.index, scheduler.devices, 2000.0, aside=scheduler.aside)
    return next(str(row["why"]) for row in rows if row["job"] == name)


def test_a_gang_starts_when_the_last_of_its_workers_has_said_yes(cluster: Cluster, make: type) -> None:
    """Both devices of the host are leased at once; one worker's word starts nothing; both are given back at its end;
    people see meanwhile who holds what together."""
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    scheduler.tick()
    assert holders(cluster) == {"a": GANG, "b": GANG}
    answer(cluster, "a", "confirmed")
    assert scheduler.tick() == [] and scheduler.device_of(GANG) is None
    answer(cluster, "b", "confirmed")
    assert kinds(scheduler.tick()) == [("start", GANG)] and scheduler.device_of(GANG) == "a"
    scheduler.started(GANG)
    state = cluster_state(cluster.db)
    assert [(d.state, d.job, d.held_with) for d in state.devices] == [("busy", GANG, ["a", "b"])] * 2
    scheduler.ended(GANG, ok=True)
    assert holders(cluster) == {"a": None, "b": None} and scheduler.tick() == []


def test_people_see_what_is_held_together_and_how_many_a_job_waits_for(
    cluster: Cluster, make: type, perfdb_uri: str
) -> None:
    """On the page, over REST and in ``status``: both devices name each other, the waiting job its number and reason."""
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    scheduler.submit(job("next", n_devices=2), "run-n")
    scheduler.tick()
    confirm(cluster)
    scheduler.tick()
    rows, total = waiting_jobs(scheduler.index, scheduler.devices, 2000.0)
    cluster.publish_waiting("s", rows, total)
    reason = "2 of 2 device(s) busy, the next expected free in 10 s, 2 of one host are needed at once"
    state = cluster_now(cluster.db)
    assert [(w["devices"], w["why"]) for w in state["waiting"]] == [(2, reason)]
    shown = bytes(cluster_page(cluster.db, hours=6).body).decode()
    # Once with each device, and once with their host.
    assert shown.count('<td class="">a, b</td>') == 3 and reason in shown
    env = os.environ | {settings.PERFDB_URI: perfdb_uri}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "status"]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert told.count("a, b") == 2 and "2 of one host are needed at once" in told


def test_one_refusal_gives_all_devices_back_and_costs_nothing(cluster: Cluster, make: type) -> None:
    """The fit device is free for others at once; the gang waits at its old place with the reason, uncharged."""
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    scheduler.tick()
    answer(cluster, "a", "confirmed")
    answer(cluster, "b", "refused", "others use 97% of its core(s)")
    cluster.beat("b", health="quarantined", reason="others use 97% of its core(s)", queue_s=0)
    scheduler.submit(job("single", 99.0), "run-s")
    scheduler.tick()
    assert holders(cluster) == {"a": "dag|single|000", "b": None}
    spec = scheduler.index.jobs[GANG].spec
    assert spec.attempt == 0 and not spec.avoid
    scheduler.tick()
    assert why(scheduler) == "quarantined: b: others use 97% of its core(s)"


def test_a_worker_that_does_not_answer_gives_all_back(cluster: Cluster, make: type) -> None:
    """One of two says yes, the other nothing: the lease is taken back from both, the job is not charged."""
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    scheduler.tick()
    answer(cluster, "a", "confirmed")
    token = cluster.get("a").token  # type: ignore[union-attr]
    for name in ("a", "b"):
        age_grant(cluster, name, dispatching.ANSWER_TIMEOUT_S + 1)
    scheduler.tick()
    assert scheduler.index.jobs[GANG].spec.attempt == 0
    assert all(d.lease is None or d.lease.token > token for d in cluster.devices())


@pytest.mark.parametrize("dead", ["a", "b"])
def test_a_lost_worker_frees_the_whole_gang_and_is_avoided_alone(
    cluster: Cluster, make: type, dead: str
) -> None:
    """Whichever of the two it is: both devices are free, the job is run again on the other two, once."""
    for name in ("a", "b", "c"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    scheduler.tick()
    assert set(confirm(cluster)) == {"a", "b"}
    scheduler.tick()
    scheduler.started(GANG)
    age(cluster, dead, TTL_S + 1)
    [action] = scheduler.tick()
    assert (action.kind, action.job) == ("lost", GANG) and dead in action.reason
    assert set(holders(cluster).values()) == {None}
    attempt, avoid = cluster.history(GANG)
    assert attempt == 1 and set(avoid) == {dead}
    other: Dispatcher = make()  # a scheduler that counts the devices anew
    other.submit(gang(attempt=attempt, avoid=avoid), "run-g")
    other.tick()
    assert set(confirm(cluster)) == {"a", "b", "c"} - {dead}
    assert kinds(other.tick()) == [("start", GANG)]


def test_a_new_scheduler_takes_over_a_gang(cluster: Cluster, make: type) -> None:
    """It is held on, started and ended as a whole by the one that comes after."""
    for name in ("a", "b"):
        cluster.register(device(name))
    before: Dispatcher = make()
    before.submit(gang(), "run-g")
    before.tick()
    confirm(cluster)
    after: Dispatcher = make()
    assert kinds(after.tick()) == [("start", GANG)]
    assert after.index.jobs[GANG].spec == gang()
    after.ended(GANG, ok=True)
    assert holders(cluster) == {"a": None, "b": None}
    before.tick()
    assert before.held == {} and not before.knows(GANG)


def test_a_gang_stays_on_one_host(cluster: Cluster, make: type) -> None:
    """Two hosts with one free device each are not enough; the reason says what each has."""
    cluster.register(device("x.cpu-0", host="x"))
    cluster.register(device("y.cpu-0", host="y"))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    assert scheduler.tick() == []
    assert set(holders(cluster).values()) == {None}
    assert why(scheduler) == "it needs 2 devices of type cpu on one host; there are 1 on x, 1 on y"
    cluster.register(device("y.cpu-1", host="y"))
    scheduler.tick()
    assert holders(cluster) == {"x.cpu-0": None, "y.cpu-0": GANG, "y.cpu-1": GANG}


def test_devices_of_another_type_do_not_count(cluster: Cluster, make: type) -> None:
    """A CPU and a GPU of one host are no gang."""
    cluster.register(device("a"))
    cluster.register(device("g", device_type="h100", gpu_index=0))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(device_types=frozenset({"cpu", "h100"})), "run-g")
    scheduler.tick()
    assert set(holders(cluster).values()) == {None}


def test_short_jobs_do_not_starve_a_gang(cluster: Cluster, make: type, clock: Clock) -> None:
    """Singles that come for ever, two at a time and shorter: the gang has both devices within minutes."""
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    ends: dict[str, float] = {}
    for step in range(200):
        for number in range(2):
            scheduler.submit(job(f"s{step}-{number}", 5.0 + number, submit_s=clock.now), "")
        if step == 3:
            scheduler.submit(gang(est_s=30.0, submit_s=clock.now), "run-g")
        for name in [name for name, end_s in ends.items() if end_s <= clock.now]:
            del ends[name]
            scheduler.ended(name, ok=True)
        for name in ("a", "b"):
            cluster.beat(name, health="ok", reason="", queue_s=0)
        scheduler.tick()
        confirm(cluster)
        for action in scheduler.tick():
            scheduler.started(action.job)
            ends[action.job] = clock.now + scheduler.index.jobs[action.job].spec.est_s
        if GANG in ends:
            break
        clock.now += 5.0
    assert GANG in ends
    assert set(holders(cluster).values()) == {GANG}


def test_a_policy_that_binds_jobs_to_workers_gives_each_one_device(cluster: Cluster, make: type) -> None:
    """``rr_fcfs`` knows workers, not hosts: jobs take turns over them, and a gang waits with the reason."""
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make("rr_fcfs")
    scheduler.submit(gang(), "run-g")
    for name in ("s", "t"):
        scheduler.submit(job(name), "")
        scheduler.tick()
    assert sorted(filter(None, holders(cluster).values())) == ["dag|s|000", "dag|t|000"]
    assert why(scheduler) == "the policy rr_fcfs gives each job one device; it needs 2"


def test_half_a_lease_is_left_alone_and_then_given_back(cluster: Cluster, make: type, clock: Clock) -> None:
    """A view in the middle of a commit starts nothing and loses nothing; a half that stays is given back."""
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    scheduler.tick()
    documents = cluster.db.collection(DEVICES)
    lease = documents.find_one({"_id": "b"})["lease"]  # type: ignore[index]
    documents.update_one({"_id": "b"}, {"$set": {"lease": None}})
    assert scheduler.tick() == [] and GANG in scheduler.held
    documents.update_one({"_id": "b"}, {"$set": {"lease": lease}})
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", GANG)]
    scheduler.started(GANG)
    documents.update_one({"_id": "b"}, {"$set": {"lease": None}})
    other: Dispatcher = make()
    assert other.tick() == [] and not other.knows(GANG)
    clock.now += dispatching.ANSWER_TIMEOUT_S + 1
    other.tick()
    assert holders(cluster) == {"a": None, "b": None}


def test_on_a_standalone_server_a_gang_waits_with_the_reason(
    cluster: Cluster, make: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single jobs run there as ever."""
    monkeypatch.setattr(cluster, "_grants_gangs", False)
    for name in ("a", "b"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(gang(), "run-g")
    scheduler.submit(job("s"), "")
    scheduler.tick()
    assert why(scheduler) == STANDALONE
    assert sorted(filter(None, holders(cluster).values())) == ["dag|s|000"]
    scheduler.withhold({})
    assert scheduler.aside == {gang(): STANDALONE}


@pytest.mark.parametrize("seed", range(4))
def test_random_gangs_and_singles_all_end(cluster: Cluster, make: type, clock: Clock, seed: int) -> None:
    """Workers die, refuse and come back, tasks are killed, schedulers are replaced: at no moment is a device held twice
    or a gang by halves, no job waits for ever, each ends once, and every device is free in the end."""
    rng = random.Random(seed)
    names = [f"{host}{number}" for host in "xy" for number in range(3)]
    register(cluster, *names)
    several = [
        job(
            f"j{number}",
            rng.uniform(2, 30),
            n_devices=rng.choice([1, 1, 2, 2, 3]),
            submit_s=1000.0 + number,
            limit_s=1e6,
        )
        for number in range(14)
    ]
    jobs = {spec.job_id: spec for spec in several}
    site = Site(cluster, make, clock, rng, names, jobs, dies_ratio=0.02, fails_ratio=0.1)
    site.play()
    assert dict(site.over) == dict.fromkeys(site.jobs, 1), site.scheduler.held
    site.scheduler.tick()
    assert set(holders(cluster).values()) == {None}


def test_two_schedulers_share_gangs_and_singles(cluster: Cluster, make: type) -> None:
    """Both at full speed with jobs of their own on four devices: each job has its devices once and alone, none waits
    for ever."""
    for number in range(4):
        cluster.register(device(f"d{number}"))
    sizes = [1 + i % 3 for i in range(8)]
    leases = race(cluster, make, sizes)
    assert len(leases) == len(set(leases)) == 2 * sum(sizes)


def test_a_gang_gets_no_host_that_lacks_what_it_needs(cluster: Cluster, make: type) -> None:
    """Though that one alone is free; once its workers begin anew with it the job has it, and is the same job still."""
    lacks = {"capabilities": {LACKS: {"nginx over http": "install nginx"}}}
    register(cluster, "x1", "x2", **lacks)
    register(cluster, "y1", "y2")
    scheduler: Dispatcher = make()
    scheduler.submit(job("before", n_devices=2, ability="nginx over http"), "run-b")
    scheduler.tick()
    assert holders(cluster) == {"x1": None, "x2": None, "y1": "dag|before|000", "y2": "dag|before|000"}
    scheduler.submit(gang(ability="nginx over http"), "run-g")
    scheduler.tick()
    assert "2 of 2 device(s) busy" in why(scheduler) and holders(cluster)["x1"] is None
    register(cluster, "x1", "x2")
    scheduler.tick()
    assert [holders(cluster)[name] for name in ("x1", "x2")] == [GANG] * 2
    lease = scheduler.held[GANG].lease
    assert lease.spec["unable"] == lease.spec["avoid"] == [] and lease.spec["submit_s"] == gang().submit_s


def test_a_gang_waits_where_no_host_has_what_it_needs(cluster: Cluster, make: type) -> None:
    """With the devices and the remedy; it is not given up, and what needs nothing runs meanwhile."""
    register(cluster, "x1", "x2", capabilities={LACKS: {"nginx over http": "install nginx"}})
    scheduler: Dispatcher = make()
    scheduler.submit(gang(ability="nginx over http"), "run-g")
    assert scheduler.tick() == [] and scheduler.tick() == []
    assert "x1, x2: install nginx" in why(scheduler) and set(holders(cluster).values()) == {None}
    scheduler.submit(job("single"), "run-s")
    scheduler.tick()
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", "dag|single|000")]
    register(cluster, "y1", "y2")
    scheduler.tick()
    assert [holders(cluster)[name] for name in ("y1", "y2")] == [GANG] * 2
