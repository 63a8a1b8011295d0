"""From what the user asked for to the senders' orders: the schedule is drawn, nothing is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.clients.base import client_factory
from inferbench_tasks.clients.openai_form import StreamTarget
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.loadgen.evidence import ClosedPlan, OpenPlan
from inferbench_tasks.loadgen.mlperf_schedule import promise
from inferbench_tasks.loadgen.plan import (
    BatchShare,
    ClientProcessing,
    LoadPlan,
    MlperfSettings,
    OutputShape,
    Segment,
)
from inferbench_tasks.loadgen.shared_inputs import SharedInputs
from inferbench_tasks.loadgen.stability import OVERLOAD
from inferbench_tasks.submission.check import engine_findings
from inferbench_tasks.submission.schema import SHARED_MEMORY, LoadSpec
from inferbench_tasks.timing.realtime import realtime_problem

#: ``shards: auto``: one sender up to such a rate or concurrency; a second one then costs more than it brings.
_RATE_PER_SHARD_RPS = 8_000.0
_USERS_PER_SHARD = 512
_NS = 1_000_000_000
#: Connections of HTTP/1.1 that an open loop may hold, and with how many it begins.
_HTTP = ("http", "openai")
_HTTP_LIMIT = 1024
_HTTP_FIRST = 16
#: A gRPC connection carries many requests at once; a few spread them over the server's threads.
_GRPC_CONNECTIONS = 4
#: Requests of an offline load that are under way at once: more than any batch, far fewer than servers let wait.
_OFFLINE_IN_FLIGHT = 128
#: More than any load begins.
_SESSIONS_PER_SHARD = 1 << 32


def prepare(
    spec: LoadSpec,
    *,
    folder: Path,
    endpoint: Endpoint,
    inputs_path: str,
    base_dir: Path,
    expected: Mapping[str, OutputShape] | None = None,
    batches: tuple[BatchShare, ...] | None = None,
    batched: bool = True,
    binary: bool = True,
    server_spans: bool = False,
    max_backlog: int | None = None,
    target_latency_ms: float | None = None,
    processing: ClientProcessing | None = None,
    stream: StreamTarget | None = None,
    ttft_ms: float | None = None,
    conversing: bool = False,
    in_order: bool = False,
    cacheable_tokens: int | None = None,
    vocabulary: str | None = None,
    shared: SharedInputs | None = None,
) -> LoadPlan:
    """The plan of a load; its schedule is written to ``folder``. InputError where it can't be.

    MissingExtraError where the client's library is missing, and can't be installed here.

    ``target_latency_ms``: what MLPerf LoadGen asks of 99% of the queries of its server scenario.
    ``processing``: what the client does to every request and its answer while the load runs. ``stream``, ``ttft_ms``:
    how streams of tokens are asked for, and the bound on the time to the first token, if there is one. ``conversing``:
    the inputs are turns of conversations, and arrivals are of sessions. ``in_order``: the inputs leave in their order.
    ``cacheable_tokens``, ``vocabulary``, ``shared``: see ``LoadPlan``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if spec.realtime and (problem := realtime_problem()):
        raise InputError(f"{problem}", field="load.realtime")
    client_factory(endpoint.protocol, spec.client)
    if shared is None and spec.transport == SHARED_MEMORY:
        raise InputError(
            "these requests are sent over the network only; use transport: network", field="load.transport"
        )
    arrivals = spec.arrivals.bind(base_dir)
    try:
        arrivals.check(spec.duration_s)
    except ValueError as error:
        raise InputError(f"{error}", field="load.arrivals") from error
    if conversing and arrivals.warmup().loop != arrivals.loop:
        message = (
            f"{arrivals.kind} arrivals warm up with another loop than they measure, which sessions can't"
        )
        raise InputError(message, field="load.arrivals")
    warmup_ns, duration_ns = round(spec.warmup_s * _NS), round(spec.duration_s * _NS)
    segments = _segments(spec, arrivals, folder, warmup_ns, duration_ns)
    users = segments[-1].concurrency
    shards = _shards(spec, arrivals, users)
    connections, first = _connections(spec, endpoint.protocol, users, shards)
    # An open load knows its end; a closed one with a quota finds it.
    measure_end_ns = segments[-1].end_ns
    return LoadPlan(
        folder=str(folder),
        endpoint=endpoint,
        client=spec.client,
        inputs_path=inputs_path,
        batches=batches or (BatchShare(batch_size=spec.samples_per_request),),
        batched=batched,
        binary=binary,
        expected=dict(expected or {}),
        segments=segments,
        measure_start_ns=warmup_ns,
        measure_end_ns=measure_end_ns,
        timeout_ns=round(spec.timeout_ms * 1e6),
        shards=shards,
        connections=connections,
        initial_connections=first,
        connections_asked=spec.connections is not None and not users and endpoint.protocol in _HTTP,
        max_error_ratio=spec.max_error_ratio,
        max_backlog=max_backlog,
        max_in_flight=None if arrivals.paced else _OFFLINE_IN_FLIGHT,
        server_spans=server_spans,
        processing=processing,
        realtime=spec.realtime,
        seed=spec.seed,
        unsteady=None if arrivals.stationary else f"{arrivals.kind} arrivals change with time by themselves",
        expect_overload=spec.expect == OVERLOAD,
        mlperf=_mlperf(spec, arrivals, target_latency_ms),
        stream=stream,
        ttft_ms=ttft_ms,
        turn_step=shards * _SESSIONS_PER_SHARD if conversing else 0,
        in_order=in_order,
        cacheable_tokens=cacheable_tokens,
        vocabulary=vocabulary,
        shared=shared,
    )


def _mlperf(
    spec: LoadSpec, arrivals: ArrivalProcess, target_latency_ms: float | None
) -> MlperfSettings | None:
    for finding in engine_findings(spec, target_latency_ms):
        raise finding.as_error()
    if spec.engine != "mlperf_loadgen":
        return None
    require("mlperf")
    values = {
        "scenario": arrivals.kind,
        "rate_rps": getattr(arrivals, "rate_rps", None),
        "requests": getattr(arrivals, "requests", None),
        "target_latency_ms": target_latency_ms,
        "max_queries": spec.max_requests,
    }
    return MlperfSettings.model_validate({name: value for name, value in values.items() if value is not None})


def promised(
    plan: LoadPlan,
    start_ns: int,
    measure_start_ns: int,
    measure_end_ns: int,
    schedule_ns: NDArray[np.int64] | None = None,
) -> OpenPlan | ClosedPlan:
    """What the certificate holds the load to, for the window as it was in the end.

    ``schedule_ns``: when MLPerf LoadGen was to issue its queries, where it made the load.
    """
    segment = plan.segments[-1]
    if plan.mlperf is not None:
        assert schedule_ns is not None
        return promise(plan, schedule_ns, measure_start_ns, measure_end_ns)
    if segment.kind == "closed":
        return ClosedPlan(
            segment.concurrency,
            segment.think_time_ns,
            start_ns=start_ns + segment.start_ns,
            end_ns=start_ns + segment.end_ns,
            max_requests=segment.max_requests,
            shards=plan.shards,
            first_request_id=segment.first_request_id,
            timeout_ns=plan.timeout_ns,
        )
    planned = [(np.load(s.offsets_path), s.first_request_id) for s in plan.segments if s.offsets_path]
    intended = np.concatenate([offsets for offsets, _ in planned]) + start_ns
    request_id = np.concatenate([first + np.arange(len(offsets)) for offsets, first in planned])
    inside = (intended >= measure_start_ns) & (intended < measure_end_ns)
    return OpenPlan(
        intended[inside],
        paced=segment.paced,
        request_id=request_id[inside],
        shards=plan.shards,
        first_request_id=segment.first_request_id,
        timeout_ns=plan.timeout_ns,
        connections=plan.asked_connections if segment.paced else None,
    )


def _segments(
    spec: LoadSpec, arrivals: ArrivalProcess, folder: Path, warmup_ns: int, duration_ns: int
) -> tuple[Segment, ...]:
    rng = np.random.default_rng(spec.seed)
    warmup = arrivals.warmup()
    end_ns = warmup_ns + duration_ns
    if isinstance(arrivals, ClosedProcess) and warmup == arrivals:
        # The same users go on: at a seam the new ones would ask while the old ones still wait for an answer.
        quota = {"max_requests": spec.max_requests, "quota_from_ns": warmup_ns}
        return (_closed(arrivals, 0, end_ns).model_copy(update=quota),)
    segments: list[Segment] = []
    count = 0
    if warmup_ns and isinstance(warmup, ClosedProcess):
        segments.append(_closed(warmup, 0, warmup_ns))
        count = 1_000_000_000  # of a closed loop nobody knows how many there will be
    elif warmup_ns:
        offsets = warmup.offsets_ns(spec.warmup_s, rng)
        segments.append(_open(offsets, folder / "warmup.npy", 0, warmup_ns, 0))
        count = len(offsets)
    if isinstance(arrivals, ClosedProcess):
        closed = _closed(arrivals, warmup_ns, end_ns)
        extra = {"max_requests": spec.max_requests, "quota_from_ns": warmup_ns, "first_request_id": count}
        segments.append(closed.model_copy(update=extra))
        return tuple(segments)
    offsets = arrivals.offsets_ns(spec.duration_s, rng)
    if not len(offsets):
        raise InputError(
            f"{arrivals.kind} gives no request in {spec.duration_s:g} s; raise the rate or the duration",
            field="load.arrivals",
        )
    end_ns = warmup_ns + round(arrivals.lasts_s(spec.duration_s) * _NS)
    if spec.max_requests is not None and spec.max_requests < len(offsets):
        end_ns = warmup_ns + max(1, int(offsets[spec.max_requests]))
        offsets = offsets[: spec.max_requests]
    measured = _open(offsets + warmup_ns, folder / "measure.npy", warmup_ns, end_ns, count)
    segments.append(measured.model_copy(update={"paced": arrivals.paced}))
    return tuple(segments)


def _open(offsets_ns: NDArray[np.int64], path: Path, start_ns: int, end_ns: int, first_id: int) -> Segment:
    np.save(path, offsets_ns)
    return Segment(
        kind="open", start_ns=start_ns, end_ns=end_ns, offsets_path=str(path), first_request_id=first_id
    )


def _closed(arrivals: ClosedProcess, start_ns: int, end_ns: int) -> Segment:
    return Segment(
        kind="closed",
        start_ns=start_ns,
        end_ns=end_ns,
        concurrency=arrivals.users,
        think_time_ns=arrivals.think_time_ns,
    )


def _shards(spec: LoadSpec, arrivals: ArrivalProcess, users: int) -> int:
    if spec.shards != "auto":
        return spec.shards if not users else min(spec.shards, users)
    rate = arrivals.mean_rate_rps(spec.duration_s) if arrivals.paced else None
    shards = (
        math.ceil((rate or 0) / _RATE_PER_SHARD_RPS) if not users else math.ceil(users / _USERS_PER_SHARD)
    )
    return max(1, min(shards, usable_cores() // 2))


def senders_here(spec: LoadSpec, base_dir: Path) -> int:
    """How many senders this host would have of its part of a load that ``client_hosts`` share."""
    arrivals = spec.arrivals.bind(base_dir)
    users = arrivals.users if isinstance(arrivals, ClosedProcess) else 0
    if spec.shards != "auto":
        # As of one host, no more than users; and as many on each.
        return (min(spec.shards, users) if users else spec.shards) // spec.client_hosts
    rate = arrivals.mean_rate_rps(spec.duration_s) if arrivals.paced else None
    of_all = users / _USERS_PER_SHARD if users else (rate or 0) / _RATE_PER_SHARD_RPS
    most = min(usable_cores() // 2, users // spec.client_hosts if users else usable_cores())
    return max(1, min(math.ceil(of_all / spec.client_hosts), most))


def _connections(spec: LoadSpec, protocol: str, users: int, shards: int) -> tuple[int, int]:
    """The most connections, and how many are there from the start; all shards together."""
    if protocol not in _HTTP:
        count = spec.connections or max(shards, min(_GRPC_CONNECTIONS, users or _GRPC_CONNECTIONS))
        return max(count, shards), max(count, shards)
    if users:
        count = spec.connections or users
        return max(count, shards), max(count, shards)
    limit = spec.connections or _HTTP_LIMIT
    return max(limit, shards), max(min(limit, spec.connections or _HTTP_FIRST), shards)
