"""The nightly folder as scheduled DAGs.

To our executor a night is one job of low priority with a deadline: ``hold`` takes the device, ``measure`` runs both
sides in turns, ``decide`` decides and reports, ``release`` gives the device back. Both sides so run on the same
device, under one lease. ``verdict`` fails the DAG run if a regression was confirmed. Of a submission with ``systems``
``choose`` comes first: it decides which devices may be taken, and ends a night that none fits.

Of a submission with ``nightly: {bisect: true}`` the night's ``bisect`` then starts another DAG, ``bisect.<name>``,
which looks for the commit as one job of the lowest priority that there is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, Param, TaskGroup, TriggerRule, get_parsing_context

from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.plan.compile import group_id
from inferbench_tasks.provider.loader import BrokenSubmission, dags_dir
from inferbench_tasks.provider.nightly.notify import notifiers
from inferbench_tasks.provider.nightly.operators import (
    JOB,
    BisectCommits,
    ChooseSystem,
    DecideNight,
    HoldDevice,
    MeasureNight,
    StartBisection,
    TellVerdict,
)
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest
from inferbench_tasks.provider.queues import HOLD, HOST
from inferbench_tasks.provider.weights import ShortestJobFirst, weight
from inferbench_tasks.regression.bisect.offer import DETECT_PERCENT
from inferbench_tasks.regression.night import DEFAULT_PAIRS
from inferbench_tasks.regression.watched import bisects, comparable
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.named_systems import form_alone
from inferbench_tasks.submission.sweep import expand

#: The beginning of the ids of the nightly DAGs.
NIGHTLY = "nightly."
#: That of the DAGs that bisect what a night confirmed.
BISECT = "bisect."
#: A night ends with a task that needs no device.
VERDICT = "verdict"
#: The task that chooses the devices of a submission that asks for ``systems``.
CHOOSE = "choose"
#: The one cron setting of all nights, UTC (``0 2 * * *``). Unset: nights run when somebody triggers them, since a
#: system on somebody's own machine must not start to measure by itself.
CRON = "INFERBENCH_NIGHTLY_CRON"
#: The nightly folder, else ``configs/nightly`` beside the DAGs folder.
NIGHTLY_DIR = "INFERBENCH_NIGHTLY_DIR"
#: For a submission that says nothing itself: after everybody else's work, done by the morning.
PRIORITY, DEADLINE_S = -50, 6 * 3600.0
#: Of a bisection: after everything else, however long it takes. Pairs: what the median one took in simulations.
LOWEST_PRIORITY, BISECT_LIMIT_S, BISECT_PAIRS = -100, 24 * 3600.0, 170


def load_nightly(folder: Path | None = None) -> dict[str, DAG]:
    """The DAGs of a folder, by DAG id; a YAML that does not validate is its own import error."""
    folder = folder or nightly_dir()
    dag_id_to_parse = get_parsing_context().dag_id
    dags: dict[str, DAG] = {}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml")):
        try:
            submission = comparable(path, "A nightly comparison")
        except InputError as error:
            if dag_id_to_parse is None:
                dags[f"broken {path}"] = BrokenSubmission(path, str(error))
            continue
        dag_id = f"{NIGHTLY}{submission.name}"
        if dag_id_to_parse in (None, dag_id):
            dags[dag_id] = night_dag(submission, path)
        if bisects(submission) and dag_id_to_parse in (None, bisect_id(submission)):
            dags[bisect_id(submission)] = bisect_dag(submission, path)
    return dags


def nightly_dir() -> Path:
    """``INFERBENCH_NIGHTLY_DIR``, else ``configs/nightly`` beside the DAGs folder."""
    if folder := os.environ.get(NIGHTLY_DIR):
        return Path(folder)
    return dags_dir().parent / "configs" / "nightly"


def night_dag(submission: SubmissionBase, path: Path) -> DAG:
    """The DAG that runs one submission every night."""
    dag = DAG(
        dag_id=f"{NIGHTLY}{submission.name}",
        dag_display_name=f"{submission.name} (nightly)",
        description=submission.description or f"Baseline against candidate of {submission.name}, every night",
        start_date=None,
        schedule=schedule(),
        catchup=False,
        max_active_runs=1,
        tags=["inferbench", "nightly", *pipeline_of(submission).tags(submission), *submission.tags],
        doc_md=__doc__,
        params=parameters(),
        # A workstation's `inferbench up` must not start to measure at night unasked.
        is_paused_upon_creation=CRON not in os.environ,
        default_args={"owner": submission.user},
    )
    job = job_document(submission)
    common: dict[str, Any] = {
        "weight_rule": ShortestJobFirst(),
        "priority_weight": weight(job["priority"], job["expected_duration_s"]),
    }
    callbacks = notifiers()
    with dag:
        with TaskGroup(group_id=group_id(JOB), tooltip="one session"):
            request = replace(lease_request(job), chosen_by=chosen_by(submission))
            hold = HoldDevice(**on_device("hold", 0, request=request), **common)
            measure = MeasureNight(file=str(path), **on_device("measure", 1), **common)
            decide = DecideNight(name=submission.name, file=str(path), **on_device("decide", 2), **common)
            release = HoldDevice(**on_device("release", 3, cleans_up=True), **common)
        verdict = TellVerdict(
            task_id=VERDICT,
            decided_by=decide.task_id,
            queue=HOST,
            on_failure_callback=callbacks,
            on_success_callback=callbacks,
            **common,
        )
        hold >> measure >> decide >> release.as_teardown(setups=hold)
        _choose_before(hold, submission, path, common)
        decide >> verdict
        verdict.trigger_rule = TriggerRule.ALL_SUCCESS
        if bisects(submission):
            decide >> StartBisection(
                task_id="bisect",
                trigger_dag_id=bisect_id(submission),
                decided_by=decide.task_id,
                queue=HOST,
                **common,
            )
    return dag


def bisect_id(submission: SubmissionBase) -> str:
    """The id of the DAG that they start."""
    return f"{BISECT}{submission.name}"


def bisect_dag(submission: SubmissionBase, path: Path) -> DAG:
    """The DAG that looks for the commit which made a confirmed change; started by a night, or by hand."""
    commit: dict[str, Any] = {"type": ["string", "null"], "maxLength": 100}
    dag = DAG(
        dag_id=bisect_id(submission),
        dag_display_name=f"{submission.name} (which commit)",
        description=f"The commit since which {submission.name} is slower, as its nights confirmed",
        start_date=None,
        schedule=None,
        catchup=False,
        max_active_runs=1,
        tags=["inferbench", "nightly", "bisect", *pipeline_of(submission).tags(submission), *submission.tags],
        doc_md=__doc__,
        params={
            "good": Param(None, **commit, title="Good", description="The commit that is as it should be."),
            "bad": Param(None, **commit, title="Bad", description="The commit that is changed."),
            "figure": Param(
                "p50_ms", type="string", maxLength=60, title="Figure", description="What changed."
            ),
            "job": Param(
                0, type="integer", minimum=0, title="Job", description="Which job of a sweep changed."
            ),
            "detect_percent": Param(
                DETECT_PERCENT,
                type="number",
                minimum=0.1,
                maximum=100,
                title="Detect, %",
                description="The smallest change that counts.",
            ),
        },
        is_paused_upon_creation=False,
        default_args={"owner": submission.user},
    )
    night = job_document(submission)
    length_s = night["expected_duration_s"] / DEFAULT_PAIRS * BISECT_PAIRS
    job = {**night, "priority": LOWEST_PRIORITY, "deadline_s": None, "expected_duration_s": length_s}
    common: dict[str, Any] = {
        "weight_rule": ShortestJobFirst(),
        "priority_weight": weight(LOWEST_PRIORITY, length_s),
    }
    request = LeaseRequest(
        job,
        recorded=False,
        series=BISECT,
        least_limit_s=BISECT_LIMIT_S,
        chosen_by=chosen_by(submission),
    )
    with dag:
        with TaskGroup(group_id=group_id(JOB), tooltip="one bisection"):
            hold = HoldDevice(**on_device("hold", 0, request=request), **common)
            bisect = BisectCommits(file=str(path), **on_device("bisect", 1), **common)
            release = HoldDevice(**on_device("release", 2, cleans_up=True), **common)
            hold >> bisect >> release.as_teardown(setups=hold)
        _choose_before(hold, submission, path, common)
    return dag


def chosen_by(submission: SubmissionBase) -> str:
    """The id of the task that chooses the system of a submission which asks for some; "" of others."""
    return CHOOSE if form_alone(submission) else ""


def _choose_before(hold: HoldDevice, submission: SubmissionBase, path: Path, common: dict[str, Any]) -> None:
    if form_alone(submission):
        ChooseSystem(task_id=CHOOSE, file=str(path), queue=HOST, **common) >> hold


def schedule() -> CronTriggerTimetable | None:
    """Every night by the cron setting, from the next one on; None where it is not set.

    Airflow takes False for "at once, if a tenth of the period has not passed": who deploys at four in the morning would
    have last night's measurements during the day. A moment is left for a scheduler that reads the DAG on the very tick.
    """
    cron = os.environ.get(CRON)
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(minutes=5)) if cron else None


def parameters() -> dict[str, Param]:
    """What a trigger by hand may choose."""
    return {
        "pairs": Param(None, type=["integer", "null"], minimum=1, maximum=200, title="Pairs of runs",
                       description="Runs of each side; by default 8, or what `detect` needs."),
        "detect": Param(None, type=["number", "null"], exclusiveMinimum=0, maximum=100, title="Detect, %",
                        description="The smallest change of the median that a night is to find."),
    }  # fmt: skip


def job_document(submission: SubmissionBase) -> dict[str, Any]:
    """The night as one job for the executor's policy: low priority, a deadline, the length of all its runs."""
    jobs = expand(submission)
    runs_s = sum(pipeline_of(submission).expected_s(job.spec) for job in jobs)
    document = jobs[0].spec.model_dump(mode="json")
    return {
        **document,
        "priority": submission.priority or PRIORITY,
        "deadline_s": submission.deadline_s or DEADLINE_S,
        "expected_duration_s": submission.expected_duration_s or runs_s * 2 * DEFAULT_PAIRS,
    }


def lease_request(job: dict[str, Any]) -> LeaseRequest:
    """What a night asks for: each of its runs is recorded by itself, and is some seconds of it.

    How many runs it takes shows only as it goes (invalid ones, confirmations), and each has limits of its own.
    """
    return LeaseRequest(
        job,
        followers=[VERDICT],
        recorded=False,
        series=NIGHTLY,
        least_limit_s=job["deadline_s"],
        scaled_by={"pairs": DEFAULT_PAIRS},
    )


def on_device(task: str, position: int, **more: Any) -> dict[str, Any]:
    """The arguments of a task that runs on the job's device; ``position``: its place among those."""
    leased = LeasedTask(JOB, task, position, **more)
    return {"task_id": task, "queue": HOLD, "executor_config": leased.config()}
