"""The operator that runs one node of a plan: it only adapts Airflow to ``stages.execute``."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from inferbench_tasks import settings
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.errors import CancelledError, InputError, LeaseLostError, StageError
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.plan.overrides import overridden
from inferbench_tasks.provider.links import LINKS
from inferbench_tasks.stages.base import ENDS_JOB

if TYPE_CHECKING:
    from airflow.sdk import Context as AirflowContext

    from inferbench_tasks.running.fence import Fence


class StageOperator(BaseOperator):
    """Runs ``node`` with the outputs of its job's tasks that it needs; a task's id is its node's.

    Returns the stage's output: small JSON. A stage's own failure is final (no retry would be honest:
    it would measure again until the figures please), and so is a lost lease: its whole job is run again, or nothing.
    Another infrastructure error may be retried where the task has retries.
    """

    template_fields: Sequence[str] = ()
    operator_extra_links = LINKS
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        node: Node,
        base_dir: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.node = node
        self.base_dir = base_dir
        self._cancel = threading.Event()
        self._interruptible = False

    def execute(self, context: AirflowContext) -> dict[str, Any]:
        from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

        from inferbench_tasks.running.execute import execute_node
        from inferbench_tasks.running.invocation import Invocation

        ti, dag_run = context["ti"], context["dag_run"]
        invocation = Invocation.of_dag_run(settings.data_dir(), ti.dag_id, dag_run.run_id)
        needs = self.node.needs if self.node.job_index is not None else {}
        outputs = {name: ti.xcom_pull(task_ids=task_id) for name, task_id in needs.items()}
        self._interruptible = not self.node.concludes
        worker = os.environ.get(settings.WORKER)
        try:
            output = execute_node(
                replace(self.node, input=overridden(self.node.input, context["params"])),
                {name: output for name, output in outputs.items() if output is not None},
                invocation=invocation,
                attempt=ti.try_number,
                base_dir=Path(self.base_dir),
                cancelled=self._cancel.is_set,
                hold_machine=worker is None,
                fence=self._fence(worker, ti.dag_id, dag_run.run_id),
                # Of a submission's DAG too: Airflow gives a run that a task starts the login of the task's own run.
                login=None if invocation.is_local() else dag_run.triggering_user_name,
            )
        except (StageError, InputError, CancelledError, LeaseLostError) as error:
            raise AirflowFailException(str(error)) from error
        finally:
            self._interruptible = False
        if output.get(ENDS_JOB):  # the tasks after it are skipped with it, and no device is taken for them
            raise AirflowSkipException("nothing is left to do for this job")
        return output

    def _fence(self, worker: str | None, dag_id: str, dag_run_id: str) -> Fence | None:
        """Where a scheduler leases devices: only the holder of the lease may work on one."""
        from inferbench_tasks.running.fence import Fence

        if worker is None or self.node.job_index is None or self.node.lease is None:
            return None
        return Fence(worker, str(JobKey(dag_id, dag_run_id, self.node.job_index)))

    def on_kill(self) -> None:
        """Airflow calls it from its SIGTERM handler: end the stage in the middle, so that it cleans up."""
        self._cancel.set()
        if self._interruptible:
            self._interruptible = False
            raise CancelledError(f"Stopped during {self.node.stage}.")
