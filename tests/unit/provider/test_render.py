"""The DAG of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.plan.test_compile import submission

if TYPE_CHECKING:
    from airflow.sdk import DAG

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def chained() -> DAG:
    from inferbench_tasks.provider.render import render

    return render(submission(sweep={"serve.threads": [1, 2]}), base_dir=Path("/x"), one_at_a_time=True)


def test_release_is_the_teardown_of_serve(chained: DAG) -> None:
    """Whatever happens between them, a server that was started is ended."""
    for job in ("job-000", "job-001"):
        release = chained.get_task(f"{job}.release")
        assert release.is_teardown
        assert chained.get_task(f"{job}.serve").is_setup
        assert f"{job}.serve" in release.upstream_task_ids


def test_nothing_that_measures_is_retried(chained: DAG) -> None:
    """A second try of serve, load or collect could measure until the figures please; it gets none."""
    from inferbench_tasks.pipelines.serving import SERVING

    retries = {entry.name: entry.facts.retries for entry in SERVING.entries}
    assert all(retries[stage] == 0 for stage in ("serve", "load", "collect"))
    assert all(retries[stage] for stage in ("generate", "convert", "release", "analyze"))
    for task in chained.tasks:
        assert task.retries == retries[task.task_id.rsplit(".", 1)[-1]], task.task_id


def test_jobs_are_chained_without_our_executor(chained: DAG) -> None:
    """The second job starts after the first one's release, even a failed one, and one task runs at a time."""
    generate = chained.get_task("job-001.generate")
    assert generate.upstream_task_ids == {"job-000.release"}
    assert generate.trigger_rule == "all_done"
    assert chained.max_active_tasks == 1
    assert chained.max_active_runs == 1


def test_jobs_are_free_with_our_executor() -> None:
    """With an executor that leases devices, the jobs don't wait for each other."""
    from inferbench_tasks.provider.render import render

    dag = render(submission(sweep={"serve.threads": [1, 2]}), base_dir=Path("/x"), one_at_a_time=False)
    assert dag.get_task("job-001.generate").upstream_task_ids == set()


def test_blocks_are_a_chain_under_any_executor() -> None:
    """The order of an interleaved sweep is what its comparisons rest on: each job follows the one before it."""
    from inferbench_tasks.provider.render import render

    sweep = {"serve.threads": [1, 2], "order": "interleaved", "blocks": 4}
    dag = render(submission(sweep=sweep), base_dir=Path("/x"), one_at_a_time=False)
    assert dag.get_task("job-007.generate").upstream_task_ids == {"job-006.release"}
    assert dag.get_task("job-001.generate").trigger_rule == "all_done"


def test_a_dag_survives_serialisation(chained: DAG) -> None:
    """The scheduler sees a DAG only in its serialised form."""
    from airflow.serialization.serialized_objects import DagSerialization

    again = DagSerialization.from_dict(DagSerialization.to_dict(chained))
    assert set(again.task_ids) == set(chained.task_ids)
    assert "inferbench" in again.tags


def test_parameters_are_the_dag_s_and_no_task_s(chained: DAG) -> None:
    """Each task's copy would be checked by Airflow whenever the DAG is stored; a run has the DAG's all the same."""
    from airflow.sdk.definitions.param import process_params

    params = {name: chained.params[name] for name in chained.params}
    assert "duration_s" in params
    for task in chained.tasks:
        assert not task.params
        assert process_params(chained, task, {"duration_s": 3}, suppress_exception=False) == {
            **params,
            "duration_s": 3,
        }


def test_the_hash_of_a_dag_does_not_grow_with_its_tasks(chained: DAG) -> None:
    """Airflow asks for it at each arrow between two tasks."""
    assert hash(chained) == hash(chained.dag_id)


def test_a_dag_that_takes_too_long_is_refused() -> None:
    """Before its jobs' tasks are made."""
    from inferbench_tasks.errors import InputError
    from inferbench_tasks.provider.render import render

    with pytest.raises(InputError, match="no time to make the tasks of its 1 jobs"):
        render(submission(), base_dir=Path("/x"), one_at_a_time=False, deadline_s=0.0)


def test_a_changed_job_has_an_id_of_its_own(chained: DAG) -> None:
    """What a form changes changes the job's id, unless it is only a label; the DAG's own input stays."""
    from inferbench_tasks.plan.overrides import overridden
    from inferbench_tasks.provider.operators.stage import StageOperator

    load = chained.get_task("job-000.load")
    assert isinstance(load, StageOperator)
    given = load.node.input
    longer = overridden(given, {"duration_s": 99.0})
    assert longer["job"]["load"]["duration_s"] == 99.0
    assert longer["job_id"] != given["job_id"] == overridden(given, {"user": "me"})["job_id"]
    assert given["job"]["load"]["duration_s"] == 10.0


def test_the_tasks_on_the_device_tell_the_executor_all_that_it_needs(chained: DAG) -> None:
    """Their places, which asks for the device and which cleans up, and what is run again with them; as plain JSON."""
    import json

    from inferbench_tasks.provider.on_device import LeasedTask

    told = {}
    for task in chained.tasks:
        if leased := LeasedTask.of(json.loads(json.dumps(task.executor_config or {}))):
            told[task.task_id] = leased
            assert task.queue != "host"
    first = [told[f"job-000.{stage}"] for stage in ("serve", "load", "collect", "release")]
    assert len(told) == 8
    assert [task.position for task in first] == [0, 1, 2, 3]
    assert [task.cleans_up for task in first] == [False, False, False, True]
    assert [task.request is not None for task in first] == [True, False, False, False]
    assert first[0].request is not None and first[0].request.followers == ["analyze"]


def test_a_form_has_nothing_of_a_load_that_is_not_there() -> None:
    """Airflow refuses a number without a value, so parameters of the load go with it."""
    from inferbench_tasks.provider.render import parameters

    assert {*parameters(submission(load=None, evaluate={}))} == {"user", "priority"}


def test_a_shards_device_is_asked_for_by_its_own_assign(tmp_path: Path) -> None:
    """Which says what the models were cut for; a job of serving has no such task."""
    from inferbench_tasks.abilities import INSTALLED
    from inferbench_tasks.provider.on_device import LeasedTask
    from inferbench_tasks.provider.render import render
    from inferbench_tasks.submission.reader import read_submission

    path = tmp_path / "x.yaml"
    path.write_text(
        "kind: bricks\nname: x\nmodels: [{model: {kind: zoo, name: digits}}]\nmeasure: {shard_s: 20}\n"
    )
    bricks = render(read_submission(path, INSTALLED), base_dir=tmp_path, one_at_a_time=False)
    asked = {}
    for dag in (bricks, render(submission(), base_dir=tmp_path, one_at_a_time=False)):
        for task in dag.tasks:
            if (told := LeasedTask.of(task.executor_config)) and told.request:
                asked[task.task_id] = told.request.asked_by
    assert asked.pop("job-000.serve") == "" and len(asked) > 1
    assert all(by == task.replace(".measure", ".assign") for task, by in asked.items())
