"""Leases in a real MongoDB: one per device, whoever asks, whatever dies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cluster import dispatcher as dispatching
from inferbench_tasks.cluster.dispatcher import Dispatcher
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import DEVICES, HISTORY, TTL_S, WAITING, Cluster
from inferbench_tasks.cluster.view import ClusterView
from inferbench_tasks.cluster.waiting import Asker, waiting_by_login, waiting_jobs
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.workers import agent
from inferbench_tasks.workers.agent import Agent
from inferbench_tasks.workers.checks import Check
from tests.schedulers import Clock, age, age_grant, clock, cluster, confirm, device, job, kinds, make, race

__all__ = ["clock", "cluster", "make"]  # fixtures
pytestmark = pytest.mark.integration


def test_of_many_that_ask_at_once_one_gets_the_device(cluster: Cluster) -> None:
    """Sixteen requests for one device: one lease, and the token has grown by one."""
    cluster.register(device("d"))

    def ask(number: int) -> bool:
        lease = cluster.grant("d", f"job-{number}", spec={}, run_id="", now_s=0.0, est_end_s=1.0)
        return lease is not None

    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(ask, range(16)))
    assert sum(got) == 1
    found = cluster.get("d")
    assert found is not None and found.lease is not None
    assert found.token == found.lease.token == 1
    assert found.lease.job == f"job-{got.index(True)}"


def test_an_old_token_releases_nothing(cluster: Cluster) -> None:
    """Who holds an older lease of a device can't end or confirm the present one."""
    cluster.register(device("d"))
    first = cluster.grant("d", "a", spec={}, run_id="", now_s=0.0, est_end_s=1.0)
    assert first is not None and cluster.release("d", first.token, "lost")
    second = cluster.grant("d", "b", spec={}, run_id="", now_s=0.0, est_end_s=1.0)
    assert second is not None and second.token == first.token + 1
    assert not cluster.release("d", first.token, "ended")
    assert not cluster.answer("d", first.token, "confirmed")
    found = cluster.get("d")
    assert found is not None and found.lease == second


def test_an_unfit_or_stopped_device_is_not_leased(cluster: Cluster) -> None:
    """Quarantined or stopped: no lease; registering again does not take a lease away."""
    cluster.register(device("d", health="quarantined", reason="hot"))
    assert cluster.grant("d", "a", spec={}, run_id="", now_s=0.0, est_end_s=1.0) is None
    cluster.beat("d", health="ok", reason="", queue_s=0)
    assert cluster.grant("d", "a", spec={}, run_id="", now_s=0.0, est_end_s=1.0) is not None
    cluster.register(device("d"))
    found = cluster.get("d")
    assert found is not None and found.lease is not None and found.lease.job == "a"
    cluster.stop("d")
    assert cluster.release("d", found.lease.token, "ended")
    assert cluster.grant("d", "b", spec={}, run_id="", now_s=0.0, est_end_s=1.0) is None


def test_an_accused_device_is_quarantined_by_its_own_worker_until_it_is_pardoned(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own checks find nothing; the reason is what was said of it; nobody else is touched."""
    for name in ("d", "e"):
        cluster.register(device(name))
    worker = Agent(device("d"), cluster, [], tmp_path)
    worker.check = lambda: ""  # type: ignore[assignment]
    monkeypatch.setattr(agent, "SETTLE_S", 0.0)
    assert cluster.accuse("d", "slower than its kind") and not cluster.accuse("nobody", "x")
    worker._serve()
    worker._serve()
    worker._beat_at = 0.0
    worker._serve()
    found, other = cluster.get("d"), cluster.get("e")
    assert found is not None and other is not None and other.health == "ok"
    assert (found.health, found.reason) == ("quarantined", "slower than its kind")
    cluster.accuse("d", "")
    worker._beat_at = 0.0
    worker._serve()
    found = cluster.get("d")
    assert found is not None and found.health == "ok"


def test_a_worker_whose_disk_is_full_takes_no_job_until_there_is_room(
    cluster: Cluster, make: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that it was just given is refused with the reason and runs on another device, without a retry counted; no
    further one comes to it, and once there is room it is fit again."""
    full = ["its file system is 99% full"]
    monkeypatch.setattr(
        settings, "disk_full", lambda folder: full[0] if full and folder == tmp_path else None
    )
    monkeypatch.setattr(agent, "SETTLE_S", 0.0)
    monkeypatch.setattr(Check, "_memory", lambda check: "")
    monkeypatch.setattr(Check, "_cores", lambda check: "")
    cluster.register(device("d"))
    worker = Agent(device("d"), cluster, [], tmp_path)
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    assert cluster.get("d").lease is not None  # type: ignore[union-attr]
    for _ in range(3):
        worker._beat_at = 0.0
        worker._serve()
    lease = cluster.get("d").lease  # type: ignore[union-attr]
    assert lease is not None and (lease.state, lease.reason) == ("refused", full[0])
    scheduler.tick()
    scheduler.tick()
    assert cluster.get("d").lease is None  # type: ignore[union-attr]
    rows, _ = waiting_jobs(scheduler.index, scheduler.devices, 2000.0)
    assert rows[0]["why"] == f"quarantined: d: {full[0]}"
    cluster.register(device("e"))
    scheduler.submit(job("b", 20.0), "run-b")
    scheduler.tick()
    assert confirm(cluster) == {"e": "dag|a|000"} and scheduler.index.jobs["dag|a|000"].spec.attempt == 0
    full.clear()
    worker._beat_at = 0.0
    worker._serve()
    scheduler.tick()
    assert confirm(cluster)["d"] == "dag|b|000"


def test_the_shortest_job_starts_first_once_the_worker_said_yes(cluster: Cluster, make: type) -> None:
    """A grant starts nothing; the worker's word does. Then one job after the other, the shortest first."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    for name, est_s in (("long", 90.0), ("short", 3.0), ("middle", 30.0)):
        scheduler.submit(job(name, est_s), f"run-{name}")
    order = []
    for _ in range(3):
        assert kinds(scheduler.tick()) == []
        assert scheduler.device_of(confirm(cluster)["d"]) is None
        [(kind, started)] = kinds(scheduler.tick())
        assert kind == "start" and scheduler.device_of(started) == "d"
        scheduler.started(started)
        assert scheduler.tick() == []
        order.append(JobKey.parse(started).dag_run_id)
        scheduler.ended(started, ok=True)
    assert order == ["short", "middle", "long"]
    assert scheduler.tick() == [] and cluster.get("d").lease is None  # type: ignore[union-attr]


def test_nothing_is_leased_while_the_disk_is_full(cluster: Cluster, make: type) -> None:
    """A job waits with the reason, and is counted for its login; one that has a device goes on; then all goes on."""
    cluster.register(device("d"))
    cluster.register(device("e"))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    confirm(cluster)
    scheduler.held_back = "the disk is full"
    scheduler.submit(job("b", tenant="ann"), "run-b")
    assert kinds(scheduler.tick()) == [("start", "dag|a|000")]
    rows, total = waiting_jobs(scheduler.index, scheduler.devices, 2000.0, scheduler.held_back)
    assert [(row["job"], row["why"]) for row in rows] == [("dag|b|000", "the disk is full")]
    cluster.publish_waiting("s", rows, total, waiting_by_login(scheduler.index))
    assert (cluster.waiting_of("ann"), cluster.waiting_of("t")) == (1, 0)
    scheduler.held_back = None
    scheduler.tick()
    assert confirm(cluster).keys() == {"e"} or scheduler.held.keys() == {"dag|a|000", "dag|b|000"}


def test_many_free_devices_are_leased_in_several_looks(
    cluster: Cluster, make: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor's loop goes on after a while; what is left is decided again, in the same order, and replays."""
    monkeypatch.setattr(dispatching, "GRANTING_S", -1.0)
    monkeypatch.setattr(dispatching, "LEAST_GRANTS", 2)
    for number in range(5):
        cluster.register(device(f"d{number}"))
    scheduler: Dispatcher = make()
    for number in range(6):
        scheduler.submit(job(f"j{number}", 10.0 + number), f"run-{number}")
    held = []
    for _ in range(3):
        scheduler.tick()
        held.append(sorted(scheduler.held))
    assert [len(jobs) for jobs in held] == [2, 4, 5]
    assert held[-1] == [f"dag|j{number}|000" for number in range(5)]


def test_what_many_jobs_went_through_is_asked_for_at_once(cluster: Cluster) -> None:
    """Each has its own losses; one that lost none avoids nothing."""
    cluster.remember("dag|a|000", 1, ["d0"])
    cluster.remember("dag|b|000", 2, ["d1", "d0"])
    cluster.register(device("d0"))
    view = ClusterView(cluster, ["dag|a|000", "dag|c|000"])
    assert view.history("dag|a|000") == cluster.history("dag|a|000") == (1, frozenset({"d0"}))
    assert view.history("dag|c|000") == cluster.history("dag|c|000") == (0, frozenset())
    assert cluster.history("dag|b|000") == (2, frozenset({"d0", "d1"}))
    assert [found.device_id for found in view.devices()] == ["d0"]


def test_a_refusal_quarantines_and_costs_the_job_nothing(cluster: Cluster, make: type) -> None:
    """The job waits again at its own submit time, no retry is counted; the device is back when it is fit."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    lease = cluster.get("d").lease  # type: ignore[union-attr]
    assert lease is not None
    cluster.answer("d", lease.token, "refused", "others use 97% of its core(s)")
    cluster.beat("d", health="quarantined", reason="others use 97% of its core(s)", queue_s=0)
    assert scheduler.tick() == []
    rows, total = waiting_jobs(scheduler.index, scheduler.devices, 2000.0)
    spec = scheduler.index.jobs["dag|a|000"].spec
    assert total == 1 and spec.attempt == 0 and spec.submit_s == 1000.0 and not spec.avoid
    scheduler.tick()
    rows, _ = waiting_jobs(scheduler.index, scheduler.devices, 2000.0)
    assert "quarantined: d: others use 97%" in rows[0]["why"]
    cluster.beat("d", health="ok", reason="", queue_s=0)
    scheduler.tick()
    assert confirm(cluster) == {"d": "dag|a|000"}


def test_a_lost_worker_costs_a_retry_elsewhere(cluster: Cluster, make: type) -> None:
    """Its lease ends, the job is to be run again, avoids that device, and its third loss is the last."""
    for name in ("d0", "d1"):
        cluster.register(device(name))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    [(first, _)] = confirm(cluster).items()
    scheduler.tick()
    scheduler.started("dag|a|000")
    age(cluster, first, TTL_S + 1)
    assert kinds(scheduler.tick()) == [("lost", "dag|a|000")]
    assert not scheduler.knows("dag|a|000")
    attempt, avoid = cluster.history("dag|a|000")
    assert attempt == 1 and set(avoid) == {first}
    scheduler.submit(job("a", attempt=attempt, avoid=avoid), "run-a")
    scheduler.tick()
    assert list(confirm(cluster)) == [({"d0", "d1"} - {first}).pop()]
    scheduler.tick()
    assert scheduler.failed("dag|a|000", "load was killed")
    scheduler.submit(job("a", attempt=2, avoid=cluster.history("dag|a|000")[1]), "run-a")
    cluster.beat(first, health="ok", reason="", queue_s=0)
    assert kinds(scheduler.tick()) == [("give_up", "dag|a|000")]  # it avoids both
    assert not any(d.lease for d in cluster.devices())


def test_a_job_beyond_its_limit_is_stopped(cluster: Cluster, make: type, clock: Clock) -> None:
    """Its time counts from its start, not from its grant."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a", 10.0), "run-a")
    scheduler.tick()
    confirm(cluster)
    scheduler.tick()
    clock.now += 5
    scheduler.started("dag|a|000")
    clock.now += 29
    cluster.beat("d", health="ok", reason="", queue_s=0)
    assert scheduler.tick() == []
    clock.now += 2
    assert kinds(scheduler.tick()) == [("stop", "dag|a|000")]
    assert cluster.get("d").lease is None  # type: ignore[union-attr]


def test_a_new_scheduler_takes_over(cluster: Cluster, make: type) -> None:
    """After a crash the leases that are held stay held; what waits is submitted anew, in its old order."""
    cluster.register(device("d"))
    before: Dispatcher = make()
    before.submit(job("a", 5.0), "run-a")
    before.tick()
    confirm(cluster)
    after: Dispatcher = make()
    after.submit(job("b", 5.0, submit_s=900.0), "run-b")
    after.submit(job("c", 5.0, submit_s=800.0), "run-c")
    assert kinds(after.tick()) == [("start", "dag|a|000")]
    assert after.device_of("dag|a|000") == "d"
    assert after.index.jobs["dag|a|000"].spec == job("a", 5.0)
    after.ended("dag|a|000", ok=True)
    after.tick()
    assert confirm(cluster) == {"d": "dag|c|000"}


def test_a_new_scheduler_knows_that_it_does_not_know_yet(cluster: Cluster, make: type, clock: Clock) -> None:
    """Until it has looked at the leases, and when it could not look for a while, no job counts as without a device."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    assert not scheduler.knows_leases()
    scheduler.tick()
    assert scheduler.knows_leases()
    clock.now += 60
    assert not scheduler.knows_leases()


def test_two_schedulers_never_share_a_device(cluster: Cluster, make: type) -> None:
    """Each with jobs of its own, both at full speed: at no moment has a device two jobs, each job runs once."""
    names = [f"d{i}" for i in range(3)]
    for name in names:
        cluster.register(device(name))
    leases = race(cluster, make, [1] * 8)
    assert len(leases) == len(set(leases)) == 16  # each lease, a device and its token, was used by one job


def test_a_silent_worker_is_not_waited_for(cluster: Cluster, make: type) -> None:
    """It beats and does not answer grants: the lease is taken back, the job is not charged."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    age_grant(cluster, "d", dispatching.ANSWER_TIMEOUT_S + 1)
    scheduler.tick()
    assert scheduler.index.jobs["dag|a|000"].spec.attempt == 0
    found = cluster.get("d")
    assert found is not None and (found.lease is None or found.lease.token == 2)


def test_how_long_a_worker_has_to_answer_is_told_by_no_scheduler_s_clock(
    cluster: Cluster, make: type, clock: Clock
) -> None:
    """One whose clock is ahead by more than that leaves the fresh grant of another one alone, and so does one whose
    clock is set while it waits."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    ahead: Dispatcher = make()
    ahead.clock = lambda: clock.now + dispatching.ANSWER_TIMEOUT_S + 5
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    assert ahead.tick() == [] and ahead.held.keys() == {"dag|a|000"}
    clock.now += dispatching.ANSWER_TIMEOUT_S + 5
    assert scheduler.tick() == [] and ahead.tick() == []
    found = cluster.get("d")
    assert found is not None and found.lease is not None and found.lease_age_s < 10
    assert (found.lease.token, found.lease.state) == (1, "granted")
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", "dag|a|000")]


@pytest.mark.parametrize(
    ("field", "wrong", "state"),
    [("health", "draining", "quarantined"), ("lease", {"job": "x"}, "quarantined"), ("host", None, "gone")],
)
def test_a_device_that_can_t_be_read_keeps_nobody_from_the_others(
    cluster: Cluster, make: type, field: str, wrong: object, state: str
) -> None:
    """What is wrong is there for all to see; jobs go on on the others, and one that has only this one to wait for is
    told why. Once it can be read again it is given jobs."""
    for name in ("d", "sick"):
        cluster.register(device(name, device_type="cpu" if name == "d" else "t4"))
    before = cluster.db.collection(DEVICES).find_one({"_id": "sick"})
    assert before is not None
    cluster.db.collection(DEVICES).update_one({"_id": "sick"}, {"$set": {field: wrong}})
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.submit(job("t", device_types=frozenset({"t4"})), "run-t")
    scheduler.tick()
    assert confirm(cluster) == {"d": "dag|a|000"}
    assert kinds(scheduler.tick()) == [("start", "dag|a|000")]
    rows, total = waiting_jobs(scheduler.index, scheduler.devices, 2000.0)
    said = f"its document in PerfDB can't be read ({field}"
    assert total == 1 and (state == "gone" or f"quarantined: sick: {said}" in rows[0]["why"])
    seen = next(one for one in cluster_state(cluster.db).devices if one.device_id == "sick")
    assert seen.state == state and said in seen.reason
    cluster.db.collection(DEVICES).replace_one({"_id": "sick"}, before)
    cluster.beat("sick", health="ok", reason="", queue_s=0)
    scheduler.tick()
    assert confirm(cluster)["sick"] == "dag|t|000"


def test_what_schedulers_wrote_and_nobody_can_read_is_skipped_and_told(cluster: Cluster, make: type) -> None:
    """Waiting jobs, their counts and histories of others stay; a time that is no time is none."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    scheduler.held_back = "the disk is full"
    scheduler.submit(job("b", tenant="ann"), "run-b")
    scheduler.tick()
    rows, total = waiting_jobs(scheduler.index, scheduler.devices, 2000.0, scheduler.held_back)
    sick = {**rows[0], "job": "sick", "priority": "high"}
    cluster.publish_waiting("s", [*rows, sick], total, waiting_by_login(scheduler.index))
    cluster.publish_waiting("t", [], 0)
    waiting = cluster.db.collection(WAITING)
    waiting.update_one(
        {"_id": "t"}, {"$set": {"jobs": "none", "by_login": [7, {"login": "ann", "jobs": "1"}]}}
    )
    waiting.insert_one({"_id": "u", "jobs": rows, "at": "now"})
    state = cluster_state(cluster.db)
    assert [one.job for one in state.waiting] == ["dag|b|000"] and cluster.waiting_of("ann") == 1
    whole, told = state.unreadable
    assert whole.startswith("What scheduler t published") and "jobs is no list" in whole
    assert told.startswith("The waiting job sick") and "priority: " in told
    cluster.remember("one", 2, ["d"])
    cluster.db.collection(HISTORY).insert_one({"_id": "two", "attempt": "often", "avoid": ["d"]})
    assert cluster.histories(["one", "two"]) == {"one": (2, frozenset("d"))}
    assert cluster.history("two") == (0, frozenset())
    cluster.db.collection(DEVICES).update_one({"_id": "d"}, {"$set": {"heartbeat_at": "now"}})
    (seen,) = cluster.devices()
    assert seen.health == "quarantined" and not seen.present(TTL_S)


def test_a_job_keeps_its_device_though_that_one_s_document_can_t_be_read(
    cluster: Cluster, make: type
) -> None:
    """What runs there goes on, and gives it back."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    confirm(cluster)
    scheduler.tick()
    scheduler.started("dag|a|000")
    cluster.db.collection(DEVICES).update_one({"_id": "d"}, {"$set": {"health": "draining"}})
    assert scheduler.tick() == [] and scheduler.device_of("dag|a|000") == "d"
    scheduler.ended("dag|a|000", ok=True)
    found = cluster.get("d")
    assert found is not None and found.lease is None and found.health == "quarantined"


def test_what_people_see(cluster: Cluster, make: type) -> None:
    """Devices with their jobs, queues in expected seconds, and a reason for each job that waits."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a", 10.0), "run-a")
    scheduler.submit(job("b", 20.0), "run-b")
    scheduler.submit(job("g", 20.0, device_types=frozenset({"h100"})), "run-g")
    scheduler.tick()
    rows, total = waiting_jobs(scheduler.index, scheduler.devices, 2000.0)
    cluster.publish_waiting("s", rows, total)
    age_grant(cluster, "d", 4)  # by PerfDB's clock: the scheduler's stands still
    state = cluster_state(cluster.db)
    assert [(d.device_id, d.state, d.job) for d in state.devices] == [("d", "starting", "dag|a|000")]
    assert state.devices[0].expected_left_s == pytest.approx(6.0, abs=3.0)
    assert [(q.device_type, q.waiting, q.expected_s, q.devices) for q in state.queues] == [
        ("cpu", 1, 20.0, 1),
        ("h100", 1, 20.0, 0),
    ]
    reasons = {w.job: w.why for w in state.waiting}
    assert reasons["dag|b|000"] == "1 of 1 device(s) busy, the next expected free in 10 s"
    assert "no device of type h100 was ever registered" in reasons["dag|g|000"]


def test_jobs_of_a_tenant_that_is_withheld_wait_while_others_run(
    cluster: Cluster, make: type, clock: Clock
) -> None:
    """A job that came first gets no device until its tenant is named no more; what it waits for is said meanwhile."""
    first = make()
    cluster.register(device("d"))
    ann, bob, late = job("a", tenant="ann"), job("b", tenant="bob", submit_s=1500.0), job("c", tenant="ann")
    first.submit(ann, "a.000")
    first.submit(bob, "b.000")
    first.withhold({"ann": "ann has used her minutes"})
    first.submit(late, "c.000")
    assert first.knows(ann.job_id) and first.knows(late.job_id)
    first.tick()
    assert confirm(cluster) == {"d": bob.job_id}
    askers = {ann.job_id: Asker("somebody", "ann")}
    rows, total = waiting_jobs(first.index, first.devices, clock.now, askers=askers, aside=first.aside)
    assert [(r["user"], r["login"], r["why"]) for r in rows] == [
        ("somebody", "ann", "ann has used her minutes"), ("ann", None, "ann has used her minutes"),
    ]  # fmt: skip
    assert total == 2 and waiting_by_login(first.index, first.aside) == {"ann": 2}
    first.withdraw(late.job_id, "ended while it waited")
    first.ended(bob.job_id, ok=True)
    first.tick()
    assert confirm(cluster) == {}
    first.withhold({})
    first.tick()
    assert confirm(cluster) == {"d": ann.job_id} and not first.aside and not first.knows(late.job_id)


def test_what_runs_of_a_withheld_tenant_goes_on(cluster: Cluster, make: type) -> None:
    """Its lease is held until the job ends; one that another scheduler gave it is taken in as any other."""
    first, other = make(), make()
    cluster.register(device("d"))
    ann = job("a", tenant="ann")
    first.submit(ann, "a.000")
    other.withhold({"ann": "used up"})
    other.submit(ann, "a.000")
    first.tick()
    confirm(cluster)
    first.withhold({"ann": "used up"})
    for dispatcher in (first, other):
        dispatcher.tick()
        assert dispatcher.device_of(ann.job_id) == "d" and not dispatcher.aside
    first.ended(ann.job_id, ok=True)
    other.tick()
    assert other.held == {}
