"""A worker's agent with a real PerfDB; its Celery worker is a stand-in process that only sleeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.workers.checks import BUSY

pytestmark = pytest.mark.integration
#: The agent of an invented device, with a fault as long as the file ``fault`` exists, and a sleeping stand-in.
AGENT = """
import logging, os, sys
from pathlib import Path
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.workers import agent
logging.basicConfig(level=logging.INFO)
data = Path(sys.argv[1])
agent.SETTLE_S = 0.5
device = Device(device_id="d", device_type="cpu", name="c", host="h", cores=tuple(os.sched_getaffinity(0)))
child = [sys.executable, "-c", "import time; time.sleep(600)  # " + str(data)]
made = agent.Agent(device, Cluster(PerfDB.connect(sys.argv[2], data)), child, data)
made.check = lambda: "too hot" if (data / "fault").exists() else ""
made.run()
"""


class Running:
    """An agent's process, and the device as PerfDB has it."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder, self.uri = folder, uri
        self.cluster = Cluster(PerfDB.connect(uri, folder))

    def start(self) -> None:
        command = [sys.executable, "-c", AGENT, str(self.folder), self.uri]
        env = os.environ | {BUSY: "2", "INFERBENCH_DATA_DIR": str(self.folder)}
        self.process = subprocess.Popen(command, env=env)
        # Once its device has answered, its signal handlers stand.
        self.until(
            lambda: (d := self.device()) and d.age_s < 1 and self.children(), "the agent did not start"
        )

    def device(self) -> Any:
        return self.cluster.get("d")

    def children(self) -> list[psutil.Process]:
        """Stand-ins that live, whoever's children."""
        return [
            p
            for p in psutil.process_iter(["cmdline"])
            if (p.info["cmdline"] or [""])[-1] == f"import time; time.sleep(600)  # {self.folder}"
            and p.status() != psutil.STATUS_ZOMBIE
        ]

    def until(self, check: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + 60
        while not (found := check()):
            assert time.monotonic() < deadline, what
            time.sleep(0.1)
        return found

    def grant(self) -> Any:
        return self.cluster.grant(
            "d", "job", spec={}, run_id="", now_s=time.time(), est_end_s=time.time() + 9
        )


@pytest.fixture
def agent(perfdb_uri: str, tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path, perfdb_uri)
    try:
        running.start()
        yield running
    finally:
        # Two signals, for some tests leave a lease: the second waits for no job.
        for number in (signal.SIGINT, signal.SIGTERM):
            running.process.send_signal(number)
        code = running.process.wait(timeout=60)
    assert code == 0
    assert running.device().stopped
    assert not running.children()


def test_a_fit_device_confirms_its_leases(agent: Running) -> None:
    """A grant is answered within moments, and the queue's expected seconds are published."""
    lease = agent.grant()
    agent.until(lambda: agent.device().lease.state == "confirmed", "not confirmed")
    agent.until(lambda: 0 < agent.device().queue_s <= 9, "no expected seconds")
    assert agent.cluster.release("d", lease.token, "ended")


def test_an_unfit_device_refuses_and_comes_back(agent: Running) -> None:
    """The check happens before the start: refused with the reason, quarantined until it is fit again."""
    (agent.folder / "fault").touch()
    lease = agent.grant()
    assert lease is not None
    agent.until(lambda: agent.device().lease.state == "refused", "not refused")
    assert agent.device().lease.reason == "too hot"
    agent.cluster.release("d", lease.token, "returned")
    agent.until(lambda: agent.device().health == "quarantined", "not quarantined")
    assert agent.grant() is None
    (agent.folder / "fault").unlink()
    agent.until(lambda: agent.device().health == "ok", "not back")
    assert agent.grant() is not None


def test_what_a_gang_left_on_the_device_is_ended_with_its_lease(agent: Running) -> None:
    """Started by another device's worker, on this device too: it is ended when the lease of both is given back."""
    env = os.environ | {"INFERBENCH_DATA_DIR": str(agent.folder), "INFERBENCH_WORKER": "other"}
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    mine, others = (
        subprocess.Popen(command, env=env | {"INFERBENCH_DEVICES": devices})
        for devices in ("other,d", "other,e")
    )
    try:
        lease = agent.grant()
        agent.until(lambda: agent.device().lease.state == "confirmed", "not confirmed")
        assert mine.poll() is None
        agent.cluster.release("d", lease.token, "lost")
        agent.until(lambda: mine.poll() is not None, "it lives on")
        assert others.poll() is None
    finally:
        for process in (mine, others):
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_lets_the_running_job_finish(agent: Running, number: signal.Signals) -> None:
    """No further job meanwhile; once the lease is given back the agent ends by itself."""
    lease = agent.grant()
    agent.until(lambda: agent.device().lease.state == "confirmed", "not confirmed")
    agent.process.send_signal(number)
    agent.until(lambda: agent.device().health == "quarantined", "it would be granted to others")
    assert agent.device().reason == "its worker is being stopped"
    assert agent.device().lease.state == "confirmed" and agent.children() and agent.process.poll() is None
    agent.cluster.release("d", lease.token, "ended")
    assert agent.process.wait(timeout=60) == 0
    assert agent.device().stopped and agent.device().last.outcome == "ended" and agent.grant() is None


def test_a_grant_that_meets_a_signal_is_refused(agent: Running) -> None:
    """Granted before the worker could say that it stops: the job waits again, and none is lost."""
    agent.process.send_signal(signal.SIGSTOP)
    lease = agent.grant()
    assert lease is not None and lease.state == "granted"
    agent.process.send_signal(signal.SIGTERM)
    agent.process.send_signal(signal.SIGCONT)
    agent.until(lambda: agent.device().lease.state == "refused", "not refused")
    assert agent.device().lease.reason == "its worker is being stopped" and agent.process.poll() is None
    agent.cluster.release("d", lease.token, "returned")
    assert agent.process.wait(timeout=60) == 0


def test_a_second_signal_waits_for_no_job(agent: Running) -> None:
    """The agent ends with all that it started, though its device is leased."""
    agent.grant()
    agent.until(lambda: agent.device().lease.state == "confirmed", "not confirmed")
    agent.process.terminate()
    agent.until(lambda: agent.device().health == "quarantined", "the first signal")
    agent.process.terminate()
    assert agent.process.wait(timeout=60) == 0
    assert agent.device().lease is not None and not agent.children()


def test_a_dead_celery_worker_is_started_again(agent: Running) -> None:
    """Within seconds, by the agent."""
    [child] = agent.children()
    child.kill()
    agent.until(lambda: [c for c in agent.children() if c.pid != child.pid], "not started again")


def test_a_killed_agent_takes_its_worker_with_it(agent: Running) -> None:
    """kill -9: no Celery worker goes on without its agent; a new agent takes over the device and its lease."""
    lease = agent.grant()
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    agent.until(lambda: not agent.children(), "the Celery worker outlives its agent")
    agent.start()
    assert agent.device().lease.token == lease.token
