"""Which of many tasks wait in their queue still."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

pytestmark = pytest.mark.airflow

Add = Any


def test_what_is_queued_no_more_is_found(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among many that are, in one question or several: what a user ended, and what was deleted."""
    from inferbench_tasks.provider.executors import metadata, task_queues

    add("dag", "running")
    queued = [add.task("dag", f"job-{number:03d}.serve", "queued") for number in range(7)]
    skipped, deleted = add.task("dag", "job-008.serve", "skipped"), uuid4()
    assert task_queues.not_queued([]) == set() == task_queues.not_queued(queued)
    for most in (2000, 3, 1):
        monkeypatch.setattr(metadata, "MOST_ASKED", most)
        assert task_queues.not_queued([*queued[:4], skipped, *queued[4:], deleted]) == {skipped, deleted}
