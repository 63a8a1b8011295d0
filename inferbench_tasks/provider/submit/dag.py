"""The ``submit`` DAG and the DAGs of what was submitted by it."""

from __future__ import annotations

import logging
import math
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.configuration import conf
from airflow.sdk import DAG, Param, get_parsing_context

from inferbench_tasks import settings
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.provider.loader import BrokenSubmission, _knows_no_devices, submissions_dir
from inferbench_tasks.provider.queues import HOST
from inferbench_tasks.provider.render import START, render
from inferbench_tasks.provider.submit.notes import STARTED_BY
from inferbench_tasks.provider.submit.operators import AwaitSubmission, RunSubmission, ValidateSubmission
from inferbench_tasks.provider.submit.request import names
from inferbench_tasks.provider.submit.shelf import Placed, Shelf
from inferbench_tasks.provider.weights import MOST
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.sweep import count_jobs

log = logging.getLogger(__name__)

SUBMIT = "submit"
DOC = """### Submit a benchmark

Paste a submission (YAML), or give the name of one of the submissions folder; **user**, **priority** and the
**SLO** replace what it says. It is validated before anything runs: what is wrong stands in the log and the note
of `validate`, each problem with its line and field.

1. `validate`: reads it; a valid submission becomes a DAG of its own, `submitted.<name>.<digest>`.
2. `run`: starts that DAG; its link opens it, with the stages of every job.
3. `outcome`: ends as that run ends; its note has each verdict, and links to the report and the runs.

By REST: `POST /api/v2/dags/submit/dagRuns` with `{"logical_date": null, "conf": {"submission": "name: ..."}}`, or
`POST /inferbench/api/submissions`, which answers 422 with all problems at once.
"""
DOC_OF_FILE = """### A submission that chooses its devices

Its `systems` says what a device must have. `validate` reads the file and chooses among the devices that are registered
now, or says of each what it misses first; `run` starts the DAG of what that came to, `submitted.<name>.<digest>`, each
of whose jobs has its system; `outcome` ends as that run ends.
"""
#: Of a problem as Airflow keeps it: pydantic quotes what is wrong, as long as it may be.
_MAX_REASON_CHARACTERS = 4000
_BOUND: dict[str, Any] = {"type": ["number", "null"], "exclusiveMinimum": 0, "section": "SLO (optional)"}


def load_submit(folder: Path | None = None, data_dir: Path | None = None) -> dict[str, DAG]:
    """``submit`` and the DAGs of recent submissions, by DAG id; only the one in question at a task's run."""
    shelf = Shelf(data_dir or settings.data_dir())
    dag_id_to_parse = get_parsing_context().dag_id
    dags: dict[str, DAG] = {}
    if dag_id_to_parse in (None, SUBMIT):
        dags[SUBMIT] = submit_dag(folder or submissions_dir())
    if dag_id_to_parse is not None:
        try:
            if placed := shelf.get(dag_id_to_parse):
                dags[dag_id_to_parse] = submitted_dag(placed, dag_id_to_parse)
        except Exception:
            log.exception("can't be read any more dag_id=%s", dag_id_to_parse)
        return dags
    placed_by_id: dict[str, Placed] = {}
    # Of an older version, damaged, too large, of a kind that is no longer installed or can't be rendered: whatever is
    # wrong with one, it is recorded under that one's file, and the others go on.
    for dag_id in shelf.recent():
        try:
            if placed := shelf.get(dag_id):
                placed_by_id[dag_id] = placed
        except Exception as error:  # noqa: BLE001 - one of them must not hide the others
            dags[f"broken {dag_id}"] = BrokenSubmission(shelf.path(dag_id), _reason(error))
    deadline_s = time.monotonic() + _reading_s()
    # The smallest first: where there is no time for all, it is the largest sweep that is no DAG.
    for dag_id, placed in sorted(
        placed_by_id.items(), key=lambda entry: count_jobs(entry[1].submission.sweep)
    ):
        try:
            dags[dag_id] = submitted_dag(placed, dag_id, deadline_s)
        except Exception as error:  # noqa: BLE001 - as above
            dags[f"broken {dag_id}"] = BrokenSubmission(shelf.path(dag_id), _reason(error))
    return dags


def _reading_s() -> float:
    """How long all of them may take: Airflow ends the reading of a file after a while, and then has none of its DAGs.

    It stores them after that, which takes about as long again, within a time of its own.
    """
    limits_s = (
        0.8 * conf.getfloat("core", "dagbag_import_timeout"),
        0.4 * conf.getfloat("dag_processor", "dag_file_processor_timeout"),
    )
    return min((limit_s for limit_s in limits_s if limit_s > 0), default=math.inf)


def submitted_dag(placed: Placed, dag_id: str, deadline_s: float = math.inf) -> DAG:
    """The DAG of one submission of the shelf."""
    dag = render(
        placed.submission,
        base_dir=Path(placed.base_dir),
        one_at_a_time=_knows_no_devices(),
        dag_id=dag_id,
        deadline_s=deadline_s,
    )
    dag.tags.add("submitted")
    dag.dag_display_name = f"{placed.submission.name} (submitted, {dag_id.rpartition('.')[2]})"
    return dag


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MAX_REASON_CHARACTERS]


def submit_dag(folder: Path) -> DAG:
    """The DAG whose form takes a submission."""
    return _submitting(
        SUBMIT,
        None,
        dag_display_name="Submit a benchmark",
        description="Takes a submission as YAML text or by its name, validates it, runs it.",
        max_active_runs=64,
        tags=["inferbench", "submit"],
        doc_md=DOC,
        params=parameters(folder),
    )


def by_file(submission: SubmissionBase, name: str) -> DAG:
    """The DAG of a file of the submissions folder that asks for ``systems``: it submits that file, as it is then and to
    the devices that are registered then. ``name``: of the file in the folder.
    """
    form = parameters(None)
    return _submitting(
        submission.name,
        name,
        description=submission.description or f"Chooses the systems that {name} asks for, and submits it",
        max_active_runs=16,
        tags=["inferbench", "systems", *pipeline_of(submission).tags(submission), *submission.tags],
        doc_md=DOC_OF_FILE,
        params={key: form[key] for key in form if key not in ("submission", "name")},
    )


def _submitting(dag_id: str, file: str | None, **more: Any) -> DAG:
    """A DAG of the three tasks; ``file``: what it submits, where no form says it."""
    with DAG(
        dag_id=dag_id,
        start_date=START,
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        # Before the stages of jobs: someone looks at the form and waits for its answer.
        default_args={
            "owner": "inferbench",
            "weight_rule": "absolute",
            "priority_weight": MOST,
            "queue": HOST,
            # None of them measures; a submission that is not valid fails at once all the same.
            "retries": 2,
            "retry_delay": timedelta(seconds=2),
        },
        **more,
    ) as dag:
        validate = ValidateSubmission(
            task_id="validate", file=file, doc_md="Is the submission valid? Nothing runs if not."
        )
        run = RunSubmission(
            task_id="run",
            trigger_dag_id="{{ ti.xcom_pull(task_ids='validate')['dag_id'] }}",
            # The same id, so that one finds the other, and a second try the run of the first.
            trigger_run_id="{{ run_id }}",
            logical_date=None,
            # Whose run it is the executor reads off its starter's.
            conf={} if dag_id == SUBMIT else {STARTED_BY: dag_id},
            doc_md="Starts the submission's own DAG; the link opens it.",
        )
        outcome = AwaitSubmission(
            task_id="outcome",
            doc_md="Ends as the submission's run ends, with the verdict of each job.",
        )
        validate >> run >> outcome
    return dag


def _bound_title(figure: Figure) -> str:
    """A bound's title in the form, such as ``p99 at most, ms``."""
    return f"{figure.word} at {'least' if figure.higher else 'most'}, {figure.unit}"


def parameters(folder: Path | None) -> dict[str, Any]:
    """The fields of the form, by name; without a folder no name is offered."""
    return {
        "submission": Param(
            None,
            type=["string", "object", "null"],
            format="multiline",
            maxLength=1_000_000,
            title="Submission",
            description="YAML text. Leave empty to run one of the folder by its name.",
        ),
        "name": Param(
            None,
            type=["string", "null"],
            maxLength=300,
            examples=names(folder) if folder else [],
            title="Or the name of one",
            description="A file of the submissions folder, without .yaml.",
        ),
        "user": Param(
            None,
            type=["string", "null"],
            maxLength=100,
            title="User",
            description="Who asks for it; your login unless given.",
        ),
        "priority": Param(
            None,
            type=["integer", "null"],
            minimum=-100,
            maximum=100,
            title="Priority",
            description="Higher runs first; the submission's own unless given.",
        ),
        **{figure.name: Param(None, title=_bound_title(figure), **_BOUND) for figure in FIGURES.on("form")},
    }
