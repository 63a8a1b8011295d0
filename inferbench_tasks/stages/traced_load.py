"""Part of ``trace``: the job's own load once more, one request in so many traced while it lasts (``trace.one_in``).

In each round the load is sent to a server that tells nothing and to one that tells of the requests that ask for it,
so that what tracing costs the load is known. The levels are those of a request: a run of the runtime is of a batch.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.contracts import own_requests
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import column, is_ok, read_samples
from inferbench_tasks.protocols.traceparent import one_in_context
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import client_processing, expected_outputs
from inferbench_tasks.stages.sending import applied, emptied
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.stages.traced import batch_size, instrumented, processed_times
from inferbench_tasks.submission.schema import loaded_only
from inferbench_tasks.tracing.assemble import Asked, Assembled, assemble, counted, worst_clock
from inferbench_tasks.tracing.checks import checks
from inferbench_tasks.tracing.counters import Seen, Track, joined, summary
from inferbench_tasks.tracing.leveled import overheads
from inferbench_tasks.tracing.spans import ONE_IN, STATE, Level, Span

LEVELS: tuple[Level, ...] = ("application", "model")


@dataclass(frozen=True)
class Sent:
    """One load. ``asked``: the traced requests of its measured window that were answered; ``failed``: how many others
    of them there were. ``requests``: all of the window, ``median_ms`` their median latency, ``sender_cpu_s`` what the
    senders used meanwhile; ``answered``: all that were answered, the warm-up's too. ``doubts``: why its certificate
    does not hold.
    """

    asked: list[Asked]
    failed: int
    requests: int
    median_ms: float
    sender_cpu_s: float
    answered: int
    doubts: tuple[str, ...]
    epoch_offset_ns: int


def traced_load(inp: Input, ctx: Context) -> tuple[dict[str, Any], list[Span], list[Track]]:
    """What the result says of all rounds, the spans, and what the monitors saw meanwhile."""
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
            with instrumented(inp, ctx, level) as server:
                seed = None if level == "application" else f"{inp.run_id} {level} {number}"
                sent = send(inp, ctx, server.endpoint, seed, spec.one_in)
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
    return document, spans, tracks


def send(inp: Input, ctx: Context, endpoint: Endpoint, seed: str | None, one_in: int) -> Sent:
    """The job's load, as it was asked for; ``seed``: of the traces of the chosen requests, None: none is chosen."""
    folder = emptied(ctx.run_dir(inp.run_id) / own_requests.TRACE)
    reference = load_samples(inp.generate.requests.answered_path)
    plan = prepare(
        loaded_only(inp.job, "A trace of one request in so many"),
        folder=folder / "load",
        endpoint=endpoint,
        inputs_path=inp.generate.requests.sent_path,
        base_dir=ctx.base_dir,
        expected=expected_outputs(inp.generate, reference),
        processing=client_processing(inp.generate.requests),
    ).model_copy(update={"trace_seed": seed, "trace_one_in": one_in})
    outcome = applied(plan, folder / "samples.parquet", "the traced load's requests", ctx.cancelled)
    table = read_samples(folder / "samples.parquet")
    names = ("request_id", "sample_index", "intended_ns", "sent_ns", "first_byte_ns", "done_ns")
    columns = {name: column(table, name) for name in names}
    intended_ns, good = columns["intended_ns"], is_ok(table)
    inside = (intended_ns >= outcome.measure_start_ns) & (intended_ns < outcome.measure_end_ns)
    if not (inside & good).any():
        words = "; ".join(outcome.applied.explanations.values()) or "no answer"
        raise LoadError(f"Of the traced load's {int(inside.sum()):,} requests none was answered: {words}")
    processed = processed_times(plan)
    asked, failed = [], 0
    for row in np.flatnonzero(inside).tolist() if seed is not None else ():
        one = {name: int(values[row]) for name, values in columns.items()}
        number = one.pop("request_id")
        context = one_in_context(seed or "", number, one_in)
        if context is None:
            continue
        if not good[row]:
            failed += 1
            continue
        asked.append(
            Asked(
                context.trace_id,
                context.span_id,
                one["sample_index"],
                one["intended_ns"],
                one["sent_ns"],
                one["first_byte_ns"],
                one["done_ns"],
                about={"request": number, ONE_IN: one_in, STATE: context.state},
                **processed.get(number, {}),
            )
        )
    if seed is not None and not asked and not failed:
        raise LoadError(
            f"None of the load's {int(inside.sum()):,} requests was chosen, 1 in {one_in:,} is by chance; lower "
            "trace.one_in, or measure longer"
        )
    latencies_ms = (columns["done_ns"] - intended_ns)[inside & good] / 1e6
    certificate = outcome.certificate(plan)
    return Sent(
        asked=asked,
        failed=failed,
        requests=int(inside.sum()),
        median_ms=float(np.median(latencies_ms)),
        sender_cpu_s=sum(usage.cpu_s for usage in outcome.applied.usages),
        answered=int(good.sum()),
        doubts=tuple(map(str, certificate.reasons)),
        epoch_offset_ns=time.time_ns() - time.monotonic_ns(),
    )


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
