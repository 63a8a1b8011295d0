"""Stage ``release``: end the server with everything it started. Runs whatever happened before."""

from __future__ import annotations

from inferbench_tasks.launchers import records
from inferbench_tasks.stages.base import Context, StageInput
from inferbench_tasks.stages.handles import Handle
from inferbench_tasks.stages.serve import Output as Served


class Input(StageInput):
    """None if ``serve`` left nothing to end."""

    serve: Served | None = None


class Output(Handle):
    """Whether a live server was found and ended."""

    stopped: bool


def run(inp: Input, ctx: Context) -> Output:
    """End every server of the run with all its processes; harmless when they are gone already."""
    return Output(stopped=records.end_run(ctx.data_dir / "servers", inp.run_id))
