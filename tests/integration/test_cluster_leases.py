"""Leases in a real MongoDB: one per device, whoever asks, whatever dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from inferbench_tasks.cluster import dispatcher as dispatching
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.dispatcher import Action, Dispatcher
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.cluster.waiting import waiting_by_login, waiting_jobs
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.scheduling.eventlog import EventLog, differences, read_log
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(perfdb_uri: str, tmp_path: Path) -> Iterator[Cluster]:
    with PerfDB.connect(perfdb_uri, tmp_path) as db:
        yield Cluster(db)


def device(name: str, **more: object) -> Device:
    return Device.model_validate(
        {"device_id": name, "device_type": "cpu", "name": "a CPU", "host": "here", "cores": (0,), **more}
    )


def job(name: str, est_s: float = 10.0, **more: object) -> QueuedJob:
    values = {
        "job_id": f"dag|{name}|000", "tenant": "t", "spec_hash": name, "submit_s": 1000.0, "est_s": est_s,
        "limit_s": 3 * est_s, "device_types": frozenset({"cpu"}), **more,
    }  # fmt: skip
    return QueuedJob(**values)  # type: ignore[arg-type]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 2000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(cluster: Cluster, clock: Clock, tmp_path: Path) -> Iterator[type]:
    """Dispatchers on one cluster, each with a log of its own; each log must replay to the same decisions."""
    logs: list[Path] = []
    files: list[IO[str]] = []

    class Made(Dispatcher):
        def __init__(self, policy: str = "late_sjf_aged") -> None:
            path = tmp_path / f"log-{len(logs)}.jsonl"
            logs.append(path)
            chosen = POLICIES.load(policy)()
            files.append(path.open("w"))
            super().__init__(cluster, chosen, EventLog(files[-1], chosen.name, chosen.params), clock)

    yield Made
    for file in files:
        file.close()
    for path in logs:
        assert list(differences(read_log(path))) == []


def confirm(cluster: Cluster) -> dict[str, str]:
    """What workers do with grants: say yes. Device -> job."""
    held = {}
    for found in cluster.devices():
        if found.lease:
            cluster.answer(found.device_id, found.lease.token, "confirmed")
            held[found.device_id] = found.lease.job
    return held


def kinds(actions: list[Action]) -> list[tuple[str, str]]:
    return [(a.kind, a.job) for a in actions]


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


def age(cluster: Cluster, name: str, seconds: float) -> None:
    """Make a worker's last heartbeat that old."""
    change = [{"$set": {"heartbeat_at": {"$subtract": ["$$NOW", int(seconds * 1000)]}}}]
    cluster.db.collection("devices").update_one({"_id": name}, change)


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
    assert attempt == 1 and set(avoid) == {f"{first}:0"}
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
    ran: list[tuple[str, int]] = []
    errors: list[BaseException] = []

    def schedule(mine: str) -> None:
        try:
            scheduler: Dispatcher = make()
            left = {f"dag|{mine}{i}|000" for i in range(8)}
            for i in range(8):
                scheduler.submit(job(f"{mine}{i}"), "")
            deadline = time.monotonic() + 60
            while left and time.monotonic() < deadline:
                confirm(cluster)
                for action in scheduler.tick():
                    assert action.kind == "start", action
                    if action.job in left:
                        held = scheduler.held[action.job]
                        ran.append((held.device_id, held.lease.token))
                        scheduler.started(action.job)
                        left.remove(action.job)
                        scheduler.ended(action.job, ok=True)
            assert not left
        except BaseException as error:  # noqa: BLE001 - it belongs to the test, not to the thread
            errors.append(error)

    threads = [threading.Thread(target=schedule, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert len(ran) == len(set(ran)) == 16  # each lease, a device and its token, was used by one job


def test_a_silent_worker_is_not_waited_for(
    cluster: Cluster, make: type, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It beats and does not answer grants: the lease is taken back, the job is not charged."""
    cluster.register(device("d"))
    scheduler: Dispatcher = make()
    scheduler.submit(job("a"), "run-a")
    scheduler.tick()
    clock.now += dispatching.ANSWER_TIMEOUT_S + 1
    scheduler.tick()
    assert scheduler.index.jobs["dag|a|000"].spec.attempt == 0


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
    state = cluster_state(cluster.db, now_s=2000.0)
    assert [(d.device_id, d.state, d.job, d.expected_left_s) for d in state.devices] == [
        ("d", "starting", "dag|a|000", 10.0)
    ]
    assert [(q.device_type, q.waiting, q.expected_s, q.devices) for q in state.queues] == [
        ("cpu", 1, 20.0, 1),
        ("h100", 1, 20.0, 0),
    ]
    reasons = {w.job: w.why for w in state.waiting}
    assert reasons["dag|b|000"] == "1 of 1 device(s) busy, the next expected free in 10 s"
    assert "no device of type h100 was ever registered" in reasons["dag|g|000"]
