"""What stands before Airflow's task in a worker."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.provider.joining.signing import PUBLIC, SigningKey
from inferbench_tasks.provider.joining.verifying import Verifier

pytestmark = pytest.mark.airflow
WORKLOAD = '{"type": "ExecuteTask"}'
ID = "6d2c0bb0-0000-4000-8000-000000000001"


class Worker:
    """The guard, before a task of this test in the place of Airflow's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from celery.app.registry import TaskRegistry

        self.guard: Any = import_module("inferbench_tasks.provider.joining.guard")
        self.executed: list[str] = []
        self.task = SimpleNamespace(run=self.executed.append, request=SimpleNamespace(id=ID))
        self.tasks = TaskRegistry({self.guard.TASK: self.task, "celery.map": SimpleNamespace()})
        self.panel = SimpleNamespace(data=dict(self.guard.Panel.data))
        monkeypatch.setattr(self.guard, "app", SimpleNamespace(tasks=self.tasks))
        monkeypatch.setattr(self.guard, "Panel", self.panel)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(monkeypatch)


def test_without_a_key_workloads_are_executed_as_they_came(worker: Worker, tmp_path: Path) -> None:
    """All of Celery's stays. What was signed, by an earlier life of the system, is sent anew: no result of it."""
    from celery.exceptions import Reject

    before = set(worker.tasks), set(worker.panel.data)
    worker.guard.install(None)
    worker.task.run(WORKLOAD)
    with pytest.raises(Reject):
        worker.task.run(SigningKey.of(tmp_path).sign(WORKLOAD, "host", ID))
    assert worker.executed == [WORKLOAD] and (set(worker.tasks), set(worker.panel.data)) == before


def test_with_a_key_only_what_it_signed_is_executed(worker: Worker, tmp_path: Path) -> None:
    """By the one task, and with the remote control that the executor uses."""
    from celery.exceptions import Reject

    key = SigningKey.of(tmp_path)
    worker.guard.install(Verifier(key.public, "host", tmp_path / "begun"))
    for text in (WORKLOAD, key.sign(WORKLOAD, "other", ID), key.sign(WORKLOAD, "host", "another-message")):
        with pytest.raises(Reject) as refused:
            worker.task.run(text)
        assert not refused.value.requeue
    worker.task.run(key.sign(WORKLOAD, "host", ID))
    assert worker.executed == [WORKLOAD]
    assert set(worker.tasks) == {worker.guard.TASK} and set(worker.panel.data) == worker.guard.COMMANDS


def test_the_queue_is_the_worker_s_own_and_not_the_message_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By its environment, as its agent or `up` started it."""
    from inferbench_tasks.provider.joining import guard

    monkeypatch.delenv(PUBLIC, raising=False)
    assert guard.verifier() is None
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv(PUBLIC, SigningKey.of(tmp_path).public)
    monkeypatch.setenv(settings.WORKER, "rack-1.cpu:0-3")
    found = guard.verifier()
    assert found is not None and found.queue == "rack-1.cpu:0-3"


def test_a_task_ends_with_what_supervised_it(worker: Worker) -> None:
    """Where Airflow's part fails, as of a full disk, nothing that it started lives on; what was there before does."""
    other = subprocess.Popen(["sleep", "600"])
    started: list[subprocess.Popen[bytes]] = []

    def supervise(text: str) -> None:
        started.append(subprocess.Popen(["sh", "-c", "sleep 600 & wait"]))
        raise OSError(28, "No space left on device")

    worker.task.run = supervise
    worker.guard.install(None)
    try:
        with pytest.raises(OSError, match="No space left"):
            worker.task.run(WORKLOAD)
        assert not [p for p in psutil.process_iter(["ppid"]) if p.info["ppid"] == started[0].pid]
        assert not psutil.pid_exists(started[0].pid) and other.poll() is None
    finally:
        other.kill()
        for process in (other, *started):
            process.wait()
