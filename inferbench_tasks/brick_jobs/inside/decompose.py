"""One model is cut at all of its batch sizes and granularities; of what is not known yet networks are written."""

from __future__ import annotations

import shutil
from pathlib import Path

from inferbench_tasks.brick_jobs.cutting import NETWORKS, CutModel, ToMeasure
from inferbench_tasks.brick_jobs.facts import BrickFacts
from inferbench_tasks.brick_jobs.inside.opened import DecomposeInput, opened
from inferbench_tasks.contracts.handles import Handle, ModelArtifact
from inferbench_tasks.stages.base import Context, Stage

STAGE = Stage(in_child=True)


Input = DecomposeInput


class Output(Handle):
    """``missing``: what has no time that may be used, each with its network; ``known``: what it takes that has one;
    ``facts``: what each different brick is."""

    model: ModelArtifact
    cuts: tuple[CutModel, ...]
    missing: tuple[ToMeasure, ...]
    known: tuple[str, ...]
    facts: tuple[BrickFacts, ...] = ()


def without_child(inp: DecomposeInput, ctx: Context) -> Output | None:
    """Nothing is kept of a cut: it is always made."""
    return None


def run(inp: DecomposeInput, ctx: Context) -> Output:
    """Networks are written into the run's folder. InputError, or StageError, with what can't be cut and why."""
    from inferbench_tasks.brick_jobs.cutter import Cutter

    folder = ctx.run_dir(inp.run_id) / NETWORKS
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt before
    folder.mkdir()
    source, model = opened(inp, ctx)
    known = frozenset(Path(inp.known).read_text().split()) if inp.known else frozenset()
    cutter = Cutter(inp, source, model, known)
    for batch in inp.batch_sizes:
        ctx.progress(0, None, f"cutting {source.name} at batch {batch}")
        cutter.cut(batch, folder / str(batch))
    return Output(
        model=model,
        cuts=tuple(cutter.cuts),
        missing=tuple(cutter.missing.values()),
        known=tuple(sorted(cutter.known)),
        facts=tuple(cutter.facts.values()),
    )
