"""What the server adds, for ``inferbench bricks predict FILE.yaml``: as it is stored, or measured on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.output import say
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import Job

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.under_load.overhead import Conditions, Overhead
    from inferbench_tasks.perfdb.store import PerfDB

#: Backend, protocol and client of a load.
Way = tuple[str, str, str]


def processor_of(db: PerfDB, device: str) -> str | None:
    """The one of that name; None of this machine."""
    from inferbench_tasks.brick_jobs.under_load.stored import processor_of as named

    return named(db, device) if device else None


def overhead_of(db: PerfDB, way: Way, processor: str | None, cores: int | None) -> Overhead:
    """What the server adds: stored, or measured here."""
    from inferbench_tasks.brick_jobs.under_load.overhead import of_processor, stored

    backend, protocol, client = way
    fields: dict[str, str | int] = {"backend": backend, "protocol": protocol, "client": client}
    if processor is not None:
        return of_processor(db, fields, processor, cores)
    conditions = _here(fields)
    return stored(db, conditions.model_dump()) or _measured(db, conditions)


def _here(fields: Mapping[str, Any]) -> Conditions:
    from inferbench_tasks.brick_jobs.under_load.overhead import Conditions
    from inferbench_tasks.monitors import environment

    versions = environment.versions()
    return Conditions(
        **fields, runtime=f"onnxruntime {versions['onnxruntime']}", inferbench=str(versions["inferbench"]),
        processor=environment.processor(), cores=usable_cores(),
    )  # fmt: skip


def _measured(db: PerfDB, conditions: Conditions) -> Overhead:
    from inferbench_tasks.brick_jobs.under_load.no_work import measured
    from inferbench_tasks.brick_jobs.under_load.overhead import put
    from inferbench_tasks.cli.recommend_search import Runner

    data_dir = settings.writable(settings.data_dir())

    def run(spec: JobSpec, folder: Path) -> Mapping[str, Any] | None:
        return runner.run(Job(0, "", spec.name, {}, spec))

    with tempfile.TemporaryDirectory(prefix="inferbench-no-work-") as name:
        runner = Runner(db, data_dir, Path(name))
        with runner.signals():
            overhead = measured(
                conditions, Path(name), run, lambda run_id: data_dir / "runs" / run_id,
                lambda what, done, of: say(f"{what}: load {done + 1:.0f} of {of:.0f} of a model of no work"),
            )  # fmt: skip
    if not overhead.disturbed:
        put(db, overhead)
    return overhead
