"""How many chunks of streams this client can take: asked before a load with a rate, and after every load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.ceiling import SAFE_SHARE, Ceiling, ceiling, peak_rate_rps
from inferbench_tasks.loadgen.evidence import Check
from inferbench_tasks.loadgen.null_server import EVENT_BYTES
from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.token_records import CHUNKS, read_table

#: Token chunks of the answers by which the client's ceiling is measured.
_CHUNKS = 64
_NS_PER_S = 1e9
_ARRIVALS = pa.schema([CHUNKS.field("arrival_ns")])


def check_chunk_ceiling(plan: LoadPlan, cache: Path, *, allow_unsafe: bool) -> Ceiling:
    """InputError if the load's tokens, each a chunk, are more than the safe share of what this client can take.

    Users who wait for their answers have no rate before: see ``chunk_ceiling_check``.
    """
    limit = ceiling(plan, _CHUNKS * EVENT_BYTES, cache)
    rate = peak_rate_rps(plan)
    inputs = read_inputs(plan.inputs_path)
    asked = inputs["max_tokens"]
    if rate is not None and plan.turn_step:
        rate *= len(asked) / (int(inputs["conversation"][-1]) + 1)  # arrivals are of conversations
    chunks = float(np.maximum(asked, _CHUNKS).mean())
    most = chunks_per_s(limit)
    if rate is not None and rate * chunks > SAFE_SHARE * most and not allow_unsafe:
        raise InputError(
            f"{rate:,.1f} requests/s of {asked.mean():,.0f} tokens are {rate * chunks / most:.0%} of the chunks that "
            f"this client can take ({most:,.0f}/s from a server that does nothing, {limit.shards} sender(s)); above "
            f"{SAFE_SHARE:.0%} the client itself is measured. Lower the rate, raise --shards, or --allow-unsafe-load"
        )
    return limit


def chunks_per_s(limit: Ceiling) -> float:
    """What the client took of a server that does nothing."""
    return limit.requests_per_s * _CHUNKS


def chunk_ceiling_check(outcome: Outcome, limit: Ceiling) -> Check:
    """The events that came in the window, per second, against the safe share of the ceiling."""
    assert outcome.streams is not None
    chunks, _ = read_table(outcome.streams.chunks_path, _ARRIVALS)
    start_ns, end_ns = outcome.measure_start_ns, outcome.measure_end_ns
    came = int(((chunks["arrival_ns"] > start_ns) & (chunks["arrival_ns"] <= end_ns)).sum())
    rate, most = came / ((end_ns - start_ns) / _NS_PER_S), chunks_per_s(limit)
    return Check.at_most(
        "chunk_ceiling", rate / most, SAFE_SHARE, "ratio",
        f"{rate:,.0f} chunks/s came, {rate / most:.0%} of what this client can take ({most:,.0f}/s from a server that "
        f"does nothing, {limit.shards} sender(s)); above {SAFE_SHARE:.0%} the client itself is measured",
    )  # fmt: skip
