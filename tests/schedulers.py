"""Schedulers on a real PerfDB whose workers, clock and jobs a test moves by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.dispatcher import Action, Dispatcher
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.scheduling.eventlog import EventLog, differences, read_log
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES


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


def holders(cluster: Cluster) -> dict[str, str | None]:
    return {d.device_id: d.lease.job if d.lease else None for d in cluster.devices()}


def answer(cluster: Cluster, name: str, state: str, reason: str = "") -> None:
    found = cluster.get(name)
    assert found is not None and found.lease is not None
    assert cluster.answer(name, found.lease.token, state, reason)  # type: ignore[arg-type]


def register(cluster: Cluster, *names: str, **more: object) -> None:
    """``x1`` is a device of the host x."""
    for name in names:
        cluster.register(device(name, **{"host": name[0], **more}))


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


def race(cluster: Cluster, make: type, sizes: Sequence[int]) -> list[tuple[str, int]]:
    """Two schedulers at full speed, each with jobs of its own that hold so many devices; AssertionError if one of them
    is left waiting. (device, token) of all leases that a job had when it started.
    """
    leases: list[tuple[str, int]] = []
    errors: list[BaseException] = []

    def schedule(mine: str) -> None:
        try:
            scheduler: Dispatcher = make()
            left = {f"dag|{mine}{i}|000" for i in range(len(sizes))}
            for i, size in enumerate(sizes):
                scheduler.submit(job(f"{mine}{i}", n_devices=size), "")
            deadline = time.monotonic() + 90
            while left and time.monotonic() < deadline:
                confirm(cluster)
                for action in scheduler.tick():
                    assert action.kind == "start", action
                    if action.job in left:
                        held = scheduler.held[action.job]
                        leases.extend((name, held.lease.token) for name in held.lease.members)
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
    return leases


def kinds(actions: list[Action]) -> list[tuple[str, str]]:
    return [(a.kind, a.job) for a in actions]


def age(cluster: Cluster, name: str, seconds: float, field: str = "heartbeat_at") -> None:
    """Make a worker's last heartbeat that old."""
    change = [{"$set": {field: {"$subtract": ["$$NOW", int(seconds * 1000)]}}}]
    cluster.db.collection("devices").update_one({"_id": name}, change)


def age_grant(cluster: Cluster, name: str, seconds: float) -> None:
    """Make the grant of a device's lease that old."""
    age(cluster, name, seconds, "lease.granted_at")
