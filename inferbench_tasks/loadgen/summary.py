"""From raw records to the figures of a load; the same records give the same figures, always."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.loadgen.early_stopping import worth_of
from inferbench_tasks.loadgen.objective import judge
from inferbench_tasks.loadgen.statistics import (
    FAILED_OF_TAIL,
    FLOORS,
    NAMES,
    Intervals,
    failures_reason,
    hidden_by_failures,
    intervals,
    percentiles,
)
from inferbench_tasks.loadgen.timeseries import per_second
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.submission.slo import SloSpec

_NS_PER_MS = 1e6
_NS_PER_US = 1e3


def summarise(
    table: pa.Table, *, measure_start_ns: int, measure_end_ns: int, slo: SloSpec | None = None
) -> dict[str, Any]:
    """The figures of the measured window [start, end) on CLOCK_MONOTONIC, see ``summarise_window``."""
    return summarise_window(Window.of(table, measure_start_ns, measure_end_ns), slo)


def summarise_window(window: Window, slo: SloSpec | None = None) -> dict[str, Any]:
    """The figures of a window; plain JSON values.

    Latencies are of the window's requests with a good answer: ``e2e_latency_ms`` from the intended moment
    (a late sender can't hide queueing), ``send_latency_ms`` from the real one. Failed requests are
    counted in ``errors`` and nowhere else; a percentile that they may belong to is None. Throughput counts
    the good answers that ARRIVED in the window, so that a backlog worked off afterwards doesn't count; goodput
    counts those of them that were within the SLO's bound of the highest percentile given. What was not
    measured is None.
    """
    answered, completed = window.answered, window.completed
    has_first = answered & (window.first_byte_ns >= 0)
    was_sent = window.measured & (window.sent_ns >= 0)
    requests = int(window.measured.sum())
    errors = window.error_counts()
    throughput_rps = int(completed.sum()) / window.duration_s
    error_ratio = sum(errors.values()) / requests if requests else None
    failed = window.failed_ratio
    # Each series lives no longer than it is looked at: a long load has millions of requests.
    waited = window.measured & ~window.ok & (window.done_ns >= 0)
    e2e_stats = distribution(
        (window.done_ns - window.intended_ns)[answered] / _NS_PER_MS,
        failed_ratio=failed,
        failed_after=(window.done_ns - window.intended_ns)[waited] / _NS_PER_MS,
    )
    limit_ms = _request_limit_ms(slo)
    within = completed & (window.done_ns - window.intended_ns <= (limit_ms or 0) * _NS_PER_MS)
    summary: dict[str, Any] = {
        "requests": requests,
        "ok": int(answered.sum()),
        "errors": errors,
        "error_ratio": error_ratio,
        "worth": {"error_ratio": worth_as_stored(~window.ok[window.measured])},
        "duration_s": window.duration_s,
        "e2e_latency_ms": e2e_stats,
        "send_latency_ms": distribution(
            (window.done_ns - window.sent_ns)[answered] / _NS_PER_MS,
            failed_ratio=failed,
            failed_after=(window.done_ns - window.sent_ns)[waited & (window.sent_ns >= 0)] / _NS_PER_MS,
        ),
        "first_byte_latency_ms": distribution(
            (window.first_byte_ns - window.intended_ns)[has_first] / _NS_PER_MS,
            with_intervals=False,
            failed_ratio=failed,
            failed_after=(window.done_ns - window.intended_ns)[waited] / _NS_PER_MS,
        ),
        "lateness_us": distribution(
            (window.sent_ns - window.intended_ns)[was_sent] / _NS_PER_US, with_intervals=False
        ),
        "offered_rps": requests / window.duration_s,
        "throughput_rps": throughput_rps,
        "throughput_samples_per_s": float(window.batch_size[completed].sum()) / window.duration_s,
        "goodput_rps": int(within.sum()) / window.duration_s if limit_ms is not None else None,
        "goodput_limit_ms": limit_ms,
        "in_flight_mean": window.in_flight_mean(),
        "slo": None,
        "stages_ms": _server_stages(window, failed),
        "cold_start": _cold_start(window, e2e_stats),
        "timeseries": per_second(window),
        "excluded": {
            name: int(np.count_nonzero((window.phase == code) & ~window.measured))
            for code, name in enumerate(window.phase_names)
            if np.any((window.phase == code) & ~window.measured)
        },
    }
    summary["slo"] = judge(slo, summary, window)
    return summary


def worth_as_stored(over: NDArray[np.bool_]) -> dict[str, Any]:
    """Of a share of the requests, which come in the order of time: how many independent ``requests`` these are worth to
    it, and the ``reason`` why they may be worth more, None where that is known (``early_stopping.worth_of``).
    """
    requests, reason = worth_of(over)
    return {"requests": requests, "reason": reason if requests < len(over) else None}


def distribution(
    values: NDArray[Any],
    *,
    with_intervals: bool = True,
    failed_ratio: float = 0.0,
    failed_after: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Count, mean, standard deviation, extremes, exact percentiles; values in the order of time.

    ``failed_ratio``: of the requests that ``values`` are of. A percentile that the failures may belong to is None, and
    ``withheld`` says so. ``failed_after``: how long those that failed had waited by then. With it the mean would be at
    least another; where that is more than a tenth off, the mean is withheld too.

    ``ci95``: bounds at 95% by name, ``ci95_method`` how they were got: "order_statistics" where requests are
    independent, "exceedances" where those above a percentile come in clusters: it is then worth ``ci95_effective``
    independent requests; "clusters" of gaps, which belong to requests. ``ci95_reasons``: why an interval is None.
    """
    quantiles = percentiles(values, failed_ratio=failed_ratio)
    stats: dict[str, Any] = {
        "count": len(values),
        "mean": float(values.mean()) if len(values) else None,
        "std": float(values.std(ddof=1)) if len(values) > 1 else None,
        "min": float(values.min()) if len(values) else None,
        "max": float(values.max()) if len(values) else None,
        **{NAMES[q]: quantiles[q] for q in FLOORS},
    }
    withheld = {
        NAMES[q]: failures_reason(q, failed_ratio)
        for q, least in FLOORS.items()
        if len(values) >= least and hidden_by_failures(q, failed_ratio)
    }
    if reason := _mean_reason(values, failed_after, failed_ratio):
        withheld["mean"], stats["mean"] = reason, None
    if withheld:
        stats["withheld"] = withheld
    return bounded(stats, intervals(values)) if with_intervals else stats


def bounded(stats: dict[str, Any], bounds: Intervals) -> dict[str, Any]:
    """The same with intervals of its numbers, none for one that is withheld. See ``distribution`` for the names."""
    ci95 = {k: list(b) if b is not None else None for k, b in bounds.bounds.items()}
    return {
        **stats,
        "ci95": ci95 | dict.fromkeys(stats.get("withheld", {})),
        "ci95_method": bounds.method,
        "ci95_effective": dict(bounds.effective),
        "ci95_reasons": dict(bounds.reasons),
        "autocorrelation_time": bounds.autocorrelation_time,
    }


def _mean_reason(values: NDArray[Any], failed_after: NDArray[Any] | None, failed_ratio: float) -> str | None:
    """Why the mean of the good answers is not that of the requests; None where failures hardly change it."""
    if failed_after is None or not len(failed_after) or not len(values):
        return None
    own = float(values.mean())
    whole = (float(values.sum()) + float(failed_after.sum())) / (len(values) + len(failed_after))
    if whole <= (1 + FAILED_OF_TAIL) * own:
        return None
    return (
        f"{failed_ratio:.3%} of the requests failed: with the time that they had waited by then the mean would be at "
        f"least {whole:.4g} ms, and of the others it is {own:.4g} ms"
    )


def _request_limit_ms(slo: SloSpec | None) -> float | None:
    """What a single request has to keep: the bound of the highest percentile that has one."""
    bounds = slo.percentile_bounds_ms() if slo else {}
    ordered = [name for name in NAMES.values() if name in bounds]
    return bounds[ordered[-1]] if ordered else None


def _server_stages(window: Window, failed_ratio: float) -> dict[str, Any]:
    """Where the time of the good answers went by the server's own account, ms.

    ``transmit`` is what is left of the latency from the send: network, protocol, and the client itself.
    Only requests of which the server told everything count; {} if it told nothing.
    """
    if not window.spans:
        return {}
    spans = dict(window.spans)
    timed = window.answered & np.logical_and.reduce([values >= 0 for values in spans.values()])
    if not timed.any():
        return {}
    spans["transmit"] = window.done_ns - window.sent_ns - np.sum(list(spans.values()), axis=0)
    order = ("preprocess", "transmit", "queue", "inference", "postprocess")
    return {
        name: {
            "mean": float(spans[name][timed].mean()) / _NS_PER_MS,
            **{
                NAMES[q]: v / _NS_PER_MS if v is not None else None
                for q, v in percentiles(spans[name][timed], (0.5, 0.99), failed_ratio).items()
            },
        }
        for name in order
    }


def _cold_start(window: Window, steady_ms: dict[str, Any]) -> dict[str, Any]:
    """What came before the window and is left out of its figures: the warm-up."""
    before = window.intended_ns < window.start_ns
    good = before & window.ok
    latency = (window.done_ns - window.intended_ns)[good] / _NS_PER_MS
    first = float(latency[0]) if len(latency) else None
    mean, quantiles = steady_ms["mean"], percentiles(latency, (0.5, 0.9, 0.99))
    return {
        "requests": int(before.sum()),
        "errors": int(before.sum() - good.sum()),
        "duration_s": float(window.start_ns - window.intended_ns[0]) / 1e9 if before.any() else 0.0,
        "first_latency_ms": first,
        "first_to_steady_ratio": first / mean if first is not None and mean else None,
        "mean_latency_ms": float(latency.mean()) if len(latency) else None,
        "max_latency_ms": float(latency.max()) if len(latency) else None,
        **{f"{NAMES[q]}_latency_ms": value for q, value in quantiles.items()},
    }
