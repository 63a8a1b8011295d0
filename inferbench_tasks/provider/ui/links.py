"""Links from Airflow's task pages to InferBench's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from inferbench_tasks import settings
from inferbench_tasks.stages.invocation import Invocation

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):
    """From the ``analyze`` task to the report that it made."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The report's path on the web server, or "" for the tasks of other stages."""
        if getattr(operator, "stage", None) != "analyze":
            return ""
        invocation = Invocation.of_dag_run(settings.data_dir(), ti_key.dag_id, ti_key.run_id)
        return f"/inferbench/report/{invocation.id}"
