"""Percentiles of requests from separate windows."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.loadgen.exceedances import spread_of, spread_of_segments
from inferbench_tasks.loadgen.segmented import Segmented, distribution, percentile


def _requests(latency_ms: np.ndarray, room_ms: np.ndarray, length_ms: float = 4000.0) -> Segmented:
    segment = np.arange(len(latency_ms)) // 200
    return Segmented(latency_ms, room_ms, segment, np.full(len(latency_ms), length_ms))


def test_a_request_that_ended_in_a_disturbance_is_neither_left_out_nor_believed() -> None:
    """Each window of 400 ms ends in one, which holds up for 5 s whoever is not answered by then."""
    rng = np.random.default_rng(1)
    latency_ms = rng.exponential(20.0, 20_000)
    room_ms = rng.uniform(0, 400.0, 20_000)
    recorded_ms = np.where(latency_ms > room_ms, latency_ms + 5000, latency_ms)
    truth_ms = 20.0 * np.log(20)
    result = percentile(_requests(recorded_ms, room_ms), 0.95)
    assert result.value_ms is not None and abs(result.value_ms / truth_ms - 1) < 0.05
    assert result.interval_ms is not None and result.interval_ms[0] < truth_ms < result.interval_ms[1]
    answered = latency_ms <= room_ms
    assert np.quantile(recorded_ms, 0.95) > 1.2 * truth_ms  # what counts all of them says
    assert np.quantile(recorded_ms[answered], 0.95) < 0.97 * truth_ms  # and what leaves them out


def test_windows_that_are_too_short_for_a_percentile_give_none() -> None:
    """With the reason, and the count of what had the room; the median may still be known."""
    rng = np.random.default_rng(1)
    latency_ms = rng.exponential(20.0, 5000)
    figures = distribution(_requests(latency_ms, rng.uniform(0, 60.0, 5000)))
    assert figures["p50"] is not None and figures["p99"] is None
    assert "until the next disturbance" in figures["reasons"]["p99"]


def test_windows_shorter_than_forty_times_a_percentile_give_none() -> None:
    """Each begins with a short queue, by the rule that begins it, and would end before that is forgotten."""
    latency_ms = np.random.default_rng(1).exponential(20.0, 5000)
    figures = distribution(_requests(latency_ms, np.full(5000, 400.0), length_ms=1000.0))
    assert figures["p50"] is not None and figures["p99"] is None
    assert "40 times as long" in figures["reasons"]["p99"]


def test_a_cut_percentile_whose_interval_is_not_known_is_none() -> None:
    """It may be far from the truth, and nothing would say so; of a load without a cut it stands, as the whole's."""
    slow = np.repeat(np.arange(4) == 2, 500)
    latency_ms = np.where(slow, 50.0, 5.0) + np.random.default_rng(1).random(2000)
    none = np.zeros(2000, np.int64)
    assert (
        percentile(Segmented(latency_ms, np.full(2000, np.inf), none, np.full(2000, 9e9)), 0.9).value_ms
        is not None
    )
    cut = percentile(_requests(latency_ms, np.full(2000, 1e6), length_ms=1e6), 0.9)
    assert cut.value_ms is None and cut.reason is not None and cut.reason.startswith("no interval")


def test_too_few_requests_and_failed_ones_have_the_reasons_of_the_whole() -> None:
    """The floors of samples, and the failures that a percentile may belong to."""
    latency_ms = np.random.default_rng(1).exponential(20.0, 700)
    figures = distribution(_requests(latency_ms, np.full(700, np.inf)), failed_ratio=0.002)
    assert figures["p999"] is None and "too few" in figures["reasons"]["p999"]
    assert figures["p99"] is None and "failed" in figures["reasons"]["p99"]
    assert figures["p95"] is not None


def test_segments_that_differ_widen_the_interval() -> None:
    """Each window has its own level, which the series as a whole shows too; they are clusters."""
    rng = np.random.default_rng(1)
    starts = np.arange(0, 20_000, 100)
    alike = rng.random(20_000) < 0.05
    slow = np.repeat(rng.random(200) < 0.1, 100) & (rng.random(20_000) < 0.5)
    assert spread_of_segments(alike, starts) == spread_of(alike)
    assert spread_of_segments(slow, starts).inflation > 20
    assert spread_of_segments(slow, starts[:5]) == spread_of(slow)
