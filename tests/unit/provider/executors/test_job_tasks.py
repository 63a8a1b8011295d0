"""What the executor sees of jobs' tasks, again and again."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest
from tests.unit.provider.executors.conftest import RUN

pytestmark = pytest.mark.airflow

Add = Any


def test_what_was_seen_is_seen_again_as_it_is_now(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    """States, tries and the run's end; a task that is another one by now has its job asked for anew."""
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import update

    from inferbench_tasks.provider.executors import job_tasks, metadata

    keys = [JobKey("dag", RUN, index) for index in range(3)]
    add("dag", "running")
    ids = {}
    for key in keys:
        for place, stage in enumerate(("serve", "release")):
            request = LeaseRequest({"kind": "serving"}) if not place else None
            config = LeasedTask(key.job_index, stage, place, cleans_up=bool(place), request=request).config()
            task = f"job-{key.job_index:03d}.{stage}"
            ids[task] = add.task("dag", task, "queued" if not place else None, executor_config=config)
    first = {key: job_tasks.job_tasks(key) for key in keys}
    assert job_tasks.seen_again(first) == first

    def change(task: str, **values: Any) -> None:
        with add.session() as session:
            session.execute(update(TaskInstance).where(TaskInstance.id == ids[task]).values(**values))

    change("job-000.serve", state="running", try_number=2)
    change("job-001.release", state="success", id=uuid4())
    again = job_tasks.seen_again(first)
    assert again == {key: job_tasks.job_tasks(key) for key in keys}
    assert again[keys[0]].begun and again[keys[0]].tasks[0].attempt == 2
    assert [task.state for task in again[keys[1]].tasks] == ["queued", "success"]
    assert again[keys[2]] == first[keys[2]]
    monkeypatch.setattr(metadata, "MOST_ASKED", 1)
    assert job_tasks.seen_again(first) == again, "in many questions as in one"
