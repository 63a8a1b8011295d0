"""The DAGs of a large submission and of its parts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inferbench_tasks.contracts.part import PartName
from inferbench_tasks.errors import InputError
from inferbench_tasks.plan.parts import parts_of
from inferbench_tasks.submission.sweep import expand
from tests.unit.plan.test_compile import submission

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from inferbench_tasks.provider.parts.shelf import PartShelf

pytestmark = pytest.mark.airflow

SWEEP: dict[str, Any] = {"load.seed": list(range(101)), "serve.threads": [1, 2]}
BIG = submission(sweep=SWEEP)
JOBS = expand(BIG)
LAST = PartName("plan-test", 200, 201)


@pytest.fixture(scope="module")
def whole() -> DAG:
    from inferbench_tasks.provider.render import render

    return render(BIG, base_dir=Path("/x"), one_at_a_time=False)


@pytest.fixture
def shelf(tmp_path: Path) -> PartShelf:
    from inferbench_tasks.provider.parts.shelf import PartShelf, PlacedPart

    shelf = PartShelf(tmp_path)
    shelf.place(LAST, PlacedPart.of(BIG, "/x", LAST, JOBS))
    return shelf


def test_a_large_submission_is_a_task_for_each_part(whole: DAG) -> None:
    """And what follows all jobs, once the last ones have ended, however; it can be stored."""
    from airflow.serialization.serialized_objects import DagSerialization

    names = [f"jobs-{part[0]:05d}-{part[-1]:05d}" for part in parts_of(len(JOBS))]
    assert whole.task_ids == [*names, "analyze"] and len(names) == 5
    analyze = whole.get_task("analyze")
    assert analyze.upstream_task_ids == set(names[-2:])
    assert all(task.trigger_rule == "all_done" for task in whole.tasks)
    again = DagSerialization.from_dict(DagSerialization.to_dict(whole))
    assert set(again.task_ids) == set(whole.task_ids)
    assert "duration_s" in whole.params


@pytest.mark.parametrize(("setting", "lanes"), [("", 2), ("3", 3), ("1", 1)])
def test_so_many_parts_are_under_way_as_the_setting_says(
    monkeypatch: pytest.MonkeyPatch, setting: str, lanes: int
) -> None:
    """The next one waits for one of them."""
    from inferbench_tasks.provider.render import render

    monkeypatch.setenv("INFERBENCH_PARTS_AT_ONCE", setting)
    dag = render(
        submission(sweep=SWEEP | {"serve.threads": [1, 2, 3, 4]}), base_dir=Path("/x"), one_at_a_time=False
    )
    parts = [task for task in dag.tasks if task.task_id != "analyze"]
    assert [task for task in parts if not task.upstream_task_ids] == parts[:lanes]
    for before, after in zip(parts, parts[lanes:], strict=False):
        assert after.upstream_task_ids == {before.task_id}


def test_a_part_has_so_many_jobs_as_the_setting_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that is less than all."""
    from inferbench_tasks.provider.render import render

    monkeypatch.setenv("INFERBENCH_PART_JOBS", "2")
    dag = render(submission(sweep={"load.seed": [1, 2, 3, 4, 5]}), base_dir=Path("/x"), one_at_a_time=False)
    assert dag.task_ids == ["jobs-00000-00001", "jobs-00002-00003", "jobs-00004-00004", "analyze"]


def test_a_setting_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is allowed."""
    from inferbench_tasks.provider.parts.operators import part_jobs, parts_at_once

    for name, read in (("INFERBENCH_PARTS_AT_ONCE", parts_at_once), ("INFERBENCH_PART_JOBS", part_jobs)):
        for wrong in ("0", "many", "-1", "101"):
            monkeypatch.setenv(name, wrong)
            with pytest.raises(InputError, match=f"{name} is .*1 to 100"):
                read()


@pytest.mark.parametrize("chained", ["blocks", "executor"])
def test_parts_whose_order_counts_are_a_chain(chained: str) -> None:
    """An interleaved sweep, and any under an executor that knows no devices."""
    from inferbench_tasks.provider.render import render

    order = {"order": "interleaved", "blocks": 4} if chained == "blocks" else {}
    dag = render(submission(sweep=SWEEP | order), base_dir=Path("/x"), one_at_a_time=chained == "executor")
    for before, after in pairwise(dag.tasks):
        assert after.upstream_task_ids == {before.task_id}


def test_a_part_s_file_gives_the_jobs_of_the_sweep(shelf: PartShelf) -> None:
    """Places, digests, ids, points and specs, those of blocks too."""
    from inferbench_tasks.provider.parts.shelf import PlacedPart

    placed = shelf.get(str(LAST))
    assert placed is not None
    assert placed.expanded() == JOBS[200:]
    blocks = submission(sweep=SWEEP | {"order": "interleaved", "blocks": 4})
    part, jobs = PartName("plan-test", 300, 399), expand(blocks)
    again = PlacedPart.model_validate_json(PlacedPart.of(blocks, "/x", part, jobs).model_dump_json())
    assert again.expanded() == jobs[300:400]


def test_a_part_is_a_dag_of_its_jobs_tasks(shelf: PartShelf, tmp_path: Path) -> None:
    """With the ids that they would have in one DAG, and nothing that follows all jobs."""
    from airflow.serialization.serialized_objects import DagSerialization

    from inferbench_tasks.provider.on_device import LeasedTask
    from inferbench_tasks.provider.operators.stage import StageOperator
    from inferbench_tasks.provider.parts.dag import load_parts
    from inferbench_tasks.provider.render import render

    dags = load_parts(tmp_path)
    assert set(dags) == {str(LAST)}
    dag = dags[str(LAST)]
    one = render(BIG, base_dir=Path("/x"), one_at_a_time=False, split=False)
    assert set(dag.task_ids) == {t for t in one.task_ids if t.startswith(("job-200.", "job-201."))}
    assert dag.get_task("job-201.release").is_teardown
    for task_id in ("job-200.serve", "job-201.load"):
        mine, same = dag.get_task(task_id), one.get_task(task_id)
        assert isinstance(mine, StageOperator) and isinstance(same, StageOperator)
        assert mine.node.input == same.node.input
    leased = LeasedTask.of(dag.get_task("job-201.serve").executor_config)
    assert leased is not None and leased.job_index == 201
    assert leased.request is not None and leased.request.followers == []
    assert "part" in dag.tags and "duration_s" in dag.params
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert set(again.task_ids) == set(dag.task_ids)


@pytest.mark.parametrize(
    "content", ["", "{}", "null", '{"submission": {}, "base_dir": "/", "jobs": []}', "other jobs"]
)
def test_a_broken_file_hides_no_other_part(shelf: PartShelf, tmp_path: Path, content: str) -> None:
    """It is recorded under its own name; so is one with the jobs of another part."""
    from inferbench_tasks.provider.loader import BrokenSubmission
    from inferbench_tasks.provider.parts.dag import load_parts

    bad = str(PartName("plan-test", 0, 99))
    text = shelf.path(str(LAST)).read_text() if content == "other jobs" else content
    shelf.path(bad).write_text(text)
    dags = load_parts(tmp_path)
    assert set(dags) == {str(LAST), f"broken {bad}"}
    assert isinstance(dags[f"broken {bad}"], BrokenSubmission)


def test_what_is_under_way_stays_a_dag(shelf: PartShelf, tmp_path: Path) -> None:
    """However many parts were begun later; of what has ended only those begun last are."""
    import os

    from inferbench_tasks.provider.parts.dag import load_parts

    text = shelf.path(str(LAST)).read_text()
    for number in range(6):
        path = shelf.path(f"later{number}..jobs-00200-00201")
        path.write_text(text)
        os.utime(path, (2e9 + number, 2e9 + number))
    newest = {f"later{number}..jobs-00200-00201" for number in (2, 3, 4, 5)}
    assert set(load_parts(tmp_path)) == newest
    shelf.keep([str(LAST)])
    assert set(load_parts(tmp_path)) == newest | {str(LAST)}
