"""What a model file is, worked out as a run would: checked, adapted, run once, counted. No stage of a pipeline.

It has a stage's form, so that it is done in the same child and sandbox: the file is a stranger's.
"""

from __future__ import annotations

from inferbench_tasks.contracts.handles import Handle, ModelArtifact
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.stages.base import Context, Stage, StageInput

STAGE = Stage(in_child=True)


class Input(StageInput):
    """A job with the file as its model."""


class Output(Handle):
    """The model, and how often each operator stands in the file itself; empty for formats that are not read here."""

    model: ModelArtifact
    operators: dict[str, int]


def without_child(inp: Input, ctx: Context) -> Output | None:
    """Never: reading the file's operators is the child's as well."""
    return None


def run(inp: Input, ctx: Context) -> Output:
    """Raises InputError where the file can't be served, with what is in the way."""
    from inferbench_tasks.modelrepo.file_operators import operators

    source = resolve(inp.job.model, ctx.base_dir)
    model = build_model(source, ctx.data_dir, Watch(ctx.progress, ctx.cancelled))
    signature = getattr(inp.job.model, "signature", None)
    file = ctx.base_dir / getattr(inp.job.model, "path", "")
    return Output(model=model, operators=operators(model.format, file, signature))
