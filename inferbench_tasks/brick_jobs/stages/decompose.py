"""Stage ``decompose``: all models of one point are cut; what is not known of their bricks is divided among shards."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from inferbench_tasks.brick_jobs.chosen import Wanted
from inferbench_tasks.brick_jobs.converted import recorded_by
from inferbench_tasks.brick_jobs.cut_all import cut_all
from inferbench_tasks.brick_jobs.cutting import FILE, Cutting, ToMeasure
from inferbench_tasks.brick_jobs.filling import fill
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import entries_of, name_of
from inferbench_tasks.brick_jobs.spec import MeasureSpec
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import StageError
from inferbench_tasks.stages.base import Context, JobInput, Stage

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults

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
    """Cut what was converted. A model that can't be cut is named and left out; StageError where none is left, and where
    something is to be timed and no device is like this host."""
    from inferbench_tasks.brick_jobs.devices_alike import require_device
    from inferbench_tasks.brick_jobs.places import place_here
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.measure.session import cores_for, setting
    from inferbench_tasks.perfdb.store import PerfDB

    job, part = inp.job, inp.job.part
    assert part is not None
    folder = ctx.run_dir(inp.run_id)
    threads = job.bricks.threads
    (folder / FILE).unlink(missing_ok=True)  # of an attempt before: shards would go on with that
    with PerfDB.connect(ctx.perfdb_uri, ctx.data_dir) as db:
        here = setting(cores_for(threads), threads, job.bricks.runtime)
        results = PerfDBResults(db, here, place=place_here(db, ctx.data_dir))
        reuse = wanted(results, job.measure)
        stored = results.usable(reuse) if reuse else set()
        if ctx.leases and not stored:  # whatever the bricks are, they are to be timed
            require_device(db, job, here)
        found = cut_all(inp, job, ctx, stored, recorded_by(db))
        results.put_cuts(found.cuts, found.facts.values())
        if ctx.leases and found.missing:
            require_device(db, job, here)
    todo = divided(found.missing.values(), job)
    cutting = Cutting(
        setting=results.setting, cuts=tuple(found.cuts), todo=tuple(todo), failed=found.failed, reused=len(found.known),
        wanted=reuse,
    )  # fmt: skip
    partial = folder / f".{FILE}"
    partial.write_text(cutting.model_dump_json())
    partial.replace(folder / FILE)
    if not found.cuts:
        entries = entries_of(job.models)
        whys = (f"{name_of(entries[at].model)}, {why}" for at, why in found.failed.items())
        raise StageError("no model can be cut: " + "; ".join(whys))
    ctx.progress(part.models, part.models, f"{len(todo)} to measure, {cutting.reused} known")
    return Output(
        models=len({cut.at for cut in found.cuts}),
        failed=found.failed,
        bricks=sum(len(cut.parts) for cut in found.cuts),
        todo=len(todo),
        wholes=sum(one.item.whole for one in todo),
        reused=cutting.reused,
        shards=len({one.shard for one in todo}),
        path=str(folder / FILE),
    )


def wanted(results: PerfDBResults, measure: MeasureSpec) -> Wanted | None:
    """Which stored times a submission takes: measured as much as it asks, and not too old; None: none at all."""
    if measure.reuse == "never":
        return None
    oldest = None if measure.reuse == "always" else results.now() - timedelta(days=measure.max_age_days)
    return Wanted(method=measure.method, oldest=oldest)


def divided(missing: Collection[ToMeasure], job: BricksJob) -> list[ToMeasure]:
    """What is missing, each with its shard."""
    assert job.part is not None
    shards = fill([one.estimate_s for one in missing], job.part.shards, job.measure.shard_s)
    return [one.model_copy(update={"shard": shard}) for one, shard in zip(missing, shards, strict=True)]
