"""A device's worker that is stopped while nobody answers it, as one whose token was revoked."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pymongo.errors import AutoReconnect

from inferbench_tasks.artifacts.no_room import write_down
from inferbench_tasks.cli.worker import _cache_use
from inferbench_tasks.cluster import clock
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import PerfDBAwayError, PerfDBError, StorageError
from inferbench_tasks.perfdb.session import Session
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.workers.agent import SETTLE_S, Agent
from inferbench_tasks.workers.devices import find
from inferbench_tasks.workers.host_report import HostReport


class Away:
    """A cluster whose PerfDB has gone after the first look at a device; signals come while it is asked again."""

    def __init__(self, db: PerfDB, lease: int | None, signals: int) -> None:
        self.db, self._lease, self._signals = db, lease, signals
        self.agent: Agent | None = None
        self.stopped = 0

    def register(self, device: Device) -> None:
        """As if it was entered."""

    def get(self, device_id: str) -> Any:
        assert self.agent is not None
        if self.agent._child is None:
            return SimpleNamespace(lease=None)
        self.agent._lease = self._lease

        def ask() -> None:
            if self._signals:
                self._signals -= 1
                signal.raise_signal(signal.SIGTERM)
            raise AutoReconnect("cut")

        return self.db.retrying(ask, "looking at a device")

    def stop(self, device_id: str) -> None:
        self.stopped += 1
        raise PerfDBError("away")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The agent takes the process's own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("lease", "signals"), [(None, 1), (7, 2)])
def test_a_worker_that_nobody_answers_ends_on_its_signal(
    tmp_path: Path, lease: int | None, signals: int
) -> None:
    """Without a job on the first, with one on the second, and not when PerfDB's patience is over."""
    cluster = Away(PerfDB(Session("mongodb://127.0.0.1:1/inferbench", None)), lease, signals)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    agent = Agent(find("cpu"), cast(Cluster, cluster), command, tmp_path)
    cluster.agent = agent
    agent.run()
    assert cluster.stopped == 1 and cluster._signals == 0 and cluster.db._session.hurried
    assert agent._child is None


class Returning:
    """A cluster whose PerfDB is away at first, goes again as the Celery worker dies amid a job, and comes back."""

    def __init__(self) -> None:
        self.db = SimpleNamespace(hurry=lambda: None)
        self.agent: Agent | None = None
        self.away, self.refusals = 2, 0
        self.died: int | None = None
        self.lease: SimpleNamespace | None = None
        self.health = "ok"
        self.lost: list[str] = []

    def _ask(self) -> None:
        if self.away:
            self.away -= 1
            self.refusals += 1
            raise PerfDBAwayError("away")

    def register(self, device: Device) -> None:
        self._ask()

    def get(self, device_id: str) -> Any:
        self._ask()
        assert self.agent is not None
        child = self.agent._child
        if child is not None and child.poll() is None and self.died is None:
            self.lease = SimpleNamespace(token=7, state="confirmed", job="j")
            self.died, self.away = child.pid, 3
            child.kill()
            child.wait()
        elif child is not None and child.poll() is None and not self.agent._drain:
            signal.raise_signal(signal.SIGTERM)
        return SimpleNamespace(lease=self.lease, health=self.health, accused="", expected_left_s=None)

    def beat(self, device_id: str, *, health: str, reason: str, queue_s: float) -> None:
        self._ask()
        self.health = health

    def lose(self, device_id: str, token: int, reason: str) -> bool:
        self._ask()
        self.lost.append(reason)
        self.lease = None
        return True

    def stop(self, device_id: str) -> None:
        """As if it was told."""


def test_a_worker_outlives_a_perfdb_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its start, and as its Celery worker dies amid a job: once PerfDB is back the job is told to be lost, and
    another Celery worker serves the device."""
    for name in ("POLL_S", "RESTART_S", "BEAT_S"):
        monkeypatch.setattr(f"inferbench_tasks.workers.agent.{name}", 0.01)
    cluster = Returning()
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    agent = Agent(find("cpu"), cast(Cluster, cluster), command, tmp_path)
    cluster.agent = agent
    agent.run()
    assert cluster.refusals == 5 and cluster.died is not None
    assert [words.partition(": ")[2] for words in cluster.lost] == ["its Celery worker ended"]
    assert agent._drained and agent._child is None


def test_a_worker_that_perfdb_refuses_ends_at_its_start(tmp_path: Path) -> None:
    """Nothing that passes: a login that may only read, say."""
    cluster = Returning()

    def refuse(device: Device) -> None:
        raise PerfDBError("refuses the login")

    cluster.register = refuse  # type: ignore[method-assign]
    agent = Agent(find("cpu"), cast(Cluster, cluster), [], tmp_path)
    with pytest.raises(PerfDBError, match="refuses"):
        agent.run()


def test_a_cache_that_can_t_be_looked_at_ends_no_worker(tmp_path: Path) -> None:
    """It is an error of ours, which the agent says and goes on from."""
    with pytest.raises(StorageError, match="can't be looked at: No such file"):
        _cache_use(tmp_path / "gone", 1)
    assert _cache_use(tmp_path, 7).limit_bytes == 7


def test_a_host_whose_clock_is_a_day_off_is_given_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its device is in quarantine with the offset and the remedy; set right, it is fit at once."""
    monkeypatch.setattr("inferbench_tasks.workers.agent.Check.__call__", lambda self: "")
    report = SimpleNamespace(clock_fault=clock.fault(86_400.0))
    cluster = Away(PerfDB(Session("mongodb://127.0.0.1:1/inferbench", None)), None, 0)
    agent = Agent(find("cpu"), cast(Cluster, cluster), [], tmp_path, cast(HostReport, report))
    agent._look(0.0)
    agent._look(SETTLE_S)
    assert "86,400 s ahead" in agent.fault and "set-ntp" in agent.fault
    report.clock_fault = ""
    agent._look(SETTLE_S + 1)
    assert agent.fault == ""


def test_what_had_no_room_lately_sends_jobs_elsewhere_and_keeps_none_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that jobs can go to instead is another host's, of the kind, fit, and its worker is there; without one
    they are taken here. Fit again once there is room.
    """
    monkeypatch.setattr("inferbench_tasks.workers.agent.Check.__call__", lambda self: "")
    mine = find("cpu")
    other = mine.model_copy(update={"device_id": "o", "host": "other", "home": "another"})
    cluster = SimpleNamespace(devices=partial(list, [mine, other]))
    agent = Agent(mine, cast(Cluster, cluster), [], tmp_path)
    write_down(tmp_path, shutil.disk_usage(tmp_path).total)
    assert "MB that a job needs have no room on the file system of" in agent._no_room()
    unlike: tuple[dict[str, Any], ...] = (
        {"device_type": "t4"}, {"health": "quarantined"}, {"stopped": True}, {"age_s": 60.0},
        {"host": mine.host, "home": mine.home},
    )  # fmt: skip
    for each in unlike:
        cluster.devices = partial(list, [mine, other.model_copy(update=each)])
        assert agent._no_room() == "", each
    cluster.devices = partial(list, [mine, other])
    agent._look(0.0)
    agent._look(SETTLE_S)
    assert "choose another data directory" in agent.fault
    write_down(tmp_path, 1)
    agent._look(SETTLE_S + 1)
    assert agent.fault == ""
