"""The tasks of a night: they only adapt Airflow to ``regression``."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from inferbench_tasks import settings
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.errors import CancelledError, InputError, LeaseLostError, StageError
from inferbench_tasks.regression.bisect.offer import offer, start_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.perfdb.under_lease import HeldLease


#: A night is one job.
JOB = 0


class HoldDevice(BaseOperator):
    """Takes the device for the whole session, or gives it back; the executor does it by the task's stage."""

    template_fields: Sequence[str] = ()
    ui_color = "#e8f0fe"

    def execute(self, context: Context) -> str:
        self.log.info(
            "%s on %s", self.task_id, context["ti"].queue if hasattr(context["ti"], "queue") else ""
        )
        return self.task_id


class ChooseSystem(BaseOperator):
    """Chooses the system that ``file`` asks for among the devices that are registered now; returns it.

    Where none fits the night ends here, with each device's first requirement that it misses; other nights are other
    DAGs.
    """

    template_fields: Sequence[str] = ()
    ui_color = "#e8f0fe"

    def __init__(self, *, file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.file = file

    def execute(self, context: Context) -> dict[str, Any]:
        from inferbench_tasks.regression.watched import comparable
        from inferbench_tasks.running.cluster_abilities import of_cluster_here

        try:
            submission: Any = comparable(
                Path(self.file), "A nightly comparison", of_cluster_here(settings.data_dir())
            )
        except InputError as error:
            raise AirflowFailException(str(error)) from error
        if submission.system is None:
            raise AirflowFailException(f"{self.file} asks for no systems any more; start it again")
        self.log.info("chosen: %s", ", ".join(submission.system.ids))
        chosen: dict[str, Any] = submission.system.model_dump(mode="json")
        return chosen


class MeasuringOperator(BaseOperator):
    """Measures ``file`` until it is stopped: what it raises for its user fails the task without another try."""

    template_fields: Sequence[str] = ()
    ui_color = "#e8f0fe"
    #: What is stopped, for the message of a task that was.
    what: ClassVar[str]

    def __init__(self, *, file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.file = file
        self._stop = threading.Event()

    def execute(self, context: Context) -> Any:
        from inferbench_tasks.perfdb.store import PerfDB

        data_dir = settings.data_dir()
        try:
            with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
                return self.measure(context["params"], db, data_dir, held_lease(context, db))
        except (StageError, InputError, CancelledError, LeaseLostError) as error:
            raise AirflowFailException(str(error)) from error

    @abstractmethod
    def measure(self, params: Mapping[str, Any], db: PerfDB, data_dir: Path, lease: HeldLease | None) -> Any:
        """The measurement by the parameters of the run; ``self._stop`` is set when it is to end. ``lease``: what it
        writes under, None where nobody leases devices.
        """

    def on_kill(self) -> None:
        """Airflow calls it from its SIGTERM handler: the run in progress ends, what was measured stays."""
        self._stop.set()
        raise CancelledError(f"Stopped during {self.what}.")


def held_lease(context: Context, db: PerfDB) -> HeldLease | None:
    """That of the night's job, where a scheduler leases devices; LeaseLostError where it has none any more."""
    from inferbench_tasks.running.fence import Fence

    if (worker := os.environ.get(settings.WORKER)) is None:
        return None
    return Fence(worker, str(JobKey(context["ti"].dag_id, context["ti"].run_id, JOB))).enter(db).lease


class MeasureNight(MeasuringOperator):
    """Runs the session of ``file``, and the one that confirms what it suspects. Returns the session's ids."""

    what = "the night's session"

    def measure(
        self, params: Mapping[str, Any], db: PerfDB, data_dir: Path, lease: HeldLease | None
    ) -> list[str]:
        from inferbench_tasks.regression.session import Night, run_night

        detect = params.get("detect")
        night = Night(
            Path(self.file), pairs=params.get("pairs"), detect=None if detect is None else float(detect) / 100
        )
        outcome = run_night(night, db, data_dir, self.log.info, self._stop.is_set, lease)
        return [session["id"] for session in outcome["sessions"]]


class DecideNight(BaseOperator):
    """Makes the report; returns what was confirmed and suspected, and where the report is."""

    template_fields: Sequence[str] = ()
    ui_color = "#e8f0fe"

    def __init__(self, *, name: str, file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.file = file

    def execute(self, context: Context) -> dict[str, Any]:
        from inferbench_tasks.perfdb.store import PerfDB
        from inferbench_tasks.regression.overview import overview
        from inferbench_tasks.regression.report import report_folder, write_report

        with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
            state = overview(db, [self.name])
        paths = write_report(state, report_folder(self.name))
        changes = {key: state[key] for key in ("regressions", "improvements", "suspicions")}
        return {"name": self.name, "file": self.file, "report": str(paths[0]), **changes}


class StartBisection(TriggerDagRunOperator):
    """Starts the bisection of what the night confirmed; skipped where nothing was, or not between two commits.

    Once for the same commits and figure: a night that confirms the same again starts nothing.
    """

    template_fields: Sequence[str] = ()
    ui_color = "#e8f0fe"

    def __init__(self, *, decided_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decided_by = decided_by

    def execute(self, context: Context) -> None:
        ti = context["ti"]
        start = start_of(ti.xcom_pull(task_ids=self.decided_by))
        if start is None:
            raise AirflowSkipException("no regression between two commits was confirmed")
        self.conf = start
        job = f"-job-{start['job']}" if start.get("job") else ""
        self.trigger_run_id = f"{start['good'][:12]}-{start['bad'][:12]}-{start['figure']}{job}"
        if ti.get_dr_count(self.trigger_dag_id, run_ids=[self.trigger_run_id]):
            raise AirflowSkipException(f"{self.trigger_run_id} of {self.trigger_dag_id} was started before")
        super().execute(context)


class BisectCommits(MeasuringOperator):
    """Bisects ``file`` between the commits ``good`` and ``bad`` of the parameters; returns the answer.

    What was measured is kept: a run that was ended, or lost its device, goes on where it was when it is started again.
    """

    what = "a bisection"

    def measure(
        self, params: Mapping[str, Any], db: PerfDB, data_dir: Path, lease: HeldLease | None
    ) -> dict[str, Any]:
        from inferbench_tasks.regression.bisect.session import bisect
        from inferbench_tasks.regression.bisect.start import request_of
        from inferbench_tasks.regression.bisect.text import as_mapping, sentences

        request = request_of(Path(self.file), dict(params))
        state, answer = bisect(request, db, data_dir, self.log.info, self._stop.is_set, lease)
        for sentence in sentences(state, answer):
            self.log.info("%s", sentence)
        document: dict[str, Any] = as_mapping(state, answer)
        return document


class TellVerdict(BaseOperator):
    """Fails if a regression was confirmed; its callbacks are the notifiers."""

    template_fields: Sequence[str] = ()
    ui_color = "#e8f0fe"

    def __init__(self, *, decided_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decided_by = decided_by

    def execute(self, context: Context) -> dict[str, Any]:
        changes: dict[str, Any] = context["ti"].xcom_pull(task_ids=self.decided_by)
        for change in changes["improvements"] + changes["suspicions"]:
            self.log.info("%s %+.1f%%", change["series"], change["change_percent"])
        context["ti"].xcom_push(key="told", value=message(changes))
        if changes["regressions"]:
            raise AirflowFailException(message(changes)["text"])
        return changes


def message(changes: dict[str, Any]) -> dict[str, Any]:
    """What a notification says: ``subject``, ``text``, and the changes themselves; no text if nothing changed."""
    lines = []
    for word, key in (("regression", "regressions"), ("improvement", "improvements")):
        for change in changes[key]:
            where = f" in {change['stage']}" if change.get("stage") else ""
            lines.append(f"{word}: {change['series']} {change['change_percent']:+.1f}%{where}")
            if command := offer(change, changes["file"]):
                lines.append(f"which commit made it: {command}")
    word = "regression" if changes["regressions"] else "improvement"
    return {
        "subject": f"InferBench: {word} in {changes['name']}",
        "text": "\n".join(lines),
        "report": changes["report"],
        "regressions": changes["regressions"],
        "improvements": changes["improvements"],
    }
