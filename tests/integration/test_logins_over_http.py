"""Quotas of logins and the end of submissions by the real routes, with real logins and DAGs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.airflow_site import answers_of

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
Answers = dict[str, Any]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What was asked -> status, body and Retry-After; see ``logins_over_http``."""
    users = "ann:submitter,bob:submitter,vic:viewer,root:admin"
    environment = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users}
    return answers_of("tests.integration.logins_over_http", tmp_path_factory, environment)


def test_a_submission_says_whose_it_is_and_which_priority_counts(answers: Answers) -> None:
    """The login beside the user that the submission names; a submitter's priority of 90 is none."""
    body = answers["submit ann"]["body"]
    assert answers["submit ann"]["status"] == 202
    assert (body["user"], body["login"], body["priority"]) == ("the-boss", "ann", 0)
    assert answers["minutes of an admin"]["body"]["priority"] == 90


@pytest.mark.parametrize(
    ("step", "words", "setting"),
    [
        (
            "jobs",
            "ann has 5 jobs waiting, and this submission has 1; at most 5",
            "INFERBENCH_MAX_WAITING_JOBS",
        ),
        ("submissions", "bob has 1 submissions that have not ended; at most 1", "INFERBENCH_MAX_SUBMISSIONS"),
        (
            "minutes",
            "ann has used 10 minutes of devices within the last 24 hours",
            "INFERBENCH_MAX_DEVICE_MINUTES",
        ),
        (
            "room",
            "The folders of ann's runs take 0.0 GB of the disk; at most 0 GB",
            "INFERBENCH_MAX_LOGIN_GB",
        ),
    ],
)
def test_a_quota_that_is_used_up_is_429(answers: Answers, step: str, words: str, setting: str) -> None:
    """What is used up, the setting, the remedy, and after how many seconds to ask again."""
    answer = answers[step]
    assert answer["status"] == 429
    assert words in answer["body"]["detail"] and setting in answer["body"]["detail"]
    assert int(answer["retry"]) >= 60


def test_minutes_of_devices_say_when_it_goes_on(answers: Answers) -> None:
    """10 minutes ago the first of 10 minutes began: a day after that."""
    answer = answers["minutes"]
    assert "It may go on from" in answer["body"]["detail"] and "UTC" in answer["body"]["detail"]
    assert 86_400 - 11 * 60 < int(answer["retry"]) <= 86_400 - 9 * 60
    assert answers["minutes left"]["status"] == 422, "with a minute left it comes to what is wrong with it"


def test_another_login_and_an_admin_go_on(answers: Answers) -> None:
    """Quotas are each login's own, and an admin has none."""
    assert answers["jobs of another"]["status"] == answers["minutes of an admin"]["status"] == 202


def test_a_submitter_ends_its_own_submission(answers: Answers) -> None:
    """Both of its DAG runs; what had not begun is skipped, and what cleans up still may."""
    before, after = answers["end bob"]["states"], answers["end ann"]["states"]
    assert answers["end ann"]["status"] == 202 and len(answers["end ann"]["body"]["ended"]) == 2
    assert before["submit"] in ("queued", "running") and after["submit"] == "failed"
    assert set(before["tasks"].values()) == {None}
    assert after["tasks"]["job-000.release"] is None
    assert {state for task, state in after["tasks"].items() if task != "job-000.release"} == {"skipped"}


def test_what_has_ended_is_ended_again_without_harm(answers: Answers) -> None:
    """The run of ``submit`` is over; the other one still cleans up, and nothing else changes."""
    again = answers["end ann again"]
    assert again["status"] == 202 and "submit" not in again["body"]["ended"]
    assert again["states"] == answers["end ann"]["states"]


def test_nobody_else_ends_it_but_an_admin(answers: Answers) -> None:
    """Another submitter is told whose it is; a viewer may not at all; by the id of a run in PerfDB as well.

    A run of an admin's under the same run id is not ended with it.
    """
    assert answers["end vic"]["status"] == answers["end bob"]["status"] == 403
    assert "started by 'ann'" in answers["end bob"]["body"]["detail"]
    assert answers["end bob's as ann"]["status"] == 403
    assert answers["end bob's as root"]["status"] == 202
    assert answers["end bob's as root"]["states"]["submit"] == "failed"
    assert set(answers["end ann"]["of root"].values()) == {None}, "a run of an admin's goes on"
    assert answers["end nothing"]["status"] == 404


def test_the_page_of_a_run_has_the_button_for_who_may(answers: Answers) -> None:
    """And says who asked for it: the user that the submission names, and the login."""
    pages = {login: answers[f"page {login}"]["body"] for login in ("vic", "ann", "bob")}
    assert {login: "data-cancel" in page for login, page in pages.items()} == {
        "vic": False, "ann": False, "bob": True,
    }  # fmt: skip
    assert all("the-boss (login bob)" in page for page in pages.values())
