"""Stage ``decompose``: all models of one point are cut; what is not known of their bricks is divided among shards."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.brick_jobs.cutting import FILE, NETWORKS, CutModel, Cutting, ToMeasure
from inferbench_tasks.brick_jobs.filling import fill, measuring_s, run_s
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import entries_of, run_of
from inferbench_tasks.brick_jobs.spec import EntrySpec, MeasureSpec
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import InferBenchError, StageError
from inferbench_tasks.stages.base import Context, JobInput, Stage

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.results import Result
    from inferbench_tasks.stages.convert import Output as Converted

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
    cutter = Cutter(job, folder / NETWORKS)
    with PerfDB.connect(ctx.perfdb_uri, ctx.data_dir) as db:
        results = PerfDBResults(db, setting(cores_for(threads), threads))
        entries = entries_of(job.models)
        for at, entry in enumerate(entries):
            if ctx.cancelled():
                raise CancelledError("Cancelled while cutting.")
            ctx.progress(at, len(entries), f"cutting model {at + 1}")
            path = ctx.run_dir(run_of(inp.run_id, part, "model", at)) / "convert.json"
            try:
                cutter.cut(at, entry, path, ctx.base_dir)
            except InferBenchError as error:
                log.warning("a model can't be cut at=%d", at, exc_info=True)
                cutter.failed[at] = str(error)
        known = usable(results.get_many(cutter.needed), job.measure)
        _keep(results, cutter)
    todo = divided(cutter, known, job)
    cutting = Cutting(
        setting=results.setting, cuts=tuple(cutter.cuts), todo=tuple(todo), failed=cutter.failed,
        reused=len(set(cutter.needed) & set(known)),
    )  # fmt: skip
    partial = folder / f".{FILE}"
    partial.write_text(cutting.model_dump_json())
    partial.replace(folder / FILE)
    if not cutter.cuts:
        raise StageError(
            "no model can be cut: " + "; ".join(f"{at}: {why}" for at, why in cutter.failed.items())
        )
    ctx.progress(len(entries), len(entries), f"{len(todo)} to measure, {cutting.reused} known")
    return Output(
        models=len({cut.at for cut in cutter.cuts}), failed=cutter.failed,
        bricks=sum(len(cut.parts) for cut in cutter.cuts), todo=len(todo),
        wholes=sum(one.item.whole for one in todo), reused=cutting.reused,
        shards=len({one.shard for one in todo}), path=str(folder / FILE),
    )  # fmt: skip


class Cutter:
    """Cuts one model after the other, and writes the network of each brick that was not there before.

    ``needed``: identity -> its estimated work, of all bricks and of the whole models that are wanted.
    """

    def __init__(self, job: BricksJob, folder: Path) -> None:
        self._job, self._folder = job, folder
        self.cuts: list[CutModel] = []
        self.failed: dict[int, str] = {}
        self.needed: dict[str, ToMeasure] = {}
        self._one_run_s: dict[str, float] = {}
        folder.mkdir(parents=True)

    def cut(self, at: int, entry: EntrySpec, converted: Path, base_dir: Path) -> None:
        """All of its batch sizes and granularities, or none. Raises InferBenchError with what can't be done."""
        from inferbench_tasks.modelrepo.resolve import resolve
        from inferbench_tasks.stages.convert import Output as Converted

        try:
            model = Converted.model_validate_json(converted.read_bytes())
        except FileNotFoundError:
            raise StageError("it was not converted; see its own run") from None
        source = resolve(entry.model, base_dir)
        cuts: list[CutModel] = []
        needed: dict[str, ToMeasure] = {}
        for batch in self._job.bricks.batch_sizes:
            folder = self._folder / f"{at}-{batch}"
            folder.mkdir()
            self._cut(at, entry, model, source, batch, folder, cuts, needed)
        self.cuts += cuts
        self.needed |= {name: one for name, one in needed.items() if name not in self.needed}

    def _cut(
        self, at: int, entry: EntrySpec, converted: Converted, source: object, batch: int, folder: Path,
        cuts: list[CutModel], needed: dict[str, ToMeasure],
    ) -> None:  # fmt: skip
        from inferbench_tasks.brick_jobs.work import work_of
        from inferbench_tasks.bricks.brick import cut
        from inferbench_tasks.bricks.inputs import inputs_of
        from inferbench_tasks.bricks.layers import layer_graph
        from inferbench_tasks.bricks.measure.networks import brick_item, needs_of, timed_as, whole_item
        from inferbench_tasks.bricks.results import WHOLE
        from inferbench_tasks.bricks.sequences import parse_granularity
        from inferbench_tasks.contracts.models import ModelSource

        assert isinstance(source, ModelSource)
        model, method = converted.model, self._job.measure.method
        feeds = inputs_of(source, model.inputs, batch, dict(entry.shapes))
        graph = layer_graph(Path(model.path), feeds, "runtime", folder)
        if not graph.layers:
            raise StageError("the model has no layers: what it answers is constant")
        [entire] = cut(graph, None)
        whole = WHOLE + entire.identity
        total_s = 0.0
        for granularity in self._job.bricks.granularity:
            bricks = list(cut(graph, parse_granularity(str(granularity))))
            parts = tuple(timed_as(graph, brick) for brick in bricks)
            cuts.append(
                CutModel(
                    at=at, name=source.name, copies=entry.copies, task=entry.task or model.task, digest=model.digest,
                    batch_size=batch, granularity=str(granularity), layers=len(graph.layers),
                    operators=entire.operators, whole=whole, parts=parts,
                    needs=tuple(tuple(before) for before in needs_of(bricks)),
                )
            )  # fmt: skip
            total_s = 0.0
            for identity, brick in zip(parts, bricks, strict=True):
                one_s = run_s(*work_of(graph, brick))
                total_s += one_s
                if identity in needed or identity in self.needed:
                    continue
                needed[identity] = ToMeasure(
                    item=brick_item(graph, brick, folder), key=brick.key, operators=brick.operators,
                    layers=" > ".join(layer.node.name or layer.operator for layer in brick.layers),
                    estimate_s=measuring_s(one_s, method, whole=False), shard=0,
                )  # fmt: skip
        if self._wanted(at) and whole not in needed and whole not in self.needed:
            needed[whole] = ToMeasure(
                item=whole_item(whole, Path(model.path), feeds, folder), key=entire.key, operators=entire.operators,
                layers=source.name, estimate_s=measuring_s(total_s, method, whole=True), shard=0,
            )  # fmt: skip

    def _wanted(self, at: int) -> bool:
        """Whether the model is measured as a whole."""
        return self._job.validate.models == "all"


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


def divided(cutter: Cutter, known: Mapping[str, Result], job: BricksJob) -> list[ToMeasure]:
    """What is missing, each with its shard; files of what is known are removed."""
    assert job.part is not None
    missing = []
    for identity, one in cutter.needed.items():
        if identity in known:
            if not one.item.whole:
                one.item.path.unlink(missing_ok=True)
            one.item.feeds.unlink(missing_ok=True)
        else:
            missing.append(one)
    shards = fill([one.estimate_s for one in missing], job.part.shards, job.measure.shard_s)
    return [one.model_copy(update={"shard": shard}) for one, shard in zip(missing, shards, strict=True)]


def _keep(results: PerfDBResults, cutter: Cutter) -> None:
    for cut in cutter.cuts:
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
