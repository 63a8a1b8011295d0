"""A second pipeline, installed by its entry point alone: it validates, sweeps, plans and renders as serving does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import InputError, SubmissionError, UnknownKindError
from inferbench_tasks.pipelines.base import PIPELINES, UNKNOWN_S, Pipeline, job_of, pipeline_of
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.overrides import overridden
from inferbench_tasks.running.invocation import Order
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import serving_only
from inferbench_tasks.submission.sweep import expand
from tests.probe_pipeline import install, submission


@pytest.fixture(autouse=True)
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is installed for the time of a test."""
    monkeypatch.syspath_prepend(install(tmp_path))
    PIPELINES.__dict__.pop("_plugins", None)
    yield
    PIPELINES.__dict__.pop("_plugins", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "inferbench_probe"]:
        del sys.modules[name]


def read(text: str) -> SubmissionBase:
    return read_submission_text(text, "x.yaml", INSTALLED)


def problems(text: str) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def test_it_is_known_by_its_entry_point() -> None:
    """With the distribution that brings it; a misspelt kind lists both."""
    assert PIPELINES.origin("probe") == "inferbench-probe 1.0"
    assert list(PIPELINES) == ["bricks", "probe", "serving", "training"]
    (problem,) = problems("name: x\nkind: prob\n")
    assert (
        problem == "x.yaml:2: kind: unknown kind of submission 'prob'; did you mean 'probe'? "
        "known: bricks, probe, serving, training"
    )


def test_its_schema_has_the_strict_reader() -> None:
    """Line, path, what is allowed and what was meant, by the fields of its own jobs alone."""
    assert problems("name: x\nkind: probe\nsecnds: 2\n") == [
        "x.yaml:3: secnds: unknown key; did you mean 'seconds'? allowed: name, kind, user, description, tags, "
        "priority, expected_duration_s, deadline_s, on_devices, files, manifests, block, seconds, sweep"
    ]
    assert problems("name: x\nkind: probe\nseconds: -1\n") == [
        "x.yaml:3: seconds: must be a number from 0 to 600; got -1"
    ]
    assert problems("name: x\nkind: probe\nload: {arrivals: 3}\n")[0].startswith(
        "x.yaml:3: load: unknown key"
    )


def test_its_fields_are_swept_and_digested() -> None:
    """A point of the sweep is a job with a digest; another wait is another job, another user is not."""
    jobs = expand(read(submission("x", more="sweep: {seconds: [0, 1, 2]}\n")))
    assert [job.point for job in jobs] == [{"seconds": 0}, {"seconds": 1}, {"seconds": 2}]
    assert len({job.digest for job in jobs}) == 3
    (again,) = expand(read(submission("x", 2.0, "user: somebody\n")))
    assert again.job_id == jobs[2].job_id and job_digest(again.spec) == jobs[2].digest
    (bad,) = problems(submission("x", more="sweep: {serve.threads: [1]}\n"))
    assert bad.startswith("x.yaml:4: sweep.serve.threads: no field of a submission")
    (sweep,) = problems(submission("x", more="sweep: {seconds: [1, 9999]}\n"))
    assert "must be a number from 0 to 600; got 9999" in sweep and "x.yaml:4" in sweep


def test_its_plan_has_its_stages() -> None:
    """Two nodes a job under one lease, the first of which opens it; nothing follows all jobs."""
    plan = compile_plan(read(submission("x", more="sweep: {seconds: [0, 1]}\n")))
    assert [node.id for node in plan.nodes] == [
        "job-000.wait", "job-000.note", "job-001.wait", "job-001.note",
    ]  # fmt: skip
    wait, note = plan.of_job(1)
    assert wait.lease == note.lease == plan.jobs[1].job_id and wait.resource == note.resource == "cpu"
    assert (wait.opens, wait.closes, wait.first, wait.cleans_up) == (True, False, True, False)
    assert (note.opens, note.closes, note.last, note.cleans_up) == (False, True, True, True)
    assert note.needs == {"wait": "job-001.wait"}
    assert wait.expected_s == 2.0
    assert plan.of_submission() == ()


def test_a_trigger_s_parameters_are_its_own() -> None:
    """Its form has the field, and a changed job another id; those of serving mean nothing here."""
    plan = compile_plan(read(submission("x")))
    changed = overridden(plan.nodes[0].input, {"seconds": 5.0, "duration_s": 9.0})
    assert changed["job"]["seconds"] == 5.0 and changed["job_id"] != plan.jobs[0].job_id
    assert "load" not in changed["job"]


def test_a_local_order_keeps_its_kind() -> None:
    """Written as JSON and read by the process that runs it."""
    order = Order(submission=read(submission("x", 3.0)), base_dir="/", data_dir="/")
    again = Order.model_validate_json(order.model_dump_json())
    assert again.submission == order.submission
    assert type(again.submission).__name__ == "ProbeJobSubmission"


def test_what_only_serving_can_do_says_so() -> None:
    """A search over servers is refused for a probe, with its kind."""
    with pytest.raises(InputError, match="A search needs a submission of kind serving; x is of kind probe"):
        serving_only(read(submission("x")), "A search")


def test_a_kind_that_was_uninstalled_is_named() -> None:
    """Its stored jobs are no serving jobs."""
    with pytest.raises(UnknownKindError, match="'gone'; known: bricks, probe, serving, training"):
        pipeline_of({"kind": "gone"})


def test_a_length_that_nobody_says_is_a_minute() -> None:
    """The submission's own word comes first, then the pipeline's."""
    document = read(submission("x", 3.0)).model_dump(mode="json", exclude={"sweep"})
    pipeline = pipeline_of(document)
    assert pipeline.length_s(job_of(document)) == 4.0
    assert pipeline.length_s(job_of({**document, "expected_duration_s": 50.0})) == 50.0
    assert Pipeline.expected_s(pipeline, job_of(document)) == UNKNOWN_S


@pytest.mark.airflow
def test_its_dag_has_its_tasks() -> None:
    """A setup and its teardown in each job, its form, its tags; the jobs one after the other."""
    from inferbench_tasks.provider.on_device import LeasedTask
    from inferbench_tasks.provider.render import render

    dag = render(read(submission("x")), base_dir=Path("/x"), one_at_a_time=False)
    assert set(dag.task_ids) == {"job-000.wait", "job-000.note"}
    assert dag.get_task("job-000.wait").is_setup and dag.get_task("job-000.note").is_teardown
    assert set(dag.params) == {"user", "priority", "seconds"}
    assert {"inferbench", "probe"} <= set(dag.tags)
    told = LeasedTask.of(dag.get_task("job-000.wait").executor_config)
    assert told is not None and told.request is not None and told.request.followers == []
    chained = render(
        read(submission("x", more="sweep: {seconds: [0, 1]}\n")), base_dir=Path("/x"), one_at_a_time=True
    )
    assert chained.get_task("job-001.wait").upstream_task_ids == {"job-000.note"}
