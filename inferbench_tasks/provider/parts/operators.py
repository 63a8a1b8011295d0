"""The task of a large submission's DAG that starts one of its parts and ends with it."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.triggers.external_task import DagStateTrigger
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import DagRunState
from airflow.sdk.exceptions import AirflowFailException

from inferbench_tasks import settings
from inferbench_tasks.contracts.part import PartName
from inferbench_tasks.errors import InputError
from inferbench_tasks.plan.parts import PART_JOBS
from inferbench_tasks.provider.waiting import LONGEST, LOOK_S, SETTLE, wait_until_known
from inferbench_tasks.submission.base import SubmissionBase

if TYPE_CHECKING:
    from airflow.sdk import Context

#: How many parts of one submission are under way at a time; the scheduler's policy chooses among their jobs.
PARTS_AT_ONCE = "INFERBENCH_PARTS_AT_ONCE"
DEFAULT_PARTS_AT_ONCE = 2
#: How many jobs a part has.
JOBS_OF_A_PART = "INFERBENCH_PART_JOBS"
_ENDED = (DagRunState.SUCCESS, DagRunState.FAILED)


def parts_at_once() -> int:
    """The setting; InputError where it is no whole number from 1 to 100."""
    return _setting(PARTS_AT_ONCE, DEFAULT_PARTS_AT_ONCE)


def part_jobs() -> int:
    """The setting; InputError where it is no whole number from 1 to 100."""
    return _setting(JOBS_OF_A_PART, PART_JOBS)


def _setting(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 100):
        raise InputError(f"{name} is {text[:40]!r}; allowed are whole numbers from 1 to 100")
    return int(text)


def task_of(part: PartName) -> str:
    """The id of the task that runs a part."""
    return f"jobs-{part.first:05d}-{part.last:05d}"


def jobs_of_task(task_id: str) -> range:
    """The places of the jobs of such a task."""
    _, first, last = task_id.split("-")
    return range(int(first), int(last) + 1)


class RunPart(TriggerDagRunOperator):
    """Puts a part's jobs on the shelf, waits until Airflow knows their DAG, starts it, and ends as it ends.

    The part's run has the id of the submission's, and what the trigger changed. A second try finds the first's run;
    one that has ended is not begun anew: that is done by clearing the part's own run.
    """

    template_fields = ("trigger_run_id",)
    ui_color = "#e8f0fe"

    def __init__(self, *, part: PartName, submission: SubmissionBase, base_dir: str, **kwargs: Any) -> None:
        super().__init__(
            **{
                "task_id": task_of(part),
                "trigger_dag_id": str(part),
                "trigger_run_id": "{{ run_id }}",
                "logical_date": None,
                "conf": {},
                "wait_for_completion": True,
                "deferrable": True,
                "poke_interval": int(LOOK_S),
                "retries": 2,
                "retry_delay": timedelta(seconds=2),
                "doc_md": f"Jobs {part.first} to {part.last}; the link opens their DAG.",
                **kwargs,
            }
        )
        self.part = part
        self.submission = submission
        self.base_dir = base_dir

    def execute(self, context: Context) -> None:
        ti, dag_run_id = context["ti"], str(self.trigger_run_id)
        if ti.get_dr_count(str(self.part), run_ids=[dag_run_id]):
            self.log.info("%s of %s was started before", dag_run_id, self.part)
            self._await(context)
        self._place()
        wait_until_known(ti, str(self.part))
        if ti.get_dagrun_state(self.part.whole, dag_run_id) != DagRunState.RUNNING:
            raise AirflowFailException("The submission was ended before this part was started.")
        self.conf = dict(context["dag_run"].conf or {})
        self.note = f"Part of {self.part.whole}"
        super().execute(context)

    def execute_complete(self, context: Context, event: Any = None) -> None:
        """The part is over, unless it failed because a device was lost: then it runs again."""
        if self._state(context) == DagRunState.FAILED:
            self.defer(trigger=TimeDeltaTrigger(SETTLE), method_name="settled")

    def settled(self, context: Context, event: Any = None) -> None:
        """It has failed for good, or it runs again."""
        state = self._state(context)
        if state not in _ENDED:
            self._await(context)
        if state == DagRunState.FAILED:
            raise AirflowFailException(f"Not all jobs of {self.part} ended well: see its tasks.")

    def _await(self, context: Context) -> None:
        states: list[Any] = list(_ENDED)
        trigger = DagStateTrigger(str(self.part), states, [str(self.trigger_run_id)], poll_interval=LOOK_S)
        self.defer(trigger=trigger, method_name="execute_complete", timeout=LONGEST)

    def _state(self, context: Context) -> Any:
        return context["ti"].get_dagrun_state(str(self.part), str(self.trigger_run_id))

    def _place(self) -> None:
        from inferbench_tasks.provider.parts.shelf import PartShelf, PlacedPart
        from inferbench_tasks.submission.sweep import expand

        placed = PlacedPart.of(self.submission, self.base_dir, self.part, expand(self.submission))
        PartShelf(settings.data_dir()).place(self.part, placed)
