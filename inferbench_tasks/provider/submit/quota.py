"""How much one login may have waiting: so that others' submissions are seen, and the scheduler's work stays bounded."""

from __future__ import annotations

import os

from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB

MAX_WAITING_JOBS = "INFERBENCH_MAX_WAITING_JOBS"
MAX_SUBMISSIONS = "INFERBENCH_MAX_SUBMISSIONS"
#: One sweep of the largest size may wait, and more small ones than a person looks after.
_USUAL = {MAX_WAITING_JOBS: 10_000, MAX_SUBMISSIONS: 100}


class QuotaError(InputError):
    """A login has as much waiting as it may."""


def check_quota(login: str | None, jobs: int, db: PerfDB, *, submissions: int = 0) -> None:
    """QuotaError where ``jobs`` more would be too many for the login.

    ``submissions``: of the login, that have not ended. Logins of admins, of operators and of schedules have no quota.
    Raises PerfDBError.
    """
    from inferbench_tasks.provider.executors.jobs import may_hurry

    if login is None or may_hurry(login):
        return
    most_submissions, most_jobs = _limit(MAX_SUBMISSIONS), _limit(MAX_WAITING_JOBS)
    if submissions >= most_submissions:
        raise QuotaError(
            f"{login} has {submissions:,} submissions that have not ended; at most {most_submissions:,} are allowed "
            f"({MAX_SUBMISSIONS}). Wait for some, or have an admin end them."
        )
    waiting = Cluster(db).waiting_of(login)
    if waiting + jobs > most_jobs:
        raise QuotaError(
            f"{login} has {waiting:,} jobs waiting, and this submission has {jobs:,}; at most {most_jobs:,} are "
            f"allowed ({MAX_WAITING_JOBS}). Wait for some, have an admin end them, or sweep over fewer points."
        )


def _limit(name: str) -> int:
    text = os.environ.get(name, "") or str(_USUAL[name])
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InputError(f"{name} is {text[:40]!r}; allowed are whole numbers from 0")
    return int(text)
