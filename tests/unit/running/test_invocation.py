"""Invocations: ids, progress, cancellation."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import CancelledError
from inferbench_tasks.interrupt import interruptible
from inferbench_tasks.running.invocation import Invocation, Order
from tests.unit.plan.test_compile import submission


def test_a_retried_task_finds_the_same_invocation(tmp_path: Path) -> None:
    """One DAG run is one invocation; another DAG run, or the same id of another DAG, is another."""
    ids = [
        Invocation.of_dag_run(tmp_path, dag, run).id
        for dag, run in [("a", "manual__1"), ("a", "manual__1"), ("a", "manual__2"), ("b", "manual__1")]
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_its_id_tells_when_it_was_asked_for(tmp_path: Path) -> None:
    """To the second, as that of a local run does."""
    found = Invocation.of_dag_run(tmp_path, "a", "manual__2026-11-21T16:28:31.616367+00:00").id
    assert found.startswith("a-20261121T162831-")


def test_the_local_child_works_on_its_parents_invocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the invocation's folder in the environment, the DAG run's own id does not matter."""
    mine = Invocation.new(tmp_path, "x")
    monkeypatch.setenv(settings.INVOCATION_DIR, str(mine.dir))
    assert Invocation.of_dag_run(tmp_path, "x", "whatever") == mine


def test_an_order_comes_back_as_it_was(tmp_path: Path) -> None:
    """What the child reads is what the parent was asked."""
    invocation = Invocation.new(tmp_path, "x")
    assert not invocation.is_local()
    order = Order(submission=submission(sweep={"load.seed": [1, 2]}), base_dir="/b", data_dir="/d")
    invocation.place(order)
    assert Invocation.at(invocation.dir).order() == order
    assert invocation.is_local()


def test_events_of_many_writers_don_t_mix(tmp_path: Path) -> None:
    """Each event is one whole line, whoever writes at the same time."""
    invocation = Invocation.new(tmp_path, "x")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: invocation.tell(event="progress", number=i, text="y" * 500), range(200)))
    lines = (invocation.dir / "events.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["number"] for line in lines) == list(range(200))


def test_cancelling_reaches_other_processes(tmp_path: Path) -> None:
    """Whoever opens the invocation's folder sees that it was cancelled."""
    invocation = Invocation.new(tmp_path, "x")
    assert not invocation.cancelled()
    Invocation.at(invocation.dir).cancel()
    assert invocation.cancelled()


def test_a_signal_stops_a_stage_once() -> None:
    """SIGTERM raises CancelledError in a stage that may be stopped, and the old handler comes back."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(CancelledError, match="SIGTERM"), interruptible(True):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_waits_for_the_clean_up() -> None:
    """A stage that cleans up is not stopped in the middle of it."""
    reached = False
    with interruptible(False):
        signal.raise_signal(signal.SIGTERM)
        reached = True
    assert reached
