"""A device's worker that is stopped while nobody answers it, as one whose token was revoked."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pymongo.errors import AutoReconnect

from inferbench_tasks.cluster import clock
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import PerfDBError
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
