"""All models of a submission are cut, each in a sandbox of its own; what one does to itself the others don't notice."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferbench_tasks import private
from inferbench_tasks.brick_jobs.converted import Recorded, converted_model
from inferbench_tasks.brick_jobs.cutting import NETWORKS, CutModel, ToMeasure
from inferbench_tasks.brick_jobs.facts import BrickFacts, own_networks
from inferbench_tasks.brick_jobs.inside import decompose
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.made_from import Keys, keys_of
from inferbench_tasks.brick_jobs.members import entries_of, run_of
from inferbench_tasks.brick_jobs.serving import serving_job
from inferbench_tasks.bricks.results import WHOLE
from inferbench_tasks.errors import CancelledError, InferBenchError, StageError
from inferbench_tasks.modelrepo.build import cache_root
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.stages.base import Context, JobInput
from inferbench_tasks.stores.holdings import FOLDER as ARTIFACTS

log = logging.getLogger(__name__)
#: What no network is wanted of, in the folder of a model's run.
KNOWN = "known.txt"


@dataclass
class Found:
    """``missing``: bricks, and whole models that are wanted, without a time that may be used; ``known``: the others;
    ``failed``: place in the list -> why that model is left out; ``facts``: key -> what the brick is."""

    cuts: list[CutModel] = field(default_factory=list)
    missing: dict[str, ToMeasure] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    facts: dict[str, BrickFacts] = field(default_factory=dict)


def cut_all(inp: JobInput, job: BricksJob, ctx: Context, stored: set[str], recorded: Recorded) -> Found:
    """Cut each model that was converted, as ``recorded`` says; ``stored``: of what there are times. Raises
    CancelledError.
    """
    part, found = job.part, Found()
    assert part is not None
    entries = entries_of(job.models)
    for at in range(len(entries)):
        if ctx.cancelled():
            raise CancelledError("Cancelled while cutting.")
        ctx.progress(at, len(entries), f"cutting model {at + 1}")
        try:
            one = _cut(inp, job, ctx, at, stored | set(found.missing), recorded)
        except CancelledError:
            raise
        except InferBenchError as error:
            log.warning("a model can't be cut at=%d why=%s", at, error)
            found.failed[at] = str(error).removeprefix("decompose: ")
            continue
        found.cuts += one.cuts
        found.missing |= {each.item.name: each for each in one.missing}
        found.known |= set(one.known) & stored
        for each in one.facts:
            if each.network is not None or each.key not in found.facts:
                found.facts[each.key] = each
    return found


def _cut(
    inp: JobInput, job: BricksJob, ctx: Context, at: int, known: set[str], recorded: Recorded
) -> decompose.Output:
    part = job.part
    assert part is not None
    run_id, own_job = run_of(inp.run_id, part, "model", at), serving_job(job, at)
    if (output := recorded(run_id)) is None:
        raise StageError("it was not converted; see its own run")
    cache = cache_root(ctx.data_dir, resolve(own_job.model, ctx.base_dir))
    model = converted_model(output, ctx.run_dir(run_id), (cache, ctx.data_dir / ARTIFACTS))
    entry = entries_of(job.models)[at]
    one = asked_to_cut(
        ctx, known, run_id=run_id, job_id=inp.job_id, attempt=inp.attempt, job=own_job, model=model,
        shapes=dict(entry.shapes), at=at, copies=entry.copies, task=entry.task, batch_sizes=job.bricks.batch_sizes,
        granularity=job.bricks.granularity, method=job.measure.method, wholes=job.validate.models == "all",
        runtime=job.bricks.runtime,
    )  # fmt: skip
    # What the model is, is known here; a process that read it is not asked.
    facts = {"at": at, "copies": entry.copies, "task": entry.task or model.task, "digest": model.digest}
    facts |= {"precision": job.bricks.precision, "runtime": job.bricks.runtime}
    return one.model_copy(update={"cuts": tuple(cut.model_copy(update=facts) for cut in one.cuts)})


def asked_to_cut(ctx: Context, known: set[str], **asked: Any) -> decompose.Output:
    """One model is cut in the sandbox; ``asked``: the fields of ``decompose.Input``, ``known``: what needs no network.

    What it was made of is said here, and not by a process that read it; None where it became another meanwhile (a newer
    version, another file of that name): a cut is found again by the content that was cut, or not at all.
    Raises what ``decompose`` raises, and StageError where its process died or says what can't be.
    """
    folder = ctx.run_dir(asked["run_id"])
    private.write(folder / KNOWN, "\n".join(sorted(known)))
    try:
        order = decompose.Input(**asked, known=str(folder / KNOWN))
        before = None if order.dummy is not None else _keys(order, ctx)
        one: decompose.Output = ctx.run_stage(decompose, order, ctx)
    finally:
        (folder / KNOWN).unlink()
    own(one.missing, folder / NETWORKS, Path(one.model.path if order.model is None else order.model.path))
    own_networks(one.facts, folder / NETWORKS)
    if order.dummy is not None:
        return one
    keys = before if before == _keys(order, ctx) else None
    facts: dict[str, Any] = {"made_from": keys and keys.made_from, "source": keys and keys.source}
    facts |= {"shapes": tuple(sorted(order.shapes.items()))}
    facts |= {"inputs": one.model.inputs, "outputs": one.model.outputs}
    return one.model_copy(update={"cuts": tuple(cut.model_copy(update=facts) for cut in one.cuts)})


def _keys(order: decompose.Input, ctx: Context) -> Keys | None:
    """Those of what the order names, as it is now; None where the model that was handed over is not made of that.

    What is made of files and of registered models lies in a folder of their content (``cache_root``). A built-in one is
    made of what is installed here.
    """
    source = resolve(order.job.model, ctx.base_dir)
    if order.model is not None and source.foreign:
        root = cache_root(ctx.data_dir, source).resolve()
        if not Path(order.model.path).resolve().is_relative_to(root):
            return None
    return keys_of(source.settings(), order.job.convert.precision, order.shapes)


def own(missing: Iterable[ToMeasure], networks: Path, model: Path) -> None:
    """StageError unless all files lie in the folder of the networks; a whole model's is the model.

    Who read a stranger's model may say anything: what it names is opened again by whoever measures.
    """
    folder = networks.resolve()
    for one in missing:
        item = one.item
        paths = [item.feeds, *([] if item.whole else [item.path])]
        strange = [
            path for path in paths
            if not path.resolve().is_relative_to(folder) or path.is_symlink() or not path.is_file()
        ]  # fmt: skip
        if strange or (item.whole and item.path != model) or item.whole != item.name.startswith(WHOLE):
            raise StageError(f"its process named a network that is not its own: {item.name[:80]}")
