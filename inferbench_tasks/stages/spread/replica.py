"""Stage ``replica``: on a host of its own, a further server with the settings of the first one.

A job has one for each such host (``replica``, ``replica_2``, ...). The server binds that host's address and answers
whoever has the run's secret; it has to answer right by itself before anything stands before it.
"""

from __future__ import annotations

from inferbench_tasks import settings
from inferbench_tasks.backends import first_answer
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.backends.probes.base import Probe
from inferbench_tasks.cores import granted
from inferbench_tasks.errors import InputError, LeaseLostError
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.networks.reached_address import reached_address
from inferbench_tasks.stages import serve
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.exact import exact_answers
from inferbench_tasks.stages.one_load import quiet_machine
from inferbench_tasks.stages.replicated import start_one
from inferbench_tasks.stages.senders import far_watch
from inferbench_tasks.stages.spread import beside
from inferbench_tasks.stages.spread.handles import FarReplica as Output

STAGE = Stage(
    needs=("generate", "convert", "serve"),
    leased=True,
    block="spread_replicas",
    times="far_replicas",
    unread=("generate.model",),
)
_FIELD = "serve.spread"


class Input(serve.Input):
    """``serve``: the first server, whose secret this one takes too. ``number``: of the hosts beside the first, from 1;
    ``devices``: those of this host that the job holds.
    """

    serve: serve.Output
    number: int = 1


def run(inp: Input, ctx: Context) -> Output:
    """Start it, ask it by itself, and begin to wait for the load's host; on failure leave nothing running."""
    from inferbench_tasks.monitors import environment

    spec, number, of = inp.job.serve, inp.number + 1, inp.job.serve.devices
    if not inp.devices:
        raise LeaseLostError(
            "Replicas on hosts of their own need devices that are leased. Submit the job again."
        )
    device = inp.devices[0].model_copy(update={"cores": inp.devices[0].cores or tuple(granted())})
    backend = BACKENDS.load(spec.backend, "serve.backend")()
    launcher = LAUNCHERS.load(spec.launcher, "serve.launcher")()
    if reason := backend.unavailable(spec.launcher, spec.device):
        raise InputError(f"{spec.backend} can't run on {device.host}: {reason}", field="serve.backend")
    # Looked at once: the load's host waits for quiet, and what disturbs this one then is told.
    patience = quiet_machine(0.0, ctx)
    requests = inp.generate.requests
    samples, reference = first_answer.load_sent(requests)
    interface = requests.as_served(inp.convert.model)
    first_answer.check_requests(samples, interface)
    address = reached_address("A replica that is asked from another host", _FIELD)
    deployment = serve.deployment_of(inp, ctx, listens=address, secret=inp.serve.endpoint.secret)
    folder = ctx.run_dir(inp.run_id)  # not the server's own, where it may write
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed
    differences: list[float] = []

    def check(probe: Probe) -> None:
        differences.append(
            first_answer.ask_and_check(
                probe,
                samples,
                reference,
                interface,
                interface.batch_size or 1,
                inp.convert.tolerance_ratio,
                exact=exact_answers(inp.job, inp.generate.model, inp.convert.model),
            )
        )

    ctx.progress(0, 1, f"starting {spec.backend} {number} of {of} on {device.device_id}")
    try:
        one = start_one(backend, deployment, device, number, of, launcher, servers_dir, ctx, check)
        order = far_watch.Order(
            address=address,
            host=device.host,
            home=settings.home_id(ctx.data_dir),
            server=one.replica.server,
            device=spec.device,
            recording_path=str(folder / far_watch.FAR_FILE),
            told_path=str(folder / "replica-watch.invitation"),
            patience_s=patience_s(number, of, inp.job.traffic.wait_for_quiet_s),
        )
        watch = beside.start(inp.run_id, folder, servers_dir, order)
    except BaseException:
        records.end_run(servers_dir, inp.run_id)
        raise
    ctx.progress(1, 1, f"{one.replica.endpoint.url} is ready")
    return Output(
        replica=one.replica.model_copy(update={"host": device.host}),
        watch=watch,
        cold_start=one.cold_start,
        difference_ratio=differences[0],
        version=one.started.backend.version(),
        hardware=environment.hardware(),
        system=environment.system(),
        quiet=patience.as_dict() if patience else None,
        not_quiet=""
        if patience is None or patience.last.quiet
        else f"the machine was not quiet when its replica was to start: {patience.last.text}",
    )


def patience_s(number: int, of: int, quiet_s: float) -> float:
    """How long what watches beside a replica waits for the load: those after it start one after the other before that.

    ``quiet_s``: what the load may wait for a quiet machine.
    """
    return far_watch.PATIENCE_S * (1 + of - number) + quiet_s
