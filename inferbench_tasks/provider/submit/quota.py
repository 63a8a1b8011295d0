"""How much one login may have: so that others' submissions are seen, and have devices and room."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.submit import standing
from inferbench_tasks.provider.submit.device_time import used_up
from inferbench_tasks.upkeep.sizes import allocated_bytes

MAX_WAITING_JOBS = "INFERBENCH_MAX_WAITING_JOBS"
MAX_SUBMISSIONS = "INFERBENCH_MAX_SUBMISSIONS"
#: Minutes of all devices together within 24 hours; unless set, nobody counts.
MAX_DEVICE_MINUTES = "INFERBENCH_MAX_DEVICE_MINUTES"
#: Of the folders of a login's runs, 10^9 bytes.
MAX_LOGIN_GB = "INFERBENCH_MAX_LOGIN_GB"
#: One sweep of the largest size may wait, and more small ones than a person looks after.
_USUAL = {MAX_WAITING_JOBS: 10_000, MAX_SUBMISSIONS: 100, MAX_LOGIN_GB: 20}
#: Where nothing says when there is room again.
USUAL_RETRY_S = 60.0


class QuotaError(InputError):
    """A login has as much as it may. ``retry_s``: after how many seconds it may be worth another try."""

    def __init__(self, message: str, retry_s: float = USUAL_RETRY_S) -> None:
        super().__init__(message)
        self.retry_s = retry_s


def check_quota(login: str | None, jobs: int, db: PerfDB, *, submissions: int = 0) -> None:
    """QuotaError where ``jobs`` more would be too many for the login, or it has used up its devices or its room.

    ``submissions``: of the login, that have not ended. Logins of admins, of operators and of schedules have no quota.
    Raises PerfDBError.
    """
    if not _counts(login):
        return
    assert login is not None
    most_submissions, most_jobs = _limit(MAX_SUBMISSIONS), _limit(MAX_WAITING_JOBS)
    if submissions >= most_submissions:
        raise QuotaError(
            f"{login} has {submissions:,} submissions that have not ended; at most {most_submissions:,} are allowed "
            f"({MAX_SUBMISSIONS}). Wait for some, or end some (`inferbench cancel RUN`)."
        )
    waiting = Cluster(db).waiting_of(login)
    if waiting + jobs > most_jobs:
        raise QuotaError(
            f"{login} has {waiting:,} jobs waiting, and this submission has {jobs:,}; at most {most_jobs:,} are "
            f"allowed ({MAX_WAITING_JOBS}). Wait for some, end some (`inferbench cancel RUN`), or sweep over fewer "
            f"points."
        )
    _check_room(login, db)
    _check_device_time(login, db)


def out_of_device_time(logins: Iterable[str], db: PerfDB) -> dict[str, str]:
    """The logins among these that have used up their minutes of devices, and what is said of it. Raises PerfDBError."""
    if (minutes := device_minutes()) is None:
        return {}
    if not (counted := [login for login in logins if _counts(login)]):
        return {}
    reasons, now_s = {}, db.now().timestamp()
    for login in counted:
        if excess := used_up(db, login, 60.0 * minutes, now_s):
            reasons[login] = excess.said(login, minutes, MAX_DEVICE_MINUTES)
    return reasons


def device_minutes() -> int | None:
    """How many minutes of devices a login may have within 24 hours; None where nobody counts."""
    return _limit(MAX_DEVICE_MINUTES) if os.environ.get(MAX_DEVICE_MINUTES) else None


def _check_device_time(login: str, db: PerfDB) -> None:
    if (minutes := device_minutes()) is None:
        return
    now_s = db.now().timestamp()
    if excess := used_up(db, login, 60.0 * minutes, now_s):
        raise QuotaError(excess.said(login, minutes, MAX_DEVICE_MINUTES), max(1.0, excess.until_s - now_s))


def _check_room(login: str, db: PerfDB) -> None:
    most_gb = _limit(MAX_LOGIN_GB)
    used_bytes = room_of(login, db, settings.data_dir())
    if used_bytes >= most_gb * 1e9:
        raise QuotaError(
            f"The folders of {login}'s runs take {used_bytes / 1e9:,.1f} GB of the disk; at most {most_gb:,} GB are "
            f"allowed ({MAX_LOGIN_GB}). Wait until old ones are removed ({settings.KEEP_RUNS}), or have an admin do it "
            f"(`inferbench clean`): results stay in PerfDB.",
            retry_s=3600.0,
        )


def room_of(login: str, db: PerfDB, data_dir: Path) -> int:
    """What the folders of a login's runs take of the disk, bytes. Raises PerfDBError."""
    folder = data_dir / "runs"
    names = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
    if not names:
        return 0
    mine = db.retrying(
        lambda: db.collection("runs").distinct("_id", {"submission.login": login}), "finding runs"
    )
    return sum(allocated_bytes(folder / run_id) for run_id in names.intersection(mine))


def _counts(login: str | None) -> bool:
    """Whether there are limits for that login."""
    return login is not None and not standing.may_hurry(login)


def _limit(name: str) -> int:
    text = os.environ.get(name, "") or str(_USUAL[name])
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InputError(f"{name} is {text[:40]!r}; allowed are whole numbers from 0")
    return int(text)
