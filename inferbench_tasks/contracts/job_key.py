"""The name of a job across processes: in leases, in a scheduler's log and in the cluster's state."""

from __future__ import annotations

from dataclasses import dataclass

from inferbench_tasks.errors import InputError


@dataclass(frozen=True, slots=True)
class JobKey:
    """One job of one run of a DAG; its text is ``dag|dag run|003``. A DAG's id holds no ``|``, its run's id may."""

    dag_id: str
    dag_run_id: str
    job_index: int

    def __str__(self) -> str:
        return f"{self.dag_id}|{self.dag_run_id}|{self.job_index:03d}"

    @classmethod
    def parse(cls, text: str) -> JobKey:
        """The key that ``str`` wrote; raises InputError for any other text."""
        dag_id, _, rest = text.partition("|")
        dag_run_id, _, index = rest.rpartition("|")
        if not (dag_id and dag_run_id and index.isascii() and index.isdigit()):
            raise InputError(f"{text!r} names no job; a job's key is <dag id>|<dag run id>|<index>")
        return cls(dag_id, dag_run_id, int(index))
