"""Stage ``trace``: the same few requests through servers of its own, each level's instruments on in turns.

What is timed is never instrumented: the server that was loaded is ended first. A trace that fails says why, and the run
stands as it was measured.
"""

from __future__ import annotations

import logging
from typing import Any

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import CancelledError, InferBenchError
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.trace_input import Input as Input

log = logging.getLogger(__name__)

STAGE = Stage(
    needs=("generate", "convert", "serve", "load"),
    leased=True,
    block="trace",
    unread=("generate.model", "load"),
)
SPANS_FILE = "spans.parquet"


class Output(Handle):
    """``document``: what the result says of the trace, or its ``problem``. ``spans_path``: Parquet."""

    document: dict[str, Any]
    spans_path: str | None = None


def run(inp: Input, ctx: Context) -> Output:
    """Trace; a failure is part of the output. CancelledError."""
    from inferbench_tasks import settings
    from inferbench_tasks.launchers import records

    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)
    try:
        return sampled(inp, ctx) if inp.job.trace and inp.job.trace.one_in else traced(inp, ctx)
    except CancelledError:
        raise
    except (InferBenchError, OSError) as error:
        return Output(document={"problem": str(error)})
    except Exception as error:  # a fault in what reads a trace takes no run with it that was measured before
        log.exception("the trace failed run_id=%s", inp.run_id)
        kind = type(error).__name__
        return Output(document={"problem": f"a fault of InferBench's own, {kind}: {error}"})
    finally:
        records.end_run(servers_dir, inp.run_id)


def traced(inp: Input, ctx: Context) -> Output:
    """All rounds, and what they come to."""
    from inferbench_tasks.backends.base import BACKENDS
    from inferbench_tasks.stages.leveled_rounds import leveled
    from inferbench_tasks.stages.traced import batch_size
    from inferbench_tasks.tracing.assemble import assemble, counted, worst_clock
    from inferbench_tasks.tracing.checks import checks
    from inferbench_tasks.tracing.counters import joined, packed, summary
    from inferbench_tasks.tracing.layers import layer_times
    from inferbench_tasks.tracing.leveled import overheads
    from inferbench_tasks.tracing.missing import in_no_layer, samplings
    from inferbench_tasks.tracing.profiled import without_deeper
    from inferbench_tasks.tracing.spans import LEVELS, USUAL_DEEPEST, write

    spec = inp.job.trace
    assert spec is not None
    told = BACKENDS.load(inp.job.serve.backend).levels_of(inp.convert.model.format)
    depth = (
        LEVELS.index(spec.deepest)
        if spec.deepest
        else min(LEVELS.index(told[-1]), LEVELS.index(USUAL_DEEPEST))
    )
    made = leveled(inp, ctx, LEVELS[: depth + 1])
    levels, deep = made.levels, made.deep
    reached = ceilings(ctx, inp.job.serve.device.kind) if levels[-1] == "library" else None
    # Servers differ from each other by more than a server's requests do: all rounds are kept.
    assembled = [
        assemble(
            found.asked, found.told, found.epoch_offset_ns, number, level if len(made.kept) > 1 else None
        )
        for number, level, found in deep
    ]
    spans = [span for each in assembled for span in each.spans]
    path = ctx.run_dir(inp.run_id) / SPANS_FILE
    seen = [found.seen for _, _, found in deep]
    tracks = joined(seen)
    write(spans, path, packed(tracks))
    layers = layer_times(without_deeper(spans))
    counts = counted(assembled)
    document = {
        "levels": levels,
        # With several levels kept each request was asked with the instruments of each.
        "requests": sum(len(found.asked) for _, level, found in deep if level == made.kept[0]),
        "batch_size": batch_size(inp),
        "rounds": spec.rounds,
        "spans": len(spans),
        **counts,
        "clock": worst_clock(assembled),
        "overheads": [each.as_dict() for each in overheads(made.medians, levels)],
        "layers": layers.as_dict() if layers else None,
        **summary(seen),
        "checks": checks(spans, layers, counts["defects"]),
    }
    if made.untold:
        document["untold"] = made.untold
    if (sampling := samplings(row for each in assembled for row in each.samplings)) is not None:
        document["sampling"] = sampling
    if why_lost := sorted({why for each in assembled for why in each.why_lost}):
        document["why_lost"] = why_lost
    if (outside := in_no_layer(row for each in assembled for row in each.outside)) is not None:
        document["outside"] = outside
    if reached is not None:
        document["ceilings"] = reached
    return Output(document=document, spans_path=str(path))


def sampled(inp: Input, ctx: Context) -> Output:
    """The job's own load, of which one request in so many is traced."""
    from inferbench_tasks.stages.traced_load import traced_load
    from inferbench_tasks.tracing.counters import packed
    from inferbench_tasks.tracing.spans import write

    document, spans, tracks = traced_load(inp, ctx)
    path = ctx.run_dir(inp.run_id) / SPANS_FILE
    write(spans, path, packed(tracks))
    return Output(document=document, spans_path=str(path))


def ceilings(ctx: Context, device: str) -> dict[str, Any]:
    """What this machine's cores and memory reach, for rooflines; its ``problem`` where that can't be measured."""
    if device != "cpu":
        return {"problem": "of a GPU nobody measures them"}
    from dataclasses import asdict

    from inferbench_tasks.analysis.ceilings import CACHE, measured_ceilings
    from inferbench_tasks.monitors.environment import processor

    try:
        return asdict(measured_ceilings(ctx.cache_dir(CACHE), processor()))
    except (InferBenchError, OSError) as error:
        return {"problem": str(error)}
