"""What a study knows of one model: the keys and types of its bricks."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.brick_jobs.inside.opened import CutInput, opened
from inferbench_tasks.bricks.cuts import Cuts
from inferbench_tasks.bricks.study import Cut
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.stages.base import Context, Stage

STAGE = Stage(in_child=True)


class Input(CutInput):
    """The paper's figures are of batch 1."""

    view: str = "source"
    granularity: str = "1"


class Output(Handle):
    """``digest``, ``shapes``: what the cut is kept by."""

    cut: Cut
    digest: str
    shapes: dict[str, tuple[int, ...]]


def without_child(inp: Input, ctx: Context) -> Output | None:
    """The cut that is kept of a model whose conversion is: nothing of the model is opened for that."""
    from inferbench_tasks.bricks.inputs import inputs_of
    from inferbench_tasks.formats.conversion import find_converted
    from inferbench_tasks.modelrepo.build import caches, find_model
    from inferbench_tasks.modelrepo.resolve import resolve

    source = resolve(inp.job.model, ctx.base_dir)
    made = find_model(source, ctx.data_dir)
    if made is None:
        return None
    model = find_converted(made, "onnx", "fp32", caches(ctx.data_dir, source, "conversions"))
    if model is None:
        return None
    feeds = inputs_of(source, model.inputs, 1, dict(inp.shapes))
    shapes = {name: array.shape for name, array in feeds.items()}
    kept = Cuts(ctx.data_dir).get(model.digest, shapes, inp.view, inp.granularity)
    return None if kept is None else Output(cut=kept, digest=model.digest, shapes=shapes)


def run(inp: Input, ctx: Context) -> Output:
    """InputError as of ``layer_graph`` and ``cut``."""
    from inferbench_tasks.bricks.cuts import cut_of
    from inferbench_tasks.bricks.inputs import inputs_of

    source, model = opened(inp, ctx)
    feeds = inputs_of(source, model.inputs, 1, dict(inp.shapes))
    return Output(
        cut=cut_of(Path(model.path), feeds, inp.view, inp.granularity),
        digest=model.digest,
        shapes={name: array.shape for name, array in feeds.items()},
    )
