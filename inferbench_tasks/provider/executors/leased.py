"""Jobs that have a lease: it ends when they are over, or come to nothing, and what was lost is run again."""

from __future__ import annotations

import logging
import time
from collections.abc import Container

from inferbench_tasks.cluster.dispatcher import Dispatcher
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import RunDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.executors import job_tasks
from inferbench_tasks.provider.executors.jobs import leased_s, perfdb_run
from inferbench_tasks.scheduling.estimator import Estimator

#: A job with a lease whose first task on it did not come to wait again within this time has been ended by its user.
NO_SHOW_S = 60.0
#: A job with a lease of which nothing runs, nor is about to, for so long and so many looks gives its device back.
IDLE_S, IDLE_LOOKS = 120.0, 20
#: How long a stage that Airflow calls failed has to tell PerfDB why, once its job has cleaned up as well. Longer
#: than a few seconds, and the run would be seen as failed before its job is run again.
EXPLAIN_S = 2.0

log = logging.getLogger(__name__)


class LeasedJobs:
    """What is known of the jobs with leases since they were last looked at."""

    def __init__(self, dispatcher: Dispatcher, db: PerfDB, estimator: Estimator) -> None:
        self._dispatcher, self._db, self._estimator = dispatcher, db, estimator
        self._tasks: dict[JobKey, job_tasks.JobTasks] = {}
        self._no_show: dict[str, float] = {}
        self._idle: dict[str, tuple[float, int]] = {}
        self._unexplained: dict[str, float] = {}

    def look(self, waiting: Container[str]) -> None:
        """End the leases of jobs that are over; run again what was lost. ``waiting``: those that are held.

        Raises PerfDBError.
        """
        held = dict(self._dispatcher.held)
        for job, tasks in self._tasks_of_leased().items():
            entry = held[job]
            if tasks.gone:
                self._dispatcher.withdraw(job, "its DAG run was deleted")
            elif tasks.over:
                self._end(job, tasks)
            elif not entry.started and job not in waiting and not tasks.begun:
                self._count_no_show(job)
            elif tasks.idle:
                self._count_idle(job)
            else:
                self._no_show.pop(job, None)
                self._idle.pop(job, None)

    def end_run(self, job: JobKey, tasks: job_tasks.JobTasks, verdict: Verdict) -> None:
        """In PerfDB, if the job is one run there. Raises PerfDBError if it is away."""
        if not tasks.recorded:
            return
        try:
            self._db.end_run(perfdb_run(job), verdict)
        except InputError as error:
            log.warning("the run of job=%s can't be ended: %s", job, error)

    def _tasks_of_leased(self) -> dict[str, job_tasks.JobTasks]:
        """Of each job with a lease; all that were looked at before are asked for at once."""
        keys = {job: JobKey.parse(job) for job in self._dispatcher.held}
        again = job_tasks.seen_again({key: self._tasks[key] for key in keys.values() if key in self._tasks})
        self._tasks = {key: again.get(key) or job_tasks.job_tasks(key) for key in keys.values()}
        return {job: self._tasks[key] for job, key in keys.items()}

    def _count_no_show(self, job: str) -> None:
        """A device is kept for a job whose first task on it is not here (yet)."""
        since = self._no_show.setdefault(job, time.monotonic())
        if time.monotonic() - since > NO_SHOW_S:
            del self._no_show[job]
            self._dispatcher.withdraw(job, "its first task on the device did not come")

    def _count_idle(self, job: str) -> None:
        """A device is kept for a job of which nothing runs. What it had there is ended by the device's worker."""
        since, looks = self._idle.setdefault(job, (time.monotonic(), 0))
        self._idle[job] = since, looks + 1
        if time.monotonic() - since > IDLE_S and looks >= IDLE_LOOKS:
            del self._idle[job]
            self._dispatcher.withdraw(job, "nothing of it runs: its DAG is paused, or its run was cleared")

    def _end(self, job: str, tasks: job_tasks.JobTasks) -> None:
        key, failed = JobKey.parse(job), tasks.failed
        run = self._db.find_runs({"_id": perfdb_run(key)}, limit=1)
        if failed is None:
            seconds = leased_s(run[0]) if run else None
            # One that a user marked as success was cut short.
            whole = tasks.succeeded and bool(run) and run[0].status not in ("cancelled", "failed")
            if seconds is not None and whole:
                self._estimator.observe(run[0].job_id, seconds)
            self._dispatcher.ended(job, ok=True)
            return
        # What is no run in PerfDB fails by Airflow's own word.
        if not tasks.recorded:
            explained = not job_tasks.given_up(key, failed)
        else:
            explained = bool(run) and self._is_explained(key, run[0], failed)
        if explained:
            self._unexplained.pop(job, None)
            self._dispatcher.ended(job, ok=False)
            return
        # A stage that is ended in the middle says so within moments; one that was killed never does.
        now = time.monotonic()
        if now - self._unexplained.setdefault(job, now) < EXPLAIN_S:
            return
        del self._unexplained[job]
        cause = "it was killed, or Airflow lost sight of it"
        reason = f"{failed.stage}, {cause}"
        if job_tasks.ended_by_user(key):
            self._dispatcher.ended(job, ok=False)
            self.end_run(key, tasks, Verdict.cancelled(failed.stage))
        elif self._dispatcher.failed(job, reason):
            log.warning("job=%s is run again: %s", job, reason)
            job_tasks.run_again(key, tasks)
            self.end_run(key, tasks, Verdict.failed(failed.stage, f"{cause}, and is run again"))
        else:
            self.end_run(key, tasks, Verdict.failed(failed.stage, f"{cause}, for the last time"))

    def _is_explained(self, key: JobKey, run: RunDocument, task: job_tasks.TaskState) -> bool:
        """Whether a stage that Airflow calls failed told PerfDB how it failed, or that its user ended it.

        One that says "done" or "cancelled" while Airflow gave it up did not fail: its heartbeat did not come through.
        """
        states = [s.state for s in run.stages if s.stage == task.stage and s.attempt == task.attempt]
        if "failed" in states:
            return True
        return states not in ([], ["running"]) and not job_tasks.given_up(key, task)
