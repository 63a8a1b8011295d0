"""The client's roofline: what this machine can send of a payload when the server does nothing.

A load near that ceiling measures the client. It is therefore known before a load begins, and a load above
a share of it is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from inferbench_tasks.arrivals.closed_loop import ClosedLoop
from inferbench_tasks.arrivals.poisson import Poisson
from inferbench_tasks.clients.openai_form import StreamTarget
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.payloads import build_payloads
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import column
from inferbench_tasks.submission.schema import LoadSpec

#: The share of the ceiling up to which a load is taken without a word.
SAFE_SHARE = 0.5
_USERS_PER_SHARD = 32
_DURATION_S, _WARMUP_S = 1.0, 0.3
_NS = 1_000_000_000


class Ceiling(BaseModel):
    """``requests_per_s``: in a closed loop; lateness: of a Poisson load at a quarter of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: str
    client: str
    shards: int
    request_bytes: int
    answer_bytes: int
    requests_per_s: float
    cpu_us_per_request: float
    lateness_p50_us: float
    lateness_p99_us: float
    machine: str
    measured_at: float


def machine() -> str:
    """What a ceiling belongs to: with the cores that senders may use, which are fewer in a container, or pinned."""
    there, usable = os.cpu_count() or 1, usable_cores()
    cores = f"{there}" if usable >= there else f"{usable} of {there}"
    return f"{platform.node()}, {cores} x {platform.machine()}, Python {platform.python_version()}"


def measure_ceiling(plan: LoadPlan, answer_bytes: int) -> Ceiling:
    """Send the plan's requests to a null server as fast as they go, then at a quarter of that."""
    with tempfile.TemporaryDirectory(prefix="inferbench-ceiling-") as folder:
        where = Path(folder)
        with null_server(plan.endpoint.protocol, answer_bytes) as endpoint:

            def send(name: str, spec: LoadSpec) -> Outcome:
                load_plan = prepare(
                    spec,
                    folder=where / name,
                    endpoint=endpoint,
                    inputs_path=plan.inputs_path,
                    base_dir=where,
                    batches=plan.batches,
                    batched=plan.batched,
                    binary=plan.binary,
                    shared=plan.shared,  # a server that does nothing never looks there
                    stream=plan.stream and StreamTarget(path=plan.stream.path),  # the key stays here
                )
                outcome = apply_load(load_plan, where / f"{name}.parquet")
                if outcome.applied.problem or outcome.applied.stopped_early:
                    raise LoadError(
                        "The client's ceiling could not be measured: "
                        f"{outcome.applied.problem or outcome.applied.stopped_early}"
                    )
                return outcome

            common = {
                "duration_s": _DURATION_S, "warmup_s": _WARMUP_S, "client": plan.client, "shards": plan.senders,
                "timeout_ms": 5000.0,
            }  # fmt: skip
            users = _USERS_PER_SHARD * plan.senders
            closed = ClosedLoop(kind="closed_loop", concurrency=users)
            fast = send("fast", LoadSpec(arrivals=closed, **common))  # type: ignore[arg-type]
            done_ns = column(fast.table(), "done_ns")
            inside = (done_ns > fast.measure_start_ns) & (done_ns <= fast.measure_end_ns)
            rate = float(inside.sum()) / ((fast.measure_end_ns - fast.measure_start_ns) / _NS)
            if rate <= 0:
                raise LoadError("The client's ceiling could not be measured: no request was answered")
            calm_arrivals = Poisson(kind="poisson", rate_rps=max(10.0, rate / 4))
            calm = send("calm", LoadSpec(arrivals=calm_arrivals, **common))  # type: ignore[arg-type]
            table = calm.table()
            late = column(table, "sent_ns") - column(table, "intended_ns")
            late_us = late[column(table, "sent_ns") >= 0] / 1e3
            p50, p99 = np.quantile(late_us, [0.5, 0.99], method="inverted_cdf")
    cpu_s = sum(usage.cpu_s for usage in fast.applied.usages)
    return Ceiling(
        protocol=plan.endpoint.protocol,
        client=plan.client,
        shards=plan.senders,
        request_bytes=request_bytes(plan),
        answer_bytes=answer_bytes,
        requests_per_s=rate,
        cpu_us_per_request=cpu_s * 1e6 / max(1, int(inside.sum())),
        lateness_p50_us=float(p50),
        lateness_p99_us=float(p99),
        machine=machine(),
        measured_at=time.time(),
    )


def request_bytes(plan: LoadPlan) -> int:
    """The mean size of the plan's requests on the wire."""
    payloads = build_payloads(plan)[:64]
    return sum(len(payload.wire) for payload in payloads) // len(payloads)


def ceiling(plan: LoadPlan, answer_bytes: int, cache: Path, *, fresh: bool = False) -> Ceiling:
    """The ceiling for a plan's payload on this machine; measured once, then remembered in ``cache``.

    Payloads of a similar size (within a quarter) share one.
    """
    sizes = [round(4 * np.log2(max(64, size))) for size in (request_bytes(plan), answer_bytes)]
    key = json.dumps([machine(), plan.endpoint.protocol, plan.client, plan.senders, sizes])
    path = cache / f"{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"
    if not fresh and path.exists():
        try:
            return Ceiling.model_validate_json(path.read_bytes())
        except ValidationError:
            path.unlink()  # of another version
    limit = measure_ceiling(plan, answer_bytes)
    cache.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(limit.model_dump_json())
    temporary.replace(path)
    return limit


def peak_rate_rps(plan: LoadPlan) -> float | None:
    """The highest rate that the plan's schedule asks of this host over any second; None where no rate is planned."""
    rates = []
    for segment in plan.segments:
        if segment.kind != "open" or not segment.paced or segment.offsets_path is None:
            continue
        offsets = np.load(segment.offsets_path)
        span = min(_NS, segment.end_ns - segment.start_ns)
        ends = np.searchsorted(offsets, offsets + span, "left")
        rates.append(float((ends - np.arange(len(offsets))).max(initial=0)) * _NS / span)
    return max((rate * plan.senders / plan.shards for rate in rates), default=None)


def check_ceiling(plan: LoadPlan, answer_bytes: int, cache: Path, *, allow_unsafe: bool) -> Ceiling:
    """InputError if the plan asks for more than the safe share of the ceiling, unless that is allowed."""
    limit = ceiling(plan, answer_bytes, cache)
    rate = peak_rate_rps(plan)
    if rate is not None and rate > SAFE_SHARE * limit.requests_per_s and not allow_unsafe:
        raise InputError(
            f"{rate:,.0f} requests/s are {rate / limit.requests_per_s:.0%} of what this client can send "
            f"({limit.requests_per_s:,.0f} requests/s of {limit.request_bytes:,} bytes against a server that does "
            f"nothing, {limit.shards} sender(s)); above {SAFE_SHARE:.0%} the client itself is measured. Lower the "
            "rate, raise load.shards, use a machine with more cores, or set load.allow_unsafe_load: true",
            field="load.arrivals",
        )
    return limit


def check_processing(plan: LoadPlan, sample_ms: Mapping[str, float], *, allow_unsafe: bool) -> None:
    """InputError if the client's own processors need more of its senders than is safe, unless that is allowed.

    ``sample_ms``: what each processor takes for one sample. A closed loop waits for its sender, and may.
    """
    rate = peak_rate_rps(plan)
    weights = sum(share.weight for share in plan.batches)
    samples = sum(share.batch_size * share.weight for share in plan.batches) / weights
    request_ms = samples * sum(sample_ms.values())
    if rate is None or allow_unsafe or rate * request_ms / 1e3 <= SAFE_SHARE * plan.senders:
        return
    raise InputError(
        f"{rate:,.0f} requests/s, of which each keeps the client busy for {request_ms:.2f} ms with "
        f"{', '.join(sample_ms)}, need {rate * request_ms / 1e3:.2f} of {plan.senders} sender(s); above "
        f"{SAFE_SHARE:.0%} the client itself is measured. Lower the rate, raise load.shards, "
        "set processors.side: server, or set load.allow_unsafe_load: true",
        field="load.arrivals",
    )
