"""A submission's jobs under their loads from what is stored alone: nothing is measured, no model made or opened."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.answer import answer
from inferbench_tasks.brick_jobs.decompositions import of_precision, of_runtime
from inferbench_tasks.brick_jobs.layers_known import require_layers
from inferbench_tasks.brick_jobs.made_from import made_from
from inferbench_tasks.brick_jobs.members import name_of
from inferbench_tasks.brick_jobs.newest import newest_of
from inferbench_tasks.brick_jobs.one_device import one_device
from inferbench_tasks.brick_jobs.queries import settings_of
from inferbench_tasks.brick_jobs.stored import Stored, at_setting, by_runtime, share_of
from inferbench_tasks.brick_jobs.under_load.overhead import Overhead, of_processor
from inferbench_tasks.brick_jobs.under_load.rows import NONE
from inferbench_tasks.brick_jobs.under_load.services import sizes_of
from inferbench_tasks.brick_jobs.under_load.timed import COMMAND, Timed, runs_of
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.schema import JobSpec

#: In which predictions are made; the first where both have as many times.
VIEWS = ("runtime", "portable")


@dataclass(frozen=True)
class Asked:
    """How times of bricks become predictions; see the options of ``inferbench bricks predict``."""

    device: str = ""
    cores: int | None = None
    granularity: str = "1"
    calibrate_on: int = 3
    constructor: str = "sequential"
    shapes: Mapping[str, tuple[int, ...]] | None = None


def processor_of(db: PerfDB, device: str) -> str:
    """The one whose name has that in it. InputError where there is none, or are several."""
    if (known := one_device(settings_of(db, device), device)) is None:
        raise InputError(f"no device has times of bricks yet; {COMMAND}", field="device")
    return known


def overhead_stored(db: PerfDB, job: JobSpec, processor: str, cores: int | None) -> Overhead:
    """What the job's server adds there; see ``of_processor``."""
    fields = {"backend": job.serve.backend, "protocol": job.traffic.protocol, "client": job.traffic.client}
    return of_processor(db, fields, processor, cores)


def model_key(job: JobSpec) -> Hashable:
    """What ``timed_uncut`` depends on of a job: jobs with one key have one answer."""
    return job.model.model_dump_json(), job.convert.precision, job.serve.threads, _sizes(job)


def _sizes(job: JobSpec) -> tuple[int, ...]:
    batching = job.serve.batching
    return sizes_of(job.traffic.samples_per_request, batching.max_batch_size if batching else 0)


def timed_uncut(db: PerfDB, job: JobSpec, base_dir: Path, processor: str, asked: Asked) -> Timed:
    """The job's model at all batch sizes that may come up, as it was cut before: at one setting for all of them, that
    at which most is known.

    InputError, with what to run, where this very model (``made_from``) was never cut, or nothing was measured at this
    number of threads, or at no batch sizes that these lie between.
    """
    sizes = _sizes(job)
    threads, precision = job.serve.threads, job.convert.precision
    # The queue is that of our own server, which runs ONNX Runtime.
    settings = [row for row in by_runtime(settings_of(db, processor), DEFAULT) if row["threads"] == threads]
    if not settings:
        raise InputError(
            f"nothing was measured on {processor} with {threads} threads; {COMMAND}", field="serve.threads"
        )
    key = made_from(job.model, base_dir, precision, asked.shapes or {})
    where = {
        "made_from": key,
        "granularity": asked.granularity,
        "precision": of_precision(precision),
        "view": {"$in": list(VIEWS)},
        "runtime": of_runtime(DEFAULT),
    }
    cuts = {size: newest_of(db, where, size) for size in sizes}
    if not cuts[sizes[0]]:
        require_layers(db, name_of(job.model), asked.granularity, precision, DEFAULT, key)
        raise InputError(
            f"this model was never cut here at granularity {asked.granularity} in {precision}, as it is now (its "
            f"content, the sizes of its inputs, the libraries that make it); {COMMAND}",
            field="model",
        )
    fullest: Mapping[int, Stored] | None = None
    whys: list[str] = []
    for setting, view in product(settings, VIEWS):
        found: dict[int, Stored] = {}
        for size in sizes:
            stored, why = at_setting(db, setting, _of_view(cuts[size], view), size)
            whys += why
            if stored is not None:
                found[size] = stored
        if len(found) == len(sizes) and (fullest is None or _share(found) > _share(fullest)):
            fullest = found
    if fullest is None:
        whys = list(dict.fromkeys(whys)) or [f"it was cut for no instruction set of {processor}"]
        raise InputError(f"{'; '.join(whys)}; {COMMAND}", field="model")
    how = asked.calibrate_on, asked.constructor
    rows = {size: answer(results, cut, times, *how) for size, (results, times, cut) in fullest.items()}
    results, _, cut = fullest[sizes[0]]
    return Timed(cut.inputs, cut.outputs, rows, runs_of(results, cut.parts), cut)


def _of_view(cuts: Mapping[str, dict[str, Any]], view: str) -> dict[str, dict[str, Any]]:
    """One view for all sizes: layers of one do not stand beside those of another."""
    return {name: cut for name, cut in cuts.items() if (cut.get("view") or "runtime") == view}


def _share(found: Mapping[int, Stored]) -> float:
    return sum(share_of(one) for one in found.values())


def missing_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What keeps rows from a prediction, with the command where something has to be measured; once each."""
    states = (str(row["state"]) for row in rows)
    return list(dict.fromkeys(state.removeprefix(NONE) for state in states if state.startswith(NONE)))
