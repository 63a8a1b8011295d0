"""Part of ``trace``: the job's own load once more, one request in so many traced, as who sends it has it.

That is the server's host, or the one that the load came from (``senders.trace_sender``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.contracts import own_requests
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import column, is_ok, read_samples
from inferbench_tasks.protocols.traceparent import one_in_context
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import ToSend, client_processing, expected_outputs
from inferbench_tasks.stages.sending import applied, emptied
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.stages.traced import processed_times
from inferbench_tasks.submission.schema import loaded_only
from inferbench_tasks.tracing.assemble import Asked
from inferbench_tasks.tracing.spans import ONE_IN, STATE


@dataclass(frozen=True)
class Sent:
    """One load. ``asked``: the traced requests of its measured window that were answered; ``failed``: how many others
    of them there were. ``requests``: all of the window, ``median_ms`` their median latency, ``sender_cpu_s`` what the
    senders used meanwhile; ``answered``: all that were answered, the warm-up's too. ``doubts``: why its certificate
    does not hold. ``epoch_offset_ns``: what CLOCK_MONOTONIC lacks of Unix time here. ``clock``: of one that another
    host sent how that one's clock lay to this one's, on which ``asked`` lies then.
    """

    asked: list[Asked]
    failed: int
    requests: int
    median_ms: float
    sender_cpu_s: float
    answered: int
    doubts: tuple[str, ...]
    epoch_offset_ns: int
    clock: dict[str, Any] | None = None

    def dumped(self) -> bytes:
        """As JSON, for another host; it is ``read`` there."""
        return orjson.dumps(self)

    @classmethod
    def read(cls, data: bytes) -> Sent:
        """What was ``dumped``."""
        document = orjson.loads(data)
        asked = [Asked(**each) for each in document.pop("asked")]
        return cls(**document | {"asked": asked, "doubts": tuple(document["doubts"])})


def send(inp: Input | ToSend, ctx: Context, endpoint: Endpoint, seed: str | None, one_in: int) -> Sent:
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
