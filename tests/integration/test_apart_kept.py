"""What is kept for a job on two hosts while it waits, and what of one that was lost is nobody's yet."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inferbench_tasks.cluster.dispatcher import Dispatcher
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.workers import agent
from inferbench_tasks.workers.agent import Agent
from tests.apart_jobs import APART, apart, start, why
from tests.schedulers import Clock, age, clock, cluster, confirm, device, holders, job, kinds, make, register

__all__ = ["clock", "cluster", "make"]  # fixtures

pytestmark = pytest.mark.integration


def test_jobs_of_one_host_do_not_come_before_it_for_ever(cluster: Cluster, make: type, clock: Clock) -> None:
    """Two hosts whose devices are never free at once: one is kept for it once the other is due within as long as it has
    waited, nobody else gets it, and it has both as soon as there are two."""
    scheduler: Dispatcher = make()
    running: list[str] = []

    def settle() -> None:
        register(cluster, "x1", "y1")  # their workers are alive
        scheduler.tick()
        confirm(cluster)
        for kind, name in kinds(scheduler.tick()):
            assert kind == "start"
            scheduler.started(name)
            running.append(name)

    for number in range(2):
        scheduler.submit(job(f"s{number}"), "")
        settle()
        clock.now += 5.0
    assert len(running) == 2
    for number in range(2, 20):
        scheduler.submit(job(f"s{number}", submit_s=1000.0 + number), "")
    scheduler.submit(apart(submit_s=2009.0), "run")
    said = []
    while APART not in running:
        scheduler.ended(running.pop(0), ok=True)
        settle()
        said.append("" if APART in running else why(scheduler))
        clock.now += 5.0
        assert len(said) < 10
    assert ["is kept for it" in text for text in said] == [False, True, False] and len(running) == 1
    assert holders(cluster) == {"x1": APART, "y1": APART}
    scheduler.ended(running.pop(0), ok=True)
    settle()
    assert len(running) == 2


def test_a_higher_priority_has_the_device_that_would_be_kept(
    cluster: Cluster, make: type, clock: Clock
) -> None:
    """And what is kept is shown to who waits for it."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    scheduler.submit(job("long"), "")
    scheduler.tick()
    scheduler.submit(apart(), "run")
    scheduler.submit(job("single"), "")
    scheduler.tick()
    (kept,) = [name for name, holder in holders(cluster).items() if holder is None]
    shown = scheduler.devices_for_others[kept]
    assert shown.health == "quarantined" and shown.reason.startswith(f"kept for {APART}, which waits for ")
    scheduler.submit(job("urgent", priority=1), "")
    scheduler.tick()
    scheduler.tick()
    assert holders(cluster)[kept] == "dag|urgent|000"


def test_the_load_s_device_is_nobody_s_until_its_senders_have_ended(
    cluster: Cluster, make: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's worker is gone, so that the job is lost on both hosts while its stage goes on at the load's: the
    next job there is granted that device, and starts once the stage has ended."""
    register(cluster, "x1", "y1")
    scheduler: Dispatcher = make()
    start(cluster, scheduler)
    own, other = scheduler.held[APART].lease.members
    worker = loading(cluster, other, tmp_path / "sender")
    try:
        worker._serve()  # it knows the lease
        age(cluster, own, TTL_S + 5)
        assert kinds(scheduler.tick()) == [("lost", APART)]
        assert holders(cluster) == {own: None, other: None}
        scheduler.submit(job("next"), "")
        scheduler.tick()
        scheduler.tick()
        assert holders(cluster)[other] == "dag|next|000"
        worker._serve()
        assert scheduler.tick() == [] and scheduler.device_of("dag|next|000") is None
        monkeypatch.setattr(agent, "SETTLE_S", 0.0)
        worker._serve()
        found = cluster.get(other)
        assert found is not None and found.lease is not None and found.lease.state == "refused"
        assert found.lease.reason == "1 process(es) of the job that it had before have not ended"
        assert scheduler.tick() == [] and holders(cluster)[other] is None
        os.kill(int((tmp_path / "sender").read_text()), signal.SIGKILL)
        until(lambda: worker._left() == "")
        worker._serve()
        scheduler.tick()
        scheduler.tick()
        assert holders(cluster)[other] == "dag|next|000"
        worker._serve()
        assert kinds(scheduler.tick()) == [("start", "dag|next|000")]
    finally:
        worker._end_child()


def loading(cluster: Cluster, name: str, told: Path) -> Agent:
    """A worker as it is while a stage runs: a Celery worker, its child that waits for tasks, and that one's task."""
    script = f"sh -c 'sleep 600 & echo $! > {told}.part; mv {told}.part {told}; wait; kill -STOP $$' & wait"
    worker = Agent(device(name, host=name[0]), cluster, ["sh", "-c", script], told.parent)
    worker.check = lambda: ""  # type: ignore[assignment]
    worker._keep_child()
    until(told.exists)
    return worker


def until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)
