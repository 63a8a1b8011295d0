"""Leases of several devices in a real MongoDB: all or none, whoever asks, whatever dies."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pymongo.client_session import ClientSession

from inferbench_tasks import settings
from inferbench_tasks.cluster.device import Device, Lease
from inferbench_tasks.cluster.store import DEVICES, Cluster
from inferbench_tasks.errors import LeaseLostError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.fence import Fence

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(perfdb_uri: str, tmp_path: Path) -> Iterator[Cluster]:
    with PerfDB.connect(perfdb_uri, tmp_path) as db:
        yield Cluster(db)


def register(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.register(Device(device_id=name, device_type="cpu", name="a CPU", host="h", cores=(0,)))


def grant(cluster: Cluster, job: str, *names: str) -> Lease | None:
    first, *others = names
    return cluster.grant(first, job, spec={}, run_id="", now_s=0.0, est_end_s=1.0, others=others)


def holders(cluster: Cluster) -> dict[str, str | None]:
    return {d.device_id: d.lease.job if d.lease else None for d in cluster.devices()}


def test_a_gang_has_one_token_on_all_its_devices(cluster: Cluster) -> None:
    """Above every token that any of them ever had; each device names all of them, the first first."""
    register(cluster, "a", "b", "c")
    for _ in range(3):
        alone = grant(cluster, "single", "b")
        assert alone is not None and cluster.release("b", alone.token, "ended")
    lease = grant(cluster, "gang", "c", "b")
    assert lease is not None and lease.token == 4 and lease.members == ("c", "b")
    by_id = {d.device_id: d for d in cluster.devices()}
    assert by_id["b"].lease == by_id["c"].lease == lease
    assert by_id["b"].token == by_id["c"].token == 4 and by_id["a"].token == 0
    assert by_id["b"].held_with == ("c", "b") and by_id["a"].held_with == ()


@pytest.mark.parametrize("obstacle", ["leased", "quarantined", "stopped", "unknown"])
def test_one_device_that_is_not_free_leaves_all_as_they_were(cluster: Cluster, obstacle: str) -> None:
    """No lease, no token counted, whichever of the devices it is."""
    register(cluster, "a", "c", *([] if obstacle == "unknown" else ["b"]))
    if obstacle == "leased":
        assert grant(cluster, "other", "b")
    elif obstacle == "quarantined":
        cluster.beat("b", health="quarantined", reason="hot", queue_s=0)
    elif obstacle == "stopped":
        cluster.stop("b")
    before = {d.device_id: (d.token, d.lease) for d in cluster.devices()}
    for order in (("a", "b", "c"), ("b", "a", "c"), ("c", "a", "b")):
        assert grant(cluster, "gang", *order) is None
    assert {d.device_id: (d.token, d.lease) for d in cluster.devices()} == before


def test_a_gang_is_given_back_whole_and_by_its_holder_only(cluster: Cluster) -> None:
    """An old token gives nothing back; the right one all devices at once, with the outcome on each."""
    register(cluster, "a", "b")
    first = grant(cluster, "one", "a", "b")
    assert first is not None and cluster.release("a", first.token, "lost", ["b"])
    second = grant(cluster, "two", "b", "a")
    assert second is not None and second.token == first.token + 1
    assert not cluster.release("a", first.token, "ended", ["b"])
    assert holders(cluster) == {"a": "two", "b": "two"}
    assert cluster.release("b", second.token, "ended", ["a"])
    assert holders(cluster) == {"a": None, "b": None}
    assert [d.last.token for d in cluster.devices() if d.last] == [second.token] * 2


def test_gangs_that_ask_at_once_in_any_order_never_share_nor_block(cluster: Cluster) -> None:
    """Four threads want overlapping pairs, named in both orders, while workers beat: one or none gets them, none waits
    for another, and each that got them had them alone."""
    names = ["a", "b", "c"]
    register(cluster, *names)
    stop = threading.Event()

    def beat() -> None:
        while not stop.is_set():
            for name in names:
                cluster.beat(name, health="ok", reason="", queue_s=0.0)

    def ask(number: int) -> int:
        rng, granted = random.Random(number), 0
        for attempt in range(40):
            first, *others = rng.sample(names, rng.choice([1, 2, 2, 3]))
            job = f"job-{number}-{attempt}"
            lease = cluster.grant(first, job, spec={}, run_id="", now_s=0.0, est_end_s=1.0, others=others)
            if lease is None:
                continue
            granted += 1
            held = {d.device_id: d.lease.nonce if d.lease else None for d in cluster.devices()}
            assert {held[name] for name in lease.members} == {lease.nonce}
            assert cluster.release(first, lease.token, "ended", others)
        return granted

    beats = threading.Thread(target=beat)
    beats.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(ask, range(4))) >= 40
    finally:
        stop.set()
        beats.join()
    assert set(holders(cluster).values()) == {None}


def test_a_commit_whose_answer_was_lost_is_the_same_lease(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is repeated, as after a server that died, and finds its own lease: one token, not two."""
    register(cluster, "a", "b")
    transaction = cluster.db.transaction

    def twice(operation: object, doing: str, patience_s: float) -> object:
        transaction(operation, doing, patience_s)  # type: ignore[arg-type]
        return transaction(operation, doing, patience_s)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster.db, "transaction", twice)
    lease = grant(cluster, "gang", "a", "b")
    assert lease is not None and lease.token == 1
    assert holders(cluster) == {"a": "gang", "b": "gang"}


def test_a_scheduler_that_dies_between_two_devices_leaves_neither_leased(cluster: Cluster) -> None:
    """Its transaction was never committed: what it wrote is not there, and the devices can be leased."""
    register(cluster, "a", "b")

    class Died(Exception):
        pass

    def half(session: ClientSession) -> None:
        cluster.db.collection(DEVICES).update_one(
            {"_id": "a"}, {"$set": {"lease": {"job": "x"}}}, session=session
        )
        raise Died

    with pytest.raises(Died):
        cluster.db.transaction(half, "dying", 3.0)
    assert holders(cluster) == {"a": None, "b": None}
    assert grant(cluster, "gang", "a", "b") is not None


def test_a_replica_set_grants_gangs(cluster: Cluster) -> None:
    """The embedded server is one."""
    assert cluster.grants_gangs


def test_a_stage_is_told_of_all_devices_and_may_use_their_cores(cluster: Cluster) -> None:
    """The first is its worker's; while it works it may run on the cores of all, and what it starts says on which
    devices; afterwards all is as before."""
    mine = sorted(os.sched_getaffinity(0))
    for name, cores in (("a", mine[:1]), ("b", mine[-1:])):
        cluster.register(Device(device_id=name, device_type="cpu", name="c", host="h", cores=tuple(cores)))
    lease = grant(cluster, "gang", "a", "b")
    assert lease is not None
    fence = Fence("a", "gang")
    holding = fence.enter(cluster.db)
    assert (holding.token, [d.device_id for d in holding.devices]) == (lease.token, ["a", "b"])
    os.sched_setaffinity(0, mine[:1])
    try:
        with holding.used():
            assert os.sched_getaffinity(0) == {mine[0], mine[-1]}
            assert os.environ[settings.DEVICES] == "a,b"
        assert os.sched_getaffinity(0) == {mine[0]} and settings.DEVICES not in os.environ
    finally:
        os.sched_setaffinity(0, mine)
    fence.check(cluster.db, holding)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_stage_reports_nothing_once_a_device_of_its_gang_is_lost(cluster: Cluster, name: str) -> None:
    """Whichever it is: the worker of one was started again, or the lease was given back."""
    register(cluster, "a", "b")
    lease = grant(cluster, "gang", "a", "b")
    assert lease is not None
    for device in ("a", "b"):
        cluster.answer(device, lease.token, "confirmed")
    fence = Fence("a", "gang")
    holding = fence.enter(cluster.db)
    cluster.lose(name, lease.token, "its worker was started again")
    with pytest.raises(LeaseLostError, match=f"device {name} is gone: its worker was started again"):
        fence.check(cluster.db, holding)
    cluster.release("a", lease.token, "lost", ["b"])
    with pytest.raises(LeaseLostError, match="nobody holds it"):
        fence.check(cluster.db, holding)


def test_a_holder_of_several_is_told_which_cores_of_its_host_are_no_devices(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other jobs' devices are taken; of another host's nothing is known. No more than a quota grants beside
    them, and none to who holds one device."""
    for name, host, cores in (("a", "h", (0,)), ("b", "h", (1,)), ("c", "h", (2, 3)), ("d", "g", (4,))):
        cluster.register(Device(device_id=name, device_type="cpu", name="a CPU", host=host, cores=cores))
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr("inferbench_tasks.running.fence.cpu_limit_cores", lambda: None)
    assert grant(cluster, "gang", "a", "b") and grant(cluster, "one", "c")
    assert Fence("a", "gang").enter(cluster.db).spare_cores == (4, 5)
    assert Fence("c", "one").enter(cluster.db).spare_cores == ()
    for limit, spare in ((4.0, ()), (4.5, ()), (5.0, (4,)), (9.0, (4, 5)), (3.0, ())):
        monkeypatch.setattr("inferbench_tasks.running.fence.cpu_limit_cores", lambda granted=limit: granted)
        assert Fence("a", "gang").enter(cluster.db).spare_cores == spare
