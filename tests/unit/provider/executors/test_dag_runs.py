"""What the executor reads of runs of parts, on a database with Airflow's own tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.provider.executors.conftest import NOON, RUN

pytestmark = pytest.mark.airflow

FIRST, SECOND = "big..jobs-00000-00099", "big..jobs-00100-00199"
Add = Any


def test_jobs_of_a_part_were_asked_for_with_their_submission(add: Add) -> None:
    """Their age and deadline count from there; what they were asked is their own run's."""
    from inferbench_tasks.provider.executors import dag_runs

    add("big", "running", 0, conf={"user": "me"})
    add(SECOND, "running", 45, conf={"user": "me", "priority": 2})
    add("big", "running", -99, run="another")
    assert dag_runs.trigger(SECOND, RUN) == ({"user": "me", "priority": 2}, NOON.timestamp())
    assert dag_runs.trigger("big", RUN) == ({"user": "me"}, NOON.timestamp())


def test_a_part_is_its_submission_s_login_s(add: Add) -> None:
    """Whoever asked for the submission, by the form too; another's run of the same DAG is another's."""
    from inferbench_tasks.provider.executors import dag_runs

    add("big", "running", triggering_user_name="ada")
    add(SECOND, "running")
    add("submitted.x.1", "running")
    add("submitted.x.1..jobs-00000-00099", "running")
    add("submit", "running", triggering_user_name="bob")
    add("big", "running", run="another", triggering_user_name="eve")
    assert dag_runs.login(SECOND, RUN) == "ada"
    assert dag_runs.login("submitted.x.1..jobs-00000-00099", RUN) == "bob"
    assert dag_runs.login("scheduled", RUN) is None


def test_parts_that_are_under_way_are_known(add: Add) -> None:
    """By the mark in their name; and those of submissions that came by the form, parts or not, by how theirs begin."""
    from inferbench_tasks.provider.executors import dag_runs

    add("big", "running")
    add(FIRST, "success")
    add(SECOND, "queued")
    add("submitted.x.1", "running")
    assert dag_runs.unfinished(within="..jobs-") == [SECOND]
    assert dag_runs.unfinished("submitted.") == ["submitted.x.1"]
    assert dag_runs.has_parts("big", RUN)
    assert not dag_runs.has_parts("big", "another")
    assert not dag_runs.has_parts("bi", RUN)


def test_a_part_whose_submission_was_ended_is_left_behind(add: Add) -> None:
    """Not while that goes on, not one that was begun anew afterwards, and not one of another run."""
    from inferbench_tasks.provider.executors import dag_runs

    end = NOON + timedelta(minutes=30)
    add("big", "failed", 0, end_date=end)
    add(FIRST, "success", 1)
    add(SECOND, "running", 20)
    add("big..jobs-00200-00299", "queued", 40)
    add("big", "running", 0, run="another")
    add(SECOND, "running", 20, run="another")
    assert dag_runs.left_behind() == [(SECOND, RUN)]


def test_jobs_of_parts_that_have_not_begun_are_their_login_s(add: Add) -> None:
    """Those that have begun wait in the executor; what has ended does not wait; a schedule's are nobody's."""
    from inferbench_tasks.provider.executors import dag_runs

    add("big", "running", triggering_user_name="ada")
    add("other", "running")
    add("over", "success", triggering_user_name="ada")
    for dag in ("big", "other", "over"):
        add.task(dag, "jobs-00000-00049", "deferred", operator="RunPart")
        add.task(dag, "jobs-00050-00099", "queued", operator="RunPart")
        add.task(dag, "jobs-00100-00104", None, operator="RunPart")
        add.task(dag, "analyze", None)
    assert dag_runs.jobs_to_come() == {"ada": 55}


def test_what_a_task_of_the_run_returned_is_read(add: Add) -> None:
    """Of this run and task alone; None where it has returned nothing."""
    from inferbench_tasks.provider.executors import dag_runs

    add("nightly.x", "running")
    system = {"device": "cpu", "name": "EPYC", "alike": ["a.cpu"]}
    add.xcom("nightly.x", "choose", system)
    add.xcom("nightly.x", "choose", "link", key="other")
    assert dag_runs.left_by("nightly.x", RUN, "choose") == system
    assert dag_runs.left_by("nightly.x", RUN, "measure") is None
    assert dag_runs.left_by("nightly.x", "another", "choose") is None


def test_a_file_s_own_dag_tells_who_started_what_it_submits(add: Add) -> None:
    """A file that asks for systems is started by its name; so is another, whose run has another id."""
    from inferbench_tasks.provider.executors import dag_runs

    add("file", "running", triggering_user_name="ada")
    add("submitted.file.1a2b3c4d", "running", conf={"started_by": "file"})
    add("submitted.file.9f8e7d6c", "running", conf={"started_by": "other"})
    assert dag_runs.login("submitted.file.1a2b3c4d", RUN) == "ada"
    assert dag_runs.login("submitted.file.9f8e7d6c", RUN) is None
    assert dag_runs.login("submitted.file.1a2b3c4d", "another") is None
    assert dag_runs.login("submitted.other.1a2b3c4d", RUN) is None
    add("submit", "success", triggering_user_name="eve")  # of the same id: somebody else's
    assert dag_runs.login("submitted.file.1a2b3c4d", RUN) == "ada"
    assert dag_runs.login("submitted.file.9f8e7d6c", RUN) is None
