"""``inferbench recommend --capacity``: the highest rate, or the most users, that a submission's objective bears."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.analysis.search.capacity import Capacity, CapacitySearch, Step
from inferbench_tasks.analysis.search.live import point_text
from inferbench_tasks.cli.recommend_search import Runner
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.cluster_abilities import of_machine_here, on_one_system
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import JobSpec, loaded_only, serving_only
from inferbench_tasks.submission.sweep import Job, each_job_once, expand

#: Runs of a search unless the user says: to 5% within a factor of 8 of the start takes 8.
MOST_RUNS = 12
#: What is searched for, by the field of the arrivals that says it.
_UNITS = {"rate_rps": "requests/s", "concurrency": "users"}
RunJob = Callable[[Job[JobSpec]], dict[str, Any] | None]


@dataclass(frozen=True)
class Found:
    """What a job's search came to."""

    point: dict[str, Any]
    unit: str
    min_good_ratio: float
    capacity: Capacity
    steps: list[Step]

    def row(self) -> dict[str, Any]:
        """For the table."""
        return {
            "configuration": point_text(self.point) or "as it is",
            "capacity": self.capacity.value,
            "unit": self.unit,
            "not kept at": self.capacity.over,
            "min_good_ratio": self.min_good_ratio,
            "runs": self.capacity.runs,
            "says": self.capacity.reason or "",
        }


def capacity(file: Path, runs: int | None) -> list[Found]:
    """Search each job of a submission; stopped by a signal, it exits with 128 + its number."""
    jobs = jobs_of(file)
    data_dir = settings.writable(settings.data_dir())
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        runner = Runner(db, data_dir, file.absolute().parent)
        with runner.signals():
            return [search(job, runner.run, runs or MOST_RUNS) for job in jobs]


def jobs_of(file: Path) -> list[Job[JobSpec]]:
    """A submission's jobs, without those that differ in the load alone; InputError where nothing can be searched."""
    what = "`inferbench recommend --capacity`"
    here = of_machine_here(settings.data_dir())
    submission = each_job_once(serving_only(read_submission(file, here), what), what)
    on_one_system(submission, what)
    once: dict[str, Job[JobSpec]] = {}
    for job in expand(submission):
        field = _searched(job.spec)
        again = with_level(job.spec, field, 1.0, 1.0).model_dump_json()
        if again in once:
            raise InputError(
                f"{what} looks for load.arrivals.{field} itself; take it out of the sweep",
                field=f"sweep.load.arrivals.{field}",
            )
        once[again] = job
    return [*once.values()]


def _searched(spec: JobSpec) -> str:
    """The field of the arrivals that the search changes."""
    if spec.slo is None or spec.slo.min_good_ratio is None:
        raise InputError(
            "a capacity is searched for under slo.each and slo.min_good_ratio, which this submission lacks; the "
            "highest rate under percentiles is what arrivals: {kind: max_rate} finds",
            field="slo",
        )
    loaded_only(spec, "a search for a capacity")
    if spec.traffic.max_requests is not None:
        raise InputError(
            "a search needs loads as long as their rate asks for; leave it out", field="load.max_requests"
        )
    for field in _UNITS:
        if field in type(spec.traffic.arrivals).model_fields:
            return field
    raise InputError(
        f"arrivals of kind {spec.traffic.arrivals.kind} have no rate or number of users to search for; take poisson, "
        "constant, gamma or closed_loop",
        field="load.arrivals",
    )


def with_level(spec: JobSpec, field: str, level: float, duration_s: float) -> JobSpec:
    """The job under so much load, for so long."""
    value = round(level) if field == "concurrency" else level
    arrivals = spec.traffic.arrivals.model_copy(update={field: value})
    return spec.model_copy(
        update={"load": spec.traffic.model_copy(update={"arrivals": arrivals, "duration_s": duration_s})}
    )


def search(job: Job[JobSpec], run: RunJob, most_runs: int) -> Found:
    """Make loads until the highest one that is good enough is known, or nothing more would tell."""
    spec = job.spec
    field = _searched(spec)
    assert spec.slo is not None and spec.slo.min_good_ratio is not None
    unit = _UNITS[field]
    levels = CapacitySearch(
        float(getattr(spec.traffic.arrivals, field)), spec.slo.min_good_ratio, spec.traffic.duration_s, most_runs,
        users=field == "concurrency",
    )  # fmt: skip
    label = f"{point_text(job.point)}: " if job.point else ""
    while (turn := levels.next()) is not None:
        level, duration_s = turn
        say(f"{label}trying {level:.4g} {unit} for {duration_s:.3g} s")
        asked = with_level(spec, field, level, duration_s)
        step = levels.tell(run(Job(job.index, job.digest, job.job_id, job.point, asked)))
        say(
            f"{label}{level:.4g} {unit}: {step.outcome}; {step.reason}"
            + (f" ({step.run_id})" if step.run_id else "")
        )
    return Found(job.point, unit, spec.slo.min_good_ratio, levels.answer(), levels.steps)
