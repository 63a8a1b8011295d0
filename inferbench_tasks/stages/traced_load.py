"""Part of ``trace``: the job's own load once more, one request in so many traced while it lasts (``trace.one_in``).

In each round the load is sent to a server that tells nothing and to one that tells of the requests that ask for it,
so that what tracing costs the load is known. The levels are those of a request: a run of the runtime is of a batch.
Servers are on this host; a load that came from another one is sent from there again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from inferbench_tasks.errors import LoadError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.sampled_load import Sent, send
from inferbench_tasks.stages.senders.led_trace import LedTrace, led_trace
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.stages.traced import batch_size, instrumented
from inferbench_tasks.tracing.assemble import Assembled, assemble, counted, worst_clock
from inferbench_tasks.tracing.checks import checks
from inferbench_tasks.tracing.counters import Seen, Track, joined, summary
from inferbench_tasks.tracing.leveled import overheads
from inferbench_tasks.tracing.spans import Level, Span
from inferbench_tasks.tracing.two_hosts import ways

LEVELS: tuple[Level, ...] = ("application", "model")


def traced_load(inp: Input, ctx: Context) -> tuple[dict[str, Any], list[Span], list[Track]]:
    """What the result says of all rounds, the spans, and what the monitors saw meanwhile."""
    with _sender(inp, ctx) as there:
        return _rounds(inp, ctx, there)


@contextmanager
def _sender(inp: Input, ctx: Context) -> Iterator[LedTrace | None]:
    """What sends on the load's host; None where this host does. LoadError where there is nothing to send it."""
    if not inp.job.traffic.away:
        yield None
        return
    if inp.load is None or inp.load.trace_sender is None:
        raise LoadError("Nothing waits on the load's host to send it again; have the job begin again")
    with led_trace(inp.load.trace_sender, ctx) as there:
        yield there


def _rounds(
    inp: Input, ctx: Context, there: LedTrace | None
) -> tuple[dict[str, Any], list[Span], list[Track]]:
    spec = inp.job.trace
    assert spec is not None and spec.one_in is not None
    rounds: list[dict[Level, float]] = []
    assembled: list[Assembled] = []
    told: list[Sent] = []
    seen: list[Seen] = []
    doubts: list[str] = []
    for number in range(spec.rounds):
        medians: dict[Level, float] = {}
        # Each is the first in turns, so that a machine that drifts favours none.
        for at, level in enumerate(LEVELS if number % 2 == 0 else LEVELS[::-1]):
            ctx.progress(
                number * len(LEVELS) + at, spec.rounds * len(LEVELS), f"a traced load, level {level}"
            )
            with instrumented(inp, ctx, level, guarded=there is not None) as server:
                seed = None if level == "application" else f"{inp.run_id} {level} {number}"
                if there is None:
                    sent = send(inp, ctx, server.endpoint, seed, spec.one_in)
                else:
                    sent = there.send(server.endpoint, seed, spec.one_in)
            medians[level] = sent.median_ms
            doubts += [f"round {number + 1}, level {level}: {doubt}" for doubt in sent.doubts]
            if level == LEVELS[-1]:
                told.append(sent)
                assembled.append(assemble(sent.asked, server.told(), sent.epoch_offset_ns, number))
                seen.append(server.seen(sent.asked))
        rounds.append(medians)
    spans = [span for each in assembled for span in each.spans]
    counts = counted(assembled)
    tracks = joined(seen)
    document = {
        "levels": list(LEVELS),
        "one_in": spec.one_in,
        "requests": sum(len(each.asked) for each in told),
        "of": sum(each.requests for each in told),
        "failed": sum(each.failed for each in told),
        "batch_size": batch_size(inp),
        "rounds": spec.rounds,
        "spans": len(spans),
        **counts,
        "ignored_states": sum(each.ignored_states for each in assembled),
        "clock": worst_clock(assembled),
        "overheads": [each.as_dict() for each in overheads(rounds, LEVELS)],
        "parts": parts(spans),
        "doubts": doubts,
        "layers": None,
        **summary(seen),
        "checks": checks(spans, None, counts["defects"]),
    }
    if there is not None:
        document["hosts"] = _hosts(there, told, spans)
    return document, spans, tracks


def _hosts(there: LedTrace, told: Sequence[Sent], spans: Sequence[Span]) -> dict[str, Any]:
    """Who sent to whom, how their clocks lay in each round, and the way between them as far as these tell it."""
    errors_ns = [each.clock_error_ns for sent in told for each in sent.asked]
    error_ns = max(errors_ns, default=0)
    return {
        "client": there.host,
        "server": there.me.host,
        "error_ms": error_ns / 1e6 if errors_ns else None,
        "clocks": [sent.clock for sent in told],
        "ways": ways(spans, error_ns),
    }


def parts(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """{part, level, requests, median_ms, longest_ms} of the whole request, of its parts at its client, and of those
    in the server: processors are called alike in both."""
    times_ms: dict[tuple[str, str], list[float]] = defaultdict(list)
    for span in spans:
        times_ms[span.name, span.level].append(span.duration_ns / 1e6)
    return [
        {
            "part": name,
            "level": level,
            "requests": len(values),
            "median_ms": float(np.median(values)),
            "longest_ms": max(values),
        }
        for (name, level), values in times_ms.items()
    ]
