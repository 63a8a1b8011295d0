"""The three tasks of the ``submit`` DAG: validate at once, start the submission's DAG, tell how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.triggers.external_task import DagStateTrigger
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, DagRunState
from airflow.sdk.exceptions import AirflowFailException

from inferbench_tasks import settings
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.provider.links import InvocationReportLink
from inferbench_tasks.provider.submit.request import SubmissionRequest, resolve
from inferbench_tasks.provider.submit.shelf import Shelf
from inferbench_tasks.provider.waiting import LONGEST, LOOK_S, SETTLE, wait_until_known
from inferbench_tasks.running.invocation import Invocation

if TYPE_CHECKING:
    from airflow.sdk import Context

PROBLEMS_KEY = "problems"
OUTCOME_KEY = "outcome"


class ValidateSubmission(BaseOperator):
    """Reads the parameters; fails at once, with every problem in the log, before anything runs.

    ``file``: the name in the submissions folder of the one that it reads, in place of one that the parameters give.
    Returns ``dag_id``, ``name``, ``user``, ``jobs`` of the DAG that it became.
    """

    ui_color = "#e8f0fe"

    def __init__(self, *, file: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.file = file

    def execute(self, context: Context) -> dict[str, Any]:
        from inferbench_tasks.perfdb.store import PerfDB
        from inferbench_tasks.provider.loader import submissions_dir
        from inferbench_tasks.provider.submit.quota import QuotaError, check_quota
        from inferbench_tasks.running.cluster_abilities import of_cluster_here
        from inferbench_tasks.submission.sweep import expand

        settings.refuse_full(settings.data_dir())
        login = context["dag_run"].triggering_user_name
        try:
            given = dict(context["params"])
            request = SubmissionRequest.of_parameters(given | ({"name": self.file} if self.file else {}))
            resolved = resolve(
                request,
                submissions_dir(),
                login=login,
                abilities=of_cluster_here(settings.data_dir()),
            )
            jobs = expand(resolved.submission)
        except SubmissionError as error:
            problems = [problem.as_dict() for problem in error.problems]
            context["ti"].xcom_push(key=PROBLEMS_KEY, value=problems)
            for problem in error.problems:
                self.log.error("%s", problem)
            raise AirflowFailException(
                f"The submission is not valid, nothing was started:\n{error}"
            ) from error
        try:
            with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
                check_quota(login, len(jobs), db)
        except QuotaError as error:
            raise AirflowFailException(str(error)) from error
        dag_id = Shelf(settings.data_dir()).place(resolved)
        self.log.info("valid: %s, %d job(s), DAG %s", resolved.submission.name, len(jobs), dag_id)
        return {
            "dag_id": dag_id,
            "name": resolved.submission.name,
            "user": resolved.submission.user,
            "jobs": len(jobs),
        }


class RunSubmission(TriggerDagRunOperator):
    """Waits until Airflow knows the submission's DAG, then starts it."""

    def execute(self, context: Context) -> None:
        wait_until_known(context["ti"], self.trigger_dag_id)
        ti, dag_run_id = context["ti"], str(self.trigger_run_id)
        if ti.get_dr_count(self.trigger_dag_id, run_ids=[dag_run_id]):
            self.log.info("%s of %s was started before", dag_run_id, self.trigger_dag_id)
            ti.xcom_push(key="trigger_run_id", value=dag_run_id)
            return
        if ti.get_dagrun_state(context["dag_run"].dag_id, dag_run_id) != DagRunState.RUNNING:
            raise AirflowFailException("The submission was ended before it was started.")
        self.note = f"Started by the submit DAG, run {dag_run_id}"
        super().execute(context)


class AwaitSubmission(BaseOperator):
    """Ends as the submission's DAG run ends; tells each run's verdict.

    The triggerer waits for it: a task that looked again and again would take the CPU from what is measured.
    """

    operator_extra_links = (InvocationReportLink(),)

    def execute(self, context: Context) -> None:
        dag_id, dag_run_id = self._awaited(context)
        states: list[Any] = [DagRunState.SUCCESS, DagRunState.FAILED]
        trigger = DagStateTrigger(dag_id, states, [dag_run_id], poll_interval=LOOK_S)
        self.defer(trigger=trigger, method_name="ended", timeout=LONGEST)

    def ended(self, context: Context, event: Any = None) -> None:
        """The run is over, unless it failed because a device was lost: then it runs again."""
        dag_id, dag_run_id = self._awaited(context)
        if context["ti"].get_dagrun_state(dag_id, dag_run_id) == DagRunState.FAILED:
            self.defer(trigger=TimeDeltaTrigger(SETTLE), method_name="settled")
        self._tell(context)

    def settled(self, context: Context, event: Any = None) -> None:
        """It has failed for good, or it runs again."""
        dag_id, dag_run_id = self._awaited(context)
        if context["ti"].get_dagrun_state(dag_id, dag_run_id) not in (
            DagRunState.SUCCESS,
            DagRunState.FAILED,
        ):
            self.execute(context)
        self._tell(context)

    def _awaited(self, context: Context) -> tuple[str, str]:
        ti = context["ti"]
        validated = ti.xcom_pull(task_ids="validate")
        return validated["dag_id"], ti.xcom_pull(task_ids="run", key="trigger_run_id")

    def _tell(self, context: Context) -> None:
        ti = context["ti"]
        dag_id, dag_run_id = self._awaited(context)
        state = ti.get_dagrun_state(dag_id, dag_run_id)
        invocation = Invocation.of_dag_run(settings.data_dir(), dag_id, dag_run_id)
        verdicts = self._verdicts(invocation)
        for run, verdict in verdicts.items():
            self.log.info("%s: %s", run, verdict)
        outcome = {"state": state, "verdicts": verdicts, "invocation": invocation.id}
        ti.xcom_push(key=OUTCOME_KEY, value=outcome)
        if state == DagRunState.FAILED:
            raise AirflowFailException(
                f"The run {dag_run_id} of {dag_id} failed: {verdicts or 'no job began'}"
            )

    def _verdicts(self, invocation: Invocation) -> dict[str, str]:
        from inferbench_tasks.perfdb.store import PerfDB

        with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
            runs = db.find_runs({"invocation_id": invocation.id})
        return {run.run_id: run.said for run in runs}
