"""What a job left at work on a device: it is told, and ended where nothing else ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from inferbench_tasks.workers import leftovers
from inferbench_tasks.workers.leftovers import Leftovers


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """As a Celery worker with one child that waits for tasks, and a task below it; its pid stands in ``task``."""
    told = tmp_path / "task"
    script = f"sh -c 'sleep 600 & echo $! > {told}.part; mv {told}.part {told}; wait; exec sleep 600' & wait"
    process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    try:
        until(told.exists)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_airflow_may_still_end_is_only_told(worker: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A job's task lives on for a while after its lease, and the device is not fit meanwhile."""
    task = psutil.Process(int((tmp_path / "task").read_text()))
    left = Leftovers()
    assert left.at_work(worker.pid) == ""  # no lease has ended
    left.expect()
    for _ in range(2):
        assert left.at_work(worker.pid) == "1 process(es) of the job that it had before have not ended"
    assert task.status() != psutil.STATUS_ZOMBIE


def test_what_nobody_ends_is_ended(
    worker: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a Celery worker's processes the task's alone; then the device is fit again."""
    task = psutil.Process(int((tmp_path / "task").read_text()))
    left = Leftovers()
    left.expect()
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
    waiting = psutil.Process(worker.pid).children()
    assert left.at_work(worker.pid) != ""
    until(lambda: not task.is_running() or task.status() == psutil.STATUS_ZOMBIE)
    until(lambda: left.at_work(worker.pid) == "")
    assert worker.poll() is None and waiting and all(child.is_running() for child in waiting)


def test_a_worker_that_ended_left_nothing() -> None:
    """Its processes are ended with it, by who started it."""
    left = Leftovers()
    left.expect()
    assert left.at_work(None) == ""
