"""Stage ``serve``: a live server with known settings, whose first answer was checked."""

from __future__ import annotations

import logging
import secrets
import socket
import time
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.backends import first_answer, nginx_balancer, startup
from inferbench_tasks.backends.base import BACKENDS, Backend, Deployment
from inferbench_tasks.backends.environments import ENVIRONMENTS
from inferbench_tasks.backends.probes.base import Probe, Refused
from inferbench_tasks.contracts.handles import (
    BackendInfo,
    ColdStart,
    Endpoint,
    Handle,
    ServerHandle,
)
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.replicas import Balancer, Replica
from inferbench_tasks.contracts.stage_name import numbered
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import LAUNCHERS, LOOPBACK
from inferbench_tasks.loadgen.shared_inputs import check_shareable
from inferbench_tasks.manifests.runtime import named_runtime, runtime_in_image
from inferbench_tasks.networks.reached_address import reached_address
from inferbench_tasks.sharing.base import placed
from inferbench_tasks.stages import convert, generate, prompted
from inferbench_tasks.stages.base import Context, Stage, StageInput
from inferbench_tasks.stages.exact import exact_answers
from inferbench_tasks.stages.fixed_batch import check_batch
from inferbench_tasks.stages.known_answer import check_known_answer
from inferbench_tasks.stages.replicated import replicated
from inferbench_tasks.stages.senders import far_watch
from inferbench_tasks.stages.spread.handles import FarReplica
from inferbench_tasks.stages.traced_here import check_level
from inferbench_tasks.submission.schema import SHARED_MEMORY, JobSpec
from inferbench_tasks.submission.serving import backend_findings

log = logging.getLogger(__name__)

STAGE = Stage(needs=("generate", "convert"), leased=True, unread=("generate.model",))
#: At most so many requests per second are traced by servers that can.
LIGHT_RPS = 50.0


class Input(StageInput):
    """The requests and the model to serve. ``devices``: those of this host that the job holds; ``spare_cores``: where
    it holds several, the cores of this host that are no device's.
    """

    generate: generate.Output
    convert: convert.Output
    devices: tuple[HeldDevice, ...] = ()
    spare_cores: tuple[int, ...] = ()


class Output(Handle):
    """The server outlives this stage; ``release`` ends it.

    ``difference_ratio`` = max|served - source| / max|source| over the first answers. ``tells_spans``: each answer
    carries the server's own times, see ``Backend.tells_spans``.
    """

    endpoint: Endpoint
    server: ServerHandle
    backend: BackendInfo
    cold_start: ColdStart
    difference_ratio: float
    tells_spans: bool = False
    #: The key of the region of shared memory that it reads inputs from; None where it reads none.
    shared_memory: str | None = None
    #: What watches here while the load comes from another host; None where it does not.
    far: far_watch.FarWatch | None = None
    #: Where several answer together: all of them, ``server`` among them, and what stands before them at ``endpoint``.
    replicas: tuple[Replica, ...] = ()
    balancer: Balancer | None = None
    #: What tells each client host beside the first of its own link, where several share the load.
    far_further: tuple[far_watch.FarWatch, ...] = ()
    #: Of ``replicas`` those that stand on hosts of their own; the first one never does.
    far_replicas: tuple[FarReplica, ...] = ()

    @property
    def replicas_here(self) -> tuple[Replica, ...]:
        """Those on this host, where the balancer and the load are."""
        far = {one.replica.number for one in self.far_replicas}
        return tuple(replica for replica in self.replicas if replica.number not in far)


def run(inp: Input, ctx: Context) -> Output:
    """Start the backend, wait for its model, check the first answer; on failure leave nothing running."""
    spec = inp.job.serve
    backend = BACKENDS.load(spec.backend, "serve.backend")()
    check_possible(inp.job, backend, inp.convert.model.format)
    check_batch(inp.job, type(backend), inp.convert.model)
    check_level(inp.job, backend, inp.convert.model)
    launcher = LAUNCHERS.load(spec.launcher, "serve.launcher")()
    if reason := launcher.unavailable():
        raise InputError(f"{spec.launcher} can't be used here: {reason}", field="serve.launcher")
    requests = inp.generate.requests
    exact = exact_answers(inp.job, inp.generate.model, inp.convert.model)
    shared = inp.job.traffic.transport == SHARED_MEMORY
    if not backend.streams:
        samples, reference = first_answer.load_sent(requests)
        interface = requests.as_served(inp.convert.model)
        first_answer.check_requests(samples, interface)
        if shared:
            check_shareable(samples)
    guarded = inp.job.traffic.away or spec.apart
    deployment = deployment_of(
        inp,
        ctx,
        listens=reached_address() if inp.job.traffic.away else "",
        secret=secrets.token_urlsafe(32) if guarded else "",
    )
    folder = ctx.run_dir(inp.run_id)  # of what is asked first: not the server's own, where it may write
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed

    def asked_first(probe: Probe) -> None:
        """Of each of several, by itself."""
        first_answer.ask_and_check(
            probe,
            samples,
            reference,
            interface,
            interface.batch_size or 1,
            inp.convert.tolerance_ratio,
            exact=exact,
        )

    ctx.progress(0, 3, f"starting {spec.backend}")
    try:
        with placed(inp.job, ctx.run_dir(inp.run_id.partition(".beside")[0])):
            group = (
                replicated(
                    inp.devices, inp.spare_cores, backend, deployment, launcher, servers_dir, ctx, asked_first
                )
                if spec.devices > 1 and not spec.apart
                else None
            )
            started = (
                group.front
                if group
                else startup.start(backend, deployment, launcher, servers_dir, ctx.cancelled)
            )
        backend = group.front.backend if group else backend
        ctx.progress(1, 3, "checking the first answer")
        try:
            asked_s = time.monotonic()
            tolerance = inp.convert.tolerance_ratio
            rows = inp.job.traffic.samples_per_request
            if backend.streams:
                difference = _first_stream(inp, started.endpoint, folder, ctx.base_dir)
            else:
                difference = first_answer.ask_and_check(
                    started.probe,
                    samples,
                    reference,
                    interface,
                    interface.batch_size or 1,
                    tolerance,
                    exact=exact,
                )
            answered_s = time.monotonic()
            if backend.streams and not spec.dummy_weights:
                _known_words(inp, started.endpoint, folder, ctx.base_dir)
            if rows > 1 and interface.batch_size is None:
                ctx.progress(2, 3, f"checking an answer of batch size {rows}")
                again = first_answer.ask_and_check(
                    started.probe, samples, reference, interface, rows, tolerance, exact=exact
                )
                difference = max(difference, again)
        except ServerError as error:
            raise ServerError(
                f"{error}\nThe end of the server's log:\n{launcher.log_end(started.server)}"
            ) from error
        finally:
            started.probe.close()
        far = _watch(inp, ctx, deployment, started, servers_dir) if inp.job.traffic.away else None
        further = tuple(
            _watch(inp, ctx, deployment, started, servers_dir, number)
            for number in range(1, 1 + inp.job.further_hosts)
        )
    except BaseException:
        records.end_run(servers_dir, inp.run_id)
        raise
    ctx.progress(3, 3, f"{started.endpoint.url} is ready")
    return Output(
        endpoint=started.endpoint,
        server=started.server,
        backend=BackendInfo(
            kind=spec.backend,
            version=backend.version(),
            launcher=spec.launcher,
            label=backend.label(),
            settings=started.prepared.settings | _place(started.server) | (group.settings if group else {}),
            drawn=started.prepared.drawn,
        ),
        cold_start=group.cold_start
        if group
        else ColdStart(
            process_ms=started.process_ms,
            model_load_ms=started.model_load_ms,
            first_answer_ms=(answered_s - asked_s) * 1e3,
            total_ms=started.process_ms + started.model_load_ms + (answered_s - asked_s) * 1e3,
        ),
        difference_ratio=difference,
        tells_spans=backend.tells_spans,
        shared_memory=started.prepared.shared_memory,
        far=far,
        far_further=further,
        replicas=group.replicas if group else (),
        balancer=group.balancer if group else None,
    )


def deployment_of(inp: Input, ctx: Context, *, listens: str, secret: str) -> Deployment:
    """What is to be served on this host, and how; its folder is made. ``listens``, ``secret``: as in ``Deployment``."""
    folder = ctx.run_dir(inp.run_id) / "server"
    folder.mkdir(exist_ok=True)
    requests = inp.generate.requests
    return Deployment(
        run_id=inp.run_id,
        model=inp.convert.model,
        spec=inp.job.serve,
        folder=folder,
        cache_dir=ctx.cache_dir(ENVIRONMENTS),
        protocol=inp.job.traffic.protocol,
        client_batch_size=inp.job.traffic.samples_per_request,
        # The moments that a server writes down are of its own clock, which is not that of a load from another host.
        trace=is_light(inp.job) and not inp.job.traffic.away,
        processing=requests.in_server,
        shared_memory=inp.job.traffic.transport == SHARED_MEMORY,
        listens=listens,
        secret=secret,
        runtime=named_runtime(inp.job.serve) or runtime_in_image(inp.job),
        precision=inp.job.convert.precision,
    )


def _watch(
    inp: Input,
    ctx: Context,
    deployment: Deployment,
    started: startup.Started,
    servers_dir: Path,
    number: int = 0,
) -> far_watch.FarWatch:
    """Begin to listen for the load's host; ``number``: for that one of those that share it, from 1."""
    metrics_port = started.prepared.drawn.get("metrics_port")
    folder = ctx.run_dir(inp.run_id)  # not the server's own, where it may write
    order = far_watch.Order(
        address=deployment.listens,
        host=socket.gethostname(),
        home=settings.home_id(ctx.data_dir),
        server=started.server,
        device=inp.job.serve.device,
        metrics_url=f"http://{LOOPBACK}:{metrics_port}/metrics" if metrics_port else None,
        recording_path=str(folder / far_watch.FAR_FILE),
        told_path=str(folder / f"{numbered('far-link', number) if number else 'far-watch'}.invitation"),
        # Of several client hosts one waits after the other.
        patience_s=inp.job.traffic.client_hosts * inp.job.traffic.wait_for_quiet_s + far_watch.PATIENCE_S,
        watches=not number,
    )
    return far_watch.start(inp.run_id, folder, servers_dir, order)


def _first_stream(inp: Input, endpoint: Endpoint, folder: Path, base_dir: Path) -> float:
    """Ask a language model for a few tokens; 0.0, for nothing is compared. ServerError where it gives none."""
    try:
        vocabulary = inp.generate.requests.vocabulary_path
        prompted.first_answer(inp.job, endpoint, folder / "first-answer", base_dir, vocabulary)
    except Refused as error:
        raise ServerError(f"The server's first answer is none: {error}") from error
    except OSError as error:
        raise ServerError(f"The server did not answer a first request: {error}") from error
    return 0.0


def _known_words(inp: Input, endpoint: Endpoint, folder: Path, base_dir: Path) -> None:
    """Of a model whose words are known: ServerError where it says others, or none."""
    try:
        digest = inp.generate.model.digest  # whatever it was converted to, it says the same
        check_known_answer(digest, inp.job.traffic, endpoint, folder / "known-answer", base_dir)
    except (Refused, OSError) as error:
        raise ServerError(f"The server did not say what is known of its model: {error}") from error


def _place(server: ServerHandle) -> dict[str, str]:
    """Of a container what its figures depend on: which image it really was, and the network in the measured path."""
    if server.image_id is None:
        return {}
    return {"image_id": server.image_id, "container_network": "host" if server.address == LOOPBACK else "own"}


def is_light(job: JobSpec) -> bool:
    """Whether the load is a steady trickle, so that a server that traces some requests is not slowed by it."""
    arrivals = job.traffic.arrivals
    if job.load is None or not (arrivals.stationary and arrivals.paced):
        return False
    rate_rps = arrivals.mean_rate_rps(job.traffic.duration_s)
    return rate_rps is not None and rate_rps <= LIGHT_RPS


def check_possible(job: JobSpec, backend: Backend, model_format: str) -> None:
    """InputError where the backend can't do what the submission asks of it; nothing is started."""
    for finding in backend_findings(job, type(backend), model_format):
        raise finding.as_error()
    spec = job.serve
    if spec.devices > 1 and (reason := nginx_balancer.unavailable(job.traffic.protocol)):
        raise InputError(reason, field="serve.devices")
    if reason := backend.unavailable(spec.launcher, spec.device):
        raise InputError(
            f"{spec.backend} can't run here ({spec.launcher}, {spec.device}): {reason}", field="serve.backend"
        )
