"""Links from Airflow's task pages to InferBench's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from inferbench_tasks import settings
from inferbench_tasks.running.invocation import Invocation

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


def _invocation(dag_id: str, dag_run_id: str) -> Invocation:
    return Invocation.of_dag_run(settings.data_dir(), dag_id, dag_run_id)


def _follows_all_jobs(operator: BaseOperator) -> bool:
    node = getattr(operator, "node", None)
    return node is not None and node.job_index is None


class ReportLink(BaseOperatorLink):
    """From the task that follows all jobs to the report that it made."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The report's path on the web server, or "" for the tasks of other stages."""
        if not _follows_all_jobs(operator):
            return ""
        return f"/inferbench/report/{_invocation(ti_key.dag_id, ti_key.run_id).id}"


class RunLink(BaseOperatorLink):
    """From a job's tasks to its run: what it does now, and its figures once it has them."""

    name = "Run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The run's page, or "" for a task of no job."""
        node = getattr(operator, "node", None)
        if node is None or node.job_index is None:
            return ""
        return f"/inferbench/run/{quote(_invocation(ti_key.dag_id, ti_key.run_id).run_id(node.job_index))}"


class TraceLink(BaseOperatorLink):
    """From the task that traces a job's requests to their trace."""

    name = "Trace"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The trace's page, or "" for the tasks of other stages."""
        node = getattr(operator, "node", None)
        if node is None or node.job_index is None or node.stage != "trace":
            return ""
        return f"/inferbench/trace/{quote(_invocation(ti_key.dag_id, ti_key.run_id).run_id(node.job_index))}"


class LeaderboardLink(BaseOperatorLink):
    """From the task that follows all jobs to the leaderboard, with this execution's runs marked."""

    name = "Leaderboard"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The leaderboard's page, or "" for the tasks of other stages."""
        if not _follows_all_jobs(operator):
            return ""
        return f"/inferbench/leaderboard?mark={quote(_invocation(ti_key.dag_id, ti_key.run_id).id)}"


class InvocationReportLink(BaseOperatorLink):
    """From the ``outcome`` task of ``submit`` to the report of what it ran."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The report's path on the web server, "" before the submission's DAG was started."""
        from airflow.sdk.execution_time.xcom import XCom

        def told(task_id: str, key: str) -> Any:
            return XCom.get_one(key=key, dag_id=ti_key.dag_id, task_id=task_id, run_id=ti_key.run_id)

        validated, dag_run_id = told("validate", "return_value"), told("run", "trigger_run_id")
        if not validated or not dag_run_id:
            return ""
        return f"/inferbench/report/{_invocation(validated['dag_id'], dag_run_id).id}"


LINKS = (ReportLink(), RunLink(), TraceLink(), LeaderboardLink())
