"""Stage ``balance``: on the first replica's host, what hands requests to all of them, once those of other hosts stand.

What follows asks it as it would ask one server, so it hands on what ``serve`` did, with all replicas in it.
"""

from __future__ import annotations

import time

from inferbench_tasks import settings
from inferbench_tasks.backends import first_answer
from inferbench_tasks.backends.probes.base import open_probe
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.replicas import Replica
from inferbench_tasks.contracts.stage_name import numbered
from inferbench_tasks.cores import granted
from inferbench_tasks.errors import CancelledError, LeaseLostError, ServerError
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.stages import serve
from inferbench_tasks.stages.balanced import balanced
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.exact import exact_answers
from inferbench_tasks.stages.lease_elsewhere import lease_awaited
from inferbench_tasks.stages.spread.handles import FarReplica

STAGE = Stage(
    needs=("generate", "convert", "serve", "replica"),
    leased=True,
    block="spread_replicas",
    unread=("generate.model",),
)
#: How long a replica of another host may take to answer from here: it did there. Longer than the lease of a host that
#: is gone lasts (15 s): then the job is run again, which a failure that explained itself would keep it from.
REACHED_S, _POLL_S = 20.0, 0.2


class Input(serve.Input):
    """The first server, and those of other hosts."""

    serve: serve.Output
    replica: FarReplica
    replica_2: FarReplica | None = None
    replica_3: FarReplica | None = None
    replica_4: FarReplica | None = None
    replica_5: FarReplica | None = None
    replica_6: FarReplica | None = None
    replica_7: FarReplica | None = None

    @property
    def far(self) -> tuple[FarReplica, ...]:
        """Those of other hosts, in their order."""
        names = (numbered("replica", number) for number in range(1, 1 + self.job.far_replicas))
        return tuple(one for name in names if (one := getattr(self, name)) is not None)


class Output(Handle):
    """``serve``: what ``serve`` told, for what asks all replicas as one server."""

    serve: serve.Output


def run(inp: Input, ctx: Context) -> Output:
    """Ask each replica from here, start the balancer, and ask through it; ``release`` ends what was started."""
    spec, far, first = inp.job.serve, inp.far, inp.serve
    if not inp.devices or len(far) != spec.devices - 1:
        raise LeaseLostError(
            f"{1 + len(far)} replicas stand on leased devices, the job is of {spec.devices}. Submit it again."
        )
    _require_alike(first, far)
    device = inp.devices[0]
    own = device.cores or tuple(granted())
    replicas = (
        Replica(
            number=1,
            of=spec.devices,
            device_id=device.device_id,
            cores=own,
            server=first.server,
            endpoint=first.endpoint,
            host=device.host,
        ),
        *(one.replica for one in far),
    )
    for one in far:
        ctx.progress(0, 2, f"asking {one.name} from here")
        _require_reached(one, device.host, ctx)
    ctx.progress(1, 2, "starting nginx before all replicas")
    endpoint, balancer = balanced(
        inp.run_id,
        spec.balancer,
        ctx.run_dir(inp.run_id) / "server" / "balancer",
        replicas,
        shared=own,
        spare=inp.spare_cores,
        launcher=LAUNCHERS.load(spec.launcher, "serve.launcher")(),
        servers_dir=settings.servers_dir(ctx.data_dir),
        ctx=ctx,
    )
    merged = first.model_copy(update={"endpoint": endpoint, "replicas": replicas, "balancer": balancer})
    told = {"replicas": len(replicas), "spread": spec.spread, "balancer": balancer.settings}
    with lease_awaited([one.replica.device_id for one in far], ctx):
        differences = [first.difference_ratio, *(one.difference_ratio for one in far), _through(inp, merged)]
    ctx.progress(2, 2, f"{endpoint.url} is ready")
    return Output(
        serve=merged.model_copy(
            update={
                "backend": first.backend.model_copy(update={"settings": first.backend.settings | told}),
                "cold_start": max(
                    (first.cold_start, *(one.cold_start for one in far)), key=lambda start: start.total_ms
                ),
                "difference_ratio": max(differences),
                "far_replicas": far,
            }
        )
    )


def _require_alike(first: serve.Output, far: tuple[FarReplica, ...]) -> None:
    """ServerError where one host has another version of the server: together they would be no system that exists."""
    if unlike := [
        f"{one.version} on {one.replica.host}" for one in far if one.version != first.backend.version
    ]:
        raise ServerError(
            f"The replicas are not alike: {first.backend.kind} {first.backend.version} here, "
            f"{', '.join(unlike)}. Install the same version on all hosts"
        )


def _require_reached(far: FarReplica, host: str, ctx: Context) -> None:
    """ServerError where it does not answer this host, though it answered its own."""
    endpoint = far.replica.endpoint
    deadline_s = time.monotonic() + REACHED_S
    probe = open_probe(endpoint, timeout_s=5.0)
    try:
        while not probe.ready():
            if ctx.cancelled():
                raise CancelledError("The run was cancelled while its replicas were asked.")
            if time.monotonic() > deadline_s:
                raise ServerError(
                    f"{far.name} does not answer {host} at {endpoint.url} within {REACHED_S:g} s: does a firewall "
                    "keep that host from its ports, or is INFERBENCH_LOAD_ADDRESS there another network's?"
                )
            time.sleep(_POLL_S)
    finally:
        probe.close()


def _through(inp: Input, merged: serve.Output) -> float:
    """Ask through the balancer, as the load will; how far the answers are from the source model's."""
    requests, rows = inp.generate.requests, inp.job.traffic.samples_per_request
    samples, reference = first_answer.load_sent(requests)
    interface = requests.as_served(inp.convert.model)
    sizes = {interface.batch_size or 1, *([rows] if interface.batch_size is None else [])}
    probe = open_probe(merged.endpoint)
    try:
        return max(
            first_answer.ask_and_check(
                probe,
                samples,
                reference,
                interface,
                size,
                inp.convert.tolerance_ratio,
                exact=exact_answers(inp.job, inp.generate.model, inp.convert.model),
            )
            for size in sorted(sizes)
        )
    finally:
        probe.close()
