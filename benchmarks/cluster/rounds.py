"""What a round of Airflow's scheduler costs, by the tasks of a run: ``python -m benchmarks.cluster.rounds``.

Each size is a process of its own, with a migrated SQLite of its own: a DAG of so many jobs (rendered as ours are), one
run of it whose host tasks wait in the executor, and then the round's work for that run (``DagRun.update_state``), in
processor time. ``--jobs 10000`` is the DAG that a sweep would be if it were not in parts.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster.sizes import measure_each

ROUNDS = 7


def one(jobs: int, home: Path) -> dict[str, Any]:
    """Figures of one size; in a process that has ``home`` as Airflow's."""
    from inferbench_tasks.provider import metadata_db

    metadata_db.copy(home / "airflow.db", home)
    os.environ |= metadata_db.airflow_environment(home, home)
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG
    from airflow.utils import timezone
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import update

    from inferbench_tasks.provider.render import render
    from inferbench_tasks.submission.schema import Submission

    sweep = {"load.seed": list(range((jobs + 9) // 10)), "serve.threads": list(range(1, 11))}
    document = {"name": "rounds", "model": {"kind": "zoo", "name": "digits"}, "sweep": sweep,
                "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}}}  # fmt: skip
    dag, made_s = timed(
        lambda: render(Submission.model_validate(document), base_dir=home, one_at_a_time=False, split=False)
    )
    lazy, stored_s = timed(lambda: LazyDeserializedDAG.from_dag(dag))
    with create_session() as session:
        session.add(DagBundleModel(name="dags-folder"))
        session.flush()
        SerializedDAG.bulk_write_to_db("dags-folder", None, [lazy], session=session)
        from airflow.models.serialized_dag import SerializedDagModel

        SerializedDagModel.write_dag(lazy, bundle_name="dags-folder", session=session)
    scheduler_dag = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    now = timezone.utcnow()

    def begin() -> None:
        with create_session() as session:
            run = scheduler_dag.create_dagrun(
                run_id="manual__1", run_type=DagRunType.MANUAL, state=DagRunState.RUNNING, run_after=now,
                triggered_by=DagRunTriggeredByType.TEST, session=session,
            )  # fmt: skip
            assert run is not None

    _, begun_s = timed(begin)
    with create_session() as session:
        waits = update(TaskInstance).where(TaskInstance.task_id.like("%.generate")).values(state="queued")
        session.execute(waits)
    rounds = []
    for _ in range(ROUNDS):
        _, seconds = timed(lambda: one_round(scheduler_dag))
        rounds.append(seconds)
    return {
        "jobs": jobs,
        "tasks": len(dag.tasks),
        "dag_made_s": round(made_s, 2),
        "dag_stored_s": round(stored_s, 2),
        "run_begun_s": round(begun_s, 2),
        "round_ms": round(1e3 * statistics.median(rounds), 1),
        "round_worst_ms": round(1e3 * max(rounds), 1),
    }


def one_round(dag: Any) -> None:
    """What a round does with a run that is under way."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == "manual__1"))
        assert run is not None
        run.dag = dag
        run.update_state(session=session, execute_callbacks=False)
        session.expunge_all()


def timed(work: Any) -> tuple[Any, float]:
    """Its result and its processor time, seconds."""
    begin = time.process_time()
    result = work()
    return result, time.process_time() - begin


if __name__ == "__main__":
    measure_each("benchmarks.cluster.rounds", __doc__, (25, 50, 100, 200, 1_000), one)
