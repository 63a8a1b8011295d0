"""``inferbench bricks predict FILE.yaml``: what a serving submission would measure that has never run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.bricks_model import Named, asked
from inferbench_tasks.cli.bricks_overhead import Way, overhead_of, processor_of
from inferbench_tasks.cli.bricks_progress import progress
from inferbench_tasks.cli.bricks_wish import Wish
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.errors import CancelledError, InferBenchError, InputError, StageError
from inferbench_tasks.output import OutputFormat, emit, say
from inferbench_tasks.submission.document import read_document
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import JobSpec, serving_only
from inferbench_tasks.submission.sweep import Job, expand

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.predict import Progress as Tell
    from inferbench_tasks.brick_jobs.under_load.overhead import Overhead
    from inferbench_tasks.brick_jobs.under_load.timed import Timed
    from inferbench_tasks.perfdb.store import PerfDB

#: What `inferbench bricks predict` takes for a submission.
SUFFIXES = (".yaml", ".yml")


def predict_load(file: Path, wish: Wish, output: OutputFormat) -> None:
    """A row for each job."""
    from inferbench_tasks.brick_jobs.under_load.limits import refuse
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.running.child import keeping

    jobs = expand(serving_only(read_submission(file, INSTALLED), "`inferbench bricks predict FILE.yaml`"))
    document = read_document(file.read_text("utf-8-sig"), str(file))
    refuse(document, jobs, None if wish.device else usable_cores())
    base_dir = file.absolute().parent
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db, keeping():
        processor = processor_of(db, wish.device)
        overheads = {key: _overhead(db, key, processor, wish.cores) for key in _by(jobs, _way)}
        rows: dict[int, dict[str, Any]] = {}
        with progress() as bar:
            task = bar.add_task("preparing", total=None)

            def tell(what: str, done: float, of: float | None) -> None:
                bar.update(task, description=what, completed=done, total=of)

            models = _by(jobs, _model)
            for each in models.values():
                # Without what the server adds nothing can be said, whatever the model's time is.
                rows |= {
                    job.index: _none(job, why) for job in each if isinstance(why := overheads[_way(job)], str)
                }
                if not (group := [job for job in each if job.index not in rows]):
                    continue
                try:
                    timed = _timed(db, group, base_dir, processor, wish, tell)
                except CancelledError:
                    raise
                except InferBenchError as error:
                    if len(models) == 1:
                        raise
                    rows |= {job.index: _none(job, str(error)) for job in group}
                    continue
                for job in group:
                    tell(f"{job.job_id}: simulating", 0, None)
                    overhead = overheads[_way(job)]
                    assert not isinstance(overhead, str)
                    try:
                        rows[job.index] = _row(job, timed, overhead, base_dir, wish.cut["shapes"])
                    except InputError as error:
                        if len(jobs) == 1:
                            raise
                        rows[job.index] = _none(job, str(error))
    ordered = [rows[job.index] for job in jobs]
    for row in ordered:
        if row["warning"]:
            say(f"{row['job']}: {row['warning']}.")
    emit([_short(row) for row in ordered] if output is OutputFormat.table else ordered, output)
    for text in dict.fromkeys(text for row in ordered for text in _in_words(row)):
        say(text)
    if none := [row for row in ordered if _is_none(row)]:
        raise StageError(
            f"{len(none)} of {len(ordered)} jobs have no prediction:\n"
            + "\n".join(f"{row['job']}: {row['state']}" for row in none)
        )


def _by(jobs: Sequence[Job[JobSpec]], key: Any) -> dict[Any, list[Job[JobSpec]]]:
    groups: dict[Any, list[Job[JobSpec]]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    return groups


def _way(job: Job[JobSpec]) -> Way:
    return job.spec.serve.backend, job.spec.traffic.protocol, job.spec.traffic.client


def _model(job: Job[JobSpec]) -> tuple[str, str, int]:
    return job.spec.model.model_dump_json(), job.spec.convert.precision, job.spec.serve.threads


def _timed(
    db: PerfDB, group: Sequence[Job[JobSpec]], base_dir: Path, processor: str | None, wish: Wish, tell: Tell
) -> Timed:
    """Of the model that these jobs share, at all batch sizes that may come up."""
    from inferbench_tasks.brick_jobs.chosen import Wanted
    from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
    from inferbench_tasks.brick_jobs.places import place_here
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.brick_jobs.under_load.services import sizes_of
    from inferbench_tasks.brick_jobs.under_load.timed import timed_here, timed_stored
    from inferbench_tasks.bricks.measure.session import cores_for, setting
    from inferbench_tasks.modelrepo.resolve import resolve

    spec = group[0].spec
    model = Named(resolve(spec.model, base_dir).name, spec.model, base_dir)
    sizes: set[int] = set()
    for job in group:
        batching = job.spec.serve.batching
        sizes |= {*sizes_of(job.spec.traffic.samples_per_request, batching.max_batch_size if batching else 0)}
    cut = {**wish.cut, "batch_sizes": tuple(sorted(sizes)), "wholes": False}

    def said(what: str, done: float, of: float | None) -> None:
        tell(f"{model.name}: {what}", done, of)

    precision = spec.convert.precision
    with asked(model, lambda done, of, what: said(what, done, of), precision) as (common, ctx):
        if processor is not None:
            one = asked_to_cut(ctx, set(), **common, **cut, networks=False)
            return timed_stored(db, one, processor, spec.serve.threads, wish.calibrate_on, wish.constructor)
        threads = spec.serve.threads
        place = place_here(db, settings.data_dir())
        results = PerfDBResults(db, setting(cores_for(threads), threads), place=place)
        known = set() if wish.again else results.usable(Wanted(method=wish.method))
        one = asked_to_cut(ctx, known, **common, **cut, method=wish.method)
        with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
            how = wish.calibrate_on, wish.constructor
            return timed_here(one, results, wish.method, *how, Path(folder), said)


def _row(
    job: Job[JobSpec], timed: Timed, overhead: Overhead, base_dir: Path, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    from inferbench_tasks.brick_jobs.under_load.rows import row_of

    return {"job": job.job_id, "point": job.point, **row_of(job.spec, timed, overhead, base_dir, shapes)}


def _overhead(db: PerfDB, way: Way, processor: str | None, cores: int | None) -> Overhead | str:
    """What the server adds; why it is not known where a busy machine did not let it be measured: jobs of other
    protocols and clients are predicted all the same."""
    try:
        return overhead_of(db, way, processor, cores)
    except StageError as error:
        return str(error)


def _none(job: Job[JobSpec], why: str) -> dict[str, Any]:
    """The row of a job of which nothing can be said."""
    from inferbench_tasks.brick_jobs.under_load.rows import none_of

    return {"job": job.job_id, "point": job.point, **none_of(why)}


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the table."""
    shown = {"job": json.dumps(row["point"]) if row["point"] else row["job"]}
    shown["coverage_ratio"] = row["coverage_ratio"]
    for name in ("p50_ms", "p95_ms", "p99_ms"):
        shown[name] = _with_interval(row.get(name), row.get(f"{name}_interval"))
    shown["utilisation"] = row.get("utilisation_ratio")
    shown["capacity_rps"] = _with_interval(row["capacity_rps"], row.get("capacity_interval_rps"))
    return shown | {"state": row["state"]}


def _is_none(row: Mapping[str, Any]) -> bool:
    """Whether nothing is predicted of it, and ``state`` says why."""
    return row.get("saturation_rps") is None


def _with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    if interval is None:
        return "-"
    if value is None:
        return f"{interval[0]:.4g} to {interval[1]:.4g}"
    return f"{value:.4g} ({interval[0]:.4g} to {interval[1]:.4g})"


def _in_words(row: Mapping[str, Any]) -> list[str]:
    """What a reader must know of the figures, the same for many rows once."""
    said = [f"DISTURBED, and not kept: {why}." for why in row["disturbed"]]
    if _is_none(row):
        return said
    if not row["judged"]:
        said.append(
            "The model's times are not calibrated: intervals leave out what cutting changes (`inferbench bricks "
            "predict MODEL --whole` of three other models calibrates them)."
        )
    if row["slo_left_out"]:
        said.append(f"Not predicted, and in no capacity: {', '.join(row['slo_left_out'])} of the slo.")
    if hidden := [
        name for name in ("p50_ms", "p95_ms", "p99_ms") if row["error_ratio"] and row[name] is None
    ]:
        said.append(
            f"{row['job']}: {row['error_ratio']:.3%} of its requests have no answer in time, so that "
            f"{', '.join(hidden)} of the others would not be those of all: withheld, as of a run."
        )
    by = f"{row['capacity_arrivals']} arrivals by {row['capacity_by']}"
    said.append(f"capacity_rps: the highest rate of {by}.")
    if (least := row["capacity_least_error_ratio"]) is not None:
        said.append(
            f"{row['job']}: its capacity is {row['capacity_interval_rps'][1]:.4g} at most, that of error_ratio "
            f"{least:g}: whether fewer fail can't be told from the requests that are simulated. Give {least:g} or "
            "more, or 0 (none of those that are simulated)."
        )
    elif row["capacity_rps"] is None:
        said.append(
            f"{row['job']}: its capacity is between {row['capacity_interval_rps'][0]:.4g} and the saturation rate, "
            f"{row['capacity_interval_rps'][1]:.4g} at most: so close to it no load of a sensible length tells more."
        )
    if row["draws"] is not None and row["draws"] < row["draws_wanted"]:
        said.append(
            f"{row['job']}: so many requests have to be simulated that it is drawn {row['draws']} times instead of "
            f"{row['draws_wanted']}: the intervals are wider for it."
        )
    if row["capacity_fails_at_rps"] is not None:
        said.append(
            f"{row['job']}: at lower rates its objective fails ({row['capacity_fails_at_rps']:.4g} requests/s is one): "
            "batches wait for more requests, or the server sleeps longer between them."
        )
    return said
