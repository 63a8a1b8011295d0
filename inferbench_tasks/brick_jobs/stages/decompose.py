"""Stage ``decompose``: all models of one point are cut; what is not known of their bricks is divided among shards."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from inferbench_tasks.brick_jobs.cutter import Cutter
from inferbench_tasks.brick_jobs.cutting import FILE, NETWORKS, Cutting, ToMeasure
from inferbench_tasks.brick_jobs.filling import fill
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import entries_of, run_of
from inferbench_tasks.brick_jobs.spec import MeasureSpec
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import InferBenchError, StageError
from inferbench_tasks.stages.base import Context, JobInput, Stage

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.results import Result

log = logging.getLogger(__name__)

STAGE = Stage(after=("convert",), retries=1)


class Input(JobInput):
    """The models' runs are those before this one."""

    job: BricksJob


class Output(Handle):
    """``bricks``: of all models, sizes and granularities together; ``todo``: what the shards measure, whole models
    among it, of which ``wholes``; ``reused``: bricks and models whose stored times are used."""

    models: int
    failed: dict[int, str]
    bricks: int
    todo: int
    wholes: int
    reused: int
    shards: int
    path: str


def run(inp: Input, ctx: Context) -> Output:
    """Cut what was converted. A model that can't be cut is named and left out; StageError where none is left."""
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.measure.session import cores_for, setting
    from inferbench_tasks.errors import CancelledError
    from inferbench_tasks.perfdb.store import PerfDB

    job, part = inp.job, inp.job.part
    assert part is not None
    folder = ctx.run_dir(inp.run_id)
    shutil.rmtree(folder / NETWORKS, ignore_errors=True)  # of an attempt before
    threads = job.bricks.threads
    with PerfDB.connect(ctx.perfdb_uri, ctx.data_dir) as db:
        results = PerfDBResults(db, setting(cores_for(threads), threads))
        cutter = Cutter(job, folder / NETWORKS, lambda names: usable(results.get_many(names), job.measure))
        entries = entries_of(job.models)
        for at, entry in enumerate(entries):
            if ctx.cancelled():
                raise CancelledError("Cancelled while cutting.")
            ctx.progress(at, len(entries), f"cutting model {at + 1}")
            path = ctx.run_dir(run_of(inp.run_id, part, "model", at)) / "convert.json"
            try:
                cutter.cut(at, entry, path, ctx.base_dir)
            except CancelledError:
                raise
            except Exception as error:  # whatever a library raises of a model: the others go on
                log.warning("a model can't be cut at=%d", at, exc_info=True)
                known = isinstance(error, InferBenchError)
                cutter.failed[at] = str(error) if known else f"{type(error).__name__}: {error}"
        _keep(results, cutter)
    todo = divided(cutter.found.missing.values(), job)
    cutting = Cutting(
        setting=results.setting, cuts=tuple(cutter.found.cuts), todo=tuple(todo), failed=cutter.failed,
        reused=len(cutter.found.known),
    )  # fmt: skip
    partial = folder / f".{FILE}"
    partial.write_text(cutting.model_dump_json())
    partial.replace(folder / FILE)
    if not cutter.found.cuts:
        raise StageError(
            "no model can be cut: " + "; ".join(f"{at}: {why}" for at, why in cutter.failed.items())
        )
    ctx.progress(len(entries), len(entries), f"{len(todo)} to measure, {cutting.reused} known")
    return Output(
        models=len({cut.at for cut in cutter.found.cuts}), failed=cutter.failed,
        bricks=sum(len(cut.parts) for cut in cutter.found.cuts), todo=len(todo),
        wholes=sum(one.item.whole for one in todo), reused=cutting.reused,
        shards=len({one.shard for one in todo}), path=str(folder / FILE),
    )  # fmt: skip


def usable(found: Mapping[str, Result], measure: MeasureSpec) -> dict[str, Result]:
    """Those of the stored results that a submission takes: measured as much as it asks, and not too old."""
    from inferbench_tasks.perfdb.documents import utc_now

    if measure.reuse == "never":
        return {}
    oldest = utc_now() - timedelta(days=measure.max_age_days)
    return {
        identity: result
        for identity, result in found.items()
        if result.method.covers(measure.method)
        and (measure.reuse == "always" or result.measured_at >= oldest)
    }


def divided(missing: Collection[ToMeasure], job: BricksJob) -> list[ToMeasure]:
    """What is missing, each with its shard."""
    assert job.part is not None
    shards = fill([one.estimate_s for one in missing], job.part.shards, job.measure.shard_s)
    return [one.model_copy(update={"shard": shard}) for one, shard in zip(missing, shards, strict=True)]


def _keep(results: PerfDBResults, cutter: Cutter) -> None:
    for cut in cutter.found.cuts:
        facts = {
            "model": cut.name,
            "digest": cut.digest,
            "batch_size": cut.batch_size,
            "task": cut.task,
            "view": "runtime",
            "instruction_set": results.setting.instruction_set,
            "layers": cut.layers,
        }
        results.put_cut(cut.whole, cut.granularity, cut.parts, cut.needs, facts)
