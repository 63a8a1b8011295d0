"""The DAG ``bricks-nightly``: what is known of bricks is kept current, after everybody else's work.

On the cron of the nights it takes a CPU device, at the lowest priority, for a budget of minutes: bricks that the device
has no time of, none of its runtime's version, or only old ones, are timed there, the most useful first. Then it starts
itself again for the next kind of processor that the cluster has, until each had its night, a failed one too; of two
devices of one kind the first that is free is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param, TaskGroup, TriggerRule
from airflow.sdk.exceptions import AirflowSkipException

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.plan.compile import group_id
from inferbench_tasks.provider.nightly.dag import LOWEST_PRIORITY, on_device, schedule
from inferbench_tasks.provider.nightly.operators import JOB, HoldDevice, MeasuringOperator
from inferbench_tasks.provider.on_device import LeaseRequest
from inferbench_tasks.provider.queues import HOST
from inferbench_tasks.provider.weights import ShortestJobFirst, weight
from inferbench_tasks.submission.reader import read_submission_data
from inferbench_tasks.submission.sweep import expand

if TYPE_CHECKING:
    from airflow.sdk import Context as TaskContext

    from inferbench_tasks.cluster.device import Device
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.perfdb.under_lease import HeldLease

DAG_ID = "bricks-nightly"
#: Device time of one night, and how old a time may be.
MINUTES, MAX_AGE_DAYS = 30.0, 30.0
#: The parameter that names the processors that had their night.
DONE = "not_on"
#: The XCom of the processor that a night is on.
KIND = "kind"
#: What a night takes beside its budget: cutting the models anew, the last session.
_BESIDE_S = 1800.0


def load_bricks_night() -> dict[str, DAG]:
    """The DAG, by its id."""
    return {DAG_ID: bricks_night()}


def bricks_night() -> DAG:
    """One device for one night, then the next kind; triggered by hand it takes another budget."""
    dag = DAG(
        dag_id=DAG_ID,
        dag_display_name="bricks (nightly)",
        description="Times bricks that are missing, of another runtime's version, or too old; the most useful first",
        start_date=None,
        schedule=schedule(),
        catchup=False,
        max_active_runs=1,
        tags=["inferbench", "nightly", "bricks"],
        doc_md=__doc__,
        params={
            "minutes": Param(MINUTES, type="number", exclusiveMinimum=0, maximum=1440, title="Minutes",
                             description="Of the device."),
            "max_age_days": Param(MAX_AGE_DAYS, type="number", exclusiveMinimum=0, maximum=3650, title="Age, days",
                                  description="Older times are taken anew."),
            DONE: Param([], type="array", items={"type": "string"}, title="Not on",
                        description="Processors, by their names, that it is not to run on."),
            "threads": Param(1, type="integer", minimum=1, maximum=256, title="Threads",
                             description="Of ONNX Runtime, each with a core of the device."),
        },
        is_paused_upon_creation=schedule() is None,
    )  # fmt: skip
    job = _job()
    common: dict[str, Any] = {
        "weight_rule": ShortestJobFirst(),
        "priority_weight": weight(job["priority"], job["expected_duration_s"]),
    }
    request = LeaseRequest(
        job,
        recorded=False,
        series=DAG_ID,
        least_limit_s=MINUTES * 60 + _BESIDE_S,
        scaled_by={"minutes": MINUTES},
        leaves_out=DONE,
    )
    with dag:
        with TaskGroup(group_id=group_id(JOB), tooltip="one night"):
            hold = HoldDevice(**on_device("hold", 0, request=request), **common)
            measure = MeasureBricks(**on_device("measure", 1), **common)
            release = HoldDevice(**on_device("release", 2, cleans_up=True), **common)
            hold >> measure >> release.as_teardown(setups=hold)
        # After a failed night too; that it failed is told by the last task beside it: a run is what its last tasks are.
        measure >> NextKind(
            task_id="next", trigger_dag_id=DAG_ID, measured_by=measure.task_id, queue=HOST,
            trigger_rule=TriggerRule.ALL_DONE, **common,
        )  # fmt: skip
        measure >> EmptyOperator(task_id="measured")
    return dag


class MeasureBricks(MeasuringOperator):
    """Times bricks on the device that was taken; returns what came of it."""

    what = "a night of bricks"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(file="", **kwargs)

    def execute(self, context: TaskContext) -> Any:
        """First of all it tells on which kind of processor it is: whatever becomes of it, the others come next."""
        from inferbench_tasks.monitors.environment import processor

        context["ti"].xcom_push(key=KIND, value=processor())
        return super().execute(context)

    def measure(
        self, params: Mapping[str, Any], db: PerfDB, data_dir: Path, lease: HeldLease | None
    ) -> dict[str, Any]:
        from inferbench_tasks.brick_jobs.night import run_night
        from inferbench_tasks.brick_jobs.places import place_here
        from inferbench_tasks.brick_jobs.store import PerfDBResults
        from inferbench_tasks.bricks.measure.session import cores_for, setting
        from inferbench_tasks.running.perform import perform
        from inferbench_tasks.stages.base import Context

        threads = int(params.get("threads") or 1)
        cores = cores_for(threads)
        results = PerfDBResults(db, setting(cores, threads), lease, place_here(db, data_dir))
        night = run_night(
            db,
            results,
            Context(data_dir=data_dir, base_dir=data_dir, cancelled=self._stop.is_set, run_stage=perform),
            cores,
            float(params.get("minutes") or MINUTES) * 60,
            float(params.get("max_age_days") or MAX_AGE_DAYS),
            stopped=self._stop.is_set,
        )
        self.log.info("%s", night)
        return asdict(night) | {"device": results.setting.processor}


class NextKind(TriggerDagRunOperator):
    """Starts the night of the next kind of processor; skipped where each of the cluster's had it."""

    template_fields: Sequence[str] = ()
    ui_color = "#e8f0fe"

    def __init__(self, *, measured_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.measured_by = measured_by

    def execute(self, context: TaskContext) -> None:
        from inferbench_tasks.cluster.store import Cluster
        from inferbench_tasks.perfdb.store import PerfDB

        ti, params = context["ti"], context["params"]
        if (kind := ti.xcom_pull(task_ids=self.measured_by, key=KIND)) is None:
            raise AirflowSkipException("it had no device: which kind would be the next is not known")
        done = sorted({*(params.get(DONE) or ()), kind})
        with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
            left = kinds_left(Cluster(db).devices(), done)
        if not left:
            raise AirflowSkipException(f"each kind of processor had its night: {', '.join(done)}")
        self.log.info("left: %s", ", ".join(left))
        self.conf = {name: params[name] for name in ("minutes", "max_age_days", "threads")} | {DONE: done}
        self.trigger_run_id = f"after-{ti.run_id}"
        super().execute(context)


def kinds_left(devices: Iterable[Device], done: Iterable[str]) -> list[str]:
    """The processors, by name, of the CPU devices that may take a job, without those that are done."""
    there = {d.name for d in devices if d.device_type == "cpu" and d.health == "ok" and not d.stopped}
    return sorted(there - set(done))


def _job() -> dict[str, Any]:
    """The night as one job of kind bricks for the executor's policy; which models it is of shows only then."""
    data = {
        "name": DAG_ID, "kind": "bricks", "models": [{"model": {"kind": "zoo", "name": "digits"}}],
        "priority": LOWEST_PRIORITY, "serve": {"device": "cpu"}, "validate": {"models": "none"},
    }  # fmt: skip
    submission = read_submission_data(data, DAG_ID, INSTALLED)
    document = expand(submission)[0].spec.model_dump(mode="json")
    return {**document, "deadline_s": None, "expected_duration_s": MINUTES * 60}
