"""When requests arrive at the server, against the schedule: ours and perf_analyzer's, with one schedule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.load.canned import Canned
from benchmarks.load.peers import PeerError, command, perf_analyzer_command
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import column
from inferbench_tasks.submission.schema import LoadSpec

_WARMUP_S = 0.5
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Paced:
    """Times in us. ``arrival_*``: at the server, after the intended time; ``rate_error``: of the achieved rate.

    ``fitted_*``: after the intended time plus the lateness of the most punctual request, which is all that can be
    known of a client that does not tell when it began. Only these can be compared.
    """

    fitted_p50: float
    fitted_p99: float
    arrival_p50: float | None = None
    arrival_p99: float | None = None
    sent_p50: float = 0.0
    sent_p99: float = 0.0
    rate_error: float = 0.0


def _quantiles(late_ns: Times) -> tuple[float, float]:
    p50, p99 = np.quantile(late_ns / 1e3, [0.5, 0.99], method="inverted_cdf")
    return float(p50), float(p99)


def _plan(folder: Path, server: Canned, rate: float, seconds: float, inputs: int) -> LoadPlan:
    np.savez(folder / "inputs.npz", input=np.zeros((4, inputs), np.float32))
    arrivals = {"kind": "poisson", "rate_rps": rate}
    spec = LoadSpec.model_validate(
        {"arrivals": arrivals, "duration_s": seconds, "warmup_s": _WARMUP_S, "shards": 1, "seed": 7}
    )
    return prepare(
        spec, folder=folder / "load", endpoint=server.where, inputs_path=str(folder / "inputs.npz"), base_dir=folder
    )  # fmt: skip


def ours(folder: Path, server: Canned, rate: float, seconds: float, inputs: int) -> Paced:
    """Our sender in an open loop; its intended times are absolute and known."""
    plan = _plan(folder, server, rate, seconds, inputs)
    server.arrivals_ns()
    outcome = apply_load(plan, folder / "samples.parquet")
    arrived = server.arrivals_ns()
    table = outcome.table()
    intended = np.sort(column(table, "intended_ns"))
    if len(arrived) != len(intended):
        raise SystemExit(f"{len(intended)} requests were intended, {len(arrived)} arrived")
    measured = intended >= outcome.measure_start_ns
    late = (arrived - intended)[measured]
    lateness_ns = column(table, "sent_ns") - column(table, "intended_ns")
    sent_p50, sent_p99 = _quantiles(lateness_ns[column(table, "intended_ns") >= outcome.measure_start_ns])
    error = float(outcome.certificate(plan).figures["rate_error_ratio"])
    return Paced(*_quantiles(late - late.min()), *_quantiles(late), sent_p50, sent_p99, error)


def perf_analyzer(folder: Path, server: Canned, rate: float, seconds: float, inputs: int) -> Paced:
    """perf_analyzer with the same gaps (--request-intervals, whole microseconds) over the same stretch.

    Four threads are its default for a request rate. It does not tell when it began, so its start is fitted:
    the lateness of the most punctual request is 0, and the schedule may begin with the first gap or after it,
    whichever makes it look better.
    """
    plan = _plan(folder, server, rate, seconds, inputs)
    offsets: list[Times] = [
        np.load(segment.offsets_path) for segment in plan.segments if segment.offsets_path is not None
    ]
    schedule = np.sort(np.concatenate(offsets))
    gaps_us = np.maximum(1, np.diff(schedule, prepend=0) // 1000)
    (folder / "gaps").write_text("".join(f"{gap}\n" for gap in gaps_us))
    at_ns = np.cumsum(gaps_us) * 1000
    server.arrivals_ns()
    span_s = at_ns[-1] / 1e9 + 1.0
    load = ["--request-intervals", str(folder / "gaps"), "--max-threads", "4"]
    command(*perf_analyzer_command(server.where, span_s, load))
    arrived = server.arrivals_ns()
    best = (np.inf, np.inf)
    for shift in (0, 1):
        mine = at_ns[shift:]
        count = min(len(mine), len(arrived))
        if count < 0.9 * len(at_ns):
            raise PeerError(f"perf_analyzer: {len(arrived)} requests arrived, {len(at_ns)} were asked for")
        late = (arrived[:count] - mine[:count])[mine[:count] >= _WARMUP_S * 1e9]
        of_try = _quantiles(late - late.min())
        best = min(best, of_try, key=lambda quantiles: quantiles[1])
    return Paced(*best)
