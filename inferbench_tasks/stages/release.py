"""Stage ``release``: end the server with everything it started. Runs whatever happened before."""

from __future__ import annotations

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.launchers import records
from inferbench_tasks.sharing.base import end
from inferbench_tasks.stages.base import Context, Stage, StageInput
from inferbench_tasks.stages.serve import Output as Served

STAGE = Stage(needs=("serve",), leased=True, retries=2)


class Input(StageInput):
    """None if ``serve`` left nothing to end."""

    serve: Served | None = None


class Output(Handle):
    """Whether a live server was found and ended."""

    stopped: bool


def run(inp: Input, ctx: Context) -> Output:
    """End every server of the run with all its processes; harmless when they are gone already."""
    from inferbench_tasks.stages.neighbours import end_all

    servers = settings.servers_dir(ctx.data_dir)
    neighbour = end_all(inp.job, servers, inp.run_id)
    stopped = records.end_run(servers, inp.run_id)
    end(inp.job, ctx.run_dir(inp.run_id))
    return Output(stopped=stopped or neighbour)
