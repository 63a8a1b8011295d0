"""How long a job of serving takes on its devices: the first guess, until runs of it have been seen."""

from __future__ import annotations

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.part import Part
from inferbench_tasks.submission.schema import READY_TIMEOUT_S, JobSpec, ServeSpec

#: What starting a server, four tasks and the collection take beside the load, seconds.
AROUND_LOAD_S = 10.0
#: How many samples an evaluation has that names no number, and what one takes that is asked alone.
USUAL_SAMPLES, ALONE_S = 1_000, 0.005
#: What a server's start takes with two short loads, seconds; what a further task takes to begin and to end.
SERVER_S, TASK_S = 3.0, 2.0
#: What it takes to ask another host how its clock lies, before a load and behind it, seconds.
CLOCKS_S = 3.0


def expected_s(spec: JobSpec) -> float:
    """The load, and what is around it; a search for a rate has several, an evaluation asks each sample twice, and once
    more for each change of ``vary``. What is fetched by its size is not in it (``provider.executors.fetched``).
    """
    return AROUND_LOAD_S + _replicas_s(spec) + load_s(spec) + _evaluation_s(spec) + _trace_s(spec)


def _replicas_s(spec: JobSpec) -> float:
    """The servers beside the first, which start one after the other. On hosts of their own each is a task, and one more
    starts what stands before them; the network to each host is measured before the load and after it, each in turn.
    """
    further = spec.serve.devices - 1
    if not spec.serve.apart:
        return further * SERVER_S
    from inferbench_tasks.networks.links.measure import MOST_S

    return TASK_S + further * (TASK_S + SERVER_S + 2 * MOST_S)


def starts_s(spec: JobSpec) -> float:
    """What may go by until all that it starts has started, or has given up by itself: its servers one after the other,
    those of neighbours and traces among them, and nginx before several. On hosts of their own also what watches beside
    each further one, and the way there.
    """
    further = spec.serve.devices - 1
    seconds = (1 + further + _traced_servers(spec)) * _ready_s(spec.serve)
    for one in spec.share.beside if spec.share else ():
        seconds += _ready_s(ServeSpec.model_validate(one.serve) if one.serve else spec.serve)
    if further:
        from inferbench_tasks.backends import nginx_balancer

        seconds += nginx_balancer.READY_S
    if spec.serve.apart:
        from inferbench_tasks.stages.senders import listener
        from inferbench_tasks.stages.spread import balance

        seconds += further * (listener.START_S + balance.REACHED_S)
    return seconds


def _ready_s(serve: ServeSpec) -> float:
    """How long one server may take until its model answers."""
    from inferbench_tasks.backends.base import BACKENDS

    if serve.ready_timeout_s:
        return serve.ready_timeout_s
    try:
        return BACKENDS.told(serve.backend, lambda backend: float(backend.ready_timeout_s))
    except InputError:
        # Of a package that only workers have, or that is none: no reason to keep the job from them.
        return READY_TIMEOUT_S


def load_s(spec: JobSpec) -> float:
    """With its warm-up, and all of a search's probes."""
    if (load := spec.load) is None:
        return 0.0
    one_s = load.warmup_s + load.duration_s
    return load.arrivals.expected_s(one_s) if isinstance(load.arrivals, MaxRate) else one_s


def _evaluation_s(spec: JobSpec) -> float:
    if spec.evaluate is None:
        return 0.0
    samples = (spec.evaluate.samples or USUAL_SAMPLES) / (
        Part.read(spec.evaluate.part).of if spec.evaluate.part else 1
    )
    rate_rps = spec.traffic.arrivals.mean_rate_rps(spec.traffic.duration_s) or 1 / ALONE_S
    times = 1 + (len(spec.evaluate.vary.changes) if spec.evaluate.vary else 0)
    return times * samples / spec.traffic.samples_per_request / rate_rps + samples * ALONE_S


def _traced_servers(spec: JobSpec) -> int:
    """One of each round and level, the usual ones where none is named; of a share of the load two of each round."""
    from inferbench_tasks.tracing.spans import LEVELS, USUAL_DEEPEST

    if spec.trace is None:
        return 0
    if spec.trace.one_in is not None:
        return spec.trace.rounds * 2
    return spec.trace.rounds * (LEVELS.index(spec.trace.deepest or USUAL_DEEPEST) + 1)


def _trace_s(spec: JobSpec) -> float:
    """Of a share of the load each server has all of it; another host that sends it is asked for the time around it."""
    if spec.trace is None:
        return 0.0
    samples = spec.trace.requests * spec.trace.samples_per_request(spec.traffic.samples_per_request)
    asked_s = load_s(spec) if spec.trace.one_in is not None else 2 * samples * ALONE_S
    clocks_s = CLOCKS_S if spec.traffic.away else 0.0
    return _traced_servers(spec) * (SERVER_S + asked_s + clocks_s)
