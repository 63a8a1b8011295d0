"""The step that a run's pipeline would take with other numbers of loader processes, cores and ranks, or another cache.

The model is ``diagnosis.pipeline``. Of a cache that holds a share of the files DS-Analyzer (Mohan et al., VLDB 2021)
takes a mean of both reads: ``cached * warm + (1 - cached) * cold``, with each measured by a run of its own. It holds
of a cache that keeps what it has; one that throws out the oldest (the page cache) keeps less of files that are read in
turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.diagnosis.observation import Batch, Observation, of_result
from inferbench_tasks.training.diagnosis.pipeline import MOST_WORKERS, Pipeline
from inferbench_tasks.training.diagnosis.stalls import place_of, stalls_of
from inferbench_tasks.training.result import TrainingResult

MOST_RANKS, MOST_CORES = 1024, 4096


def pipeline_of(result: TrainingResult) -> tuple[Observation, Pipeline]:
    """What predictions of a run are made by; InputError where it has no loader, or its figures do not count."""
    if not result.verdict.valid:
        raise InputError(f"nothing is predicted by {result.run_id}, which is {result.verdict}", field="RUN")
    run = of_result(result)
    pipeline = run.pipeline if run else None
    if run is None or pipeline is None:
        raise InputError(
            f"{result.run_id} has no pipeline of loading and computing: too few steps, its data on the device, or "
            "smooth inference, which loads by itself; or its job is of another version",
            field="RUN",
        )
    return run, pipeline


def predicted(
    result: TrainingResult,
    others: Sequence[TrainingResult],
    *,
    workers: int | None = None,
    cores: float | None = None,
    ranks: int | None = None,
    cached: float | None = None,
) -> dict[str, Any]:
    """One setting: what differs from the run, its step, ms, and samples/s of all ranks. ``others``: see
    ``cached_reads``.

    InputError for what the run can't tell: loader processes without the time of a hand-over, a cache without both
    reads.
    """
    run, pipeline = pipeline_of(result)
    if workers is not None and workers and pipeline.hand_over_ms is None:
        raise InputError(
            f"{result.run_id} does not know what getting a batch of another process takes: run it with loader "
            "processes",
            field="--workers",
        )
    changed = pipeline.of(
        workers=pipeline.workers if workers is None else workers,
        cores=pipeline.cores if cores is None else cores,
        ranks=pipeline.ranks if ranks is None else ranks,
    )
    if cached is not None:
        reads = cached_reads(result, others, cached)
        changed = changed.of(**reads)
        if changed.own_making_ms is not None:  # the rank reads from the same place as its processes
            more_ms = reads["making_ms"] - pipeline.making_ms
            changed = changed.of(own_making_ms=max(0.0, changed.own_making_ms + more_ms))
    step_ms = changed.step_ms
    samples = run.job.samples_per_step * changed.ranks
    return {
        "workers": changed.workers,
        "cores": changed.cores,
        "ranks": changed.ranks,
        "cached_ratio": cached,
        "predicted_step_ms": step_ms,
        "predicted_samples_per_s": samples / step_ms * 1e3,
        "by_the_measured_step": step_ms / run.step_ms,
        "bound_by": _bound(changed),
    }


def table(result: TrainingResult) -> list[dict[str, Any]]:
    """Each number of loader processes, on the run's cores and with a core for each thread of the ranks and each loader
    process; those that make no difference any more are left out.
    """
    run, pipeline = pipeline_of(result)
    numbers = range(MOST_WORKERS + 1) if pipeline.hand_over_ms is not None else [pipeline.workers]
    rows: list[dict[str, Any]] = []
    for workers in numbers:
        here = pipeline.of(workers=workers)
        enough = here.of(cores=float("inf"))
        rows.append(
            {
                "workers": workers,
                "predicted_step_ms": here.step_ms,
                "bound_by": _bound(here),
                "with_enough_cores_ms": enough.step_ms,
                "enough_cores": pipeline.ranks * (run.threads + workers),
            }
        )
        flat = len(rows) > 2 and rows[-1]["with_enough_cores_ms"] > 0.999 * rows[-2]["with_enough_cores_ms"]
        if (
            flat
            and workers > pipeline.workers
            and rows[-1]["predicted_step_ms"] > 0.999 * rows[-2]["predicted_step_ms"]
        ):
            break
    return rows


def cached_reads(result: TrainingResult, others: Sequence[TrainingResult], cached: float) -> dict[str, float]:
    """Making a batch where the share ``cached`` of its files is in memory, as fields of the pipeline, ms.

    ``others``: runs of the same training, among them those with warm and with cold files.
    """
    found = stalls_of(result, others)
    runs = dict(found.runs) if found else {place_of(result): result}
    batches: dict[str, Batch] = {}
    for place in ("disk", "cold"):
        of = of_result(runs[place]) if place in runs else None
        if of is None or of.batch is None:
            missing = "warm" if place == "disk" else "cold"
            raise InputError(
                "a cache's size needs two runs of the same work, with data.read: warm and cold; there is none with "
                f"{missing} files (`sweep: {{data.read: [warm, cold]}}`)",
                field="--cached",
            )
        batches[place] = of.batch
    read_ms = cached * batches["disk"].read_ms + (1 - cached) * batches["cold"].read_ms
    # What lies in memory is decoded already: a run with its data there does not tell what files take beside reading.
    own = batches.get(place_of(result), batches["disk"])
    making_ms = own.making_ms - own.read_ms + read_ms
    return {"making_ms": making_ms, "making_cpu_ms": min(own.cpu_ms, making_ms)}


def _bound(pipeline: Pipeline) -> str:
    """What sets the pace."""
    if pipeline.step_ms > pipeline.unhindered_ms:
        return "cores"
    if not pipeline.workers:
        return "making, then the rest"
    making = pipeline.making_ms / pipeline.workers
    return "making batches" if making >= pipeline.step_ms else "the rest of the step"
