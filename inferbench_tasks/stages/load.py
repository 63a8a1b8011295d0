"""Stage ``load``: the traffic, and the raw record of every request."""

from __future__ import annotations

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.networks.base import emulated
from inferbench_tasks.stages import max_rate, one_load
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.lease_elsewhere import lease_awaited
from inferbench_tasks.stages.load_order import Input as Input
from inferbench_tasks.stages.one_load import Output as Output
from inferbench_tasks.stages.senders import away_load
from inferbench_tasks.stages.senders.handles import TraceSender
from inferbench_tasks.stages.served_accuracy import accuracy_through_server
from inferbench_tasks.stages.shared_memory import inputs_in_memory

STAGE = Stage(
    needs=("generate", "serve", "balance", "standby"), leased=True, block="load", unread=("generate.model",)
)


def run(inp: Input, ctx: Context) -> Output:
    """Apply the load with the monitors running; every record made is kept, whatever happens."""
    if inp.balance is not None:
        inp = inp.model_copy(update={"serve": inp.balance.serve})
    folder = ctx.run_dir(inp.run_id)
    load = inp.job.traffic
    with (
        emulated(load.network, inp.serve.endpoint, folder, load.seed) as endpoint,
        inputs_in_memory(inp, endpoint),
    ):
        if load.away:
            with lease_awaited([one.device_id for one in inp.standing_by], ctx):
                output = away_load.apply(inp, ctx, folder, endpoint)
        elif isinstance(load.arrivals, MaxRate):
            output = max_rate.search(inp, ctx, folder, endpoint, load.arrivals)
        else:
            output = one_load.apply(inp, ctx, folder, endpoint)
    task = inp.generate.model.task
    with lease_awaited([far.replica.device_id for far in inp.serve.far_replicas], ctx):
        accuracy = accuracy_through_server(inp.serve.endpoint, inp.generate.requests, task, ctx)
    return output.model_copy(
        update={
            "accuracy_ratio": accuracy.ratio if accuracy else None,
            "accuracy": accuracy,
            "trace_sender": _trace_sender(inp, ctx),
        }
    )


def _trace_sender(inp: Input, ctx: Context) -> TraceSender | None:
    """What sends the load from this host again for a trace of its requests, where that has to be."""
    if not inp.job.traffic.away or inp.job.trace is None:
        return None
    from inferbench_tasks.stages.senders import trace_sender

    return trace_sender.waiting(inp, ctx)
