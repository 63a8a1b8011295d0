"""Part of ``trace``: one server with the instruments of one level, and the requests that it is asked one by one."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from inferbench_tasks import settings
from inferbench_tasks.backends import first_answer, startup
from inferbench_tasks.backends.base import BACKENDS, Deployment
from inferbench_tasks.backends.environments import ENVIRONMENTS
from inferbench_tasks.backends.probes.base import Probe
from inferbench_tasks.contracts import own_requests
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError, ServerError
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.loadgen.live_processing import times_of
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.processed_times import read_processed
from inferbench_tasks.loadgen.records import column, is_ok, read_samples
from inferbench_tasks.manifests.runtime import named_runtime, runtime_in_image
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.monitors.session import MonitorSession
from inferbench_tasks.networks.reached_address import reached_address
from inferbench_tasks.protocols.traceparent import context_of, one_in_context
from inferbench_tasks.requests.ragged import packed
from inferbench_tasks.servers.config import Tracing
from inferbench_tasks.stages.asked import one_by_one
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.exact import exact_answers
from inferbench_tasks.stages.load_order import client_processing, expected_outputs
from inferbench_tasks.stages.sending import applied, emptied
from inferbench_tasks.stages.sent_spans import Sent
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.strangers_folder import read
from inferbench_tasks.timing.epoch import epoch_offset
from inferbench_tasks.tracing.assemble import Asked
from inferbench_tasks.tracing.counters import Seen, kinds_of, tracks_of
from inferbench_tasks.tracing.receiver import RECEIVERS
from inferbench_tasks.tracing.spans import LEVELS, STATE, Level

#: What a request may take, ms: an instrument that is made ready within the first one may take many seconds.
_LONGEST_REQUEST_MS = 600_000.0
#: What a server tells of its requests; the spans of a million kernels are some hundred MB.
_MOST_TOLD_BYTES = 2 << 30
#: One request in so many is traced: each, by its number.
ALL = 1


@dataclass(frozen=True)
class Traced:
    """``told``: the server's file, None of the level that tells nothing. ``latencies_ms``: send to last byte, with what
    processors at the client did before and behind. ``seen``: what the monitors saw meanwhile.
    """

    asked: list[Asked]
    told: Mapping[str, Any] | None
    latencies_ms: list[float]
    epoch_offset_ns: int
    seen: Seen


@dataclass(frozen=True)
class Instrumented:
    """A server with one level's instruments, which is up. ``told``: what it told, once it was ended; ``came``: waits
    until what it sends of these requests has come, while it is up. ``seen``: what the monitors saw while these were
    asked, once it was ended.
    """

    endpoint: Endpoint
    told: Callable[[], Mapping[str, Any] | None]
    came: Callable[[Sequence[Asked]], None]
    seen: Callable[[Sequence[Asked]], Seen]


@contextmanager
def instrumented(inp: Input, ctx: Context, level: Level, *, guarded: bool = False) -> Iterator[Instrumented]:
    """Start a server with that level's instruments; end it. Its answers are the model's, before and after.

    Monitors watch the servers of all levels alike: what they cost is in no level's share. ``guarded``: it is asked by
    another host, so it binds this one's address and answers nobody without its secret.
    """
    backend = BACKENDS.load(inp.job.serve.backend)()
    launcher = LAUNCHERS.load(inp.job.serve.launcher)()
    folder = emptied(ctx.run_dir(inp.run_id) / "trace")
    path = folder / "told.json"
    servers_dir = settings.servers_dir(ctx.data_dir)
    with ExitStack() as stack:
        sent, tracing = None, None
        if level != "application" and backend.sends_spans is not None:
            sent = Sent(stack.enter_context(RECEIVERS[backend.sends_spans]()))
        elif level != "application":
            tracing = _tracing(path, level)
        deployment = Deployment(
            run_id=inp.run_id,
            model=inp.convert.model,
            spec=inp.job.serve,
            folder=folder,
            cache_dir=ctx.cache_dir(ENVIRONMENTS),
            protocol=inp.job.traffic.protocol,
            client_batch_size=batch_size(inp),
            processing=inp.generate.requests.in_server,
            tracing=tracing,
            spans_port=sent.port if sent is not None else None,
            runtime=named_runtime(inp.job.serve) or runtime_in_image(inp.job),
            precision=inp.job.convert.precision,
            listens=reached_address() if guarded else "",
            secret=secrets.token_urlsafe(32) if guarded else "",
        )
        started = startup.start(backend, deployment, launcher, servers_dir, ctx.cancelled)

        def told() -> Mapping[str, Any] | None:
            if sent is not None:
                return sent.told()
            if tracing is None:
                return None
            try:
                document: Mapping[str, Any] = orjson.loads(read(path, _MOST_TOLD_BYTES, within=folder.parent))
            except OSError as error:
                end = launcher.log_end(started.server)
                raise ServerError(
                    f"The server left no trace ({path}: {error.strerror}); the end of its log:\n{end}"
                ) from error
            return document

        def came(asked: Sequence[Asked]) -> None:
            if sent is not None:
                sent.wait(asked)

        # Not in the server's own folder, where it may write.
        monitors = ctx.run_dir(inp.run_id) / "trace-monitors.parquet"
        watched = MonitorSession(
            started.server,
            monitors,
            device=inp.job.serve.device,
            exporters={},
            kinds=kinds_of(inp.job.serve.device.kind),
        )
        try:
            with closing(started.probe) as probe, watched:
                _check(inp, probe, level)
                yield Instrumented(started.endpoint, told, came, lambda asked: _seen(monitors, asked))
                _check(inp, probe, level)
        finally:
            records.end_run(servers_dir, inp.run_id)


def _seen(monitors: Path, asked: Sequence[Asked]) -> Seen:
    if not asked:
        return Seen([])
    begin_ns, end_ns = min(each.intended_ns for each in asked), max(each.done_ns for each in asked)
    recording = read_recording(monitors)
    tracks = tracks_of(recording, begin_ns, end_ns, epoch_offset()["offset_ns"])
    return Seen(tracks, recording.about.get("problem"))


def _tracing(path: Path, level: Level) -> Tracing:
    """What a server of ours is to tell."""
    depth = LEVELS.index(level)
    return Tracing(
        path=str(path),
        framework=depth >= LEVELS.index("framework"),
        layers=depth >= LEVELS.index("layer"),
        library=depth >= LEVELS.index("library"),
    )


def once(inp: Input, ctx: Context, level: Level, number: int) -> Traced:
    """Start a server with that level's instruments, warm it up, ask it, end it; in round ``number``."""
    folder = ctx.run_dir(inp.run_id) / own_requests.TRACE
    with instrumented(inp, ctx, level) as server:
        ask(inp, ctx, server.endpoint, folder, None)
        asked = ask(inp, ctx, server.endpoint, folder, f"{inp.run_id} {level} {number}")
        server.came(asked)
    return Traced(
        asked=asked,
        told=server.told(),
        latencies_ms=[one.latency_ns / 1e6 for one in asked],
        epoch_offset_ns=time.time_ns() - time.monotonic_ns(),
        seen=server.seen(asked),
    )


def _check(inp: Input, probe: Probe, level: Level) -> None:
    """ServerError where the server answers otherwise than the source model: an instrument may change what runs, and
    the times of something else are no times of this model."""
    samples, reference = first_answer.load_sent(inp.generate.requests)
    model = inp.generate.requests.as_served(inp.convert.model)
    try:
        first_answer.ask_and_check(
            probe, samples, reference, model, batch_size(inp), inp.convert.tolerance_ratio,
            exact=exact_answers(inp.job, inp.generate.model, inp.convert.model),
        )  # fmt: skip
    except ServerError as error:
        raise ServerError(f"With the instruments of the level {level} on: {error}") from error


def batch_size(inp: Input) -> int:
    """Samples in each traced request: what ``trace.batch_size`` says; else one, whatever the load's have, or the
    model's own batch. Of a share of the load the load's."""
    assert inp.job.trace is not None
    of_load = inp.job.traffic.samples_per_request
    return inp.job.trace.samples_per_request(of_load, inp.convert.model.batch_size)


def ask(inp: Input, ctx: Context, endpoint: Endpoint, folder: Path, seed: str | None) -> list[Asked]:
    """Ask the first samples of the run's requests, one by one; ``seed``: of the traces that they are part of.

    Where the size of a batch was asked for, so many requests are asked, and samples again where there are too few;
    else each sample once.
    """
    spec = inp.job.trace
    assert spec is not None
    samples, reference = first_answer.load_sent(inp.generate.requests)
    size, again = batch_size(inp), spec.batch_size is not None
    there = len(next(iter(samples.values())))
    count = spec.requests if again else max(1, min(spec.requests, there // size))
    inputs = emptied(folder) / "inputs.npz"
    write_archive(inputs, packed({name: array[: count * size] for name, array in samples.items()}))
    load = one_by_one(inp.job.traffic).model_copy(
        update={
            "batch_size": size,
            "warmup_s": 0.0,
            "max_requests": count,
            "shards": 1,
            "max_error_ratio": 0.0,
            "timeout_ms": max(_LONGEST_REQUEST_MS, inp.job.traffic.timeout_ms),
        }
    )
    plan = prepare(
        load,
        folder=folder / "load",
        endpoint=endpoint,
        inputs_path=str(inputs),
        base_dir=ctx.base_dir,
        expected=expected_outputs(inp.generate, reference),
        processing=client_processing(inp.generate.requests),
    ).model_copy(update={"trace_seed": seed, "trace_one_in": ALL if again else None})
    outcome = applied(plan, folder / "samples.parquet", "the traced requests", ctx.cancelled)
    table = read_samples(folder / "samples.parquet")
    if not is_ok(table).all() or table.num_rows != count:
        words = "; ".join(outcome.applied.explanations.values()) or "no answer"
        raise LoadError(f"Of {count} requests {int(np.count_nonzero(is_ok(table)))} were answered: {words}")
    # A request's trace is known by its first sample, where that is not asked again. Of requests too large for a sender
    # the first are sent again.
    if not again and len(np.unique(column(table, "sample_index"))) < count:
        raise LoadError(
            f"{count} requests are more bytes than a sender keeps, and one sent twice would be two requests of one "
            "trace; lower trace.requests"
        )
    names = ("request_id", "sample_index", "intended_ns", "sent_ns", "first_byte_ns", "done_ns")
    if seed is None:
        return []
    processed = processed_times(plan)
    asked = []
    for number, sample, intended, sent, first, done in zip(
        *(column(table, name).tolist() for name in names), strict=True
    ):
        context = one_in_context(seed, number, ALL) if again else context_of(seed, sample)
        assert context is not None  # one in one is chosen
        # The server's span has the state that came with the request, and the request's own the same.
        about = {STATE: context.state} if context.state else {}
        one = Asked(context.trace_id, context.span_id, sample, intended, sent, first, done, about)
        asked.append(replace(one, **processed.get(number, {})))
    return asked


def processed_times(plan: LoadPlan) -> dict[int, dict[str, Any]]:
    """By the numbers of a load's traced requests what its client's processors did to each, and when; empty where it
    has none. LoadError."""
    if times_of(plan) is None:
        return {}
    return {
        number: asdict(each) for number, each in read_processed(map(plan.processed_path, plan.own)).items()
    }
