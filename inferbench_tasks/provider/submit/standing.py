"""What a submission may say of its own place among others, by the role of its login."""

from __future__ import annotations

import os
from typing import Any

from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.sweep import expand

#: A submitter's expected duration counts up to so much, or so many times what its load takes, whichever is more:
#: three times the estimate is how long a job may hold its device.
LONGEST_CLAIM_S, LONGEST_CLAIM_RATIO = 3600.0, 4.0
#: Logins, separated by commas, whose jobs may go before others, whatever their roles are.
OPERATORS = "INFERBENCH_OPERATORS"
#: Auth managers whose users and roles stand in settings, which every part of a system has.
SIMPLE = (
    "inferbench_tasks.provider.auth.manager.AuthManager",
    "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
)


def may_hurry(login: str | None) -> bool:
    """Whether jobs of that login may go before others by their priority: an admin's, an operator's, a schedule's.

    Other auth managers than Airflow's simple one keep their roles where only the API server can ask for them, and a
    submission is rendered elsewhere: theirs are named by ``OPERATORS``.
    """
    if login is None:
        return True
    if login in os.environ.get(OPERATORS, "").replace(",", " ").split():
        return True
    from airflow.configuration import conf

    if conf.get("core", "auth_manager") not in SIMPLE:
        return False
    from inferbench_tasks.provider.auth.manager import role_of  # with all of the web server's libraries

    return role_of(login) in (None, "op", "admin")


def claim_s(spec: JobBase, login: str | None) -> float:
    """What a job is expected to take on its device, as far as its login may say so; seconds.

    Who may not go before others can't get there by a job that claims to be shorter than its own load.
    """
    pipeline = pipeline_of(spec)
    claimed_s = pipeline.length_s(spec)
    if spec.expected_duration_s is None or may_hurry(login):
        return claimed_s
    own_s = pipeline.expected_s(spec)
    return min(max(claimed_s, own_s), max(LONGEST_CLAIM_S, LONGEST_CLAIM_RATIO * own_s))


def within_role(submission: SubmissionBase, login: str | None) -> SubmissionBase:
    """The submission with the priority and the expected duration that count for its login.

    Its DAG has them too: the stages before a device is needed go by Airflow's own priorities.
    """
    if may_hurry(login):
        return submission
    changes: dict[str, Any] = {}
    if submission.priority > 0:
        changes["priority"] = 0
    if submission.expected_duration_s is not None:
        claims_s = [claim_s(job.spec, login) for job in expand(submission)]
        changes["expected_duration_s"] = min(claims_s, default=submission.expected_duration_s)
    return submission.model_copy(update=changes)
