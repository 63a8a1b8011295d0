"""One job at a time on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from inferbench_tasks.errors import CancelledError
from inferbench_tasks.running import lease as module
from inferbench_tasks.running.lease import Holder, MachineLease


def take(lease: MachineLease, run: str, *, lasting: bool = True) -> bool:
    return lease.acquire(run, lasting=lasting, say=lambda text: None, cancelled=lambda: False)


def test_the_second_run_waits_for_the_first(tmp_path: Path) -> None:
    """A run gets the lease once the other has released it, and is told whom it waits for."""
    lease, told, waited = MachineLease(tmp_path), list[str](), list[bool]()
    assert not take(lease, "first")
    second = threading.Thread(
        target=lambda: waited.append(
            MachineLease(tmp_path).acquire("second", lasting=True, say=told.append, cancelled=lambda: False)
        )
    )
    second.start()
    while not told:
        time.sleep(0.01)
    held = lease.holder()
    assert held is not None and held.run_id == "first"
    lease.release("first")
    second.join()
    held = lease.holder()
    assert held is not None and held.run_id == "second"
    assert told == ["waiting: run first is using this machine"] and waited == [True]


def test_a_run_may_renew_its_own_lease(tmp_path: Path) -> None:
    """Each stage of a job takes the lease again without waiting."""
    lease = MachineLease(tmp_path)
    take(lease, "run")
    take(lease, "run")
    lease.release("other")
    assert lease.holder() is not None


def test_waiting_ends_when_cancelled(tmp_path: Path) -> None:
    """A cancelled run stops waiting, with the reason."""
    lease = MachineLease(tmp_path)
    take(lease, "first")
    with pytest.raises(CancelledError, match="waiting for run first"):
        lease.acquire("second", lasting=True, say=lambda text: None, cancelled=lambda: True)


def test_a_dead_holder_does_not_block(tmp_path: Path) -> None:
    """The lease of a process that was killed is free at once if it ran all stages, else after the gap."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = psutil.Process(child.pid).create_time()
    now = time.time()
    lasting = Holder("run", child.pid, started, now, True)
    staged = Holder("run", child.pid, started, now, False)
    assert not lasting.gone(now) and not staged.gone(now + 2 * module.GAP_S)
    child.kill()
    child.wait()
    assert lasting.gone(now)
    assert not staged.gone(now + module.GAP_S / 2)
    assert staged.gone(now + module.GAP_S * 1.1)


def test_who_takes_the_lease_of_a_killed_run_knows_which(tmp_path: Path) -> None:
    """Its next stage takes it too, and is told nothing more; of a job whose stages are processes of their own the next
    may come yet."""
    holder = Holder("killed", os.getpid(), 1.0, time.time() - 2 * module.GAP_S, True)
    for lasting, forsaken in ((True, "killed"), (False, None)):
        folder = tmp_path / str(lasting)
        folder.mkdir()
        (folder / "machine.lease").write_text(json.dumps(asdict(replace(holder, lasting=lasting))))
        first, again = MachineLease(folder), MachineLease(folder)
        take(first, "next")
        take(again, "next")
        assert (first.forsaken, again.forsaken) == (forsaken, None)


def test_a_recycled_pid_is_not_the_holder() -> None:
    """Another process with the holder's pid does not keep the lease."""
    assert Holder("run", os.getpid(), 1.0, time.time(), True).gone(time.time())
