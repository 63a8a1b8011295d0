"""What a result says of the quiet windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.quiet import Quiet
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND
from tests.unit.metrics.spent import measure

STEP_NS = 30_000_000


def recording(disturbed_s: float = 0.0) -> dict[tuple[str, str], Series]:
    """Twelve seconds; from the third on, server and others share the cores for so long."""
    t_ns = np.arange(0, 12 * SECOND, STEP_NS)
    busy = (t_ns > 3 * SECOND) & (t_ns <= (3 + disturbed_s) * SECOND)
    waits_s = np.where(busy, 0.015, 0.0)
    series = {
        ("wait", "server_longest_s"): Series(t_ns, waits_s),
        ("wait", "sender_longest_s"): Series(t_ns, waits_s),
    }
    return series | {("wait", "foreign_s_total"): Series(t_ns, np.cumsum(np.where(busy, 0.02, 0.0001)))}


def block(series: dict[tuple[str, str], Series], **changes: Any) -> dict[str, Any]:
    """Of 200 requests/s for 8 s."""
    found: dict[str, Any] = measure(series, **changes)["quiet"]
    return found


def test_undisturbed_the_quiet_figures_are_the_whole_ones() -> None:
    """All of the time and of the requests is kept."""
    summary = measure(recording())
    quiet, whole = summary["quiet"], summary["e2e_latency_ms"]
    assert (quiet["time_ratio"], quiet["request_ratio"], quiet["reason"]) == (1.0, 1.0, None)
    for name in ("p50", "p95", "p99"):
        assert FIGURES[f"quiet_{name}_ms"].stored(summary) == whole[name]


def test_coverage_says_how_much_is_left_and_what_was_cut() -> None:
    """Two of eight seconds are disturbed."""
    quiet = block(recording(disturbed_s=2.0))
    assert quiet["time_ratio"] == pytest.approx(0.75, abs=0.02)
    assert quiet["request_ratio"] == pytest.approx(0.75, abs=0.02)
    assert quiet["cut_s"]["wait for a core"] == pytest.approx(2.0, abs=0.1)
    assert quiet["windows"] == 2 and quiet["latency_ms"]["p99"] is not None


def test_too_little_left_is_null_with_the_reason() -> None:
    """The gaps between disturbances are no quiet machine."""
    quiet = block(recording(disturbed_s=6.8))
    assert quiet["latency_ms"] is None and "of the time only" in quiet["reason"]
    assert quiet["time_ratio"] < 0.2


def test_unwatched_waits_and_what_has_no_time_are_null_with_the_reason() -> None:
    """A foreign process on the GPU may have run at any time."""
    assert block({})["reason"] == "the waits for a core were not recorded over the whole of the window"
    finding = {"kind": "gpu_throttling", "quarantine": True, "text": "the GPU was held back: thermal"}
    measured = _measured(recording(), {"interference": {"findings": [finding]}})
    quiet = Quiet().compute(measured)
    assert quiet["latency_ms"] is None and "the GPU was held back" in quiet["reason"]


def test_what_is_withheld_of_the_whole_is_withheld_here() -> None:
    """A growing backlog is no disturbance, and no cut mends it."""
    withheld = {"e2e_latency_ms": {"withheld": {"p99": "the backlog grew"}}}
    figures = Quiet().compute(_measured(recording(), withheld))["latency_ms"]
    assert figures["p99"] is None and figures["ci95"]["p99"] is None
    assert figures["reasons"]["p99"] == "the backlog grew" and figures["p50"] is not None


def test_nothing_ranks_or_is_bounded_by_quiet_figures() -> None:
    """They stand beside the whole's and never in place of them."""
    for name in ("quiet_p50_ms", "quiet_p95_ms", "quiet_p99_ms"):
        assert FIGURES[name].better is None
        with pytest.raises(InputError, match="neither more nor less"):
            FIGURES.ranking(name)


def _measured(series: dict[tuple[str, str], Series], summary: dict[str, Any]) -> Measured:
    from benchmarks.noise.timelines import LOADS, window_of, work_of

    window = window_of(work_of(LOADS[1], 8.0, np.random.default_rng(1)), np.empty((0, 2)))
    return Measured(window, Recording(series, {}), summary, {"cores_logical": 2})
